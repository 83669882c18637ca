"""What is checked of a URL before it is asked for: on its text, its host and the grant."""

from __future__ import annotations

import pytest

from egress_policy.rules import ListKind, Rule, RuleList, RuleSet, parse_rule
from egress_policy.targets import Url
from oz0_web.hops import check_fixed, check_host, check_rules, check_step, read_url
from oz0_web.limits import URL_MAX_CHARACTERS
from oz0_web.stops import By, Code, Stop


def url_of(text: str) -> Url:
    url = read_url(text)
    assert isinstance(url, Url), url
    return url


def rules(*texts: str, kind: ListKind = ListKind.TENANT) -> RuleSet:
    parsed = [parse_rule(text) for text in texts]
    assert all(isinstance(rule, Rule) for rule in parsed), parsed
    return RuleSet([RuleList(kind=kind, source="list", rules=tuple(rule for rule in parsed if isinstance(rule, Rule)))])


def judge(text: str, rule_set: RuleSet | None, *, listed_literals: bool = True) -> tuple[Code, By, str | None] | None:
    """The checks in their order; code, who, and reason of the first stop."""
    url = url_of(text)
    stop = check_fixed(url, listed_literals=listed_literals) or check_host(url, rule_set, now=0)
    if stop is None and rule_set is not None:
        stop = check_rules(url, rule_set, now=0)
    return (stop.code, stop.by, stop.reason) if stop is not None else None


@pytest.mark.case("P6")
@pytest.mark.parametrize(
    "text",
    [
        *("", "example.org", "//example.org/", "https://", "https:///x", "https://a b/", "https://user@example.org/"),
        *(
            "https://good:pw@127.0.0.1/",
            "http://2130706433/",
            "http://0177.0.0.1/",
            "http://0x7f.0.0.1/",
            "http://127.1/",
        ),
        *(
            "http://１２７.0.0.1/",
            "http://127.0.0.1%2f@example.org/",
            "http://example.org:0/",
            "http://example.org:65536/",
        ),
        *(
            "http://example.org\\@127.0.0.1/",
            "http://[fe80::1%25eth0]/",
            "http://exa\tmple.org/",
            "http://" + "a" * 64 + ".org/",
        ),
        "https://example.org/" + "x" * URL_MAX_CHARACTERS,
    ],
)
def test_what_two_parsers_might_read_in_two_ways_is_no_url(text: str) -> None:
    stop = read_url(text)

    assert not isinstance(stop, Url) or stop.host.__class__.__name__ == "IPv4Address", stop
    if isinstance(stop, Stop):
        assert (stop.code, stop.by) == (Code.BAD_URL, By.CLIENT)
        assert "pw" not in stop.url
        assert len(stop.url) <= 220


@pytest.mark.parametrize(
    "text",
    [
        *("https://me:pw@e.example/", "me:pw@e.example", "//me:pw@e.example/", "https:me:pw@e.example"),
        "http://me:pw\\@e.example",
    ],
)
def test_user_info_is_never_shown(text: str) -> None:
    stop = read_url(text)

    assert isinstance(stop, Stop)
    assert "pw" not in stop.url
    assert stop.url.endswith(("@e.example", "@e.example/"))


@pytest.mark.parametrize(
    "text", ["ftp://example.org/", "file:///etc/passwd", "javascript:x", "ws://example.org/", "data:,x"]
)
def test_other_schemes_are_refused_as_that(text: str) -> None:
    stop = read_url(text)

    assert isinstance(stop, Stop)
    assert stop.code is Code.SCHEME_REFUSED


def test_a_step_from_https_to_http_is_refused_and_no_other() -> None:
    https, http = url_of("https://a.example/"), url_of("http://a.example/")

    stop = check_step(https, http)
    assert stop is not None
    assert stop.code is Code.DOWNGRADE_REFUSED
    assert [check_step(None, http), check_step(http, http), check_step(http, https), check_step(https, https)] == [
        None
    ] * 4


METADATA = [
    *(
        "http://169.254.169.254/",
        "http://[::ffff:169.254.169.254]/",
        "http://100.100.100.200/",
        "http://[fd00:ec2::254]/",
    ),
    *("http://192.0.0.192/", "http://168.63.129.16/", "http://metadata.google.internal/", "http://[fe80::1]/"),
]
LISTED = [
    "169.254.169.254",
    "100.100.100.200",
    "[fd00:ec2::254]",
    "192.0.0.192",
    "168.63.129.16",
    "metadata.google.internal",
    "*",
]


@pytest.mark.requirement("OZ-29", "OZ-38")
@pytest.mark.case("P6")
@pytest.mark.parametrize("text", METADATA)
def test_metadata_and_link_local_are_refused_even_if_listed(text: str) -> None:
    listed = [rule for rule in map(parse_rule, LISTED) if isinstance(rule, Rule)]
    everything = RuleSet([RuleList(kind=ListKind.TENANT, source="list", rules=tuple(listed))])

    for rule_set in (None, everything):
        found = judge(text, rule_set)
        assert found is not None
        assert (found[0], found[1]) == (Code.NOT_PUBLIC, By.CLIENT)


