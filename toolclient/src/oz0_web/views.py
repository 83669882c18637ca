"""Views of a page: the whole of it, a part, the lines in which a text stands.

Pure. Each builder gives the biggest form of its view that a room holds; which view it is to be, and whether the answer
with all that belongs to it keeps its promise, is decided by `fitting`. Summary and stub are in `summaries`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from oz0_web.lookup import Match
from oz0_web.measures import Meter, Size
from oz0_web.outline import Outline, Place, Span, read_outline, span
from oz0_web.passages import take
from oz0_web.plans import Entry, plan
from oz0_web.sentences import cut_sentence
from oz0_web.tokens import Estimator

ViewName: TypeAlias = Literal["full", "section", "summary", "stub", "lines", "find"]
VIEW_NAMES: tuple[ViewName, ...] = get_args(ViewName)

CONTEXT_LINES = 2
_EXCERPT_CHARACTERS = 240
_NEEDLE_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class View:
    """A view as built.

    Attributes:
        name: Which.
        content: Its text.
        left_out: What of the page is not in it.
        rest: Where to go on.
        is_cut: Whether the view as such is not complete.
        is_filled: Whether a summary has more than first sentences.
        is_inside: Whether `rest` begins with text that was shown already.
    """

    name: ViewName
    content: str
    left_out: tuple[Span, ...] = ()
    rest: Span | None = None
    is_cut: bool = False
    is_filled: bool = False
    is_inside: bool = False


@dataclass(frozen=True, slots=True)
class Subject:
    """The page that is viewed.

    Attributes:
        outline: Its lines, headings and blocks.
        entries: Its plan.
        text: Its Markdown.
        url: Its address.
        title: Its title, perhaps empty.
        tokens: Its size.
    """

    outline: Outline
    entries: tuple[Entry, ...]
    text: str
    url: str
    title: str
    tokens: int

    @property
    def head(self) -> str:
        """Give address and title, as summary and stub begin with them."""
        return f"{self.url}\n{self.title}\n" if self.title else f"{self.url}\n"


def read_subject(text: str, *, url: str, title: str, is_markdown: bool, estimator: Estimator) -> Subject:
    """Read a page once for all its views."""
    outline = read_outline(text, is_markdown=is_markdown)
    return Subject(outline, plan(outline), text, url, title, estimator.count(text))


def full(page: Subject) -> View:
    """Give the whole page."""
    return View("full", page.text)


def passage(page: Subject, name: ViewName, asked: Span, room: Size, meter: Meter) -> View:
    """Give a section or a range, cut to the room."""
    taken = take(page.outline, asked, room, meter)
    end = page.outline.end
    left_out = []
    if asked.first.line > 1:
        left_out.append(span(1, asked.first.line - 1))
    if taken.rest is not None:
        left_out.append(Span(taken.rest.first, Place(end) if taken.rest.first.line < end else taken.rest.first))
    elif asked.last.line < end:
        left_out.append(span(asked.last.line + 1, end))
    return View(name, taken.content, tuple(left_out), taken.rest, taken.rest is not None, is_inside=taken.is_inside)


def find(page: Subject, needle: str, matches: Sequence[Match], room: Size, meter: Meter) -> View:
    """Give the lines in which a text stands, numbered, each with the lines around it.

    Args:
        page: The page.
        needle: What was looked for.
        matches: Where it stands.
        room: For the content.
        meter: What measures it.
    """
    count = len(matches)
    head = f"{count} line{'' if count == 1 else 's'} with {needle[:_NEEDLE_CHARACTERS]!r}\n"
    left = room.minus(meter.size(head))
    pieces = [head]
    shown = 0
    last_line = 0
    for match in matches:
        text, reached = _found_lines(page.outline, match, needle, last_line)
        size = meter.size(text)
        if not size.fits(left):
            break
        left = left.minus(size)
        pieces.append(text)
        shown += 1
        last_line = reached
    rest = Span(matches[shown].place, matches[shown].place) if shown < count else None
    return View("find", "".join(pieces).rstrip(), (), rest, is_cut=shown < count)


def _found_lines(outline: Outline, match: Match, needle: str, after: int) -> tuple[str, int]:
    """Give a match with its context, without lines up to `after`, which were given before."""
    number = match.place.line
    if match.place.part or len(match.text) > 2 * _EXCERPT_CHARACTERS:
        at = match.text.casefold().find(needle.casefold())
        start = max(0, at - _EXCERPT_CHARACTERS // 2)
        return f"\n{match.place}> …{match.text[start : start + _EXCERPT_CHARACTERS]}…\n", number
    first = max(1, number - CONTEXT_LINES, after + 1)
    last = min(outline.end, number + CONTEXT_LINES)
    wanted = needle.casefold()
    text = "" if after and first == after + 1 else "\n"
    for each in range(first, last + 1):
        line = outline.lines[each - 1]
        mark = ">" if wanted in line.casefold() else ":"
        if each != number and len(line) > _EXCERPT_CHARACTERS:
            line = cut_sentence(line)[:_EXCERPT_CHARACTERS] + "…"
        text += f"{each}{mark} {line}\n"
    return text, last
