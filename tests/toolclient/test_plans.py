"""A page's plan: headings, or ranges of lines."""

from __future__ import annotations

import itertools

import pytest

from oz0_web.outline import read_outline
from oz0_web.plans import plan


def test_headings_are_the_plan_with_what_stands_before_the_first() -> None:
    entries = plan(read_outline("before\n\n# A\n\na\n\n## B\n# C", is_markdown=True))

    assert [(each.level, each.label, str(each.own), str(each.whole), len(each.blocks)) for each in entries] == [
        (0, "", "1-2", "1-2", 1),
        (1, "A", "3-6", "3-7", 1),
        (2, "B", "7", "7", 0),
        (1, "C", "8", "8", 0),
    ]


@pytest.mark.requirement("OZ-48")
def test_a_page_without_headings_is_divided_into_ranges_that_cover_it() -> None:
    text = "\n".join("" if each % 7 == 0 else f"line {each}" for each in range(1, 1_001))
    entries = plan(read_outline(text, is_markdown=False))

    assert entries[0].own.first.line == 1
    assert entries[-1].own.last.line == 1_000
    assert all(a.own.last.line + 1 == b.own.first.line for a, b in itertools.pairwise(entries))
    assert entries[0].label == str(f"Lines {entries[0].own}")
    assert 20 <= len(entries) <= 40


def test_an_empty_page_has_one_range_without_blocks() -> None:
    assert [(each.label, each.blocks) for each in plan(read_outline("", is_markdown=True))] == [("Lines 1-1", ())]
