"""One plain request and its reply: forwarded head, bodies both ways, and the connection kept or ended after it.

The request's bytes go to the origin only as `forwarding` built its head and `framing` cut its body; the reply's go to
the client the same way, so neither side sees a byte that was not understood. Bodies stream, and whoever is slower sets
the pace. A reply that breaks off is ended with a reset, never with a clean close; before the first byte of a reply is
out, what goes wrong is a refusal with its reason.

Made by a connection for each allowed plain request. Decides nothing about policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from egress_policy.reasons import ErrorType, Reason, Refusal, Stage
from egressd import forwarding, framing
from egressd.framing import BadFraming, Chunked, ChunkedReader, Length, NoBody, UntilClose
from egressd.http_head import NEED_MORE, BadHead, ReplyReader
from egressd.limits import EARLY_MAX_BYTES
from egressd.worker.dialer import DialFault
from egressd.worker.poller import BROKEN, IN, OUT
from egressd.worker.pool import Upstream
from egressd.worker.tunnel import reset

if TYPE_CHECKING:
    import socket

    from egressd.framing import Framing
    from egressd.http_head import ReplyHead, RequestHead
    from egressd.judge import Asked
    from egressd.pinning import PinnedTarget, Place
    from egressd.worker.connection import Connection

_READ_BYTES = 65_536
# A request that may be sent again when an idle connection turns out to be dead (RFC 9110 section 9.2.2), bodies aside.
_RETRIED = frozenset({"GET", "HEAD", "OPTIONS"})
_FIRST_FINAL = 200


class Exchange:
    """One request under way.

    Attributes:
        up, down: Bytes of bodies and heads passed to the origin and to the client.
        status: Of the final reply, once it is there.
    """

    __slots__ = (
        "_chunks",
        "_connection",
        "_core",
        "_down_pending",
        "_framing",
        "_head",
        "_keep",
        "_key",
        "_last",
        "_left",
        "_pinned",
        "_reader",
        "_reply_body",
        "_reply_chunks",
        "_reply_done",
        "_reply_left",
        "_request_done",
        "_reuse",
        "_up_pending",
        "_upstream",
        "address",
        "complete",
        "done",
        "down",
        "status",
        "up",
    )

    @staticmethod
    def unfit(head: RequestHead, asked: Asked) -> Refusal | None:
        """Why a plain request cannot be forwarded, before anything is resolved for it."""
        body = framing.request_framing(head)
        if isinstance(body, BadFraming):
            return Refusal(body.reason, Stage.PARSE, asked.target)
        if asked.path is None:
            return Refusal(Reason.NOT_A_PROXY_REQUEST, Stage.PARSE, asked.target)
        made = forwarding.forwarded_request(head, asked.target, asked.path, body)
        return made if isinstance(made, Refusal) else None

    def __init__(self, connection: Connection, head: RequestHead, pinned: PinnedTarget) -> None:
        self._connection = connection
        self._core = connection.core
        self._head = head
        self._pinned = pinned
        self._key = (connection.channel.name, pinned.target.authority)
        body = framing.request_framing(head)
        assert not isinstance(body, BadFraming)  # noqa: S101 - unfit() has refused it
        self._framing: Framing = body
        self._upstream: Upstream | None = None
        self._up_pending = b""
        self._down_pending = b""
        self._left = body.size if isinstance(body, Length) else 0
        self._chunks = ChunkedReader() if isinstance(body, Chunked) else None
        self._request_done = isinstance(body, NoBody) or (isinstance(body, Length) and not body.size)
        self._reader = ReplyReader()
        self._reply_body: Framing | None = None
        self._reply_chunks: ChunkedReader | None = None
        self._reply_left = 0
        self._reply_done = False
        self._keep = forwarding.wants_keep_alive(head)
        self._reuse = False
        self._last = self._core.poller.now
        self.address: str | None = None
        self.complete = False
        self.done = False
        self.status = 0
        self.up = 0
        self.down = 0

    # To the origin

    def start(self) -> None:
        """Take an idle connection to a pinned place, or dial one."""
        upstream = self._core.pool.take(self._key, self._pinned)
        if upstream is not None:
            self._send_request(upstream)
        else:
            self._connection.start_dial(self._pinned, self._connected)

    def _connected(self, result: socket.socket | DialFault, place: Place | None) -> None:
        connection = self._connection
        connection.dial = None
        if isinstance(result, DialFault) or place is None:
            error = result.error if isinstance(result, DialFault) else None
            self._refuse(Refusal(Reason.DIAL_FAILED, Stage.DIAL, self._pinned.target, error=error))
            return
        refusal = connection.recheck(place)
        if refusal is not None:
            result.close()
            self._refuse(refusal)
            return
        self._send_request(Upstream(self._core, result, place, self._key))

    def _send_request(self, upstream: Upstream) -> None:
        """Send the head built anew, and what is already here of the body."""
        asked = self._connection.asked
        assert asked is not None  # noqa: S101 - there is a request
        assert asked.path is not None  # noqa: S101 - a plain one
        made = forwarding.forwarded_request(self._head, asked.target, asked.path, self._framing)
        if isinstance(made, Refusal):
            upstream.close()
            self._refuse(made)
            return
        self._upstream = upstream
        self.address = upstream.place.sockaddr[0]
        self._last = self._core.poller.now
        handlers = self._core.poller.handlers
        handlers[upstream.sock.fileno()] = self.on_upstream
        handlers[self._connection.sock.fileno()] = self.on_client
        connection = self._connection
        self._core.sweep.arm(connection, self._last + self._core.limits.reply_head_timeout_seconds)
        if self._request_done:
            data = made
        else:
            early, connection.early = connection.early, b""
            body = self._cut(early)
            if body is None:
                return
            if connection.client_ended and not self._request_done:
                connection.abort()  # the request broke off: its origin must not see a part of it
                return
            data = made + body
        self._write_up(data)
        if not self.done:
            self._update()

    def _cut(self, chunk: bytes) -> bytes | None:
        """The part of `chunk` that is this request's body, framed for the origin; the rest is the next request's.

        Returns:
            Bytes for the origin; None when the body breaks its framing, and the exchange is over.
        """
        if self._chunks is not None:
            cut = self._chunks.feed(chunk)
            if isinstance(cut, BadFraming):
                self._fail(Refusal(cut.reason, Stage.PARSE, self._pinned.target))
                return None
            payload, ended = cut
            out = framing.encode_chunk(payload) if payload else b""
            if ended:
                self._request_done = True
                self._connection.early = self._chunks.rest
                out += framing.LAST_CHUNK
            return out
        body = chunk[: self._left]
        self._left -= len(body)
        if not self._left:
            self._request_done = True
            self._connection.early = chunk[len(body) :]
        return body

    def _write_up(self, data: bytes) -> None:
        upstream = self._upstream
        assert upstream is not None  # noqa: S101 - only called with one
        if not data:
            return
        try:
            sent = upstream.sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._upstream_broken()
            return
        self.up += len(data)
        if sent < len(data):
            self._up_pending = data[sent:]

    def on_client(self, events: int) -> None:
        """The client can take more of the reply, sends more of the request, or is gone."""
        if events & OUT and self._down_pending and not self._flush_down():
            return
        if self.done or not events & ~OUT:
            return
        connection = self._connection
        if self._up_pending or connection.client_ended or len(connection.early) >= EARLY_MAX_BYTES:
            if events & BROKEN:
                connection.abort()
            return
        try:
            chunk = connection.sock.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            connection.abort()
            return
        self._last = self._core.poller.now
        if not chunk:
            if not self._request_done:
                connection.abort()  # the request broke off: its origin must not take it for a whole one
                return
            connection.client_ended = True
        elif self._request_done:
            connection.early += chunk
        else:
            body = self._cut(chunk)
            if body is None:
                return
            self._write_up(body)
        if not self.done:
            self._update()

    # From the origin

    def on_upstream(self, events: int) -> None:
        """The origin can take more of the request, sends more of the reply, or is gone."""
        upstream = self._upstream
        if upstream is None:
            return
        if events & OUT and self._up_pending:
            try:
                self._up_pending = self._up_pending[upstream.sock.send(self._up_pending) :]
            except BlockingIOError:
                pass
            except OSError:
                self._upstream_broken()
                return
            self._last = self._core.poller.now
            if not self._up_pending:
                self._update()
        if not events & ~OUT:
            return
        if self._down_pending:
            if events & BROKEN:
                upstream.want(0)  # what it has sent is read once the client has taken what waits
            return
        view = self._core.view
        try:
            size = upstream.sock.recv_into(view)
        except BlockingIOError:
            return
        except OSError:
            self._upstream_broken()
            return
        self._last = self._core.poller.now
        if not size:
            self._upstream_ended()
        elif self._reply_body is None:
            self._reply_head(bytes(view[:size]))
        else:
            self._pass_down(view[:size])

    def _reply_head(self, chunk: bytes) -> None:
        """Read the reply's head; interim replies are passed on as they are."""
        while True:
            head = self._reader.feed(chunk)
            if head is NEED_MORE:
                return
            if isinstance(head, BadHead):
                self._fail(self._upstream_failed(head.error or ErrorType.HTTP_PROTOCOL_ERROR))
                return
            rest = self._reader.rest
            if head.status >= _FIRST_FINAL:
                break
            if (unfit := forwarding.unfit_reply(head, self._pinned.target)) is not None:
                self._fail(unfit)
                return
            interim = forwarding.forwarded_reply(head, NoBody(), keep_alive=True, client_minor=self._head.minor)
            if interim:
                self._write_down(interim)
            if self.done:
                return
            self._reader = ReplyReader()
            if not rest:
                self._update()
                return
            chunk = rest
        if (unfit := forwarding.unfit_reply(head, self._pinned.target)) is not None:
            self._fail(unfit)
            return
        body = framing.reply_framing(head, request_method=self._head.method, status=head.status)
        if isinstance(body, BadFraming):
            self._fail(self._upstream_failed(body.error or ErrorType.HTTP_PROTOCOL_ERROR))
            return
        self._begin_reply(head, body, rest)

    def _begin_reply(self, head: ReplyHead, body: Framing, rest: bytes) -> None:
        self.status = head.status
        self._reply_body = body
        if isinstance(body, Chunked):
            self._reply_chunks = ChunkedReader()
        elif isinstance(body, Length):
            self._reply_left = body.size
        until_close = forwarding.ends_by_close(body, client_minor=self._head.minor)
        self._keep = self._keep and self._request_done and not until_close and not self._core.draining
        self._reuse = self._request_done and not isinstance(body, UntilClose) and forwarding.origin_keeps_alive(head)
        out = forwarding.forwarded_reply(head, body, keep_alive=self._keep, client_minor=self._head.minor)
        self._pass_down(rest, out)

    def _pass_down(self, chunk: bytes | memoryview, before: bytes = b"") -> None:
        """Pass a piece of the reply's body on, after `before`, and notice its end."""
        body = self._reply_body
        out: bytes | memoryview
        broken = False
        if self._reply_chunks is not None:
            cut = self._reply_chunks.feed(chunk) if chunk else (b"", False)
            if isinstance(cut, BadFraming):
                broken, payload, ended = True, b"", False
            else:
                payload, ended = cut
            if self._head.minor:
                out = framing.encode_chunk(payload) if payload else b""
                if ended:
                    out += framing.LAST_CHUNK
            else:
                out = payload
            if ended:
                self._reply_done = True
                self._reuse = self._reuse and not self._reply_chunks.rest
        elif isinstance(body, UntilClose):
            out = chunk
        else:
            out = chunk[: self._reply_left]
            if len(out) < len(chunk):
                self._reuse = False  # more than it announced: nobody may read the rest as a reply
            self._reply_left -= len(out)
            self._reply_done = not self._reply_left
        if before:
            out = before + bytes(out) if out else before
        if out:
            self._write_down(out)
        if broken:
            self._cut_off()
        elif not self.done and self._reply_done and not self._down_pending:
            self._complete()
        elif not self.done:
            self._update()

    def _write_down(self, data: bytes | memoryview) -> None:
        if self._down_pending:  # only interim replies and the first bytes meet this
            self._down_pending += bytes(data)
            return
        try:
            sent = self._connection.sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._connection.abort()
            return
        self.down += len(data)
        if sent < len(data):
            self._down_pending = bytes(data[sent:])

    def _flush_down(self) -> bool:
        """Send what waits for the client; whether the exchange still needs its events looked at."""
        try:
            self._down_pending = self._down_pending[self._connection.sock.send(self._down_pending) :]
        except BlockingIOError:
            return True
        except OSError:
            self._connection.abort()
            return False
        self._last = self._core.poller.now
        if not self._down_pending:
            if self._reply_done:
                self._complete()
                return False
            self._update()
        return True

    # Ends

    def _complete(self) -> None:
        """The reply is out: keep or close the origin's connection, then the client's."""
        connection, upstream = self._connection, self._upstream
        self.complete = True
        self._finish()
        if upstream is not None:
            if self._reuse and not self._up_pending:
                self._core.pool.put(upstream)
            else:
                upstream.close()
        self._core.reporter.exchanged(connection, self, None)
        if self._keep:
            connection.next_request()
        else:
            connection.finish(b"")

    def _upstream_ended(self) -> None:
        if isinstance(self._reply_body, UntilClose):
            self._reply_done = True
            self._drop_upstream()
            if self._reply_chunks is None and not self._down_pending:
                self._complete()
            elif not self.done:
                self._update()
            return
        if self._reply_body is not None:
            self._cut_off()
            return
        self._upstream_broken()

    def _upstream_broken(self) -> None:
        """The origin's connection failed: try anew if that is safe, refuse if nothing is out, else cut."""
        upstream = self._upstream
        stale = (
            upstream is not None
            and upstream.reused
            and self._reply_body is None
            and not self._reader.examined
            and isinstance(self._framing, NoBody)
            and self._head.method in _RETRIED
        )
        if stale:
            self._drop_upstream()
            self.up = 0
            self._up_pending = b""
            self._connection.start_dial(self._pinned, self._connected)
        elif self._reply_body is None:
            self._fail(self._upstream_failed(ErrorType.HTTP_RESPONSE_INCOMPLETE))
        else:
            self._cut_off()

    def _upstream_failed(self, error: ErrorType) -> Refusal:
        return Refusal(Reason.UPSTREAM_FAILED, Stage.UPSTREAM, self._pinned.target, error=error)

    def _fail(self, refusal: Refusal) -> None:
        """Refuse if no byte of a final reply is out, else cut."""
        if self._reply_body is not None or self._down_pending:
            self._cut_off()
        else:
            self._refuse(refusal)

    def _refuse(self, refusal: Refusal) -> None:
        self._finish()
        self._drop_upstream()
        self._connection.refuse(refusal)

    def _cut_off(self) -> None:
        """The reply broke off: a reset, so that the client cannot take a part for the whole."""
        connection = self._connection
        self._finish()
        self._drop_upstream()
        self._core.reporter.exchanged(connection, self, Reason.UPSTREAM_FAILED)
        reset(connection.sock)
        connection.close()

    def abandon(self) -> None:
        """The client is gone."""
        if self.done:
            return
        self._finish()
        self._drop_upstream()
        self._core.reporter.exchanged(self._connection, self, None)

    def expire(self, now: float) -> None:
        """A deadline may have passed: the client's body, the reply's head, or a side that takes nothing."""
        limits = self._core.limits
        if self._upstream is None:
            self._refuse(Refusal(Reason.DIAL_FAILED, Stage.DIAL, self._pinned.target))
            return
        if self._down_pending or self._up_pending or not self._request_done:
            limit = limits.write_stall_seconds
        elif self._reply_body is None:
            limit = limits.reply_head_timeout_seconds
        else:
            limit = limits.tunnel_idle_seconds
        if now - self._last < limit:
            self._core.sweep.arm(self._connection, self._last + limit)
        elif self._down_pending:
            self._cut_off()
        elif not self._request_done and not self._up_pending:
            self._fail(Refusal(Reason.HEAD_TIMEOUT, Stage.PARSE, self._pinned.target))
        else:
            self._fail(Refusal(Reason.UPSTREAM_TIMEOUT, Stage.UPSTREAM, self._pinned.target))

    def _finish(self) -> None:
        self.done = True
        self._connection.exchange = None

    def _drop_upstream(self) -> None:
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.close()

    def _update(self) -> None:
        """Tell the event set what both sides want: nothing is read that could not be passed on."""
        connection = self._connection
        if self._down_pending or self._up_pending:
            due = self._last + self._core.limits.write_stall_seconds
            if due < connection.due:
                self._core.sweep.arm(connection, due)
        reads = not self._up_pending and not connection.client_ended and len(connection.early) < EARLY_MAX_BYTES
        connection.want((IN if reads else 0) | (OUT if self._down_pending else 0))
        if self._upstream is not None:
            self._upstream.want((0 if self._down_pending else IN) | (OUT if self._up_pending else 0))
