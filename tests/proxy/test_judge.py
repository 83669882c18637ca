"""The judgement before any look-up: the order of the steps, and who may reach what."""

from __future__ import annotations

from typing import Any

import pytest

from egress_policy.reasons import Reason, Refusal, Stage
from egressd.http_head import HeadReader, RequestHead
from egressd.judge import Allowed, Asked, GrantAsked, judge_target, read_request
from support.grants import grant, target

NO_NAMES: frozenset[bytes] = frozenset()


def head(text: str) -> RequestHead:
    parsed = HeadReader().feed(text.replace("\n", "\r\n").encode() + b"\r\n\r\n")
    assert isinstance(parsed, RequestHead), parsed
    return parsed


def asked(text: str) -> Asked | GrantAsked | Refusal:
    return read_request(head(text), NO_NAMES)


def reason(authority: str, *, method: str = "CONNECT", public_only: bool = False, **kwargs: object) -> str:
    """The reason of the refusal, or `allowed`."""
    made = grant(**kwargs)  # type: ignore[arg-type]
    verdict = judge_target(target(authority), made, method=method, public_only=public_only, now=0.0)
    return "allowed" if isinstance(verdict, Allowed) else verdict.reason.value


# What a head asks for


def test_a_connect_is_read_from_its_target_alone() -> None:
    read = asked("CONNECT docs.python.org:443 HTTP/1.1\nHost: docs.python.org:443")
    assert isinstance(read, Asked)
    assert (read.target.authority, read.path, read.public_only) == ("docs.python.org:443", None, False)


def test_a_plain_request_gives_its_origin_form() -> None:
    read = asked("GET http://a.test/x?y=1 HTTP/1.1\nHost: a.test")
    assert isinstance(read, Asked)
    assert (read.target.authority, read.path) == ("a.test:80", b"/x?y=1")


@pytest.mark.case("E5")
@pytest.mark.parametrize(
    ("host", "refused"),
    [
        ("a.test:443", False),
        ("a.test", False),
        ("A.TEST.:443", False),
        ("a.test:80", True),
        ("b.test", True),
        ("a.test:443, b.test", True),
        ("", True),
        ("proxy.internal:3128", False),
        ("Proxy.Internal:3128", False),
    ],
)
def test_host_is_compared_with_the_target_and_never_chooses_it(host: str, refused: bool) -> None:
    read = read_request(head(f"CONNECT a.test:443 HTTP/1.1\nHost: {host}"), frozenset({b"proxy.internal:3128"}))
    if refused:
        assert isinstance(read, Refusal)
        assert read.reason is Reason.AUTHORITY_MISMATCH
    else:
        assert isinstance(read, Asked)
        assert read.target.authority == "a.test:443"


@pytest.mark.case("E9", "E11")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CONNECT a.test:443 HTTP/1.1", Reason.MISSING_HOST),
        ("CONNECT a.test:443 HTTP/1.1\nHost: a.test\nHost: a.test", Reason.DUPLICATE_HOST),
        ("CONNECT a.test:443 HTTP/1.0\nHost: a.test\nHost: a.test", Reason.DUPLICATE_HOST),
        ("CONNECT a.test:443 HTTP/1.1\nHost: a.test\nTransfer-Encoding: chunked", Reason.AMBIGUOUS_FRAMING),
        ("CONNECT a.test HTTP/1.1\nHost: a.test", Reason.MALFORMED_PORT),
        ("connect a.test:443 HTTP/1.1\nHost: a.test", Reason.UNSUPPORTED_SCHEME),
        ("GET / HTTP/1.1\nHost: a.test", Reason.NOT_A_PROXY_REQUEST),
        ("OPTIONS * HTTP/1.1\nHost: a.test", Reason.NOT_A_PROXY_REQUEST),
        ("POST /.well-known/egress HTTP/1.1\nHost: a.test", Reason.NOT_A_PROXY_REQUEST),
    ],
)
def test_what_is_no_proxy_request_is_refused_with_its_reason(text: str, expected: Reason) -> None:
    read = asked(text)
    assert isinstance(read, Refusal)
    assert (read.reason, read.stage) == (expected, Stage.PARSE)


def test_http_1_0_needs_no_host() -> None:
    assert isinstance(asked("CONNECT a.test:443 HTTP/1.0"), Asked)


