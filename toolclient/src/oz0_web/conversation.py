"""One HTTP/1.1 request and its reply on one stream, by h11: ask, read the head, read the body piece by piece.

Knows nothing of proxies, TLS, redirects or time: the stream comes in, deadlines are the caller's cancel scopes, and
what a broken message means is said by whoever knows which peer sent it. Used by `tunnel` for CONNECT, by `grants` and
by `exchange`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable

import h11
import trio

from oz0_web.faults import PeerBroke, PeerCut
from oz0_web.limits import HEAD_MAX_BYTES, INTERIM_MAX_REPLIES, READ_PIECE_BYTES
from oz0_web.replies import ReplyHead

# h11's hint for a head that outgrew its buffer: 431, Request Header Fields Too Large (RFC 6585 section 5).
_FAULT_MAX_CHARS = 120
_HEAD_TOO_LARGE = 431


class Conversation:
    """The client's half of one connection."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        """Take a fresh stream; closing it stays the caller's business."""
        self._stream = stream
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_MAX_BYTES)
        self._wire_bytes = 0
        self._ended = False

    @property
    def wire_bytes(self) -> int:
        """How many bytes were read from the stream so far, framing included."""
        return self._wire_bytes

    @property
    def early_bytes(self) -> bytes:
        """What came after the head of a 2xx reply to CONNECT, unread."""
        return self._http.trailing_data[0]

    async def ask(self, method: str, target: str, fields: Iterable[tuple[str, str]]) -> ReplyHead:
        """Send a request without a body and read the final reply's head.

        Args:
            method: CONNECT, GET or HEAD.
            target: The request-target, ASCII.
            fields: Name and value, Host among them.

        Returns:
            The head of the first reply that is not interim.

        Raises:
            PeerBroke: What came is not HTTP/1.1, or its head is too large.
            PeerCut: The peer closed or reset before the head was complete.
        """
        request = h11.Request(method=method, target=target, headers=list(fields))
        await self._send(self._http.send(request) + self._http.send(h11.EndOfMessage()))
        for _ in range(INTERIM_MAX_REPLIES):
            event = await self._next_event()
            if isinstance(event, h11.Response):
                fields_read = tuple((bytes(name), bytes(value)) for name, value in event.headers)
                return ReplyHead(event.status_code, event.reason.decode("utf-8", "replace"), fields_read)
            if not isinstance(event, h11.InformationalResponse):
                raise PeerCut("the connection ended before a reply")
        raise PeerBroke(f"more than {INTERIM_MAX_REPLIES} interim replies and no final one")

    async def body(self) -> AsyncGenerator[bytes, None]:
        """Give the body's payload as it arrives.

        Raises:
            PeerBroke: The framing is broken.
            PeerCut: The connection ended before the framing said so.
        """
        while True:
            event = await self._next_event()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            else:
                return

    async def _send(self, data: bytes) -> None:
        try:
            await self._stream.send_all(data)
        except trio.BrokenResourceError:
            # The peer may have answered and closed before it read everything; the answer is what matters, and if there
            # is none then reading says so (RFC 9112 section 9.5).
            return

    async def _next_event(self) -> h11.Event | type[h11.NEED_DATA | h11.PAUSED]:
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                raise self._fault(error) from error
            if event is not h11.NEED_DATA:
                return event
            try:
                data = await self._stream.receive_some(READ_PIECE_BYTES)
            except trio.BrokenResourceError as error:
                raise PeerCut(f"the connection broke after {self._wire_bytes} bytes of the reply") from error
            self._wire_bytes += len(data)
            self._ended = not data
            self._http.receive_data(bytes(data))

    def _fault(self, error: h11.RemoteProtocolError) -> PeerBroke | PeerCut:
        # h11 has one exception for a message that is wrong and for one that was cut; only the latter waits for the end.
        if self._ended:
            return PeerCut(f"the connection ended after {self._wire_bytes} bytes of the reply")
        if error.error_status_hint == _HEAD_TOO_LARGE:
            return PeerBroke(f"its head or framing is longer than {HEAD_MAX_BYTES} bytes")
        # What follows the colon is the peer's own bytes, and they would be read as this tool's words.
        text = str(error).partition(":")[0][:_FAULT_MAX_CHARS]
        return PeerBroke(text[:1].lower() + text[1:])
