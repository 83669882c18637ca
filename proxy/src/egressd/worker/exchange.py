"""One plain request and its reply: what comes back from the origin, and the connections kept or ended after it.

The reply's bytes go to the client only as `replies` planned its head and `bodies` cut its body, so the client sees no
byte that was not understood. Bodies stream, and whoever is slower sets the pace. A reply that breaks off is ended with
a reset, never with a clean close; before the first byte of a reply is out, what goes wrong is a refusal with its
reason.

Made by a connection for each allowed plain request. Decides nothing about policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from egress_policy.reasons import ErrorType, Reason, Refusal, Stage
from egressd import forwarding, framing
from egressd.bodies import ReplyBody
from egressd.framing import BadFraming, NoBody
from egressd.http_head import NEED_MORE, BadHead, ReplyReader
from egressd.limits import CHUNKED_READ_BYTES, INTERIM_REPLIES_MAX, REMEMBERED_HEAD_MAX_BYTES
from egressd.replies import ReplyPlan, plan_reply
from egressd.worker.poller import BROKEN, OUT
from egressd.worker.sending import Sending
from egressd.worker.tunnel import reset

if TYPE_CHECKING:
    from egressd.framing import Framing
    from egressd.http_head import ReplyHead, RequestHead
    from egressd.judge import Asked
    from egressd.worker.connection import Connection

# A request that may be sent again when an idle connection turns out to be dead (RFC 9110 section 9.2.2), bodies aside.
_RETRIED = frozenset({"GET", "HEAD", "OPTIONS"})
_FIRST_FINAL = 200
_SWITCHING = 101
_HEAD_END = b"\r\n\r\n"


class Exchange(Sending):
    """One request under way.

    Attributes:
        complete: Whether the reply was passed on whole.
    """

    complete = False
    _reader: ReplyReader | None = None
    _reply: ReplyBody | None = None
    _interims = 0
    _reuse = False

    def __init__(self, connection: Connection, head: RequestHead, body: Framing, forwarded: bytes) -> None:
        """Make ready; nothing is sent before `start`."""
        super().__init__(connection, head, body, forwarded)
        self._keep = forwarding.wants_keep_alive(head)

    @property
    def up(self) -> int:
        """Bytes passed to the origin, the head included."""
        return self._up.count if self._up is not None else 0

    @property
    def down(self) -> int:
        """Bytes passed to the client, the head included."""
        return self._down.count

    @staticmethod
    def forwardable(head: RequestHead, asked: Asked) -> tuple[Framing, bytes] | Refusal:
        """How a request's body ends and the head that goes on; or why not, before anything is resolved for it."""
        body = framing.request_framing(head)
        if isinstance(body, BadFraming):
            return Refusal(body.reason, Stage.PARSE, asked.target)
        if asked.path is None:
            return Refusal(Reason.NOT_A_PROXY_REQUEST, Stage.PARSE, asked.target)
        # A switch that comes in the middle of a body would tear it, so such a request is an ordinary one.
        websocket = isinstance(body, NoBody) and forwarding.asks_websocket(head)
        made = forwarding.forwarded_request(head, asked.target, asked.path, body, websocket=websocket)
        return made if isinstance(made, Refusal) else (body, made)

    # From the origin

    def on_upstream(self, events: int) -> None:
        """The origin can take more of the request, sends more of the reply, or is gone."""
        upstream = self._upstream
        if upstream is None:
            return
        up = self._up
        if events & OUT and up is not None and up.waits and not self._flush_up(up):
            return
        if not events & ~OUT:
            return
        if self._down.waits:
            if events & BROKEN:
                upstream.want(0)  # what it has sent is read once the client has taken what waits
            return
        view = self._core.view
        try:
            reply = self._reply
            most = CHUNKED_READ_BYTES if reply is None else reply.reads(len(view))
            size = upstream.sock.recv_into(view, most)
        except BlockingIOError:
            return
        except OSError:
            self._upstream_broken()
            return
        self._last = self._core.poller.now
        if not size:
            self._upstream_ended()
        elif reply is None:
            self._reply_head(bytes(view[:size]))
        else:
            self._pass_down(reply, view[:size])

    def _reply_head(self, chunk: bytes) -> None:
        """Read the reply's head, whole or a piece of it."""
        request = self._head
        self._keep = self._keep and self._request_done and not self._core.draining
        if self._reader is None:
            end = chunk.find(_HEAD_END, 0, REMEMBERED_HEAD_MAX_BYTES) + len(_HEAD_END)
            key = (chunk[:end], request.method, request.minor, self._keep)
            plan = self._core.replies.get(key)
            if plan is not None:
                self._begin_reply(plan, chunk[end:])
                return
            self._reader = ReplyReader()
        else:
            key = None
        reader = self._reader
        head = reader.feed(chunk)
        if head is NEED_MORE:
            return
        if isinstance(head, BadHead):
            self._fail(self._upstream_failed(head.error))
        elif head.status < _FIRST_FINAL:
            self._interim(head, reader.rest)
        else:
            made = plan_reply(
                head, self._pinned.target, method=request.method, client_minor=request.minor, keep=self._keep
            )
            if isinstance(made, Refusal):
                self._fail(made)
                return
            if key is not None and len(key[0]) + len(reader.rest) == len(chunk):
                self._core.remember_reply(key, head, made)
            self._begin_reply(made, reader.rest)

    def _interim(self, head: ReplyHead, rest: bytes) -> None:
        """Pass an interim reply on as it comes, or become a tunnel with a switch that was asked for."""
        self._interims += 1
        switches = head.status == _SWITCHING
        websocket = switches and self._body is None and forwarding.asks_websocket(self._head)
        unfit = forwarding.unfit_reply(head, self._pinned.target, asked_websocket=websocket)
        if unfit is not None or self._interims > INTERIM_REPLIES_MAX:
            self._fail(unfit or self._upstream_failed(ErrorType.HTTP_PROTOCOL_ERROR))
            return
        passed = forwarding.forwarded_reply(
            head, NoBody(), keep_alive=True, client_minor=self._head.minor, websocket=websocket
        )
        if passed:
            self._write_down(passed)
        if self.done:
            return
        if switches:
            self._switch(rest)
            return
        self._reader = ReplyReader()
        if rest:
            self._reply_head(rest)
        else:
            self._update()

    def _switch(self, rest: bytes) -> None:
        """Hand both connections to a tunnel: what follows a 101 is no HTTP any more."""
        connection, upstream = self._connection, self._upstream
        if upstream is None or (self._up is not None and self._up.waits):
            self._cut_off()  # it switches before it has the whole request
            return
        self._finish()
        self._upstream = None
        connection.become_tunnel(upstream.sock, upstream.wants, upstream.place, late=self._down.waits + rest)

    def _begin_reply(self, plan: ReplyPlan, rest: bytes) -> None:
        reply = self._reply = ReplyBody(plan.body, client_minor=self._head.minor)
        self._keep = plan.keeps_client
        self._reuse = self._request_done and plan.keeps_origin
        self._pass_down(reply, rest, plan.head)

    def _pass_down(self, reply: ReplyBody, chunk: bytes | memoryview, head: bytes = b"") -> None:
        """Pass a piece of the reply's body on, after its head if that is given, and notice its end."""
        cut = reply.cut(chunk)
        broken = isinstance(cut, BadFraming)
        out = b"" if isinstance(cut, BadFraming) else cut
        if head:
            out = b"".join((head, out)) if out else head
        if out:
            self._write_down(out)
        if self.done:
            return
        if broken:
            self._cut_off()
        elif reply.done and not self._down.waits:
            self._complete()
        else:
            self._update()

    def _write_down(self, data: bytes | memoryview) -> None:
        try:
            self._down.write(data)
        except OSError:
            self._connection.abort()

    def _flush_down(self) -> bool:
        """Send what waits for the client; whether the exchange still needs its events looked at."""
        try:
            empty = self._down.flush()
        except OSError:
            self._connection.abort()
            return False
        self._last = self._core.poller.now
        if empty and self._reply is not None and self._reply.done:
            self._complete()
            return False
        self._update()
        return True

    # Ends

    def _complete(self) -> None:
        """The reply is out: keep or close the origin's connection, then the client's."""
        connection, upstream, reply = self._connection, self._upstream, self._reply
        self.complete = True
        self._finish()
        if upstream is not None:
            waits = self._up is not None and self._up.waits
            if self._reuse and not waits and reply is not None and not reply.surplus:
                self._core.pool.put(upstream)
            else:
                upstream.close()
        self._core.reporter.exchanged(connection, self, None)
        if self._keep:
            connection.next_request()
        else:
            connection.finish(b"")

    def _upstream_ended(self) -> None:
        reply = self._reply
        if reply is None:
            self._upstream_broken()
        elif not reply.until_close:
            self._cut_off()
        else:
            reply.done = True
            self._drop_upstream()
            if self._down.waits:
                self._update()
            else:
                self._complete()

    def _upstream_broken(self) -> None:
        """The origin's connection failed: try anew if that is safe, refuse if nothing is out, else cut."""
        upstream = self._upstream
        if (
            upstream is not None
            and upstream.reused
            and self._reply is None
            and self._reader is None
            and self._body is None
            and self._head.method in _RETRIED
        ):
            self._drop_upstream()
            self._up = None
            self._connection.start_dial(self._pinned, self._connected)
        else:
            self._fail(self._upstream_failed(ErrorType.HTTP_RESPONSE_INCOMPLETE))

    def _upstream_failed(self, error: ErrorType | None) -> Refusal:
        return Refusal(Reason.UPSTREAM_FAILED, Stage.UPSTREAM, self._pinned.target, error=error)

    def _fail(self, refusal: Refusal) -> None:
        """Refuse if no byte of a final reply is out, else cut."""
        if self._reply is not None or self._down.waits:
            self._cut_off()
        else:
            self._refuse(refusal)

    def abort(self) -> None:
        """It has failed inside: end it with its client's connection."""
        self._connection.abort()

    def end(self, refusal: Refusal) -> None:
        """The policy does not allow it any more."""
        self._fail(refusal)

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
        if self._upstream is None and self._reply is None:
            self._refuse(Refusal(Reason.DIAL_FAILED, Stage.DIAL, self._pinned.target))
            return
        since = self._last
        up_waits = self._up is not None and bool(self._up.waits)
        if self._down.waits or up_waits or not self._request_done:
            limit = limits.write_stall_seconds
        elif self._reply is None:
            # From the end of the request: neither interim replies nor drops of a head put it off.
            since, limit = self._asked, limits.reply_head_timeout_seconds
        else:
            limit = limits.tunnel_idle_seconds
        if now - since < limit:
            self._core.sweep.arm(self._connection, since + limit)
        elif self._down.waits:
            self._cut_off()
        elif not self._request_done and not up_waits:
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
