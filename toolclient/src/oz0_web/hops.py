"""What is checked of every URL before it is asked for, the first and each redirect's alike: text, host and grant.

Pure. The client's own checks come first and need no grant (a URL that does not parse, user info, a step from https to
http, a floor name, an address that is not public); then the grant's rules, where there is a grant. The proxy judges
everything again, so nothing here opens anything; it saves a request and says why in better words. Called by `visit` and
`redirects`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network

from egress_policy.addresses import Address, AddressClass, classify, fold, is_metadata
from egress_policy.names import HostName, is_floor_name, is_localhost
from egress_policy.reasons import Reason
from egress_policy.rules import ListKind, MatchOutcome, RuleForm, RuleSet
from egress_policy.targets import BadUrl, Target, Url, parse_url
from oz0_web.limits import URL_MAX_CHARACTERS
from oz0_web.stops import By, Code, Stop

SCHEMES = frozenset({"http", "https"})
_SHOWN_CHARACTERS = 200
# Never lifted, not even by a rule that names the address (REQUIREMENTS 1.2); the rest of the floor is the proxy's to
# judge where the tenant's list names the very address, because a node for tests may have opened it.
_LINK_LOCAL = (IPv4Network("169.254.0.0/16"), IPv6Network("fe80::/10"))


def read_url(text: str, *, base: Url | None = None, chain: Sequence[str] = ()) -> Url | Stop:
    """Parse a URL that a caller or a redirect gave.

    Args:
        text: As it was given.
        base: What it is relative to.
        chain: The URLs asked before it.

    Returns:
        An http or https URL without user info, or a stop.
    """
    shown = _shown(text)
    if len(text) > URL_MAX_CHARACTERS:
        return Stop(
            code=Code.BAD_URL,
            by=By.CLIENT,
            url=shown,
            detail=f"it is longer than {URL_MAX_CHARACTERS} characters",
            chain=tuple(chain),
        )
    url = parse_url(text, base)
    if isinstance(url, BadUrl):
        is_scheme = url.reason is Reason.UNSUPPORTED_SCHEME
        return Stop(
            code=Code.SCHEME_REFUSED if is_scheme else Code.BAD_URL,
            by=By.CLIENT,
            url=shown,
            reason=url.reason.value,
            detail=url.detail,
            chain=tuple(chain),
        )
    return url


def check_step(previous: Url | None, url: Url) -> Stop | None:
    """Refuse a redirect from https to http: what was asked in private is not repeated in the open."""
    if previous is not None and previous.scheme == "https" and url.scheme == "http":
        return Stop(code=Code.DOWNGRADE_REFUSED, by=By.CLIENT, url=url.text, target=url.target)
    return None


def check_fixed(url: Url, *, listed_literals: bool) -> Stop | None:
    """Refuse what no grant opens: floor names, metadata and link-local addresses; for some façades, all not public.

    Args:
        url: The hop.
        listed_literals: Whether an address that the tenant's list names may be sent although it is not public.
    """
    host = url.target.host
    if isinstance(host, HostName):
        is_refused = is_floor_name(host) and not is_localhost(host)
        return _not_public(url, Reason.FORBIDDEN_NAME) if is_refused else None
    is_refused = classify(host) is not AddressClass.PUBLIC and (not listed_literals or _is_never_lifted(host))
    return _not_public(url, Reason.FORBIDDEN_ADDRESS) if is_refused else None


def check_host(url: Url, rules: RuleSet | None, *, now: float) -> Stop | None:
    """Refuse what is not public by its own text, unless the tenant's list names this very host.

    Args:
        url: A hop that `check_fixed` let pass.
        rules: The grant's rules, or None where it cannot be read.
        now: Unix seconds.

    Returns:
        A stop, or None where the name is the proxy's to resolve or the address may be sent.
    """
    target = url.target
    if rules is not None and _names_it(target, rules, now):
        return None
    if isinstance(target.host, HostName):
        return _not_public(url, Reason.FORBIDDEN_NAME) if is_floor_name(target.host) else None
    match classify(target.host):
        case AddressClass.PUBLIC:
            return None
        case AddressClass.FLOOR:
            return _not_public(url, Reason.FORBIDDEN_ADDRESS)
        case AddressClass.PRIVATE:
            return None if rules is None else _not_public(url, Reason.IP_NOT_ON_ALLOWLIST)


def check_rules(url: Url, rules: RuleSet, *, now: float) -> Stop | None:
    """Match a hop against the grant's rules.

    Args:
        url: The hop.
        rules: Tenant's and plugin's rules; endpoints are not among them.
        now: Unix seconds, for rules with an end.
    """
    target = url.target
    match = rules.match(target, now=now)
    absent = Reason.NOT_ON_ALLOWLIST if isinstance(target.host, HostName) else Reason.IP_NOT_ON_ALLOWLIST
    reasons = {
        MatchOutcome.DENIED: Reason.DENIED_BY_RULE,
        MatchOutcome.PORT: Reason.PORT_NOT_ALLOWED,
        MatchOutcome.NONE: absent,
    }
    if match.outcome is not MatchOutcome.ALLOWED:
        reason = reasons[match.outcome]
    elif not rules.method_allowed("GET" if url.scheme == "http" else "CONNECT", target, now=now):
        reason = Reason.METHOD_NOT_ALLOWED
    else:
        return None
    return Stop(
        code=Code.NOT_ALLOWED,
        by=By.LIST,
        url=url.text,
        target=target,
        reason=reason.value,
        rule=match.rule.text if match.rule is not None else None,
    )


def _names_it(target: Target, rules: RuleSet, now: float) -> bool:
    """Whether the tenant's list names this very host."""
    match = rules.match(target, now=now)
    if match.outcome is not MatchOutcome.ALLOWED or match.kind is not ListKind.TENANT or match.rule is None:
        return False
    return match.rule.form is RuleForm.ADDRESS or (match.exact and match.rule.form is RuleForm.NAME)


def _is_never_lifted(address: Address) -> bool:
    folded = fold(address)
    return is_metadata(folded) or any(folded in network for network in _LINK_LOCAL if network.version == folded.version)


def _not_public(url: Url, reason: Reason) -> Stop:
    return Stop(code=Code.NOT_PUBLIC, by=By.CLIENT, url=url.text, target=url.target, reason=reason.value)


def _shown(text: str) -> str:
    """Give a URL that did not parse in a form fit for a message: bounded, printable, no password in it.

    Where such a text has an at sign anywhere before its query, all before the last one goes: what is user info and what
    is path is just what could not be told.
    """
    text = text[:_SHOWN_CHARACTERS]
    front, mark, query = re.split(r"([?#])", text, maxsplit=1) if re.search("[?#]", text) else (text, "", "")
    if "@" in front:
        scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://|", front)
        front = f"{scheme[0] if scheme else ''}…@{front.rpartition('@')[2]}"
    return "".join(each if each.isprintable() else "�" for each in f"{front}{mark}{query}")