@pytest.mark.case("D15", "D16")
@pytest.mark.parametrize("url", ["https://a.test/", "ftp://a.test/", "gopher://a.test:70/", "file:///etc/passwd"])
def test_only_http_is_forwarded(url: str) -> None:
    read = asked(f"GET {url} HTTP/1.1\nHost: a.test")
    assert isinstance(read, Refusal)
    assert read.reason is Reason.UNSUPPORTED_SCHEME


@pytest.mark.requirement("OZ-39")
@pytest.mark.parametrize(
    ("fields", "on"),
    [
        ("", False),
        ("\nOz0-Egress-Public-Only: 1", True),
        ("\noz0-egress-public-only: ?1", True),
        ("\nOz0-Egress-Public-Only: 0", False),
        ("\nOz0-Egress-Public-Only: false", False),
        ("\nOz0-Egress-Public-Only: 0\nOz0-Egress-Public-Only: 0", True),
        ("\nOz0-Egress-Public-Only: maybe", True),
        ("\nOz0-Egress-Public-Only:", True),
    ],
)
def test_public_only_is_read_strictly(fields: str, on: bool) -> None:
    read = asked(f"CONNECT a.test:443 HTTP/1.1\nHost: a.test:443{fields}")
    assert isinstance(read, Asked)
    assert read.public_only is on


def test_a_job_may_ask_for_its_grant() -> None:
    assert isinstance(asked("GET /.well-known/egress HTTP/1.1\nHost: x"), GrantAsked)


# The order of judgement


def test_a_grant_that_is_unavailable_refuses_everything_before_anything_else() -> None:
    assert reason("a.test:443", tenant_rules="a.test", unavailable="a broken list") == "policy-unavailable"
    assert reason("169.254.169.254:80", tenant_rules="*", unavailable="a broken list") == "policy-unavailable"


def test_the_floor_comes_before_every_rule() -> None:
    assert reason("localhost:80", tenant_rules="localhost:80\n! localhost") == "forbidden-name"
    assert reason("169.254.169.254:80", tenant_rules="! 169.254.169.254") == "forbidden-address"
    assert reason("45.83.64.1:443", tenant_rules="45.83.64.1:443") == "forbidden-address", "the node's own address"


def test_a_deny_beats_every_allow_and_comes_before_the_port() -> None:
    rules = "*.a.test\nbad.a.test\n! bad.a.test"
    assert reason("bad.a.test:443", tenant_rules=rules) == "denied-by-rule"
    assert reason("bad.a.test:22", tenant_rules=rules) == "denied-by-rule"
    assert reason("good.a.test:443", tenant_rules=rules) == "allowed"
    assert reason("good.a.test:22", tenant_rules=rules) == "port-not-allowed"


def test_a_plugins_deny_holds_against_the_tenants_allow() -> None:
    assert reason("a.test:443", tenant_rules="a.test", plugin_rules="! a.test") == "denied-by-rule"


@pytest.mark.requirement("OZ-25")
def test_the_grant_is_the_union_of_both_lists() -> None:
    assert reason("t.test:443", tenant_rules="t.test", plugin_rules="p.test") == "allowed"
    assert reason("p.test:443", tenant_rules="t.test", plugin_rules="p.test") == "allowed"
    assert reason("x.test:443", tenant_rules="t.test", plugin_rules="p.test") == "not-on-allowlist"


@pytest.mark.requirement("OZ-26")
def test_an_empty_list_allows_nothing() -> None:
    assert reason("a.test:443") == "not-on-allowlist"
    assert reason("9.9.9.9:443") == "ip-not-on-allowlist"


def test_a_method_limit_holds_for_plain_requests_and_closes_port_80_to_connect() -> None:
    rules = 'methods = ["GET", "HEAD"]\na.test'
    assert reason("a.test:80", method="GET", tenant_rules=rules) == "allowed"
    assert reason("a.test:80", method="POST", tenant_rules=rules) == "method-not-allowed"
    assert reason("a.test:443", method="CONNECT", tenant_rules=rules) == "allowed"
    assert reason("a.test:80", method="CONNECT", tenant_rules=rules) == "method-not-allowed"


# Names that need more than a wildcard


