"""How problems of a configuration are shown."""

from __future__ import annotations

import pytest

from egressd.supervisor.problems import ConfigError, ConfigProblem, show, show_key


def test_a_problem_names_file_key_found_and_what_to_write() -> None:
    problem = ConfigProblem("e.toml", "node.user", "5", "a text in quotes")
    assert str(problem) == "e.toml: node.user: found 5; write a text in quotes"


def test_an_error_holds_every_problem_a_line_each() -> None:
    error = ConfigError([ConfigProblem("f", "a", "1", "2"), ConfigProblem("f", "b", "3", "4")])
    assert str(error).splitlines() == ["f: a: found 1; write 2", "f: b: found 3; write 4"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [("a", "'a'"), (True, "true"), (False, "false"), (5, "5"), ({"a": 1}, "a table"), ("\x1b[31m", "'\\x1b[31m'")],
)
def test_found_values_are_shown_so_that_a_terminal_obeys_nothing(value: object, shown: str) -> None:
    assert show(value) == shown


def test_long_values_are_cut() -> None:
    assert len(show("a" * 10_000)) == 63


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        (("listener", 0, "tcp"), "listener[0].tcp"),
        (("tenant", "a b", "mode"), "tenant.'a b'.mode"),
        (("hosts", "x.y", "[key]"), "hosts.'x.y'"),
        (("node", "own_addresses", 2), "node.own_addresses[2]"),
        (("tenant", "\x1b"), "tenant.'\\x1b'"),
    ],
)
def test_places_are_written_as_toml_people_say_them(location: tuple[str | int, ...], shown: str) -> None:
    assert show_key(location) == shown
