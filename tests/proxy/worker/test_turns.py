"""So many at once for each owner, the rest in their order."""

from __future__ import annotations

import pytest

from egressd.worker.turns import Turns


@pytest.fixture
def turns() -> Turns[str]:
    return Turns(2)


def test_an_owner_has_no_more_turns_than_allowed(turns: Turns[str]) -> None:
    assert [turns.take("a"), turns.take("a"), turns.take("a")] == [True, True, False]


def test_one_owners_turns_are_not_anothers(turns: Turns[str]) -> None:
    for _ in range(3):
        turns.take("a")

    assert turns.take("b")


def test_a_turn_given_back_goes_to_what_waited_longest_and_stays_taken(turns: Turns[str]) -> None:
    turns.take("a")
    turns.take("a")
    turns.wait("a", "first")
    turns.wait("a", "second")

    assert turns.give_back("a") == "first"
    assert not turns.take("a")
    assert turns.give_back("a") == "second"
    assert turns.give_back("a") is None
    assert turns.take("a")


def test_an_owner_with_nothing_under_way_costs_no_memory(turns: Turns[str]) -> None:
    turns.take("a")
    turns.take("b")
    turns.give_back("a")
    turns.give_back("b")

    assert len(turns) == 0
