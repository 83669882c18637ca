"""Plain requests: forwarded heads, bodies both ways, the pool, and what happens when either side breaks off."""

from __future__ import annotations

import gc
import socket
import weakref
from ipaddress import ip_address
from typing import TYPE_CHECKING

import pytest

from egressd.limits import Limits
from support.worker_rig import Origin, Rig

if TYPE_CHECKING:
    from collections.abc import Callable

    Rigs = Callable[..., Rig]

HERE = ip_address("127.0.0.1")


@pytest.fixture
def rig(rigs: Rigs, origin: Origin) -> Rig:
    return rig_for(rigs, origin)


def rig_for(rigs: Rigs, origin: Origin, limits: Limits | None = None) -> Rig:
    return rigs(rules=f"plain.test:{origin.port}\n", rows={"plain.test": (HERE,)}, limits=limits)


def request(origin: Origin, method: str = "GET", *fields: str, body: bytes = b"", path: str = "/page?q=1") -> bytes:
    authority = f"plain.test:{origin.port}"
    lines = [f"{method} http://{authority}{path} HTTP/1.1", f"Host: {authority}", *fields, "", ""]
    return "\r\n".join(lines).encode() + body


def receive(rig: Rig, sock: socket.socket, until: bytes) -> bytes:
    """What arrives at a socket up to and including a mark, the worker driven meanwhile."""
    sock.setblocking(False)
    got = bytearray()

    def read() -> bool:
        try:
            got.extend(sock.recv(65_536))
        except BlockingIOError:
            return False
        return until in got

    rig.until(read)
    return bytes(got)


def reached(rig: Rig, origin: Origin) -> socket.socket:
    """The next connection that the origin gets."""
    before = len(origin.accepted)
    rig.until(lambda: origin.accept() is not None)
    assert len(origin.accepted) == before + 1
    return origin.accepted[-1]


def asked(rig: Rig, origin: Origin) -> tuple[socket.socket, socket.socket]:
    """A client whose GET has reached the origin, and the origin's end of it."""
    client, _ = rig.client()
    client.sendall(request(origin))
    upstream = reached(rig, origin)
    receive(rig, upstream, b"\r\n\r\n")
    return client, upstream


def test_a_get_is_forwarded_in_origin_form_and_its_reply_comes_back(rig: Rig, origin: Origin) -> None:
    client, _ = rig.client()
    client.sendall(request(origin, "GET", "Accept: text/html", "Proxy-Authorization: Basic c2VjcmV0", "X-Mine: 1"))
    upstream = reached(rig, origin)
    head = receive(rig, upstream, b"\r\n\r\n")
    upstream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nProxy-Status: forged; reason=x\r\n\r\nhello")

    reply = receive(rig, client, b"hello")

    assert head.startswith(b"GET /page?q=1 HTTP/1.1\r\n")
    assert f"host: plain.test:{origin.port}\r\n".encode() in head.lower()
    assert b"c2VjcmV0" not in head
    assert b"X-Mine: 1" in head or b"x-mine: 1" in head
    assert b"egressd" in head.lower(), "the Via of the proxy"
    assert reply.startswith(b"HTTP/1.1 200 ")
    assert b"forged" not in reply
    [record] = rig.journal.lines
    assert (record["decision"], record["method"], record["host"]) == ("allowed", "GET", "plain.test")
    assert "/page" not in str(record)


@pytest.mark.case("F2")
def test_every_request_of_a_connection_is_judged_by_itself(rig: Rig, origin: Origin) -> None:
    client, upstream = asked(rig, origin)
    upstream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    receive(rig, client, b"ok")

    client.sendall(b"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n")
    answer = rig.read_all(client)

    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"reason=not-on-allowlist" in answer
    assert rig.resolver.asked == ["plain.test"]


def test_the_next_request_takes_the_idle_connection(rig: Rig, origin: Origin) -> None:
    client, _ = rig.client()
    upstream: socket.socket | None = None
    for number in range(3):
        client.sendall(request(origin, path=f"/{number}"))
        upstream = upstream or reached(rig, origin)
        assert receive(rig, upstream, b"\r\n\r\n").startswith(f"GET /{number} ".encode())
        upstream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        receive(rig, client, b"ok")
    assert len(origin.accepted) == 1
    assert len(rig.core.pool) == 1


