"""The last answer arrives whole: what still comes is thrown away within bounds, then the socket is closed."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

import pytest

from egressd.limits import LINGER_MAX_BYTES
from egressd.worker.linger import Linger
from egressd.worker.poller import IN, OUT
from support.worker_rig import Rig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Rigs = Callable[..., Rig]
    Pair = tuple[socket.socket, socket.socket]

ANSWER = b"HTTP/1.1 403 Refused\r\n\r\n"


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A connected pair over TCP on loopback: ours does not block, the client's does for at most five seconds."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        client.settimeout(5)
        client.connect(listener.getsockname())
        ours, _ = listener.accept()
        with ours:
            ours.setblocking(False)
            yield ours, client


@pytest.fixture
def rig(pair: Pair, rigs: Rigs) -> Rig:
    """A rig that is closed before the pair is: what lingers at a test's end is the rig's to close."""
    return rigs()


def linger(rig: Rig, sock: socket.socket, pending: bytes = b"") -> Linger:
    made = Linger(rig.core, sock, rig.poller.change(sock.fileno(), 0, IN), pending)
    made.start()
    return made


def choke(sock: socket.socket) -> int:
    """Fill a socket's send buffer; how many bytes it took."""
    sent = 0
    while True:
        try:
            sent += sock.send(bytes(65_536))
        except BlockingIOError:
            return sent


def read_to_end(client: socket.socket, rig: Rig) -> bytes:
    got = bytearray()
    client.setblocking(False)

    def ended() -> bool:
        try:
            chunk = client.recv(1_000_000)
        except BlockingIOError:
            return False
        got.extend(chunk)
        return not chunk

    rig.until(ended)
    return bytes(got)


def test_our_direction_ends_at_once_when_nothing_waits(rig: Rig, pair: Pair) -> None:
    ours, client = pair
    ours.send(ANSWER)

    linger(rig, ours)

    assert client.recv(100) == ANSWER
    assert client.recv(100) == b"", "a clean end, and no reset"
    assert len(rig.core.lingering) == 1


@pytest.mark.case("E1")
def test_what_still_comes_is_thrown_away_and_the_client_ends_it(rig: Rig, pair: Pair) -> None:
    ours, client = pair
    client.sendall(b"GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
    ours.send(ANSWER)
    made = linger(rig, ours)
    rig.until(lambda: made.read > 0)
    assert ours.fileno() != -1

    client.sendall(b"more")
    client.shutdown(socket.SHUT_WR)
    rig.until(lambda: not rig.core.lingering)

    assert client.recv(100) == ANSWER
    assert client.recv(100) == b""
    assert rig.resolver.asked == []
    assert rig.journal.lines == []
    assert ours.fileno() == -1


def test_the_rest_of_the_answer_is_sent_before_the_end(rig: Rig, pair: Pair) -> None:
    ours, client = pair
    filled = choke(ours)
    made = linger(rig, ours, ANSWER)
    assert made.wants == IN | OUT

    got = read_to_end(client, rig)

    assert len(got) == filled + len(ANSWER)
    assert got.endswith(ANSWER)
    assert made.wants == IN


def test_the_time_is_bounded(rig: Rig, pair: Pair) -> None:
    ours, _client = pair
    linger(rig, ours)

    rig.pass_time(rig.core.limits.linger_seconds - 0.2)
    assert len(rig.core.lingering) == 1
    rig.pass_time(0.3)

    assert not rig.core.lingering
    assert ours.fileno() == -1


def test_the_bytes_are_bounded(rig: Rig, pair: Pair) -> None:
    ours, client = pair
    made = linger(rig, ours)
    client.settimeout(None)
    client.setblocking(False)

    def flood() -> bool:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            client.send(bytes(16_384))
        return not rig.core.lingering

    rig.until(flood)

    assert LINGER_MAX_BYTES < made.read <= 2 * LINGER_MAX_BYTES
    assert ours.fileno() == -1


def test_exactly_the_bound_is_still_read(rig: Rig, pair: Pair) -> None:
    ours, client = pair
    made = linger(rig, ours)
    client.sendall(bytes(LINGER_MAX_BYTES))

    rig.until(lambda: made.read == LINGER_MAX_BYTES)

    assert len(rig.core.lingering) == 1


def test_a_client_that_resets_ends_it(rig: Rig, pair: Pair) -> None:
    ours, client = pair
    linger(rig, ours)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    client.close()

    rig.until(lambda: not rig.core.lingering)

    assert ours.fileno() == -1


@pytest.mark.parametrize("pending", [b"", ANSWER])
def test_a_client_that_is_gone_before_it_begins_ends_it(rig: Rig, pair: Pair, pending: bytes) -> None:
    ours, client = pair
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    client.close()

    linger(rig, ours, pending)
    rig.until(lambda: not rig.core.lingering)

    assert ours.fileno() == -1


class Scripted:
    """A socket whose calls fail as told; its descriptor is a real one."""

    def __init__(self, sock: socket.socket, **errors: OSError) -> None:
        self._sock = sock
        self._errors = errors

    def _fail(self, call: str) -> None:
        if call in self._errors:
            raise self._errors[call]

    def fileno(self) -> int:
        return self._sock.fileno()

    def detach(self) -> int:
        return self._sock.detach()

    def send(self, data: bytes) -> int:
        self._fail("send")
        return len(data)

    def shutdown(self, _how: int) -> None:
        self._fail("shutdown")

    def recv_into(self, _view: memoryview, _size: int) -> int:
        self._fail("recv_into")
        return 1


@pytest.mark.parametrize(
    ("pending", "events", "error", "lingers"),
    [
        (b"", 0, {"shutdown": OSError()}, False),
        (ANSWER, OUT, {"shutdown": OSError()}, False),
        (ANSWER, OUT, {"send": BrokenPipeError()}, False),
        (ANSWER, OUT, {"send": BlockingIOError()}, True),
        (ANSWER, OUT, {}, True),
        (ANSWER, IN, {"recv_into": ConnectionResetError()}, False),
        (b"", IN, {"recv_into": BlockingIOError()}, True),
        (b"", IN, {}, True),
        (b"", OUT, {"send": BrokenPipeError()}, True),
    ],
)
def test_what_a_failing_call_does(
    rig: Rig, pair: Pair, pending: bytes, events: int, error: dict[str, OSError], lingers: bool
) -> None:
    ours, _client = pair
    sock = Scripted(ours, **error)
    made = Linger(rig.core, sock, rig.poller.change(ours.fileno(), 0, IN), pending)  # type: ignore[arg-type]
    made.start()

    if made in rig.core.lingering:
        made.on_event(events)

    assert (made in rig.core.lingering) is lingers


def test_a_client_that_has_ended_its_direction_still_gets_a_long_answer_whole(rig: Rig, pair: Pair) -> None:
    ours, client = pair
    before = choke(ours)
    client.shutdown(socket.SHUT_WR)

    linger(rig, ours, ANSWER)
    rig.pass_time(rig.core.limits.linger_seconds + 1)

    got = read_to_end(client, rig)
    assert len(got) == before + len(ANSWER)
    assert got.endswith(ANSWER)
