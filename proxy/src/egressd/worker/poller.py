"""One epoll set for all of a worker's connections, drained by the event loop.

The loop watches the set's own descriptor, so control, DNS and timers run beside it, while each connection costs one
dictionary entry and no task, transport or timer of the loop's. The rules that this file keeps for everyone:

- No descriptor is closed while a batch drains. `retire` forgets its handler now and closes it after the batch:
  otherwise an event of the same batch meets a new connection under a reused number, and looks like its finished
  connect.
- A descriptor that wants nothing leaves the set: HUP cannot be masked, and would wake the loop for ever.
- One drain takes at most `DRAIN_TURN_SECONDS`, then the loop's own work has its turn. What is left of a batch is kept
  and goes first, so that nobody starves.

Decides nothing about traffic. Called by the worker; the handlers are methods of its connections.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
import traceback
from typing import TYPE_CHECKING

from egressd.limits import DRAIN_TURN_SECONDS

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable

    Handler = Callable[[int], None]

IN = select.EPOLLIN
OUT = select.EPOLLOUT
HUP = select.EPOLLHUP
ERR = select.EPOLLERR
BROKEN = HUP | ERR
# For a descriptor that other processes watch too. `change` may add it and take it out, never alter it (epoll_ctl(2)).
EXCLUSIVE = select.EPOLLEXCLUSIVE

_BATCH = 64


class Poller:
    """The set of watched descriptors and what to call for each.

    Attributes:
        now: Seconds on the monotonic clock, taken at the start of a drain: the coarse clock of all deadlines.
        handlers: From descriptor to the method that takes its events.
    """

    __slots__ = (
        "_batch",
        "_clock",
        "_draining",
        "_loop",
        "_next",
        "_retired",
        "_set",
        "faults",
        "handlers",
        "now",
        "poll",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float] = time.monotonic) -> None:
        self._loop = loop
        self._clock = clock
        self._set = select.epoll()
        self.poll = self._set.poll
        self.handlers: dict[int, Handler] = {}
        self._retired: list[socket.socket] = []
        self._batch: list[tuple[int, int]] = []
        self._next = 0
        self._draining = False
        self.faults = 0
        self.now = clock()
        loop.add_reader(self._set.fileno(), self.drain)

    def fileno(self) -> int:
        """The set's own descriptor, readable when something in it is ready."""
        return self._set.fileno()

    def close(self) -> None:
        """Leave the loop and close the set. The watched descriptors are their owners' to close."""
        self._loop.remove_reader(self._set.fileno())
        self._close_retired()
        self._set.close()

    def change(self, descriptor: int, before: int, after: int) -> int:
        """Set what a descriptor wants; nothing at all takes it out of the set.

        Args:
            before: What it wants so far; 0 when it is not in the set.
            after: What it wants from now on.

        Returns:
            `after`, for the caller to remember.
        """
        if before != after:
            if before == 0:
                self._set.register(descriptor, after)
            elif after == 0:
                self._set.unregister(descriptor)
            else:
                self._set.modify(descriptor, after)
        return after

    def retire(self, sock: socket.socket) -> None:
        """Hear nothing more of a socket from now on, and close it when no event of this batch can name it any more.

        Closing takes it out of the set, and nothing is polled before that. Only a listening socket has a second
        descriptor, the supervisor's, and must leave the set first.
        """
        self.handlers.pop(sock.fileno(), None)
        if self._draining or self._batch:
            self._retired.append(sock)
        else:
            _close(sock)

    def drain(self) -> None:
        """Handle what is ready, for one turn at most. Called by the loop."""
        clock = self._clock
        self.now = started = clock()
        until = started + DRAIN_TURN_SECONDS
        get = self.handlers.get
        self._draining = True
        try:
            while True:
                batch = self._batch or self.poll(0, _BATCH)
                index = self._next
                count = len(batch)
                while index < count:
                    descriptor, events = batch[index]
                    index += 1
                    handler = get(descriptor)
                    if handler is None:
                        continue
                    try:
                        handler(events)
                    except Exception:  # noqa: BLE001 - a bug ends its own connection and nothing else
                        self.handlers.pop(descriptor, None)
                        self.failed(handler)
                        self._forget(descriptor)
                    if clock() > until and index < count:
                        self._batch, self._next = batch, index
                        self._loop.call_soon(self.drain)
                        return
                self._batch, self._next = [], 0
                if self._retired:
                    self._close_retired()
                if count < _BATCH or clock() > until:
                    return
        finally:
            self._draining = False

    def _close_retired(self) -> None:
        retired, self._retired = self._retired, []
        for sock in retired:
            _close(sock)

    def failed(self, call: Callable[..., object]) -> None:
        """Tell of a bug in a call, from within its `except`, and end what the call belongs to; the others go on."""
        self.faults += 1
        sys.stderr.write("egressd: a connection failed inside the worker; it is ended\n" + traceback.format_exc())
        abort = getattr(getattr(call, "__self__", None), "abort", None)
        if abort is not None:
            with contextlib.suppress(Exception):
                abort()

    def _forget(self, descriptor: int) -> None:
        """Take the descriptor of a failed handler out of the set, unless its owner has put it back to use."""
        if descriptor not in self.handlers:
            with contextlib.suppress(OSError, ValueError):
                self._set.unregister(descriptor)


def _close(sock: socket.socket) -> None:
    try:
        os.close(sock.detach())
    except OSError:  # ECONNRESET and the like say nothing that the record does not have already
        return
