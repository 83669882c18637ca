"""Keeps idle connections to origins for the next plain request of the same channel to the same host and port.

A connection is handed out only if its address is in the asking request's own pin, so a name that has moved, or a
request that asks for public addresses only, never rides on what another was allowed to reach. An idle connection that
says anything, or ends, is closed. Decides nothing else. Called by the worker's exchanges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from egressd.limits import POOL_MAX_CONNECTIONS, POOL_MAX_PER_TARGET
from egressd.worker.poller import IN

if TYPE_CHECKING:
    import socket

    from egressd.pinning import PinnedTarget, Place
    from egressd.worker.core import Core

    # The channel's name and the target's authority.
    Key = tuple[str, str]


class Upstream:
    """One connection to an origin: its socket, what it wants in the event set, and the place it leads to."""

    __slots__ = ("core", "due", "key", "place", "reused", "sock", "tick", "wants")

    def __init__(self, core: Core, sock: socket.socket, place: Place, key: Key) -> None:
        self.core = core
        self.sock = sock
        self.place = place
        self.key = key
        self.wants = 0
        self.reused = False
        self.due = 0.0
        self.tick = 0

    def want(self, wants: int) -> None:
        """Set what it wants in the event set."""
        if wants != self.wants:
            self.wants = self.core.poller.change(self.sock.fileno(), self.wants, wants)

    def close(self) -> None:
        """Close it; nothing of it is in the pool."""
        self.core.sweep.disarm(self)
        self.core.poller.retire(self.sock)

    def on_idle(self, _events: int) -> None:
        """An idle connection ended, or said something that nobody asked for: either way it is of no use."""
        self.core.pool.remove(self)
        self.close()

    def expire(self, _now: float) -> None:
        """It has been idle for too long."""
        self.on_idle(0)

    abort = close


class Pool:
    """The idle connections, newest last."""

    __slots__ = ("_core", "_count", "_idle")

    def __init__(self, core: Core) -> None:
        self._core = core
        self._idle: dict[Key, list[Upstream]] = {}
        self._count = 0

    def __len__(self) -> int:
        """How many are idle."""
        return self._count

    def idle(self) -> list[Upstream]:
        """All idle connections, in no order."""
        return [upstream for idle in self._idle.values() for upstream in idle]

    def take(self, key: Key, pinned: PinnedTarget) -> Upstream | None:
        """An idle connection to one of the pinned places, the most recently used first; it stays in the event set."""
        idle = self._idle.get(key)
        if not idle:
            return None
        for index in range(len(idle) - 1, -1, -1):
            upstream = idle[index]
            if upstream.place in pinned.places:
                del idle[index]
                if not idle:
                    del self._idle[key]
                self._count -= 1
                self._core.sweep.disarm(upstream)
                upstream.reused = True
                return upstream
        return None

    def put(self, upstream: Upstream) -> None:
        """Keep a connection that has nothing under way; one too many is closed."""
        if self._count >= POOL_MAX_CONNECTIONS or len(self._idle.get(upstream.key, ())) >= POOL_MAX_PER_TARGET:
            upstream.close()
            return
        self._idle.setdefault(upstream.key, []).append(upstream)
        self._count += 1
        core = self._core
        core.poller.handlers[upstream.sock.fileno()] = upstream.on_idle
        upstream.want(IN)
        core.sweep.arm(upstream, core.poller.now + core.limits.idle_upstream_seconds)

    def remove(self, upstream: Upstream) -> None:
        """Forget a connection; its owner closes it."""
        idle = self._idle.get(upstream.key)
        if idle and upstream in idle:
            idle.remove(upstream)
            self._count -= 1
            if not idle:
                del self._idle[upstream.key]

    def clear(self) -> None:
        """Close all, as a policy swap and the end of the worker do."""
        for upstream in self.idle():
            upstream.close()
        self._idle = {}
        self._count = 0
