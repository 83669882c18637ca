"""Lets each owner have so many things under way at once; the rest wait for their turn, in their order.

One job's thousand slow look-ups delay that job's next one and nobody else's. Knows no clock: who waits too long is the
business of the one who waits. Called by the resolver.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

T = TypeVar("T")


class Turns(Generic[T]):
    """The turns of every owner; an owner with none taken and nothing waiting costs no memory."""

    __slots__ = ("_most", "_taken", "_waiting")

    def __init__(self, most: int) -> None:
        """Allow each owner `most` turns at once."""
        self._most = most
        self._taken: dict[Hashable, int] = {}
        self._waiting: dict[Hashable, deque[T]] = {}

    def __len__(self) -> int:
        """How many owners have a turn or wait for one."""
        return len(self._taken)

    def take(self, owner: Hashable) -> bool:
        """Take a turn; whether there was one. Each taken turn is given back once."""
        taken = self._taken.get(owner, 0)
        if taken >= self._most:
            return False
        self._taken[owner] = taken + 1
        return True

    def wait(self, owner: Hashable, item: T) -> None:
        """Queue something for which there was no turn; `give_back` hands it out."""
        self._waiting.setdefault(owner, deque()).append(item)

    def give_back(self, owner: Hashable) -> T | None:
        """End a turn. What waited longest, if anything, has the turn from now on and is returned."""
        queue = self._waiting.get(owner)
        if queue:
            item = queue.popleft()
            if not queue:
                del self._waiting[owner]
            return item
        self._taken[owner] -= 1
        if not self._taken[owner]:
            del self._taken[owner]
        return None