@pytest.mark.case("B11")
@pytest.mark.parametrize(
    "name", ["intranet", "db.corp.internal", "printer.floor.local", "api.default.svc", "nas.home.arpa"]
)
def test_names_of_the_inside_need_the_tenants_exact_rule_or_an_endpoint(name: str) -> None:
    authority = f"{name}:443"
    parent = name.partition(".")[2]
    assert reason(authority, tenant_rules="*") == "not-on-allowlist"
    assert reason(authority, tenant_rules=f"*.{parent}" if "." in parent else "*") == "not-on-allowlist"
    assert reason(authority, plugin_rules=name) == "not-on-allowlist"
    assert reason(authority, tenant_rules=name) == "allowed"
    assert reason(authority, endpoints=(authority,)) == "allowed"
    assert reason(authority, tenant_rules=name, public_only=True) == "forbidden-name"
    assert reason(authority, endpoints=(authority,), public_only=True) == "not-on-allowlist"


# Literals


@pytest.mark.case("D13")
def test_a_literal_needs_a_rule_for_addresses() -> None:
    assert reason("9.9.9.9:443", tenant_rules="*") == "ip-not-on-allowlist"
    assert reason("9.9.9.9:443", tenant_rules="9.9.9.9") == "allowed"
    assert reason("9.9.9.9:443", tenant_rules="9.9.9.0/24") == "allowed"
    assert reason("9.9.9.9:8443", tenant_rules="9.9.9.9") == "port-not-allowed"
    assert reason("[::ffff:9.9.9.9]:443", tenant_rules="9.9.9.9") == "allowed"


@pytest.mark.requirement("OZ-29")
def test_a_private_literal_is_reached_by_the_tenants_very_address_even_under_public_only() -> None:
    assert reason("10.0.0.7:8080", tenant_rules="10.0.0.7:8080") == "allowed"
    assert reason("10.0.0.7:8080", tenant_rules="10.0.0.7:8080", public_only=True) == "allowed"
    assert reason("10.0.0.8:8080", tenant_rules="10.0.0.7:8080") == "ip-not-on-allowlist"
    assert reason("10.0.0.7:8080", plugin_rules="10.0.0.7:8080") == "forbidden-address"


def test_a_network_rule_reaches_private_literals_only_inside_the_tenants_networks() -> None:
    rules = "10.0.0.0/16:8080"
    assert reason("10.0.0.7:8080", tenant_rules=rules) == "forbidden-address"
    assert reason("10.0.0.7:8080", tenant_rules=rules, private=("10.0.0.0/24",)) == "allowed"
    assert reason("10.0.1.7:8080", tenant_rules=rules, private=("10.0.0.0/24",)) == "forbidden-address"
    assert (
        reason("10.0.0.7:8080", tenant_rules=rules, private=("10.0.0.0/24",), public_only=True) == "forbidden-address"
    )
    assert reason("10.0.0.7:8080", plugin_rules=rules, private=("10.0.0.0/24",)) == "forbidden-address"


def test_an_endpoint_reaches_its_private_address_but_never_under_public_only() -> None:
    assert reason("10.0.0.9:8888", endpoints=("10.0.0.9:8888",)) == "allowed"
    assert reason("10.0.0.9:8888", endpoints=("10.0.0.9:8888",), public_only=True) == "ip-not-on-allowlist"
    assert reason("10.0.0.9:8889", endpoints=("10.0.0.9:8888",)) == "port-not-allowed"


def test_a_grant_that_is_public_only_holds_whatever_the_request_says() -> None:
    assert reason("10.0.0.9:8888", endpoints=("10.0.0.9:8888",), public_only=False) == "allowed"
    made = grant(endpoints=("10.0.0.9:8888",), public_only=True)
    verdict = judge_target(target("10.0.0.9:8888"), made, method="CONNECT", public_only=False, now=0.0)
    assert isinstance(verdict, Refusal)


# What `unsafe_reach` lifts, and what it never does


def test_unsafe_reach_makes_exactly_its_networks_public_and_still_needs_a_rule() -> None:
    reach: dict[str, Any] = {"unsafe_reach": ("127.0.0.5/32",)}
    assert reason("127.0.0.5:80", tenant_rules="127.0.0.5", **reach) == "allowed"
    assert reason("127.0.0.5:80", tenant_rules="", **reach) == "ip-not-on-allowlist"
    assert reason("127.0.0.6:80", tenant_rules="127.0.0.6", **reach) == "forbidden-address"
    assert reason("localhost:80", tenant_rules="localhost", **reach) == "allowed"
    assert reason("localhost:80", tenant_rules="", **reach) == "not-on-allowlist"


