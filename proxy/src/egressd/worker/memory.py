"""Remembers what names resolved to, within bounds of names and of addresses; the oldest results go first.

Decides nothing about how long: a result carries its end. Called by the resolver for every name that is not pinned, so
a hit is one dictionary look-up.
"""

from __future__ import annotations

from egressd.answers import Answers, ResolveFault
from egressd.limits import DNS_CACHE_MAX_ADDRESSES, DNS_CACHE_MAX_NAMES


class Memory:
    """Results by name."""

    __slots__ = ("_addresses", "_max_addresses", "_max_names", "_results")

    def __init__(self, max_names: int = DNS_CACHE_MAX_NAMES, max_addresses: int = DNS_CACHE_MAX_ADDRESSES) -> None:
        """Start empty, with room for so many names, and for so many addresses of all names together."""
        self._max_names = max_names
        self._max_addresses = max_addresses
        self._results: dict[str, Answers | ResolveFault] = {}
        self._addresses = 0

    def __len__(self) -> int:
        """How many names are remembered, ended results included."""
        return len(self._results)

    def get(self, name: str, now: float) -> Answers | ResolveFault | None:
        """The result that holds at `now` (seconds on the monotonic clock), if any."""
        result = self._results.get(name)
        return result if result is not None and result.expires > now else None

    def keep(self, name: str, result: Answers | ResolveFault) -> None:
        """Remember a result in place of the one before."""
        results = self._results
        self._addresses += _size(result) - _size(results.pop(name, None))
        results[name] = result
        while len(results) > self._max_names or self._addresses > self._max_addresses:
            self._addresses -= _size(results.pop(next(iter(results))))


def _size(result: Answers | ResolveFault | None) -> int:
    return len(result.addresses) if isinstance(result, Answers) else 0
