"""Durations and moments."""

from __future__ import annotations

import pytest

from egress_policy.rules import Rule, parse_rule
from egressd.ctl.durations import MAX_SECONDS, read_duration, write_moment


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("15m", 900),
        ("1h", 3600),
        ("1h30m", 5400),
        ("2d", 172_800),
        ("1w", 604_800),
        ("3650d", MAX_SECONDS),
    ],
)
def test_durations_as_people_write_them(text: str, seconds: int) -> None:
    assert read_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "1", "h", "0s", "-1h", "+1h", "1.5h", "1 h", "1H", "١h", "1h30", "3651d", "1h\n", "9999999s", "1y"]
)
def test_what_is_no_duration(text: str) -> None:
    assert read_duration(text) is None


def test_a_moment_is_read_back_by_the_rules() -> None:
    assert write_moment(1_764_547_200.9) == "2025-12-01T00:00:00Z"
    rule = parse_rule(f"docs.python.org until={write_moment(1_764_547_200.9)}")
    assert isinstance(rule, Rule)
    assert rule.expires == 1_764_547_200
