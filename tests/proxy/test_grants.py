"""A snapshot becomes a policy: whole or not at all, and a job learns of its own grant only."""

from __future__ import annotations

import socket
from ipaddress import ip_address, ip_network

import pytest

from egress_policy.addresses import AddressClass
from egress_policy.rules import MatchOutcome
from egress_policy.wire import GrantDocument, read_grant
from egressd.grants import Grant, compile_policy
from egressd.snapshot import GrantSpec, ListText, Snapshot, from_json, to_json
from support.grants import grant, target


def outcome(made: Grant, authority: str, *, public_only: bool = False) -> MatchOutcome:
    return made.rules_for(public_only=public_only).match(target(authority), now=0.0).outcome


def document(made: Grant) -> GrantDocument:
    assert made.document is not None
    read = read_grant(made.document)
    assert isinstance(read, GrantDocument), read
    return read


# Rules


@pytest.mark.parametrize(
    ("authority", "public_only", "expected"),
    [
        ("tenant.test:443", False, MatchOutcome.ALLOWED),
        ("plugin.test:443", False, MatchOutcome.ALLOWED),
        ("search.internal:8080", False, MatchOutcome.ALLOWED),
        ("tenant.test:443", True, MatchOutcome.ALLOWED),
        ("plugin.test:443", True, MatchOutcome.ALLOWED),
        ("search.internal:8080", True, MatchOutcome.NONE),
        ("search.internal:8081", False, MatchOutcome.PORT),
        ("tenant.test:8443", False, MatchOutcome.PORT),
        ("denied.test:443", False, MatchOutcome.DENIED),
        ("denied.test:443", True, MatchOutcome.DENIED),
        ("other.test:443", False, MatchOutcome.NONE),
    ],
)
def test_a_grant_is_the_union_of_its_lists_and_endpoints(
    authority: str, public_only: bool, expected: MatchOutcome
) -> None:
    made = grant("tenant.test\ndenied.test", "plugin.test\n! denied.test", endpoints=("search.internal:8080",))

    assert outcome(made, authority, public_only=public_only) is expected


def test_without_lists_nothing_is_allowed() -> None:
    policy = compile_policy(Snapshot(version=1, grants=(GrantSpec("default"),), channels={"default": 0}))

    assert outcome(policy.channels["default"], "a.test:443") is MatchOutcome.NONE
    assert policy.channels["default"].unavailable is None


# What does not parse


@pytest.mark.parametrize(
    ("tenant_rules", "plugin_rules", "endpoints", "unavailable"),
    [
        ("a.test", "b.test", (), None),
        ("a.test\na*.b", "b.test", (), "tenants/default.list does not parse"),
        ("a.test", "http://b.test/", (), "plugins/web.list does not parse"),
        ("a.test\n10.0.0.0/8", "b.test", (), None),
        ("a.test", "b.test", ("search.internal",), "an endpoint does not parse"),
        ("a.test", "b.test", ("search.internal:8080", "*.internal:80"), "an endpoint does not parse"),
        ("a*.b", "b.test", ("no",), "tenants/default.list does not parse"),
    ],
)
def test_what_does_not_parse_makes_the_whole_grant_unavailable(
    tenant_rules: str, plugin_rules: str, endpoints: tuple[str, ...], unavailable: str | None
) -> None:
    assert grant(tenant_rules, plugin_rules, endpoints=endpoints).unavailable == unavailable


def test_the_supervisors_own_reason_comes_first() -> None:
    assert grant("a*.b", unavailable="the folder is unreadable").unavailable == "the folder is unreadable"


def test_a_warning_does_not_make_a_grant_unavailable() -> None:
    made = grant("*.wild.test\n! wild.test\nwild.test")

    assert made.unavailable is None
    assert outcome(made, "a.wild.test:443") is MatchOutcome.ALLOWED


