"""Queries to places: headings, paths, fragments, ranges, words."""

from __future__ import annotations

import pytest

from oz0_web.lookup import By, Found, PastEnd, find_fragment, find_query, find_range, find_text, parse_range
from oz0_web.outline import Outline, Place, Span, read_outline

PAGE = """\
intro words

# Guide

## Install

### Linux

apt install it

### Windows

download the thing

## Installation notes

notes about proxies and certificates

## Use

### Linux

run it under systemd with a proxy

## 2026

## a -> b
"""


def page(text: str = PAGE) -> Outline:
    return read_outline(text, is_markdown=True)


def place(query: str, text: str = PAGE) -> str:
    found = find_query(page(text), query)
    return f"{found.by.name} {found.span}" if isinstance(found, Found) else repr(found)


@pytest.mark.requirement("OZ-43", "OZ-54")
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("Install", "HEADING 5-14"),
        ("  inSTALL: ", "HEADING 5-14"),
        ("## Install", "HEADING 5-14"),
        ("Installation", "HEADING 15-18"),
        ("notes", "HEADING 15-18"),
        ("Linux", "HEADING 7-10"),
        ("Use > Linux", "HEADING 21-24"),
        ("Guide > Linux", "HEADING 7-10"),
        ("guide > use › linux", "HEADING 21-24"),
        ("Windows > Linux", "WORDS 7-10"),
        ("a -> b", "HEADING 27-27"),
        ("2026", "HEADING 25-26"),
        ("4-9", "RANGE 4-9"),
        ("20", "RANGE 20"),
        ("lines 4 – 9", "RANGE 4-9"),
        ("L4-L9", "RANGE 4-9"),
        ("4-900", "RANGE 4-27"),
        ("900-901", "PastEnd(asked='900-901', end='27')"),
        ("systemd with a proxy", "WORDS 21-24"),
        ("certificates", "WORDS 15-18"),
        ("intro words", "WORDS 1-2"),
        ("zebra", "None"),
        ("?!", "None"),
    ],
)
def test_a_query_is_a_heading_a_path_a_range_or_words(query: str, found: str) -> None:
    assert place(query).replace("27-27", "27") == found.replace("27-27", "27")


@pytest.mark.requirement("OZ-43")
def test_headings_that_match_as_well_are_listed() -> None:
    found = find_query(page(), "linux")

    assert isinstance(found, Found)
    assert [each.line for each in found.others] == [21]


@pytest.mark.requirement("OZ-48")
def test_without_headings_words_lead_to_the_block_and_all_after_it() -> None:
    assert place("needle", "one\n\ntwo\n\na needle\n\nthree") == "WORDS 5-7"


@pytest.mark.parametrize(
    ("fragment", "line"),
    [("install", 5), ("installation-notes", 15), ("Installation%20notes", 15), ("no", None), ("", None)],
)
def test_a_fragment_is_a_heading_as_tools_write_it(fragment: str, line: int | None) -> None:
    found = find_fragment(page(), fragment)

    assert (found.span.first.line if found else None) == line


@pytest.mark.parametrize("text", ["9-4", "0", "0-4", "x", "4-", "-4", "", "1.2.3", "57.3-57.2", "9" * 12])
def test_what_is_no_range_is_none(text: str) -> None:
    assert parse_range(text) is None


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("2.1", "2.1"),
        ("2.3", "2.3"),
        ("2.2-3", "2.2-3"),
        ("2", "2"),
        ("1.1-2.2", "1-2.2"),
        ("2.4", "past 2.3"),
        ("1.2", "past 1"),
        ("4", "past 3"),
    ],
)
def test_a_long_line_is_addressed_in_parts(query: str, found: str) -> None:
    asked = parse_range(query)
    assert asked is not None
    result = find_range(read_outline("a\n" + "x" * 9_000 + "\nb", is_markdown=False), asked)

    assert (f"past {result.end}" if isinstance(result, PastEnd) else str(result.span)) == found


def test_a_text_is_found_literally_without_regard_to_case_each_line_once() -> None:
    text = "a.b and A.B\n\nacb\n" + "x" * 3_998 + "a.b" + "y" * 4_000
    outline = read_outline(text, is_markdown=True)

    assert [str(match.place) for match in find_text(outline, "A.b")] == ["1", "4.1"]
    assert find_text(outline, "") == ()


def test_the_whole_phrase_counts_for_more_than_its_words() -> None:
    text = "# A\nproxy proxy set the the\n# B\nset the proxy\n"

    assert find_query(page(text), "set the proxy") == Found(Span(Place(3), Place(4)), By.WORDS, page(text).headings[1])
