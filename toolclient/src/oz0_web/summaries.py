"""Summary and stub: what a page is about, with its headings, where the whole of it has no room.

Pure. The summary as asked for names every heading with its first sentence; `fill` adds whole blocks to it, round by
round over the sections in their order, as long as there is room. Called by `fitting`.
"""

from __future__ import annotations

from collections.abc import Sequence

from oz0_web.limits import ANSWER_MAX_CHARACTERS
from oz0_web.measures import NOTHING, Meter, Size
from oz0_web.outline import Kind, Outline, Place, Span, span
from oz0_web.passages import take
from oz0_web.plans import Entry
from oz0_web.sentences import first_sentence
from oz0_web.views import Subject, View

_LABEL_CHARACTERS = 120
_HEAD_SHARE = 0.25
# No budget has room for more.
_STUB_LINES_MAX = 4_000
# With less room than this, in tokens before the margin, no part of a block is added to a summary.
_PARTIAL_LEAST_TOKENS = 24.0
_MARK_AT_MOST = "[… 000000-000000]\n\n"


def summary(page: Subject) -> View:
    """Give address and title, then each heading with its first sentence."""
    parts = [page.head]
    length = 0
    for entry in page.entries:
        parts.append(_short(page.outline, entry))
        length += len(parts[-1])
        if length > ANSWER_MAX_CHARACTERS:
            break  # fits nowhere
    return View("summary", "\n".join(parts).rstrip(), (span(1, page.outline.end),), _first_rest(page, page.entries))


def _first_rest(page: Subject, entries: Sequence[Entry]) -> Span | None:
    return next((entry.own for entry in entries if entry.blocks), span(1, page.outline.end) if entries else None)


def _short(outline: Outline, entry: Entry) -> str:
    sentence = first_sentence(outline, tuple(entry.blocks[:4]))
    return f"{_title_line(entry)}{sentence}\n" if sentence else _title_line(entry)


def _title_line(entry: Entry) -> str:
    if not entry.label:
        return ""
    return f"{'#' * entry.level} {entry.label}\n" if entry.level else f"{entry.label}\n"


class _Filling:
    """One section of a summary while it is filled: how many of its blocks stand in it whole."""

    def __init__(self, outline: Outline, entry: Entry, meter: Meter) -> None:
        self.outline = outline
        self.entry = entry
        self.shown = 0
        self.partial = ""
        self.next: Place | None = None
        self.short = _short(outline, entry)
        self._meter = meter
        self.size = meter.size(self.short + "\n")

    def text(self, shown: int) -> str:
        """Give the section with so many whole blocks."""
        if not shown and not self.partial:
            return self.short
        blocks = self.entry.blocks
        parts = [_title_line(self.entry).rstrip("\n")] if self.entry.label else []
        parts += [self.outline.text(block.first, block.last) for block in blocks[:shown]]
        if self.partial:
            parts.append(self.partial)
        if shown < len(blocks):
            parts.append(self.mark(shown))
        return "\n\n".join(parts) + "\n"

    def mark(self, shown: int) -> str:
        first = self.next or Place(self.entry.blocks[shown].first)
        return f"[… {Span(first, self.entry.own.last)}]"

    def step(self) -> Size:
        """Give what one more block adds, by sizes of the pieces alone."""
        block = self.entry.blocks[self.shown]
        added = self._meter.size(self.outline.text(block.first, block.last) + "\n\n")
        if self.shown == 0:
            title = self._meter.size(_title_line(self.entry) + "\n")
            added = added.plus(title).minus(self.size)
        is_last = self.shown + 1 == len(self.entry.blocks)
        mark = self._meter.size(_MARK_AT_MOST)
        if self.shown == 0 and not is_last:
            return added.plus(mark)
        return added.minus(mark) if is_last and self.shown else added


