"""A query to a place in a page: a heading by its text or path, a URL's fragment, a range of lines, or words.

Pure, linear in the page. Decides the order: a range that can be nothing else, then headings (whole text, beginning,
any part), a range that is one number, then the section whose own text holds most of the words. Called by `fitting`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from urllib.parse import unquote

from oz0_web.outline import PART_CHARACTERS, Heading, Outline, Place, Span, part_count, span

# How many equally good headings are listed.
CANDIDATES_MAX = 8
# A longer query is looked up by its beginning.
_QUERY_MAX_CHARACTERS = 400
_WORDS_MAX = 24
_RANGE = re.compile(
    r"\s*(?:lines?\s+|L)?(\d{1,9})(?:\.(\d{1,6}))?(?:\s*[-–—]\s*L?(\d{1,9})(?:\.(\d{1,6}))?)?\s*", re.IGNORECASE
)
_WORD = re.compile(r"[^\W_]+(?:[.'’+#][^\W_]+)*")
_PATH = re.compile(r"\s*(?:>|\u203a|»|→)\s*")


class By(Enum):
    """How a place was found."""

    HEADING = auto()
    RANGE = auto()
    WORDS = auto()


@dataclass(frozen=True, slots=True)
class Found:
    """A place in the page.

    Attributes:
        span: What to show.
        by: How it was found.
        heading: Its heading, where it is a section.
        others: Further headings that match as well, in order.
    """

    span: Span
    by: By
    heading: Heading | None = None
    others: tuple[Heading, ...] = ()


@dataclass(frozen=True, slots=True)
class PastEnd:
    """A range that begins after the last line, or the last part of a line.

    Attributes:
        asked: The range.
        end: The last place there is.
    """

    asked: str
    end: str


def parse_range(query: str) -> Span | None:
    """Read `40-90`, `40`, `57.2` or `57.2-60`; None for anything else and for a range that runs backwards."""
    match = _RANGE.fullmatch(query[:_QUERY_MAX_CHARACTERS])
    if match is None:
        return None
    first = Place(int(match[1]), int(match[2] or 0))
    last = Place(int(match[3]), int(match[4] or 0)) if match[3] else first
    is_forward = last.line > first.line or (last.line == first.line and (last.part or first.part) >= first.part)
    return Span(first, last) if first.line >= 1 and is_forward else None


def find_range(outline: Outline, asked: Span) -> Found | PastEnd:
    """Fit a range to the page: its end is cut to the page's, its start must exist."""
    if asked.first.line > outline.end:
        return PastEnd(str(asked), str(outline.end))
    parts = part_count(outline.lines[asked.first.line - 1])
    first = asked.first
    if first.part > max(parts, 1):
        return PastEnd(str(asked), str(Place(first.line, parts)))
    if not parts:
        first = Place(first.line)
    last = asked.last if asked.last.line <= outline.end else Place(outline.end)
    last_parts = part_count(outline.lines[last.line - 1])
    if last.part >= last_parts:
        last = Place(last.line)
    if last.line == first.line and first.part == parts:
        last = first
    return Found(Span(first, last), By.RANGE)


def find_query(outline: Outline, query: str) -> Found | PastEnd | None:
    """Find what a query means.

    Args:
        outline: The page.
        query: As it was given.

    Returns:
        The place, a range past the end, or None where nothing of it is in the page.
    """
    query = query[:_QUERY_MAX_CHARACTERS]
    asked = parse_range(query)
    if asked is not None and asked.first != asked.last:
        return find_range(outline, asked)
    found = find_heading(outline, query)
    if asked is not None and (found is None or found.heading is None or _norm(found.heading.text) != _norm(query)):
        return find_range(outline, asked)
    return found or find_words(outline, query)


def find_heading(outline: Outline, query: str) -> Found | None:
    """Find a heading by its text or its path (`Install > Linux`)."""
    norms = [_norm(heading.text) for heading in outline.headings]
    *above, name = [_norm(part) for part in _PATH.split(query)]
    # A heading may have the path's own mark in it, as in `a -> b`.
    return _find_heading(outline, norms, (), _norm(query)) or _find_heading(outline, norms, above, name)


def _find_heading(outline: Outline, norms: Sequence[str], above: Sequence[str], name: str) -> Found | None:
    for fits in (str.__eq__, str.startswith, str.__contains__) if name else ():
        matching = [
            index for index, norm in enumerate(norms) if fits(norm, name) and _is_under(outline, norms, index, above)
        ]
        if matching:
            first, *others = (outline.headings[index] for index in matching[: CANDIDATES_MAX + 1])
            return Found(span(first.line, first.end), By.HEADING, first, tuple(others))
    return None


def find_fragment(outline: Outline, fragment: str) -> Found | None:
    """Find the heading that a URL's fragment names, by the way documentation tools make fragments of headings."""
    name = _norm(unquote(fragment))
    for heading in outline.headings if name else ():
        if _norm(heading.text) == name:
            return Found(span(heading.line, heading.end), By.HEADING, heading)
    return None


def _is_under(outline: Outline, norms: Sequence[str], index: int, above: Sequence[str]) -> bool:
    """Whether the headings above this one hold these, in order and perhaps with others between them."""
    wanted = list(above)
    parent = outline.headings[index].parent
    while wanted and parent is not None:
        if norms[parent].startswith(wanted[-1]):
            wanted.pop()
        parent = outline.headings[parent].parent
    return not wanted


def _norm(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


def find_words(outline: Outline, query: str) -> Found | None:
    """Find the part whose own text holds most of the query's words; the whole phrase counts for more.

    A part is what stands under one heading before the next; without headings, a block, shown with all that follows.
    """
    phrase = query.casefold().strip()
    words = tuple(dict.fromkeys(_WORD.findall(phrase)))[:_WORDS_MAX]
    if not words:
        return None
    best: tuple[int, int] = (0, 0)
    found: Found | None = None
    is_headless = not outline.headings
    for place, heading in _parts(outline):
        text = outline.text(place.first.line, place.last.line).casefold()
        present = sum(word in text for word in words)
        if not present:
            continue
        times = text.count(phrase)
        score = (present + (len(words) if times else 0), min(times, 20))
        if score > best:
            best = score
            section = span(place.first.line, outline.end if is_headless else place.last.line)
            found = Found(section, By.WORDS, heading)
    return found


def _parts(outline: Outline) -> Iterator[tuple[Span, Heading | None]]:
    if not outline.headings:
        yield from ((span(block.first, block.last), None) for block in outline.blocks)
        return
    first = outline.headings[0].line
    if first > 1:
        yield span(1, first - 1), None
    for heading in outline.headings:
        yield span(heading.line, heading.own_end), heading


@dataclass(frozen=True, slots=True)
class Match:
    """A line in which a text was found.

    Attributes:
        place: The line, or the part of a long one.
        text: The line or part.
    """

    place: Place
    text: str


def find_text(outline: Outline, needle: str) -> tuple[Match, ...]:
    """Find a text: literally, without regard to case, each line once.

    In a long line every part is looked at by itself, with as much of the next as the text may reach into.
    """
    wanted = needle.casefold()
    if not wanted:
        return ()
    found: list[Match] = []
    for number, line in enumerate(outline.lines, 1):
        if wanted not in line.casefold():
            continue
        parts = part_count(line)
        if not parts:
            found.append(Match(Place(number), line))
        for part in range(parts):
            start = part * PART_CHARACTERS
            if wanted in line[start : start + PART_CHARACTERS + len(needle) - 1].casefold():
                found.append(Match(Place(number, part + 1), line[start : start + PART_CHARACTERS]))
    return tuple(found)
