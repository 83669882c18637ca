"""Deadlines of all connections in one coarse sweep, not one timer each.

What is armed is first only remembered as fresh; the next run of the sweep puts it into the bucket of its tick, if it
still lives. Most connections end before that, so all their deadlines together cost one entry in a set. Pushing a
deadline back later costs one attribute: the sweep finds the connection in its old bucket, sees that it is not due, and
moves it. Decides nothing: what a deadline means is the connection's `expire`.

Called by the worker's loop every `SWEEP_SECONDS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from egressd.limits import SWEEP_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

_FRESH = -1


class Timed(Protocol):
    """What has a deadline. `due` is in monotonic seconds, `tick` is the sweep's own mark and starts as 0."""

    due: float
    tick: int

    def expire(self, now: float) -> None:
        """Called once when `due` has passed; it may arm itself again."""


class Sweep:
    """The buckets, by tick of `SWEEP_SECONDS`."""

    __slots__ = ("_buckets", "_failed", "_fresh", "_last")

    def __init__(self, now: float, failed: Callable[[Callable[..., object]], None]) -> None:
        """Begin with nothing armed; `failed` is told of an `expire` that raised, from within the `except`."""
        self._failed = failed
        self._buckets: dict[int, set[Timed]] = {}
        self._fresh: set[Timed] = set()
        self._last = int(now / SWEEP_SECONDS)

    def __len__(self) -> int:
        """How many are armed; a worker at rest has none but its idle connections."""
        return len(self._fresh) + sum(map(len, self._buckets.values()))

    def arm(self, timed: Timed, due: float) -> None:
        """Set the deadline, earlier or later than the one before."""
        timed.due = due
        if not timed.tick:
            timed.tick = _FRESH
            self._fresh.add(timed)
        elif timed.tick > 0 and timed.tick * SWEEP_SECONDS > due + SWEEP_SECONDS:
            self._buckets[timed.tick].discard(timed)
            self._place(timed)

    def disarm(self, timed: Timed) -> None:
        """Forget it; nothing happens if it has no deadline."""
        tick = timed.tick
        if tick:
            timed.tick = 0
            if tick == _FRESH:
                self._fresh.discard(timed)
            elif tick in self._buckets:
                self._buckets[tick].discard(timed)

    def run(self, now: float) -> None:
        """Expire what is due, and put back what has been pushed back meanwhile."""
        fresh, self._fresh = self._fresh, set()
        for timed in fresh:
            self._place(timed)
        current = int(now / SWEEP_SECONDS)
        while self._last < current:
            self._last += 1
            for timed in self._buckets.pop(self._last, ()):
                if timed.tick != self._last:
                    continue  # one before it has disarmed it
                if timed.due > now:
                    self._place(timed)
                    continue
                timed.tick = 0
                try:
                    timed.expire(now)
                except Exception:  # noqa: BLE001 - a bug ends its own connection; everyone else's deadlines go on
                    self._failed(timed.expire)

    def _place(self, timed: Timed) -> None:
        """Put it into the first bucket that is not before its deadline and not over yet."""
        tick = timed.tick = max(int(timed.due / SWEEP_SECONDS) + 1, self._last + 1)
        bucket = self._buckets.get(tick)
        if bucket is None:
            self._buckets[tick] = {timed}
        else:
            bucket.add(timed)
