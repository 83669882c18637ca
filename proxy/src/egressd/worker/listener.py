"""Accepts clients from one listening socket, a bounded share in each turn.

When descriptors or memory run out, the listener leaves the event set for a moment instead of spinning, and is counted.
At the limit of open connections the client gets a 503 before its head is read. Decides nothing else.

Made by the worker's main module for each listening socket that the supervisor hands over.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from typing import TYPE_CHECKING

from egress_policy.reasons import Reason, Refusal, Stage
from egressd.limits import ACCEPT_BATCH, ACCEPT_PAUSE_SECONDS, BUSY_ANSWERS_MAX
from egressd.worker.connection import Connection
from egressd.worker.poller import EXCLUSIVE, IN

if TYPE_CHECKING:
    from egressd.worker.channel import Channel
    from egressd.worker.core import Core

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Listener:
    """One listening socket and the channel it stands for."""

    __slots__ = ("_channel", "_core", "_family", "_sock", "_wants", "due", "pauses", "tick")

    def __init__(self, core: Core, channel: Channel, sock: socket.socket) -> None:
        self._core = core
        self._channel = channel
        self._sock = sock
        self._family = sock.family
        self._wants = 0
        self.pauses = 0
        self.due = 0.0
        self.tick = 0
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            # Linux hands this on to every accepted socket, which saves a system call each.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self) -> None:
        """Accept from now on.

        All workers watch the same socket. What `EXCLUSIVE` promises, one worker woken for one connection, the kernel
        keeps where a process waits on the set itself. Here the loop waits on a set that holds ours, and every idle
        worker looks (measured: 200 connections, 200 wake-ups in each of four); the first one takes it, which spreads
        them. Waiting on the set itself, one of the four took all 200.
        """
        self._core.poller.handlers[self._sock.fileno()] = self.on_readable
        self._wants = self._core.poller.change(self._sock.fileno(), self._wants, IN | EXCLUSIVE)

    def stop(self) -> None:
        """Accept no more; the listening socket itself is the supervisor's."""
        self._core.sweep.disarm(self)
        # The supervisor has the same socket open, so closing ours would not take it out of the set.
        self._wants = self._core.poller.change(self._sock.fileno(), self._wants, 0)
        self._core.poller.retire(self._sock)

    def on_readable(self, _events: int) -> None:
        """Take the clients that wait, up to a share."""
        core = self._core
        # accept() of the class around it costs 2 us more, for enum members that nobody looks at.
        accept = self._sock._accept  # type: ignore[attr-defined]  # noqa: SLF001 - the standard library's own
        for _ in range(ACCEPT_BATCH):
            try:
                descriptor, _address = accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._pause()
                    return
                continue  # that client is already gone (accept(2), error handling)
            sock = socket.socket(self._family, socket.SOCK_STREAM, 0, descriptor)
            held = len(core.connections) + len(core.tunnels) + len(core.lingering)
            if held >= core.limits.connections_max + BUSY_ANSWERS_MAX:
                sock.close()  # so many are being told already that nothing is left to tell this one with
                continue
            sock.setblocking(False)
            connection = Connection(core, self._channel, sock)
            try:
                if held >= core.limits.connections_max or self._channel.open > core.channel_max:
                    connection.refuse(Refusal(Reason.BUSY, Stage.CHANNEL))
                else:
                    connection.on_head(IN)  # its head is often there already
            except Exception:  # noqa: BLE001 - a bug ends this connection, and the next one is accepted
                core.poller.failed(connection.on_head)

    def expire(self, _now: float) -> None:
        """The pause is over."""
        self.start()

    def abort(self) -> None:
        """After a bug in the accept path: pause, then go on."""
        self._pause()

    def _pause(self) -> None:
        self.pauses += 1
        with contextlib.suppress(OSError):
            self._wants = self._core.poller.change(self._sock.fileno(), self._wants, 0)
        self._core.sweep.arm(self, self._core.poller.now + ACCEPT_PAUSE_SECONDS)
