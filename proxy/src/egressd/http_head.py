"""Decides what a head says: bytes of a request or of a reply to one value, whole and once, by a strict ASCII grammar.

The value is then used for judging, looking up, dialing, logging and rebuilding; nothing is taken from the raw bytes
afterwards, so no two parts of the proxy can read one head in two ways. What the grammar does not say is refused: no
continuation lines, no white space before a colon, no CR or LF alone, no other control byte.

Reads are linear in bytes and in reads. A fresh head that ends where its chunk ends is examined once, any other at most
twice: once to find its end, by an automaton that remembers what it has seen, and once to take it apart. No expression
here has two quantifiers side by side that could share a byte (a naive one took 5.45 s for 60 KB of spaces).

Never waits, judges no target, decides no framing. Called by the worker's connection and exchange.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from enum import Enum
from typing import ClassVar, Final, Generic, NamedTuple, TypeVar

from egress_policy.reasons import ErrorType, Reason
from egressd.limits import HEAD_MAX_BYTES, HEAD_MAX_FIELDS

# RFC 9110 section 5.6.2: token.
_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
# RFC 9110 section 5.5: field-vchar, SP, HTAB. obs-text passes as it is.
_TEXT = rb"[\t\x20-\x7e\x80-\xff]"
# RFC 9112 section 3; one empty line before it is skipped (section 2.2).
_REQUEST_LINE = re.compile(rb"(?:\r\n)?(" + _TOKEN + rb"++) ([\x21-\x7e]++) HTTP/([0-9](?:\.[0-9])?+)\r\n")
# RFC 9112 section 4; some origins leave out the space before an empty phrase.
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: (" + _TEXT + rb"*+))?\r\n")
# One field line, or the rest from the first line that is none. So findall() leaves no gap, and the first line that does
# not fit is the last match, with an empty name.
_FIELD_LINES = re.compile(rb"(" + _TOKEN + rb"++):(" + _TEXT + rb"*+)\r\n|(?s:.++)")
_FIELD_SEPARATORS = len(b":\r\n")
# Text lines up to what ends them. The groups that need \Z tell how much of CRLF CRLF stands at the end of what is here.
_LINES = re.compile(
    _TEXT + rb"*+(?:\r\n" + _TEXT + rb"++)*+(?:(\r\Z)|(\r\n\Z)|(\r\n\r\Z)|(\r\n\r\n)|(\Z)|(\r\n))?",
)
_LINES_END = 4  # the group of CRLF CRLF; the three before it are numbered by the bytes of it that they have seen
_LINES_OPEN = 5  # the group of a line that goes on
_HEAD_END = b"\r\n\r\n"
_IS_TEXT = bytes(byte == 9 or (32 <= byte != 127) for byte in range(256))
_MINORS = {b"1.1": 1, b"1.0": 0}
_METHODS = {
    name.encode("ascii"): name
    for name in ("CONNECT", "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE")
}

Fields = tuple[tuple[bytes, bytes], ...]
_Buffer = bytes | bytearray


class NeedMore(Enum):
    """The type of `NEED_MORE`: the head has not ended yet, and nothing says that it is bad."""

    NEED_MORE = "need more"


NEED_MORE: Final = NeedMore.NEED_MORE


class BadHead(NamedTuple):
    """A head that the grammar does not accept. `detail` is fixed text; `error` is set for replies."""

    reason: Reason
    detail: str
    error: ErrorType | None = None


class RequestHead(NamedTuple):
    """A request's head. Names of fields are in lower case, values without white space around them, in their order."""

    method: str
    target: bytes
    minor: int
    fields: Fields

    def get_all(self, name: bytes) -> list[bytes]:
        """All values of a field, by its name in lower case."""
        return [value for found, value in self.fields if found == name]


class ReplyHead(NamedTuple):
    """A reply's head, interim ones (1xx) included. `phrase` is the origin's own text, which is never passed on."""

    status: int
    minor: int
    phrase: bytes
    fields: Fields

    def get_all(self, name: bytes) -> list[bytes]:
        """All values of a field, by its name in lower case."""
        return [value for found, value in self.fields if found == name]


_Head = TypeVar("_Head", RequestHead, ReplyHead)
# A named tuple made without its own Python-level constructor: 0.2 us of a head's 4.
_made = tuple.__new__


