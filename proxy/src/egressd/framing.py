"""Decides how a body ends, and cuts chunked bodies: by one reading of the head, or a refusal where there could be two.

Everything that two readers could take in two ways is refused in both directions: both lengths, a repeated or odd
Content-Length, any Transfer-Encoding but exactly `chunked`, either of them where HTTP/1.0 has none. RFC 9112 would let
some of these pass and be mended; every such mending has been somebody's request smuggling (cases F4, F5, F8, F9).

Bodies are cut and framed anew: chunk extensions and trailers go no further than here. Holds no body bytes but the ones
it is handed. Never waits. Called by the worker's exchange.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from egress_policy.reasons import ErrorType, Reason
from egressd.http_head import Fields, ReplyHead, RequestHead
from egressd.limits import CHUNKED_READ_BYTES, HEAD_MAX_BYTES

LAST_CHUNK: Final = b"0\r\n\r\n"

# 18 digits are below 2**63, and more than any body.
_LENGTH = re.compile(rb"[0-9]{1,18}")
# RFC 9112 section 7.1. Eight digits are 4 GiB a chunk; more of them have overflowed other readers (case F9).
_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
_QUOTED = rb'"(?:[\t \x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*"'
_EXTENSION = rb"[ \t]*+;[ \t]*+" + _TOKEN + rb"++(?:[ \t]*+=[ \t]*+(?:" + _TOKEN + rb"++|" + _QUOTED + rb"))?"
_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,8})(?:" + _EXTENSION + rb")*\r\n")
_TRAILER_LINE = re.compile(_TOKEN + rb"++:[\t\x20-\x7e\x80-\xff]*+\r\n")
_LINE = re.compile(rb"[^\n]*+\n")
_EMPTY_LINE = b"\r\n"
# A size with its extensions. hyper 16 KiB, Go 4 KiB; nobody here uses what is in them.
_LINE_MAX_BYTES = 4096


@dataclass(frozen=True, slots=True)
class NoBody:
    """Nothing follows the head."""


@dataclass(frozen=True, slots=True)
class Chunked:
    """Chunks follow, up to the last one."""


@dataclass(frozen=True, slots=True)
class UntilClose:
    """The body ends with the connection; replies only."""


class Length(NamedTuple):
    """So many bytes follow."""

    size: int


class BadFraming(NamedTuple):
    """A body that could be read in two ways, or breaks its own framing. `error` is set for replies."""

    reason: Reason
    detail: str
    error: ErrorType | None = None


Framing = NoBody | Length | Chunked | UntilClose

_NO_BODY = NoBody()
_CHUNKED = Chunked()
_UNTIL_CLOSE = UntilClose()
_BOTH = "both Content-Length and Transfer-Encoding"
_ODD_CODING = "a Transfer-Encoding other than chunked alone"
_OLD_CODING = "Transfer-Encoding in HTTP/1.0"
_ODD_LENGTH = "a Content-Length that is not one number of digits"


def _lengths(fields: Fields) -> tuple[bytes | None, bytes | None]:
    """The values of Content-Length and Transfer-Encoding; a repeated one is empty, which no grammar accepts."""
    length: bytes | None = None
    coding: bytes | None = None
    for name, value in fields:
        if name == b"content-length":
            length = b"" if length is not None else value
        elif name == b"transfer-encoding":
            coding = b"" if coding is not None else value
    return length, coding


def request_framing(head: RequestHead) -> Framing | BadFraming:
    """How a request's body ends.

    Content-Length on CONNECT is ignored: what follows its head belongs to the tunnel. Transfer-Encoding there is
    refused (case E9).

    Source: RFC 9112 section 6.3, RFC 9110 section 9.3.6.
    """
    length, coding = _lengths(head.fields)
    if coding is None:
        if length is None or head.method == "CONNECT":
            return _NO_BODY
        if _LENGTH.fullmatch(length) is None:
            return BadFraming(Reason.AMBIGUOUS_FRAMING, _ODD_LENGTH)
        return Length(int(length))
    if length is not None:
        return BadFraming(Reason.AMBIGUOUS_FRAMING, _BOTH)
    if not head.minor or head.method == "CONNECT":
        return BadFraming(Reason.AMBIGUOUS_FRAMING, _OLD_CODING if not head.minor else "Transfer-Encoding on CONNECT")
    if coding.lower() != b"chunked":
        return BadFraming(Reason.AMBIGUOUS_FRAMING, _ODD_CODING)
    return _CHUNKED


def reply_framing(head: ReplyHead, *, request_method: str, status: int) -> Framing | BadFraming:
    """How a reply's body ends.

    Replies that never have a body (to HEAD, 1xx, 204, 304) have none here, whatever their fields say; what an origin
    sends after them all the same is nobody's reply, and its connection is spent. Their fields are still held to the
    grammar, since a Content-Length on a reply to HEAD is passed on.

    Args:
        request_method: Of the request that this answers.
        status: Of the reply.

    Source: RFC 9112 section 6.3.
    """
    length, coding = _lengths(head.fields)
    if length is not None and _LENGTH.fullmatch(length) is None:
        return _bad_reply(_ODD_LENGTH)
    if coding is not None:
        if length is not None:
            return _bad_reply(_BOTH)
        if not head.minor:
            return _bad_reply(_OLD_CODING)
        if coding.lower() != b"chunked":
            return _bad_reply(_ODD_CODING, ErrorType.HTTP_RESPONSE_TRANSFER_CODING)
    if request_method == "HEAD" or status < 200 or status in {204, 304}:
        return _NO_BODY
    if coding is not None:
        return _CHUNKED
    return _UNTIL_CLOSE if length is None else Length(int(length))


def _bad_reply(detail: str, error: ErrorType = ErrorType.HTTP_PROTOCOL_ERROR) -> BadFraming:
    return BadFraming(Reason.UPSTREAM_FAILED, detail, error)


class _At(Enum):
    SIZE = "a size line comes next"
    DATA = "inside a chunk's data"
    DATA_END = "the CRLF after a chunk's data comes next"
    TRAILER = "a trailer or the last empty line comes next"


_BAD_SIZE = BadFraming(Reason.AMBIGUOUS_FRAMING, "a chunk whose size line breaks the grammar")
_BAD_END = BadFraming(Reason.AMBIGUOUS_FRAMING, "a chunk that does not end where its size says")
_BAD_TRAILER = BadFraming(Reason.AMBIGUOUS_FRAMING, "a trailer that breaks the grammar, or too many of them")


class ChunkedReader:
    """Cuts the payload out of a chunked body, for one message.

    Attributes:
        rest: What follows the body, once it has ended.
    """

    __slots__ = ("_at", "_left", "_line", "_trailer_bytes", "rest")

    def __init__(self) -> None:
        self._at = _At.SIZE
        self._left = 0
        self._line = b""
        self._trailer_bytes = 0
        self.rest = b""

    def reads(self, most: int) -> int:
        """How much may be read at once, at most `most`: few bytes where each could be a chunk of its own."""
        return min(most, max(CHUNKED_READ_BYTES, self._left))

    def feed(self, chunk: bytes | memoryview) -> tuple[bytes, bool] | BadFraming:
        """Take what has arrived.

        Args:
            chunk: The next bytes of the stream; to be called until the body has ended or is bad. A view may be reused
                by its owner afterwards.

        Returns:
            The payload in `chunk`, and whether the body has ended; or what is wrong. Reasons are those of a request; in
            a reply, the same faults are upstream-failed.

        Source: RFC 9112 section 7.1.
        """
        size = len(chunk)
        if self._left > size:  # the common case of a big chunk: nothing to look at
            self._left -= size
            return (chunk if isinstance(chunk, bytes) else bytes(chunk)), False
        view = memoryview(chunk)
        pieces: list[memoryview] = []
        at = 0
        while at < size:
            if self._at is _At.DATA:
                piece = view[at : at + self._left]
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                if not self._left:
                    self._at = _At.DATA_END
                continue
            limit = len(_EMPTY_LINE) if self._at is _At.DATA_END else _LINE_MAX_BYTES
            limit -= len(self._line)
            found = _LINE.match(chunk, at, at + limit)
            if found is None:
                if size - at >= limit:
                    return self._fault()
                self._line += view[at:]
                break
            at = found.end()
            line, self._line = self._line + found[0], b""
            if self._at is _At.TRAILER and line == _EMPTY_LINE:
                self.rest = bytes(view[at:])
                return b"".join(pieces), True
            if not self._take(line):
                return self._fault()
        return b"".join(pieces), False

    def _take(self, line: bytes) -> bool:
        """Move on by one line; whether it is what had to come."""
        if self._at is _At.SIZE:
            sized = _SIZE_LINE.fullmatch(line)
            if sized is None:
                return False
            self._left = int(sized[1], 16)
            self._at = _At.DATA if self._left else _At.TRAILER
            return True
        if self._at is _At.DATA_END:
            self._at = _At.SIZE
            return line == _EMPTY_LINE
        self._trailer_bytes += len(line)
        return self._trailer_bytes <= HEAD_MAX_BYTES and _TRAILER_LINE.fullmatch(line) is not None

    def _fault(self) -> BadFraming:
        if self._at is _At.SIZE:
            return _BAD_SIZE
        return _BAD_TRAILER if self._at is _At.TRAILER else _BAD_END


def encode_chunk(payload: bytes | memoryview) -> bytes:
    """One chunk of a body; nothing for an empty payload, since an empty chunk would end the body.

    Source: RFC 9112 section 7.1.
    """
    return b"".join((b"%x\r\n" % len(payload), payload, b"\r\n")) if payload else b""
