"""Relays a tunnel's bytes both ways after the 200: half-close, back-pressure, one activity clock, splice for bulk.

What is inside a tunnel is opaque here. A direction that ends is ended at the other side once everything before it is
delivered (case G2), while the other direction goes on; both share one clock, so a long download is not cut because
the upload is silent (case G3). A read that fills `BULK_BYTES` makes a direction bulk: its bytes then move through a
pipe inside the kernel, as long as a pipe is to be had.

Called by the worker's connection once the upstream is connected and judged. Decides nothing about policy.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from typing import TYPE_CHECKING

from egress_policy.reasons import End
from egressd.limits import KEEPALIVE_IDLE_SECONDS, KEEPALIVE_INTERVAL_SECONDS, KEEPALIVE_PROBES, TURN_MAX_BYTES
from egressd.worker.poller import BROKEN, IN, OUT

if TYPE_CHECKING:
    from collections.abc import Callable

    from egressd.worker.core import Core

# A read this large means that the sender is faster than one wake-up a packet: splice is then cheaper (measured).
BULK_BYTES = 65_536
# Below it a bulk direction goes back to reading: small messages cost more through a pipe.
SMALL_BYTES = 8_192
_CLEAN = frozenset({End.CLIENT_CLOSED, End.ORIGIN_CLOSED})
_SPLICE = os.SPLICE_F_NONBLOCK | os.SPLICE_F_MOVE


class Half:
    """One direction: what is read from `source` and not yet delivered to `sink` waits in `pending` or in the pipe.

    Plain data without a way back to its tunnel, so that a closed tunnel is freed at once and not by the collector.
    """

    # What a direction starts with; in the class, because a short tunnel never changes most of it.
    pending: bytes = b""
    pipe: tuple[int, int] | None = None
    piped = 0
    eof = False
    bulk = False
    count = 0

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        """Begin with nothing read."""
        self.source = source
        self.sink = sink

    @property
    def waits(self) -> bool:
        """Whether something read is not yet delivered; nothing more is read meanwhile."""
        return bool(self.pending) or self.piped > 0


class Tunnel:
    """Both directions of one tunnel, from the 200 to the close record.

    Args of the constructor: both sockets with what each wants in the event set so far; `permits`, which says why the
    tunnel may not go on under the policy of a moment in Unix seconds, or None; and `ended`, called once with the
    reason, the bytes up (client to origin) and down.
    """

    closed = False
    kept_alive = False
    due = 0.0
    tick = 0

    def __init__(
        self,
        core: Core,
        client: socket.socket,
        client_wants: int,
        upstream: socket.socket,
        upstream_wants: int,
        permits: Callable[[float], object | None],
        ended: Callable[[End, int, int], None],
    ) -> None:
        self.core = core
        self.client = client
        self.upstream = upstream
        self.client_wants = client_wants
        self.upstream_wants = upstream_wants
        self.up = Half(client, upstream)
        self.down = Half(upstream, client)
        self.permits = permits
        self.ended = ended
        self.last = core.poller.now

    def start(self, early: bytes, late: bytes = b"", *, client_ended: bool) -> None:
        """Take over both descriptors, deliver what is already here, and relay.

        Args:
            early: What the client sent after its head.
            late: What the origin sent after its own.
            client_ended: Whether the client has already ended its direction.
        """
        handlers = self.core.poller.handlers
        handlers[self.client.fileno()] = self.on_client
        handlers[self.upstream.fileno()] = self.on_upstream
        self.core.tunnels.add(self)
        # Looked at as often as the shorter of the two limits asks for, so that a half-close needs no new deadline.
        limits = self.core.limits
        self.core.sweep.arm(self, self.last + min(limits.half_closed_seconds, limits.tunnel_idle_seconds))
        try:
            if early or late:
                for half, data in ((self.up, early), (self.down, late)):
                    if data:
                        half.count = len(data)
                        half.pending = data
                        self._flush(half)
            if client_ended and not self.up.pending:
                self.finish(self.up)
            elif client_ended:
                self.up.eof = True
        except OSError:
            self.end(End.RESET)
        if not self.closed:
            self.update()

    def on_client(self, events: int) -> None:
        """Take the client descriptor's events."""
        up = self.up
        try:
            if events & OUT and self.down.waits:
                self._flush(self.down)
            if events & ~OUT and not self.closed:
                if not (up.eof or up.pending or up.piped):
                    self._pump(up)
                elif events & BROKEN:
                    self._broken(client=True)
        except OSError:
            self.end(End.RESET)

    def on_upstream(self, events: int) -> None:
        """Take the upstream descriptor's events."""
        down = self.down
        try:
            if events & OUT and self.up.waits:
                self._flush(self.up)
                self._pass_end(self.up)
            if events & ~OUT and not self.closed:
                if not (down.eof or down.pending or down.piped):
                    self._pump(down)
                elif events & BROKEN:
                    self._broken(client=False)
        except OSError:
            self.end(End.RESET)

    # Moving bytes; OSError out of these means that the connection is broken

    def _pump(self, half: Half) -> None:
        """Read once and pass it on."""
        if half.bulk:
            self._splice(half)
            return
        core = self.core
        view = core.view
        try:
            size = half.source.recv_into(view)
        except BlockingIOError:
            return
        if not size:
            self.finish(half)
            return
        half.count += size
        self.last = core.poller.now
        try:
            sent = half.sink.send(view[:size])
        except BlockingIOError:
            sent = 0
        if sent < size:
            half.pending = bytes(view[sent:size])
            self.stall()
        if size >= BULK_BYTES:
            half.bulk = True

    def _flush(self, half: Half) -> None:
        """Pass on what waits."""
        if half.pending:
            try:
                sent = half.sink.send(half.pending)
            except BlockingIOError:
                return
            half.pending = half.pending[sent:]
        elif not self._unpipe(half):
            return
        self.last = self.core.poller.now
        if not half.waits:
            self.update()

    def _splice(self, half: Half) -> None:
        """Move once through a pipe, inside the kernel."""
        if half.pipe is None:
            half.pipe = self.core.pipes.get()
            if half.pipe is None:
                half.bulk = False
                return
        try:
            size = os.splice(half.source.fileno(), half.pipe[1], TURN_MAX_BYTES, flags=_SPLICE)
        except BlockingIOError:
            self._release(half)
            return
        except OSError:
            # The kernel cannot splice this pair of sockets; a broken connection shows at the next read.
            self._release(half)
            half.bulk = False
            return
        if not size:
            self._release(half)
            self.finish(half)
            return
        half.piped = size
        half.count += size
        self.last = self.core.poller.now
        if size < SMALL_BYTES:
            half.bulk = False
        self._unpipe(half)
        if half.piped:
            self.stall()

    def _unpipe(self, half: Half) -> bool:
        """Move what the pipe holds to the sink; whether anything moved."""
        if half.pipe is None:
            return False
        try:
            moved = os.splice(half.pipe[0], half.sink.fileno(), half.piped, flags=_SPLICE)
        except BlockingIOError:
            return False
        half.piped -= moved
        if not half.piped:
            self._release(half)
        return True

    def _release(self, half: Half) -> None:
        """Give the pipe back; one that still holds bytes is closed, so that nobody else gets them."""
        if half.pipe is not None:
            pipe, half.pipe = half.pipe, None
            if half.piped:
                half.piped = 0
                self.core.pipes.discard(pipe)
            else:
                self.core.pipes.put(pipe)

    def _pass_end(self, half: Half) -> None:
        """End a direction at its sink once the last of it is delivered, where the source had ended before that."""
        if half.eof and not half.waits:
            self._shut(half)

    def _broken(self, *, client: bool) -> None:
        """HUP or ERR where nothing may be read now: bytes still wait for the other side, or this side has ended.

        Nothing can be written to it any more. So its other direction is over; what was read from it before is still
        delivered, and until then the descriptor stays out of the set, because HUP would wake the loop for ever.
        """
        inward, outward = (self.up, self.down) if client else (self.down, self.up)
        if inward.eof and not inward.waits:
            self.end(End.RESET if outward.waits or not outward.eof else self._last_end())
            return
        if outward.waits:
            self.end(End.RESET)
            return
        poller = self.core.poller
        if client:
            self.client_wants = poller.change(self.client.fileno(), self.client_wants, 0)
        else:
            self.upstream_wants = poller.change(self.upstream.fileno(), self.upstream_wants, 0)

    def finish(self, half: Half) -> None:
        """The source of a direction has ended: end it at the sink, and the tunnel when both have ended."""
        half.eof = True
        self._shut(half)

    def _shut(self, half: Half) -> None:
        other = self.down if half is self.up else self.up
        if other.eof and not other.waits:
            self.end(self._last_end(half))
            return
        half.sink.shutdown(socket.SHUT_WR)
        self.update()

    def _last_end(self, half: Half | None = None) -> End:
        """Who ended the tunnel: the side whose direction ended first."""
        first_is_origin = half is self.up or (half is None and self.down.eof)
        return End.ORIGIN_CLOSED if first_is_origin else End.CLIENT_CLOSED

    def stall(self) -> None:
        """A direction cannot be written now: wait for its sink, read no more, and mind the deadline."""
        due = self.last + self.core.limits.write_stall_seconds
        if due < self.due:
            self.core.sweep.arm(self, due)
        self.update()

    def update(self) -> None:
        """Tell the event set what each side wants now; a finished or waiting direction reads nothing."""
        up, down = self.up, self.down
        up_waits, down_waits = up.pending or up.piped, down.pending or down.piped
        wants = (0 if up.eof or up_waits else IN) | (OUT if down_waits else 0)
        if wants != self.client_wants:
            self.client_wants = self.core.poller.change(self.client.fileno(), self.client_wants, wants)
        wants = (0 if down.eof or down_waits else IN) | (OUT if up_waits else 0)
        if wants != self.upstream_wants:
            self.upstream_wants = self.core.poller.change(self.upstream.fileno(), self.upstream_wants, wants)

    def expire(self, now: float) -> None:
        """A deadline may have passed: idle, half-closed and silent, or a sink that takes nothing."""
        limits = self.core.limits
        if self.up.waits or self.down.waits:
            limit, end = limits.write_stall_seconds, End.WRITE_STALLED
        elif self.up.eof or self.down.eof:
            limit, end = min(limits.half_closed_seconds, limits.tunnel_idle_seconds), End.IDLE
        else:
            limit, end = limits.tunnel_idle_seconds, End.IDLE
        if now - self.last >= limit:
            self.end(end)
            return
        self.keep_alive()
        self.core.sweep.arm(self, min(self.last + limit, now + limits.half_closed_seconds))

    def keep_alive(self) -> None:
        """Turn on TCP keepalive on both legs, once; a tunnel that ends at once never pays for it."""
        if not self.kept_alive:
            self.kept_alive = True
            for sock in (self.client, self.upstream):
                keep_alive(sock)

    def review(self) -> None:
        """The policy has changed: a tunnel that is no longer allowed ends."""
        if not self.closed and self.permits(time.time()) is not None:
            self.end(End.RULE_REMOVED)

    def abort(self) -> None:
        """End it whatever state it is in."""
        self.end(End.RESET)

    def end(self, reason: End) -> None:
        """Close both sides and tell how it ended; once."""
        if self.closed:
            return
        self.closed = True
        core = self.core
        core.tunnels.discard(self)
        core.sweep.disarm(self)
        for half in (self.up, self.down):
            if half.pipe is not None:
                self._release(half)
        if reason not in _CLEAN:
            # A cut must not look like the end of what was sent.
            reset(self.client)
            reset(self.upstream)
        core.poller.retire(self.client)
        core.poller.retire(self.upstream)
        self.ended(reason, self.up.count, self.down.count)


def keep_alive(sock: socket.socket) -> None:
    """Probe a silent peer, so that one that is gone does not hold a tunnel for its whole idle limit."""
    if sock.family == socket.AF_UNIX:
        return
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_SECONDS)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_SECONDS)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)


def reset(sock: socket.socket) -> None:
    """Make the coming close a reset, so that a cut never looks like a clean end."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
