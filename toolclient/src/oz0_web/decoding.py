"""Content codings undone with a bound inside the decoder, so that no bomb is ever held in memory.

Pure: bytes in, bytes out, at most `DECODED_PIECE_BYTES` at a time. Undoes gzip, deflate, br and zstd, what
`ACCEPT_ENCODING` asks for; any other coding is the site's fault. Called by `exchange`.
"""

from __future__ import annotations

import functools
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from oz0_web.faults import PeerBroke
from oz0_web.limits import CODING_WORK_FACTOR, CODINGS_MAX, DECODED_PIECE_BYTES

ACCEPT_ENCODING = "gzip, deflate, br, zstd"

_GZIP_WINDOW_BITS = 31
_ZLIB_WINDOW_BITS = 15
_RAW_WINDOW_BITS = -15
_WORK_BASE_BYTES = 1_048_576
# RFC 9659 section 3: over HTTP a frame needs no window above 8 MiB, and one that does is refused.
_ZSTD_WINDOW_LOG = 23


class Decoder(Protocol):
    """What undoes one coding."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Give what the bytes decode to, in pieces.

        Raises:
            PeerBroke: The bytes are not of this coding.
        """

    def check_end(self) -> None:
        """Say that nothing more comes.

        Raises:
            PeerBroke: The coded data is not complete.
        """


class Inflater:
    """Undoes gzip (RFC 1952) or deflate (RFC 9110 section 8.4.1.2) up to the first stream's end; the rest is dropped.

    A deflate body should be in the zlib format and is sent raw by some servers, so its first two bytes decide: they are
    a zlib header if the method is 8 and the pair is a multiple of 31 (RFC 1950 section 2.2).
    """

    def __init__(self, coding: str) -> None:
        """Take the coding's name, gzip or deflate."""
        self._coding = coding
        self._start = b""
        self._engine = zlib.decompressobj(_GZIP_WINDOW_BITS) if coding == "gzip" else None
        self._has_begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """See `Decoder.feed`."""
        self._has_begun = self._has_begun or bool(data)
        if self._engine is None:
            self._start += data
            if len(self._start) < 2:
                return
            data, self._start = self._start, b""
            is_zlib = data[0] & 0x0F == zlib.DEFLATED and int.from_bytes(data[:2], "big") % 31 == 0
            self._engine = zlib.decompressobj(_ZLIB_WINDOW_BITS if is_zlib else _RAW_WINDOW_BITS)
        is_full = False
        # A full piece may leave output inside the engine although all input is taken; asking with no input brings it
        # out.
        while (data or is_full) and not self._engine.eof:
            try:
                piece = self._engine.decompress(data, DECODED_PIECE_BYTES)
            except zlib.error as error:
                raise PeerBroke(f"its body is labelled {self._coding} and is not") from error
            data = self._engine.unconsumed_tail
            is_full = len(piece) == DECODED_PIECE_BYTES
            if piece:
                yield piece

    def check_end(self) -> None:
        """See `Decoder.check_end`. A body of no bytes at all passes: servers label empty bodies too."""
        if self._has_begun and (self._engine is None or not self._engine.eof):
            raise PeerBroke(f"its {self._coding} body ends before its time")


class Unbrotler:
    """Undoes br (RFC 7932) up to the stream's end; the rest is dropped."""

    def __init__(self) -> None:
        """Load the library, which only a body in this coding needs."""
        import brotli

        self._error = brotli.error
        self._engine = brotli.Decompressor()
        self._has_begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """See `Decoder.feed`."""
        self._has_begun = self._has_begun or bool(data)
        while not self._engine.is_finished():
            try:
                piece = self._engine.process(data, output_buffer_limit=DECODED_PIECE_BYTES)
            except self._error as error:
                raise PeerBroke("its body is labelled br and is not") from error
            data = b""  # taken in whole; what did not come out comes out of the next steps
            if not piece:
                return
            # A step may make half as much again as its limit.
            yield from (piece[at : at + DECODED_PIECE_BYTES] for at in range(0, len(piece), DECODED_PIECE_BYTES))

    def check_end(self) -> None:
        """See `Decoder.check_end`."""
        if self._has_begun and not self._engine.is_finished():
            raise PeerBroke("its br body ends before its time")


class Unzstandarder:
    """Undoes zstd (RFC 8878), frame after frame."""

    def __init__(self) -> None:
        """Load the library, which only a body in this coding needs."""
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
        self._error = zstd.ZstdError
        options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG}
        self._new: Callable[[], zstd.ZstdDecompressor] = functools.partial(zstd.ZstdDecompressor, options=options)
        self._engine = self._new()
        self._is_inside = False  # a frame that is not complete

    def feed(self, data: bytes) -> Iterator[bytes]:
        """See `Decoder.feed`."""
        while data or (self._is_inside and not self._engine.needs_input):
            self._is_inside = True
            try:
                piece = self._engine.decompress(data, max_length=DECODED_PIECE_BYTES)
            except self._error as error:
                raise PeerBroke("its body is labelled zstd and is not") from error
            data = b""
            if self._engine.eof:
                data, self._engine, self._is_inside = self._engine.unused_data, self._new(), False
            if piece:
                yield piece

    def check_end(self) -> None:
        """See `Decoder.check_end`."""
        if self._is_inside:
            raise PeerBroke("its zstd body ends before its time")


def _decoder(coding: str) -> Decoder:
    match coding:
        case "gzip" | "deflate":
            return Inflater(coding)
        case "br":
            return Unbrotler()
        case "zstd":
            return Unzstandarder()
        case _:
            raise PeerBroke(f"its body is coded as {coding[:40]!r}, which was not asked for")


def decoders(codings: Sequence[str]) -> tuple[Decoder, ...]:
    """Give what undoes the codings of a reply, in the order of use.

    Args:
        codings: The members of Content-Encoding in lower case, as they were applied.

    Returns:
        Decoders, the last coding's first; empty for an identity body.

    Raises:
        PeerBroke: A coding that was not asked for, or more layers than make sense.
    """
    applied = [coding.removeprefix("x-") for coding in codings if coding != "identity"]
    if len(applied) > CODINGS_MAX:
        raise PeerBroke(f"its body is coded {len(applied)} times over")
    return tuple(_decoder(coding) for coding in reversed(applied))


def decode(chain: Sequence[Decoder], data: bytes, work: Work) -> Iterator[bytes]:
    """Give what a piece of the body decodes to through all layers.

    Args:
        chain: From `decoders`.
        data: The next bytes of the body as sent.
        work: The account of this body.

    Raises:
        PeerBroke: Bad data, or layers that make far more than they give.
    """
    if not chain:
        if data:
            yield data
        return
    for piece in chain[0].feed(data):
        work.spend(len(piece))
        yield from decode(chain[1:], piece, work)


def check_end(chain: Iterable[Decoder]) -> None:
    """See `Decoder.check_end`, for all layers."""
    for decoder in chain:
        decoder.check_end()


class Work:
    """How many bytes all layers of one body may make together."""

    def __init__(self, wanted_bytes: int) -> None:
        """Take the byte limit of the body."""
        self._left = wanted_bytes * CODING_WORK_FACTOR + _WORK_BASE_BYTES

    def spend(self, count: int) -> None:
        """Count what a layer made.

        Raises:
            PeerBroke: More than any honest body of that limit needs.
        """
        self._left -= count
        if self._left < 0:
            raise PeerBroke("its compressed body inflates without end")
