"""What workers that are gone counted, so that the node's counters never fall back.

A sum of the workers' counts in their own form. What was open in a worker went with it and is not kept; its open
tunnels become ends of the kind `worker-died`. Pure. `crew` adds to it, `metrics` shows it beside the living.
"""

from __future__ import annotations

from collections.abc import Mapping

from egress_policy.reasons import End

# Not sums over time: what they count is gone with the worker.
_OPEN = frozenset({"tunnels_open", "connections_open"})


class Totals:
    """The sum of the counts of the dead."""

    def __init__(self) -> None:
        """Start with nothing counted."""
        self._requests: dict[tuple[object, ...], int] = {}
        self._ends: dict[str, int] = {}
        self._numbers: dict[str, int] = {}

    def bury(self, counts: Mapping[str, object]) -> None:
        """Add what a dead worker counted; what is of another shape is passed over."""
        for kind, value in counts.items():
            if kind == "requests" and isinstance(value, list):
                for row in value:
                    self._add_request(row)
            elif kind == "tunnel_ends" and isinstance(value, dict):
                for end, count in value.items():
                    self._add_end(str(end), count)
            elif isinstance(value, int) and kind not in _OPEN:
                self._numbers[kind] = self._numbers.get(kind, 0) + value
        self._add_end(End.WORKER_DIED.value, _cut_tunnels(counts))

    def counts(self) -> dict[str, object]:
        """Give the sums in the form of a worker's counts."""
        return {
            **self._numbers,
            "requests": [[*key, count] for key, count in self._requests.items()],
            "tunnel_ends": dict(self._ends),
        }

    def _add_request(self, row: object) -> None:
        if isinstance(row, list) and row and isinstance(row[-1], int):
            # None and "" are both no plugin
            key = tuple("" if label is None else label for label in row[:-1])
            self._requests[key] = self._requests.get(key, 0) + row[-1]

    def _add_end(self, end: str, count: object) -> None:
        if isinstance(count, int) and count > 0:
            self._ends[end] = self._ends.get(end, 0) + count


def _cut_tunnels(counts: Mapping[str, object]) -> int:
    """Give how many tunnels had begun and not ended."""
    began, ends = counts.get("tunnels"), counts.get("tunnel_ends")
    ended = sum(count for count in ends.values() if isinstance(count, int)) if isinstance(ends, dict) else 0
    return began - ended if isinstance(began, int) else 0