def test_two_requests_sent_at_once_are_answered_in_order(rig: Rig, origin: Origin) -> None:
    client, _ = rig.client()
    client.sendall(request(origin, path="/1") + request(origin, path="/2"))
    upstream = reached(rig, origin)
    first = receive(rig, upstream, b"\r\n\r\n")
    assert first.startswith(b"GET /1 ")
    assert b"/2" not in first
    upstream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none")
    assert receive(rig, upstream, b"\r\n\r\n").startswith(b"GET /2 ")
    upstream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo")

    got = receive(rig, client, b"two")

    assert got.index(b"one") < got.index(b"two")


@pytest.mark.parametrize("pieces", [[b"a" * 10], [b"a" * 3, b"a" * 7], [b"a"] * 10])
def test_a_body_with_content_length_passes_in_any_pieces(rig: Rig, origin: Origin, pieces: list[bytes]) -> None:
    client, _ = rig.client()
    client.sendall(request(origin, "POST", "Content-Length: 10"))
    upstream = reached(rig, origin)
    for piece in pieces:
        client.sendall(piece)
        rig.turn(0.01)
    assert receive(rig, upstream, b"a" * 10).endswith(b"\r\n\r\n" + b"a" * 10)
    upstream.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert receive(rig, client, b"\r\n\r\n").startswith(b"HTTP/1.1 204 ")


@pytest.mark.case("F8")
def test_a_chunked_body_is_framed_anew_without_extensions_and_trailers(rig: Rig, origin: Origin) -> None:
    client, _ = rig.client()
    client.sendall(
        request(
            origin, "POST", "Transfer-Encoding: chunked", body=b"4;x=y\r\nwiki\r\n5\r\npedia\r\n0\r\nX-T: 1\r\n\r\n"
        )
    )
    upstream = reached(rig, origin)

    got = receive(rig, upstream, b"0\r\n\r\n")

    body = got.split(b"\r\n\r\n", 1)[1]
    assert b"x=y" not in body
    assert b"X-T" not in body
    payload, rest = b"", body
    while rest:
        size, rest = rest.split(b"\r\n", 1)
        payload, rest = payload + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    assert payload == b"wikipedia"
    upstream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    receive(rig, client, b"\r\n\r\n")


def test_a_chunked_reply_comes_back_whole_and_the_connection_is_kept(rig: Rig, origin: Origin) -> None:
    client, upstream = asked(rig, origin)
    upstream.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
    first = receive(rig, client, b"abc")
    upstream.sendall(b"2\r\nde\r\n0\r\n\r\n")
    rest = receive(rig, client, b"0\r\n\r\n")

    assert b"chunked" in first
    assert b"de" in rest
    rig.until(lambda: len(rig.core.pool) == 1)


@pytest.mark.case("F17", "F18")
def test_a_reply_without_length_streams_and_ends_with_the_connection(rig: Rig, origin: Origin) -> None:
    client, upstream = asked(rig, origin)
    upstream.sendall(b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
    first = receive(rig, client, b"data: 1\n\n")
    assert b"Connection: close" in first
    upstream.sendall(b"data: 2\n\n")
    upstream.close()

    assert rig.read_all(client) == b"data: 2\n\n"


def test_a_head_request_has_no_body_whatever_the_reply_announces(rig: Rig, origin: Origin) -> None:
    client, _ = rig.client()
    client.sendall(request(origin, "HEAD"))
    upstream = reached(rig, origin)
    receive(rig, upstream, b"\r\n\r\n")
    upstream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n")

    assert b"5000" in receive(rig, client, b"\r\n\r\n")
    rig.until(lambda: len(rig.core.pool) == 1)


@pytest.mark.case("F14")
def test_interim_replies_are_passed_on_before_the_final_one(rig: Rig, origin: Origin) -> None:
    client, _ = rig.client()
    client.sendall(request(origin, "PUT", "Expect: 100-continue", "Content-Length: 3"))
    upstream = reached(rig, origin)
    assert b"100-continue" in receive(rig, upstream, b"\r\n\r\n")
    upstream.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    assert receive(rig, client, b"\r\n\r\n").startswith(b"HTTP/1.1 100 ")
    client.sendall(b"abc")
    receive(rig, upstream, b"abc")
    upstream.sendall(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
    assert receive(rig, client, b"\r\n\r\n").startswith(b"HTTP/1.1 201 ")


def test_a_407_of_an_origin_becomes_a_502(rig: Rig, origin: Origin) -> None:
    client, upstream = asked(rig, origin)
    upstream.sendall(b'HTTP/1.1 407 Nope\r\nProxy-Authenticate: Basic realm="x"\r\nContent-Length: 0\r\n\r\n')

    answer = rig.read_all(client)

    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"Basic realm" not in answer
    assert b"reason=upstream-failed" in answer


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
    ],
)
def test_a_reply_that_is_none_is_a_502_and_never_passed_through(rig: Rig, origin: Origin, reply: bytes) -> None:
    client, upstream = asked(rig, origin)
    upstream.sendall(reply)
    upstream.close()

    answer = rig.read_all(client)

    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"reason=upstream-failed" in answer
    assert len(rig.core.pool) == 0


