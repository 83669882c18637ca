"""The relay: half-close, back-pressure, hang-ups with bytes pending, finished halves, splice, idle limits."""

from __future__ import annotations

import hashlib
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from egress_policy.reasons import End
from egressd.limits import Limits
from egressd.worker.tunnel import BULK_BYTES, Tunnel
from support.worker_rig import Rig

if TYPE_CHECKING:
    from collections.abc import Callable

    Rigs = Callable[..., Rig]

BIG = 4 * 1024 * 1024


class Pair:
    """A tunnel with both far ends in the test's hands."""

    def __init__(self, rig: Rig, early: bytes = b"", *, client_ended: bool = False) -> None:
        self.rig = rig
        self.client, near_client = _connected()
        self.origin, near_origin = _connected()
        self.ends: list[tuple[End, int, int]] = []
        self.refused = False
        wants = rig.poller.change(near_client.fileno(), 0, 1)
        self.tunnel = Tunnel(
            rig.core, near_client, wants, near_origin, 0, self.permits, lambda *end: self.ends.append(end)
        )
        self.tunnel.start(early, client_ended=client_ended)

    def permits(self, _unix_now: float) -> object | None:
        """Whether the policy is against it."""
        return "refused" if self.refused else None

    def close(self) -> None:
        """Close the far ends."""
        self.client.close()
        self.origin.close()


def _connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        far = socket.create_connection(listener.getsockname())
        near, _address = listener.accept()
    near.setblocking(False)
    return far, near


@pytest.fixture
def rig(rigs: Rigs) -> Rig:
    return rigs()


def test_bytes_pass_both_ways_and_early_bytes_come_first(rig: Rig) -> None:
    pair = Pair(rig, b"early ")
    pair.client.send(b"late")
    pair.origin.send(b"answer")

    rig.until(lambda: pair.tunnel.up.count == 10 and pair.tunnel.down.count == 6)

    assert pair.origin.recv(100) == b"early late"
    assert pair.client.recv(100) == b"answer"
    pair.close()
    rig.until(lambda: bool(pair.ends))


@pytest.mark.case("G2")
def test_a_client_that_ends_its_direction_still_gets_the_whole_answer(rig: Rig) -> None:
    pair = Pair(rig)
    pair.client.sendall(b"question")
    pair.client.shutdown(socket.SHUT_WR)
    rig.until(lambda: pair.tunnel.up.eof)
    assert pair.origin.recv(100) == b"question"
    assert pair.origin.recv(100) == b"", "the end was not passed on"

    pair.origin.sendall(b"answer")
    pair.origin.close()

    assert rig.read_all(pair.client) == b"answer"
    assert [end for end, _up, _down in pair.ends] == [End.CLIENT_CLOSED]
    assert pair.ends[0][1:] == (8, 6)
    pair.close()


def test_the_side_that_ended_first_gives_the_tunnel_its_end(rig: Rig) -> None:
    pair = Pair(rig)
    pair.origin.shutdown(socket.SHUT_WR)
    rig.until(lambda: pair.tunnel.down.eof)
    pair.client.shutdown(socket.SHUT_WR)

    rig.until(lambda: bool(pair.ends))

    assert pair.ends[0][0] is End.ORIGIN_CLOSED
    pair.close()


def test_a_client_that_ended_before_the_answer_has_its_end_passed_on_after_its_early_bytes(rig: Rig) -> None:
    pair = Pair(rig, b"all of it", client_ended=True)

    assert pair.origin.recv(100) == b"all of it"
    assert pair.origin.recv(100) == b""
    pair.origin.close()
    rig.until(lambda: bool(pair.ends))
    pair.close()


def test_a_finished_half_wakes_nobody(rig: Rig) -> None:
    pair = Pair(rig)
    pair.client.shutdown(socket.SHUT_WR)
    rig.until(lambda: pair.tunnel.up.eof)

    woken = [rig.turn() for _ in range(50)]

    assert sum(woken) == 0, "an ended direction keeps waking the loop"
    pair.origin.send(b"x")
    rig.until(lambda: pair.tunnel.down.count == 1)
    assert sum(rig.turn() for _ in range(50)) == 0
    pair.close()
    rig.until(lambda: bool(pair.ends))