def test_unsafe_reach_never_lifts_metadata_protected_networks_or_the_daemons_listeners() -> None:
    everything: dict[str, Any] = {"unsafe_reach": ("0.0.0.0/1", "128.0.0.0/1"), "protected": ("172.20.0.0/16",)}
    rules = "169.254.169.254\n172.20.0.1\n127.0.0.1:*\nmetadata.google.internal"
    assert reason("169.254.169.254:80", tenant_rules=rules, **everything) == "forbidden-address"
    assert reason("172.20.0.1:80", tenant_rules=rules, **everything) == "forbidden-address"
    assert reason("metadata.google.internal:80", tenant_rules=rules, **everything) == "forbidden-name"
    listening = {**everything, "listeners": ("127.0.0.1:3128", "0.0.0.0:3129")}
    assert reason("127.0.0.1:3128", tenant_rules=rules, **listening) == "forbidden-address"
    assert reason("127.0.0.1:3129", tenant_rules=rules, **listening) == "forbidden-address"
    assert reason("127.0.0.1:3130", tenant_rules=rules, **listening) == "allowed"


def test_a_time_limited_rule_ends() -> None:
    made = grant("a.test until=2026-01-01T00:00:00Z")
    before, after = 1_767_225_599.0, 1_767_225_601.0
    assert isinstance(
        judge_target(target("a.test:443"), made, method="CONNECT", public_only=False, now=before), Allowed
    )
    assert isinstance(judge_target(target("a.test:443"), made, method="CONNECT", public_only=False, now=after), Refusal)


# Report mode


@pytest.mark.case("H7")
def test_report_mode_lets_through_only_what_no_rule_allows_and_says_what_it_would_have_been() -> None:
    rules = 'methods = ["GET"]\na.test\n! bad.test\n! 9.9.9.0/24'
    made = grant(rules, mode="report")
    for authority, method, expected in (
        ("a.test:80", "GET", None),
        ("b.test:443", "CONNECT", Reason.NOT_ON_ALLOWLIST),
        ("a.test:22", "CONNECT", Reason.PORT_NOT_ALLOWED),
        ("a.test:80", "POST", Reason.METHOD_NOT_ALLOWED),
        ("8.8.8.8:53", "CONNECT", Reason.IP_NOT_ON_ALLOWLIST),
    ):
        verdict = judge_target(target(authority), made, method=method, public_only=False, now=0.0)
        assert isinstance(verdict, Allowed), authority
        assert verdict.reported is expected, authority
    for authority in ("bad.test:443", "9.9.9.9:443", "10.0.0.7:80", "169.254.169.254:80", "localhost:80"):
        verdict = judge_target(target(authority), made, method="CONNECT", public_only=False, now=0.0)
        assert isinstance(verdict, Refusal), authority


@pytest.mark.case("H7")
def test_a_grant_in_report_mode_is_not_told_to_jobs_because_it_does_not_say_what_passes() -> None:
    assert grant("a.test", mode="report").document is None
    assert grant("a.test").document is not None


# Denies and copies that another spelling must not pass


def test_a_deny_of_an_ipv4_network_holds_through_the_operators_nat64() -> None:
    carried, prefix = "[64:ff9b::808:808]:443", "64:ff9b::/96"
    assert reason(carried, tenant_rules=prefix, nat64=prefix) == "allowed"
    assert reason(carried, tenant_rules=f"{prefix}\n! 8.8.8.0/24", nat64=prefix) == "denied-by-rule"


@pytest.mark.case("E5")
@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("CONNECT aaaaaa.example:443 HTTP/1.1\nHost: example:443", True),
        ("GET http://a.test/ HTTP/1.1\nHost: http://a.test/", True),
        ("GET http://a.test/ HTTP/1.1\nHost: a.test", False),
        ("GET http://a.test.b/ HTTP/1.1\nHost: a.test", True),
    ],
)
def test_only_the_authority_itself_is_a_copy_of_it(text: str, refused: bool) -> None:
    assert isinstance(asked(text), Refusal) is refused
