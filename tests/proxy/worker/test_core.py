"""What a worker's connections share: counters, and replies remembered by their bytes, bounded and without secrets."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import TYPE_CHECKING

import pytest

from egressd.http_head import ReplyHead, ReplyReader
from egressd.limits import REMEMBERED_HEAD_MAX_BYTES, REMEMBERED_HEADS_MAX, TURN_MAX_BYTES, Limits
from egressd.replies import ReplyPlan, plan_reply
from egressd.worker.core import Counts
from support.grants import target
from support.worker_rig import Origin, Rig

if TYPE_CHECKING:
    from collections.abc import Callable

    Rigs = Callable[..., Rig]

HERE = ip_address("127.0.0.1")


@pytest.fixture
def rig(rigs: Rigs, origin: Origin) -> Rig:
    return rigs(rules=f"a.test:{origin.port}\nb.test:{origin.port}", rows={"a.test": (HERE,), "b.test": (HERE,)})


def remember(rig: Rig, raw: bytes) -> bool:
    """Offer a reply's head to the memory; whether it is there then."""
    head = ReplyReader().feed(raw)
    assert isinstance(head, ReplyHead), head
    plan = plan_reply(head, target("a.test:80"), method="GET", client_minor=1, keep=True)
    assert isinstance(plan, ReplyPlan), plan
    key = (raw, "GET", 1, True)
    rig.core.remember_reply(key, head, plan)
    return rig.core.replies.get(key) is plan


def reply(*fields: str) -> bytes:
    return "\r\n".join(["HTTP/1.1 200 OK", "Content-Length: 2", *fields, "", ""]).encode()


# Counters


def test_requests_are_counted_by_their_key() -> None:
    counts = Counts()
    allowed = ("default", "", "GET", "allowed", "")
    refused = ("default", "", "GET", "refused", "busy")

    for key in (allowed, refused, allowed):
        counts.request(key)

    assert counts.requests == {allowed: 2, refused: 1}


def test_the_ends_of_tunnels_are_counted_with_their_bytes() -> None:
    counts = Counts()

    counts.ended("idle", 10, 200)
    counts.ended("reset", 1, 2)
    counts.ended("idle", 5, 0)

    assert counts.tunnel_ends == {"idle": 2, "reset": 1}
    assert (counts.bytes_up, counts.bytes_down) == (16, 202)


# A new core


def test_a_core_begins_empty_and_takes_the_limits_it_is_given(rigs: Rigs) -> None:
    limits = Limits(connections_max=7)

    core = rigs(limits=limits).core

    assert core.limits is limits
    assert not core.draining
    assert not core.log_required
    assert (core.connections, core.tunnels, core.lingering, core.replies) == (set(), set(), set(), {})
    assert len(core.pool) == 0
    assert core.counts.requests == {}
    assert len(core.view) == TURN_MAX_BYTES
    assert not core.view.readonly


# Replies remembered by their bytes


@pytest.mark.parametrize(
    ("field", "kept"),
    [
        ("Content-Type: text/plain", True),
        ("Set-Cookie: a=b", False),
        ("SET-COOKIE: a=b", False),
        ("Authorization: x", False),
        ("Proxy-Authorization: x", False),
    ],
)
def test_a_reply_with_a_secret_is_not_kept(rig: Rig, field: str, kept: bool) -> None:
    assert remember(rig, reply(field)) is kept


@pytest.mark.parametrize(("over", "kept"), [(0, True), (1, False)])
def test_a_long_reply_head_is_not_kept(rig: Rig, over: int, kept: bool) -> None:
    raw = reply("X: " + "y" * (REMEMBERED_HEAD_MAX_BYTES - len(reply("X: ")) + over))

    assert len(raw) == REMEMBERED_HEAD_MAX_BYTES + over
    assert remember(rig, raw) is kept


def test_the_memory_of_replies_is_bounded(rig: Rig) -> None:
    for number in range(REMEMBERED_HEADS_MAX + 3):
        remember(rig, reply(f"X: {number}"))
        assert len(rig.core.replies) <= REMEMBERED_HEADS_MAX

    assert len(rig.core.replies) == 3


# On real sockets: what is remembered makes no difference but time


def ask(rig: Rig, client: socket.socket, origin: Origin, method: str, name: str = "a.test") -> None:
    authority = f"{name}:{origin.port}"
    client.sendall(f"{method} http://{authority}/secret?q HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())


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


def serve(rig: Rig, origin: Origin, answer: bytes) -> None:
    """Answer the request that comes over the only connection to the origin."""
    rig.until(lambda: bool(origin.accepted) or origin.accept() is not None)
    assert receive(rig, origin.accepted[0], b"\r\n\r\n")
    origin.accepted[0].sendall(answer)


def test_the_same_request_and_reply_again_get_the_same_bytes(rig: Rig, origin: Origin) -> None:
    client, _ = rig.client()
    replies = []
    for _ in range(3):
        ask(rig, client, origin, "GET")
        serve(rig, origin, reply("X-Mine: 1") + b"ok")
        replies.append(receive(rig, client, b"ok"))

    assert replies[0] == replies[1] == replies[2]
    assert (len(rig.core.replies), len(rig.channel.known)) == (1, 1)
    assert rig.core.counts.requests == {("default", "", "GET", "allowed", ""): 3}
    assert len(rig.journal.lines) == 3


def test_the_same_reply_to_head_has_no_body(rig: Rig, origin: Origin) -> None:
    client, _ = rig.client()
    ask(rig, client, origin, "GET")
    serve(rig, origin, reply() + b"ok")
    receive(rig, client, b"ok")

    ask(rig, client, origin, "HEAD")
    serve(rig, origin, reply())
    assert receive(rig, client, b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")

    assert len(rig.core.replies) == 2
    assert len(rig.core.pool) == 1, "nothing more is waited for, and the connection goes on"


def test_a_remembered_request_is_judged_by_the_new_policy_after_a_swap(rig: Rig, origin: Origin) -> None:
    client, _ = rig.client()
    ask(rig, client, origin, "GET")
    serve(rig, origin, reply() + b"ok")
    receive(rig, client, b"ok")
    assert rig.channel.known

    rig.load(f"b.test:{origin.port}")
    ask(rig, client, origin, "GET")

    assert b"reason=not-on-allowlist" in rig.read_all(client)


def test_a_remembered_request_is_refused_when_the_worker_drains(rig: Rig, origin: Origin) -> None:
    client, _ = rig.client()
    ask(rig, client, origin, "GET")
    serve(rig, origin, reply() + b"ok")
    receive(rig, client, b"ok")

    rig.core.draining = True
    ask(rig, client, origin, "GET")

    assert b"reason=draining" in rig.read_all(client)


def test_a_remembered_request_is_refused_when_records_are_required_and_fail(rig: Rig, origin: Origin) -> None:
    client, _ = rig.client()
    ask(rig, client, origin, "GET")
    serve(rig, origin, reply() + b"ok")
    receive(rig, client, b"ok")

    rig.core.log_required = True
    rig.journal.failing = True
    ask(rig, client, origin, "GET")

    assert b"reason=busy" in rig.read_all(client)
