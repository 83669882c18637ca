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
from egressd.supervisor.crew import Calls, Crew
from egressd.supervisor.descriptors import share
from egressd.supervisor.health import Health, judge_health
from egressd.supervisor.identity import UserFault
from egressd.supervisor.listeners import ListenFault
from egressd.supervisor.own_addresses import RouteFault
from egressd.supervisor.policy import PolicyKeeper, Report, change_line, unsafe_notices
from egressd.supervisor.sink import SinkFault, write_line
from egressd.supervisor.startup import Prepared, StartFault, prepare, say
from egressd.supervisor.workers import Spawned, Worker, spawn

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
    _crew: Crew | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _reloading: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def keeper(self) -> PolicyKeeper:
        """The policy in force."""
        return self.start.keeper

    @property
    def crew(self) -> Crew:
        """The workers; there are none before `run`."""
        if self._crew is None:
            calls = Calls(self._spawn, self._hire, self._wake, say)
            self._crew = Crew(self.keeper.config.node.workers, calls, asyncio.get_running_loop())
        return self._crew

    async def run(self) -> int:
        """Live from start to end; returns the exit code."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._on_hang_up)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_stop)
        with ExitStack() as stack:
            stack.callback(self.crew.close)
            self.crew.start(self.spawned)
            if not await self._until(lambda: self._is_whole() or self._must_end(), START_SECONDS):
                say(f"not all workers serve after {START_SECONDS:g} s")
                if not any(state.serves for state in self.crew.states):
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
            self.crew.states,
            troubles=self.crew.troubles(),
            draining=self.draining,
        )

    def metrics(self) -> tuple[bytes, str]:
        """Give the metrics and their content type."""
        from egressd.supervisor.metrics import Alive, NodeCollector, render

        crew = Alive(workers=len(self.crew.workers), deaths=self.crew.deaths)
        return render(NodeCollector(self.keeper.snapshot, self.keeper.loaded, self.health(), self.crew.counts(), crew))

    def describe(self) -> dict[str, object]:
        """Give what `egressctl` needs to know."""
        return {
            "lists": str(self.keeper.config.lists_folder.absolute()),
            "tenants": sorted({grant.tenant for grant in self.keeper.snapshot.grants}),
            "plugins": sorted({grant.plugin for grant in self.keeper.snapshot.grants if grant.plugin is not None}),
            "version": self.keeper.snapshot.version,
            "pid": os.getpid(),
            "workers": [worker.pid for worker in self.crew.workers],
        }

    async def reload(self, who: str) -> Report:
        """Load the policy anew, hand it to the workers, and wait until they apply it."""
        async with self._reloading:
            before = self.keeper.snapshot.version
            report = self.keeper.reload()
            for line in report.lines:
                say(line)
            if report.version != before:
                self.crew.send(self._snapshot())
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
            code = EX_OK if self.stops else self._tell_lost_crew()
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
        self.crew.end()
        say(f"draining for at most {seconds:g} s; a second signal ends at once")
        for row in self.start.bound:
            row.close()
        self.crew.send({"type": "drain", "seconds": seconds})
        await self._until(lambda: self.stops > 1 or not self.crew.workers, seconds + GRACE_SECONDS)
        self.crew.send({"type": "stop"})
        await self._until(lambda: not self.crew.workers, GRACE_SECONDS)
        say("ended")

    def _spawn(self) -> Spawned:
        """Start another worker, as the user that the first ones have."""
        return spawn(user=self.spawned[0].user if os.geteuid() == 0 else None)

    def _hire(self, worker: Worker, place: int) -> None:
        """Tell a worker that starts what it needs, the policy in force last: with that it begins to accept."""
        config, machine, crew = self.keeper.config, self.keeper.machine, self.crew
        settings: dict[str, object] = {
            "type": "settings",
            "resolvers": list(machine.resolvers),
            "limits": {**config.limits, "connections_max": share(self.start.connections_max, crew.size, place)},
            "log_required": config.records.required,
            "large_pipes": limits.PIPE_MAX_LARGE_PIPES // crew.size,
        }
        worker.send(settings, [self.start.sink, worker.tally])
        for row in self.start.bound:
            worker.send({"type": "listener", "name": row.name, "kind": row.kind}, [row.socket.fileno()])
        worker.send(self._snapshot())

    def _snapshot(self) -> dict[str, object]:
        return {"type": "snapshot", "snapshot": json.loads(to_json(self.keeper.snapshot))}

    def _is_whole(self) -> bool:
        return self.crew.is_whole(self.keeper.snapshot.version)

    def _is_applied(self) -> bool:
        return self.crew.has_applied(self.keeper.snapshot.version)

    def _must_end(self) -> bool:
        return self.stops > 0 or self.crew.is_lost

    def _tell_lost_crew(self) -> int:
        say(f"no worker can be had (the last one: {self.crew.last_failure}); the daemon ends, to be started anew")
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
