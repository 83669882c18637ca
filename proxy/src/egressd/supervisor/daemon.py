"""The supervisor's life: listeners, workers, ready, reload, drain, end.

Owns every lifetime of the daemon and decides nothing about traffic. The order of the start is by what takes how long:
the workers were spawned before this module was imported, the listeners are handed over and the policy applied before
aiohttp is loaded for the admin API. The command line calls `run`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import uvloop

from egressd import limits
from egressd.snapshot import to_json
from egressd.supervisor.config import Config
from egressd.supervisor.health import Health, judge_health
from egressd.supervisor.identity import UserFault
from egressd.supervisor.listeners import ListenFault
from egressd.supervisor.own_addresses import RouteFault
from egressd.supervisor.policy import PolicyKeeper, Report, change_line, unsafe_notices
from egressd.supervisor.sink import SinkFault, write_line
from egressd.supervisor.startup import Prepared, StartFault, prepare, say
from egressd.supervisor.workers import Spawned, Worker, WorkerState

if TYPE_CHECKING:
    from aiohttp import web

# sysexits.h
EX_OK, EX_SOFTWARE, EX_OSERR, EX_CONFIG = 0, 70, 71, 78
# Two processes that import their libraries on a loaded machine; a worker that takes longer has failed.
START_SECONDS = 30.0
# A worker compiles a hundred thousand rules in about a second.
APPLY_SECONDS = 10.0
# After `drain` has run out, and after `stop`, before the process is killed.
GRACE_SECONDS = 2.0


@dataclass(slots=True)
class Daemon:
    """One running daemon. `hang_ups` counts the SIGHUPs that came, `reloads` those that were answered."""

    start: Prepared
    spawned: Sequence[Spawned]
    hang_ups: int = 0
    reloads: int = 0
    stops: int = 0
    draining: bool = False
    workers: list[Worker] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _reloading: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def keeper(self) -> PolicyKeeper:
        """The policy in force."""
        return self.start.keeper

    async def run(self) -> int:
        """Live from start to end; returns the exit code."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._on_hang_up)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_stop)
        with ExitStack() as stack:
            for spawned in self.spawned:
                worker = Worker(spawned, loop, self._wake)
                self.workers.append(worker)
                stack.callback(worker.close)
            self._send_start()
            if not await self._until(lambda: self._is_applied() or self._must_end(), START_SECONDS):
                say(f"the worker is not ready after {START_SECONDS:g} s")
                return EX_SOFTWARE
            for row in self.start.bound if not self._must_end() else ():
                say(f"ready on {row.address} (policy version {self.keeper.snapshot.version})")
            return await self._serve()

    def health(self) -> Health:
        """Say whether the node can serve."""
        return judge_health(
            self.keeper.snapshot,
            self.keeper.report,
            unsafe_notices(self.keeper.config),
            self._states(),
            draining=self.draining,
        )

    def metrics(self) -> tuple[bytes, str]:
        """Give the metrics and their content type."""
        from egressd.supervisor.metrics import NodeCollector, render

        states = self._states()
        alive = sum(state.ended is None for state in states)
        counts = [state.counts for state in states]
        return render(NodeCollector(self.keeper.snapshot, self.keeper.loaded, self.health(), counts, alive))

    def describe(self) -> dict[str, object]:
        """Give what `egressctl` needs to know."""
        return {
            "lists": str(self.keeper.config.lists_folder.absolute()),
            "tenants": sorted({grant.tenant for grant in self.keeper.snapshot.grants}),
            "plugins": sorted({grant.plugin for grant in self.keeper.snapshot.grants if grant.plugin is not None}),
            "version": self.keeper.snapshot.version,
            "pid": os.getpid(),
        }

    async def reload(self, who: str) -> Report:
        """Load the policy anew, hand it to the workers, and wait until they apply it."""
        async with self._reloading:
            before = self.keeper.snapshot.version
            report = self.keeper.reload()
            for line in report.lines:
                say(line)
            if report.version != before:
                self._send_snapshot()
                if not await self._until(self._is_applied, APPLY_SECONDS):
                    say(f"policy version {report.version} is not applied after {APPLY_SECONDS:g} s")
            if not write_line(self.start.sink, change_line(report, who=who, unix_now=time.time())):
                say("a record of this change could not be written")
            what = f"policy version {report.version}" if report.version != before else "nothing changed"
            say(f"reload by {who}: {what}{'' if report.is_whole else ', but not everything could be loaded'}")
            return report

    async def _serve(self) -> int:
        """Answer the admin API and hang-ups until the end has come."""
        runners: list[web.AppRunner] = []
        async with asyncio.TaskGroup() as tasks:
            helpers = [tasks.create_task(self._answer_admin(runners)), tasks.create_task(self._answer_hang_ups())]
            await self._until(self._must_end)
            code = EX_OK if self.stops else self._tell_lost_worker()
            if code == EX_OK:
                await self._drain()
            for helper in helpers:
                helper.cancel()
        for runner in runners:
            await runner.cleanup()
        return code

    async def _answer_admin(self, runners: list[web.AppRunner]) -> None:
        from egressd.supervisor.admin import serve

        for bound in self.start.admin:
            runners.append(await serve(self, bound))  # noqa: PERF401 - each is to be cleaned up once it stands

    async def _answer_hang_ups(self) -> None:
        while True:
            await self._until(lambda: self.hang_ups > self.reloads)
            self.reloads = self.hang_ups
            await self.reload("SIGHUP")

    async def _drain(self) -> None:
        """End in peace within the drain time; a second signal ends at once."""
        seconds = float(self.keeper.config.limits.get("drain_seconds", limits.DRAIN_SECONDS))
        self.draining = True
        say(f"draining for at most {seconds:g} s; a second signal ends at once")
        for row in self.start.bound:
            row.close()
        for worker in self.workers:
            worker.send({"type": "drain", "seconds": seconds})
        await self._until(lambda: self.stops > 1 or self._all_ended(), seconds + GRACE_SECONDS)
        for worker in self.workers:
            worker.send({"type": "stop"})
        await self._until(self._all_ended, GRACE_SECONDS)
        say("ended")

    def _send_start(self) -> None:
        config, machine = self.keeper.config, self.keeper.machine
        settings: dict[str, object] = {
            "type": "settings",
            "resolvers": list(machine.resolvers),
            "limits": {**config.limits, "connections_max": self.start.connections_max},
            "log_required": config.records.required,
        }
        for worker in self.workers:
            worker.send(settings, [self.start.sink])
            for row in self.start.bound:
                worker.send({"type": "listener", "name": row.name, "kind": row.kind}, [row.socket.fileno()])
        self._send_snapshot()

    def _send_snapshot(self) -> None:
        message = {"type": "snapshot", "snapshot": json.loads(to_json(self.keeper.snapshot))}
        for worker in self.workers:
            worker.send(message)

    def _states(self) -> list[WorkerState]:
        return [worker.state for worker in self.workers]

    def _is_applied(self) -> bool:
        version = self.keeper.snapshot.version
        return all(state.listening and state.applied == version for state in self._states())

    def _has_lost_worker(self) -> bool:
        return any(state.ended is not None for state in self._states())

    def _must_end(self) -> bool:
        return self.stops > 0 or self._has_lost_worker()

    def _all_ended(self) -> bool:
        return all(state.ended is not None for state in self._states())

    def _tell_lost_worker(self) -> int:
        for worker in self.workers:
            if worker.state.ended is not None:
                say(f"worker {worker.pid} ended by itself ({worker.state.ended}); the daemon ends, to be started anew")
        return EX_SOFTWARE

    async def _until(self, holds: Callable[[], bool], seconds: float | None = None) -> bool:
        """Wait until something holds, looking again after every change; False after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    # nothing runs between the look and the wait, and `set` has woken every other waiter already
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def _wake(self) -> None:
        self._changed.set()

    def _on_hang_up(self) -> None:
        self.hang_ups += 1
        self._wake()

    def _on_stop(self) -> None:
        self.stops += 1
        self._wake()


def run(
    config: Config, read_config: Callable[[], Config], spawned: Sequence[Spawned], hang_ups: Callable[[], int]
) -> int:
    """Run the daemon to its end.

    Args:
        config: The configuration to start with.
        read_config: Reads it anew; raises `ConfigError`.
        spawned: The workers, already starting.
        hang_ups: How many SIGHUPs came before the loop could take them.

    Returns:
        The exit code.
    """
    with ExitStack() as stack:
        try:
            start = prepare(config, read_config, spawned, stack)
        except (StartFault, ListenFault, SinkFault, RouteFault) as fault:
            say(str(fault))
            return EX_OSERR
        except UserFault as fault:
            say(str(fault))
            return EX_CONFIG
        daemon = Daemon(start, spawned, hang_ups=hang_ups())
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(daemon.run())
