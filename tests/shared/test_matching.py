"""Several lists at once: deny beats allow, literals and names apart, the most capable rule speaks."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from egress_policy.matching import ListKind, Match, MatchOutcome, RuleList, RuleSet
from egress_policy.rule_text import Rule, parse_rule
from egress_policy.targets import Target, parse_authority

ALLOWED, DENIED, PORT, NONE = MatchOutcome.ALLOWED, MatchOutcome.DENIED, MatchOutcome.PORT, MatchOutcome.NONE


def target(text: str) -> Target:
    found = parse_authority(text.encode())
    assert isinstance(found, Target), found
    return found


def rules(*texts: str) -> tuple[Rule, ...]:
    found = [parse_rule(text) for text in texts]
    assert all(isinstance(each, Rule) for each in found), found
    return tuple(each for each in found if isinstance(each, Rule))


def tenant(*texts: str, methods: frozenset[str] | None = None, sni: str = "enforce") -> RuleList:
    return RuleList(ListKind.TENANT, "tenants/default.list", rules(*texts), methods, sni)


def plugin(*texts: str, methods: frozenset[str] | None = None, sni: str = "enforce") -> RuleList:
    return RuleList(ListKind.PLUGIN, "plugins/web.list", rules(*texts), methods, sni)


def endpoints(*texts: str) -> RuleList:
    return RuleList(ListKind.ENDPOINT, "endpoints", rules(*texts))


def outcome(lists: list[RuleList], text: str, *, now: float = 0.0) -> MatchOutcome:
    return RuleSet(lists).match(target(text), now=now).outcome


@pytest.mark.case("D2")
@pytest.mark.requirement("OZ-26")
@pytest.mark.parametrize("lists", [[], [tenant()], [tenant(), plugin(), endpoints()]])
@pytest.mark.parametrize("text", ["example.com:443", "10.0.0.7:80", "[2606:4700::1]:443"])
def test_case_d2_no_list_and_an_empty_list_allow_nothing(lists: list[RuleList], text: str) -> None:
    assert outcome(lists, text) is NONE


@pytest.mark.requirement("OZ-27")
@pytest.mark.parametrize(
    ("rule", "text", "expected"),
    [
        ("docs.python.org", "docs.python.org:443", ALLOWED),
        ("docs.python.org", "docs.python.org:80", ALLOWED),
        ("docs.python.org", "DOCS.python.org.:443", ALLOWED),
        ("docs.python.org.", "docs.python.org:443", ALLOWED),
        ("docs.python.org", "docs.python.org:8443", PORT),
        ("docs.python.org", "a.docs.python.org:443", NONE),
        ("docs.python.org", "python.org:443", NONE),
        ("*.wikipedia.org", "en.wikipedia.org:443", ALLOWED),
        ("*.wikipedia.org", "en.m.wikipedia.org:443", ALLOWED),
        ("*.wikipedia.org", "wikipedia.org:443", NONE),
        ("*.wikipedia.org", "notwikipedia.org:443", NONE),
        ("*.wikipedia.org", "en.wikipedia.org.evil.com:443", NONE),
        (".example.com", "example.com:443", ALLOWED),
        (".example.com", "news.example.com:443", ALLOWED),
        (".example.com", "a.b.news.example.com:443", ALLOWED),
        (".example.com", "notexample.com:443", NONE),
        ("*", "anything.example:443", ALLOWED),
        ("*", "localhost:443", ALLOWED),
        ("*", "10.0.0.7:443", NONE),
        ("*", "8.8.8.8:443", NONE),
        ("*:8080", "anything.example:443", PORT),
        ("10.0.0.7:8080", "10.0.0.7:8080", ALLOWED),
        ("10.0.0.7:8080", "[::ffff:10.0.0.7]:8080", ALLOWED),
        ("10.0.0.7:8080", "10.0.0.7:80", PORT),
        ("10.0.0.7:8080", "10.0.0.8:8080", NONE),
        ("10.0.0.0/24", "10.0.0.255:80", ALLOWED),
        ("10.0.0.0/24", "10.0.1.0:80", NONE),
        ("[::ffff:10.0.0.0/120]", "10.0.0.9:80", ALLOWED),
        ("0.0.0.0/0", "8.8.8.8:443", ALLOWED),
        ("0.0.0.0/0", "[64:ff9b::8.8.8.8]:443", NONE),
        ("0.0.0.0/0", "example.com:443", NONE),
        ("[2606:4700::1]", "[2606:4700:0::1]:443", ALLOWED),
        ("2606:4700::/32", "[2606:4700:ffff::1]:443", ALLOWED),
        ("2606:4700::/32", "[2606:4701::]:443", NONE),
        ("h.example:8000-8099", "h.example:8099", ALLOWED),
        ("h.example:8000-8099", "h.example:8100", PORT),
        ("h.example:*", "h.example:1", ALLOWED),
    ],
)
def test_a_rule_allows_what_it_names_and_nothing_beside_it(rule: str, text: str, expected: MatchOutcome) -> None:
    assert outcome([tenant(rule)], text) is expected


@pytest.mark.requirement("NX-10")
def test_a_subdomain_aware_entry_permits_the_name_and_those_below() -> None:
    lists = [tenant(".example.com")]

    assert outcome(lists, "example.com:443") is ALLOWED
    assert outcome(lists, "news.example.com:443") is ALLOWED


@pytest.mark.requirement("NX-11")
@pytest.mark.parametrize("text", ["notexample.com:443", "example.com.evil.org:443", "xample.com:443", "com:443"])
def test_a_subdomain_aware_entry_refuses_look_alikes(text: str) -> None:
    assert outcome([tenant(".example.com")], text) is NONE


@pytest.mark.case("D13")
@pytest.mark.parametrize("text", ["8.8.8.8:443", "[2606:4700::1]:443", "10.0.0.7:80", "[::ffff:8.8.8.8]:443"])
def test_case_d13_a_literal_needs_an_address_rule(text: str) -> None:
    assert outcome([tenant("*:*", ".com", "8.8.8.8.nip.io")], text) is NONE


@pytest.mark.case("D3")
@pytest.mark.parametrize("text", ["bad.example:443", "bad.example.:443", "BAD.example:443", "a.bad.example.:80"])
def test_case_d3_a_final_dot_or_capitals_do_not_pass_a_deny(text: str) -> None:
    assert outcome([tenant("*", "! .bad.example.")], text) is DENIED


@pytest.mark.parametrize(
    ("deny", "text"),
    [
        ("! docs.python.org", "docs.python.org:443"),
        ("! docs.python.org", "docs.python.org:8080"),
        ("! *.python.org", "docs.python.org:443"),
        ("! .python.org", "python.org:443"),
        ("! *", "docs.python.org:443"),
        ("! docs.python.org:443", "docs.python.org:443"),
        ("! 10.0.0.7", "10.0.0.7:8080"),
        ("! 10.0.0.0/8", "10.0.0.7:8080"),
        ("! [::ffff:10.0.0.0/104]", "10.0.0.7:8080"),
        ("! 10.0.0.7", "[::ffff:10.0.0.7]:8080"),
    ],
)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_deny_beats_every_allow_of_every_list(deny: str, text: str, *, reverse: bool) -> None:
    allows = ["docs.python.org:*", "*.python.org:*", ".python.org:*", "*:*", "10.0.0.7:*", "10.0.0.0/24:*"]
    lists = [tenant(*allows), endpoints("docs.python.org:443", "docs.python.org:8080", "10.0.0.7:8080")]
    assert outcome(lists, text) is ALLOWED

    lists = [*lists, plugin(deny)]
    found = RuleSet(reversed(lists) if reverse else lists).match(target(text), now=0)

    assert found.outcome is DENIED
    assert found.rule is not None
    assert found.rule.deny
    assert found.source == "plugins/web.list"


def test_a_deny_for_one_port_leaves_the_others() -> None:
    lists = [tenant("h.example:*", "! h.example:25")]

    assert outcome(lists, "h.example:25") is DENIED
    assert outcome(lists, "h.example:26") is ALLOWED


@pytest.mark.requirement("OZ-25")
def test_the_union_of_all_lists_is_allowed() -> None:
    lists = [tenant("a.example"), plugin("b.example"), endpoints("c.example:8080")]

    assert outcome(lists, "a.example:443") is ALLOWED
    assert outcome(lists, "b.example:443") is ALLOWED
    assert outcome(lists, "c.example:8080") is ALLOWED
    assert outcome(lists, "d.example:443") is NONE


@pytest.mark.parametrize(
    ("lists", "text", "kind", "exact"),
    [
        ([tenant("h.internal:80"), endpoints("h.internal:80")], "h.internal:80", ListKind.ENDPOINT, True),
        ([plugin("h.internal"), tenant("h.internal")], "h.internal:80", ListKind.TENANT, True),
        ([tenant("*.internal"), tenant("h.internal")], "h.internal:80", ListKind.TENANT, True),
        ([tenant(".h.internal"), plugin("h.internal")], "h.internal:80", ListKind.PLUGIN, True),
        ([plugin("*"), tenant("*"), tenant("*.internal")], "h.internal:80", ListKind.TENANT, False),
        ([tenant("10.0.0.0/24:80", "10.0.0.7")], "10.0.0.7:80", ListKind.TENANT, True),
        ([plugin("10.0.0.7"), tenant("10.0.0.0/24")], "10.0.0.7:80", ListKind.PLUGIN, True),
        ([tenant("10.0.0.7:80"), endpoints("10.0.0.7:80")], "10.0.0.7:80", ListKind.ENDPOINT, True),
    ],
)
def test_the_most_capable_rule_speaks(lists: list[RuleList], text: str, kind: ListKind, *, exact: bool) -> None:
    for order in (lists, lists[::-1]):
        found = RuleSet(order).match(target(text), now=0)
        assert (found.outcome, found.kind, found.exact) == (ALLOWED, kind, exact)


def test_a_suffix_rule_is_not_exact_even_for_its_own_name() -> None:
    assert RuleSet([tenant(".h.internal")]).match(target("h.internal:80"), now=0).exact is False


@pytest.mark.parametrize("text", ["*", "*.internal", ".internal", "10.0.0.0/8", "0.0.0.0/0:*"])
def test_an_endpoint_that_is_no_single_host_opens_nothing(text: str) -> None:
    lists = [endpoints(text)]

    assert outcome(lists, "h.internal:80") is NONE
    assert outcome(lists, "10.0.0.7:80") is NONE


def test_a_port_that_is_not_allowed_is_told_from_a_host_that_is_not() -> None:
    found = RuleSet([tenant("h.example:8080")]).match(target("h.example:443"), now=0)

    assert found.outcome is PORT
    assert found.rule is not None
    assert found.rule.text == "h.example:8080"


# ---------------------------------------------------------------------------------------------- resolved addresses


@pytest.mark.parametrize(
    ("deny", "address", "port", "refused"),
    [
        ("! 203.1.2.0/24", "203.1.2.9", 443, True),
        ("! 203.1.2.0/24", "::ffff:203.1.2.9", 443, True),
        ("! [::ffff:203.1.2.9]", "203.1.2.9", 443, True),
        ("! 203.1.2.9:8080", "203.1.2.9", 443, False),
        ("! 203.1.2.9:8080", "203.1.2.9", 8080, True),
        ("! 203.1.2.9", "203.1.2.8", 443, False),
        ("! 2606:4700::/32", "2606:4700::1", 443, True),
        ("! 2606:4700::/32", "2606:4701::1", 443, False),
        ("! *", "203.1.2.9", 443, False),
        ("203.1.2.9", "203.1.2.9", 443, False),
        ("! 203.1.2.9", "64:ff9b::203.1.2.9", 443, False),
    ],
)
def test_a_denied_network_covers_what_names_resolve_to(deny: str, address: str, port: int, *, refused: bool) -> None:
    found = RuleSet([tenant("*:*", deny)]).denies_address(ip_address(address), port, now=0)

    assert (found is not None) is refused


# ---------------------------------------------------------------------------------------------- time


def test_a_rule_ends_at_its_moment_and_not_before() -> None:
    lists = [tenant("h.example until=2026-01-01T00:00:00Z")]
    end = 1767225600.0

    assert outcome(lists, "h.example:443", now=end - 0.5) is ALLOWED
    assert outcome(lists, "h.example:443", now=end) is NONE
    assert RuleSet(lists).next_end(0.0) == end
    assert RuleSet(lists).next_end(end) is None
    assert RuleSet([tenant("h.example")]).next_end(0.0) is None


def test_a_deny_with_an_end_refuses_until_then() -> None:
    found = RuleSet([tenant("*", "! h.example until=2026-01-01T00:00:00Z", "! 203.1.2.9 until=2026-01-01T00:00:00Z")])
    end = 1767225600.0

    assert found.match(target("h.example:443"), now=end - 1).outcome is DENIED
    assert found.match(target("h.example:443"), now=end).outcome is ALLOWED
    assert found.denies_address(ip_address("203.1.2.9"), 443, now=end - 1) is not None
    assert found.denies_address(ip_address("203.1.2.9"), 443, now=end) is None


# ---------------------------------------------------------------------------------------------- methods and names

GET = frozenset({"GET", "HEAD"})


def test_methods_are_limited_by_the_strictest_matching_list() -> None:
    found = RuleSet(
        [tenant("a.example", "b.example", methods=GET), plugin("b.example", "c.example", methods=frozenset({"GET"}))]
    )

    assert found.methods == frozenset({"GET"})
    assert found.methods_for(target("a.example:80")) == GET
    assert found.methods_for(target("b.example:80")) == frozenset({"GET"})
    assert found.method_allowed("HEAD", target("a.example:80"))
    assert not found.method_allowed("HEAD", target("b.example:80"))
    assert not found.method_allowed("POST", target("c.example:80"))
    assert not found.method_allowed("get", target("c.example:80"))


def test_a_list_without_a_limit_does_not_loosen_the_limit_of_another() -> None:
    found = RuleSet([tenant("a.example", methods=GET), plugin("a.example", "b.example")])

    assert not found.method_allowed("POST", target("a.example:80"))
    assert found.method_allowed("POST", target("b.example:80"))


def test_with_a_limit_a_tunnel_to_port_80_is_no_way_around_it() -> None:
    limited = RuleSet([tenant("a.example", "10.0.0.7", methods=frozenset({"GET"}))])

    assert not limited.method_allowed("CONNECT", target("a.example:80"))
    assert not limited.method_allowed("CONNECT", target("10.0.0.7:80"))
    assert limited.method_allowed("CONNECT", target("a.example:443"))
    assert RuleSet([tenant("a.example")]).method_allowed("CONNECT", target("a.example:80"))


def test_a_rule_that_is_over_lends_its_limit_no_longer() -> None:
    found = RuleSet([tenant("a.example until=2026-01-01T00:00:00Z", methods=GET), plugin("a.example")])

    assert not found.method_allowed("POST", target("a.example:80"))
    assert not found.method_allowed("POST", target("a.example:80"), now=1.0)
    assert found.method_allowed("POST", target("a.example:80"), now=1767225600.0)


def test_an_empty_limit_allows_no_method() -> None:
    found = RuleSet([tenant("a.example", methods=frozenset())])

    assert found.methods == frozenset()
    assert not found.method_allowed("GET", target("a.example:80"))


def test_server_names_are_checked_as_the_list_says_unless_the_rule_says_otherwise() -> None:
    found = RuleSet([tenant("*.github.com", "ssh.github.com:443 sni=off", sni="count"), plugin("b.example")])

    assert found.match(target("api.github.com:443"), now=0).sni == "count"
    assert found.match(target("ssh.github.com:443"), now=0).sni == "off"
    assert found.match(target("b.example:443"), now=0).sni == "enforce"


# ---------------------------------------------------------------------------------------------- shadows and size


@pytest.mark.parametrize(
    ("deny", "allow", "shadowed"),
    [
        ("! h.example", "h.example", True),
        ("! *.example", "h.example", True),
        ("! .example", "*.example", True),
        ("! *.example", ".example", False),
        ("! .example", ".example", True),
        ("! h.example", ".h.example", False),
        ("! .h.example", "*.h.example", True),
        ("! .h.example", "*.a.h.example", True),
        ("! *.h.example", "*.h.example", True),
        ("! *", "*", True),
        ("! *", ".h.example", True),
        ("! *.h.example", "*", False),
        ("! h.example:443", "h.example", False),
        ("! h.example:1-1000", "h.example", True),
        ("! h.example until=2026-01-01T00:00:00Z", "h.example", False),
        ("! h.example until=2026-01-02T00:00:00Z", "h.example until=2026-01-01T00:00:00Z", True),
        ("! 10.0.0.0/8", "10.0.0.7", True),
        ("! 10.0.0.0/8", "10.0.0.0/8", True),
        ("! 10.0.0.7", "10.0.0.0/8", False),
        ("! *", "10.0.0.7", False),
    ],
)
def test_an_allow_is_shadowed_only_by_a_deny_that_covers_all_of_it(deny: str, allow: str, *, shadowed: bool) -> None:
    found = RuleSet([tenant(deny)]).shadow_of(rules(allow)[0])

    assert (found is not None) is shadowed


class Counting(dict[str, list[object]]):
    """A dictionary that counts its look-ups."""

    def __init__(self, given: dict[str, list[object]]) -> None:
        super().__init__(given)
        self.asked = 0

    def get(self, key: str, default: object = None) -> object:  # type: ignore[override]
        self.asked += 1
        return super().get(key, default)


@pytest.mark.parametrize("labels", [1, 5, 50])
def test_a_match_asks_once_a_label_however_many_rules_there_are(labels: int) -> None:
    found = RuleSet(tenant(*(f"*.h{number}.t{which}.example" for number in range(1000))) for which in range(10))
    below = Counting(found._allow.below)  # type: ignore[arg-type]
    found._allow.below = below  # type: ignore[assignment]

    found.match(target(".".join(["a"] * labels) + ".h5.t5.example:443"), now=0)

    assert below.asked == labels + 2


def test_nothing_matches_like_no_rule_at_all() -> None:
    assert RuleSet([]).match(target("a.example:443"), now=0) == Match(NONE)
