"""The sweep: deadlines that are met, pushed back, brought forward and forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from egressd.limits import SWEEP_SECONDS
from egressd.worker.timers import Sweep

if TYPE_CHECKING:
    from collections.abc import Callable


def sweep_at(now: float) -> Sweep:
    """A sweep whose alarms must not fail."""

    def failed(call: Callable[..., object]) -> None:
        pytest.fail(f"{call} failed")

    return Sweep(now, failed)


class Alarm:
    """Something with a deadline that notes when it expired."""

    def __init__(self) -> None:
        self.due = 0.0
        self.tick = 0
        self.rang: list[float] = []

    def expire(self, now: float) -> None:
        """Note it."""
        self.rang.append(now)


def test_a_deadline_is_met_once_and_at_most_two_sweeps_late() -> None:
    sweep, alarm = sweep_at(100.0), Alarm()
    sweep.arm(alarm, 101.0)

    sweep.run(100.99)
    assert alarm.rang == []
    sweep.run(101.0 + 2 * SWEEP_SECONDS)

    assert len(alarm.rang) == 1
    sweep.run(200.0)
    assert len(alarm.rang) == 1
    assert len(sweep) == 0


def test_a_deadline_that_is_pushed_back_rings_at_the_later_time_only() -> None:
    sweep, alarm = sweep_at(0.0), Alarm()
    sweep.arm(alarm, 1.0)
    sweep.arm(alarm, 5.0)

    sweep.run(4.9)
    assert alarm.rang == []
    assert len(sweep) == 1
    sweep.run(5.1)

    assert len(alarm.rang) == 1


def test_a_deadline_that_is_brought_forward_rings_at_the_earlier_time_only() -> None:
    sweep, alarm = sweep_at(0.0), Alarm()
    sweep.arm(alarm, 500.0)
    sweep.arm(alarm, 1.0)

    sweep.run(1.1)
    sweep.run(600.0)

    assert len(alarm.rang) == 1


def test_what_is_disarmed_is_forgotten_at_once_and_may_be_disarmed_again() -> None:
    sweep, alarm = sweep_at(0.0), Alarm()
    sweep.arm(alarm, 1.0)

    sweep.disarm(alarm)
    sweep.disarm(alarm)

    assert len(sweep) == 0
    sweep.run(10.0)
    assert alarm.rang == []


def test_a_deadline_in_the_past_rings_at_the_next_sweep() -> None:
    sweep, alarm = sweep_at(50.0), Alarm()
    sweep.arm(alarm, 1.0)

    sweep.run(50.0 + 2 * SWEEP_SECONDS)

    assert len(alarm.rang) == 1


def test_one_that_arms_itself_again_while_it_expires_rings_again() -> None:
    sweep = sweep_at(0.0)

    class Repeating(Alarm):
        def expire(self, now: float) -> None:
            super().expire(now)
            if len(self.rang) < 3:
                sweep.arm(self, now + 1.0)

    alarm = Repeating()
    sweep.arm(alarm, 1.0)
    for step in range(100):
        sweep.run(step * 0.1)

    assert len(alarm.rang) == 3


def test_a_deadline_that_fails_is_told_and_stops_no_other() -> None:
    told: list[object] = []
    sweep = Sweep(0.0, told.append)

    class Failing(Alarm):
        def expire(self, now: float) -> None:
            super().expire(now)
            raise LookupError

    failing, other = Failing(), Alarm()
    sweep.arm(failing, 1.0)
    sweep.arm(other, 1.0)
    sweep.run(5.0)
    sweep.run(10.0)

    assert len(told) == 1
    assert len(failing.rang) == len(other.rang) == 1


def test_one_that_another_of_its_bucket_disarms_does_not_ring() -> None:
    sweep = sweep_at(0.0)
    alarms: list[Alarm] = []

    class Disarming(Alarm):
        def expire(self, now: float) -> None:
            super().expire(now)
            for other in alarms:
                if other is not self:
                    sweep.disarm(other)

    alarms.extend([Disarming(), Disarming()])
    for alarm in alarms:
        sweep.arm(alarm, 1.0)
    sweep.run(0.5)
    sweep.run(5.0)

    assert sum(len(alarm.rang) for alarm in alarms) == 1
