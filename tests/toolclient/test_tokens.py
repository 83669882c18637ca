"""The estimate of tokens: what it counts, that lines add up, that it is one pass, and its stated profiles."""

from __future__ import annotations

import time

import pytest

from oz0_web.tokens import ESTIMATORS, PROFILE_NAMES

GENERIC = ESTIMATORS["generic"]


@pytest.mark.parametrize(
    ("text", "weighed"),
    [
        ("", 0.0),
        ("word", 0.69),
        ("words", 0.69 + 0.31),
        ("beginnings", 0.69 + 6 * 0.31 + 2 * 0.15),
        ("Word", 0.69 + 0.20),
        ("a b", 2 * 0.69),
        ("2026", 4 * 0.80 + 1.20),
        ("::", 2 * 0.17 + 0.62),
        ("\n\n", 2 * 0.58),
        ("  ", 1.03),
        (" " * 36, 1.03 + 20 * 0.05),
        ("\t", 0.58),
        ("\x00", 1.96),
        ("é", 1.22),
        ("ж", 0.62),
        ("ω", 0.85),
        ("ש", 1.03),
        ("त", 1.12),
        ("→", 1.49),
        ("か", 0.89),
        ("漢", 1.17),
        ("한", 1.15),
        ("👍", 2.60),
        ("\U0010ffff", 3.50),
        ("\udc80", 1.96),
    ],
)
def test_each_kind_of_character_has_its_weight(text: str, weighed: float) -> None:
    assert GENERIC.weigh(text) == pytest.approx(GENERIC.margin * weighed)


@pytest.mark.requirement("OZ-46")
def test_each_profile_has_a_name_an_error_and_a_margin() -> None:
    assert set(ESTIMATORS) == set(PROFILE_NAMES)
    assert len({each.name for each in ESTIMATORS.values()}) == len(ESTIMATORS)
    assert all(each.error and each.margin > 1 for each in ESTIMATORS.values())
    assert ESTIMATORS["claude"].count("some words") > GENERIC.count("some words")


def test_a_count_is_rounded_up() -> None:
    assert GENERIC.count("word") == 1
    assert GENERIC.count("") == 0


def test_lines_together_are_never_more_than_one_by_one() -> None:
    lines = ["# Title\n", "\n", "    code(1)\n", "漢字\n", "| a | b |\n", "Words and 12 numbers\n"]

    assert GENERIC.weigh("".join(lines)) <= sum(map(GENERIC.weigh, lines)) + 1e-9


@pytest.mark.slow
def test_ten_times_the_text_takes_about_ten_times_as_long() -> None:
    def seconds(count: int) -> float:
        text = "Some words, 漢字 and `code(12)` here.\n" * count
        began = time.process_time()
        GENERIC.weigh(text)
        return time.process_time() - began

    small = min(seconds(3_000) for _ in range(3))

    assert min(seconds(30_000) for _ in range(3)) < 30 * small
