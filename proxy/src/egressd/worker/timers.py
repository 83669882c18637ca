"""Deadlines of all connections in one coarse sweep, not one timer each.

A connection that is due sits in the bucket of its tick. Pushing a deadline back costs one attribute: the sweep finds
the connection in its old bucket, sees that it is not due, and moves it. So the thousand deadlines that a busy
connection sets and never meets are free. Decides nothing: what a deadline means is the connection's `expire`.

Called by the worker's loop every `SWEEP_SECONDS`.
"""

from __future__ import annotations

import math
from typing import Protocol

from egressd.limits import SWEEP_SECONDS


class Timed(Protocol):
    """What has a deadline. `due` is in monotonic seconds, `tick` is the sweep's own mark and starts as 0."""

    due: float
    tick: int

    def expire(self, now: float) -> None:
        """Called once when `due` has passed; it may arm itself again."""


class Sweep:
    """The buckets, by tick of `SWEEP_SECONDS`."""

    __slots__ = ("_buckets", "_last")

    def __init__(self, now: float) -> None:
        self._buckets: dict[int, set[Timed]] = {}
        self._last = int(now / SWEEP_SECONDS)

    def __len__(self) -> int:
        """How many are armed; a worker at rest has none but its idle connections."""
        return sum(map(len, self._buckets.values()))

    def arm(self, timed: Timed, due: float) -> None:
        """Set the deadline, earlier or later than the one before."""
        timed.due = due
        tick = max(math.ceil(due / SWEEP_SECONDS), self._last + 1)
        if timed.tick:
            if timed.tick <= tick:
                return
            self._buckets[timed.tick].discard(timed)
        timed.tick = tick
        bucket = self._buckets.get(tick)
        if bucket is None:
            self._buckets[tick] = {timed}
        else:
            bucket.add(timed)

    def disarm(self, timed: Timed) -> None:
        """Forget it; nothing happens if it has no deadline."""
        if timed.tick:
            bucket = self._buckets.get(timed.tick)
            if bucket is not None:
                bucket.discard(timed)
            timed.tick = 0

    def run(self, now: float) -> None:
        """Expire what is due, and put back what has been pushed back meanwhile."""
        current = int(now / SWEEP_SECONDS)
        while self._last < current:
            self._last += 1
            for timed in self._buckets.pop(self._last, ()):
                timed.tick = 0
                if timed.due > now:
                    self.arm(timed, timed.due)
                else:
                    timed.expire(now)
