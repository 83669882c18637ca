"""A page's plan: its headings with what stands under each, or where there are none, ranges of lines.

Pure, linear in the page. Called by `summaries`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oz0_web.outline import Block, Outline, Span, blocks_within, span

# A page without headings is told as so many ranges of lines at most.
_RANGES_MAX = 40
_RANGE_LINES_LEAST = 10


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the page's plan: a heading, what stands before the first one, or a range of lines.

    Attributes:
        level: 1 to 6; 0 for what has no heading.
        label: The heading's words, or empty.
        own: Its own lines, without those of headings below it.
        whole: With them.
        blocks: Of its own lines, without the heading.
    """

    level: int
    label: str
    own: Span
    whole: Span
    blocks: Sequence[Block]


def plan(outline: Outline) -> tuple[Entry, ...]:
    """Divide a page by its headings, or where it has none, into ranges of lines at the bounds of blocks."""
    if not outline.headings:
        return tuple(_ranges(outline))
    found = []
    first = outline.headings[0].line
    if before := blocks_within(outline, 1, first - 1):
        found.append(Entry(0, "", span(1, first - 1), span(1, first - 1), before))
    for each in outline.headings:
        blocks = blocks_within(outline, each.body, each.own_end) if each.body <= each.own_end else ()
        found.append(Entry(each.level, each.text, span(each.line, each.own_end), span(each.line, each.end), blocks))
    return tuple(found)


def _ranges(outline: Outline) -> list[Entry]:
    step = max(_RANGE_LINES_LEAST, -(-outline.end // _RANGES_MAX))
    found = []
    first = 1
    while first <= outline.end:
        last = min(first + step - 1, outline.end)
        reaching = blocks_within(outline, last, last)
        if reaching and last < reaching[0].last <= last + step // 2:
            last = reaching[0].last
        blocks = tuple(
            Block(max(each.first, first), min(each.last, last), each.kind)
            for each in blocks_within(outline, first, last)
        )
        found.append(Entry(0, f"Lines {first}-{last}", span(first, last), span(first, last), blocks))
        first = last + 1
    return found
