"""The records and counters: what each holds, and that no path, query or field of a request is ever in one."""

from __future__ import annotations

import json
import re
import socket
import time
from ipaddress import ip_address
from typing import TYPE_CHECKING

import pytest

from egressd.snapshot import GrantSpec, ListText
from support.worker_rig import Origin, Rig

if TYPE_CHECKING:
    from collections.abc import Callable

    Rigs = Callable[..., Rig]

HERE = ip_address("127.0.0.1")
SECRETS = ("hidden-path", "hidden-query", "hidden-field", "hidden-body", "hidden-name", "hidden-agent")
FIELDS = "Cookie: hidden-field\r\nUser-Agent: hidden-agent\r\nX-hidden-name: 1\r\n"
DECISION = [
    *("time", "record", "version", "job", "tenant", "plugin", "channel", "method", "host", "port", "rule"),
    *("decision", "reason", "address", "dns_ms", "connect_ms"),
]
TRAFFIC = ["bytes_up", "bytes_down", "duration_ms", "end"]
CLOSE = [*DECISION[:11], "address", *TRAFFIC]
SLOW_SECONDS = 0.002
TIME = re.compile(r"20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]\.[0-9]{3}Z")


@pytest.fixture
def rig(rigs: Rigs, origin: Origin) -> Rig:
    return rigs(
        rows={"a.test": (HERE,), "dead.test": "timeout"},
        spec=spec(f"a.test:{origin.port}\ndead.test\n! denied.test"),
    )


def spec(rules: str, mode: str = "enforce") -> GrantSpec:
    return GrantSpec(
        "acme",
        plugin="web",
        job="job-7",
        lists=(ListText("tenant", "tenants/acme.list", rules),),
        mode=mode,
    )


def connect(authority: str) -> bytes:
    return f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{FIELDS}\r\n".encode()


def plain(authority: str, method: str = "GET", body: bytes = b"") -> bytes:
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    head = f"{method} http://{authority}/hidden-path?hidden-query HTTP/1.1\r\nHost: {authority}\r\n{FIELDS}{length}\r\n"
    return head.encode() + body


def receive(rig: Rig, sock: socket.socket, until: bytes) -> bytes:
    sock.setblocking(False)
    got = bytearray()

    def read() -> bool:
        try:
            got.extend(sock.recv(65_536))
        except BlockingIOError:
            return False
        return got.endswith(until)

    rig.until(read)
    return bytes(got)


def reached(rig: Rig, origin: Origin) -> socket.socket:
    before = len(origin.accepted)
    rig.until(lambda: origin.accept() is not None)
    return origin.accepted[before]


def refuse(rig: Rig, request: bytes) -> dict[str, object]:
    """Send what is refused; its one record."""
    before = len(rig.journal.lines)
    client, _ = rig.client()
    client.sendall(request)
    answer = rig.read_all(client)
    assert answer.count(b"Proxy-Status:") == 1, answer
    [record] = rig.journal.lines[before:]
    return record


