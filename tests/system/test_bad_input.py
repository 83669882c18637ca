"""Peers that send nonsense, stop in the middle or say nothing: each ends within its limit, and nothing stays behind."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from support.lab_daemon import Daemon, short_folder, wait_until
from support.lab_origin import Visit
from support.lab_wire import connect_request, get_request, parse_reply, read_all
from support.lab_world import World

SHORT = {
    "limits": {
        "head_timeout_seconds": 0.6,
        "idle_client_seconds": 0.6,
        "reply_head_timeout_seconds": 0.6,
        "linger_seconds": 0.3,
    }
}


@pytest.fixture(scope="module")
def hasty(loopback: World) -> Iterator[Daemon]:
    """A daemon of short limits, which has made its first look-up and its first dial."""
    with (
        short_folder() as folder,
        loopback.launch(folder, {"default": "*:*\n"}, SHORT) as running,
        loopback.origin(Visit.wait_for_end) as origin,
    ):
        running.ask(get_request(f"http://{loopback.echo_name}:{origin.port}/"))
        yield running


@pytest.fixture
def daemon(hasty: Daemon) -> Iterator[Daemon]:
    """The same, which must hold after the test what it held before."""
    before = hasty.held()
    yield hasty
    wait_until(lambda: hasty.held() <= before, f"the worker to hold no more than {before}")
    assert hasty.process.poll() is None
    assert "Traceback" not in hasty.messages()


def test_a_head_cut_at_any_byte_leaves_nothing_behind(loopback: World, daemon: Daemon) -> None:
    heads = (
        connect_request("other.example:443", "User-Agent: x"),
        get_request("http://other.example/", "Content-Length: 3", method="POST"),
    )
    before = loopback.sent()
    for head in heads:
        for cut in range(len(head)):
            with daemon.connect() as client:
                client.sendall(head[:cut])
                client.shutdown(socket.SHUT_WR)
                raw = read_all(client)
                assert not raw or parse_reply(raw).status == 400, (cut, raw)
    assert loopback.sent() == before


def test_a_client_that_vanishes_at_any_byte_leaves_nothing_behind(loopback: World, daemon: Daemon) -> None:
    head = connect_request("other.example:443")
    for cut in range(len(head) + 1):
        with daemon.connect() as client:
            client.sendall(head[:cut])


def test_random_bytes_get_a_refusal_or_an_end_and_nothing_is_sent(loopback: World, daemon: Daemon) -> None:
    source = random.Random(20_261_201)
    before = loopback.sent()
    for _ in range(300):
        blob = source.randbytes(source.randrange(1, 400)) + source.choice([b"", b"\r\n\r\n", b"\n\n", b"\r\n"])
        with daemon.connect() as client:
            client.sendall(blob)
            client.shutdown(socket.SHUT_WR)
            raw = read_all(client)
        if raw:
            reply = parse_reply(raw)
            assert reply.status in {400, 408, 431, 505}, (blob, reply)
            assert reply.reason
    assert loopback.sent() == before


def test_a_head_with_one_byte_changed_never_reaches_an_unlisted_name(loopback: World) -> None:
    source = random.Random(7)
    head = connect_request("unlisted.example:443", "User-Agent: x")
    before = loopback.sent()
    for _ in range(300):
        odd = bytearray(head)
        odd[source.randrange(len(odd))] = source.randrange(256)
        with loopback.daemon.connect() as client:
            client.sendall(odd)
            client.shutdown(socket.SHUT_WR)
            raw = read_all(client)
        assert not raw or parse_reply(raw).status in {400, 403, 505}
    assert loopback.sent() == before


@pytest.mark.parametrize("head", [b"", b"CONNECT", connect_request("other.example:443")[:-1]])
def test_a_head_that_does_not_come_ends_with_its_reason(daemon: Daemon, head: bytes) -> None:
    start = time.monotonic()
    with daemon.connect() as client:
        client.sendall(head)
        raw = read_all(client)
    assert 0.4 < time.monotonic() - start < 3
    if head:
        reply = parse_reply(raw)
        assert (reply.status, reply.reason) == (408, "head-timeout")
    else:
        assert raw == b""


def test_a_head_that_drips_is_timed_as_a_whole(daemon: Daemon) -> None:
    start = time.monotonic()
    with daemon.connect() as client:
        client.settimeout(0.1)
        with suppress(OSError):
            while time.monotonic() - start < 5:
                client.sendall(b"G" if time.monotonic() == start else b"x")
                with suppress(TimeoutError):
                    if client.recv(1000):
                        break
    assert time.monotonic() - start < 3


@pytest.mark.case("F21")
@pytest.mark.parametrize(
    "head",
    [
        b"GET http://page.example/ HTTP/1.1\r\nHost: page.example\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
        b"GET http://page.example/ HTTP/1.1\r\nHost: page.example\r\n" + b"x: y\r\n" * 300 + b"\r\n",
        b"GET http://page.example/" + b"y" * 1_000_000,
    ],
    ids=["long-field", "many-fields", "endless-line"],
)
def test_a_head_that_is_too_large_is_refused(daemon: Daemon, head: bytes) -> None:
    with daemon.connect() as client:
        with suppress(ConnectionError):
            client.sendall(head)
        raw = b""
        with suppress(ConnectionResetError):
            while part := client.recv(65_536):
                raw += part
    if len(head) < 100_000 or raw:
        reply = parse_reply(raw)
        assert (reply.status, reply.reason) == (431, "head-too-large")


@pytest.mark.case("E11")
@pytest.mark.parametrize(
    ("head", "status", "reason"),
    [
        (b"connect page.example:443 HTTP/1.1\r\nHost: page.example:443\r\n\r\n", 400, None),
        (b"CONNECT  page.example:443 HTTP/1.1\r\nHost: page.example:443\r\n\r\n", 400, "malformed-request-line"),
        (b"CONNECT\tpage.example:443 HTTP/1.1\r\nHost: page.example:443\r\n\r\n", 400, "malformed-request-line"),
        (b"GET http://page.example/\r\n\r\n", 400, "malformed-request-line"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "unsupported-version"),
        (b"GET http://page.example/ HTTP/1.2\r\nHost: page.example\r\n\r\n", 505, "unsupported-version"),
        (b"CONNECT page.example:443 HTTP/1.1\r\n\r\n", 400, "missing-host"),
        (b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\nHost: a.example\r\n\r\n", 400, "duplicate-host"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "malformed-request-line"),
        (b"\x05\x01\x00\r\n\r\n", 400, "malformed-request-line"),
    ],
)  # fmt: skip
def test_a_head_outside_the_grammar_is_refused_with_nothing_sent(
    loopback: World, daemon: Daemon, head: bytes, status: int, reason: str | None
) -> None:
    before = loopback.sent()
    reply = daemon.ask(head)
    assert reply.status == status
    assert reply.reason == reason or reason is None
    assert loopback.sent() == before


def test_an_origin_that_never_answers_is_an_upstream_timeout(loopback: World, daemon: Daemon) -> None:
    with loopback.origin(Visit.wait_for_end) as origin:
        start = time.monotonic()
        reply = daemon.ask(get_request(f"http://{loopback.echo_name}:{origin.port}/"))
        assert (reply.status, reply.reason, reply.error) == (504, "upstream-timeout", "http_response_timeout")
        assert 0.4 < time.monotonic() - start < 3


ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX: y\r\n\r\nbody"


def test_a_reply_cut_at_any_byte_is_never_a_whole_reply(loopback: World, daemon: Daemon) -> None:
    cut = 0

    def talk(visit: Visit) -> None:
        visit.read_request()
        visit.write(ANSWER[:cut])

    with loopback.origin(talk) as origin:
        for cut in range(len(ANSWER)):
            with daemon.connect() as client:
                client.sendall(get_request(f"http://{loopback.echo_name}:{origin.port}/"))
                raw = b""
                with suppress(ConnectionResetError):
                    while part := client.recv(65_536):
                        raw += part
            if cut <= ANSWER.index(b"body") - 1:
                reply = parse_reply(raw)
                assert (reply.status, reply.reason) == (502, "upstream-failed"), (cut, raw)
            else:
                assert not raw.endswith(b"body"), (cut, raw)


def test_tunnels_cut_by_either_side_leave_nothing_behind(loopback: World, daemon: Daemon) -> None:
    def rude(visit: Visit) -> None:
        visit.stream.recv(10)
        visit.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")

    with loopback.origin(rude) as origin:
        for number in range(40):
            with daemon.connect() as client:
                client.sendall(connect_request(f"{loopback.echo_name}:{origin.port}"))
                assert client.recv(1000).startswith(b"HTTP/1.1 200 ")
                if number % 2:
                    client.sendall(b"x" * 10)
                    with suppress(ConnectionResetError):
                        while client.recv(1000):
                            pass
