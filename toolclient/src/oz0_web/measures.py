"""Sizes of text as it will be sent, and the room that is left for it.

Pure. Three bounds hold at once and the tightest wins (X33): tokens by the estimator, characters as serialised, and code
points of the content itself. Called by `passages`, `views` and `fitting`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from oz0_web.tokens import Estimator


class Size(NamedTuple):
    """How big a text is, or how much room there is.

    Attributes:
        tokens: By the estimator, of the text as serialised.
        characters: Of the text as serialised.
        points: Code points of the text itself.
    """

    tokens: float
    characters: int
    points: int

    def plus(self, other: Size) -> Size:
        """Give both together."""
        return Size(self.tokens + other.tokens, self.characters + other.characters, self.points + other.points)

    def minus(self, other: Size) -> Size:
        """Give what is left; it may be below zero."""
        return Size(self.tokens - other.tokens, self.characters - other.characters, self.points - other.points)

    def fits(self, room: Size) -> bool:
        """Whether all three are within the room."""
        return self.tokens <= room.tokens and self.characters <= room.characters and self.points <= room.points


NOTHING = Size(0.0, 0, 0)


@dataclass(frozen=True, slots=True)
class Meter:
    """What measures text: an estimator, and how the answer writes its content.

    Attributes:
        estimator: The profile.
        escape: Gives content as the serialised answer spells it; the identity where it stands as it is.
    """

    estimator: Estimator
    escape: Callable[[str], str]

    def size(self, text: str) -> Size:
        """Measure a text."""
        sent = self.escape(text)
        return Size(self.estimator.weigh(sent), len(sent), len(text))

    def fits(self, text: str, room: Size) -> bool:
        """Whether a text fits; one that is far too long is not looked at."""
        return len(text) <= min(room.points, room.characters) and self.size(text).fits(room)
