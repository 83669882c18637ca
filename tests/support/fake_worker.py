"""A worker process that carries no traffic: it speaks the control socket's language and answers each connection.

For tests of the supervisor alone. Run as `python -m support.fake_worker MODE... --control-fd N`; the modes make it
fail in known ways. It is synchronous and starts in a few milliseconds. Never used where the real worker is what a test
is about.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
from pathlib import Path

from egressd.control import ControlClosed, ControlSocket, Frame
from egressd.tally import Tally

ANSWER = b"HTTP/1.1 403 Refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class FakeWorker:
    """The states of one fake worker.

    Modes: `die-at-start`, `die-while=FILE` (at start, while there is this file), `die-at-snapshot`, `garbage` (bytes
    that are no frame), `strange` (a frame of another program), `stubborn` (does not end at drain or stop), `slow-drain`
    (ends at stop only), `tell-environment` (writes it, as JSON, into the record sink), `tunnels` (counts three that
    began and one that ended).
    """

    def __init__(self, modes: set[str], descriptor: int) -> None:
        self.modes = modes
        self.raw = socket.socket(fileno=descriptor)
        self.control = ControlSocket(self.raw)
        self.listeners: dict[int, socket.socket] = {}
        self.sink = -1
        self.snapshots = 0

    def run(self) -> None:
        """Serve until told to stop, or until the supervisor is gone."""
        while True:
            ready, _, _ = select.select([self.control.fileno(), *self.listeners], [], [])
            for descriptor in ready:
                if descriptor == self.control.fileno():
                    try:
                        frames = self.control.receive()
                    except ControlClosed:
                        return
                    for frame in frames:
                        self.take(frame)
                elif descriptor in self.listeners:
                    self.answer(self.listeners[descriptor])

    def take(self, frame: Frame) -> None:
        """Obey one frame."""
        match frame.type:
            case "settings":
                self.sink = frame.descriptors[0]
                if "tunnels" in self.modes:
                    tally = Tally(frame.descriptors[1])
                    tally.cells[tally.row(("tunnels",))] += 3
                    tally.cells[tally.row(("tunnel_ends", "idle"))] += 1
                if "tell-environment" in self.modes:
                    os.write(self.sink, json.dumps({"environment": dict(os.environ)}).encode() + b"\n")
            case "listener":
                listener = socket.socket(fileno=frame.descriptors[0])
                self.listeners[listener.fileno()] = listener
            case "snapshot":
                self.snapshot(frame)
            case "drain" if not self.modes & {"stubborn", "slow-drain"}:
                self.control.send({"type": "drained"})
                sys.exit(0)
            case "stop" if "stubborn" not in self.modes:
                sys.exit(0)

    def snapshot(self, frame: Frame) -> None:
        """Apply a snapshot, or fail in the way that was asked for."""
        self.snapshots += 1
        if "die-at-snapshot" in self.modes:
            sys.exit(3)
        if "garbage" in self.modes:
            self.raw.send(b"\xff" * 64)
        if self.snapshots == 1:
            self.control.send({"type": "listening"})
        value = frame.message["snapshot"]
        assert isinstance(value, dict)
        self.control.send({"type": "counts", "requests": [["default", None, "GET", "refused", "not-on-allowlist", 2]]})
        self.control.send({"type": "applied", "version": value["version"]})
        if "strange" in self.modes:
            self.control.send({"type": "surprise"})

    @staticmethod
    def answer(listener: socket.socket) -> None:
        """Refuse whatever a client wants."""
        try:
            client, _ = listener.accept()
        except BlockingIOError:
            return
        with client:
            client.settimeout(1.0)
            client.recv(65_536)
            client.sendall(ANSWER)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    place = arguments.index("--control-fd")
    broken = [mode.partition("=")[2] for mode in arguments[:place] if mode.startswith("die-while=")]
    if "die-at-start" in arguments or any(Path(name).exists() for name in broken):
        sys.exit(4)
    FakeWorker(set(arguments[:place]), int(arguments[place + 1])).run()
