"""Rules: adding a deny never allows more, and matching by dictionaries says what matching one by one would say."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

from hypothesis import given
from hypothesis import strategies as st

from egress_policy.addresses import Address, fold
from egress_policy.names import HostName
from egress_policy.rules import (
    BadRule,
    ListKind,
    MatchOutcome,
    Rule,
    RuleForm,
    RuleList,
    RuleSet,
    parse_list,
    parse_rule,
)
from egress_policy.targets import Target

# A small world, so that rules and targets meet.
LABELS = st.sampled_from(["a", "b", "com"])
NAMES = st.lists(LABELS, min_size=1, max_size=4).map(".".join)
V4 = st.integers(0, 7).map(lambda number: IPv4Address(0x0A000000 + number))
V6 = st.integers(0, 7).map(lambda number: IPv6Address((0x26064700 << 96) + number))
MAPPED = V4.map(lambda address: IPv6Address(0xFFFF << 32 | int(address)))
PORTS = st.sampled_from(["", ":80", ":443", ":8080", ":80-443", ":*"])
UNTIL = st.sampled_from(["", " until=1970-01-01T00:00:10Z", " until=1970-01-01T00:00:20Z"])
NOW = st.sampled_from([0.0, 9.5, 10.0, 15.0, 20.0, 100.0])


def places() -> st.SearchStrategy[str]:
    networks = st.builds(
        lambda address, length: f"{IPv4Address(int(address) >> 32 - length << 32 - length)}/{length}",
        V4,
        st.integers(28, 32),
    )
    return st.one_of(
        NAMES,
        NAMES.map(lambda name: f"*.{name}"),
        NAMES.map(lambda name: f".{name}"),
        st.just("*"),
        V4.map(str),
        V6.map(lambda address: f"[{address}]"),
        MAPPED.map(lambda address: f"[{address}]"),
        networks,
        st.just("2606:4700::/32"),
    )


def read(text: str) -> Rule:
    found = parse_rule(text)
    assert isinstance(found, Rule), (text, found)
    return found


allows = st.builds(lambda place, ports, until: read(f"{place}{ports}{until}"), places(), PORTS, UNTIL)
denies = st.builds(lambda place, ports, until: read(f"! {place}{ports}{until}"), places(), PORTS, UNTIL)
rule_lists = st.builds(
    lambda kind, rules: RuleList(kind, kind.value, tuple(rules)),
    st.sampled_from(ListKind),
    st.lists(st.one_of(allows, denies), max_size=6),
)
targets = st.builds(
    Target, st.just("https"), st.one_of(NAMES.map(HostName), V4, V6, MAPPED), st.sampled_from([80, 443, 8080, 22])
)


def names_host(rule: Rule, host: HostName | Address) -> bool:
    """Say whether a rule names a host, straight from the words of the grammar."""
    if isinstance(host, HostName):
        below = rule.name is not None and host.text.endswith(f".{rule.name}")
        match rule.form:
            case RuleForm.NAME:
                return host.text == rule.name
            case RuleForm.BELOW:
                return below
            case RuleForm.SUFFIX:
                return below or host.text == rule.name
            case RuleForm.ANY:
                return True
            case RuleForm.ADDRESS | RuleForm.NETWORK:
                return False
    return rule.network is not None and fold(host) in rule.network


def one_by_one(lists: list[RuleList], target: Target, now: float) -> MatchOutcome:
    """Match as the design's text says it, rule by rule."""
    every = [(each.kind, rule) for each in lists for rule in each.rules if rule.is_in_force(now)]
    named = [(kind, rule) for kind, rule in every if names_host(rule, target.host)]
    if any(rule.deny and rule.covers_port(target.port) for _, rule in named):
        return MatchOutcome.DENIED
    opening = [rule for kind, rule in named if not rule.deny and (kind is not ListKind.ENDPOINT or rule.is_exact)]
    if any(rule.covers_port(target.port) for rule in opening):
        return MatchOutcome.ALLOWED
    return MatchOutcome.PORT if opening else MatchOutcome.NONE


@given(lists=st.lists(rule_lists, max_size=4), target=targets, now=NOW)
def test_matching_by_dictionaries_is_matching_one_by_one(lists: list[RuleList], target: Target, now: float) -> None:
    found = RuleSet(lists).match(target, now=now)

    assert found.outcome is one_by_one(lists, target, now)
    if found.rule is not None:
        assert names_host(found.rule, target.host)
        assert found.rule.is_in_force(now)
        assert found.rule.deny is (found.outcome is MatchOutcome.DENIED)
        assert found.rule.covers_port(target.port) is (found.outcome is not MatchOutcome.PORT)
        assert found.exact is found.rule.is_exact


