"""Reads one rule, and says what is wrong with a text that is none and what to write instead.

Decides the grammar of a rule: where it applies, on which ports, until when, and how a tunnel's server name is checked.
What several rules mean together is `matching`'s business, and what a list file may hold is `rules`'. Sees no clock: an
end is a number to compare with. Callers import from `rules`.

    docs.python.org          this name only
    *.wikipedia.org          names below, at any depth
    .example.com             the name and all below
    *                        any name
    10.0.0.7, 10.0.0.0/24, [2606:4700::1], [2606:4700::/32]
    ...:8080  ...:8000-8099  ...:*
    ! rule                   deny
    rule sni=off until=2026-12-01T10:00:00Z
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Address, IPv6Network

from egress_policy.addresses import Address, Network, fold, fold_network, parse_address
from egress_policy.authorities import parse_port
from egress_policy.names import BadName, to_name

# An allow rule without ports means the two ports of the web.
DEFAULT_PORTS = (80, 443)
SNI_MODES = ("enforce", "count", "off")

_RULE_MAX_LENGTH = 2048
_SHOWN_LENGTH = 80
_ALL_PORTS = (1, 65535)
_SPANS_OF_DENY = (_ALL_PORTS,)
_SPANS_OF_ALLOW = tuple((port, port) for port in DEFAULT_PORTS)
_BRACKETED = re.compile(r"\[([^\[\]]*)\](/[^:]*)?(?::(.*))?")
_PREFIX_LENGTH = re.compile(r"[0-9]{1,3}")
_UNTIL = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})Z")
_BLANKS = re.compile(r"[ \t]+")


class RuleForm(StrEnum):
    """What a rule names."""

    NAME = "name"
    BELOW = "below"
    SUFFIX = "suffix"
    ANY = "any"
    ADDRESS = "address"
    NETWORK = "network"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        text: As written, blanks evened out; reading it gives the same rule.
        deny: Whether it refuses what it matches.
        form: What it names.
        name: For the forms with a name, without the star or dot before it.
        network: For addresses and networks, IPv4-mapped ones folded; an address is a network of one.
        ports: Spans, both ends included; None when none were given.
        expires: Unix seconds from which on it no longer holds; None for never.
        sni: The exception to the list's way of checking server names.
    """

    text: str
    deny: bool
    form: RuleForm
    name: str | None = None
    network: Network | None = None
    ports: tuple[tuple[int, int], ...] | None = None
    expires: float | None = None
    sni: str | None = None

    @property
    def is_exact(self) -> bool:
        """Whether it names one host."""
        return self.form in {RuleForm.NAME, RuleForm.ADDRESS}

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """The ports it covers, both ends included: without ports a deny covers all, an allow those of the web."""
        if self.ports is not None:
            return self.ports
        return _SPANS_OF_DENY if self.deny else _SPANS_OF_ALLOW

    @property
    def place(self) -> tuple[bool, RuleForm, str | None, Network | None, tuple[tuple[int, int], ...]]:
        """What makes two rules the same, whatever their spelling and their end."""
        return (self.deny, self.form, self.name, self.network, self.spans)

    def covers_port(self, port: int) -> bool:
        """Whether it speaks of this port."""
        return any(first <= port <= last for first, last in self.spans)

    def is_in_force(self, now: float) -> bool:
        """Whether it still holds at `now`, in Unix seconds."""
        return self.expires is None or now < self.expires


@dataclass(frozen=True, slots=True)
class BadRule:
    """Why a text is no rule.

    Attributes:
        found: The part that is wrong, shown in a harmless form.
        problem: What is wrong with it.
        write_instead: What would be right; a whole rule where one can be guessed.
    """

    found: str
    problem: str
    write_instead: str


def shown(text: str) -> str:
    """Give text in a form that is harmless in a terminal or log: bounded, everything unprintable escaped."""
    cut = text if len(text) <= _SHOWN_LENGTH else text[:_SHOWN_LENGTH] + "..."
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in cut)


def parse_rule(text: str) -> Rule | BadRule:
    """Read one rule, without a comment.

    Names are converted to A-labels here, once. Spelling tricks are refused rather than read kindly, since a rule that
    means more than its writer saw is worse than one that is not loaded (case D7).
    """
    if len(text) > _RULE_MAX_LENGTH:
        return BadRule(shown(text), f"longer than {_RULE_MAX_LENGTH} characters", "one rule on a line")
    stripped = text.strip(" \t")
    deny = stripped.startswith("!")
    place, *options = _BLANKS.split(stripped[1:].strip(" \t") if deny else stripped)
    if not place:
        return BadRule(shown(text), "an empty rule", "docs.python.org")
    read = _read_options(options, deny=deny)
    if isinstance(read, BadRule):
        return read
    expires, sni = read
    located = _read_place(place)
    if isinstance(located, BadRule):
        return located
    evened = " ".join((f"! {place}" if deny else place, *options))
    return Rule(evened, deny, located.form, located.name, located.network, located.ports, expires, sni)


@dataclass(frozen=True, slots=True)
class _Place:
    form: RuleForm
    name: str | None
    network: Network | None
    ports: tuple[tuple[int, int], ...] | None


def _read_options(options: list[str], *, deny: bool) -> tuple[float | None, str | None] | BadRule:
    expires: float | None = None
    sni: str | None = None
    for option in options:
        key, equals, value = option.partition("=")
        if key == "until" and equals and expires is None:
            expires = _read_until(value)
            if expires is None:
                return BadRule(shown(option), "no such moment", "until=2026-12-01T10:00:00Z")
        elif key == "sni" and equals and sni is None:
            if deny or value not in SNI_MODES:
                instead = "no sni on a deny rule" if deny else "sni=enforce, sni=count or sni=off"
                return BadRule(shown(option), "no such way to check server names", instead)
            sni = value
        else:
            problem = "given twice" if key in {"until", "sni"} and equals else "not an option of a rule"
            return BadRule(shown(option), problem, "one rule on a line, then sni=... or until=... once, if at all")
    return expires, sni


