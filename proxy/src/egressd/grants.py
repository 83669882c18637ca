"""Turns a policy snapshot into the grants that requests are judged by.

A `Policy` is one version of everything a worker judges with; a `Grant` is what one channel's jobs may reach under it.
Both are made whole from one snapshot and never changed, so a request is judged by one version or by another, never by
half of one. What a job may not know about others is left out of `Grant.document`, which the job itself may read.

Called by the worker when a snapshot arrives. Reads no file and no clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Network, ip_network
from typing import TYPE_CHECKING

from egress_policy.addresses import Address, Network, Reach, embedded_in_nat64, fold
from egress_policy.rules import ListKind, Rule, RuleList, RuleSet, parse_endpoint, parse_list
from egress_policy.wire import GrantDocument, GrantList, write_grant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from egressd.snapshot import GrantSpec, Snapshot


@dataclass(frozen=True, slots=True, eq=False)
class Grant:
    """What one channel's jobs may reach, under one policy version.

    `rules` is the union of tenant, plugin and endpoints; `public_rules` leaves the endpoints out, because they match
    only requests that do not ask for public addresses only. `reports` is the tenant's report mode. `unavailable` is
    why nothing can be judged, if so.
    """

    tenant: str
    plugin: str | None
    job: str | None
    rules: RuleSet
    public_rules: RuleSet
    private: tuple[Network, ...]
    public_only: bool
    reports: bool
    unavailable: str | None
    reach: Reach
    unsafe_names: bool
    version: int
    command: str
    proxy_names: frozenset[bytes]
    document: bytes | None
    listeners: frozenset[tuple[str, int]] = frozenset()

    def rules_for(self, *, public_only: bool) -> RuleSet:
        """The rules that a request matches: without the endpoints when it asks for public addresses only."""
        return self.public_rules if public_only else self.rules

    def is_own_listener(self, address: Address, port: int) -> bool:
        """Whether the daemon itself listens there; not even `unsafe_reach` opens that (cases F24, H1).

        A listener on all IPv6 addresses may take IPv4 too, so it stands for both.
        """
        if not self.listeners:
            return False
        folded = fold(address)
        places = (str(folded), "::", "0.0.0.0") if folded.version == 4 else (str(folded), "::")  # noqa: S104 - compared
        return any((place, port) in self.listeners for place in places)

    def denying_rule(self, address: Address, port: int, *, unix_now: float) -> Rule | None:
        """The deny rule that covers an address, or the IPv4 address that it carries through the operator's NAT64.

        An allow rule never matches through NAT64; a deny that did not would be passed by another spelling.
        """
        rule = self.rules.denies_address(address, port, now=unix_now)
        prefix = self.reach.nat64
        if rule is None and prefix is not None and address.version == 6 and address in prefix:
            carried = embedded_in_nat64(address, prefix)
            return None if carried is None else self.rules.denies_address(carried, port, now=unix_now)
        return rule


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """One version of everything a worker judges with; `channels` leads from a listener's name to its grant."""

    version: int
    channels: Mapping[str, Grant]
    hosts: Mapping[str, tuple[str, ...]]


def compile_policy(snapshot: Snapshot) -> Policy:
    """Make the policy of a snapshot, every rule parsed.

    A list that does not parse makes each grant that uses it unavailable: the supervisor has checked the lists, so
    this means that the two disagree, and then nothing may pass.

    Args:
        snapshot: As the supervisor sent it.

    Returns:
        A policy whose version is the snapshot's.

    Raises:
        ValueError: A network in the snapshot is none; the supervisor is at fault, and the old policy stays.
    """
    reach = Reach(
        own=_networks(snapshot.own),
        protected=_networks(snapshot.protected),
        unsafe_reach=_networks(snapshot.unsafe_reach),
        nat64=IPv6Network(snapshot.nat64) if snapshot.nat64 else None,
    )
    grants = [_grant(spec, snapshot, reach) for spec in snapshot.grants]
    return Policy(
        version=snapshot.version,
        channels={name: grants[index] for name, index in snapshot.channels.items()},
        hosts=snapshot.hosts,
    )


def _grant(spec: GrantSpec, snapshot: Snapshot, reach: Reach) -> Grant:
    unavailable = spec.unavailable
    lists: list[RuleList] = []
    for text in spec.lists:
        parsed, problems = parse_list(text.text, kind=ListKind(text.kind), source=text.source)
        if any(problem.severity == "error" for problem in problems):
            unavailable = unavailable or f"{text.source} does not parse"
        lists.append(parsed)
    made = [parse_endpoint(text) for text in spec.endpoints]
    rules = tuple(rule for rule in made if isinstance(rule, Rule))
    if len(rules) != len(made):
        unavailable = unavailable or "an endpoint does not parse"
    endpoints = RuleList(kind=ListKind.ENDPOINT, source="endpoints", rules=rules)
    return Grant(
        tenant=spec.tenant,
        plugin=spec.plugin,
        job=spec.job,
        rules=RuleSet([*lists, endpoints]),
        public_rules=RuleSet(lists),
        private=_networks(spec.private),
        public_only=spec.public_only,
        reports=spec.mode == "report",
        unavailable=unavailable,
        reach=reach,
        unsafe_names=bool(snapshot.unsafe_reach),
        version=snapshot.version,
        command=snapshot.command_template,
        proxy_names=frozenset(name.lower().encode("ascii") for name in snapshot.proxy_names),
        # In report mode the lists do not say what passes: a job that matched them first would refuse itself too much.
        document=_document(spec, snapshot, lists) if snapshot.grant_visible and spec.mode != "report" else None,
        listeners=frozenset(_listener(text) for text in snapshot.listeners) if snapshot.unsafe_reach else frozenset(),
    )


def _document(spec: GrantSpec, snapshot: Snapshot, lists: list[RuleList]) -> bytes:
    return write_grant(
        GrantDocument(
            job=spec.job,
            tenant=spec.tenant,
            plugin=spec.plugin,
            version=snapshot.version,
            lists=tuple(
                GrantList(
                    kind=entry.kind,
                    source=entry.kind.value,
                    rules=tuple(rule.text for rule in entry.rules),
                    methods=None if entry.methods is None else tuple(sorted(entry.methods)),
                    sni=entry.sni,
                )
                for entry in lists
            ),
            endpoints=spec.endpoints,
            limits={},
            command=snapshot.command_template.replace("{tenant}", spec.tenant),
            public_only=spec.public_only,
        )
    )


def _listener(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def _networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ip_network(text) for text in texts)