def test_a_reply_that_breaks_off_is_a_reset_and_never_a_clean_end(rig: Rig, origin: Origin) -> None:
    client, upstream = asked(rig, origin)
    upstream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart")
    receive(rig, client, b"part")
    upstream.close()

    with pytest.raises(ConnectionResetError):
        rig.read_all(client)
    assert rig.journal.lines[-1]["reason"] == "upstream-failed"


@pytest.mark.case("F23")
def test_an_idle_connection_that_died_is_replaced_for_a_get_and_never_for_a_post(rig: Rig, origin: Origin) -> None:
    client, upstream = asked(rig, origin)
    upstream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    receive(rig, client, b"ok")
    # It dies at the very moment of the next request: the request is sent, then the end is read.
    [idle] = rig.core.pool.idle()
    idle.want(0)
    upstream.close()
    client.sendall(request(origin, path="/again"))

    second = reached(rig, origin)

    assert receive(rig, second, b"\r\n\r\n").startswith(b"GET /again ")
    second.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    receive(rig, client, b"ok")
    [idle] = rig.core.pool.idle()
    idle.want(0)
    second.close()
    client.sendall(request(origin, "POST", "Content-Length: 1", body=b"x"))

    assert b"reason=upstream-failed" in rig.read_all(client)
    assert len(origin.accepted) == 2


def test_an_idle_connection_that_speaks_unasked_is_closed(rig: Rig, origin: Origin) -> None:
    client, upstream = asked(rig, origin)
    upstream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    receive(rig, client, b"ok")
    rig.until(lambda: len(rig.core.pool) == 1)
    upstream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")

    rig.until(lambda: len(rig.core.pool) == 0)


def test_more_than_the_announced_length_is_not_passed_on_and_ends_the_origins_connection(
    rig: Rig, origin: Origin
) -> None:
    client, upstream = asked(rig, origin)
    upstream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n")
    got = receive(rig, client, b"ok")

    assert got.endswith(b"ok")
    assert len(rig.core.pool) == 0


def test_a_request_body_that_breaks_off_is_not_taken_for_a_whole_one(rig: Rig, origin: Origin) -> None:
    client, _ = rig.client()
    client.sendall(request(origin, "POST", "Content-Length: 100", body=b"part"))
    upstream = reached(rig, origin)
    receive(rig, upstream, b"part")
    client.close()

    rig.until(lambda: not rig.core.connections)
    upstream.setblocking(False)
    assert upstream.recv(100) == b""


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (("Content-Length: 1", "Transfer-Encoding: chunked"), b"ambiguous-framing"),
        (("Transfer-Encoding: gzip, chunked",), b"ambiguous-framing"),
        (("Content-Length: +1",), b"ambiguous-framing"),
        (("Via: 1.1 egressd",), b"loop-detected"),
    ],
)
def test_what_cannot_be_forwarded_safely_is_refused_before_any_look_up(
    rig: Rig, origin: Origin, fields: tuple[str, ...], reason: bytes
) -> None:
    client, _ = rig.client()
    client.sendall(request(origin, "POST", *fields))
    assert b"reason=" + reason in rig.read_all(client)
    assert rig.resolver.asked == []
    assert origin.accept() is None


def test_an_origin_that_never_answers_is_a_504(rigs: Rigs, origin: Origin) -> None:
    rig = rig_for(rigs, origin, Limits(reply_head_timeout_seconds=5.0))
    client, _upstream = asked(rig, origin)

    rig.pass_time(5.5)

    answer = rig.read_all(client)
    assert answer.startswith(b"HTTP/1.1 504 ")
    assert b"reason=upstream-timeout" in answer


