"""The shared fields and the grant document, written, read, and read when they are odd."""

from __future__ import annotations

import json

import pytest

from egress_policy.reasons import DETAILS, ERROR, ERRORS, ErrorType, Reason, Refusal, Stage
from egress_policy.rules import ListKind, MatchOutcome
from egress_policy.structured_fields import read_list
from egress_policy.targets import Target, parse_authority
from egress_policy.wire import (
    GRANT_MAX_BYTES,
    PROXY_STATUS,
    PSEUDONYM,
    PUBLIC_ONLY,
    BadGrant,
    GrantDocument,
    GrantList,
    Received,
    asks_public_only,
    read_grant,
    read_proxy_status,
    write_grant,
    write_proxy_status,
)


def test_the_names_on_the_wire() -> None:
    assert (PUBLIC_ONLY, PROXY_STATUS, PSEUDONYM) == ("Oz0-Egress-Public-Only", "Proxy-Status", "egressd")


def test_a_refusal_is_one_member_with_error_reason_and_details() -> None:
    assert write_proxy_status(Refusal(Reason.NOT_ON_ALLOWLIST, Stage.ALLOW)) == (
        'egressd; error=http_request_denied; reason=not-on-allowlist; details="no rule allows this host"'
    )


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_with_each_of_its_types_survives_the_round_trip(reason: Reason) -> None:
    for error in ERRORS[reason]:
        value = write_proxy_status(Refusal(reason, Stage.PARSE, error=error))
        found = read_proxy_status([value])

        assert found == Received(reason, error.value, DETAILS[reason])
        assert isinstance(found, Received)
        assert isinstance(found.reason, Reason)
        members = read_list([value])
        assert members is not None
        assert len(members) == 1
    assert f"error={ERROR[reason]};" in write_proxy_status(Refusal(reason, Stage.PARSE))


def test_target_and_rule_of_a_refusal_never_reach_the_header() -> None:
    target = parse_authority(b"secret.example:443")
    assert isinstance(target, Target)

    value = write_proxy_status(Refusal(Reason.DENIED_BY_RULE, Stage.DENY, target, rule="! secret.example"))

    assert "secret" not in value


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["egressd;error=dns_error;reason=new-reason"], Received("new-reason", "dns_error", None)),
        (["egressd;error=brand_new;reason=busy"], Received(Reason.BUSY, "brand_new", None)),
        (['"egressd";error=dns_error;reason=busy;details="x \\"y\\""'], Received(Reason.BUSY, "dns_error", 'x "y"')),
        (["egressd;reason=idle;error=a;reason=busy"], Received(Reason.BUSY, "a", None)),
        (["cache;hit, egressd;error=a;reason=busy"], Received(Reason.BUSY, "a", None)),
        (["cache;hit", "egressd;error=a;reason=busy", "(a b);c"], Received(Reason.BUSY, "a", None)),
        (["egressd;error=a;reason=busy;details=token"], Received(Reason.BUSY, "a", None)),
        (["egressd;error=a;reason=busy;details=7"], Received(Reason.BUSY, "a", None)),
        (['egressd;error=a;reason=busy;next-hop=:aGk=:;n=1.5;t=@0;d=%"%c3%a9"'], Received(Reason.BUSY, "a", None)),
    ],
)
def test_what_this_side_does_not_know_is_kept_or_passed_over(values: list[str], expected: Received) -> None:
    assert read_proxy_status(values) == expected


@pytest.mark.parametrize(
    "values",
    [
        [],
        [""],
        ["egressd"],
        ["egressd;error=dns_error"],
        ["egressd;reason=busy"],
        ['egressd;error="dns_error";reason=busy'],
        ['egressd;error=dns_error;reason="busy"'],
        ["egressd;error=dns_error;reason=?1"],
        ["EGRESSD;error=a;reason=busy"],
        ["egressd2;error=a;reason=busy"],
        ["other;error=a;reason=busy"],
        ["(egressd);error=a;reason=busy"],
        ["egressd;error=a;reason=busy, egressd;error=a;reason=busy"],
        ["egressd;error=a;reason=busy", "egressd;error=a;reason=idle"],
        ["egressd;error=a;reason=busy,"],
        ["egressd;error=a;reason=busy x"],
        ['egressd;error=a;reason=busy;details="é"'],
        ["egressd; error = a; reason=busy"],
        ["egressd;error=a;reason=busy\n"],
        ["x, " * 10_000 + "egressd;error=a;reason=busy"],
    ],
)
def test_what_is_not_exactly_one_refusal_of_ours_is_none(values: list[str]) -> None:
    assert read_proxy_status(values) is None


@pytest.mark.parametrize("values", [[], ["0"], ["?0"], ["false"], ["FALSE"], ["False"], [" 0\t"]])
def test_a_request_is_not_public_only_without_the_field_or_with_a_plain_no(values: list[str]) -> None:
    assert not asks_public_only(values)


@pytest.mark.parametrize(
    "values",
    [
        *(
            ["1"],
            ["?1"],
            ["true"],
            [""],
            ["yes"],
            ["no"],
            ["off"],
            ["0 0"],
            ["00"],
            ["-0"],
            ["?0;a"],
            ["0,0"],
            ["\u00a00"],
        ),
        *(["0", "0"], ["0", "1"], ["false", "?0"], ["٠"], ["０"], ["ｆalse"], ["faL\u017fe"], ["x" * 100_000]),
    ],
)
def test_every_doubt_means_public_only(values: list[str]) -> None:
    assert asks_public_only(values)


