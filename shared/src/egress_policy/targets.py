"""Turns the wire's request-targets into `Target`: authority-form for CONNECT, absolute-form for plain requests.

Decides what a request asks for, by a byte-level grammar, whole and once; whoever judges, resolves, dials or logs takes
the parsed value and never the bytes (cases D16, D18). Never judges, never resolves. `Target` itself is made in
`authorities`, and the URLs that people and pages write are read in `urls`; both are handed on here.
Called by the proxy's `judge`, by readers of configuration, and by the client.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from egress_policy.authorities import (
    AUTHORITY_MAX_LENGTH,
    HTTP_PORT,
    HTTPS_PORT,
    BadTarget,
    Target,
    parse_port,
    read_authority,
    same_authority,
)
from egress_policy.urls import BadUrl, Url, parse_url
from egress_policy.vocabulary import Reason

__all__ = [
    "AUTHORITY_MAX_LENGTH",
    "HTTPS_PORT",
    "HTTP_PORT",
    "AbsoluteForm",
    "BadTarget",
    "BadUrl",
    "Target",
    "Url",
    "parse_absolute",
    "parse_authority",
    "parse_port",
    "parse_url",
    "same_authority",
]

_SCHEME = re.compile(rb"([A-Za-z][A-Za-z0-9+.-]*):")
# What may follow the authority. More than RFC 3986 section 3.3 lists, because clients send `|`, `{` and `"` as they
# are and servers take them; but no backslash, which some read as a slash, and no fragment.
_PATH_AND_QUERY = re.compile(rb"[\x21\x22\x24-\x5b\x5d-\x7e]*")
_MEMO_MAX = 4096


@dataclass(frozen=True, slots=True)
class AbsoluteForm:
    """A plain request's target, and the path to ask the origin for.

    Attributes:
        target: The destination.
        path: Origin-form with the query, beginning with `/`.
        is_bare: Whether neither path nor query was given; OPTIONS then asks the origin for `*`
            (RFC 9112 section 3.2.4).
    """

    target: Target
    path: bytes
    is_bare: bool = False


def parse_authority(raw: bytes) -> Target | BadTarget:
    """Read the target of a CONNECT: host, colon, port of 1 to 5 digits.

    Source: RFC 9112 section 3.2.3, RFC 9110 section 9.3.6.
    """
    if len(raw) > AUTHORITY_MAX_LENGTH:
        return BadTarget(Reason.MALFORMED_TARGET, "the target is longer than any host and port")
    return _parse_authority(raw, "https", 0)


# Names come again and again, and the value is as immutable as the bytes; the bound on both keeps a flood of different
# ones at a megabyte or two.
@lru_cache(maxsize=_MEMO_MAX)
def _parse_authority(raw: bytes, scheme: str, default_port: int) -> Target | BadTarget:
    try:
        text = raw.decode("ascii")
    except UnicodeDecodeError:
        return BadTarget(Reason.MALFORMED_TARGET, "a byte that is not ASCII")
    return read_authority(text, scheme=scheme, default_port=default_port)


def parse_absolute(raw: bytes) -> AbsoluteForm | BadTarget:
    """Read the target of a plain request: `http://host[:port][/path][?query]`.

    `https` is refused with the advice to CONNECT: doing TLS for the client would end its end-to-end check, and sending
    clear text to 443 is worse (case D15).

    Source: RFC 9112 section 3.2.2, RFC 9110 section 4.2.1 (user info is refused: section 4.2.4).
    """
    if raw[:7] != b"http://":
        if (other := _other_scheme(raw)) is not None:
            return other
        if raw[:7].lower() != b"http://":
            return BadTarget(Reason.MALFORMED_TARGET, "an http target begins with http://")
    end = _authority_end(raw)
    rest = raw[end:]
    if end - 7 > AUTHORITY_MAX_LENGTH:
        return BadTarget(Reason.MALFORMED_TARGET, "the authority is longer than any host and port")
    if _PATH_AND_QUERY.fullmatch(rest) is None:
        return BadTarget(Reason.MALFORMED_TARGET, "a byte that no path or query has")
    authority = raw[7:end]
    if b"@" in authority:
        return BadTarget(Reason.MALFORMED_TARGET, "user info before the host")
    target = _parse_authority(authority, "http", HTTP_PORT)
    if isinstance(target, BadTarget):
        return target
    if rest[:1] == b"/":
        return AbsoluteForm(target, rest)
    return AbsoluteForm(target, b"/" + rest, is_bare=not rest)


def _authority_end(raw: bytes) -> int:
    slash = raw.find(b"/", 7)
    end = len(raw) if slash < 0 else slash
    query = raw.find(b"?", 7, end)
    return end if query < 0 else query


def _other_scheme(raw: bytes) -> BadTarget | None:
    found = _SCHEME.match(raw)
    if found is None:
        return BadTarget(Reason.MALFORMED_TARGET, "no scheme: a plain request names its target as http://host/")
    scheme = found.group(1).lower()
    if scheme == b"http":
        return None
    if scheme == b"https":
        return BadTarget(Reason.UNSUPPORTED_SCHEME, "https goes through CONNECT")
    return BadTarget(Reason.UNSUPPORTED_SCHEME, "only http is forwarded")
