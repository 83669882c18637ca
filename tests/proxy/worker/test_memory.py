"""What is remembered ends with its time, and the oldest goes first where there is no room."""

from __future__ import annotations

from ipaddress import IPv4Address

from egressd.answers import Answers, ResolveFault
from egressd.worker.memory import Memory


def answers(count: int = 1, expires: float = 10.0) -> Answers:
    return Answers(tuple(IPv4Address(i) for i in range(count)), expires)


def test_a_result_holds_until_its_end_and_not_longer() -> None:
    memory = Memory()
    memory.keep("a", answers(expires=10.0))

    assert memory.get("a", 9.9) == answers(expires=10.0)
    assert memory.get("a", 10.0) is None
    assert memory.get("b", 0.0) is None


def test_faults_are_remembered_as_well() -> None:
    memory = Memory()
    memory.keep("a", ResolveFault("nxdomain", 5.0))

    assert memory.get("a", 4.9) == ResolveFault("nxdomain", 5.0)
    assert memory.get("a", 5.0) is None


def test_a_new_result_replaces_the_old_one_and_is_the_youngest() -> None:
    memory = Memory(max_names=2)
    memory.keep("a", answers())
    memory.keep("b", answers())
    memory.keep("a", answers(2))
    memory.keep("c", answers())

    assert memory.get("b", 0.0) is None
    assert memory.get("a", 0.0) == answers(2)
    assert len(memory) == 2


def test_there_is_room_for_so_many_addresses_of_all_names_together() -> None:
    memory = Memory(max_addresses=10)
    for name in "abc":
        memory.keep(name, answers(4))

    assert [memory.get(name, 0.0) is not None for name in "abc"] == [False, True, True]
    memory.keep("c", answers(1))
    memory.keep("d", answers(5))
    assert [memory.get(name, 0.0) is not None for name in "bcd"] == [True, True, True]


def test_a_result_with_more_addresses_than_there_is_room_for_is_not_kept() -> None:
    memory = Memory(max_addresses=10)
    memory.keep("a", answers(11))

    assert len(memory) == 0
