"""Where a range is cut."""

from __future__ import annotations

import pytest

from oz0_web.lookup import Found, find_range, parse_range
from oz0_web.measures import Meter, Size
from oz0_web.outline import read_outline
from oz0_web.passages import Passage, take
from oz0_web.tokens import ESTIMATORS

METER = Meter(ESTIMATORS["generic"], str)
PAGE = "# Head\n\nFirst paragraph.\n\nSecond one here.\n\n- item 1\n- item 2\n\n```py\nx = 1\ny = 2\n```\n\nEnd."


def taken(text: str, asked: str, characters: int, *, tokens: float = 1e9) -> tuple[str, str, bool]:
    outline = read_outline(text, is_markdown=True)
    parsed = parse_range(asked)
    assert parsed is not None
    found = find_range(outline, parsed)
    assert isinstance(found, Found)
    passage = take(outline, found.span, Size(tokens, characters, characters), METER)
    assert isinstance(passage, Passage)
    return passage.content, str(passage.rest), passage.is_inside


@pytest.mark.requirement("OZ-43")
@pytest.mark.parametrize(
    ("asked", "characters", "content", "rest"),
    [
        ("1-15", 1_000, PAGE, "None"),
        ("3-5", 1_000, "First paragraph.\n\nSecond one here.", "None"),
        ("1-15", 46, "# Head\n\nFirst paragraph.\n\nSecond one here.", "7-15"),
        ("1-15", 50, "# Head\n\nFirst paragraph.\n\nSecond one here.", "7-15"),
        ("7-15", 12, "- item 1", "8-15"),
        ("11-12", 100, "x = 1\ny = 2", "None"),
        ("2-2", 100, "", "None"),
    ],
)
def test_a_cut_falls_after_a_block_and_inside_one_only_where_much_would_be_unused(
    asked: str, characters: int, content: str, rest: str
) -> None:
    assert taken(PAGE, asked, characters) == (content, rest, False)


def test_a_fence_that_is_cut_is_closed() -> None:
    code = "```py\n" + "".join(f"line {each}\n" for each in range(9)) + "```"

    content, rest, _ = taken(code, "1-11", 40)

    assert (content, rest) == ("```py\nline 0\nline 1\nline 2\nline 3\n```", "6-11")


@pytest.mark.requirement("OZ-48")
def test_a_long_line_is_cut_between_its_parts() -> None:
    text = "a" * 4_000 + "b" * 4_000 + "c" * 10

    assert taken(text, "1", 8_005) == ("a" * 4_000 + "b" * 4_000, "1.3-1", False)
    assert taken(text, "1.2", 8_000) == ("b" * 4_000, "None", False)
    assert taken(text, "1.2-1.3", 8_000) == ("b" * 4_000 + "c" * 10, "None", False)
    assert taken(text + "\nend", "1.3-2", 8_000) == ("c" * 10 + "\nend", "None", False)


def test_a_line_that_does_not_fit_is_cut_at_a_word_and_told() -> None:
    text = "Some words in a long line. " * 20

    content, rest, is_inside = taken(text, "1", 60)

    assert (content, rest, is_inside) == ("Some words in a long line. Some words in a long line. …", "1", True)


def test_nothing_is_taken_where_nothing_fits() -> None:
    assert taken("words and more", "1", 50, tokens=0.1) == ("", "1", False)
