"""Idle connections: handed out for the same key and a judged place only, bounded, closed when they speak or end."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import TYPE_CHECKING

import pytest

from egressd.judge import Allowed, judge_target
from egressd.limits import POOL_MAX_CONNECTIONS, POOL_MAX_PER_TARGET
from egressd.pinning import PinnedTarget, Place
from egressd.worker.poller import IN
from egressd.worker.pool import Upstream
from support.grants import target
from support.worker_rig import Rig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Rigs = Callable[..., Rig]
    Make = Callable[..., Upstream]

KEY = ("default", "a.test:80")
FIRST = "192.0.2.1"
SECOND = "192.0.2.2"


@pytest.fixture
def rig(rigs: Rigs) -> Rig:
    return rigs(rules="a.test\nb.test")


@pytest.fixture
def peers() -> Iterator[dict[Upstream, socket.socket]]:
    made: dict[Upstream, socket.socket] = {}
    yield made
    for peer in made.values():
        peer.close()


@pytest.fixture
def make(rig: Rig, peers: dict[Upstream, socket.socket]) -> Make:
    def upstream(address: str = FIRST, key: tuple[str, str] = KEY) -> Upstream:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        made = Upstream(rig.core, ours, place(address), key)
        peers[made] = theirs
        return made

    return upstream


def place(address: str) -> Place:
    return Place(ip_address(address), (address, 80))


def pinned(rig: Rig, *addresses: str) -> PinnedTarget:
    grant = rig.channel.grant
    assert grant is not None
    asked = target("a.test:80")
    allowed = judge_target(asked, grant, method="GET", public_only=False, now=0.0)
    assert isinstance(allowed, Allowed)
    return PinnedTarget(asked, tuple(place(address) for address in addresses), allowed, grant, rig.poller.now + 60)


def test_an_empty_pool_has_nothing(rig: Rig) -> None:
    assert rig.core.pool.take(KEY, pinned(rig, FIRST)) is None
    assert len(rig.core.pool) == 0
    assert rig.core.pool.idle() == []


def test_what_is_put_is_taken_once_and_stays_in_the_event_set(rig: Rig, make: Make) -> None:
    pool, upstream = rig.core.pool, make()
    pool.put(upstream)
    assert (len(pool), upstream.wants, upstream.reused) == (1, IN, False)

    taken = pool.take(KEY, pinned(rig, FIRST))

    assert taken is upstream
    assert (len(pool), upstream.wants, upstream.reused) == (0, IN, True)
    assert len(rig.core.sweep) == 0, "the idle deadline is gone"
    assert pool.take(KEY, pinned(rig, FIRST)) is None
    upstream.close()


def test_the_most_recently_used_goes_first(rig: Rig, make: Make) -> None:
    older, newer = make(), make()
    rig.core.pool.put(older)
    rig.core.pool.put(newer)

    assert rig.core.pool.take(KEY, pinned(rig, FIRST)) is newer
    newer.close()


@pytest.mark.case("F2")
@pytest.mark.parametrize("key", [("default", "b.test:80"), ("default", "a.test:81"), ("other", "a.test:80")])
def test_a_connection_is_for_its_own_channel_host_and_port(rig: Rig, make: Make, key: tuple[str, str]) -> None:
    rig.core.pool.put(make())

    assert rig.core.pool.take(key, pinned(rig, FIRST)) is None
    assert len(rig.core.pool) == 1


@pytest.mark.case("F2")
def test_a_connection_to_an_address_outside_the_requests_own_pin_is_not_handed_out(rig: Rig, make: Make) -> None:
    moved, fits = make(FIRST), make(SECOND)
    rig.core.pool.put(fits)
    rig.core.pool.put(moved)

    assert rig.core.pool.take(KEY, pinned(rig, SECOND, "192.0.2.3")) is fits
    assert rig.core.pool.take(KEY, pinned(rig, SECOND)) is None
    assert rig.core.pool.idle() == [moved]
    fits.close()


@pytest.mark.parametrize("says", [b"HTTP/1.1 408 Request Timeout\r\n\r\n", b""], ids=["speaks", "ends"])
def test_an_idle_connection_that_speaks_or_ends_is_closed(
    rig: Rig, make: Make, peers: dict[Upstream, socket.socket], says: bytes
) -> None:
    gone, stays = make(), make()
    rig.core.pool.put(stays)
    rig.core.pool.put(gone)
    if says:
        peers[gone].sendall(says)
    else:
        peers[gone].close()

    rig.until(lambda: len(rig.core.pool) == 1)

    assert rig.core.pool.idle() == [stays]
    assert gone.sock.fileno() == -1


def test_an_idle_connection_ends_at_its_deadline(rig: Rig, make: Make) -> None:
    upstream = make()
    rig.core.pool.put(upstream)

    rig.pass_time(rig.core.limits.idle_upstream_seconds - 1)
    assert len(rig.core.pool) == 1
    rig.pass_time(1.2)

    assert len(rig.core.pool) == 0
    assert upstream.sock.fileno() == -1


def test_one_too_many_for_a_target_is_closed(rig: Rig, make: Make) -> None:
    for _ in range(POOL_MAX_PER_TARGET):
        rig.core.pool.put(make())
    surplus = make()

    rig.core.pool.put(surplus)

    assert len(rig.core.pool) == POOL_MAX_PER_TARGET
    assert surplus.sock.fileno() == -1


def fill(rig: Rig, make: Make, monkeypatch: pytest.MonkeyPatch, most: int = 3) -> None:
    """Fill the pool of a worker that keeps only a few, with one connection a key."""
    monkeypatch.setattr("egressd.worker.pool.POOL_MAX_CONNECTIONS", most)
    for number in range(most):
        rig.core.pool.put(make(key=("default", f"n{number}.test:80")))


def test_one_too_many_for_the_worker_is_closed(rig: Rig, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    assert POOL_MAX_CONNECTIONS >= POOL_MAX_PER_TARGET
    fill(rig, make, monkeypatch)
    surplus = make(key=("default", "one-more.test:80"))

    rig.core.pool.put(surplus)

    assert len(rig.core.pool) == 3
    assert surplus.sock.fileno() == -1


def test_a_connection_that_is_not_kept_leaves_no_key(rig: Rig, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(rig, make, monkeypatch)

    rig.core.pool.put(make(key=("default", "one-more.test:80")))

    assert len(rig.core.pool._idle) == 3, "the job chooses the names: what it names must not stay"


def test_a_connection_that_is_taken_for_good_leaves_no_key(rig: Rig, make: Make) -> None:
    rig.core.pool.put(make())
    taken = rig.core.pool.take(KEY, pinned(rig, FIRST))
    assert taken is not None
    taken.close()

    assert rig.core.pool._idle == {}, "the job chooses the names: what it names must not stay"


def test_removing_what_is_not_there_changes_nothing(rig: Rig, make: Make) -> None:
    upstream, stranger = make(), make()
    rig.core.pool.put(upstream)

    rig.core.pool.remove(stranger)
    rig.core.pool.remove(upstream)
    rig.core.pool.remove(upstream)

    assert len(rig.core.pool) == 0
    upstream.close()
    stranger.close()


def test_clearing_closes_all(rig: Rig, make: Make) -> None:
    made = [make(), make(SECOND), make(key=("default", "b.test:80"))]
    for upstream in made:
        rig.core.pool.put(upstream)

    rig.core.pool.clear()

    assert len(rig.core.pool) == 0
    assert [upstream.sock.fileno() for upstream in made] == [-1, -1, -1]
    assert len(rig.core.sweep) == 0


def test_wanting_the_same_again_costs_nothing(rig: Rig, make: Make) -> None:
    upstream = make()

    upstream.want(IN)
    upstream.want(IN)
    assert upstream.wants == IN
    upstream.want(0)

    assert upstream.wants == 0
    upstream.close()
