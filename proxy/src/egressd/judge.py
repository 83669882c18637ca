"""Decides whether a target may be asked for at all: grant, floor, deny, allow, in this order, before any look-up.

`read_request` says what a head asks for, `judge_target` whether the grant allows it. Neither resolves, dials, logs or
sees a clock. What the name's addresses may be is `pinning`'s to decide, after the look-up; a name that no rule allows
is never looked up, because the query itself would carry data out (case C4).

Called by the worker's connection for every request, and again before the 200 when the policy has changed meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from egress_policy.addresses import AddressClass, fold
from egress_policy.names import HostName, is_floor_name, is_localhost, needs_exact_rule
from egress_policy.reasons import Reason, Refusal, Stage
from egress_policy.rules import ListKind, Match, MatchOutcome, RuleForm
from egress_policy.targets import BadTarget, Target, parse_absolute, parse_authority, same_authority
from egress_policy.wire import asks_public_only

if TYPE_CHECKING:
    from egress_policy.addresses import Address
    from egressd.grants import Grant
    from egressd.http_head import RequestHead

_AUTHORITY_ENDS = frozenset({b"", b"/", b"?"})
# What report mode relaxes: that no rule allows it; never a deny, an address class or public-only.
_RELAXED = frozenset(
    {Reason.NOT_ON_ALLOWLIST, Reason.IP_NOT_ON_ALLOWLIST, Reason.PORT_NOT_ALLOWED, Reason.METHOD_NOT_ALLOWED}
)
GRANT_PATH = b"/.well-known/egress"


@dataclass(frozen=True, slots=True)
class Asked:
    """What one request asks for. `path` is None for CONNECT and the origin-form for a plain request."""

    target: Target
    path: bytes | None
    public_only: bool


@dataclass(frozen=True, slots=True)
class GrantAsked:
    """The job asks what it may reach (`GET /.well-known/egress`)."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """The grant allows the target; `match` is the rule that does, which decides what its addresses may be.

    `reported` is why it would have been refused, where the tenant is in report mode and nothing else was in the way.
    """

    target: Target
    match: Match
    public_only: bool
    reported: Reason | None = None


def read_request(head: RequestHead, proxy_names: frozenset[bytes]) -> Asked | GrantAsked | Refusal:
    """Read what a head asks for, from its request-target alone.

    Host never chooses the target: it is compared with it, and a Host that names another destination is refused,
    except the names of the proxy itself, which old clients send there (case E5).

    Args:
        head: A head that the grammar accepted.
        proxy_names: `host:port` in lower case, the names that stand for the proxy itself in Host.

    Returns:
        What is asked, or a refusal at stage `parse`.

    Source: RFC 9112 section 3.2, RFC 9110 section 9.3.6.
    """
    host: bytes | None = None
    hosts = 0
    public: list[str] = []
    for name, value in head.fields:
        if name == b"host":
            host = value
            hosts += 1
        elif name == b"oz0-egress-public-only":
            public.append(value.decode("latin-1"))
        elif name == b"transfer-encoding" and head.method == "CONNECT":
            return Refusal(Reason.AMBIGUOUS_FRAMING, Stage.PARSE)
    if hosts != 1:
        if hosts > 1:
            return Refusal(Reason.DUPLICATE_HOST, Stage.PARSE)
        if head.minor:
            return Refusal(Reason.MISSING_HOST, Stage.PARSE)
    path: bytes | None = None
    if head.method == "CONNECT":
        target = parse_authority(head.target)
        if isinstance(target, BadTarget):
            return Refusal(target.reason, Stage.PARSE)
    elif head.target.startswith(b"/") or head.target == b"*":
        if head.target == GRANT_PATH and head.method == "GET":
            return GrantAsked()
        return Refusal(Reason.NOT_A_PROXY_REQUEST, Stage.PARSE)
    else:
        absolute = parse_absolute(head.target)
        if isinstance(absolute, BadTarget):
            return Refusal(absolute.reason, Stage.PARSE)
        target, path = absolute.target, absolute.path
    if (
        host is not None
        and not _is_copy(host, head.target, path)
        and not same_authority(host, target)
        and host.lower() not in proxy_names
    ):
        return Refusal(Reason.AUTHORITY_MISMATCH, Stage.PARSE, target)
    return Asked(target, path, asks_public_only(public) if public else False)


def _is_copy(host: bytes, target: bytes, path: bytes | None) -> bool:
    """Whether Host is the authority to the letter: that needs no parsing, and is what almost every client sends."""
    if path is None:
        return host == target
    end = 7 + len(host)  # behind http://
    return target[7:end] == host != b"" and target[end : end + 1] in _AUTHORITY_ENDS


def judge_target(target: Target, grant: Grant, *, method: str, public_only: bool, now: float) -> Allowed | Refusal:
    """Judge a target by the grant, before anything is looked up.

    Args:
        target: As parsed from the request-target.
        method: The request's method; `CONNECT` for a tunnel.
        public_only: Whether the request asked for public addresses only.
        now: Unix seconds, for rules with an end.

    Returns:
        Allowed with the rule that allows it, or a refusal at stage grant, floor, deny or allow.
    """
    if grant.unavailable is not None:
        return Refusal(Reason.POLICY_UNAVAILABLE, Stage.GRANT, target)
    public_only = public_only or grant.public_only
    host = target.host
    if isinstance(host, HostName):
        verdict = _judge_name(target, host, grant, method=method, public_only=public_only, now=now)
    else:
        verdict = _judge_literal(target, host, grant, method=method, public_only=public_only, now=now)
    if grant.reports and isinstance(verdict, Refusal) and verdict.reason in _RELAXED and _is_harmless(target, grant):
        return Allowed(target, Match(MatchOutcome.NONE), public_only, verdict.reason)
    return verdict


def _is_harmless(target: Target, grant: Grant) -> bool:
    """Whether report mode may let a target through: a name (its addresses are judged later), or a public literal."""
    host = target.host
    return isinstance(host, HostName) or grant.reach.classify(host) is AddressClass.PUBLIC


def _judge_name(
    target: Target, name: HostName, grant: Grant, *, method: str, public_only: bool, now: float
) -> Allowed | Refusal:
    lifted = grant.unsafe_names and is_localhost(name)
    if not lifted and is_floor_name(name):
        return Refusal(Reason.FORBIDDEN_NAME, Stage.FLOOR, target)
    match = _match(target, grant, Reason.NOT_ON_ALLOWLIST, method=method, public_only=public_only, now=now)
    if isinstance(match, Refusal):
        return match
    if not lifted and needs_exact_rule(name):
        if public_only:
            return Refusal(Reason.FORBIDDEN_NAME, Stage.ALLOW, target)
        if match.kind is not ListKind.ENDPOINT and not (match.kind is ListKind.TENANT and match.exact):
            return Refusal(Reason.NOT_ON_ALLOWLIST, Stage.ALLOW, target)
    return Allowed(target, match, public_only)


def _judge_literal(
    target: Target, address: Address, grant: Grant, *, method: str, public_only: bool, now: float
) -> Allowed | Refusal:
    judged = grant.reach.classify(address)
    if judged is AddressClass.FLOOR or grant.is_own_listener(address, target.port):
        return Refusal(Reason.FORBIDDEN_ADDRESS, Stage.FLOOR, target)
    denied = grant.denying_rule(address, target.port, unix_now=now)
    if denied is not None:
        return Refusal(Reason.DENIED_BY_RULE, Stage.DENY, target, rule=denied.text)
    match = _match(target, grant, Reason.IP_NOT_ON_ALLOWLIST, method=method, public_only=public_only, now=now)
    if isinstance(match, Refusal):
        return match
    if judged is AddressClass.PRIVATE and not _private_literal(fold(address), match, grant, public_only=public_only):
        return Refusal(Reason.FORBIDDEN_ADDRESS, Stage.ALLOW, target)
    return Allowed(target, match, public_only)


def _private_literal(address: Address, match: Match, grant: Grant, *, public_only: bool) -> bool:
    """Whether a private literal may be reached: an endpoint, the tenant's very address, or an opened network."""
    if match.kind is ListKind.ENDPOINT:
        return True
    if match.kind is not ListKind.TENANT or match.rule is None:
        return False
    if match.rule.form is RuleForm.ADDRESS:
        return True
    return not public_only and any(address in network for network in grant.private)


def _match(
    target: Target, grant: Grant, absent: Reason, *, method: str, public_only: bool, now: float
) -> Match | Refusal:
    rules = grant.rules_for(public_only=public_only)
    match = rules.match(target, now=now)
    if match.outcome is MatchOutcome.ALLOWED:
        if not rules.method_allowed(method, target, now=now):
            return Refusal(Reason.METHOD_NOT_ALLOWED, Stage.ALLOW, target)
        return match
    if match.outcome is MatchOutcome.DENIED:
        return Refusal(Reason.DENIED_BY_RULE, Stage.DENY, target, rule=match.rule.text if match.rule else None)
    if match.outcome is MatchOutcome.PORT:
        return Refusal(Reason.PORT_NOT_ALLOWED, Stage.ALLOW, target)
    return Refusal(absent, Stage.ALLOW, target)