def test_a_large_reply_to_a_slow_reader_is_held_back_and_arrives_whole(rig: Rig, origin: Origin) -> None:
    client, _ = rig.client()
    size = 3 * 1024 * 1024
    client.sendall(request(origin))
    upstream = reached(rig, origin)
    receive(rig, upstream, b"\r\n\r\n")
    upstream.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % size)
    sent = 0

    def feed() -> bool:
        nonlocal sent
        while sent < size:
            try:
                sent += upstream.send(b"r" * min(65_536, size - sent))
            except BlockingIOError:
                return False
        return True

    for _ in range(30):
        feed()
        rig.turn()
    got = bytearray()
    client.setblocking(False)

    def read() -> bool:
        feed()
        try:
            got.extend(client.recv(65_536))
        except BlockingIOError:
            return False
        return len(got) >= size and got.endswith(b"r" * 10) and len(got.split(b"\r\n\r\n", 1)[1]) == size

    rig.until(read)


def test_a_second_request_with_another_pin_does_not_ride_on_the_first_ones_connection(
    rigs: Rigs, origin: Origin
) -> None:
    rig = rig_for(rigs, origin)
    client, upstream = asked(rig, origin)
    upstream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    receive(rig, client, b"ok")
    rig.resolver.rows["plain.test"] = (ip_address("127.0.0.2"),)
    for channel_route in rig.channel.routes():
        channel_route.pinned = None

    client.sendall(request(origin))

    answer = rig.read_all(client)
    assert b"reason=dial-failed" in answer, "the name has moved to where nobody listens"


