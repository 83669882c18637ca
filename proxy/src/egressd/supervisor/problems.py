"""What is wrong with a configuration, told all at once: file, key, what was found, what to write instead.

Turns pydantic's error rows into sentences of our own, because a person reads them at three in the morning. Reads no
file and decides nothing; `config` raises `ConfigError`, the command line prints it and exits 78.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pydantic_core import ErrorDetails

# Enough to recognise the value by; a configuration may hold anything, and the message is for a terminal.
FOUND_MAX_CHARS = 60

# pydantic's error type → what to write instead, where the type alone says it
_WRITE_INSTEAD = {
    "string_type": "a text in quotes",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "tuple_type": 'an array, such as ["..."]',
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "finite_number": "a finite number",
    "string_too_short": "a text that is not empty",
}


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One problem of one configuration file."""

    file: str
    key: str
    found: str
    write_instead: str

    def __str__(self) -> str:
        """Give the line that is printed."""
        return f"{self.file}: {self.key}: found {self.found}; write {self.write_instead}"


class ConfigError(Exception):
    """A configuration that cannot be used, with every problem in it; the fault is its author's."""

    def __init__(self, problems: Iterable[ConfigProblem]) -> None:
        """Keep the problems in the order of the file's keys as they were met."""
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def show(value: object) -> str:
    """Show a found value on one line, bounded, with nothing in it that a terminal obeys."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, bool):
        return "true" if value else "false"
    shown = ascii(value)
    return shown if len(shown) <= FOUND_MAX_CHARS else f"{shown[:FOUND_MAX_CHARS]}..."


def show_key(location: Sequence[str | int]) -> str:
    """Write a place as TOML people say it: `listener[0].tcp`, `tenant."a b".mode`."""
    key = ""
    for part in location:
        if isinstance(part, int):
            key += f"[{part}]"
        elif part != "[key]":
            bare = part.replace("-", "").replace("_", "").isalnum() and part.isascii()
            key += ("." if key else "") + (part if bare else ascii(part))
    return key


def explain(file: str, row: ErrorDetails, known: Iterable[str]) -> ConfigProblem:
    """Turn one pydantic error row into a problem.

    Args:
        file: The file's name as the operator gave it.
        row: One entry of `ValidationError.errors()`.
        known: The keys that are possible where the row's key stands (for a key that is not).
    """
    kind, found, context = row["type"], show(row["input"]), row.get("ctx", {})
    key = show_key(row["loc"])
    if kind == "extra_forbidden":
        return ConfigProblem(file, key, "a key that means nothing here", _nearest(str(row["loc"][-1]), known))
    if "write_instead" in context:
        return ConfigProblem(file, key, f"{found} ({row['msg']})", str(context["write_instead"]))
    if kind == "literal_error":
        return ConfigProblem(file, key, found, str(context["expected"]))
    if kind in {"greater_than_equal", "less_than_equal"}:
        bound = context.get("ge", context.get("le"))
        return ConfigProblem(file, key, found, f"a number {'from' if 'ge' in context else 'up to'} {bound}")
    return ConfigProblem(file, key, found, _WRITE_INSTEAD.get(kind, f"something else: {row['msg']}"))


def _nearest(key: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = difflib.get_close_matches(key, names, n=1)
    return f"{close[0]}, or leave it out" if close else f"one of {', '.join(names)}, or leave it out"
