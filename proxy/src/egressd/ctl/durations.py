"""Reads durations as people write them (`90s`, `15m`, `1h30m`, `2d`) and writes the moment a rule ends. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_SECONDS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DURATION = re.compile(r"(?:[0-9]{1,6}[wdhms])+")
_PART = re.compile(r"([0-9]{1,6})([wdhms])")
# Ten years: a longer `--for` is a rule without an end, and is written as one.
MAX_SECONDS = 10 * 365 * 86_400


def read_duration(text: str) -> int | None:
    """Give the seconds of a duration such as `1h30m`, or None where it is none, zero, or more than ten years."""
    if _DURATION.fullmatch(text) is None:
        return None
    total = sum(int(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    return total if 0 < total <= MAX_SECONDS else None


def write_moment(seconds: float) -> str:
    """Write Unix seconds as a list file has them: UTC, whole seconds, `2026-12-01T10:00:00Z`."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