@pytest.mark.case("F13")
def test_a_websocket_switch_becomes_a_tunnel_that_carries_what_came_with_it(rig: Rig, origin: Origin) -> None:
    client, _ = rig.client()
    client.sendall(request(origin, "GET", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: a2V5"))
    upstream = reached(rig, origin)
    head = receive(rig, upstream, b"\r\n\r\n")
    assert b"Upgrade: websocket" in head
    upstream.sendall(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Accept: x\r\n\r\nfirst frame"
    )

    reply = receive(rig, client, b"first frame")

    assert reply.startswith(b"HTTP/1.1 101 ")
    assert b"Upgrade: websocket" in reply
    client.sendall(b"frame up")
    assert receive(rig, upstream, b"frame up") == b"frame up"
    upstream.sendall(b"frame down")
    assert receive(rig, client, b"frame down") == b"frame down"
    assert len(rig.core.tunnels) == 1


@pytest.mark.case("F13")
@pytest.mark.parametrize("protocol", ["h2c", "TLS/1.0"])
def test_no_other_switch_is_forwarded(rig: Rig, origin: Origin, protocol: str) -> None:
    client, _ = rig.client()
    client.sendall(request(origin, "GET", "Connection: Upgrade", f"Upgrade: {protocol}"))
    upstream = reached(rig, origin)
    assert b"pgrade" not in receive(rig, upstream, b"\r\n\r\n")
    upstream.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
    assert b"reason=upstream-failed" in rig.read_all(client)


def test_an_options_request_that_may_go_no_further_is_answered_here(rig: Rig, origin: Origin) -> None:
    client, _ = rig.client()
    client.sendall(request(origin, "OPTIONS", "Max-Forwards: 0"))
    assert rig.read_all(client).startswith(b"HTTP/1.1 200 ")
    assert origin.accept() is None
    assert rig.resolver.asked == []


def test_interim_replies_without_end_are_cut(rig: Rig, origin: Origin) -> None:
    client, upstream = asked(rig, origin)
    upstream.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100)
    answer = rig.read_all(client)
    assert answer.count(b" 103 ") <= 16
    assert b"reason=upstream-failed" in answer


def test_a_request_in_the_same_words_is_judged_by_the_policy_of_its_moment(rig: Rig, origin: Origin) -> None:
    client, _ = rig.client()
    for _ in range(2):
        client.sendall(request(origin))
        upstream = origin.accepted[0] if origin.accepted else reached(rig, origin)
        receive(rig, upstream, b"\r\n\r\n")
        upstream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        receive(rig, client, b"ok")
    rig.load("other.test")

    client.sendall(request(origin))

    assert b"reason=not-on-allowlist" in rig.read_all(client)


def test_a_head_that_came_in_pieces_is_not_mistaken_for_its_last_piece(rig: Rig, origin: Origin) -> None:
    whole = request(origin)
    client, _ = rig.client()
    client.sendall(whole[:30])
    rig.turn(0.01)
    client.sendall(whole[30:])
    upstream = reached(rig, origin)
    receive(rig, upstream, b"\r\n\r\n")

    assert not rig.channel.known
    other, _ = rig.client()
    other.sendall(whole[30:])
    assert b"reason=malformed-request-line" in rig.read_all(other)


def test_heads_with_credentials_are_not_remembered(rig: Rig, origin: Origin) -> None:
    client, _ = rig.client()
    client.sendall(request(origin, "GET", "Authorization: Bearer c2VjcmV0"))
    upstream = reached(rig, origin)
    receive(rig, upstream, b"\r\n\r\n")
    upstream.sendall(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 2\r\n\r\nok")
    receive(rig, client, b"ok")
    assert not rig.channel.known
    assert not rig.core.replies


def test_a_rule_that_ends_during_the_look_up_lets_no_request_ride_on_an_idle_connection(
    rigs: Rigs, origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    until = "2026-01-01T00:00:00Z"
    moment = 1_767_225_590.0
    monkeypatch.setattr("egressd.worker.connection.time.time", lambda: moment)
    rig = rigs(rules=f"plain.test:{origin.port} until={until}", rows={"plain.test": (HERE,)})
    client, upstream = asked(rig, origin)
    upstream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    receive(rig, client, b"ok")
    for route in rig.channel.routes():
        route.pinned = None
    rig.resolver.hold = True
    client.sendall(request(origin, path="/again"))
    rig.until(lambda: bool(rig.resolver.held))

    moment += 20
    rig.resolver.release()

    assert b"reason=not-on-allowlist" in rig.read_all(client)
    upstream.setblocking(False)
    with pytest.raises(BlockingIOError):
        upstream.recv(1)


def test_a_refused_plain_request_is_freed_without_the_collector(rig: Rig, origin: Origin) -> None:
    client, connection = rig.client()
    seen = weakref.ref(connection)
    client.sendall(b"GET http://plain.test:1/ HTTP/1.1\r\nHost: plain.test:1\r\n\r\n")
    rig.read_all(client)
    client.close()
    rig.until(lambda: not rig.core.lingering)
    other, connection = rig.client()
    other.sendall(request(origin, "GET", "X-Long: " + "x" * 1_000))
    upstream = reached(rig, origin)
    receive(rig, upstream, b"\r\n\r\n")
    exchange = weakref.ref(connection.exchange)
    upstream.close()
    gc.disable()
    try:
        rig.read_all(other)
        other.close()
        rig.until(lambda: not rig.core.lingering)
        del connection
        assert seen() is None
        assert exchange() is None
    finally:
        gc.enable()


def test_tiny_chunks_are_read_in_small_pieces_so_that_others_have_their_turn(rig: Rig, origin: Origin) -> None:
    client, connection = rig.client()
    client.sendall(request(origin))
    upstream = reached(rig, origin)
    receive(rig, upstream, b"\r\n\r\n")
    upstream.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    receive(rig, client, b"\r\n\r\n")
    upstream.setblocking(False)
    upstream.send(b"1\r\na\r\n" * 20_000)
    exchange = connection.exchange
    assert exchange is not None
    taken = []
    for _ in range(3):
        before = exchange.down
        rig.turn(0.05)
        taken.append(exchange.down - before)
    assert max(taken) <= 16_384


def test_a_head_that_comes_in_drops_is_held_to_the_time_since_the_request(rigs: Rigs, origin: Origin) -> None:
    rig = rig_for(rigs, origin, Limits(reply_head_timeout_seconds=5.0))
    client, upstream = asked(rig, origin)
    for piece in (b"HTTP/1.1 103 Early Hints\r\n\r\n", b"HTTP/1.1 200 OK\r\n", b"X: "):
        upstream.sendall(piece)
        rig.turn(0.05)
        rig.pass_time(2.0)
    assert b"reason=upstream-timeout" in rig.read_all(client)


def test_a_websocket_request_with_a_body_is_an_ordinary_request(rig: Rig, origin: Origin) -> None:
    client, _ = rig.client()
    client.sendall(
        request(origin, "GET", "Connection: Upgrade", "Upgrade: websocket", "Content-Length: 3", body=b"abc")
    )
    upstream = reached(rig, origin)
    assert b"pgrade" not in receive(rig, upstream, b"abc")
    upstream.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    assert b"reason=upstream-failed" in rig.read_all(client)


def test_an_answer_of_the_proxy_itself_has_its_record(rig: Rig, origin: Origin) -> None:
    client, _ = rig.client()
    client.sendall(request(origin, "OPTIONS", "Max-Forwards: 0"))
    rig.read_all(client)
    other, _ = rig.client()
    other.sendall(b"GET /.well-known/egress HTTP/1.1\r\nHost: proxy\r\n\r\n")
    rig.read_all(other)
    assert [record["decision"] for record in rig.journal.lines] == ["answered", "answered"]
