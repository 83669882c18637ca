"""The fields that both sides share, written and read: Proxy-Status, Oz0-Egress-Public-Only, and the grant document.

Decides how a refusal looks in a header so that the other side holds the same reason, when a request counts as asking
for public addresses only (every doubt is a yes), and what a job is told about its own grant. Never sends or receives.
`views` and `judge` of the proxy and the client's `report` call this.

Source: RFC 9209 (Proxy-Status), RFC 9651 (its grammar).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from egress_policy.reasons import DETAILS, ERROR, ErrorType, Reason, Refusal
from egress_policy.rule_text import SNI_MODES
from egress_policy.rules import BadRule, ListKind, Rule, RuleList, RuleSet, parse_endpoint, parse_rule
from egress_policy.structured_fields import InnerList, Token, read_list, string_text

PUBLIC_ONLY = "Oz0-Egress-Public-Only"
PROXY_STATUS = "Proxy-Status"
PSEUDONYM = "egressd"

# A quarter of a million rules; a proxy that says more is not ours.
GRANT_MAX_BYTES = 16 * 1024 * 1024
_STATUS_MAX_LENGTH = 16384
_REASONS: Mapping[str, Reason | str] = {reason.value: reason for reason in Reason}
_OFF = frozenset({"0", "?0", "false"})


@dataclass(frozen=True, slots=True)
class Received:
    """A refusal as the other side reads it.

    Attributes:
        reason: Ours, or the token as it came when this side does not know it (a newer proxy's).
        error: The RFC 9209 type as it came.
        details: The text that came with it, if any.
    """

    reason: Reason | str
    error: str
    details: str | None = None


def write_proxy_status(refusal: Refusal) -> str:
    """Give the value of the one Proxy-Status field of a refusal."""
    return _status(refusal.reason, refusal.error or ERROR[refusal.reason])


@lru_cache(maxsize=256)  # every reason with each of its types
def _status(reason: Reason, error: ErrorType) -> str:
    return f"{PSEUDONYM}; error={error.value}; reason={reason.value}; details={string_text(DETAILS[reason])}"


def read_proxy_status(values: Sequence[str]) -> Received | None:
    """Read the proxy's refusal from the values of all Proxy-Status lines, in order.

    Args:
        values: Of a reply to CONNECT or of a plain reply, never of one from inside a tunnel.

    Returns:
        The one member of ours with an error and a reason; None when there is none, more than one, or when the field
        does not follow its grammar.
    """
    if sum(map(len, values)) > _STATUS_MAX_LENGTH:
        return None
    members = read_list(values)
    if members is None:
        return None
    # RFC 9209 section 2: the name of the proxy is a token or a string.
    ours = [each for each in members if not isinstance(each, InnerList) and each.value == PSEUDONYM]
    if len(ours) != 1:
        return None
    error, reason = ours[0].parameters.get("error"), ours[0].parameters.get("reason")
    if not isinstance(error, Token) or not isinstance(reason, Token):
        return None
    details = ours[0].parameters.get("details")
    text = str(details) if isinstance(details, str) and not isinstance(details, Token) else None
    return Received(_REASONS.get(str(reason), str(reason)), str(error), text)


def asks_public_only(values: Iterable[str]) -> bool:
    """Whether a request asks for public addresses only, from the values of all lines of that field.

    An absent field is a no, and so is a single `0`, `?0` or `false`. All else is a yes: who sends the field at all
    means to be held back, and a misread no would reach what a yes would not.
    """
    given = list(values)
    if not given:
        return False
    return len(given) > 1 or given[0].strip(" \t").lower() not in _OFF


@dataclass(frozen=True, slots=True)
class GrantList:
    """One list of a grant: its rules as texts that `parse_rule` takes."""

    kind: ListKind
    source: str
    rules: tuple[str, ...]
    methods: tuple[str, ...] | None = None
    sni: str = "enforce"


def _no_limits() -> Mapping[str, int | float]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class GrantDocument:
    """What a job may know of its own grant.

    Attributes:
        job: Its id, if it was registered under one.
        tenant: Its tenant.
        plugin: Its plugin, if any.
        version: Of the policy; grows with every change.
        lists: The lists that apply, endpoints apart.
        endpoints: `host:port` of the services that the tenant's settings name.
        limits: Budgets by name, each with its unit in the name.
        command: Template of the command that allows a host; `{host}` is still open.
        public_only: Whether the grant itself closes private addresses to names.
    """

    job: str | None
    tenant: str
    plugin: str | None
    version: int
    lists: tuple[GrantList, ...]
    endpoints: tuple[str, ...]
    limits: Mapping[str, int | float] = field(default_factory=_no_limits)
    command: str = ""
    public_only: bool = False

    def rule_set(self, *, with_endpoints: bool = False) -> RuleSet:
        """Make the rules ready to match.

        Args:
            with_endpoints: Endpoints match only requests that do not ask for public addresses only, so they are left
                out unless asked for.

        Raises:
            ValueError: A rule does not parse; whoever made the document is at fault, `read_grant` lets none through.
        """
        lists = [_rule_list(each) for each in self.lists]
        if with_endpoints:
            rules = tuple(_rule(parse_endpoint(text)) for text in self.endpoints)
            lists.append(RuleList(ListKind.ENDPOINT, "endpoints", rules))
        return RuleSet(lists)


@dataclass(frozen=True, slots=True)
class BadGrant:
    """Why bytes are no grant document, in fixed words."""

    detail: str


class _OddGrantError(ValueError):
    """A document is not what it should be."""


def _rule(read: Rule | BadRule) -> Rule:
    if isinstance(read, BadRule):
        raise _OddGrantError(f"{read.problem}: {read.found}")
    return read


def _rule_list(given: GrantList) -> RuleList:
    rules = tuple(_rule(parse_rule(text)) for text in given.rules)
    methods = None if given.methods is None else frozenset(given.methods)
    return RuleList(given.kind, given.source, rules, methods, given.sni)


def write_grant(document: GrantDocument) -> bytes:
    """Give the grant as JSON in ASCII."""
    value = {
        "job": document.job,
        "tenant": document.tenant,
        "plugin": document.plugin,
        "version": document.version,
        "lists": [
            {
                "kind": each.kind.value,
                "source": each.source,
                "rules": list(each.rules),
                "methods": None if each.methods is None else list(each.methods),
                "sni": each.sni,
            }
            for each in document.lists
        ],
        "endpoints": list(document.endpoints),
        "limits": dict(document.limits),
        "command": document.command,
        "public_only": document.public_only,
    }
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def read_grant(raw: bytes) -> GrantDocument | BadGrant:
    """Read a grant document, whole or not at all: half a grant would judge wrongly.

    Keys that this side does not know are passed over, so that a newer proxy may say more.
    """
    if len(raw) > GRANT_MAX_BYTES:
        return BadGrant("too long")
    try:
        value = json.loads(raw.decode("utf-8"))
        if not isinstance(value, dict):
            return BadGrant("not an object")
        document = GrantDocument(
            job=_optional_text(value, "job"),
            tenant=_text(value, "tenant"),
            plugin=_optional_text(value, "plugin"),
            version=_integer(value, "version"),
            lists=tuple(_grant_list(each) for each in _sequence(value, "lists")),
            endpoints=_texts(value, "endpoints"),
            limits=_limits(value),
            command=_text(value, "command"),
            public_only=value.get("public_only", False) is not False,
        )
        document.rule_set(with_endpoints=True)
    except (ValueError, RecursionError) as error:
        return BadGrant(str(error)[:120] if isinstance(error, ValueError) else "nested too deep")
    return document


def _text(value: Mapping[str, object], key: str) -> str:
    found = value.get(key)
    if not isinstance(found, str):
        raise _OddGrantError(f"{key} is no text")
    return found


def _optional_text(value: Mapping[str, object], key: str) -> str | None:
    return None if value.get(key) is None else _text(value, key)


def _integer(value: Mapping[str, object], key: str) -> int:
    found = value.get(key)
    if not isinstance(found, int) or isinstance(found, bool):
        raise _OddGrantError(f"{key} is no whole number")
    return found


def _sequence(value: Mapping[str, object], key: str) -> list[object]:
    found = value.get(key)
    if not isinstance(found, list):
        raise _OddGrantError(f"{key} is no list")
    return found


def _texts(value: Mapping[str, object], key: str) -> tuple[str, ...]:
    found = _sequence(value, key)
    texts = tuple(each for each in found if isinstance(each, str))
    if len(texts) != len(found):
        raise _OddGrantError(f"{key} holds more than texts")
    return texts


def _limits(value: Mapping[str, object]) -> Mapping[str, int | float]:
    found = value.get("limits", {})
    if not isinstance(found, dict):
        raise _OddGrantError("limits is no object")
    return MappingProxyType({key: each for key, each in found.items() if isinstance(each, (int, float))})


def _grant_list(value: object) -> GrantList:
    if not isinstance(value, dict):
        raise _OddGrantError("a list is no object")
    sni = value.get("sni", "enforce")
    if not isinstance(sni, str) or sni not in SNI_MODES:
        raise _OddGrantError("sni is none of its words")
    return GrantList(
        kind=ListKind(_text(value, "kind")),
        source=_text(value, "source"),
        rules=_texts(value, "rules"),
        methods=None if value.get("methods") is None else _texts(value, "methods"),
        sni=sni,
    )
