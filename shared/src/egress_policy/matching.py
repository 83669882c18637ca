"""Matches a target with the rules of several lists at once: deny beats allow, the most capable allow wins.

Decides which rule speaks for a target, in as many dictionary look-ups as its name has labels (or its family has network
lengths in use), however many rules there are. Whether a name may be looked up, and what its addresses may be, the
callers decide with the `Match`. Sees no clock: `now` comes in. Called by the proxy's `judge` and `pinning`, and by the
client; callers import from `rules`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from egress_policy.addresses import Address, fold
from egress_policy.authorities import HTTP_PORT, Target
from egress_policy.names import HostName
from egress_policy.rule_text import Rule, RuleForm


class ListKind(StrEnum):
    """Whose list a rule is from, which decides what an allow may open."""

    TENANT = "tenant"
    PLUGIN = "plugin"
    ENDPOINT = "endpoint"


class MatchOutcome(StrEnum):
    """What the rules say of a target: allowed, denied, allowed on other ports only, or nothing."""

    ALLOWED = "allowed"
    DENIED = "denied"
    PORT = "port"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class RuleList:
    """The rules of one list.

    Attributes:
        kind: Whose list it is.
        source: How people know it, such as `tenants/default.list`.
        rules: In the order of the file.
        methods: The methods that plain requests may use; None for all.
        sni: How a tunnel's server name is checked: `enforce`, `count` or `off`.
    """

    kind: ListKind
    source: str
    rules: tuple[Rule, ...]
    methods: frozenset[str] | None = None
    sni: str = "enforce"


@dataclass(frozen=True, slots=True)
class Match:
    """What the rules say of a target.

    Attributes:
        outcome: Allowed, denied, only the port is not allowed, or no rule at all.
        rule: The rule that decided; for `port`, one that allows other ports.
        kind: Whose list it is from.
        source: Which list.
        exact: Whether the rule names this one host.
        sni: How the server name of a tunnel is checked.
    """

    outcome: MatchOutcome
    rule: Rule | None = None
    kind: ListKind | None = None
    source: str | None = None
    exact: bool = False
    sni: str = "enforce"


_NOTHING = Match(MatchOutcome.NONE)


class _Entry:
    """A rule made ready: its ports and end as plain values, and its rank and `Match` made once."""

    __slots__ = ("expires", "match", "methods", "rank", "rule", "spans")

    def __init__(self, rule: Rule, of: RuleList) -> None:
        self.rule = rule
        self.spans = rule.spans
        self.expires = rule.expires
        self.methods = of.methods
        self.rank = _rank(rule, of.kind)
        outcome = MatchOutcome.DENIED if rule.deny else MatchOutcome.ALLOWED
        self.match = Match(outcome, rule, of.kind, of.source, rule.is_exact, rule.sni or of.sni)

    def covers(self, port: int) -> bool:
        # A plain loop: `any` over a generator takes three times as long, on the path of every request.
        for first, last in self.spans:  # noqa: SIM110
            if first <= port <= last:
                return True
        return False

    def is_over(self, now: float) -> bool:
        return self.expires is not None and now >= self.expires


def _rank(rule: Rule, kind: ListKind) -> int:
    """Order allows by what they open: an endpoint, the tenant's very host, then the narrower before the wider."""
    if kind is ListKind.ENDPOINT:
        return 0
    if rule.is_exact:
        return 1 if kind is ListKind.TENANT else 2
    if rule.form is RuleForm.ANY:
        return 5
    return 3 if kind is ListKind.TENANT else 4


class _Table:
    """Rules of one verdict, found by host."""

    __slots__ = ("any_name", "below", "exact", "networks")

    def __init__(self) -> None:
        self.exact: dict[str, list[_Entry]] = {}
        self.below: dict[str, list[_Entry]] = {}
        self.any_name: list[_Entry] = []
        # By family and network length, the longest first; the key is the number without its host bits.
        self.networks: dict[int, dict[int, dict[int, list[_Entry]]]] = {4: {}, 6: {}}

    def add(self, entry: _Entry) -> None:
        rule = entry.rule
        if rule.network is not None:
            lengths = self.networks[rule.network.version]
            length = rule.network.prefixlen
            if length not in lengths:
                lengths[length] = {}
                self.networks[rule.network.version] = dict(sorted(lengths.items(), reverse=True))
            number = int(rule.network.network_address) >> (rule.network.max_prefixlen - length)
            self.networks[rule.network.version][length].setdefault(number, []).append(entry)
        elif rule.name is None:
            self.any_name.append(entry)
        else:
            if rule.form in {RuleForm.NAME, RuleForm.SUFFIX}:
                self.exact.setdefault(rule.name, []).append(entry)
            if rule.form in {RuleForm.BELOW, RuleForm.SUFFIX}:
                self.below.setdefault(rule.name, []).append(entry)

    def for_name(self, name: str) -> list[_Entry]:
        found = [*self.exact.get(name, ())]
        if self.below:
            self._add_parents(name, found)
        if self.any_name:
            found += self.any_name
        return found

    def _add_parents(self, name: str, found: list[_Entry]) -> None:
        dot = name.find(".")
        while dot >= 0:
            if (entries := self.below.get(name[dot + 1 :])) is not None:
                found += entries
            dot = name.find(".", dot + 1)

    def for_network(self, first: Address, length: int) -> list[_Entry]:
        """Rules for any network that holds this one; a single address is a network of its full length."""
        found: list[_Entry] = []
        number, bits = int(first), first.max_prefixlen
        for each, table in self.networks[first.version].items():
            if each <= length and (entries := table.get(number >> (bits - each))) is not None:
                found += entries
        return found

    def for_host(self, host: HostName | Address) -> list[_Entry]:
        if isinstance(host, HostName):
            return self.for_name(host.text)
        folded = fold(host)
        return self.for_network(folded, folded.max_prefixlen)

    def covering(self, rule: Rule) -> list[_Entry]:
        """Rules for everything that this rule is for."""
        if rule.network is not None:
            return self.for_network(rule.network.network_address, rule.network.prefixlen)
        if rule.name is None:
            return self.any_name
        if rule.form is RuleForm.NAME:
            return self.for_name(rule.name)
        found = [
            entry
            for entry in self.below.get(rule.name, ())
            if rule.form is RuleForm.BELOW or entry.rule.form is RuleForm.SUFFIX
        ]
        self._add_parents(rule.name, found)
        return found + self.any_name


