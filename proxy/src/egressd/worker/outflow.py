"""Writes to one socket, and keeps what it does not take.

Decides nothing: whoever owns it reads no more from the other side while something waits here. Used by exchanges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket


class Outflow:
    """One direction's way out.

    Attributes:
        waits: What the socket has not taken yet.
        count: Bytes given to it in all.
    """

    __slots__ = ("count", "sock", "waits")

    def __init__(self, sock: socket.socket) -> None:
        """Begin with nothing written."""
        self.sock = sock
        self.waits = b""
        self.count = 0

    def write(self, data: bytes | memoryview) -> None:
        """Send now what the socket takes, and keep the rest.

        Raises:
            OSError: The connection is broken.
        """
        size = len(data)
        self.count += size
        if self.waits:
            self.waits += bytes(data)
            return
        try:
            sent = self.sock.send(data)
        except BlockingIOError:
            sent = 0
        if sent < size:
            self.waits = bytes(data[sent:])

    def flush(self) -> bool:
        """Send what waits; whether nothing waits any more.

        Raises:
            OSError: The connection is broken.
        """
        try:
            self.waits = self.waits[self.sock.send(self.waits) :]
        except BlockingIOError:
            return False
        return not self.waits
