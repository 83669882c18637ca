"""The crew: who dies is replaced and counted, sooner or later, and nothing of the dead is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from egressd.supervisor import crew as crew_module
from egressd.supervisor.crew import Calls, Crew
from egressd.supervisor.workers import Spawned, Worker, spawn
from support.loops import run
from support.project import ROOT

PATIENCE_SECONDS = 20.0


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests"))


class Node:
    """The owner of a crew of fake workers; `modes` are those of the next one, `version` is the policy in force."""

    def __init__(self, size: int, sink: int) -> None:
        self.modes: list[str] = []
        self.version = 1
        self.said: list[str] = []
        self.places: list[int] = []
        self.shortage: OSError | None = None
        self._sink = sink
        self._changed = asyncio.Event()
        calls = Calls(self.spawn, self.hire, self._changed.set, self.said.append)
        self.crew = Crew(size, calls, asyncio.get_running_loop())

    def spawn(self) -> Spawned:
        if self.shortage is not None:
            raise self.shortage
        return spawn([sys.executable, "-m", "support.fake_worker", *self.modes])

    def hire(self, worker: Worker, place: int) -> None:
        self.places.append(place)
        worker.send({"type": "settings"}, [self._sink, worker.tally])
        worker.send(self.snapshot())

    def snapshot(self) -> dict[str, object]:
        return {"type": "snapshot", "snapshot": {"version": self.version}}

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    async def whole(self) -> None:
        await self.until(lambda: self.crew.is_whole(self.version))

    def kill(self, index: int) -> int:
        pid = self.crew.workers[index].pid
        os.kill(pid, signal.SIGKILL)
        return pid


@asynccontextmanager
async def node(size: int = 2, *modes: str) -> AsyncIterator[Node]:
    sink = os.open(os.devnull, os.O_WRONLY)
    made = Node(size, sink)
    made.modes = [*modes]
    try:
        made.crew.start([])
        yield made
    finally:
        made.crew.close()
        os.close(sink)


def held_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def requests(found: Node) -> list[object]:
    return [counts.get("requests") for counts in found.crew.counts()]


def test_a_crew_is_whole_when_all_have_applied_the_policy() -> None:
    async def test() -> None:
        async with node(3) as it:
            assert not it.crew.is_whole(1)
            await it.whole()
            assert (it.places, len(it.crew.workers), it.crew.troubles()) == ([0, 1, 2], 3, ())
            assert not it.crew.has_applied(2)

    run(test)


def test_workers_that_were_started_before_are_taken_and_the_number_is_made_right() -> None:
    async def test() -> None:
        async with node(1) as it:
            early = [it.spawn() for _ in range(2)]
            other = Node(1, os.dup(1))
            other.crew.start(early)
            assert [worker.pid for worker in other.crew.workers] == [early[0].process.pid]
            assert early[1].process.returncode is not None, "one too many is ended"
            other.crew.close()
            os.close(other._sink)

    run(test)


def test_a_worker_that_dies_is_replaced_in_its_place_and_counted() -> None:
    async def test() -> None:
        async with node() as it:
            await it.whole()
            pid = it.kill(1)
            await it.until(lambda: it.crew.deaths == 1)
            assert it.crew.troubles()[0] == "workers: 1 of 2 serve"
            await it.whole()
            assert it.said[0] == f"worker {pid} died (signal SIGKILL); another one starts now"
            assert it.said[1].startswith(f"worker {it.crew.workers[1].pid} serves, 0.")
            assert it.places == [0, 1, 1]
            assert it.crew.troubles() == ("workers: 1 died within 300 s, the last one: signal SIGKILL",)

    run(test)


def test_totals_of_the_dead_stay_and_what_was_open_does_not() -> None:
    async def test() -> None:
        async with node(1, "tunnels") as it:
            await it.whole()
            row = ["default", None, "GET", "refused", "not-on-allowlist", 2]
            assert requests(it) == [[], [row]]
            assert it.crew.counts()[1]["tunnels"] == 3
            it.kill(0)
            await it.until(lambda: it.crew.deaths == 1)
            dead = it.crew.counts()[0]
            assert dead["requests"] == [["default", "", *row[2:]]]
            assert dead["tunnel_ends"] == {"idle": 1, "worker-died": 2}
            assert "tunnels_open" not in dead

    run(test)


def test_a_new_policy_reaches_a_worker_that_is_just_starting() -> None:
    async def test() -> None:
        async with node(2) as it:
            await it.whole()
            it.kill(0)
            await it.until(lambda: it.crew.deaths == 1)
            await it.until(lambda: len(it.crew.workers) == 2 or bool(it.crew._places[0].timer))
            it.version = 2
            it.crew.send(it.snapshot())
            await it.whole()

    run(test)


def test_death_is_forgotten_by_health_after_a_while_and_not_by_the_count(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with node(1) as it:
            await it.whole()
            it.kill(0)
            await it.until(lambda: it.crew.deaths == 1)
            await it.whole()
            monkeypatch.setattr(crew_module, "WORKER_DEATH_SHOWN_SECONDS", 0.0)
            assert it.crew.troubles() == ()
            assert it.crew.deaths == 1

    run(test)


def test_workers_that_keep_dying_wait_longer_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_module, "WORKER_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(crew_module, "WORKER_RETRY_MAX_SECONDS", 0.02)

    async def test() -> None:
        async with node(2) as it:
            await it.whole()
            for deaths in range(1, 5):
                it.kill(0)
                await it.until(lambda deaths=deaths: it.crew.deaths == deaths)  # type: ignore[misc]  # bound here
                await it.whole()
            told = [line.partition("another one starts ")[2] for line in it.said if "another" in line]
            slow = "workers keep dying"
            assert told == ["now", f"in 0.01 s, {slow}", f"in 0.02 s, {slow}", f"in 0.02 s, {slow}"]

    run(test)


def test_one_that_worked_for_a_while_is_replaced_at_once_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_module, "WORKER_STEADY_SECONDS", 0.0)

    async def test() -> None:
        async with node(2) as it:
            await it.whole()
            held = held_descriptors()
            for deaths in range(1, 11):
                it.kill(deaths % 2)
                await it.until(lambda deaths=deaths: it.crew.deaths == deaths)  # type: ignore[misc]  # bound here
                await it.whole()
            assert not [line for line in it.said if "keep dying" in line]
            assert held_descriptors() == held, "ten deaths leave no descriptor behind"

    run(test)


def test_at_the_start_one_failure_in_every_place_loses_the_crew() -> None:
    async def test() -> None:
        async with node(2, "die-at-start") as it:
            await it.until(lambda: it.crew.is_lost)
            assert it.crew.last_failure == "exit code 4"

    run(test)


def test_later_a_crew_is_lost_after_five_failures_and_while_one_serves_never(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_module, "WORKER_RETRY_SECONDS", 0.001)
    monkeypatch.setattr(crew_module, "WORKER_RETRY_MAX_SECONDS", 0.01)

    async def test() -> None:
        async with node(2) as it:
            await it.whole()
            it.modes = ["die-at-snapshot"]
            it.kill(0)
            await it.until(lambda: it.crew.deaths >= 8)
            assert not it.crew.is_lost
            it.kill(0)
            await it.until(lambda: it.crew.is_lost)
            assert not it.crew.workers or not any(state.serves for state in it.crew.states)
            assert it.crew._places[1].failures >= 5

    run(test)


def test_a_process_that_cannot_be_started_is_told_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_module, "WORKER_RETRY_SECONDS", 0.01)

    async def test() -> None:
        async with node(2) as it:
            await it.whole()
            it.shortage = OSError(11, "Resource temporarily unavailable")
            it.kill(0)
            await it.until(lambda: "Resource" in it.crew.last_failure)
            it.shortage = None
            await it.whole()
            assert "a worker cannot be started: Resource temporarily unavailable" in " ".join(it.said)
            assert it.crew.deaths == 1

    run(test)


def test_a_worker_that_cannot_be_watched_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(24, "Too many open files")

    async def test() -> None:
        async with node(1) as it:
            await it.whole()
            held = held_descriptors()
            monkeypatch.setattr(os, "pidfd_open", fail)
            it.kill(0)
            await it.until(lambda: "Too many" in it.crew.last_failure)
            monkeypatch.undo()
            monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests"))
            await it.whole()
            assert held_descriptors() == held

    run(test)


def test_a_crew_that_ends_replaces_nobody() -> None:
    async def test() -> None:
        async with node(2) as it:
            await it.whole()
            it.crew.end()
            it.kill(0)
            await it.until(lambda: len(it.crew.workers) == 1)
            assert (it.crew.deaths, it.said) == (0, [])
            assert it.crew._places[0].timer is None

    run(test)
