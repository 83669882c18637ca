"""A client's socket while it is ours: the event set, the deadline, early bytes, and its ends."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from egressd.limits import EARLY_MAX_BYTES
from egressd.worker.client import Client
from egressd.worker.poller import IN, OUT
from support.worker_rig import Rig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Rigs = Callable[..., Rig]


class Dropping(Client):
    """Notes that what was under way was cancelled."""

    drops = 0

    def drop(self) -> None:
        self.drops += 1


@pytest.fixture
def rig(rigs: Rigs) -> Rig:
    return rigs()


@pytest.fixture
def made(rig: Rig) -> Iterator[tuple[socket.socket, Dropping]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        far = socket.create_connection(listener.getsockname())
        near, _address = listener.accept()
    near.setblocking(False)
    client = Dropping(rig.core, near)
    rig.poller.handlers[near.fileno()] = client.on_early
    yield far, client
    far.close()
    client.close()


def test_it_wants_to_read_and_has_the_deadline_of_a_silent_client(
    rig: Rig, made: tuple[socket.socket, Dropping]
) -> None:
    far, client = made
    assert client.wants == IN
    rig.pass_time(rig.core.limits.idle_client_seconds + 1)
    assert client.closed
    assert rig.read_all(far) == b""


def test_early_bytes_are_kept_in_order(rig: Rig, made: tuple[socket.socket, Dropping]) -> None:
    far, client = made
    far.sendall(b"one ")
    rig.until(lambda: client.early == b"one ")
    far.sendall(b"two")
    rig.until(lambda: client.early == b"one two")
    assert client.wants == IN


def test_reading_stops_at_the_bound_of_early_bytes(rig: Rig, made: tuple[socket.socket, Dropping]) -> None:
    far, client = made
    far.setblocking(False)

    def flood() -> bool:
        try:
            far.send(b"x" * 65_536)
        except BlockingIOError:
            return client.wants == 0
        return False

    rig.until(flood)
    assert len(client.early) <= EARLY_MAX_BYTES + 16_384


def test_a_client_that_ends_its_direction_is_noted_and_heard_no_more(
    rig: Rig, made: tuple[socket.socket, Dropping]
) -> None:
    far, client = made
    far.shutdown(socket.SHUT_WR)
    rig.until(lambda: client.client_ended)
    assert client.wants == 0
    assert not client.closed
    assert sum(rig.turn() for _ in range(20)) == 0


def test_a_reset_closes_it_and_cancels_what_is_under_way(rig: Rig, made: tuple[socket.socket, Dropping]) -> None:
    far, client = made
    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    far.close()
    rig.until(lambda: client.closed)
    assert client.drops == 1


def test_a_last_answer_is_sent_and_the_socket_handed_to_the_linger(
    rig: Rig, made: tuple[socket.socket, Dropping]
) -> None:
    far, client = made
    client.finish(b"the last answer")
    assert client.closed
    assert client.drops == 1
    assert rig.read_all(far) == b"the last answer"
    far.close()
    rig.until(lambda: not rig.core.lingering)


def test_an_answer_to_a_client_that_is_gone_just_closes(rig: Rig, made: tuple[socket.socket, Dropping]) -> None:
    far, client = made
    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    far.close()
    rig.poller.handlers.pop(client.sock.fileno())
    rig.turn(0.05)
    client.finish(b"nobody reads this")
    assert client.closed
    assert not rig.core.lingering


def test_what_it_wants_changes_the_event_set_only_when_it_changes(
    rig: Rig, made: tuple[socket.socket, Dropping]
) -> None:
    _far, client = made
    client.want(IN)
    client.want(IN | OUT)
    seen: list[int] = []
    rig.poller.handlers[client.sock.fileno()] = seen.append
    rig.turn(0.05)
    assert seen == [OUT]
    client.want(0)
    rig.turn()
    assert seen == [OUT]


def test_closing_twice_is_closing_once(made: tuple[socket.socket, Dropping]) -> None:
    _far, client = made
    client.close()
    client.close()
    assert client.drops == 1