def test_a_hangup_with_bytes_pending_loses_none_and_does_not_spin(rig: Rig) -> None:
    pair = Pair(rig)
    payload = b"a" * (BULK_BYTES - 1)
    pair.client.setblocking(False)
    sent = 0

    def fill() -> bool:
        nonlocal sent
        try:
            sent += pair.client.send(payload)
        except BlockingIOError:
            return pair.tunnel.up.waits
        return False

    rig.until(fill)
    # Both directions of the client are over: its descriptor is in HUP from now on.
    pair.origin.shutdown(socket.SHUT_WR)
    rig.until(lambda: pair.tunnel.down.eof)
    pair.client.shutdown(socket.SHUT_WR)
    woken = sum(rig.turn() for _ in range(100))
    assert woken <= 3, f"woken {woken} times by a hang-up that cannot be read past"
    assert not pair.ends

    got = rig.read_all(pair.origin)

    assert len(got) == sent
    assert [end for end, _up, _down in pair.ends] == [End.ORIGIN_CLOSED]
    pair.close()


@pytest.mark.case("G10")
@pytest.mark.parametrize("upwards", [True, False])
def test_a_slow_reader_stops_the_sender_and_gets_every_byte(rig: Rig, upwards: bool) -> None:
    pair = Pair(rig)
    source, sink = (pair.client, pair.origin) if upwards else (pair.origin, pair.client)
    half = pair.tunnel.up if upwards else pair.tunnel.down
    payload = bytes(range(256)) * (BIG // 256)

    def send() -> None:
        source.sendall(payload)
        source.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=send)
    sender.start()
    rig.until(lambda: half.waits)
    assert len(half.pending) <= 262_144
    for _ in range(20):
        rig.turn()

    got = rig.read_all(sink)
    sender.join()

    assert hashlib.sha256(got).digest() == hashlib.sha256(payload).digest()
    pair.close()
    rig.until(lambda: bool(pair.ends))
    assert half.count == len(payload)


def test_bulk_goes_through_a_pipe_that_is_given_back(rig: Rig) -> None:
    pair = Pair(rig)
    payload = b"b" * BIG
    sender = threading.Thread(target=pair.origin.sendall, args=(payload,))
    sender.start()
    pair.client.setblocking(False)
    got = 0
    was_bulk = False

    def read() -> bool:
        nonlocal got, was_bulk
        was_bulk = was_bulk or pair.tunnel.down.bulk
        try:
            got += len(pair.client.recv(262_144))
        except BlockingIOError:
            return False
        return got == BIG

    rig.until(read)
    sender.join()
    assert was_bulk, "a full read did not make the direction bulk"
    pair.close()
    rig.until(lambda: bool(pair.ends))
    assert pair.tunnel.down.pipe is None


def test_a_reset_of_one_side_resets_the_other(rig: Rig) -> None:
    pair = Pair(rig)
    pair.origin.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    pair.origin.close()

    rig.until(lambda: bool(pair.ends))

    assert pair.ends[0][0] is End.RESET
    with pytest.raises(ConnectionResetError):
        pair.client.recv(1)
    pair.close()


@pytest.mark.case("G3")
def test_one_clock_serves_both_directions(rig: Rig) -> None:
    pair = Pair(rig)
    limit = rig.core.limits.tunnel_idle_seconds
    for _ in range(3):
        rig.pass_time(limit * 0.75)
        want = pair.tunnel.down.count + 1
        pair.origin.send(b"x")
        rig.until(lambda want=want: pair.tunnel.down.count == want)  # type: ignore[misc]
    assert not pair.ends, "a one-way stream was taken for idle"

    rig.pass_time(limit + 1)

    assert [end for end, _up, _down in pair.ends] == [End.IDLE]
    pair.close()


def test_a_half_closed_tunnel_has_a_shorter_idle_limit(rigs: Rigs) -> None:
    rig = rigs(limits=Limits(half_closed_seconds=10.0))
    pair = Pair(rig)
    pair.client.shutdown(socket.SHUT_WR)
    rig.until(lambda: pair.tunnel.up.eof)

    rig.pass_time(11.0)

    assert [end for end, _up, _down in pair.ends] == [End.IDLE]
    pair.close()


def test_a_sink_that_takes_nothing_ends_the_tunnel_after_the_stall_limit(rigs: Rigs) -> None:
    rig = rigs(limits=Limits(write_stall_seconds=5.0))
    pair = Pair(rig)
    pair.origin.setblocking(False)

    def fill() -> bool:
        try:
            pair.origin.send(b"c" * 65_000)
        except BlockingIOError:
            return pair.tunnel.down.waits
        return False

    rig.until(fill)
    rig.pass_time(6.0)

    assert [end for end, _up, _down in pair.ends] == [End.WRITE_STALLED]
    pair.close()


def test_keepalive_is_turned_on_for_a_tunnel_that_lasts(rig: Rig) -> None:
    pair = Pair(rig)
    assert not pair.tunnel.upstream.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)

    pair.tunnel.keep_alive()

    for sock in (pair.tunnel.client, pair.tunnel.upstream):
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) < 240
    pair.close()
    rig.until(lambda: bool(pair.ends))