def test_a_broken_list_leaves_the_other_grants_alone() -> None:
    good = GrantSpec("good", lists=(ListText("tenant", "tenants/good.list", "a.test"),))
    bad = GrantSpec("bad", lists=(ListText("tenant", "tenants/bad.list", "a*.b"),))

    policy = compile_policy(Snapshot(version=1, grants=(good, bad), channels={"one": 0, "two": 1, "three": 0}))

    assert policy.channels["one"].unavailable is None
    assert policy.channels["two"].unavailable == "tenants/bad.list does not parse"
    assert policy.channels["three"] is policy.channels["one"], "two channels of one grant share it"


@pytest.mark.parametrize(
    "broken",
    [
        Snapshot(version=1, own=("127.0.0.1/8",)),
        Snapshot(version=1, own=("localhost",)),
        Snapshot(version=1, protected=("10.0.0.0/33",)),
        Snapshot(version=1, unsafe_reach=("x",)),
        Snapshot(version=1, nat64="64:ff9b::1/96"),
        Snapshot(version=1, nat64="10.0.0.0/8"),
        Snapshot(version=1, grants=(GrantSpec("t", private=("10.20.0.1/16",)),)),
        Snapshot(version=1, grants=(GrantSpec("t", lists=(ListText("nobody", "x.list", ""),)),)),
        Snapshot(version=1, grants=(GrantSpec("t"),), proxy_names=("präxy:3128",)),
        Snapshot(version=1, grants=(GrantSpec("t"),), unsafe_reach=("127.0.0.5/32",), listeners=("127.0.0.1",)),
    ],
    ids=repr,
)
def test_a_snapshot_that_the_supervisor_should_not_have_made_is_a_value_error(broken: Snapshot) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        compile_policy(broken)


# What a grant carries


def test_a_grant_carries_what_the_snapshot_says() -> None:
    made = grant("a.test", "b.test", private=("10.20.0.0/16", "fd00::/8"), public_only=True, mode="report")

    assert (made.tenant, made.plugin, made.job, made.version) == ("default", "web", None, 7)
    assert made.private == (ip_network("10.20.0.0/16"), ip_network("fd00::/8"))
    assert made.public_only
    assert made.reports
    assert not made.unsafe_names
    assert not grant("a.test").reports


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("45.83.64.1", AddressClass.FLOOR),
        ("45.83.64.2", AddressClass.PUBLIC),
        ("9.9.9.1", AddressClass.FLOOR),
        ("9.9.8.1", AddressClass.PUBLIC),
        ("127.0.0.5", AddressClass.PUBLIC),
        ("127.0.0.6", AddressClass.FLOOR),
        ("10.0.0.1", AddressClass.PRIVATE),
        ("64:ff9b::a00:1", AddressClass.PRIVATE),
        ("64:ff9b::808:808", AddressClass.PUBLIC),
        ("64:ff9b:1::808:808", AddressClass.FLOOR),
    ],
)
def test_the_nodes_networks_make_the_classes(address: str, expected: AddressClass) -> None:
    made = grant(protected=("9.9.9.0/24",), unsafe_reach=("127.0.0.5/32",), nat64="64:ff9b::/96")

    assert made.reach.classify(ip_address(address)) is expected


def test_the_policy_carries_version_channels_and_hosts() -> None:
    snapshot = Snapshot(
        version=3, grants=(GrantSpec("a"), GrantSpec("b")), channels={"x": 1}, hosts={"h.test": ("10.0.0.1",)}
    )

    policy = compile_policy(snapshot)

    assert policy.version == 3
    assert {name: made.tenant for name, made in policy.channels.items()} == {"x": "b"}
    assert policy.hosts == {"h.test": ("10.0.0.1",)}


def test_names_of_the_proxy_are_compared_in_lower_case() -> None:
    policy = compile_policy(
        Snapshot(version=1, grants=(GrantSpec("t"),), channels={"c": 0}, proxy_names=("Proxy.Internal:3128",))
    )

    assert policy.channels["c"].proxy_names == frozenset({b"proxy.internal:3128"})


# The daemon's own listeners (case F24)