# ---------------------------------------------------------------------------------------------- the grant document

DOCUMENT = GrantDocument(
    job="job-7",
    tenant="default",
    plugin="oz0-web",
    version=42,
    lists=(
        GrantList(
            ListKind.TENANT,
            "tenant",
            ("docs.python.org", "! bad.example", "*.wikipedia.org until=2026-12-01T10:00:00Z"),
        ),
        GrantList(ListKind.PLUGIN, "plugin", ("api.search.brave.com:443", "bücher.de"), ("GET", "HEAD"), "count"),
    ),
    endpoints=("searx.internal:8080",),
    limits={"connections": 512, "names_per_hour": 100.5},
    command="egressctl tenant default allow {host}",
    public_only=False,
)


def target(text: str) -> Target:
    found = parse_authority(text.encode())
    assert isinstance(found, Target)
    return found


def test_a_grant_survives_the_round_trip() -> None:
    raw = write_grant(DOCUMENT)

    assert raw.isascii()
    assert read_grant(raw) == DOCUMENT
    bare = GrantDocument(None, "t", None, 0, (), ())
    assert read_grant(write_grant(bare)) == bare


def test_the_rules_of_a_grant_match_as_the_proxys_do() -> None:
    found = read_grant(write_grant(DOCUMENT))
    assert isinstance(found, GrantDocument)
    rules = found.rule_set()

    assert rules.match(target("docs.python.org:443"), now=0).outcome is MatchOutcome.ALLOWED
    assert rules.match(target("bad.example:443"), now=0).outcome is MatchOutcome.DENIED
    assert rules.match(target("en.wikipedia.org:443"), now=1e10).outcome is MatchOutcome.NONE
    assert not rules.method_allowed("POST", target("xn--bcher-kva.de:80"))
    assert rules.match(target("xn--bcher-kva.de:443"), now=0).sni == "count"


def test_endpoints_are_left_out_unless_asked_for() -> None:
    searx = target("searx.internal:8080")

    assert DOCUMENT.rule_set().match(searx, now=0).outcome is MatchOutcome.NONE
    assert DOCUMENT.rule_set(with_endpoints=True).match(searx, now=0).kind is ListKind.ENDPOINT


def test_a_document_with_a_rule_that_is_none_makes_no_rules() -> None:
    broken = GrantDocument(None, "t", None, 0, (GrantList(ListKind.TENANT, "tenant", ("a*.b",)),), ())

    with pytest.raises(ValueError, match="star"):
        broken.rule_set()


def changed(**keys: object) -> bytes:
    return json.dumps({**json.loads(write_grant(DOCUMENT)), **keys}).encode()


def test_what_a_newer_proxy_says_beside_it_is_passed_over() -> None:
    assert read_grant(changed(brand_new={"a": [1]})) == DOCUMENT
    assert read_grant(changed(limits={"connections": 512, "names_per_hour": 100.5, "x": "y"})) == DOCUMENT


LIST = {"kind": "tenant", "source": "tenant", "rules": ["a.example"]}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"x"',
        b"\xff\xfe{}",
        b"{}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"1" * 10_000,
        changed(tenant=None),
        changed(tenant=7),
        changed(job=7),
        changed(plugin=["x"]),
        changed(version="1"),
        changed(version=True),
        changed(version=1.5),
        changed(command=None),
        changed(lists=None),
        changed(lists={}),
        changed(lists=["x"]),
        changed(lists=[{**LIST, "kind": "other"}]),
        changed(lists=[{**LIST, "kind": ["tenant"]}]),
        changed(lists=[{**LIST, "rules": "a.example"}]),
        changed(lists=[{**LIST, "rules": [7]}]),
        changed(lists=[{**LIST, "rules": ["a*.b"]}]),
        changed(lists=[{**LIST, "rules": ["! a*.b", "c.example"]}]),
        changed(lists=[{**LIST, "methods": "GET"}]),
        changed(lists=[{**LIST, "sni": "maybe"}]),
        changed(lists=[{**LIST, "sni": ["off"]}]),
        changed(endpoints="x:1"),
        changed(endpoints=["*.internal:80"]),
        changed(endpoints=["searx.internal"]),
        changed(limits=[]),
        b" " * (GRANT_MAX_BYTES + 1),
    ],
)
def test_a_document_that_is_odd_anywhere_is_none(raw: bytes) -> None:
    found = read_grant(raw)

    assert isinstance(found, BadGrant)
    assert found.detail
    assert len(found.detail) <= 120


@pytest.mark.parametrize("value", [True, 1, "false", None, [], 0])
def test_a_grant_that_is_odd_about_public_only_is_public_only(value: object) -> None:
    found = read_grant(changed(public_only=value))

    assert isinstance(found, GrantDocument)
    assert found.public_only


def test_error_types_are_as_the_table_of_reasons_has_them() -> None:
    assert "error=connection_refused;" in write_proxy_status(
        Refusal(Reason.DIAL_FAILED, Stage.DIAL, error=ErrorType.CONNECTION_REFUSED)
    )
