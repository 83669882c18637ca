"""How names become addresses: once, judged whole, kept within bounds, and dialled exactly as judged."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from support.lab import BLACK_HOLE_V4
from support.lab_daemon import wait_until
from support.lab_wire import connect_request
from support.lab_world import OTHER_V4, PAGE_V4, PAGE_V6, TRAP_V4, World

pytestmark = pytest.mark.namespace


@pytest.mark.case("C1")
def test_the_connection_goes_to_the_judged_address_and_the_next_answer_is_judged_anew(world: World) -> None:
    name = world.name_with(PAGE_V4, then=(TRAP_V4,), ttl=1)
    trapped, arrived = world.trap.accepted, world.page.accepted
    assert world.tls_status(name, world.open_daemon) == 200
    assert world.open_daemon.wait_for_record(host=name, decision="allowed")["address"] == PAGE_V4
    assert (world.dns.count(name, "A"), world.dns.count(name, "AAAA")) == (1, 1)
    assert world.page.accepted == arrived + 1

    def refused() -> bool:
        return world.status_of_connect(world.open_daemon, f"{name}:443") == (403, "resolved-address-denied")

    wait_until(refused, "the second answer to be refused", 4)
    assert world.dns.count(name, "A") == 2
    assert world.trap.accepted == trapped


@pytest.mark.case("C5", "C7")
def test_a_moved_name_is_followed_when_its_ttl_ends_and_not_before(world: World) -> None:
    name = world.name_with(PAGE_V4, then=(OTHER_V4,), ttl=2)
    arrived = world.other.accepted
    start = time.monotonic()
    while world.other.accepted == arrived:
        assert world.tls_status(name, world.open_daemon) == 200
        if time.monotonic() - start < 1.5:
            assert world.dns.count(name, "A") == 1
        assert time.monotonic() - start < 15
        time.sleep(0.2)
    assert world.dns.count(name, "A") == 2


@pytest.mark.case("C7")
def test_a_name_with_many_addresses_is_judged_by_every_one_of_them(world: World) -> None:
    many = [f"45.83.64.{host}" for host in range(20, 50)]
    good, bad = world.name_with(*many, PAGE_V4), world.name_with(*many, TRAP_V4)
    before = world.sent().dials
    assert world.open_daemon.ask(connect_request(f"{bad}:443")).reason == "resolved-address-denied"
    assert world.sent().dials == before
    assert world.open_daemon.ask(connect_request(f"{good}:9")).reason == "dial-failed"


@pytest.mark.case("C2")
@pytest.mark.parametrize("rows", [(PAGE_V4, TRAP_V4), (TRAP_V4, PAGE_V4), (PAGE_V4, "::1"), (PAGE_V6, "10.0.0.7")])
def test_a_mixed_answer_is_refused_as_a_whole(world: World, rows: tuple[str, ...]) -> None:
    name = world.name_with(*rows)
    before = world.sent().dials
    assert world.open_daemon.ask(connect_request(f"{name}:443")).reason == "resolved-address-denied"
    assert world.sent().dials == before


@pytest.mark.case("C9")
def test_a_black_holed_first_address_costs_one_attempt_not_minutes(world: World) -> None:
    name = world.name_with(BLACK_HOLE_V4, PAGE_V4)
    start = time.monotonic()
    assert world.tls_status(name, world.open_daemon) == 200
    assert time.monotonic() - start < 4
    record = world.open_daemon.wait_for_record(host=name, decision="allowed")
    assert record["address"] == PAGE_V4
    assert 200 <= record["connect_ms"] < 4000


@pytest.mark.case("C9")
def test_a_black_holed_sixth_version_falls_back_to_the_fourth(world: World) -> None:
    name = world.name_with("2a0c:5ac0:9::1", PAGE_V4)
    start = time.monotonic()
    assert world.tls_status(name, world.open_daemon) == 200
    assert time.monotonic() - start < 4


@pytest.mark.case("C9", "E4")
def test_a_target_that_is_all_black_hole_ends_within_the_dial_limit(world: World, folder: Path) -> None:
    name = world.name_with(BLACK_HOLE_V4, "45.83.64.201")
    with world.launch(folder, {"default": "*:*\n"}, {"limits": {"dial_timeout_seconds": 0.8}}) as daemon:
        start = time.monotonic()
        reply = daemon.ask(connect_request(f"{name}:443"))
        assert (reply.status, reply.reason, reply.error) == (502, "dial-failed", "connection_timeout")
        assert 0.7 < time.monotonic() - start < 2


def test_a_refused_connection_is_told_as_such(world: World) -> None:
    reply = world.open_daemon.ask(connect_request(f"{PAGE_V4}:9"))
    assert (reply.status, reply.reason, reply.error) == (502, "dial-failed", "connection_refused")


@pytest.mark.case("C3")
def test_an_exception_for_loopback_is_judged_on_the_address_not_the_name(world: World, folder: Path) -> None:
    world.dns.set_addresses("evil.localhost", "169.254.169.254")
    world.dns.set_addresses("good.localhost", "127.0.0.5")
    settings = {"node": {"unsafe_reach": ["127.0.0.5/32"]}}
    with world.launch(folder, {"default": "*.localhost:*\nlocalhost:*\n"}, settings) as daemon:
        before = world.sent().dials
        reply = daemon.ask(connect_request("evil.localhost:443"))
        assert (reply.status, reply.reason) == (403, "resolved-address-denied")
        assert world.sent().dials == before
        assert world.status_of_connect(daemon, "good.localhost:443") == (200, None)
        assert world.sent().dials == before + 1


def test_a_resolver_that_never_answers_ends_within_the_dns_limit(world: World, folder: Path) -> None:
    name = world.name_that_is("drop")
    with world.launch(folder, {"default": "*:*\n"}, {"limits": {"dns_timeout_seconds": 0.8}}) as daemon:
        held = daemon.held()
        dials = world.sent().dials
        start = time.monotonic()
        reply = daemon.ask(connect_request(f"{name}:443"))
        assert (reply.status, reply.reason, reply.error) == (502, "resolve-failed", "dns_timeout")
        assert 0.3 < time.monotonic() - start < 2.5
        assert world.sent().dials == dials
        wait_until(lambda: daemon.held()[0] <= held[0] + 1, "the worker to hold no more than before")


@pytest.mark.parametrize("how", ["nxdomain", "servfail", "refused", "answer", "wrong-name", "wrong-type", "garbage"])
def test_a_name_without_an_address_is_a_resolve_failure(world: World, how: str) -> None:
    name = world.name_that_is(how)
    dials = world.sent().dials
    reply = world.open_daemon.ask(connect_request(f"{name}:443"))
    assert (reply.status, reply.reason, reply.error) == (502, "resolve-failed", "dns_error")
    assert world.sent().dials == dials


def test_a_long_answer_over_tcp_is_still_an_answer(world: World) -> None:
    name = world.name_that_is("truncated", PAGE_V4)
    assert world.tls_status(name, world.open_daemon) == 200


def test_hosts_replaces_the_look_up_only(world: World, folder: Path) -> None:
    settings = {"hosts": {"page.example": [PAGE_V4], "inside.test": ["10.0.0.7"], "unlisted.test": [PAGE_V4]}}
    with world.launch(folder, {"default": "page.example\ninside.test\n"}, settings) as daemon:
        asked = world.dns.total
        assert world.tls_status("page.example", daemon) == 200
        assert daemon.ask(connect_request("inside.test:443")).reason == "resolved-address-denied"
        assert daemon.ask(connect_request("unlisted.test:443")).reason == "not-on-allowlist"
        assert world.dns.total == asked


def test_a_private_address_is_reached_by_an_exact_rule_in_an_opened_network_and_not_otherwise(
    world: World, folder: Path
) -> None:
    exact, below = world.name_with(TRAP_V4), world.name_with(TRAP_V4)
    settings = {"tenant.default": {"private": ["10.0.0.0/24"]}}
    with world.launch(folder, {"default": f"{exact}:*\n*.{below.partition('.')[2]}:*\n"}, settings) as daemon:
        assert world.status_of_connect(daemon, f"{exact}:443") == (200, None)
        assert world.status_of_connect(daemon, f"{below}:443") == (403, "resolved-address-denied")
        public = "Oz0-Egress-Public-Only: 1"
        assert world.status_of_connect(daemon, f"{exact}:443", public) == (403, "resolved-address-denied")
