"""A real egressd for tests and the demo: its files, its process, its channel, its records and what it holds open.

Starts and stops the daemon as an operator would (command line, TOML, signals) and reads what it shows (admin socket,
records, `/proc`). Never reaches into its code. Called by the demo and the system tests.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from support.lab import Space
from support.lab_wire import PATIENCE_SECONDS, Reply, ask

Settings = Mapping[str, Mapping[str, object]]

GRANT_REQUEST = b"GET /.well-known/egress HTTP/1.1\r\nHost: egressd\r\nConnection: close\r\n\r\n"
BIN = Path(sys.executable).parent
_POLL_SECONDS = 0.005

T = TypeVar("T")


def wait_until(look: Callable[[], T | None], what: str, seconds: float = PATIENCE_SECONDS) -> T:
    """Look again and again until there is something to see, and return it.

    Raises:
        AssertionError: There was nothing within `seconds`.
    """
    end = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(_POLL_SECONDS)
    return seen


@dataclass(slots=True)
class Daemon:
    """A running egressd.

    Attributes:
        folder: Its configuration, lists, sockets and records.
        process: The supervisor.
    """

    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def channel(self) -> Path:
        """The Unix socket of tenant `default`: the only thing that a sandbox sees of the node."""
        return self.folder / "job" / "proxy.sock"

    @property
    def admin(self) -> Path:
        """The admin socket."""
        return self.folder / "admin.sock"

    def connect(self, name: str = "proxy.sock") -> socket.socket:
        """A connection on the channel of tenant `default`, or on another Unix listener of the same folder."""
        return _connect(self.folder / "job" / name)

    def ask(self, request: bytes | Iterable[bytes], channel: str = "proxy.sock") -> Reply:
        """One connection, one request, the reply to its end."""
        return ask(lambda: self.connect(channel), request)

    def ask_admin(self, path: str) -> tuple[int, Any]:
        """GET on the admin socket: the status, and the body as JSON where it is JSON."""
        reply = ask(
            lambda: _connect(self.admin), f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
        )
        try:
            return reply.status, json.loads(reply.body)
        except ValueError:
            return reply.status, reply.body.decode()

    def set_list(self, tenant: str, text: str) -> None:
        """Replace a tenant's list file as an editor would, and say nothing to the daemon."""
        path = self.folder / "lists" / "tenants" / f"{tenant}.list"
        fresh = path.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(path)

    def reload(self) -> None:
        """SIGHUP."""
        self.process.send_signal(signal.SIGHUP)

    def set_list_and_reload(self, text: str) -> None:
        """Replace the list of tenant `default`, and wait until the worker applied the new policy."""
        before = self.version()
        self.set_list("default", text)
        self.reload()
        wait_until(lambda: self.version() > before, "the new policy to be applied")

    def version(self) -> int:
        """The policy version that the worker has in force, as a job is told."""
        reply = self.ask(GRANT_REQUEST)
        assert reply.status == 200, reply
        version = json.loads(reply.body)["version"]
        assert isinstance(version, int)
        return version

    def records(self) -> list[dict[str, Any]]:
        """Every record written so far."""
        path = self.folder / "records.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def wait_for_record(self, **wanted: object) -> dict[str, Any]:
        """The first record that has all of these fields, as soon as it is written."""

        def look() -> dict[str, Any] | None:
            return next((record for record in self.records() if wanted.items() <= record.items()), None)

        return wait_until(look, f"a record with {wanted}")

    def messages(self) -> str:
        """What it wrote to its standard error."""
        return (self.folder / "stderr.txt").read_text()

    def workers(self) -> list[int]:
        """The process numbers of the workers, the youngest last."""
        text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(number) for number in text.split()]

    def worker(self) -> int:
        """The process number of the one worker."""
        (number,) = self.workers()
        return number

    def held(self) -> tuple[int, int]:
        """How many descriptors and threads the worker holds."""
        pid = self.worker()
        return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()), sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())

    def stop(self, seconds: float = PATIENCE_SECONDS) -> int:
        """SIGTERM, then its exit code."""
        self.process.terminate()
        return self.process.wait(seconds)