def tunnelled(rig: Rig, origin: Origin) -> tuple[socket.socket, socket.socket]:
    client, _ = rig.client()
    client.sendall(connect(f"a.test:{origin.port}"))
    upstream = reached(rig, origin)
    assert receive(rig, client, b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    return client, upstream


def close_tunnel(rig: Rig, client: socket.socket, upstream: socket.socket) -> None:
    client.close()
    upstream.close()
    rig.until(lambda: not rig.core.tunnels)


def slow_answer(rig: Rig) -> None:
    """Answer the look-up that is held once it has taken a time that a record shows."""
    rig.until(lambda: bool(rig.resolver.held))
    asked = time.monotonic()
    rig.until(lambda: time.monotonic() >= asked + SLOW_SECONDS)
    rig.resolver.release()


def assert_nothing_hidden(rig: Rig) -> None:
    text = json.dumps(rig.journal.lines)
    for secret in SECRETS:
        assert secret not in text.lower()


# Refusals


def test_the_record_of_a_refusal_says_who_asked_for_what_and_why_not(rig: Rig) -> None:
    record = refuse(rig, connect("no.test:443"))

    assert list(record) == DECISION
    assert TIME.fullmatch(str(record["time"]))
    assert {key: record[key] for key in DECISION[1:]} == {
        "record": "decision",
        "version": 1,
        "job": "job-7",
        "tenant": "acme",
        "plugin": "web",
        "channel": "default",
        "method": "CONNECT",
        "host": "no.test",
        "port": 443,
        "rule": None,
        "decision": "refused",
        "reason": "not-on-allowlist",
        "address": None,
        "dns_ms": 0,
        "connect_ms": 0,
    }
    assert_nothing_hidden(rig)


@pytest.mark.parametrize(
    ("request_bytes", "expected"),
    [
        (plain("no.test"), ("GET", "no.test", 80, None, "not-on-allowlist")),
        (connect("denied.test:443"), ("CONNECT", "denied.test", 443, "! denied.test", "denied-by-rule")),
        (connect("[2606:4700::1]:443"), ("CONNECT", "2606:4700::1", 443, None, "ip-not-on-allowlist")),
        (
            b"GET /hidden-path?hidden-query HTTP/1.1\r\nHost: a\r\n\r\n",
            ("GET", None, None, None, "not-a-proxy-request"),
        ),
        (b"hidden-path\r\n\r\n", (None, None, None, None, "malformed-request-line")),
        (plain("no.test", "HIDDEN"), ("HIDDEN", "no.test", 80, None, "not-on-allowlist")),
        (plain("no.test", "POST", b"hidden-body"), ("POST", "no.test", 80, None, "not-on-allowlist")),
    ],
)
def test_each_refusal_has_its_record(
    rig: Rig, request_bytes: bytes, expected: tuple[str | None, str | None, int | None, str | None, str]
) -> None:
    record = refuse(rig, request_bytes)

    assert tuple(record[key] for key in ("method", "host", "port", "rule", "reason")) == expected
    assert_nothing_hidden(rig)


def test_a_verdict_that_is_remembered_is_recorded_each_time(rig: Rig) -> None:
    records = [refuse(rig, connect("denied.test:443")) for _ in range(3)]

    assert {record["rule"] for record in records} == {"! denied.test"}
    assert rig.core.counts.requests == {("acme", "web", "CONNECT", "refused", "denied-by-rule"): 3}


def test_a_look_up_that_fails_is_recorded_with_its_time(rig: Rig) -> None:
    rig.resolver.hold = True
    client, _ = rig.client()
    client.sendall(connect("dead.test:443"))
    slow_answer(rig)
    assert rig.read_all(client).count(b"Proxy-Status:") == 1

    [record] = rig.journal.lines
    assert (record["reason"], record["address"], record["connect_ms"]) == ("resolve-failed", None, 0)
    assert isinstance(record["dns_ms"], float)
    assert record["dns_ms"] >= SLOW_SECONDS * 1000


def test_methods_that_nobody_knows_are_counted_together(rig: Rig) -> None:
    refuse(rig, plain("no.test", "HIDDEN"))
    refuse(rig, plain("no.test", "BREW"))
    refuse(rig, b"nonsense\r\n\r\n")

    assert rig.core.counts.requests == {
        ("acme", "web", "other", "refused", "not-on-allowlist"): 2,
        ("acme", "web", "other", "refused", "malformed-request-line"): 1,
    }


def test_a_channel_without_a_grant_is_recorded_under_its_name(rig: Rig) -> None:
    rig.channel.swap(None)

    record = refuse(rig, connect("a.test:443"))

    assert (record["channel"], record["tenant"], record["version"]) == ("default", "", 0)
    assert record["reason"] == "policy-unavailable"


# Tunnels


def test_a_tunnel_has_a_decision_record_and_a_close_record(rig: Rig, origin: Origin) -> None:
    client, upstream = tunnelled(rig, origin)
    client.sendall(b"hidden-body")
    receive(rig, upstream, b"hidden-body")
    upstream.sendall(b"pong")
    receive(rig, client, b"pong")
    close_tunnel(rig, client, upstream)

    decision, close = rig.journal.lines
    assert list(decision) == DECISION
    assert (decision["decision"], decision["reason"], decision["address"]) == ("allowed", None, "127.0.0.1")
    assert decision["rule"] == f"a.test:{origin.port}"
    assert isinstance(decision["connect_ms"], float)
    assert list(close) == CLOSE
    assert [close[key] for key in DECISION[2:11]] == [decision[key] for key in DECISION[2:11]]
    assert (close["record"], close["address"]) == ("close", "127.0.0.1")
    assert (close["bytes_up"], close["bytes_down"]) == (len(b"hidden-body"), 4)
    assert close["end"] in {"client-closed", "origin-closed", "reset"}
    assert_nothing_hidden(rig)
    assert rig.core.counts.requests == {("acme", "web", "CONNECT", "allowed", ""): 1}
    assert rig.core.counts.tunnel_ends == {close["end"]: 1}
    assert (rig.core.counts.bytes_up, rig.core.counts.bytes_down) == (len(b"hidden-body"), 4)


def test_the_second_tunnel_of_a_verdict_has_records_of_its_own(rig: Rig, origin: Origin) -> None:
    rig.resolver.hold = True
    first, _ = rig.client()
    first.sendall(connect(f"a.test:{origin.port}"))
    slow_answer(rig)
    close_tunnel(rig, first, reached(rig, origin))
    close_tunnel(rig, *tunnelled(rig, origin))

    assert [record["record"] for record in rig.journal.lines] == ["decision", "close", "decision", "close"]
    assert rig.resolver.asked == ["a.test"]
    looked_up, known = rig.journal.lines[0]["dns_ms"], rig.journal.lines[2]["dns_ms"]
    assert isinstance(looked_up, float)
    assert looked_up >= SLOW_SECONDS * 1000
    assert known == 0, "nothing was looked up for it"


def test_what_report_mode_lets_through_is_recorded_with_its_reason(rigs: Rigs, origin: Origin) -> None:
    rig = rigs(rows={"a.test": (HERE,)}, spec=spec("", mode="report"))

    close_tunnel(rig, *tunnelled(rig, origin))

    decision, close = rig.journal.lines
    assert (decision["decision"], decision["reason"]) == ("reported", "not-on-allowlist")
    assert (decision["rule"], close["rule"]) == (None, None)
    assert rig.core.counts.requests == {("acme", "web", "CONNECT", "reported", "not-on-allowlist"): 1}


# Exchanges


def exchange(rig: Rig, origin: Origin, reply: bytes, until: bytes | None = b"ok") -> None:
    client, _ = rig.client()
    client.sendall(plain(f"a.test:{origin.port}", "POST", b"hidden-body"))
    upstream = reached(rig, origin)
    receive(rig, upstream, b"hidden-body")
    upstream.sendall(reply)
    if until is None:
        upstream.close()
    else:
        receive(rig, client, until)
    rig.until(lambda: bool(rig.journal.lines))


def test_an_exchange_has_one_record_with_its_bytes_and_its_end(rig: Rig, origin: Origin) -> None:
    exchange(rig, origin, b"HTTP/1.1 200 OK\r\nX-Hidden-Field: hidden-field\r\nContent-Length: 2\r\n\r\nok")

    [record] = rig.journal.lines
    assert list(record) == [*DECISION, *TRAFFIC]
    assert (record["method"], record["host"], record["port"]) == ("POST", "a.test", origin.port)
    assert (record["decision"], record["reason"], record["end"]) == ("allowed", None, "complete")
    assert record["address"] == "127.0.0.1"
    up, down = record["bytes_up"], record["bytes_down"]
    assert isinstance(up, int)
    assert isinstance(down, int)
    assert up > len(b"hidden-body")
    assert down > 2
    assert_nothing_hidden(rig)
    assert (rig.core.counts.bytes_up, rig.core.counts.bytes_down) == (up, down)
    assert rig.core.counts.requests == {("acme", "web", "POST", "allowed", ""): 1}


def test_a_reply_that_breaks_off_is_recorded_with_the_reason(rig: Rig, origin: Origin) -> None:
    exchange(rig, origin, b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok", until=None)

    [record] = rig.journal.lines
    assert (record["decision"], record["reason"], record["end"]) == ("allowed", "upstream-failed", "upstream-failed")
    assert rig.core.counts.requests == {("acme", "web", "POST", "allowed", "upstream-failed"): 1}


def test_a_client_that_leaves_in_the_middle_is_recorded(rig: Rig, origin: Origin) -> None:
    client, _ = rig.client()
    client.sendall(plain(f"a.test:{origin.port}"))
    upstream = reached(rig, origin)
    receive(rig, upstream, b"\r\n\r\n")
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    client.close()

    rig.until(lambda: bool(rig.journal.lines))

    [record] = rig.journal.lines
    assert (record["decision"], record["reason"], record["end"]) == ("allowed", None, "client-closed")
    assert record["bytes_down"] == 0


def test_a_reply_that_cannot_be_passed_on_is_one_record_of_a_refusal(rig: Rig, origin: Origin) -> None:
    exchange(rig, origin, b"HTTP/1.1 407 hidden-field\r\nContent-Length: 0\r\n\r\n", until=None)

    [record] = rig.journal.lines
    assert (record["decision"], record["reason"], record["host"]) == ("refused", "upstream-failed", "a.test")
    assert_nothing_hidden(rig)


def test_an_exchange_under_report_mode_is_recorded_as_reported(rigs: Rigs, origin: Origin) -> None:
    rig = rigs(rows={"a.test": (HERE,)}, spec=spec("", mode="report"))

    exchange(rig, origin, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    [record] = rig.journal.lines
    assert (record["decision"], record["reason"], record["end"]) == ("reported", "not-on-allowlist", "complete")
