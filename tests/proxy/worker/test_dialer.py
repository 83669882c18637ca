"""Dialing: only pinned places, one after the other, and what each failure is called."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import TYPE_CHECKING

import pytest

from egress_policy.reasons import ErrorType
from egress_policy.rules import ListKind
from egress_policy.targets import Target, parse_authority
from egressd.answers import Answers
from egressd.judge import Allowed, judge_target
from egressd.limits import DIAL_ATTEMPT_SECONDS
from egressd.pinning import PinnedTarget, Place, pin
from egressd.worker import dialer
from egressd.worker.dialer import Dial, DialFault
from support.worker_rig import Origin, Rig

if TYPE_CHECKING:
    from collections.abc import Callable

    Rigs = Callable[..., Rig]


class Result:
    """What a dial ended with."""

    def __init__(self) -> None:
        self.got: list[socket.socket | DialFault] = []
        self.places: list[Place | None] = []

    def __call__(self, result: socket.socket | DialFault, place: Place | None) -> None:
        self.got.append(result)
        self.places.append(place)


def pinned(rig: Rig, port: int, *addresses: str) -> PinnedTarget:
    target = parse_authority(f"many.test:{port}".encode())
    assert isinstance(target, Target)
    grant = rig.channel.grant
    assert grant is not None
    allowed = judge_target(target, grant, method="CONNECT", public_only=False, now=0.0)
    assert isinstance(allowed, Allowed)
    assert allowed.match.kind is ListKind.TENANT
    answers = Answers(tuple(map(ip_address, addresses)), 1e9)
    made = pin(allowed, answers, grant, now=0.0, unix_now=0.0)
    assert isinstance(made, PinnedTarget)
    return made


@pytest.fixture
def rig(rigs: Rigs) -> Rig:
    return rigs(rules="many.test:*")


def test_a_refused_first_place_starts_the_second_at_once(rig: Rig, origin: Origin) -> None:
    result = Result()
    dial = Dial(rig.core, pinned(rig, origin.port, "127.0.0.99", "127.0.0.1"), result)

    dial.start()
    rig.until(lambda: bool(result.got))

    assert isinstance(result.got[0], socket.socket)
    assert result.got[0].getpeername() == ("127.0.0.1", origin.port)
    assert result.places[0] is not None
    result.got[0].close()


@pytest.mark.case("C9")
def test_a_black_holed_first_place_costs_one_attempt_interval(
    rig: Rig, origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = Result()
    held: list[socket.socket] = []
    real = Dial._connect

    def connect(self: Dial, place: Place) -> socket.socket | None:
        if place.sockaddr[0] == "127.0.0.99":
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            # A listener whose backlog is full answers no SYN: a black hole that needs no network.
            code = sock.connect_ex(hole.getsockname())
            assert code in (0, 115)
            held.append(sock)
            return sock
        return real(self, place)

    with socket.create_server(("127.0.0.1", 0), backlog=0) as hole:
        fillers = []
        for _ in range(3):
            filler = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            filler.connect_ex(hole.getsockname())
            fillers.append(filler)
        monkeypatch.setattr(dialer.Dial, "_connect", connect)
        dial = Dial(rig.core, pinned(rig, origin.port, "127.0.0.99", "127.0.0.1"), result)
        dial.start()
        for _ in range(5):
            rig.turn(0.01)
        assert result.got == []
        assert origin.accept() is None, "the second attempt began before its time"

        rig.pass_time(DIAL_ATTEMPT_SECONDS + 0.1)
        rig.until(lambda: bool(result.got))

        assert isinstance(result.got[0], socket.socket)
        assert held[0].fileno() == -1, "the loser is closed"
        result.got[0].close()
        for filler in fillers:
            filler.close()


def test_nobody_listening_anywhere_is_a_fault_that_says_refused(rig: Rig) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    result = Result()

    Dial(rig.core, pinned(rig, port, "127.0.0.1", "127.0.0.2"), result).start()
    rig.until(lambda: bool(result.got))

    assert result.got == [DialFault(ErrorType.CONNECTION_REFUSED)]


def test_an_address_that_is_floor_by_now_is_not_dialed(rig: Rig, origin: Origin) -> None:
    made = pinned(rig, origin.port, "127.0.0.1")
    rig.unsafe_reach = ()
    rig.load("many.test:*")
    grant = rig.channel.grant
    assert grant is not None
    floor = PinnedTarget(made.target, made.places, made.allowed, grant, made.expires)
    result = Result()

    Dial(rig.core, floor, result).start()

    assert result.got == [DialFault(ErrorType.DESTINATION_UNAVAILABLE)]
    assert origin.accept() is None


def test_a_dial_that_takes_too_long_is_a_timeout_and_closes_everything(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialer.Dial, "_connected", staticmethod(lambda _sock, _place: False))
    origin = Origin()
    result = Result()
    dial = Dial(rig.core, pinned(rig, origin.port, "127.0.0.1"), result)
    dial.start()
    assert len(rig.core.sweep) == 1

    rig.pass_time(rig.core.limits.dial_timeout_seconds + 0.1)

    assert result.got == [DialFault(ErrorType.CONNECTION_TIMEOUT)]
    assert not rig.poller.handlers
    origin.close()


def test_a_cancelled_dial_tells_nobody_and_leaves_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialer.Dial, "_connected", staticmethod(lambda _sock, _place: False))
    origin = Origin()
    result = Result()
    dial = Dial(rig.core, pinned(rig, origin.port, "127.0.0.1"), result)
    dial.start()

    dial.cancel()

    assert result.got == []
    assert not rig.poller.handlers
    assert not len(rig.core.sweep)
    origin.close()
