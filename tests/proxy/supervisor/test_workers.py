"""Worker processes: what they inherit, what they tell, how their end is noticed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from egressd.supervisor import workers
from egressd.supervisor.workers import Worker, spawn, without_proxies
from support.loops import run
from support.project import ROOT

PATIENCE_SECONDS = 20.0


def command(*modes: str) -> list[str]:
    return [sys.executable, "-m", "support.fake_worker", *modes]


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests"))


class Watched:
    """A worker with a way to wait for what it says."""

    def __init__(self, worker: Worker, changed: asyncio.Event) -> None:
        self.worker = worker
        self.changed = changed

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not holds():
                self.changed.clear()
                await self.changed.wait()

    async def ended(self) -> str:
        await self.until(lambda: self.worker.state.ended is not None)
        assert self.worker.state.ended is not None
        return self.worker.state.ended


@asynccontextmanager
async def watched(*modes: str) -> AsyncIterator[Watched]:
    changed = asyncio.Event()
    worker = Worker(spawn(command(*modes)), asyncio.get_running_loop(), changed.set)
    try:
        yield Watched(worker, changed)
    finally:
        worker.close()
        worker.close()  # closing twice is closing once


def start(worker: Worker, sink: int, version: int = 1) -> None:
    worker.send({"type": "settings"}, [sink])
    worker.send({"type": "snapshot", "snapshot": {"version": version}})


@pytest.fixture
def sink(tmp_path: Path) -> int:
    return os.open(tmp_path / "sink", os.O_WRONLY | os.O_CREAT | os.O_APPEND)


@pytest.fixture(autouse=True)
def _close_sink(sink: int) -> object:
    yield
    os.close(sink)


def test_a_worker_tells_that_it_listens_and_what_it_applied(sink: int) -> None:
    async def test() -> None:
        async with watched() as it:
            start(it.worker, sink, version=5)
            await it.until(lambda: it.worker.state.applied == 5)
            assert it.worker.state.listening
            assert it.worker.state.counts["requests"] == [["default", None, "GET", "refused", "not-on-allowlist", 2]]
            it.worker.send({"type": "drain", "seconds": 1})
            assert await it.ended() == "exit code 0"
            assert it.worker.state.drained

    run(test)


def test_a_large_snapshot_goes_out_while_the_worker_reads(sink: int) -> None:
    async def test() -> None:
        async with watched() as it:
            it.worker.send({"type": "settings"}, [sink])
            it.worker.send({"type": "snapshot", "snapshot": {"version": 2, "text": "a" * 3_000_000}})
            it.worker.send({"type": "stop"})
            assert await it.ended() == "exit code 0"
            assert it.worker.state.applied == 2

    run(test)


@pytest.mark.parametrize(
    ("mode", "how"),
    [
        ("die-at-start", "exit code 4"),
        ("die-at-snapshot", "exit code 3"),
        ("garbage", "sent a frame of 4294967295 bytes"),
    ],
)
def test_a_worker_that_fails_is_noticed_with_how(sink: int, mode: str, how: str) -> None:
    async def test() -> None:
        async with watched(mode) as it:
            start(it.worker, sink)
            assert await it.ended() == how

    run(test)


def test_a_frame_of_another_program_ends_the_worker(sink: int) -> None:
    async def test() -> None:
        async with watched("strange") as it:
            start(it.worker, sink)
            assert await it.ended() == "sent a frame of type 'surprise'"

    run(test)


def test_a_killed_worker_is_noticed_and_nothing_more_is_sent(sink: int) -> None:
    async def test() -> None:
        async with watched() as it:
            start(it.worker, sink)
            await it.until(lambda: it.worker.state.listening)
            os.kill(it.worker.pid, signal.SIGKILL)
            assert await it.ended() == "signal SIGKILL"
            it.worker.send({"type": "stop"})

    run(test)


def test_what_a_worker_counted_is_known_after_its_death(sink: int) -> None:
    async def test() -> None:
        async with watched("tunnels") as it:
            it.worker.send({"type": "settings"}, [sink, it.worker.tally])
            it.worker.send({"type": "snapshot", "snapshot": {"version": 1}})
            await it.until(lambda: it.worker.state.serves)
            os.kill(it.worker.pid, signal.SIGKILL)
            await it.ended()
            assert not it.worker.state.serves
            counts = it.worker.counts()
            assert (counts["tunnels"], counts["tunnel_ends"]) == (3, {"idle": 1})
            assert counts["requests"] == [["default", None, "GET", "refused", "not-on-allowlist", 2]]

    run(test)


def test_closing_ends_a_worker_that_will_not(sink: int) -> None:
    async def test() -> int:
        async with watched("stubborn") as it:
            start(it.worker, sink)
            await it.until(lambda: it.worker.state.listening)
            return it.worker.pid

    pid = run(test)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_spawned_worker_that_is_not_needed_is_ended() -> None:
    spawned = spawn(command())
    workers.discard(spawned)
    assert spawned.process.returncode is not None
    workers.discard(spawned)


@pytest.mark.case("H12")
def test_proxy_variables_are_not_inherited(sink: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["HTTP_PROXY", "https_proxy", "All_Proxy", "no_proxy", "ftp_proxy"]
    for name in names:
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    async def test() -> None:
        async with watched("tell-environment") as it:
            start(it.worker, sink)
            await it.until(lambda: it.worker.state.listening)

    run(test)
    environment = json.loads((tmp_path / "sink").read_text())["environment"]
    assert not set(names) & set(environment)
    assert environment["PYTHONPATH"] == str(ROOT / "tests")


def test_only_proxy_variables_are_taken_away() -> None:
    assert without_proxies({"HTTP_PROXY": "a", "PROXY": "b", "PATH": "c"}) == {"PROXY": "b", "PATH": "c"}


def test_a_worker_inherits_its_control_socket_and_nothing_else(tmp_path: Path) -> None:
    with (tmp_path / "secret").open("wb") as file:
        os.set_inheritable(file.fileno(), True)
        spawned = spawn([sys.executable, "-c", "import sys; sys.stdin.read(); import time; time.sleep(60)"])
    try:
        folder = Path(f"/proc/{spawned.process.pid}/fd")
        names = {os.readlink(folder / name.name) for name in folder.iterdir()}  # noqa: PTH115 - a socket is no path
    finally:
        workers.discard(spawned)
    assert not any("secret" in name for name in names)
