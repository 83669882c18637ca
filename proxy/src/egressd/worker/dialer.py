"""Connects to one of the places of a pinned target, and to nothing else.

`Dial` takes a `PinnedTarget`: no name can reach it, and it classifies each address once more before it uses it. The
attempts start `DIAL_ATTEMPT_SECONDS` apart over all places, a failed one starts the next at once, and the first that
connects wins (RFC 8305 section 5), so a black-holed first address costs a quarter of a second (case C9). Connected
means that `getpeername` succeeds and names the place: an event alone proves nothing.

Called by the worker's connection; the result goes to its `done`, once.
"""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from egress_policy.addresses import AddressClass, parse_address
from egress_policy.reasons import ErrorType
from egressd.limits import DIAL_ATTEMPT_SECONDS
from egressd.worker.poller import OUT

if TYPE_CHECKING:
    from collections.abc import Callable

    from egressd.pinning import PinnedTarget, Place
    from egressd.worker.core import Core

_KIND = socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
_ERRORS = {
    errno.ECONNREFUSED: ErrorType.CONNECTION_REFUSED,
    errno.ECONNRESET: ErrorType.CONNECTION_REFUSED,
    errno.ETIMEDOUT: ErrorType.CONNECTION_TIMEOUT,
}


@dataclass(frozen=True, slots=True)
class DialFault:
    """No place of the target could be connected to; `error` is what the last attempt met (RFC 9209 section 2.3)."""

    error: ErrorType


class Dial:
    """One dial of one pinned target: at most one socket comes out of it, every other one is closed."""

    __slots__ = ("_core", "_deadline", "_done", "_error", "_next", "_pinned", "_racing", "due", "tick")

    def __init__(
        self,
        core: Core,
        pinned: PinnedTarget,
        done: Callable[[socket.socket | DialFault, Place | None], None],
    ) -> None:
        self._core = core
        self._pinned = pinned
        self._done = done
        self._next = 0
        self._racing: dict[int, tuple[socket.socket, Place]] = {}
        self._error = ErrorType.DESTINATION_UNAVAILABLE
        self._deadline = 0.0
        self.due = 0.0
        self.tick = 0

    def start(self) -> None:
        """Begin; `done` may be called before this returns, as on a loopback connection."""
        self._deadline = self._core.poller.now + self._core.limits.dial_timeout_seconds
        self._attempt()

    def cancel(self) -> None:
        """Close everything; `done` is not called."""
        self._core.sweep.disarm(self)
        racing, self._racing = self._racing, {}
        for sock, _place in racing.values():
            self._core.poller.retire(sock)

    abort = cancel

    def expire(self, now: float) -> None:
        """The next attempt is due, or the whole dial has taken too long."""
        if now >= self._deadline:
            self._error = ErrorType.CONNECTION_TIMEOUT
            self._finish(DialFault(self._error), None)
        else:
            self._attempt()

    def _attempt(self) -> None:
        """Start attempts until one is under way or connected, or no place is left."""
        places = self._pinned.places
        while self._next < len(places):
            place = places[self._next]
            self._next += 1
            sock = self._connect(place)
            if sock is None:
                continue
            if self._connected(sock, place):
                self._finish(sock, place)
                return
            descriptor = sock.fileno()
            poller = self._core.poller
            self._racing[descriptor] = (sock, place)
            poller.handlers[descriptor] = partial(self._ready, descriptor)
            poller.change(descriptor, 0, OUT)
            break
        if not self._racing:
            self._finish(DialFault(self._error), None)
            return
        more = self._next < len(places)
        wait = self._core.poller.now + DIAL_ATTEMPT_SECONDS
        self._core.sweep.arm(self, min(wait, self._deadline) if more else self._deadline)

    def _connect(self, place: Place) -> socket.socket | None:
        """Begin one attempt, or note why it could not even begin."""
        if self._pinned.grant.reach.classify(place.address) is AddressClass.FLOOR:
            return None
        try:
            sock = socket.socket(socket.AF_INET if place.address.version == 4 else socket.AF_INET6, _KIND)
        except OSError:
            return None  # no descriptor left: told as unavailable
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            code = sock.connect_ex(place.sockaddr)
        except OSError as error:
            code = error.errno or errno.EIO
        if code in (0, errno.EINPROGRESS):
            return sock
        self._error = _ERRORS.get(code, ErrorType.DESTINATION_UNAVAILABLE)
        sock.close()
        return None

    def _ready(self, descriptor: int, _events: int) -> None:
        sock, place = self._racing[descriptor]
        if self._connected(sock, place):
            del self._racing[descriptor]
            self._core.poller.handlers.pop(descriptor, None)
            self._core.poller.change(descriptor, OUT, 0)
            self._finish(sock, place)
            return
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if not code:
            return  # an event that says nothing
        self._error = _ERRORS.get(code, ErrorType.DESTINATION_UNAVAILABLE)
        del self._racing[descriptor]
        self._core.poller.retire(sock)
        self._attempt()

    @staticmethod
    def _connected(sock: socket.socket, place: Place) -> bool:
        """Whether the socket is connected, and to this place."""
        try:
            peer = sock.getpeername()
        except OSError:
            return False
        return peer[:2] == place.sockaddr or (parse_address(peer[0]), peer[1]) == (place.address, place.sockaddr[1])

    def _finish(self, result: socket.socket | DialFault, place: Place | None) -> None:
        if self.tick or self._racing:
            self.cancel()
        self._done(result, place)