@pytest.mark.case("F24")
@pytest.mark.parametrize(
    ("address", "port", "own"),
    [
        ("127.0.0.1", 3128, True),
        ("127.0.0.1", 3127, False),
        ("127.0.0.2", 3128, False),
        ("127.0.0.2", 3129, True),
        ("10.0.0.1", 3129, True),
        ("::1", 3129, False),
        ("::1", 3130, True),
        ("2606:4700::1", 3130, True),
        ("127.0.0.1", 3130, True),
        ("::ffff:127.0.0.1", 3128, True),
        ("::ffff:127.0.0.1", 3127, False),
        ("fd00::7", 3131, True),
        ("fd00::8", 3131, False),
    ],
)
def test_the_daemons_own_listeners_are_known_by_address_and_port(address: str, port: int, own: bool) -> None:
    made = grant(
        unsafe_reach=("127.0.0.0/8",), listeners=("127.0.0.1:3128", "0.0.0.0:3129", "[::]:3130", "[fd00::7]:3131")
    )

    assert made.is_own_listener(ip_address(address), port) is own


def test_without_unsafe_reach_the_floor_closes_the_listeners_and_no_list_of_them_is_kept() -> None:
    made = grant(listeners=("127.0.0.1:3128",))

    assert made.listeners == frozenset()
    assert not made.is_own_listener(ip_address("127.0.0.1"), 3128)
    assert made.reach.classify(ip_address("127.0.0.1")) is AddressClass.FLOOR


# What a job may know


def test_the_document_says_what_the_job_may_reach_and_how_to_allow_more() -> None:
    read = document(grant("a.test\n! b.test", "c.test:8080", endpoints=("search.internal:8080",), public_only=True))

    assert (read.tenant, read.plugin, read.version, read.public_only) == ("default", "web", 7, True)
    assert [(entry.kind.value, entry.rules) for entry in read.lists] == [
        ("tenant", ("a.test", "! b.test")),
        ("plugin", ("c.test:8080",)),
    ]
    assert read.endpoints == ("search.internal:8080",)
    assert read.command == "egressctl tenant default allow {host}"


def test_the_document_says_how_each_list_limits() -> None:
    read = document(grant('methods = ["HEAD", "GET"]\nsni = "count"\na.test', "b.test"))

    assert [(entry.methods, entry.sni) for entry in read.lists] == [(("GET", "HEAD"), "count"), (None, "enforce")]


def test_the_document_never_names_others_files_networks_or_the_node() -> None:
    one = GrantSpec("one", lists=(ListText("tenant", "tenants/secret-path.list", "a.test"),), private=("10.20.0.0/16",))
    two = GrantSpec("two", lists=(ListText("tenant", "tenants/two.list", "b.test"),))
    snapshot = Snapshot(
        version=1, grants=(one, two), channels={"one": 0}, own=("45.83.64.1/32",), hosts={"h.test": ("10.9.9.9",)}
    )

    raw = compile_policy(snapshot).channels["one"].document

    assert raw is not None
    for word in (b"two", b"b.test", b"secret-path", b"10.20.", b"45.83.", b"h.test", b"10.9.9.9"):
        assert word not in raw


@pytest.mark.parametrize(("visible", "mode"), [(False, "enforce"), (True, "report"), (False, "report")])
def test_there_is_no_document_where_it_is_switched_off_or_the_lists_do_not_decide(visible: bool, mode: str) -> None:
    assert grant("a.test", grant_visible=visible, mode=mode).document is None


def test_a_snapshot_sent_over_a_real_socket_makes_the_same_grant() -> None:
    spec = GrantSpec("default", lists=(ListText("tenant", "tenants/default.list", "a.test"),))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(to_json(Snapshot(version=5, grants=(spec,), channels={"default": 0})))
        policy = compile_policy(from_json(ours.recv(65_536)))

    assert policy.version == 5
    assert outcome(policy.channels["default"], "a.test:443") is MatchOutcome.ALLOWED