PRIVATE = [
    "http://10.0.0.7:8080/",
    "http://192.168.1.1/",
    "http://100.64.0.1/",
    "http://[fd12::1]/",
    "http://[::ffff:10.0.0.7]/",
]
FLOOR = [
    "http://127.0.0.1/",
    "http://[::1]/",
    "http://0.0.0.0/",
    "http://224.0.0.1/",
    "http://[2002:7f00:1::]/",
    "http://[64:ff9b::7f00:1]/",
]


@pytest.mark.requirement("X5")
@pytest.mark.parametrize("text", [*PRIVATE, *FLOOR])
def test_facades_without_the_exception_refuse_every_address_that_is_not_public(text: str) -> None:
    assert judge(text, rules("10.0.0.7:8080", "*"), listed_literals=False) == (
        Code.NOT_PUBLIC,
        By.CLIENT,
        "forbidden-address",
    )


@pytest.mark.requirement("OZ-27", "OZ-29")
def test_a_private_address_passes_if_the_tenants_list_names_that_very_address() -> None:
    assert judge("http://10.0.0.7:8080/", rules("10.0.0.7:8080")) is None
    refused = (Code.NOT_PUBLIC, By.CLIENT, "ip-not-on-allowlist")
    assert judge("http://10.0.0.7/", rules("10.0.0.7:8080")) == refused
    assert judge("http://10.0.0.8:8080/", rules("10.0.0.7:8080")) == refused
    assert judge("http://10.0.0.7:8080/", rules("10.0.0.0/24:8080")) == refused
    assert judge("http://10.0.0.7:8080/", rules("10.0.0.7:8080", kind=ListKind.PLUGIN)) == refused
    assert judge("http://10.0.0.7:8080/", rules()) == refused


def test_without_a_readable_grant_the_proxy_decides_on_private_addresses_and_names_but_not_on_the_floor() -> None:
    assert [judge(text, None) for text in PRIVATE] == [None] * len(PRIVATE)
    assert judge("https://example.org/", None) is None
    assert [judge(text, None) for text in FLOOR] == [(Code.NOT_PUBLIC, By.CLIENT, "forbidden-address")] * len(FLOOR)
    assert judge("http://localhost/", None) == (Code.NOT_PUBLIC, By.CLIENT, "forbidden-name")


def test_a_floor_address_or_localhost_that_the_list_names_is_left_to_the_proxy() -> None:
    # A node for tests may have opened it (unsafe_reach); any other node refuses it itself.
    assert judge("http://127.0.0.5:8080/", rules("127.0.0.5:8080")) is None
    assert judge("http://localhost:8080/", rules("localhost:8080")) is None
    assert judge("http://127.0.0.5:8080/", rules("*:8080")) == (Code.NOT_PUBLIC, By.CLIENT, "forbidden-address")


@pytest.mark.requirement("OZ-25", "OZ-26", "OZ-37")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("https://docs.python.org/3/", None),
        ("https://DOCS.python.org./3/", None),
        ("https://en.wikipedia.org/", None),
        ("https://a.b.wikipedia.org/", None),
        ("https://bücher.example/", None),
        ("https://wikipedia.org/", "not-on-allowlist"),
        ("https://notwikipedia.org/", "not-on-allowlist"),
        ("https://docs.python.org:8443/", "port-not-allowed"),
        ("https://bad.wikipedia.org/", "denied-by-rule"),
        ("https://93.184.216.34/", "ip-not-on-allowlist"),
        ("https://93.184.216.35/", None),
    ],
)
def test_names_and_public_addresses_are_matched_against_the_list(text: str, reason: str | None) -> None:
    rule_set = rules("docs.python.org", "*.wikipedia.org", "! bad.wikipedia.org", "bücher.example", "93.184.216.35")

    assert judge(text, rule_set) == ((Code.NOT_ALLOWED, By.LIST, reason) if reason else None)


def test_a_list_that_limits_methods_is_matched_with_get_and_connect() -> None:
    rule = parse_rule("site.example:*")
    assert isinstance(rule, Rule)
    only_head = RuleSet([RuleList(ListKind.TENANT, "list", (rule,), methods=frozenset({"HEAD"}))])
    with_get = RuleSet([RuleList(ListKind.TENANT, "list", (rule,), methods=frozenset({"GET"}))])
    refused = (Code.NOT_ALLOWED, By.LIST, "method-not-allowed")

    assert judge("http://site.example/", only_head) == refused
    assert judge("https://site.example:80/", with_get) == refused
    assert [judge(text, with_get) for text in ("http://site.example/", "https://site.example/")] == [None, None]


def test_an_empty_list_allows_nothing() -> None:
    assert judge("https://example.org/", RuleSet([])) == (Code.NOT_ALLOWED, By.LIST, "not-on-allowlist")