class RuleSet:
    """The union of some lists, ready to match.

    An allow in an endpoint list counts only if it names one host: an endpoint opens private addresses, so a wide one
    would open them all.
    """

    __slots__ = ("_allow", "_deny", "_ends", "lists", "methods")

    def __init__(self, lists: Iterable[RuleList]) -> None:
        """Prepare the rules.

        Args:
            lists: In any order; none at all allows nothing (case D2).
        """
        self.lists = tuple(lists)
        self._allow = _Table()
        self._deny = _Table()
        for each in self.lists:
            for rule in each.rules:
                if rule.deny or rule.is_exact or each.kind is not ListKind.ENDPOINT:
                    (self._deny if rule.deny else self._allow).add(_Entry(rule, each))
        # The strictest over all lists, so None says that no list limits methods at all.
        self.methods = _strictest(each.methods for each in self.lists)
        self._ends = sorted(rule.expires for each in self.lists for rule in each.rules if rule.expires is not None)

    def match(self, target: Target, *, now: float) -> Match:
        """Say what the rules say of a target.

        A literal matches address and network rules only, a name the others only (case D13); a name that resolves into
        a denied network is `denies_address`'s to refuse.

        Args:
            target: What is asked for.
            now: Unix seconds.
        """
        host, port = target.host, target.port
        for entry in self._deny.for_host(host):
            if entry.covers(port) and not entry.is_over(now):
                return entry.match
        best: _Entry | None = None
        other: _Entry | None = None
        for entry in self._allow.for_host(host):
            if entry.is_over(now):
                continue
            if not entry.covers(port):
                other = entry
            elif best is None or entry.rank < best.rank:
                best = entry
        if best is not None:
            return best.match
        if other is None:
            return _NOTHING
        return Match(MatchOutcome.PORT, other.rule, other.match.kind, other.match.source, other.match.exact)

    def next_end(self, now: float) -> float | None:
        """Say when the next time-limited rule ends, in Unix seconds: until then every answer here stays what it is."""
        index = bisect_right(self._ends, now)
        return self._ends[index] if index < len(self._ends) else None

    def denies_address(self, address: Address, port: int, *, now: float) -> Rule | None:
        """Give the deny rule that covers an address a name resolved to, if there is one."""
        folded = fold(address)
        for entry in self._deny.for_network(folded, folded.max_prefixlen):
            if entry.covers(port) and not entry.is_over(now):
                return entry.rule
        return None

    def methods_for(self, target: Target, *, now: float = 0.0) -> frozenset[str] | None:
        """Give the methods that a plain request to an allowed target may use, the strictest over matching lists.

        Args:
            target: An allowed one.
            now: Unix seconds; 0 takes every rule as in force, which can only be stricter.
        """
        if self.methods is None:
            return None
        return _strictest(
            entry.methods
            for entry in self._allow.for_host(target.host)
            if entry.covers(target.port) and not entry.is_over(now)
        )

    def method_allowed(self, method: str, target: Target, *, now: float = 0.0) -> bool:
        """Whether a method may be used on an allowed target.

        A tunnel hides its methods; on port 80, where they would be plain to see, one that the limit covers is refused.
        """
        methods = self.methods_for(target, now=now)
        if methods is None:
            return True
        if method == "CONNECT":
            return target.port != HTTP_PORT
        return method in methods

    def shadow_of(self, rule: Rule) -> Rule | None:
        """Give a deny rule that leaves an allow rule nothing to allow, if there is one."""
        for entry in self._deny.covering(rule):
            outlasts = entry.expires is None or (rule.expires is not None and entry.expires >= rule.expires)
            if outlasts and all(
                any(first <= low and high <= last for first, last in entry.spans) for low, high in rule.spans
            ):
                return entry.rule
        return None


def _strictest(limits: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    strictest: frozenset[str] | None = None
    for limit in limits:
        if limit is not None:
            strictest = limit if strictest is None else strictest & limit
    return strictest
