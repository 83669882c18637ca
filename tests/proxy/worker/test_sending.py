"""The sending half alone: what goes to the origin, in step with what it takes, and what it leaves to the other half."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import TYPE_CHECKING

import pytest

from egress_policy.reasons import Reason, Refusal, Stage
from egressd.worker.exchange import Exchange
from egressd.worker.sending import Sending
from support.worker_rig import Origin, Rig

if TYPE_CHECKING:
    from collections.abc import Callable

    Rigs = Callable[..., Rig]

HERE = ip_address("127.0.0.1")


@pytest.fixture
def rig(rigs: Rigs, origin: Origin) -> Rig:
    return rigs(rules=f"plain.test:{origin.port}", rows={"plain.test": (HERE,)})


def post(origin: Origin, *fields: str) -> bytes:
    lines = [f"POST http://plain.test:{origin.port}/ HTTP/1.1", f"Host: plain.test:{origin.port}", *fields, "", ""]
    return "\r\n".join(lines).encode()


def exchange_of(rig: Rig) -> Exchange:
    [connection] = rig.core.connections
    assert connection.exchange is not None
    return connection.exchange


def flood(rig: Rig, origin: Origin) -> None:
    """Send a body to an origin that reads nothing, until the client is read no more."""
    client, connection = rig.client()
    client.setblocking(False)
    client.send(post(origin, "Content-Length: 100000000"))
    rig.until(lambda: origin.accept() is not None)

    def full() -> bool:
        try:
            client.send(b"x" * 65_536)
        except BlockingIOError:
            return connection.wants == 0
        return False

    rig.until(full)


def test_the_other_half_must_be_there() -> None:
    bare = Sending.__new__(Sending)
    for call in (lambda: bare.on_upstream(0), bare._upstream_broken, bare._flush_down):
        with pytest.raises(NotImplementedError):
            call()
    with pytest.raises(NotImplementedError):
        bare._fail(Refusal(Reason.BUSY, Stage.CHANNEL))


def test_an_origin_that_takes_nothing_stops_the_reading_of_the_client(rig: Rig, origin: Origin) -> None:
    flood(rig, origin)
    exchange = exchange_of(rig)
    assert exchange.place is not None
    assert exchange.up < 100_000_000
    assert sum(rig.turn() for _ in range(20)) == 0, "nobody is woken while nothing can move"


def test_a_stalled_origin_ends_the_exchange_after_the_write_limit(rig: Rig, origin: Origin) -> None:
    flood(rig, origin)
    rig.pass_time(rig.core.limits.write_stall_seconds + 1)
    assert rig.journal.lines[-1]["reason"] == "upstream-timeout"
    assert not rig.core.connections


def test_a_client_that_stops_in_the_middle_of_its_body_is_told_by_408(rig: Rig, origin: Origin) -> None:
    client, _ = rig.client()
    client.sendall(post(origin, "Content-Length: 10") + b"half")
    rig.until(lambda: origin.accept() is not None)
    rig.pass_time(rig.core.limits.write_stall_seconds + 1)
    assert rig.read_all(client).startswith(b"HTTP/1.1 408 ")


@pytest.mark.case("F9")
def test_a_chunk_that_breaks_the_grammar_ends_the_exchange_at_both_sides(rig: Rig, origin: Origin) -> None:
    client, _ = rig.client()
    client.sendall(post(origin, "Transfer-Encoding: chunked") + b"0x5\r\nhello\r\n0\r\n\r\n")
    rig.until(lambda: origin.accept() is not None)
    answer = rig.read_all(client)
    assert b"reason=ambiguous-framing" in answer
    upstream = origin.accepted[0]
    assert b"hello" not in rig.read_all(upstream), "nothing of a bad chunk reaches the origin"


def test_what_follows_the_body_is_the_next_request(rig: Rig, origin: Origin) -> None:
    client, connection = rig.client()
    client.sendall(post(origin, "Content-Length: 3") + b"abc" + b"GET http://evil.test/ HTTP/1.1\r\n")
    rig.until(lambda: origin.accept() is not None)
    rig.until(lambda: connection.early.startswith(b"GET http://evil.test/"))
    origin.accepted[0].sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    client.sendall(b"Host: evil.test\r\n\r\n")
    answer = rig.read_all(client)
    assert answer.index(b"HTTP/1.1 200 ") < answer.index(b"HTTP/1.1 403 ")


def test_a_half_closed_client_still_gets_its_reply(rig: Rig, origin: Origin) -> None:
    client, _ = rig.client()
    client.sendall(post(origin, "Content-Length: 3") + b"abc")
    client.shutdown(socket.SHUT_WR)
    rig.until(lambda: origin.accept() is not None)
    origin.accepted[0].sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    assert rig.read_all(client).endswith(b"\r\n\r\nok")
