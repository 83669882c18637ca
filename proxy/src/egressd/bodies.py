"""Cuts bodies by their framing, and frames them anew: a request's for its origin, a reply's for its client.

One object a body, told what arrives and answering with what goes on. Nothing beyond the body passes: what a client
sends after it is the next request, what an origin sends after it is nobody's reply. Holds no bytes but the ones it is
handed. Never waits. Called by the worker's exchange.
"""

from __future__ import annotations

from egressd.framing import LAST_CHUNK, BadFraming, Chunked, ChunkedReader, Framing, Length, UntilClose, encode_chunk


class RequestBody:
    """The body of one request.

    Attributes:
        done: Whether all of it has been here.
        rest: What followed it in the last chunk: the next request.
    """

    __slots__ = ("_chunks", "_left", "done", "rest")

    def __init__(self, framing: Framing) -> None:
        self._chunks = ChunkedReader() if isinstance(framing, Chunked) else None
        self._left = framing.size if isinstance(framing, Length) else 0
        self.done = self._chunks is None and not self._left
        self.rest = b""

    def reads(self, most: int) -> int:
        """How much may be read at once, at most `most`."""
        return most if self._chunks is None else self._chunks.reads(most)

    def cut(self, chunk: bytes) -> bytes | BadFraming:
        """What of `chunk` goes to the origin, framed for it; or that the body breaks its own framing."""
        if self._chunks is None:
            body = chunk[: self._left]
            self._left -= len(body)
            self.done = not self._left
            self.rest = chunk[len(body) :]
            return body
        cut = self._chunks.feed(chunk)
        if isinstance(cut, BadFraming):
            return cut
        payload, self.done = cut
        if not self.done:
            return encode_chunk(payload)
        self.rest = self._chunks.rest
        return encode_chunk(payload) + LAST_CHUNK


class ReplyBody:
    """The body of one reply, for a client of HTTP/1.`client_minor`.

    Attributes:
        done: Whether all of it has been here; never for one that ends with the connection, `end` says so.
        surplus: Whether the origin has sent more than its reply: its connection is spent.
        until_close: Whether the origin's close is the regular end.
    """

    __slots__ = ("_chunks", "_client_minor", "_left", "done", "surplus", "until_close")

    def __init__(self, framing: Framing, *, client_minor: int) -> None:
        self._chunks = ChunkedReader() if isinstance(framing, Chunked) else None
        self._left = framing.size if isinstance(framing, Length) else 0
        self._client_minor = client_minor
        self.until_close = isinstance(framing, UntilClose)
        self.done = not self.until_close and self._chunks is None and not self._left
        self.surplus = False

    def reads(self, most: int) -> int:
        """How much may be read at once, at most `most`."""
        return most if self._chunks is None else self._chunks.reads(most)

    def cut(self, chunk: bytes | memoryview) -> bytes | memoryview | BadFraming:
        """What of `chunk` goes to the client, framed for it; or that the body breaks its own framing."""
        if self._chunks is not None:
            return self._cut_chunks(self._chunks, chunk)
        if self.until_close:
            return chunk
        size = len(chunk)
        if size > self._left:
            self.surplus = True
            chunk, size = chunk[: self._left], self._left
        self._left -= size
        self.done = not self._left
        return chunk

    def _cut_chunks(self, chunks: ChunkedReader, chunk: bytes | memoryview) -> bytes | BadFraming:
        if self.done:
            self.surplus = self.surplus or bool(chunk)
            return b""
        cut = chunks.feed(chunk) if chunk else (b"", False)
        if isinstance(cut, BadFraming):
            return cut
        payload, self.done = cut
        self.surplus = bool(chunks.rest)
        if not self._client_minor:
            return payload
        return encode_chunk(payload) + LAST_CHUNK if self.done else encode_chunk(payload)
