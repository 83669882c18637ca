"""The first sentence under a heading: what a summary shows of a section.

Pure; looks at the beginning of the first paragraph only. Called by `views`.
"""

from __future__ import annotations

import re

from oz0_web.outline import Block, Kind, Outline

SENTENCE_MAX_CHARACTERS = 300
# Where nothing ends before that, so much is looked at for an end.
_LOOK_CHARACTERS = 1_200
_END = re.compile(r"[.!?…]['\"”’)\]*_]*(?=\s)|[。｡\uff01\uff1f][」』”’\uff09]*")
_NO_END = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|cf|vs|approx|no|fig|sec|dr|mr|mrs|ms|prof|st|inc|ltd|z\.b|d\.h|bzw|usw|p\.ex)|\b[A-Z])\.$",
    re.IGNORECASE,
)
_ITEM = re.compile(r"\A[ \t]*(?:(?:[-*+]|\d{1,9}[.)]|>)[ \t]+)+(?:\[[ xX]\][ \t]+)?")
_RULE = re.compile(r"[\s\-*_=|:+>]*")


def first_sentence(outline: Outline, blocks: list[Block] | tuple[Block, ...]) -> str:
    """Give the first sentence of the first paragraph among these blocks, or of the first list item; or nothing.

    Args:
        outline: The page.
        blocks: What stands under a heading before the next one.

    Returns:
        At most 300 characters, on one line.
    """
    for block in blocks:
        if block.kind in {Kind.FENCE, Kind.HEADING}:
            continue
        words = _beginning(outline, block)
        if words:
            return cut_sentence(words)
    return ""


def _beginning(outline: Outline, block: Block) -> str:
    """Give the start of a block's text, as one line; an item's or a row's own line only."""
    found: list[str] = []
    length = 0
    for number in range(block.first, block.last + 1):
        line = outline.lines[number - 1][:_LOOK_CHARACTERS]
        if _RULE.fullmatch(line):
            continue
        text = _ITEM.sub("", line, count=1).strip()
        found.append(text)
        length += len(text)
        if block.kind is Kind.ROWS or length >= _LOOK_CHARACTERS:
            break
    return " ".join(found)


def cut_sentence(text: str) -> str:
    """Cut a text after its first sentence, or at a word where that is too long."""
    text = " ".join(text[:_LOOK_CHARACTERS].split())
    for match in _END.finditer(text):
        if match.end() > SENTENCE_MAX_CHARACTERS:
            break
        following = text[match.end() : match.end() + 2].strip()
        if _NO_END.search(text[max(0, match.start() - 8) : match.start() + 1]) or (following and following.islower()):
            continue
        return text[: match.end()]
    if len(text) <= SENTENCE_MAX_CHARACTERS:
        return text
    cut = text.rfind(" ", SENTENCE_MAX_CHARACTERS // 2, SENTENCE_MAX_CHARACTERS - 1)
    return text[: cut if cut > 0 else SENTENCE_MAX_CHARACTERS - 1] + "…"
