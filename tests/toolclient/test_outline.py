"""Lines, headings and blocks of a page's Markdown."""

from __future__ import annotations

import time

import pytest

from oz0_web.outline import Kind, Outline, Place, Span, blocks_within, is_markdown, part_count, read_outline, span


def outline(text: str) -> Outline:
    return read_outline(text, is_markdown=True)


def headings(text: str) -> list[tuple[int, str, int]]:
    return [(each.level, each.text, each.line) for each in outline(text).headings]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("# One\n\ntext\n\n## Two", [(1, "One", 1), (2, "Two", 5)]),
        ("####### seven", []),
        ("#no space", []),
        ("#", [(1, "", 1)]),
        ("   ### three spaces", [(3, "three spaces", 1)]),
        ("    # code", []),
        ("# closed ##", [(1, "closed", 1)]),
        ("# C#", [(1, "C#", 1)]),
        ("Setext\n===", [(1, "Setext", 1)]),
        ("Set\nin two\n---", [(2, "Set in two", 1)]),
        ("- item\n---", []),
        ("| a |\n---", []),
        ("\n---", []),
        ("```\n# not\n```\n# yes", [(1, "yes", 4)]),
        ("~~~ sh\n# not\n```\n# not\n~~~~\n# yes", [(1, "yes", 6)]),
        ("- ```\n  # not\n  ```\n# yes", [(1, "yes", 4)]),
        ("```\n# never closed", []),
        ("``` a`b\n# yes", [(1, "yes", 2)]),
        ("---\ntitle: x\n# not\n---\n# yes", [(1, "yes", 5)]),
        ("---\n# yes", [(1, "yes", 2)]),
        ("## [Popen](https://a.example/x)[¶](#p)", [(2, "Popen", 1)]),
        ("## `os` *and* **snake_case** ¶", [(2, "os and snake_case", 1)]),
        ("## Heading #", [(2, "Heading", 1)]),
    ],
)
@pytest.mark.requirement("OZ-44")
def test_headings_are_what_markdown_says(text: str, found: list[tuple[int, str, int]]) -> None:
    assert headings(text) == found


@pytest.mark.requirement("OZ-48")
def test_text_that_is_not_markdown_has_no_headings() -> None:
    page = read_outline("# a comment\nx = 1\n---\n\ny", is_markdown=False)

    assert page.headings == ()
    assert [(each.first, each.last, each.kind) for each in page.blocks] == [(1, 3, Kind.TEXT), (5, 5, Kind.TEXT)]


@pytest.mark.requirement("OZ-43")
def test_a_section_reaches_to_the_next_heading_of_its_level_or_higher() -> None:
    page = outline("# A\n## B\nb\n### C\nc\n## D\nd\n# E")

    assert [(each.text, each.end, each.own_end, each.parent) for each in page.headings] == [
        ("A", 7, 1, None),
        ("B", 5, 3, 0),
        ("C", 5, 5, 1),
        ("D", 7, 7, 0),
        ("E", 8, 8, None),
    ]


def test_blocks_are_parted_by_blank_lines_headings_and_fences() -> None:
    page = outline("text\nmore\n\n- a\n- b\n# H\n```\n\nx\n```\n| t |\n|---|")

    assert [(each.first, each.last, each.kind) for each in page.blocks] == [
        (1, 2, Kind.TEXT),
        (4, 5, Kind.ROWS),
        (6, 6, Kind.HEADING),
        (7, 10, Kind.FENCE),
        (11, 12, Kind.ROWS),
    ]
    assert [each.first for each in blocks_within(page, 2, 7)] == [1, 4, 6, 7]
    assert list(blocks_within(page, 3, 3)) == []


@pytest.mark.parametrize(("text", "count"), [("", 1), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n", 1)])
def test_lines_are_counted_without_a_last_empty_one(text: str, count: int) -> None:
    assert outline(text).end == count


@pytest.mark.parametrize(
    ("media_type", "url", "found"),
    [
        ("text/html", "https://a.example/", True),
        ("text/markdown", "https://a.example/", True),
        ("text/plain", "https://a.example/README.md?raw=1#x", True),
        ("text/plain", "https://a.example/script.sh", False),
        ("application/json", "https://a.example/x.md", False),
    ],
)
def test_markdown_is_known_by_type_and_plain_text_by_its_name(media_type: str, url: str, *, found: bool) -> None:
    assert is_markdown(media_type, url) is found


def test_places_and_spans_are_written_as_queries_write_them() -> None:
    assert [str(Place(57)), str(Place(57, 2)), str(span(40, 90)), str(span(4, 4))] == ["57", "57.2", "40-90", "4"]
    assert str(Span(Place(57, 2), Place(60))) == "57.2-60"
    assert [part_count("x" * size) for size in (4_000, 4_001, 8_001)] == [0, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit", ["# a\n", "```\n", "a\n---\n", "- - - - x\n", "[](", "## [a][b](c) ¶ #\n", " " * 99 + "\n"]
)
def test_reading_is_linear(unit: str) -> None:
    def seconds(count: int) -> float:
        text = unit * count
        began = time.process_time()
        outline(text)
        return time.process_time() - began

    small = max(min(seconds(2_000) for _ in range(3)), 0.0005)

    assert min(seconds(20_000) for _ in range(2)) < 40 * small