class _Reader(ABC, Generic[_Head]):
    """What both readers share: finding the end of a head in any split of its bytes, and its fields.

    Attributes:
        rest: What follows the head, once there is one; empty before, and after a bad head.
        examined: Bytes handed to a search or to an expression so far.
    """

    __slots__ = ("_buffer", "_max_bytes", "_max_fields", "_scanned", "_seen", "examined", "rest")
    _bad_field: ClassVar[BadHead]
    _bad_fold: ClassVar[BadHead]
    _too_large: ClassVar[BadHead]

    def __init__(self, max_bytes: int = HEAD_MAX_BYTES, max_fields: int = HEAD_MAX_FIELDS) -> None:
        self._max_bytes = max_bytes
        self._max_fields = max_fields
        self._buffer: bytearray | None = None
        self.rest = b""
        self.examined = 0

    def feed(self, chunk: bytes) -> _Head | NeedMore | BadHead:
        """Take what has arrived.

        Args:
            chunk: The next bytes of the stream, at least one. To be called until it answers, and not after that.

        Returns:
            The head, `NEED_MORE`, or what is wrong with it: the same in any split of the stream. An answer comes
            with the first byte that ends the head, is outside the grammar's bytes, or is one too many.
        """
        buffer = self._buffer
        if buffer is None:
            size = len(chunk)
            if chunk.endswith(_HEAD_END) and size <= self._max_bytes:
                self.examined = size + 2  # four bytes above, and all but the last CRLF in _parse
                return self._parse(chunk, size - 2)
            self._scanned = self._seen = 0
            return self._search(chunk) or self._keep(chunk)
        buffer += chunk
        return self._search(buffer) or NEED_MORE

    def _keep(self, chunk: bytes) -> NeedMore:
        self._buffer = bytearray(chunk)
        return NEED_MORE

    def _search(self, buffer: _Buffer) -> _Head | BadHead | None:
        """Look for the end of the head in what is new, and take the head apart if it is there."""
        stop = min(len(buffer), self._max_bytes)
        at = start = self._scanned
        seen = self._seen
        while seen and at < stop:
            byte = buffer[at]
            at += 1
            if byte == _HEAD_END[seen]:
                seen += 1
                if seen == len(_HEAD_END):
                    return self._end(buffer, at - 2, at - start)
            elif seen == 2 and _IS_TEXT[byte]:
                seen = 0
            else:
                return self._end(buffer, at, at - start)
        if at < stop:
            lines = _LINES.match(buffer, at, stop)
            assert lines is not None  # noqa: S101 - every part of the expression may be empty
            at = lines.end()
            seen = lines.lastindex or 0
            if seen == _LINES_END:
                return self._end(buffer, at - 2, at - start)
            if not seen or seen > _LINES_OPEN:  # a byte that belongs into no head: one look at it, and one behind CR
                return self._end(buffer, at + 1, min(at + 2, stop) - start)
            seen %= _LINES_OPEN
        self.examined += at - start
        if at == self._max_bytes:
            return self._too_large
        self._scanned = at
        self._seen = seen
        return None

    def _end(self, buffer: _Buffer, end: int, looked: int) -> _Head | BadHead:
        self.examined += looked + end
        return self._parse(buffer, end)

    @abstractmethod
    def _parse(self, buffer: _Buffer, end: int) -> _Head | BadHead:
        """Take `buffer[:end]` apart: the lines of a whole head, or all up to the first byte that belongs into none."""

    def _fields(self, buffer: _Buffer, start: int, end: int) -> Fields | BadHead:
        """The field lines from `start`; keeps what follows them as `rest`."""
        found = _FIELD_LINES.findall(buffer, start, end)
        if found and not found[-1][0]:
            found.pop()
            end = start + sum([len(name) + len(value) + _FIELD_SEPARATORS for name, value in found])
            if buffer[end : end + 2] != b"\r\n":
                return self._bad_fold if buffer[end] in b" \t" else self._bad_field
            self.examined = len(_HEAD_END) + end + 2  # the chunk ended with a later head than this
        if len(found) > self._max_fields:
            return self._too_large
        end += 2
        if end < len(buffer):
            self.rest = bytes(buffer[end:])
        return tuple([(name.lower(), value.strip()) for name, value in found])


class HeadReader(_Reader[RequestHead]):
    """Reads the head of one request.

    Source: RFC 9112 sections 2 to 5.
    """

    __slots__ = ()
    _bad_line = BadHead(Reason.MALFORMED_REQUEST_LINE, "the first line is not METHOD SP target SP HTTP/1.1")
    _bad_version = BadHead(Reason.UNSUPPORTED_VERSION, "only HTTP/1.1 and HTTP/1.0 are spoken here")
    _bad_field = BadHead(Reason.MALFORMED_HEADER, "a field line is not a name, a colon and a value in allowed bytes")
    _bad_fold = BadHead(Reason.MALFORMED_HEADER, "a field line continues the line before it")
    _too_large = BadHead(Reason.HEAD_TOO_LARGE, "the head has too many bytes or too many fields")

    def _parse(self, buffer: _Buffer, end: int) -> RequestHead | BadHead:
        line = _REQUEST_LINE.match(buffer, 0, end)
        if line is None:
            return self._bad_line
        method, target, version = line.groups()
        minor = _MINORS.get(version)
        if minor is None:
            return self._bad_version
        fields = self._fields(buffer, line.end(), end)
        if isinstance(fields, BadHead):
            return fields
        known = _METHODS.get(method) or method.decode("ascii")
        return _made(RequestHead, (known, target, minor, fields))


class ReplyReader(_Reader[ReplyHead]):
    """Reads the head of one reply, interim ones included; each has a reader of its own.

    Source: RFC 9112 sections 2, 4 and 5.
    """

    __slots__ = ()
    _bad_line = BadHead(
        Reason.UPSTREAM_FAILED, "the first line is no HTTP/1 status line", ErrorType.HTTP_PROTOCOL_ERROR
    )
    _bad_field = BadHead(
        Reason.UPSTREAM_FAILED,
        "a field line is not a name, a colon and a value in allowed bytes",
        ErrorType.HTTP_PROTOCOL_ERROR,
    )
    _bad_fold = BadHead(
        Reason.UPSTREAM_FAILED, "a field line continues the line before it", ErrorType.HTTP_PROTOCOL_ERROR
    )
    _too_large = BadHead(
        Reason.UPSTREAM_FAILED,
        "the head has too many bytes or too many fields",
        ErrorType.HTTP_RESPONSE_HEADER_SECTION_SIZE,
    )

    def _parse(self, buffer: _Buffer, end: int) -> ReplyHead | BadHead:
        line = _STATUS_LINE.match(buffer, 0, end)
        if line is None:
            return self._bad_line
        minor, status, phrase = line.groups()
        fields = self._fields(buffer, line.end(), end)
        if isinstance(fields, BadHead):
            return fields
        return _made(ReplyHead, (int(status), 1 if minor == b"1" else 0, phrase or b"", fields))