def fill(page: Subject, room: Size, meter: Meter) -> View | None:
    """Give a summary with as many whole blocks as there is room for; None where the summary itself has none."""
    left = room.minus(meter.size(page.head + "\n"))
    sections: list[_Filling] = []
    for entry in page.entries:
        section = _Filling(page.outline, entry, meter)
        left = left.minus(section.size)
        if not NOTHING.fits(left):
            return None
        sections.append(section)
    going = [section for section in sections if section.entry.blocks]
    while going:
        still = []
        for section in going:
            block = section.entry.blocks[section.shown]
            if block.last - block.first > left.characters:
                continue
            added = section.step()
            if not added.fits(left):
                continue
            left = left.minus(added)
            section.shown += 1
            if section.shown < len(section.entry.blocks):
                still.append(section)
        going = still
    _fill_rest(page.outline, sections, left, meter)
    content = "\n".join([page.head, *(section.text(section.shown) for section in sections)]).rstrip()
    left_out = tuple(
        Span(section.next or Place(section.entry.blocks[section.shown].first), section.entry.own.last)
        for section in sections
        if section.shown < len(section.entry.blocks)
    )
    is_filled = any(section.shown or section.partial for section in sections)
    rest = left_out[0] if left_out else None
    return View("summary", content, left_out, rest, is_cut=True, is_filled=is_filled)


def _fill_rest(outline: Outline, sections: Sequence[_Filling], left: Size, meter: Meter) -> None:
    """Use what no whole block fits into: a part of the next block of the first sections, cut between its lines."""
    mark = meter.size(_MARK_AT_MOST + "\n\n")
    least = _PARTIAL_LEAST_TOKENS * meter.estimator.margin
    for section in sections:
        if left.tokens < least:
            return
        blocks = section.entry.blocks
        if section.shown >= len(blocks) or blocks[section.shown].kind is Kind.HEADING:
            continue
        block = blocks[section.shown]
        room = left.minus(mark)
        if section.shown == 0:
            room = room.plus(section.size).minus(meter.size(_title_line(section.entry) + "\n"))
        taken = take(outline, span(block.first, block.last), room, meter)
        if taken.rest is None or not taken.content or (section.shown == 0 and len(taken.content) < len(section.short)):
            continue
        section.partial = taken.content
        section.next = taken.rest.first
        used = meter.size(taken.content + "\n\n")
        left = room.minus(used)


def stub(page: Subject, room: Size, meter: Meter) -> View:
    """Give address, title, size and the headings, the deepest left out first, then the last ones."""
    entries = [entry for entry in page.entries if entry.label]
    size = f"{page.tokens} tokens, {page.outline.end} lines\n"
    head = page.head + size
    if meter.size(head).tokens > _HEAD_SHARE * room.tokens or not meter.fits(head, room):
        head = size[: room.points] if room.points > 0 else ""  # the answer itself names the page
    left = room.minus(meter.size(head))
    if not NOTHING.fits(left):
        return View("stub", "", (span(1, page.outline.end),), span(1, page.outline.end), is_cut=True)
    more = meter.size("… and 00000 more\n")
    total = len(entries)
    level = 6
    while level > 1 and sum(entry.level <= level for entry in entries) > _STUB_LINES_MAX:
        level -= 1
    entries = [entry for entry in entries if entry.level <= level][:_STUB_LINES_MAX]
    lines = [_stub_line(page.outline, entry) for entry in entries]
    sizes = [meter.size(line) for line in lines]
    while level > 1 and not _sum(sizes, entries, level).plus(more).fits(left):
        level -= 1
    kept: list[str] = []
    is_whole = len(entries) == total and _sum(sizes, entries, level).fits(left)
    left = left if is_whole else left.minus(more)
    for line, taken, entry in zip(lines, sizes, entries, strict=True):
        if entry.level > level:
            continue
        if not taken.fits(left):
            break
        left = left.minus(taken)
        kept.append(line)
    if len(kept) < total and NOTHING.fits(left):
        kept.append(f"… and {total - len(kept)} more\n")
    whole = (span(1, page.outline.end),)
    first = entries[0].whole if entries else whole[0]
    return View("stub", (head + "".join(kept)).rstrip(), whole, first, is_cut=len(kept) < total)


def _sum(sizes: Sequence[Size], entries: Sequence[Entry], level: int) -> Size:
    chosen = [size for size, entry in zip(sizes, entries, strict=True) if entry.level <= level]
    return Size(
        sum(size.tokens for size in chosen),
        sum(size.characters for size in chosen),
        sum(size.points for size in chosen),
    )


def _stub_line(outline: Outline, entry: Entry) -> str:
    if not entry.level:
        words = first_sentence(outline, tuple(entry.blocks[:2]))[:60]
        return f"{entry.whole}: {words}\n"
    return f"{'  ' * (entry.level - 1)}- {entry.label[:_LABEL_CHARACTERS]} ({entry.whole})\n"