@given(lists=st.lists(rule_lists, min_size=1, max_size=3), deny=denies, target=targets, now=NOW, data=st.data())
def test_adding_a_deny_rule_never_allows_more(
    lists: list[RuleList], deny: Rule, target: Target, now: float, data: st.DataObject
) -> None:
    before = RuleSet(lists)
    which = data.draw(st.integers(0, len(lists) - 1))
    at = data.draw(st.integers(0, len(lists[which].rules)))
    old = lists[which]
    more = [*lists]
    more[which] = RuleList(old.kind, old.source, (*old.rules[:at], deny, *old.rules[at:]), old.methods, old.sni)
    after = RuleSet(more)

    if after.match(target, now=now).outcome is MatchOutcome.ALLOWED:
        assert before.match(target, now=now) == after.match(target, now=now)
    if not isinstance(target.host, HostName) and before.denies_address(target.host, target.port, now=now) is not None:
        assert after.denies_address(target.host, target.port, now=now) is not None


@given(lists=st.lists(rule_lists, max_size=3), target=targets, now=NOW)
def test_the_order_of_lists_does_not_decide(lists: list[RuleList], target: Target, now: float) -> None:
    one, other = RuleSet(lists).match(target, now=now), RuleSet(reversed(lists)).match(target, now=now)

    assert one.outcome is other.outcome
    if one.outcome is MatchOutcome.ALLOWED:
        # What the verdict opens is the same, whichever of two equal rules speaks.
        capable = {(ListKind.ENDPOINT, True), (ListKind.TENANT, True)}
        assert ((one.kind, one.exact) in capable) is ((other.kind, other.exact) in capable)


@given(
    lists=st.lists(rule_lists, max_size=3), address=st.one_of(V4, V6, MAPPED), port=st.sampled_from([80, 8080]), now=NOW
)
def test_an_address_is_denied_for_a_name_exactly_as_for_a_literal(
    lists: list[RuleList], address: Address, port: int, now: float
) -> None:
    found = RuleSet(lists)
    literal = found.match(Target("https", address, port), now=now).outcome

    assert (found.denies_address(address, port, now=now) is not None) is (literal is MatchOutcome.DENIED)


@given(rules=st.lists(denies, max_size=4), allow=allows, target=targets, now=NOW)
def test_what_is_said_to_be_shadowed_is_never_allowed(
    rules: list[Rule], allow: Rule, target: Target, now: float
) -> None:
    found = RuleSet([RuleList(ListKind.TENANT, "t", (*rules, allow))])

    if found.shadow_of(allow) is not None:
        assert found.match(target, now=now).outcome is not MatchOutcome.ALLOWED


ODD = st.text("ab.*:/[]!#=@%-0123456789 \t\r\nxéß。\"',", max_size=40)


@given(text=st.one_of(st.text(max_size=40), ODD))
def test_any_text_is_a_rule_or_says_what_to_write(text: str) -> None:
    found = parse_rule(text)

    if isinstance(found, Rule):
        assert parse_rule(found.text) == found
        assert (found.name is None) is (found.form in {RuleForm.ANY, RuleForm.ADDRESS, RuleForm.NETWORK})
        assert (found.network is not None) is (found.form in {RuleForm.ADDRESS, RuleForm.NETWORK})
    else:
        assert isinstance(found, BadRule)
        assert found.problem
        assert found.write_instead
        assert (found.found + found.problem + found.write_instead).isprintable()


@given(text=st.one_of(st.text(max_size=200), st.lists(ODD, max_size=6).map("\n".join)), kind=st.sampled_from(ListKind))
def test_any_text_is_a_list_with_its_problems(text: str, kind: ListKind) -> None:
    made, problems = parse_list(text, kind=kind, source="t")

    assert made.kind is kind
    for problem in problems:
        assert 1 <= problem.line <= text.count("\n") + 1
        assert problem.severity in {"error", "warning"}
        assert (problem.found + problem.problem + problem.write_instead).isprintable()


@given(rules=st.lists(st.one_of(allows, denies), max_size=8))
def test_a_list_of_rules_is_read_back_as_the_same_rules(rules: list[Rule]) -> None:
    made, problems = parse_list("\n".join(rule.text for rule in rules), kind=ListKind.TENANT, source="t")

    if not any(problem.severity == "error" for problem in problems):
        assert made.rules == tuple(rules)
