"""The review after a policy swap: what is no longer allowed ends, the rest goes on, the loop keeps its turn."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import TYPE_CHECKING, cast

import pytest

from egress_policy.reasons import End
from egressd.worker import review as review_module
from egressd.worker.review import Review
from support.worker_rig import Origin, Rig

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    Rigs = Callable[..., Rig]

HERE = ip_address("127.0.0.1")


@pytest.fixture
def rig(rigs: Rigs, origin: Origin) -> Rig:
    return rigs(
        rules=f"kept.test:{origin.port}\ngone.test:{origin.port}", rows={"kept.test": (HERE,), "gone.test": (HERE,)}
    )


def review_of(rig: Rig) -> Review:
    return Review(rig.core, cast("asyncio.AbstractEventLoop", rig.loop))


def tunnel(rig: Rig, origin: Origin, name: str) -> socket.socket:
    before = len(rig.core.tunnels)
    client, _ = rig.client()
    client.sendall(f"CONNECT {name}:{origin.port} HTTP/1.1\r\nHost: {name}:{origin.port}\r\n\r\n".encode())
    rig.until(lambda: len(rig.core.tunnels) == before + 1 and (origin.accept() is not None or True))
    assert client.recv(100).startswith(b"HTTP/1.1 200 ")
    return client


@pytest.mark.case("G11")
def test_only_the_tunnel_whose_rule_is_gone_ends(rig: Rig, origin: Origin) -> None:
    kept, gone = tunnel(rig, origin, "kept.test"), tunnel(rig, origin, "gone.test")
    rig.load(f"kept.test:{origin.port}")

    review_of(rig).start()
    rig.turn()

    assert len(rig.core.tunnels) == 1
    assert rig.journal.lines[-1]["end"] == End.RULE_REMOVED.value
    with pytest.raises(ConnectionResetError):
        gone.recv(1)
    kept.setblocking(False)
    with pytest.raises(BlockingIOError):
        kept.recv(1)


def test_a_new_deny_of_the_address_ends_the_tunnels_to_it(rig: Rig, origin: Origin) -> None:
    tunnel(rig, origin, "kept.test")
    rig.load(f"kept.test:{origin.port}\n! 127.0.0.0/8")
    review_of(rig).start()
    rig.turn()
    assert not rig.core.tunnels


def test_an_exchange_without_a_reply_gets_its_refusal_and_one_with_a_reply_is_cut(rig: Rig, origin: Origin) -> None:
    clients = []
    for name in ("gone.test", "gone.test"):
        client, _ = rig.client()
        client.sendall(f"GET http://{name}:{origin.port}/ HTTP/1.1\r\nHost: {name}:{origin.port}\r\n\r\n".encode())
        clients.append(client)
        rig.until(lambda: origin.accept() is not None)
    origin.accepted[1].sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart")
    clients[1].setblocking(False)

    def begun() -> bool:
        try:
            return bool(clients[1].recv(1000))
        except BlockingIOError:
            return False

    rig.until(begun)
    rig.load(f"kept.test:{origin.port}")

    review_of(rig).start()
    rig.turn()

    assert b"reason=not-on-allowlist" in rig.read_all(clients[0])
    with pytest.raises(ConnectionResetError):
        rig.read_all(clients[1])


def test_a_long_review_leaves_the_loop_its_turns(rig: Rig, origin: Origin, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        tunnel(rig, origin, "gone.test")
    rig.load("")
    monkeypatch.setattr(review_module, "DRAIN_TURN_SECONDS", -1.0)

    review_of(rig).start()
    left = []
    for _ in range(3):
        rig.turn()
        left.append(len(rig.core.tunnels))

    assert left == [2, 1, 0]


def test_a_second_swap_during_a_review_starts_it_anew(rig: Rig, origin: Origin) -> None:
    tunnel(rig, origin, "kept.test")
    review = review_of(rig)
    rig.load("")
    review.start()
    rig.load(f"kept.test:{origin.port}")
    review.start()
    rig.turn()
    assert len(rig.core.tunnels) == 1


def test_a_check_that_fails_ends_its_tunnel_and_the_review_goes_on(
    rig: Rig, origin: Origin, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        tunnel(rig, origin, "gone.test")

    def fail(_unix_now: float) -> object:
        raise LookupError

    failing = next(iter(rig.core.tunnels))
    failing.permits = fail
    rig.load("")
    review_of(rig).start()
    rig.turn()
    assert not rig.core.tunnels
    assert rig.poller.faults == 1
    assert "LookupError" in capsys.readouterr().err
    rig.poller.faults = 0
