"""The node's workers as one: each has its place, and one that dies is replaced and counted.

A worker that had worked for a while is replaced at once. One that dies soon after its start is replaced after a pause
that grows, so that a fault which every start meets does not eat the node's processors. Only when no worker serves and
none can be had any more is the crew lost; `daemon` then ends, and what started it starts it anew.

Decides nothing about traffic and says nothing to a worker but what its owner gives it to say. Called by `daemon`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from egressd.limits import (
    WORKER_DEATH_SHOWN_SECONDS,
    WORKER_RETRY_MAX_SECONDS,
    WORKER_RETRY_SECONDS,
    WORKER_START_MAX_ATTEMPTS,
    WORKER_STEADY_SECONDS,
)
from egressd.supervisor.totals import Totals
from egressd.supervisor.workers import Spawned, Worker, WorkerState, discard

if TYPE_CHECKING:
    import asyncio


@dataclass(slots=True)
class Place:
    """One worker's place. Times are the loop's.

    Attributes:
        number: From 0 on.
        worker: Who has it; None while it is empty.
        serves_since: Since when this worker serves; None before that.
        emptied: When the last one died.
        streak: Workers that died soon, one after the other.
        failures: Those of them that never served.
    """

    number: int
    worker: Worker | None = None
    serves_since: float | None = None
    emptied: float | None = None
    streak: int = 0
    failures: int = 0
    timer: asyncio.TimerHandle | None = None


@dataclass(frozen=True, slots=True)
class Calls:
    """What a crew asks of its owner.

    Attributes:
        spawn: Start a process; raises `OSError`.
        hire: Tell a new worker what it needs, the policy in force included; gets the number of its place.
        changed: Something about a worker has changed.
        say: Tell the operator.
    """

    spawn: Callable[[], Spawned]
    hire: Callable[[Worker, int], None]
    changed: Callable[[], None]
    say: Callable[[str], None]


class Crew:
    """The workers of a node. Belongs to one loop and is used from its thread only.

    Attributes:
        deaths: Workers that died so far.
        last_failure: How the last one ended, or why none could be started.
        totals: What the dead counted.
    """

    def __init__(self, size: int, calls: Calls, loop: asyncio.AbstractEventLoop) -> None:
        """Make the places; `start` fills them.

        Args:
            size: How many workers there are to be.
            calls: What is asked of the owner.
            loop: The running loop.
        """
        self.deaths = 0
        self.last_failure = "none died"
        self.totals = Totals()
        self._places = [Place(number) for number in range(size)]
        self._calls = calls
        self._loop = loop
        self._ending = False
        self._has_served = False
        self._recent: list[float] = []

    def start(self, spawned: Sequence[Spawned]) -> None:
        """Give the places to workers that are starting already, and start those that are missing."""
        waiting = list(spawned)
        for place in self._places:
            self._fill(place, waiting.pop(0) if waiting else None)
        for surplus in waiting:
            discard(surplus)

    @property
    def size(self) -> int:
        """How many workers there are to be."""
        return len(self._places)

    @property
    def workers(self) -> list[Worker]:
        """The workers that live."""
        return [place.worker for place in self._places if place.worker is not None]

    @property
    def states(self) -> list[WorkerState]:
        """The states of those that live."""
        return [worker.state for worker in self.workers]

    @property
    def is_lost(self) -> bool:
        """True when no worker serves and none can be had.

        At the start of the daemon one failure in every place is enough: nothing was promised to anybody yet.
        """
        attempts = WORKER_START_MAX_ATTEMPTS if self._has_served else 1
        return not any(state.serves for state in self.states) and all(
            place.failures >= attempts for place in self._places
        )

    def has_applied(self, version: int) -> bool:
        """Say whether every worker that lives has this policy in force, and there is one."""
        states = self.states
        return bool(states) and all(state.listening and state.applied == version for state in states)

    def is_whole(self, version: int) -> bool:
        """Say whether every place has a worker that has this policy in force."""
        return len(self.workers) == self.size and self.has_applied(version)

    def send(self, message: Mapping[str, object]) -> None:
        """Send a frame to every worker that lives, those that are just starting included."""
        for worker in self.workers:
            worker.send(message)

    def counts(self) -> list[Mapping[str, object]]:
        """Give the counts of the living, and the sum of those of the dead."""
        return [self.totals.counts(), *(worker.counts() for worker in self.workers)]

    def troubles(self) -> tuple[str, ...]:
        """Say what is not as it should be, for the node's health."""
        found = []
        serving = sum(state.serves for state in self.states)
        if serving < self.size:
            found.append(f"workers: {serving} of {self.size} serve")
        now = self._loop.time()
        self._recent = [moment for moment in self._recent if now - moment < WORKER_DEATH_SHOWN_SECONDS]
        if self._recent:
            found.append(
                f"workers: {len(self._recent)} died within {WORKER_DEATH_SHOWN_SECONDS:g} s,"
                f" the last one: {self.last_failure}"
            )
        return tuple(found)

    def end(self) -> None:
        """Replace nobody from now on."""
        self._ending = True
        for place in self._places:
            if place.timer is not None:
                place.timer.cancel()
                place.timer = None

    def close(self) -> None:
        """Replace nobody, and end whoever still lives."""
        self.end()
        for place in self._places:
            if place.worker is not None:
                place.worker.close()
                place.worker = None

    def _fill(self, place: Place, spawned: Spawned | None = None) -> None:
        """Put a worker into a place; one that cannot be had counts as one that failed."""
        place.timer = None
        try:
            if spawned is None:
                spawned = self._calls.spawn()
            try:
                worker = Worker(spawned, self._loop, self._on_change)
            except OSError:
                discard(spawned)
                raise
        except OSError as error:
            self._fail(place, f"a worker cannot be started: {error.strerror}")
            return
        place.worker = worker
        place.serves_since = None
        self._calls.hire(worker, place.number)

    def _on_change(self) -> None:
        """Look at everybody: who serves now, and who is gone."""
        now = self._loop.time()
        for place in self._places:
            worker = place.worker
            if worker is None:
                continue
            if worker.state.serves and place.serves_since is None:
                self._note_service(place, worker, now)
            if worker.state.ended is not None:
                self._bury(place, worker, now)
        self._calls.changed()

    def _note_service(self, place: Place, worker: Worker, now: float) -> None:
        place.serves_since = now
        place.failures = 0
        self._has_served = True
        if place.emptied is not None:
            self._calls.say(f"worker {worker.pid} serves, {now - place.emptied:.2f} s after the last one died")

    def _bury(self, place: Place, worker: Worker, now: float) -> None:
        """Take a dead worker out, keep its totals, and have it replaced."""
        how = worker.state.ended or ""
        place.worker = None
        self.totals.bury(worker.counts())
        worker.close()
        if self._ending:
            return
        self.deaths += 1
        self.last_failure = how
        self._recent.append(now)
        if place.serves_since is not None and now - place.serves_since >= WORKER_STEADY_SECONDS:
            place.streak = 0
        if place.serves_since is None:
            place.failures += 1
        place.emptied = now
        self._replace(place, f"worker {worker.pid} died ({how})")

    def _fail(self, place: Place, what: str) -> None:
        place.failures += 1
        place.emptied = place.emptied or self._loop.time()
        self.last_failure = what
        self._replace(place, what)
        self._calls.changed()

    def _replace(self, place: Place, what: str) -> None:
        """Have an empty place filled: at once the first time, later and later when it keeps getting empty."""
        if self._ending or self.is_lost:
            self._calls.say(what)
            return
        delay = 0.0
        if place.streak:
            delay = min(WORKER_RETRY_SECONDS * 2 ** min(place.streak - 1, 16), WORKER_RETRY_MAX_SECONDS)
        place.streak += 1
        self._calls.say(f"{what}; another one starts {f'in {delay:g} s, workers keep dying' if delay else 'now'}")
        place.timer = self._loop.call_later(delay, self._fill, place)
