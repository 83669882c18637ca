"""When the name servers count as dead, and when they are asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from egressd.worker.pulse import Pulse

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


class FakeHandle:
    cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeLoop:
    """Keeps what is to be called later, until the test calls it."""

    def __init__(self) -> None:
        self.later: list[tuple[float, Callable[[], None], FakeHandle]] = []

    def call_later(self, seconds: float, callback: Callable[[], None]) -> FakeHandle:
        self.later.append((seconds, callback, FakeHandle()))
        return self.later[-1][2]

    def pass_time(self) -> None:
        later, self.later = self.later, []
        for _, callback, handle in later:
            if not handle.cancelled:
                callback()


class World:
    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.probes: list[Callable[[bool], None]] = []
        self.pulse = Pulse(cast("asyncio.AbstractEventLoop", self.loop), self.probes.append, seconds=10)

    def miss(self, times: int) -> None:
        for _ in range(times):
            self.pulse.missed()


@pytest.fixture
def world() -> World:
    return World()


def test_a_few_silent_look_ups_are_nothing(world: World) -> None:
    world.miss(2)
    world.pulse.heard()
    world.miss(2)

    assert not world.probes


def test_silence_is_probed_and_an_answer_ends_it(world: World) -> None:
    world.miss(3)
    assert len(world.probes) == 1
    assert not world.pulse.dead

    world.probes[0](True)

    assert not world.pulse.dead
    world.loop.pass_time()
    assert world.loop.later == []


def test_a_silent_probe_means_dead_until_something_is_heard(world: World) -> None:
    world.miss(3)
    world.probes[0](False)
    assert world.pulse.dead

    world.pulse.heard()

    assert not world.pulse.dead


def test_probes_go_on_while_nothing_is_heard_and_no_look_up_is_made(world: World) -> None:
    world.miss(3)
    for number in range(3):
        world.probes[number](False)
        world.loop.pass_time()
    assert world.pulse.dead

    world.probes[3](True)

    assert not world.pulse.dead


def test_probes_are_apart_however_many_look_ups_are_silent(world: World) -> None:
    world.miss(100)
    assert len(world.probes) == 1
    world.probes[0](True)
    world.miss(100)
    assert len(world.probes) == 1

    assert [seconds for seconds, _, _ in world.loop.later] == [10]
    world.loop.pass_time()
    assert len(world.probes) == 2


def test_the_silence_of_a_probe_does_not_count_after_an_answer_to_a_look_up(world: World) -> None:
    world.miss(3)
    world.pulse.heard()
    world.probes[0](False)

    assert not world.pulse.dead


def test_nothing_is_sent_after_the_stop(world: World) -> None:
    world.miss(3)
    world.probes[0](False)
    world.pulse.stop()
    world.loop.pass_time()
    world.miss(3)

    assert len(world.probes) == 1


def test_nothing_is_planned_by_the_answer_to_a_probe_that_the_stop_overtook(world: World) -> None:
    world.miss(3)
    world.pulse.stop()
    world.probes[0](False)

    assert world.loop.later == []
