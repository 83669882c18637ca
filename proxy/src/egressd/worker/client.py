"""A client's socket while it is ours: what it wants in the event set, its deadline, and how it ends.

The plain half of a connection, without its steps. Decides nothing. `Connection` stands on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from egressd.limits import EARLY_MAX_BYTES
from egressd.worker.linger import Linger
from egressd.worker.poller import BROKEN, IN

if TYPE_CHECKING:
    import socket

    from egressd.worker.core import Core

READ_BYTES = 16_384


class Client:
    """A client's socket in the event set, with a deadline.

    Attributes:
        wants: What its descriptor wants in the event set now.
        early: What it sent after the head that is being answered; delivered after the answer, never before.
        client_ended: Whether it has ended its direction.
        closed: Whether it has been handed on or given up; nothing may be done with it any more.
    """

    early = b""
    client_ended = False
    closed = False
    due = 0.0
    tick = 0

    def __init__(self, core: Core, sock: socket.socket) -> None:
        """Put it into the event set; the deadline is that of a client that says nothing."""
        self.core = core
        self.sock = sock
        self.wants = core.poller.change(sock.fileno(), 0, IN)
        core.sweep.arm(self, core.poller.now + core.limits.idle_client_seconds)

    def want(self, wants: int) -> None:
        """Set what the descriptor wants in the event set."""
        if wants != self.wants:
            self.wants = self.core.poller.change(self.sock.fileno(), self.wants, wants)

    def wait(self, seconds: float) -> None:
        """Set the deadline of a step."""
        self.core.sweep.arm(self, self.core.poller.now + seconds)

    def receive(self, most: int = READ_BYTES) -> bytes | None:
        """What has come, empty at the end of its direction; None when there is nothing yet, or it is gone."""
        try:
            return self.sock.recv(most)
        except BlockingIOError:
            return None
        except OSError:
            self.abort()
            return None

    def on_early(self, events: int) -> None:
        """Keep what the client sends before the answer; nothing of it goes anywhere yet (cases E2, E3)."""
        if self.client_ended:
            if events & BROKEN:
                self.abort()
            return
        chunk = self.receive()
        if chunk is None:
            return
        if not chunk:
            self.client_ended = True
            self.want(0)
            return
        self.early += chunk
        if len(self.early) >= EARLY_MAX_BYTES:
            self.want(0)

    def drop(self) -> None:
        """Cancel what is under way."""

    def expire(self, _now: float) -> None:
        """The deadline has passed."""
        self.close()

    def leave(self) -> None:
        """Hand the socket on, or give it up: this object has no more part in it."""
        self.closed = True
        self.core.sweep.disarm(self)

    def finish(self, answer: bytes) -> None:
        """Send a last answer, end our direction, and let the client read it in peace."""
        try:
            sent = self.sock.send(answer) if answer else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            self.abort()
            return
        self.drop()
        self.leave()
        Linger(self.core, self.sock, self.wants, answer[sent:]).start()

    def close(self) -> None:
        """Close it; nothing is under way, or nothing of it matters any more."""
        if self.closed:
            return
        self.drop()
        self.leave()
        self.core.poller.retire(self.sock)

    def abort(self) -> None:
        """The client is gone, or this connection has failed."""
        self.close()
