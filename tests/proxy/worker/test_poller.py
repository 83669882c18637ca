"""The event set: descriptor reuse, closing after the batch, bounded turns, bugs that end one connection only."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, cast

import pytest

from egressd.worker import poller as poller_module
from egressd.worker.poller import IN, OUT, Poller
from support.worker_rig import FakeLoop

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator


@pytest.fixture
def loop() -> FakeLoop:
    return FakeLoop()


@pytest.fixture
def poller(loop: FakeLoop) -> Iterator[Poller]:
    made = Poller(cast("asyncio.AbstractEventLoop", loop))
    yield made
    made.close()


@pytest.fixture
def pairs() -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    made = [socket.socketpair() for _ in range(3)]
    yield made
    for pair in made:
        for sock in pair:
            sock.close()


def test_a_number_is_not_reused_while_its_event_is_still_in_the_batch(
    poller: Poller, pairs: list[tuple[socket.socket, socket.socket]]
) -> None:
    (first, first_peer), (second, second_peer), _ = pairs
    called: list[str] = []
    opened: list[socket.socket] = []

    def retire_the_other(_events: int) -> None:
        other = second if not called else first
        name = "first" if not called else "second"
        called.append(name)
        if not opened:
            number = other.fileno()
            poller.retire(other)
            fresh = socket.socket()
            opened.append(fresh)
            assert fresh.fileno() != number, "the kernel gave the number out again within the batch"
            poller.handlers[fresh.fileno()] = lambda _events: called.append("stale")
            assert other.fileno() == number, "closed before the batch was over"

    for sock in (first, second):
        poller.handlers[sock.fileno()] = retire_the_other
        poller.change(sock.fileno(), 0, IN)
    first_peer.send(b"x")
    second_peer.send(b"x")

    poller.drain()

    assert called == ["first"], "an event of a retired descriptor reached a handler"
    assert -1 in (first.fileno(), second.fileno()), "not closed after the batch"
    opened[0].close()


def test_a_descriptor_that_wants_nothing_is_not_in_the_set_and_its_hangup_wakes_nobody(
    poller: Poller, pairs: list[tuple[socket.socket, socket.socket]]
) -> None:
    sock, peer = pairs[0]
    called: list[int] = []
    poller.handlers[sock.fileno()] = called.append
    wants = poller.change(sock.fileno(), 0, IN)
    wants = poller.change(sock.fileno(), wants, 0)
    peer.close()

    poller.drain()

    assert called == []
    assert poller.poll(0) == []
    assert poller.change(sock.fileno(), wants, IN) == IN
    poller.drain()
    assert len(called) == 1, "once it wants something again it hears of the end"


def test_what_is_left_of_a_batch_when_the_turn_is_over_goes_first_in_the_next_one(
    poller: Poller,
    loop: FakeLoop,
    pairs: list[tuple[socket.socket, socket.socket]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[int] = []
    for sock, peer in pairs:

        def read(_events: int, sock: socket.socket = sock) -> None:
            order.append(sock.fileno())
            sock.recv(1)

        poller.handlers[sock.fileno()] = read
        poller.change(sock.fileno(), 0, IN)
        peer.send(b"x")
    monkeypatch.setattr(poller_module, "DRAIN_TURN_SECONDS", -1.0)

    poller.drain()
    assert len(order) == 1, "a turn that is over handles no further event"
    assert loop.soon == [poller.drain], "the rest is not forgotten"
    retired = pairs[order.index(order[0])][0]
    poller.retire(retired)
    poller.drain()
    poller.drain()

    assert sorted(order) == sorted({*order}), "each was handled once"
    assert len(order) == len(pairs)


def test_a_bug_in_a_handler_ends_its_own_connection_and_is_told(
    poller: Poller, pairs: list[tuple[socket.socket, socket.socket]], capsys: pytest.CaptureFixture[str]
) -> None:
    class Owner:
        aborted = False

        def fail(self, _events: int) -> None:
            message = "a bug"
            raise LookupError(message)

        def abort(self) -> None:
            self.aborted = True
            poller.retire(pairs[0][0])

    owner = Owner()
    seen: list[int] = []
    poller.handlers[pairs[0][0].fileno()] = owner.fail
    poller.handlers[pairs[1][0].fileno()] = seen.append
    for sock, peer in pairs[:2]:
        poller.change(sock.fileno(), 0, IN)
        peer.send(b"x")

    poller.drain()

    assert owner.aborted
    assert len(seen) == 1, "the other connection is served"
    assert poller.faults == 1
    assert "a bug" in capsys.readouterr().err


def test_a_handler_without_an_owner_that_fails_leaves_the_set(
    poller: Poller, pairs: list[tuple[socket.socket, socket.socket]], capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_events: int) -> None:
        raise LookupError

    sock, _peer = pairs[0]
    poller.handlers[sock.fileno()] = fail
    poller.change(sock.fileno(), 0, OUT)

    poller.drain()
    poller.drain()

    assert poller.faults == 1
    assert "LookupError" in capsys.readouterr().err
