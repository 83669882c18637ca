"""The command `egressd` as a process with a configuration of its own, for tests of the supervisor's life.

Starts it, reads what it tells, signals it and always ends it. `modes` puts a fake worker in the place of the real one
(`support.fake_daemon`); None leaves the real one. Decides nothing about what is right.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from support.project import ROOT

PATIENCE_SECONDS = 30.0


class Process:
    """One running egressd in a folder of its own; `out` is its standard output, `err` what it told."""

    def __init__(
        self, folder: Path, modes: str | None, arguments: list[str], environment: dict[str, str], command: list[str]
    ) -> None:
        self.folder = folder
        module = ["egressd"] if modes is None else ["support.fake_daemon", modes]
        whole = {**os.environ, "PYTHONPATH": str(ROOT / "tests"), **environment}
        with (folder / "out").open("ab") as out, (folder / "err").open("ab") as err:
            self.process = subprocess.Popen(
                [*command, "-m", *module, *arguments], stdout=out, stderr=err, cwd=folder, env=whole
            )

    @property
    def out(self) -> str:
        return (self.folder / "out").read_text()

    @property
    def err(self) -> str:
        return (self.folder / "err").read_text()

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds; fail where the process has ended or patience has."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.err}"
            assert time.monotonic() < end, self.err
            time.sleep(0.005)

    def told(self, text: str, times: int = 1) -> None:
        """Wait until it has told this."""
        self.until(lambda: self.err.count(text) >= times)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        """Wait for its end and give the exit code."""
        return self.process.wait(PATIENCE_SECONDS)

    def children(self) -> list[int]:
        text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(number) for number in text.split()]

    def records(self, kind: str) -> list[dict[str, object]]:
        rows = [json.loads(line) for line in self.out.splitlines()]
        return [row for row in rows if row.get("record") == kind]

    def admin(self, method: str, target: str) -> tuple[int, dict[str, object]]:
        """Ask the admin socket `admin.sock`; gives status and decoded body."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE_SECONDS)
            client.connect(str(self.folder / "admin.sock"))
            client.sendall(f"{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            raw = b"".join(iter(lambda: client.recv(65_536), b""))
        head, _, body = raw.partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(body)

    def port(self) -> int:
        """The port that the first TCP listener is ready on."""
        self.told("ready on 127.0.0.1:")
        return int(self.err.partition("ready on 127.0.0.1:")[2].split()[0])


def connect(port: int) -> socket.socket:
    """A connection to a listener on loopback."""
    client = socket.socket()
    client.settimeout(PATIENCE_SECONDS)
    try:
        client.connect(("127.0.0.1", port))
    except OSError:
        client.close()
        raise
    return client


def ask_proxy(port: int, request: str) -> str:
    """The status line of the answer to one request."""
    with connect(port) as client:
        client.sendall(request.encode())
        return client.makefile("rb").readline().decode().strip()


def python_for(uid: int) -> tuple[str, dict[str, str]] | None:
    """An interpreter that this user can run with what the tests run with, and its environment; None without one.

    The tests' interpreter may lie in root's home; the system's own, of the same version, then takes its libraries.
    """
    folders = [ROOT / "tests", ROOT / "proxy/src", ROOT / "shared/src", sysconfig.get_path("purelib")]
    environment = {"PYTHONPATH": os.pathsep.join(map(str, folders))}
    for python in (sys.executable, "/usr/bin/python3"):
        words = [python, "-c", "import sys, pydantic, uvloop, egressd; print(*sys.version_info[:2])"]
        try:
            found = subprocess.run(words, env=environment, user=uid, capture_output=True, text=True, check=False)
        except OSError:
            continue
        if found.stdout.split() == [str(part) for part in sys.version_info[:2]]:
            return python, environment
    return None


@contextmanager
def running(
    folder: Path,
    *arguments: str,
    modes: str | None = "-",
    environment: dict[str, str] | None = None,
    python: str = sys.executable,
    launcher: tuple[str, ...] = (),
) -> Iterator[Process]:
    """Run egressd in a folder; it is ended at the end of the block, whatever happened."""
    process = Process(folder, modes, list(arguments), environment or {}, [*launcher, python])
    try:
        yield process
    finally:
        if process.process.poll() is None:
            process.process.kill()
        process.process.wait()