def write_settings(settings: Settings, listeners: Iterable[Mapping[str, object]]) -> str:
    """TOML of flat sections; every value is one that JSON and TOML write alike."""
    lines = []
    for section, values in settings.items():
        lines += [f"[{section}]", *(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in values.items()), ""]
    for values in listeners:
        lines += ["[[listener]]", *(f"{key} = {json.dumps(value)}" for key, value in values.items()), ""]
    return "\n".join(lines)


def write_folder(
    folder: Path,
    lists: Mapping[str, str],
    settings: Settings,
    listeners: Iterable[Mapping[str, object]] = (),
    seen_as: Path | None = None,
) -> Path:
    """Write a daemon's configuration and lists.

    Args:
        lists: Tenant to the text of its list.
        settings: Section to its values; the admin socket, the records and the channel of `default` are added.
        listeners: Further listeners.
        seen_as: Where the daemon finds the folder, if that is another place than here.

    Returns:
        The configuration file, as the daemon finds it.
    """
    seen = seen_as or folder
    for name in ("job", "lists/tenants", "lists/plugins"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for tenant, text in lists.items():
        (folder / "lists" / "tenants" / f"{tenant}.list").write_text(text)
    whole = {
        "admin": {"socket": str(seen / "admin.sock")},
        "records": {"path": str(seen / "records.jsonl")},
        **settings,
        # one worker, which is then the one that a test looks at
        "node": {"workers": 1, **settings.get("node", {})},
    }
    channel = {"name": "default", "unix": str(seen / "job" / "proxy.sock"), "unix_mode": "0666", "tenant": "default"}
    (folder / "egressd.toml").write_text(write_settings(whole, (channel, *listeners)))
    return seen / "egressd.toml"


@contextmanager
def daemon(
    folder: Path,
    lists: Mapping[str, str],
    settings: Settings,
    *,
    listeners: Iterable[Mapping[str, object]] = (),
    space: Space | None = None,
    seen_as: Path | None = None,
    serves: bool = True,
) -> Iterator[Daemon]:
    """Run egressd from files made for it, and stop it at the end.

    Args:
        folder: Where the files go; its path is short enough for a Unix socket.
        lists, settings, listeners, seen_as: See `write_folder`.
        space: The namespace it runs in; the test's own when None.
        serves: Whether its policy is expected to load; otherwise any answer at all will do.
    """
    config = write_folder(folder, lists, settings, listeners, seen_as)
    words = [str(BIN / "egressd"), "--config", str(config)]
    with (folder / "stderr.txt").open("wb") as errors:
        process = subprocess.Popen(
            words if space is None else space.command(*words),
            stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, env=bare_environment(),
        )  # fmt: skip
    running = Daemon(folder, process)
    try:
        wait_until(lambda: _answers(running, serves=serves), f"egressd to answer in {folder}")
        yield running
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder with a path that is short enough for a Unix socket, and that other users may enter."""
    made = Path(tempfile.mkdtemp(prefix="oz0-"))
    made.chmod(0o755)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def bare_environment(**more: str) -> dict[str, str]:
    """An environment that says nothing about proxies, and with the virtual environment's commands first in PATH."""
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "LC_ALL", "TMPDIR") if name in os.environ}
    return {**kept, "PATH": f"{BIN}:{os.environ.get('PATH', os.defpath)}", **more}


def _answers(running: Daemon, *, serves: bool) -> bool:
    if running.process.poll() is not None:
        raise AssertionError(f"egressd ended with {running.process.returncode}: {running.messages()}")
    try:
        reply = running.ask(GRANT_REQUEST)
    except (OSError, ValueError):
        return False
    return reply.status == 200 or not serves


def _connect(path: Path) -> socket.socket:
    stream = socket.socket(socket.AF_UNIX)
    stream.settimeout(PATIENCE_SECONDS)
    try:
        stream.connect(str(path))
    except BaseException:
        stream.close()
        raise
    return stream
