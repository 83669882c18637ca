"""What a destination is: a scheme, a host and a port, read from the text `host:port` by one grammar.

Decides which host and port texts there are, for the wire and for URLs alike; nothing is decoded or mended, so a percent
sign, user info or a character beyond ASCII is malformed (cases D10 and D12). Never judges, never resolves. Called by
`targets` and `urls`; callers outside import from `targets`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from egress_policy.addresses import Address, address_text, parse_address
from egress_policy.names import NAME_MAX_LENGTH, BadName, HostName, parse_name
from egress_policy.vocabulary import Reason

HTTP_PORT = 80
HTTPS_PORT = 443
# A name with its final dot, a colon and five digits; an address in brackets is shorter.
AUTHORITY_MAX_LENGTH = NAME_MAX_LENGTH + 1 + 1 + 5

_PORT = re.compile(r"[0-9]{1,5}")


@dataclass(frozen=True, slots=True)
class Target:
    """A destination as it is judged, dialled and recorded.

    Attributes:
        scheme: `https` for CONNECT and https URLs, `http` for plain requests.
        host: A name or an address, the latter as written (an IPv4-mapped one is not folded yet).
        port: 1 to 65535.
        host_text: The host as text, without brackets.
        authority: `host:port`, an IPv6 address in brackets.
    """

    scheme: str
    host: HostName | Address
    port: int
    host_text: str = field(init=False, repr=False, compare=False)
    authority: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        text = self.host.text if isinstance(self.host, HostName) else address_text(self.host)
        object.__setattr__(self, "host_text", text)
        object.__setattr__(self, "authority", f"[{text}]:{self.port}" if ":" in text else f"{text}:{self.port}")


@dataclass(frozen=True, slots=True)
class BadTarget:
    """Why bytes are no target; `detail` is fixed text with at most a few harmless characters of them."""

    reason: Reason
    detail: str


def read_authority(text: str, *, scheme: str, default_port: int) -> Target | BadTarget:
    """Read `host` or `host:port` with an IPv6 address in brackets, from the wire.

    Args:
        text: At most some hundred characters.
        scheme: What the target's scheme becomes.
        default_port: What an absent port stands for; 0 where a port is required.
    """
    host, port_text = split_authority(text)
    parsed = read_host(host)
    if isinstance(parsed, BadTarget):
        return parsed
    if port_text is None:
        if not default_port:
            return BadTarget(Reason.MALFORMED_PORT, "the port is missing")
        return Target(scheme, parsed, default_port)
    port = parse_port(port_text)
    if port is None:
        return BadTarget(Reason.MALFORMED_PORT, "a port is a number from 1 to 65535")
    return Target(scheme, parsed, port)


def split_authority(text: str) -> tuple[str, str | None]:
    """Give host (brackets kept) and port text of an authority; the port is None when there is no colon for it.

    The split is at the last colon, as in every parser that has brackets: what is left of it must then be a host.
    """
    if text.startswith("[") and text.endswith("]"):
        return text, None
    host, colon, port = text.rpartition(":")
    return (host, port) if colon else (text, None)


def read_host(text: str) -> HostName | Address | BadTarget:
    """Read one host: a name, an IPv4 address, or an IPv6 address in brackets."""
    if text.startswith("["):
        return _read_bracketed(text)
    # The last character tells the two apart: a name whose last label ends in a digit may still be one (`a.b2`), but
    # no address ends in a letter.
    if text[-1:].isdigit():
        address = parse_address(text) if ":" not in text else None
        if address is not None:
            return address
    name = parse_name(text)
    return BadTarget(Reason.MALFORMED_TARGET, name.detail) if isinstance(name, BadName) else name


def _read_bracketed(text: str) -> Address | BadTarget:
    inner = text[1:-1]
    if not text.endswith("]") or ":" not in inner:
        return BadTarget(Reason.MALFORMED_TARGET, "brackets hold an IPv6 address")
    bare, percent, _ = inner.partition("%")
    address = parse_address(bare)
    if address is None:
        return BadTarget(Reason.MALFORMED_TARGET, "brackets hold an IPv6 address")
    if percent:
        return BadTarget(Reason.SCOPED_IP, "an address with a zone")
    return address


def parse_port(text: str) -> int | None:
    """Read a port: 1 to 5 ASCII digits, 1 to 65535; no sign, no blank, no underscore, no other script's digits."""
    if _PORT.fullmatch(text) is None:
        return None
    port = int(text)
    return port if 1 <= port <= 65535 else None


def same_authority(value: bytes, target: Target) -> bool:
    """Whether a Host field names the target: the same text after case and final dot, the same port if it gives one.

    Text, not meaning: another spelling of the same address is another destination to whoever reads only Host.

    Source: RFC 9112 section 3.2.
    """
    if len(value) > AUTHORITY_MAX_LENGTH or not value.isascii():
        return False
    host, port = split_authority(value.decode("ascii").lower())
    if port is not None and parse_port(port) != target.port:
        return False
    if isinstance(target.host, HostName):
        return host.removesuffix(".") == target.host_text
    return host == (f"[{target.host_text}]" if ":" in target.host_text else target.host_text)
