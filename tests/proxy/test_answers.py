"""What one response means, and what two families make together."""

from __future__ import annotations

from ipaddress import ip_address
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egressd.answers import (
    CLASS_IN,
    TYPE_A,
    TYPE_AAAA,
    TYPE_CNAME,
    Answers,
    Failure,
    Found,
    Record,
    ResolveFault,
    bounded_ttl,
    combine,
    read_family,
)
from egressd.limits import DNS_ANSWER_MAX_ADDRESSES, DNS_CHAIN_MAX_HOPS

NAME = "site.test"
NOW = 1000.0
TYPE_TXT = 16
FOUR = Found((ip_address("192.0.2.1"),), 60)
SIX = Found((ip_address("2001:db8::1"),), 90)


def a(data: str, owner: str = NAME, ttl: int = 60) -> Record:
    return Record(owner, TYPE_A, CLASS_IN, ttl, data)


def alias(owner: str, target: str, ttl: int = 60) -> Record:
    return Record(owner, TYPE_CNAME, CLASS_IN, ttl, target)


def test_addresses_come_in_the_order_of_the_response_and_none_twice() -> None:
    found = read_family(NAME, TYPE_A, [a("192.0.2.2"), a("192.0.2.1"), a("192.0.2.2")])

    assert found == Found((ip_address("192.0.2.2"), ip_address("192.0.2.1")), 60)


def test_ipv6_addresses_are_read_as_such() -> None:
    record = Record(NAME, TYPE_AAAA, CLASS_IN, 60, "2001:db8::1")

    assert read_family(NAME, TYPE_AAAA, [record]) == Found((ip_address("2001:db8::1"),), 60)


def test_owners_are_compared_without_case_and_final_dot() -> None:
    assert read_family(NAME, TYPE_A, [a("192.0.2.1", "SITE.Test.")]) == FOUR


def test_the_smallest_ttl_on_the_way_counts() -> None:
    rows = [alias(NAME, "Cdn.test.", 30), alias("cdn.test", "edge.test", 20), a("192.0.2.1", "edge.test", 40)]

    assert read_family(NAME, TYPE_A, rows) == Found((ip_address("192.0.2.1"),), 20)


def test_the_order_of_records_does_not_matter() -> None:
    rows = [a("192.0.2.1", "edge.test"), alias("cdn.test", "edge.test"), alias(NAME, "cdn.test")]

    assert read_family(NAME, TYPE_A, rows) == FOUR


def test_an_alias_to_nowhere_is_no_data() -> None:
    assert read_family(NAME, TYPE_A, [alias(NAME, "cdn.test")]) is Failure.NO_DATA


def test_an_empty_response_is_no_data() -> None:
    assert read_family(NAME, TYPE_A, []) is Failure.NO_DATA


def test_records_of_somebody_else_are_passed_over_beside_right_ones() -> None:
    assert read_family(NAME, TYPE_A, [a("127.0.0.1", "stranger.test"), a("192.0.2.1")]) == FOUR


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([a("192.0.2.1", "stranger.test")], id="another name's address"),
        pytest.param([a("192.0.2.1", "a.site.test")], id="an address of a name below"),
        pytest.param([alias("stranger.test", "cdn.test")], id="another name's alias"),
        pytest.param([Record(NAME, TYPE_TXT, CLASS_IN, 60, "")], id="another type"),
        pytest.param([Record(NAME, TYPE_A, 3, 60, "192.0.2.1")], id="another class"),
        pytest.param([alias(NAME, NAME)], id="an alias of itself"),
        pytest.param([alias(NAME, "b.test"), alias("b.test", NAME)], id="a loop of aliases"),
        pytest.param(
            [alias(NAME, "b.test"), alias(NAME, "c.test"), a("192.0.2.1", "b.test")], id="two canonical names"
        ),
        pytest.param([alias(NAME, "b.test"), a("192.0.2.1")], id="an alias that has an address of its own"),
        pytest.param([a("not an address")], id="no address"),
        pytest.param([a("2001:db8::1")], id="an address of the other family"),
        pytest.param([a(f"192.0.{i // 250}.{i % 250}") for i in range(DNS_ANSWER_MAX_ADDRESSES + 1)], id="too many"),
    ],
)
def test_an_odd_response_is_a_failure(rows: list[Record]) -> None:
    assert read_family(NAME, TYPE_A, rows) is Failure.ODD