def _read_until(text: str) -> float | None:
    found = _UNTIL.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = map(int, found.groups())
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _read_place(text: str) -> _Place | BadRule:
    if (pasted := _pasted_url(text)) is not None:
        return pasted
    if text.startswith("["):
        return _read_bracketed(text)
    if "/" in text:
        return _read_network(text)
    if text.count(":") > 1:
        instead = f"[{text}]" if parse_address(text) is not None else "[2606:4700::1] or [2606:4700::1]:443"
        return BadRule(shown(text), "an IPv6 address without brackets", instead)
    host, colon, port_text = text.partition(":")
    ports = _read_ports(port_text) if colon else None
    if isinstance(ports, BadRule):
        return ports
    address = parse_address(host)
    if address is not None:
        return _address_place(address, ports)
    return _read_named(host, ports)


def _pasted_url(text: str) -> BadRule | None:
    """Tell a URL or a host with something around it, and what its host is."""
    if "@" not in text and "://" not in text:
        return None
    _, mark, rest = text.partition("://")
    host = re.split(r"[/?#]", rest if mark else text, maxsplit=1)[0].rpartition("@")[2]
    if mark:
        return BadRule(shown(text), "a URL; a rule names a host", shown(host) or "docs.python.org")
    return BadRule(shown(text), "user info; a rule names a host", shown(host) or "docs.python.org")


def _read_bracketed(text: str) -> _Place | BadRule:
    found = _BRACKETED.fullmatch(text)
    example = "[2606:4700::1], [2606:4700::1]:443 or [2606:4700::/32]"
    if found is None:
        return BadRule(shown(text), "brackets that do not hold one IPv6 address", example)
    inner, length, port_text = found.groups()
    ports = None if port_text is None else _read_ports(port_text)
    if isinstance(ports, BadRule):
        return ports
    if "%" in inner:
        return BadRule(shown(text), "an address with a zone", example)
    if "/" in inner and length is None:
        inner, _, after = inner.partition("/")
        length = f"/{after}"
    address = parse_address(inner)
    if not isinstance(address, IPv6Address):
        return BadRule(shown(text), "brackets that do not hold one IPv6 address", example)
    if length is None:
        return _address_place(address, ports)
    return _network_place(text, address, length[1:], ports)


def _read_network(text: str) -> _Place | BadRule:
    before, _, after = text.partition("/")
    length, colon, port_text = after.partition(":")
    address = parse_address(before)
    if address is None:
        host = before if isinstance(_read_named(before, None), _Place) else "docs.python.org"
        return BadRule(shown(text), "a path or no network; a rule names a host", shown(host))
    ports = _read_ports(port_text) if colon else None
    if isinstance(ports, BadRule):
        return ports
    return _network_place(text, address, length, ports)


def _network_place(
    text: str, address: Address, length_text: str, ports: tuple[tuple[int, int], ...] | None
) -> _Place | BadRule:
    bits = address.max_prefixlen
    if _PREFIX_LENGTH.fullmatch(length_text) is None or int(length_text) > bits:
        return BadRule(shown(text), f"a network has a length from 0 to {bits}", f"{address}/{bits}")
    length = int(length_text)
    kind = IPv6Network if isinstance(address, IPv6Address) else IPv4Network
    network: Network = kind((int(address), length), strict=False)
    if network.network_address != address:
        return BadRule(shown(text), "an address inside a network, not the network", str(network))
    return _Place(RuleForm.NETWORK, None, fold_network(network), ports)


def _address_place(address: Address, ports: tuple[tuple[int, int], ...] | None) -> _Place:
    folded = fold(address)
    network: Network = IPv6Network(int(folded)) if isinstance(folded, IPv6Address) else IPv4Network(int(folded))
    return _Place(RuleForm.ADDRESS, None, network, ports)


def _read_named(host: str, ports: tuple[tuple[int, int], ...] | None) -> _Place | BadRule:
    if host == "*":
        return _Place(RuleForm.ANY, None, None, ports)
    form, rest = RuleForm.NAME, host
    if host.startswith("*."):
        form, rest = RuleForm.BELOW, host[2:]
    elif host.startswith("."):
        form, rest = RuleForm.SUFFIX, host[1:]
    if "*" in rest:
        after = rest.rpartition("*")[2].partition(".")[2]
        instead = f"*.{after}" if after and not isinstance(to_name(after), BadName) else "*.example.com"
        return BadRule(shown(host), "a star stands only as the whole first label", shown(instead))
    name = to_name(rest)
    if isinstance(name, BadName):
        return BadRule(shown(host), name.detail, "docs.python.org, *.wikipedia.org or .example.com")
    return _Place(form, name.text, None, ports)


def _read_ports(text: str) -> tuple[tuple[int, int], ...] | BadRule:
    if text == "*":
        return (_ALL_PORTS,)
    first_text, dash, last_text = text.partition("-")
    first = parse_port(first_text)
    last = parse_port(last_text) if dash else first
    if first is None or last is None:
        return BadRule(shown(text), "a port is a number from 1 to 65535", ":8080, :8000-8099 or :*")
    if first > last:
        return BadRule(shown(text), "a span of ports that ends before it begins", f":{last}-{first}")
    return ((first, last),)
