"""A page's Markdown as lines, headings and blocks: what views are cut from.

Pure, one pass over the lines. Decides what counts as a heading: ATX and Setext ones, never a `#` in fenced code, never
front matter; in text that is not Markdown, nothing. Lines are numbered from 1 and stay what they are, so that a range
that was named once finds the same text again. Called by `lookup`, `passages` and `views`.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from oz0_web.media_types import HTML_TYPES

# A longer line is addressed in parts of so many characters: `57.2` is the second part of line 57.
PART_CHARACTERS = 4_000
# Of a heading that is longer, the rest is not looked at.
_HEADING_MAX_CHARACTERS = 1_000

_FENCE = re.compile(r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)]|>)[ \t]+){0,8}(`{3,}|~{3,})")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*")
_NOT_A_PARAGRAPH = re.compile(r"[ \t]*(?:[-*+>|#]|\d{1,9}[.)])")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)|!?\[([^\[\]]*)\]\[[^\[\]]*\]")
_MARKS = re.compile(r"\\(?=[!-/:-@\[-`{-~])|[*`]|(?<!\w)_|_(?!\w)")
_ANCHORS = " \t¶🔗⚓"


class Kind(Enum):
    """Kinds of blocks, told apart because they are cut in different ways."""

    HEADING = auto()
    FENCE = auto()
    ROWS = auto()  # lists, tables, quotes: any line is a good place to cut
    TEXT = auto()


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that belong together, both ends included."""

    first: int
    last: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading and what stands under it.

    Attributes:
        level: 1 to 6.
        text: Without Markdown's marks and without a trailing anchor.
        line: Where it begins.
        body: The first line after it.
        own_end: The last line before the next heading.
        end: The last line of its section, the headings below it included.
        parent: Index of the heading that it stands under, or None.
    """

    level: int
    text: str
    line: int
    body: int
    own_end: int
    end: int
    parent: int | None


@dataclass(frozen=True, slots=True)
class Outline:
    """A page, read once.

    Attributes:
        lines: All of them, without line ends; line 1 is `lines[0]`.
        headings: In order; for a page without any, none.
        blocks: In order; every line that is not blank is in exactly one.
    """

    lines: Sequence[str]
    headings: tuple[Heading, ...]
    blocks: tuple[Block, ...]

    @property
    def end(self) -> int:
        """The last line's number."""
        return len(self.lines)

    def text(self, first: int, last: int) -> str:
        """Give whole lines, both ends included."""
        return "\n".join(self.lines[first - 1 : last])


_MARKDOWN_TYPES = HTML_TYPES | {"text/markdown", "text/x-markdown"}
_MARKDOWN_ENDINGS = (".md", ".markdown", ".mdown", ".mkd")


def is_markdown(media_type: str, url: str) -> bool:
    """Whether what became of a body is Markdown: HTML did, and servers label Markdown's own files as plain text."""
    path = url.partition("#")[0].partition("?")[0].lower()
    return media_type in _MARKDOWN_TYPES or (media_type == "text/plain" and path.endswith(_MARKDOWN_ENDINGS))


