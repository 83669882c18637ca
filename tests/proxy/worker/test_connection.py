"""One client from its first byte to its last: the steps, their order, and what each refusal costs (nothing)."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import TYPE_CHECKING

import pytest

from egressd.limits import EARLY_MAX_BYTES, Limits
from support.worker_rig import Origin, Rig

if TYPE_CHECKING:
    from collections.abc import Callable

    Rigs = Callable[..., Rig]

HERE = ip_address("127.0.0.1")


@pytest.fixture
def rig(rigs: Rigs, origin: Origin) -> Rig:
    return rigs(
        rules=f"allowed.test:{origin.port}\nprivate.test\n*.wild.test\n! denied.wild.test\n",
        rows={"allowed.test": (HERE,), "private.test": (ip_address("10.0.0.7"),)},
    )


def connect(authority: str, *fields: str, version: str = "1.1") -> bytes:
    lines = [f"CONNECT {authority} HTTP/{version}", f"Host: {authority}", *fields, "", ""]
    return "\r\n".join(lines).encode()


def reason_of(answer: bytes) -> str:
    """The reason of the one Proxy-Status member that a refusal has."""
    assert answer.count(b"Proxy-Status:") == 1
    return answer.split(b"reason=")[1].split(b";")[0].split(b"\r\n")[0].decode()


def test_an_allowed_connect_gets_a_bare_200_and_a_tunnel(rig: Rig, origin: Origin) -> None:
    client, _ = rig.client()
    client.sendall(connect(f"allowed.test:{origin.port}"))
    rig.until(lambda: bool(origin.accept() or origin.accepted) and bool(rig.core.tunnels))
    client.sendall(b"ping")
    tunnel = next(iter(rig.core.tunnels))
    rig.until(lambda: tunnel.up.count == 4)
    origin.accepted[0].sendall(b"pong")
    origin.accepted[0].shutdown(socket.SHUT_WR)
    client.shutdown(socket.SHUT_WR)

    got = rig.read_all(client)

    assert got == b"HTTP/1.1 200 Connection established\r\n\r\npong"
    assert origin.accepted[0].recv(100) == b"ping"
    assert rig.resolver.asked == ["allowed.test"], "one look-up for one request"
    rig.until(lambda: not rig.core.tunnels)
    decision, close = rig.journal.lines
    assert decision["decision"] == "allowed"
    assert (decision["host"], decision["port"], decision["tenant"]) == ("allowed.test", origin.port, "default")
    assert close["end"] in {"client-closed", "origin-closed"}
    assert (close["bytes_up"], close["bytes_down"]) == (4, 4)


@pytest.mark.case("E2", "E3")
def test_early_bytes_wait_for_the_answer_and_are_then_delivered(rigs: Rigs, origin: Origin) -> None:
    rig = rigs(rules=f"allowed.test:{origin.port}", rows={"allowed.test": (HERE,)}, hold=True)
    client, _ = rig.client()
    client.sendall(connect(f"allowed.test:{origin.port}") + b"client hello")
    rig.until(lambda: bool(rig.resolver.held))
    client.sendall(b", and more")
    for _ in range(5):
        rig.turn(0.01)
    assert origin.accept() is None, "dialed before the name was resolved"

    rig.resolver.release()
    rig.until(lambda: origin.accept() is not None)

    tunnel = next(iter(rig.core.tunnels))
    rig.until(lambda: tunnel.up.count == len(b"client hello, and more"))
    assert origin.accepted[0].recv(100) == b"client hello, and more"


def test_early_bytes_beyond_the_bound_wait_in_the_kernel(rigs: Rigs, origin: Origin) -> None:
    rig = rigs(rules=f"allowed.test:{origin.port}", rows={"allowed.test": (HERE,)}, hold=True)
    client, connection = rig.client()
    client.setblocking(False)
    client.sendall(connect(f"allowed.test:{origin.port}"))
    rig.until(lambda: bool(rig.resolver.held))
    sent = 0

    def fill() -> bool:
        nonlocal sent
        try:
            sent += client.send(b"x" * 65_536)
        except BlockingIOError:
            return connection.wants == 0
        return False

    rig.until(fill)
    assert EARLY_MAX_BYTES <= len(connection.early) <= EARLY_MAX_BYTES + 16_384
    rig.resolver.release()
    rig.until(lambda: origin.accept() is not None)
    client.shutdown(socket.SHUT_WR)

    assert len(rig.read_all(origin.accepted[0])) == sent


@pytest.mark.case("C4")
@pytest.mark.parametrize(
    ("authority", "reason"),
    [
        ("secret.a.evil.test:443", "not-on-allowlist"),
        ("allowed.test:22", "port-not-allowed"),
        ("denied.wild.test:443", "denied-by-rule"),
        ("metadata.google.internal:80", "forbidden-name"),
        ("169.254.169.254:80", "forbidden-address"),
        ("8.8.8.8:443", "ip-not-on-allowlist"),
        ("allowed.test", "malformed-port"),
        ("allowed.test:0", "malformed-port"),
    ],
)
def test_a_refused_target_is_neither_looked_up_nor_dialed(rig: Rig, authority: str, reason: str) -> None:
    client, _ = rig.client()
    client.sendall(connect(authority))

    answer = rig.read_all(client)

    assert reason_of(answer) == reason
    assert answer.startswith((b"HTTP/1.1 403 ", b"HTTP/1.1 400 "))
    assert b"Content-Length: 0\r\n" in answer
    assert b"Connection: close\r\n" in answer
    assert rig.resolver.asked == []
    assert rig.core.poller.handlers.keys() <= {s.sock.fileno() for s in rig.core.lingering}
    [record] = rig.journal.lines
    assert (record["decision"], record["reason"]) == ("refused", reason)


@pytest.mark.case("C1")
def test_a_listed_name_with_a_private_address_is_refused_and_not_dialed(rig: Rig) -> None:
    client, _ = rig.client()
    client.sendall(connect("private.test:443"))

    answer = rig.read_all(client)

    assert reason_of(answer) == "resolved-address-denied"
    assert b"10.0.0.7" not in answer, "a refusal shows no resolved address"
    assert rig.resolver.asked == ["private.test"]


@pytest.mark.case("E1")
def test_nothing_after_a_refused_connect_is_parsed(rig: Rig, origin: Origin) -> None:
    client, _ = rig.client()
    smuggled = f"GET http://allowed.test:{origin.port}/ HTTP/1.1\r\nHost: allowed.test:{origin.port}\r\n\r\n".encode()
    client.sendall(connect("evil.test:443") + smuggled)

    answer = rig.read_all(client)

    assert answer.count(b"HTTP/1.1") == 1
    assert rig.resolver.asked == []
    assert origin.accept() is None
    assert len(rig.journal.lines) == 1


def test_two_hundred_clients_with_early_bytes_all_read_their_refusal(rig: Rig) -> None:
    read = 0
    for _ in range(200):
        client, _ = rig.client()
        client.sendall(connect("evil.test:443") + b"\x16\x03\x01" + b"h" * 4000)
        rig.turn(0.01)
        client.sendall(b"more")
        answer = rig.read_all(client)
        read += reason_of(answer) == "not-on-allowlist"
        client.close()
    assert read == 200


def test_a_client_that_sends_on_and_on_after_a_refusal_is_closed(rig: Rig) -> None:
    client, _ = rig.client()
    client.sendall(connect("evil.test:443"))
    rig.until(lambda: bool(rig.core.lingering))

    def flood() -> bool:
        try:
            client.sendall(b"z" * 8192)
        except OSError:
            return True
        return not rig.core.lingering

    rig.until(flood)


def test_a_client_that_keeps_a_refused_connection_open_is_closed_after_the_linger(rig: Rig) -> None:
    client, _ = rig.client()
    client.sendall(connect("evil.test:443"))
    rig.until(lambda: bool(rig.core.lingering))

    rig.pass_time(1.1)

    assert not rig.core.lingering
    assert rig.read_all(client).startswith(b"HTTP/1.1 403 ")


@pytest.mark.case("E5")
def test_a_host_that_names_another_destination_is_refused(rig: Rig, origin: Origin) -> None:
    client, _ = rig.client()
    client.sendall(f"CONNECT allowed.test:{origin.port} HTTP/1.1\r\nHost: other.test\r\n\r\n".encode())

    assert reason_of(rig.read_all(client)) == "authority-mismatch"
    assert rig.resolver.asked == []


@pytest.mark.case("E9")
def test_a_connect_with_transfer_encoding_is_refused_and_content_length_is_ignored(rig: Rig, origin: Origin) -> None:
    client, _ = rig.client()
    client.sendall(connect(f"allowed.test:{origin.port}", "Transfer-Encoding: chunked"))
    assert reason_of(rig.read_all(client)) == "ambiguous-framing"

    client, _ = rig.client()
    client.sendall(connect(f"allowed.test:{origin.port}", "Content-Length: 5") + b"bytes of the tunnel")
    rig.until(lambda: origin.accept() is not None and bool(rig.core.tunnels))
    tunnel = next(iter(rig.core.tunnels))
    rig.until(lambda: tunnel.up.count == 19)
    assert origin.accepted[0].recv(100) == b"bytes of the tunnel"


def test_http_1_0_needs_no_host(rig: Rig, origin: Origin) -> None:
    client, _ = rig.client()
    client.sendall(f"CONNECT allowed.test:{origin.port} HTTP/1.0\r\n\r\n".encode())
    rig.until(lambda: origin.accept() is not None)


def test_a_head_that_takes_too_long_is_answered_with_408_whatever_comes_meanwhile(rigs: Rigs) -> None:
    rig = rigs(limits=Limits(head_timeout_seconds=10.0))
    client, _ = rig.client()
    for piece in (b"CONNECT ", b"slow.test:443 ", b"HTTP/1.1\r\n"):
        client.sendall(piece)
        rig.turn(0.5)
        rig.pass_time(3.5)

    answer = rig.read_all(client)

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert reason_of(answer) == "head-timeout"


def test_a_client_that_says_nothing_is_closed_without_an_answer(rig: Rig) -> None:
    client, _ = rig.client()
    rig.pass_time(rig.core.limits.idle_client_seconds + 1)
    assert rig.read_all(client) == b""
    assert rig.journal.lines == []


@pytest.mark.parametrize("fault", ["timeout", "failed", "nxdomain"])
def test_a_name_that_does_not_resolve_is_a_502_that_says_so(rigs: Rigs, origin: Origin, fault: str) -> None:
    rig = rigs(rules="gone.test", rows={"gone.test": fault})
    client, _ = rig.client()
    client.sendall(connect("gone.test:443"))

    answer = rig.read_all(client)

    assert answer.startswith(b"HTTP/1.1 502 ")
    assert reason_of(answer) == "resolve-failed"
    assert (b"error=dns_timeout" in answer) == (fault == "timeout")
    assert origin.accept() is None


def test_a_port_where_nobody_listens_is_a_502_that_says_so(rigs: Rigs) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    rig = rigs(rules=f"closed.test:{port}", rows={"closed.test": (HERE,)})
    client, _ = rig.client()
    client.sendall(connect(f"closed.test:{port}"))

    answer = rig.read_all(client)

    assert reason_of(answer) == "dial-failed"
    assert b"error=connection_refused" in answer


def test_a_policy_that_changed_during_the_look_up_is_the_one_that_counts(rigs: Rigs, origin: Origin) -> None:
    rig = rigs(rules=f"allowed.test:{origin.port}", rows={"allowed.test": (HERE,)}, hold=True)
    client, _ = rig.client()
    client.sendall(connect(f"allowed.test:{origin.port}"))
    rig.until(lambda: bool(rig.resolver.held))

    rig.load("other.test")
    rig.resolver.release()

    answer = rig.read_all(client)
    assert reason_of(answer) == "not-on-allowlist"
    assert rig.channel.grant is not None


def test_a_client_that_leaves_during_the_look_up_leaves_nothing_behind(rigs: Rigs, origin: Origin) -> None:
    rig = rigs(rules=f"allowed.test:{origin.port}", rows={"allowed.test": (HERE,)}, hold=True)
    client, _ = rig.client()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    client.sendall(connect(f"allowed.test:{origin.port}"))
    rig.until(lambda: bool(rig.resolver.held))
    client.close()

    rig.until(lambda: not rig.core.connections)

    assert rig.resolver.held[0][2].cancelled


@pytest.mark.case("D2")
def test_an_empty_list_allows_nothing(rigs: Rigs) -> None:
    rig = rigs(rules="")
    client, _ = rig.client()
    client.sendall(connect("anything.test:443"))
    assert reason_of(rig.read_all(client)) == "not-on-allowlist"


@pytest.mark.case("D2")
def test_a_channel_without_policy_refuses_with_503(rigs: Rigs) -> None:
    rig = rigs(rules="a.test")
    rig.channel.swap(None)
    client, _ = rig.client()
    client.sendall(connect("a.test:443"))
    answer = rig.read_all(client)
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert reason_of(answer) == "policy-unavailable"


def test_the_grant_is_told_to_the_job_that_asks(rig: Rig) -> None:
    client, _ = rig.client()
    client.sendall(b"GET /.well-known/egress HTTP/1.1\r\nHost: proxy\r\n\r\n")

    answer = rig.read_all(client)

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"*.wild.test" in answer
    assert b"application/json" in answer


def test_random_bytes_and_a_cut_at_any_byte_end_without_a_trace(rig: Rig, origin: Origin) -> None:
    whole = connect(f"allowed.test:{origin.port}", "X-Field: value")
    for length in range(len(whole)):
        client, _ = rig.client()
        client.sendall(whole[:length])
        client.shutdown(socket.SHUT_WR)
        assert rig.read_all(client) == b""
        client.close()
    rig.until(lambda: not rig.core.connections and not rig.core.lingering)
    assert rig.resolver.asked == []
    assert origin.accept() is None
