"""The sending half of an exchange: one request to its origin, over an idle connection or a new one.

The head goes out as `forwarding` built it and the body as `bodies` cut it, in step with what the origin takes. What
the client sends beyond its request waits for the next one. How the exchange fails or ends is the other half's.

`Exchange` stands on it. Decides nothing about policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from egress_policy.reasons import Reason, Refusal, Stage
from egressd.bodies import RequestBody
from egressd.framing import BadFraming, NoBody
from egressd.limits import EARLY_MAX_BYTES
from egressd.worker.dialer import DialFault
from egressd.worker.outflow import Outflow
from egressd.worker.poller import BROKEN, IN, OUT
from egressd.worker.pool import Upstream

if TYPE_CHECKING:
    import socket

    from egressd.framing import Framing
    from egressd.http_head import RequestHead
    from egressd.pinning import PinnedTarget, Place
    from egressd.worker.connection import Connection

_READ_BYTES = 65_536


class Sending:
    """One request on its way.

    Attributes:
        place: Where the origin is, once there is a connection to it.
        done: Nothing is under way any more.
    """

    # What every exchange starts with; in the class, because most of them never change most of it.
    place: Place | None = None
    done = False
    _upstream: Upstream | None = None
    _up: Outflow | None = None
    _asked = 0.0

    def __init__(self, connection: Connection, head: RequestHead, body: Framing, forwarded: bytes) -> None:
        """Make ready; nothing is sent before `start`."""
        self._connection = connection
        self._core = connection.core
        self._head = head
        self._forwarded = forwarded
        self._body = None if isinstance(body, NoBody) else RequestBody(body)
        self._last = connection.core.poller.now
        self._down = Outflow(connection.sock)

    # What the other half does

    def on_upstream(self, events: int) -> None:
        """Take the events of the origin's descriptor."""
        raise NotImplementedError

    def _fail(self, refusal: Refusal) -> None:
        """End the exchange for this reason."""
        raise NotImplementedError

    def _upstream_broken(self) -> None:
        """The origin's connection failed."""
        raise NotImplementedError

    def _flush_down(self) -> bool:
        """Send what waits for the client; whether the exchange still needs its events looked at."""
        raise NotImplementedError

    # To the origin

    def start(self, pinned: PinnedTarget) -> None:
        """Take an idle connection to a pinned place, or dial one."""
        self._pinned = pinned
        self._key = (self._connection.channel.name, pinned.target.authority)
        upstream = self._core.pool.take(self._key, pinned)
        if upstream is not None:
            refusal = self._connection.recheck(upstream.place)
            if refusal is not None:
                upstream.close()
                self._fail(refusal)
                return
            self._send_request(upstream)
        else:
            self._connection.start_dial(pinned, self._connected)

    def _connected(self, result: socket.socket | DialFault, place: Place | None) -> None:
        connection = self._connection
        connection.end_dial()
        if isinstance(result, DialFault) or place is None:
            error = result.error if isinstance(result, DialFault) else None
            self._fail(Refusal(Reason.DIAL_FAILED, Stage.DIAL, self._pinned.target, error=error))
            return
        refusal = connection.recheck(place)
        if refusal is not None:
            result.close()
            self._fail(refusal)
            return
        self._send_request(Upstream(self._core, result, place, self._key))

    def _send_request(self, upstream: Upstream) -> None:
        """Send the head, and what is already here of the body."""
        core, connection = self._core, self._connection
        self._upstream = upstream
        up = self._up = Outflow(upstream.sock)
        self.place = upstream.place
        self._last = core.poller.now
        handlers = core.poller.handlers
        handlers[upstream.sock.fileno()] = self.on_upstream
        handlers[connection.sock.fileno()] = self.on_client
        core.sweep.arm(connection, self._last + core.limits.reply_head_timeout_seconds)
        data = self._forwarded
        if self._body is not None and not self._body.done:
            early, connection.early = connection.early, b""
            body = self._cut(self._body, early)
            if body is None:
                return
            if connection.client_ended and not self._body.done:
                connection.abort()  # the request broke off: its origin must not see a part of it
                return
            data += body
        self._write_up(up, data)

    def _cut(self, body: RequestBody, chunk: bytes) -> bytes | None:
        """The part of `chunk` that is this request's body; the rest is kept as the next request.

        Returns:
            Bytes for the origin; None when the body breaks its framing, and the exchange is over.
        """
        cut = body.cut(chunk) if chunk else b""
        if isinstance(cut, BadFraming):
            self._fail(Refusal(cut.reason, Stage.PARSE, self._pinned.target))
            return None
        if body.rest:
            self._connection.early, body.rest = body.rest, b""
        return cut

    def _write_up(self, up: Outflow, data: bytes) -> None:
        try:
            if data:
                up.write(data)
        except OSError:
            self._upstream_broken()
            return
        if self._request_done:
            self._asked = self._core.poller.now
        self._update()

    @property
    def _request_done(self) -> bool:
        return self._body is None or self._body.done

    def on_client(self, events: int) -> None:
        """The client can take more of the reply, sends more of the request, or is gone."""
        if events & OUT and self._down.waits and not self._flush_down():
            return
        if self.done or not events & ~OUT:
            return
        connection = self._connection
        up = self._up
        if (up is not None and up.waits) or connection.client_ended or len(connection.early) >= EARLY_MAX_BYTES:
            if events & BROKEN:
                connection.abort()
            return
        body = self._body
        chunk = connection.receive(_READ_BYTES if body is None or body.done else body.reads(_READ_BYTES))
        if chunk is None:
            return
        self._last = self._core.poller.now
        if not chunk:
            if not self._request_done:
                connection.abort()  # the request broke off: its origin must not take it for a whole one
                return
            connection.client_ended = True
        elif body is None or body.done or up is None:
            connection.early += chunk
        else:
            cut = self._cut(body, chunk)
            if cut is not None:
                self._write_up(up, cut)
            return
        self._update()

    def _flush_up(self, up: Outflow) -> bool:
        """Send what waits for the origin; whether it is still there."""
        try:
            up.flush()
        except OSError:
            self._upstream_broken()
            return False
        self._last = self._core.poller.now
        self._update()
        return True

    def _update(self) -> None:
        """Tell the event set what both sides want: nothing is read that could not be passed on."""
        if self.done:
            return
        connection, upstream = self._connection, self._upstream
        down_waits = self._down.waits
        up_waits = self._up is not None and self._up.waits
        if down_waits or up_waits:
            due = self._last + self._core.limits.write_stall_seconds
            if due < connection.due:
                self._core.sweep.arm(connection, due)
        reads = not up_waits and not connection.client_ended and len(connection.early) < EARLY_MAX_BYTES
        wants = (IN if reads else 0) | (OUT if down_waits else 0)
        if wants != connection.wants:
            connection.want(wants)
        if upstream is not None:
            wants = (0 if down_waits else IN) | (OUT if up_waits else 0)
            if wants != upstream.wants:
                upstream.want(wants)