def read_outline(text: str, *, is_markdown: bool) -> Outline:
    """Read a page.

    Args:
        text: All of it.
        is_markdown: Whether `#` can be a heading; in plain text or JSON it never is.
    """
    lines = text.split("\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    scan = _Scan(lines, is_markdown=is_markdown)
    scan.run()
    return Outline(lines, _nest(scan.found, len(lines)), tuple(scan.blocks))


class _Scan:
    """The one pass: what block is open, and what was found so far."""

    def __init__(self, lines: Sequence[str], *, is_markdown: bool) -> None:
        self._lines = lines
        self._is_markdown = is_markdown
        self.blocks: list[Block] = []
        self.found: list[tuple[int, str, int, int]] = []  # level, text, line, last line of the heading itself
        self._open = 0  # first line of the open block, 0 for none

    def run(self) -> None:
        number = self._front_matter() if self._is_markdown else 0
        lines, count = self._lines, len(self._lines)
        while number < count:
            line = lines[number]
            number += 1
            stripped = line.lstrip()
            if not stripped:
                self._close(number - 1)
            elif not self._is_markdown:
                self._open = self._open or number
            elif stripped[0] in "`~-*+>0123456789" and (fence := _fence(line)):
                self._close(number - 1)
                last = self._fence_end(number, fence)
                self.blocks.append(Block(number, last, Kind.FENCE))
                number = last
            elif stripped[0] == "#" and (atx := _atx(line)) is not None:
                self._close(number - 1)
                self._heading(*atx, number, number)
            elif self._open and stripped[0] in "=-" and (level := self._underlined(line)):
                first, self._open = self._open, 0
                self._heading(level, " ".join(each.strip() for each in lines[first - 1 : number - 1]), first, number)
            else:
                self._open = self._open or number
        self._close(count)

    def _front_matter(self) -> int:
        """Give how many lines of front matter stand at the start; they are a block of text."""
        if self._lines[0].rstrip() != "---":
            return 0
        for index in range(1, min(len(self._lines), 200)):
            if self._lines[index].rstrip() in {"---", "..."}:
                self.blocks.append(Block(1, index + 1, Kind.ROWS))
                return index + 1
        return 0

    def _close(self, last: int) -> None:
        if self._open:
            is_rows = self._is_markdown and _NOT_A_PARAGRAPH.match(self._lines[self._open - 1])
            self.blocks.append(Block(self._open, last, Kind.ROWS if is_rows else Kind.TEXT))
            self._open = 0

    def _heading(self, level: int, text: str, first: int, last: int) -> None:
        self.blocks.append(Block(first, last, Kind.HEADING))
        self.found.append((level, plain_heading(text), first, last))

    def _fence_end(self, first: int, mark: str) -> int:
        for number in range(first + 1, len(self._lines) + 1):
            closing = self._lines[number - 1].strip(" \t>")
            if closing.startswith(mark) and not closing.strip(mark[0]):
                return number
        return len(self._lines)

    def _underlined(self, line: str) -> int:
        """Give the level that this line makes the open paragraph a heading of, or 0."""
        match = _UNDERLINE.fullmatch(line)
        if match is None or _NOT_A_PARAGRAPH.match(self._lines[self._open - 1]):
            return 0
        return 1 if match[1][0] == "=" else 2


def _fence(line: str) -> str:
    match = _FENCE.match(line)
    if match is None or (match[1][0] == "`" and "`" in line[match.end() :]):
        return ""
    return match[1]


def _atx(line: str) -> tuple[int, str] | None:
    text = line.lstrip(" ")
    level = len(text) - len(text.lstrip("#"))
    rest = text[level:]
    if len(line) - len(text) > 3 or level > 6 or (rest and rest[0] not in " \t"):
        return None
    rest = rest.strip()
    without = rest.rstrip("#")
    return level, (without if not without or without[-1] in " \t" else rest)


def plain_heading(text: str) -> str:
    """Give a heading's words: no links, no emphasis, no code marks, no trailing anchor."""
    text = text[:_HEADING_MAX_CHARACTERS]
    text = _LINK.sub(lambda match: match[1] or match[2] or "", text)
    text = _MARKS.sub("", text).rstrip(_ANCHORS)
    return " ".join(text.removesuffix(" #").split())


def _nest(found: Sequence[tuple[int, str, int, int]], end: int) -> tuple[Heading, ...]:
    ends = [end] * len(found)
    parents: list[int | None] = [None] * len(found)
    above: list[int] = []
    for index, (level, _, line, _) in enumerate(found):
        while above and found[above[-1]][0] >= level:
            ends[above.pop()] = line - 1
        parents[index] = above[-1] if above else None
        above.append(index)
    return tuple(
        Heading(
            level=level,
            text=text,
            line=line,
            body=last + 1,
            own_end=found[index + 1][2] - 1 if index + 1 < len(found) else end,
            end=ends[index],
            parent=parents[index],
        )
        for index, (level, text, line, last) in enumerate(found)
    )


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A line, or a part of a long one.

    Attributes:
        line: From 1.
        part: From 1; 0 for a line as a whole.
    """

    line: int
    part: int = 0

    def __str__(self) -> str:
        """Give it as a query writes it."""
        return f"{self.line}.{self.part}" if self.part else str(self.line)


@dataclass(frozen=True, slots=True)
class Span:
    """From one place to another, both included; `last` with part 0 means to the line's end."""

    first: Place
    last: Place

    def __str__(self) -> str:
        """Give it as a query writes it."""
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


def span(first: int, last: int) -> Span:
    """Give whole lines."""
    return Span(Place(first), Place(last))


def part_count(line: str) -> int:
    """Give in how many parts a line is addressed; 0 for a line that is short enough."""
    return -(-len(line) // PART_CHARACTERS) if len(line) > PART_CHARACTERS else 0


def blocks_within(outline: Outline, first: int, last: int) -> Sequence[Block]:
    """Give the blocks that have a line in this range."""
    start = bisect_left(outline.blocks, first, key=lambda block: block.last)
    stop = bisect_right(outline.blocks, last, key=lambda block: block.first)
    return outline.blocks[start:stop]
