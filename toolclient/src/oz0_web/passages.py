"""A range of a page cut to the room there is, at the best place to cut.

Pure. Decides where a cut falls: after a block; inside one only where blocks alone would leave much room unused, and
then after a line; inside a line only where not even that fits. Looks at no more of the page than fits, and says where
to go on. Called by `views`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from oz0_web.measures import NOTHING, Meter, Size
from oz0_web.outline import PART_CHARACTERS, Block, Kind, Outline, Place, Span, blocks_within, part_count

# With less of the room used than this, a cut may fall inside a block; with less than the second, inside a line.
_ENOUGH_USED = 0.85
_TOO_LITTLE_USED = 0.5
_CUT_MARK = " …"
_GOOD_END = re.compile(r"[.!?;:,)\]]\s|\s|[。、\uff01\uff1f\uff1b]")
_FENCE_MARK = re.compile(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*(`{3,}|~{3,})")


@dataclass(frozen=True, slots=True)
class Passage:
    """What was taken of a range.

    Attributes:
        content: The text; empty where nothing fits.
        rest: What of the range is not in it, or None for nothing.
        is_inside: Whether the cut fell where no address is, so that `rest` begins with text that was shown already.
    """

    content: str
    rest: Span | None
    is_inside: bool = False


def take(outline: Outline, asked: Span, room: Size, meter: Meter) -> Passage:
    """Take as much of a range as fits, from its start.

    Args:
        outline: The page.
        asked: A range of it, such as `lookup.find_range` gives.
        room: What the content may take.
        meter: What measures it.
    """
    taker = _Taker(outline, asked, room, meter)
    taker.run()
    return taker.passage()


class _Taker:
    def __init__(self, outline: Outline, asked: Span, room: Size, meter: Meter) -> None:
        self._outline = outline
        self._asked = asked
        self._room = room
        self._left = room
        self._meter = meter
        self._pieces: list[str] = []
        self._next: Place | None = asked.first  # None when all is taken
        self._is_inside = False

    def passage(self) -> Passage:
        rest = Span(self._next, self._asked.last) if self._next is not None else None
        if rest is not None and not rest.first.part and rest.first.line == rest.last.line:
            rest = Span(rest.first, rest.first)
        return Passage("".join(self._pieces).strip("\n"), rest, self._is_inside)

    def run(self) -> None:
        first, last = self._asked.first, self._asked.last
        line = first.line
        if first.part:
            if not self._take_parts(line, first.part, last.part if last.line == line else 0):
                return
            line += 1
        end = last.line if not last.part else last.line - 1
        for block in blocks_within(self._outline, line, end):
            stop = min(block.last, end)
            if self._add(self._outline.text(line, stop) + "\n"):
                line = stop + 1
                continue
            start = max(line, block.first)
            self._next = Place(start)
            if self._used() < _ENOUGH_USED:
                self._cut(block, start, stop, blank_before=start - line)
            return
        if last.part and last.line > first.line and not self._take_parts(last.line, 1, last.part):
            return
        self._next = None

    def _used(self) -> float:
        """Give the share of the room that is used, by the bound that is nearest."""
        return 1 - min(left / room if room > 0 else 0.0 for left, room in zip(self._left, self._room, strict=True))

    def _add(self, text: str) -> bool:
        if len(text) > min(self._left.points, self._left.characters):
            return False
        size = self._meter.size(text)
        if not size.fits(self._left):
            return False
        self._left = self._left.minus(size)
        self._pieces.append(text)
        return True

    def _cut(self, block: Block, line: int, stop: int, *, blank_before: int) -> None:
        """Take the lines of a block that fit; close a fence that is left open."""
        closing = self._closing(block)
        reserve = self._meter.size(closing) if closing else NOTHING
        self._left = self._left.minus(reserve)
        before = len(self._pieces)
        blank = "\n" * blank_before
        while line <= stop and self._add(f"{blank}{self._outline.lines[line - 1]}\n"):
            blank = ""
            line += 1
        self._next = Place(line)
        if line <= stop and self._used() < _TOO_LITTLE_USED and (not blank or self._add(blank)):
            self._take_parts(line, 1, 0)
        self._left = self._left.plus(reserve)
        if closing and len(self._pieces) > before:
            self._pieces.append(("" if self._pieces[-1].endswith("\n") else "\n") + closing)

    def _closing(self, block: Block) -> str:
        match = _FENCE_MARK.match(self._outline.lines[block.first - 1]) if block.kind is Kind.FENCE else None
        return match[1] + "\n" if match is not None else ""

    def _take_parts(self, number: int, first: int, last: int) -> bool:
        """Take the parts of one line that fit; whether all of them did. A short line is one part."""
        line = self._outline.lines[number - 1]
        count = part_count(line)
        for part in range(first, (last or max(count, 1)) + 1):
            text = line[(part - 1) * PART_CHARACTERS : part * PART_CHARACTERS]
            self._next = Place(number, part if count else 0)
            if not self._add(text):
                if part == first and self._used() < _TOO_LITTLE_USED:
                    self._cut_text(text)
                return False
        if not last or last >= count:
            self._add("\n")
        return True

    def _cut_text(self, text: str) -> None:
        """Take the beginning of a text that fits, up to the end of a sentence or word where one is near."""
        low, high = 0, max(0, min(len(text), self._left.points, self._left.characters))
        while low < high:
            middle = (low + high + 1) // 2
            if self._meter.size(text[:middle] + _CUT_MARK).fits(self._left):
                low = middle
            else:
                high = middle - 1
        ends = [match.start() + 1 for match in _GOOD_END.finditer(text, int(low * 0.8), low)]
        cut = ends[-1] if ends else low
        if cut and self._add(text[:cut].rstrip() + _CUT_MARK):
            self._is_inside = True
