"""CONNECT on the wire: when the 200 comes, what happens to bytes that come early, and what a refusal leaves behind."""

from __future__ import annotations

import fcntl
import hashlib
import socket
import struct
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support.lab_daemon import Daemon, wait_until
from support.lab_origin import Visit
from support.lab_wire import connect_request, get_request, parse_reply, read_all
from support.lab_world import LOOPBACK_SITE, World

OK = b"HTTP/1.1 200 Connection established\r\n\r\n"


def echo(visit: Visit) -> None:
    while part := visit.stream.recv(65_536):
        visit.write(part)


def repeat_at_the_end(visit: Visit) -> None:
    """Answer only when the other side has finished, with everything it said."""
    said = b""
    while part := visit.stream.recv(65_536):
        said += part
    visit.write(b"you said " + said)


@contextmanager
def tunnel(daemon: Daemon, authority: str) -> Iterator[socket.socket]:
    with daemon.connect() as client:
        client.sendall(connect_request(authority))
        # No byte more than the answer: an origin may speak first.
        assert client.recv(len(OK), socket.MSG_WAITALL) == OK
        yield client


@pytest.mark.case("E4", "E9")
def test_an_allowed_connect_answers_a_bare_200(loopback: World) -> None:
    with loopback.origin(echo) as origin, loopback.daemon.connect() as client:
        client.sendall(connect_request(f"{loopback.echo_name}:{origin.port}"))
        assert client.recv(1000) == OK


@pytest.mark.case("E2")
def test_bytes_in_the_same_packet_as_the_connect_reach_the_origin_after_the_200(loopback: World) -> None:
    with loopback.origin(echo) as origin, loopback.daemon.connect() as client:
        client.sendall(connect_request(f"{loopback.echo_name}:{origin.port}") + b"early bytes")
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == OK + b"early bytes"


@pytest.mark.case("E1", "E2", "E3")
def test_what_a_client_sends_while_its_name_is_looked_up_is_payload_and_never_a_second_head(loopback: World) -> None:
    name = loopback.name_with(LOOPBACK_SITE)
    unasked = loopback.name_with(LOOPBACK_SITE)
    second = connect_request(f"{unasked}:443")
    with loopback.origin(echo) as origin, loopback.open_daemon.connect() as client:
        loopback.dns.hold(name)
        client.sendall(connect_request(f"{name}:{origin.port}"))
        loopback.dns.wait_until(lambda: loopback.dns.count(name) == 2)
        client.sendall(second)
        client.shutdown(socket.SHUT_WR)
        _wait_until_read(client)
        loopback.dns.release()
        assert read_all(client) == OK + second
        assert loopback.dns.count(unasked) == 0


def _wait_until_read(client: socket.socket) -> None:
    """Wait until the other side has taken everything that was sent (SIOCOUTQ of a Unix socket counts down to none)."""
    wait_until(lambda: struct.unpack("i", fcntl.ioctl(client, termios.TIOCOUTQ, bytes(4)))[0] == 0, "the proxy to read")


@pytest.mark.case("E9")
def test_content_length_on_connect_is_ignored_and_what_follows_is_payload(loopback: World) -> None:
    with loopback.origin(echo) as origin, loopback.daemon.connect() as client:
        client.sendall(connect_request(f"{loopback.echo_name}:{origin.port}", "Content-Length: 3") + b"abcdef")
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == OK + b"abcdef"


@pytest.mark.case("E9")
def test_transfer_encoding_on_connect_is_refused(loopback: World) -> None:
    with loopback.origin(echo) as origin:
        reply = loopback.daemon.ask(
            connect_request(f"{loopback.echo_name}:{origin.port}", "Transfer-Encoding: chunked") + b"0\r\n\r\n"
        )
        assert (reply.status, reply.reason) == (400, "ambiguous-framing")
        assert origin.accepted == 0


@pytest.mark.case("E1")
def test_after_a_refused_connect_nothing_more_is_parsed(loopback: World) -> None:
    with loopback.origin(echo) as origin:
        second = get_request(f"http://{loopback.echo_name}:{origin.port}/")
        with loopback.daemon.connect() as client:
            client.sendall(connect_request("other.example:443") + second)
            raw = read_all(client)
        reply = parse_reply(raw)
        assert (reply.status, reply.reason) == (403, "not-on-allowlist")
        assert (reply.get("content-length"), reply.get("connection"), reply.body) == (["0"], ["close"], b"")
        assert raw.count(b"HTTP/1.1") == 1
        assert origin.accepted == 0


@pytest.mark.case("E1", "E2")
def test_a_refusal_is_readable_by_every_client_that_sent_bytes_early(loopback: World) -> None:
    before = loopback.sent()
    hello = b"\x16\x03\x01\x02\x00" + bytes(16_384)
    for _ in range(200):
        assert loopback.daemon.ask([connect_request("other.example:443"), hello]).reason == "not-on-allowlist"
    assert loopback.sent() == before


@pytest.mark.case("E13")
def test_a_connect_inside_a_tunnel_is_payload(loopback: World) -> None:
    inner = connect_request("other.example:443")
    with loopback.origin(echo) as origin, tunnel(loopback.daemon, f"{loopback.echo_name}:{origin.port}") as client:
        client.sendall(inner)
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == inner


@pytest.mark.case("G2")
def test_a_half_closed_client_still_gets_the_reply(loopback: World) -> None:
    with (
        loopback.origin(repeat_at_the_end) as origin,
        tunnel(loopback.daemon, f"{loopback.echo_name}:{origin.port}") as client,
    ):
        client.sendall(b"a question")
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == b"you said a question"


@pytest.mark.case("G2")
def test_an_origin_that_has_finished_still_gets_what_the_client_says(loopback: World) -> None:
    heard = bytearray()
    done = threading.Event()

    def talk(visit: Visit) -> None:
        visit.write(b"bye")
        visit.stream.shutdown(socket.SHUT_WR)
        while part := visit.stream.recv(65_536):
            heard.extend(part)
        done.set()

    with loopback.origin(talk) as origin, tunnel(loopback.daemon, f"{loopback.echo_name}:{origin.port}") as client:
        assert read_all(client) == b"bye"
        client.sendall(b"x" * 100_000)
        client.shutdown(socket.SHUT_WR)
        assert done.wait(10)
        assert bytes(heard) == b"x" * 100_000


def test_megabytes_go_through_both_ways_unchanged_and_are_counted(loopback: World) -> None:
    data = hashlib.shake_128(b"tunnel").digest(3_000_000)
    with loopback.origin(echo) as origin, tunnel(loopback.daemon, f"{loopback.echo_name}:{origin.port}") as client:

        def push() -> None:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)

        writer = threading.Thread(target=push)
        writer.start()
        assert read_all(client) == data
        writer.join()
        record = loopback.daemon.wait_for_record(port=origin.port, bytes_down=len(data))
        assert record["bytes_up"] == len(data)


@pytest.mark.case("G10")
def test_a_client_that_does_not_read_stops_the_origin_instead_of_filling_memory(loopback: World) -> None:
    written = []
    stop = threading.Event()

    def flood(visit: Visit) -> None:
        visit.stream.settimeout(0.5)
        try:
            while not stop.is_set():
                written.append(visit.stream.send(b"z" * 65_536))
        except TimeoutError:
            stop.set()

    with loopback.origin(flood) as origin, tunnel(loopback.daemon, f"{loopback.echo_name}:{origin.port}"):
        assert stop.wait(20)
        assert sum(written) < 32 * 1024 * 1024
