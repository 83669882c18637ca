"""What a name's addresses may be: every one judged, mixed answers refused whole, families interleaved."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from egress_policy.reasons import Reason, Refusal, Stage
from egressd.answers import Answers
from egressd.grants import Grant
from egressd.judge import Allowed, judge_target
from egressd.pinning import PinnedTarget, dial_order, is_mixed, pin, still_allowed
from support.grants import grant, target

PUBLIC4, OTHER4, PUBLIC6 = "9.9.9.9", "8.8.4.4", "2606:4700::1111"


def answers(*texts: str, expires: float = 100.0) -> Answers:
    return Answers(tuple(map(ip_address, texts)), expires)


def allow(made: Grant, authority: str, *, public_only: bool = False) -> Allowed:
    verdict = judge_target(target(authority), made, method="CONNECT", public_only=public_only, now=0.0)
    assert isinstance(verdict, Allowed), verdict
    return verdict


def pinned(
    made: Grant, *texts: str, authority: str = "a.test:443", public_only: bool = False
) -> PinnedTarget | Refusal:
    return pin(allow(made, authority, public_only=public_only), answers(*texts), made, now=50.0, unix_now=0.0)


def places(result: PinnedTarget | Refusal) -> list[str]:
    assert isinstance(result, PinnedTarget), result
    return [place.sockaddr[0] for place in result.places]


def test_a_public_answer_is_pinned_with_its_port_until_it_expires() -> None:
    result = pinned(grant("a.test"), PUBLIC4)
    assert isinstance(result, PinnedTarget)
    assert [place.sockaddr for place in result.places] == [(PUBLIC4, 443)]
    assert result.expires == 100.0


@pytest.mark.case("A6", "A7", "A9", "A10", "A12", "A13", "A14", "A15", "A16", "A17")
@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "0.0.0.0",
        "169.254.169.254",
        "224.0.0.1",
        "255.255.255.255",
        "192.0.2.1",
        "198.18.0.1",
        "45.83.64.1",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:100.100.100.200",
        "::127.0.0.1",
        "64:ff9b:1::a00:1",
        "64:ff9b::a00:1",
        "2002:7f00:1::",
        "::ffff:0:127.0.0.1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "4000::1",
        "2001:db8::1",
        "3fff::1",
    ],
)
def test_no_rule_lets_a_name_have_an_address_of_the_floor(address: str) -> None:
    made = grant(f"a.test\n{'*'}\n", private=("0.0.0.0/0", "::/0"))
    result = pinned(made, address)
    assert isinstance(result, Refusal)
    assert (result.reason, result.stage) == (Reason.RESOLVED_ADDRESS_DENIED, Stage.PIN)


@pytest.mark.requirement("OZ-28", "NX-15")
def test_a_name_reaches_a_private_address_only_by_an_exact_rule_of_the_tenant_in_an_opened_network() -> None:
    opened = ("10.20.0.0/16",)
    assert places(pinned(grant("a.test", private=opened), "10.20.0.7")) == ["10.20.0.7"]
    for refused in (
        pinned(grant("a.test"), "10.20.0.7"),
        pinned(grant("a.test", private=opened), "10.21.0.7"),
        pinned(grant("*.a.test", private=opened), "10.20.0.7", authority="x.a.test:443"),
        pinned(grant(".a.test", private=opened), "10.20.0.7"),
        pinned(grant("", "a.test", private=opened), "10.20.0.7"),
        pinned(grant("a.test", private=opened), "10.20.0.7", public_only=True),
        pinned(grant("a.test", private=opened, public_only=True), "10.20.0.7"),
    ):
        assert isinstance(refused, Refusal)
        assert refused.reason is Reason.RESOLVED_ADDRESS_DENIED


def test_an_endpoints_name_may_be_private_without_an_opened_network() -> None:
    assert places(pinned(grant(endpoints=("a.test:443",)), "10.0.0.1")) == ["10.0.0.1"]


@pytest.mark.parametrize("address", ["100.64.0.1", "172.16.0.1", "192.168.0.1", "fd00::1"])
def test_every_private_range_is_private(address: str) -> None:
    assert isinstance(pinned(grant("a.test"), address), Refusal)
    assert places(pinned(grant("a.test", private=(f"{address}/128" if ":" in address else f"{address}/32",)), address))


def test_a_mixed_answer_is_refused_as_a_whole_and_seen_as_mixed() -> None:
    made = grant("a.test")
    mixed, private = answers(PUBLIC4, "10.0.0.1"), answers("10.0.0.1")
    assert isinstance(pin(allow(made, "a.test:443"), mixed, made, now=0.0, unix_now=0.0), Refusal)
    assert is_mixed(allow(made, "a.test:443"), mixed, made, unix_now=0.0)
    assert not is_mixed(allow(made, "a.test:443"), private, made, unix_now=0.0)


def test_a_denied_network_refuses_names_that_resolve_into_it() -> None:
    made = grant("*\n! 9.9.9.0/24")
    result = pinned(made, PUBLIC4)
    assert isinstance(result, Refusal)
    assert result.reason is Reason.RESOLVED_ADDRESS_DENIED
    assert places(pinned(made, OTHER4)) == [OTHER4]


def test_an_answer_without_addresses_does_not_resolve() -> None:
    result = pinned(grant("a.test"))
    assert isinstance(result, Refusal)
    assert result.reason is Reason.RESOLVE_FAILED


def test_families_are_interleaved_ipv6_first_and_no_address_comes_twice() -> None:
    order = dial_order(
        map(ip_address, ["1.1.1.1", "1.1.1.2", "1.1.1.3", "2606::1", "2606::2", "1.1.1.1", "::ffff:1.1.1.2"])
    )
    assert [str(address) for address in order] == ["2606::1", "1.1.1.1", "2606::2", "1.1.1.2", "1.1.1.3"]


def test_a_literal_is_pinned_to_itself_folded() -> None:
    made = grant("9.9.9.9")
    result = pin(allow(made, "[::ffff:9.9.9.9]:443"), None, made, now=0.0, unix_now=0.0)
    assert places(result) == ["9.9.9.9"]


def test_the_last_look_asks_the_policy_of_that_moment() -> None:
    before, after = grant("a.test"), grant("a.test\n! 9.9.9.0/24")
    where = target("a.test:443")
    assert still_allowed(ip_address(PUBLIC4), where, allow(before, "a.test:443"), before, unix_now=0.0)
    assert not still_allowed(ip_address(PUBLIC4), where, allow(after, "a.test:443"), after, unix_now=0.0)
    literal = grant("9.9.9.9")
    assert still_allowed(
        ip_address(PUBLIC4), target("9.9.9.9:443"), allow(literal, "9.9.9.9:443"), literal, unix_now=0.0
    )
    assert not still_allowed(
        ip_address(OTHER4), target("9.9.9.9:443"), allow(literal, "9.9.9.9:443"), literal, unix_now=0.0
    )


def test_a_name_never_leads_to_the_daemons_own_listener() -> None:
    made = grant("a.test:*", unsafe_reach=("127.0.0.0/8",), listeners=("127.0.0.1:3128",))
    assert isinstance(pinned(made, "127.0.0.1", authority="a.test:3128"), Refusal)
    assert places(pinned(made, "127.0.0.1", authority="a.test:3129")) == ["127.0.0.1"]


@pytest.mark.case("H7")
def test_report_mode_never_opens_a_private_address_to_a_name() -> None:
    made = grant("", private=("10.0.0.0/8",), mode="report")
    assert isinstance(pinned(made, "10.0.0.1"), Refusal)
    assert places(pinned(made, PUBLIC4)) == [PUBLIC4]


def test_a_deny_holds_for_names_that_resolve_through_the_operators_nat64() -> None:
    made = grant("*\n! 8.8.8.0/24", nat64="64:ff9b::/96")
    assert isinstance(pinned(made, "64:ff9b::808:808"), Refusal)
    assert places(pinned(made, "64:ff9b::909:909")) == ["64:ff9b::909:909"]


@pytest.mark.case("F24")
def test_a_mapped_address_leads_to_the_daemons_own_listener_as_little_as_the_plain_one() -> None:
    made = grant("a.test:*", unsafe_reach=("127.0.0.0/8",), listeners=("127.0.0.1:3128",))
    assert isinstance(pinned(made, "::ffff:127.0.0.1", authority="a.test:3128"), Refusal)