@pytest.mark.case("C7")
def test_as_many_addresses_as_are_allowed_are_all_kept() -> None:
    rows = [a(f"192.0.{i // 250}.{i % 250}") for i in range(DNS_ANSWER_MAX_ADDRESSES)]

    found = read_family(NAME, TYPE_A, rows)

    assert isinstance(found, Found)
    assert len(found.addresses) == DNS_ANSWER_MAX_ADDRESSES


@pytest.mark.parametrize(("hops", "is_found"), [(DNS_CHAIN_MAX_HOPS, True), (DNS_CHAIN_MAX_HOPS + 1, False)])
def test_a_chain_of_aliases_is_followed_up_to_a_bound(hops: int, is_found: bool) -> None:
    names = [NAME, *(f"n{i}.test" for i in range(hops))]
    rows = [alias(owner, target) for owner, target in pairwise(names)]

    found = read_family(NAME, TYPE_A, [*rows, a("192.0.2.1", names[-1])])

    assert found == (FOUR if is_found else Failure.ODD)


@given(
    st.lists(
        st.builds(
            Record,
            st.sampled_from([NAME, "b.test", "c.test", "B.TEST."]),
            st.sampled_from([TYPE_A, TYPE_CNAME, TYPE_TXT]),
            st.sampled_from([CLASS_IN, 3]),
            st.integers(0, 2**32 - 1),
            st.sampled_from(["192.0.2.1", "192.0.2.2", NAME, "b.test", "c.test", ""]),
        ),
        max_size=8,
    )
)
def test_any_records_give_addresses_of_the_response_or_a_failure(rows: list[Record]) -> None:
    found = read_family(NAME, TYPE_A, rows)

    if isinstance(found, Found):
        assert found.addresses
        assert {str(address) for address in found.addresses} <= {row.data for row in rows if row.type == TYPE_A}
    else:
        assert isinstance(found, Failure)


def test_both_families_are_put_together_with_the_smaller_ttl() -> None:
    assert combine(FOUR, SIX, now=NOW) == Answers((*FOUR.addresses, *SIX.addresses), NOW + 60)


@pytest.mark.parametrize("failure", list(Failure))
def test_a_family_that_fails_counts_as_none(failure: Failure) -> None:
    assert combine(FOUR, failure, now=NOW) == Answers(FOUR.addresses, NOW + 60)
    assert combine(failure, SIX, now=NOW) == Answers(SIX.addresses, NOW + 90)


@pytest.mark.parametrize(
    ("four", "six", "kind", "seconds"),
    [
        (Failure.NO_NAME, Failure.NO_NAME, "nxdomain", 5),
        (Failure.NO_DATA, Failure.NO_DATA, "nxdomain", 5),
        (Failure.NO_NAME, Failure.TIMEOUT, "nxdomain", 5),
        (Failure.NO_DATA, Failure.TIMEOUT, "timeout", 1),
        (Failure.NO_DATA, Failure.FAILED, "failed", 1),
        (Failure.TIMEOUT, Failure.TIMEOUT, "timeout", 1),
        (Failure.TIMEOUT, Failure.FAILED, "timeout", 1),
        (Failure.FAILED, Failure.FAILED, "failed", 1),
        (Failure.ODD, Failure.NO_DATA, "failed", 1),
        (Failure.ODD, Failure.ODD, "failed", 1),
    ],
)
def test_two_failures_are_a_fault_that_is_shortly_remembered(
    four: Failure, six: Failure, kind: str, seconds: float
) -> None:
    assert combine(four, six, now=NOW) == ResolveFault(kind, NOW + seconds)
    assert combine(six, four, now=NOW) == ResolveFault(kind, NOW + seconds)


def test_too_many_addresses_of_both_families_together_are_a_failure() -> None:
    half = DNS_ANSWER_MAX_ADDRESSES // 2
    four = Found(tuple(ip_address(f"192.0.2.{i}") for i in range(half)), 60)
    six = Found(tuple(ip_address(f"2001:db8::{i:x}") for i in range(half + 1)), 60)

    assert combine(four, six, now=NOW) == ResolveFault("failed", NOW + 1)


@pytest.mark.parametrize(
    ("ttl", "kept"), [(0, 1), (0.5, 1), (1, 1), (2, 2), (299, 299), (300, 300), (301, 300), (86_400, 300), (2**32, 300)]
)
def test_a_ttl_is_kept_within_1_and_300_seconds(ttl: float, kept: float) -> None:
    assert bounded_ttl(ttl) == kept
