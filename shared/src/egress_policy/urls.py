"""Reads the URLs that people, pages and redirects write, and resolves relative ones.

Decides what an http or https URL means: as browsers do (WHATWG URL) wherever two parsers would agree on the host, and a
refusal wherever they would not. Refused are user info, backslashes and control characters before the path, percent
escapes and odd IPv4 forms in the host, and any number of slashes but two before it. What it gives is already in the
form that goes on the wire, so nothing is parsed a second time. Never judges, never resolves names.
Called by the client for every address it is given or finds; callers import it from `targets`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

from egress_policy.addresses import Address, address_text
from egress_policy.authorities import HTTP_PORT, HTTPS_PORT, BadTarget, Target, parse_port, read_host, split_authority
from egress_policy.names import BadName, HostName, to_name
from egress_policy.vocabulary import Reason

# Longer than any server takes: browsers stop between 64 KiB and 2 MiB, most servers at 8 to 16 KiB.
URL_MAX_LENGTH = 65536
_HOST_MAX_LENGTH = 1024
_DEFAULT_PORTS = {"http": HTTP_PORT, "https": HTTPS_PORT}

_EDGES = "".join(map(chr, range(0x21)))  # C0 controls and space
_TAB_AND_NEWLINE = str.maketrans("", "", "\t\n\r")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
# All that decides on the host: a scheme, slashes of either kind, and the segment after them.
_FRONT = re.compile(r"(?:[^/\\?#:]*+:)?+[/\\\t\n\r]*+[^/\\?#]*+")
_UNSAFE_IN_FRONT = re.compile(r"[\\\x00-\x1f\x7f]")
_SURROGATE = re.compile("[\ud800-\udfff]")

# Printable ASCII that is kept as it is; `quote` keeps letters, digits and `_.-~` anyway. What `%` begins is not looked
# at: an escape stays an escape.
_KEPT_IN_PATH = "!$%&'()*+,/:;=@[]|"
# A backslash is escaped, unlike in browsers: the proxy takes none anywhere in a target.
_KEPT_IN_QUERY = "!$%&()*+,/:;=?@[]^`{|}"
_KEPT_IN_FRAGMENT = "!#$%&'()*+,/:;=?@[\\]^{|}"
_ONE_DOT = frozenset({".", "%2e"})
_TWO_DOTS = frozenset({"..", ".%2e", "%2e.", "%2e%2e"})


@dataclass(frozen=True, slots=True)
class Url:
    """An http or https URL in the one form that is used, kept and compared.

    Attributes:
        scheme: `http` or `https`.
        host: A name or an address.
        port: 1 to 65535, the scheme's own when the URL gives none.
        path: Percent-encoded ASCII without dot segments, beginning with `/`.
        query: Percent-encoded ASCII without the question mark; None when there is none.
        fragment: The same for the number sign; never sent.
    """

    scheme: str
    host: HostName | Address
    port: int
    path: str
    query: str | None = None
    fragment: str | None = None

    @property
    def target(self) -> Target:
        """The destination."""
        return Target(self.scheme, self.host, self.port)

    @property
    def request_path(self) -> str:
        """Path and query, as a request line has them."""
        return self.path if self.query is None else f"{self.path}?{self.query}"

    @property
    def origin(self) -> str:
        """Scheme, host, and the port if it is not the scheme's own."""
        text = self.host.text if isinstance(self.host, HostName) else address_text(self.host)
        host = f"[{text}]" if ":" in text else text
        return (
            f"{self.scheme}://{host}"
            if self.port == _DEFAULT_PORTS[self.scheme]
            else f"{self.scheme}://{host}:{self.port}"
        )

    @property
    def text(self) -> str:
        """The whole URL as ASCII text; reading it gives this value again."""
        fragment = "" if self.fragment is None else f"#{self.fragment}"
        return f"{self.origin}{self.request_path}{fragment}"


@dataclass(frozen=True, slots=True)
class BadUrl:
    """Why a text is no URL that is fetched; `detail` is fixed text with at most a few harmless characters of it."""

    reason: Reason
    detail: str


def parse_url(text: str, base: Url | None = None) -> Url | BadUrl:
    """Read a URL, absolute or relative to a base.

    Args:
        text: As it was found; blanks around it are dropped, tabs and newlines inside path, query and fragment too.
        base: What a relative URL is relative to; None where only an absolute one will do.

    Source: WHATWG URL, "basic URL parser" for special schemes.
    """
    if len(text) > URL_MAX_LENGTH:
        return BadUrl(Reason.MALFORMED_TARGET, f"longer than {URL_MAX_LENGTH} characters")
    text = _SURROGATE.sub("\ufffd", text).strip(_EDGES)
    front = _FRONT.match(text)
    if front is None or _UNSAFE_IN_FRONT.search(front.group()) is not None:
        return BadUrl(Reason.MALFORMED_TARGET, "a backslash or control character before the path")
    rest = text[front.end() :].translate(_TAB_AND_NEWLINE)
    text = front.group() + rest
    found = _read(text, base)
    # Escapes and the base's path may have made it longer.
    if isinstance(found, Url) and len(found.text) > URL_MAX_LENGTH:
        return BadUrl(Reason.MALFORMED_TARGET, f"longer than {URL_MAX_LENGTH} characters")
    return found


def _read(text: str, base: Url | None) -> Url | BadUrl:
    scheme = _SCHEME.match(text)
    if scheme is not None:
        return _absolute(scheme.group(1).lower(), text[scheme.end() :])
    if base is None:
        return BadUrl(Reason.MALFORMED_TARGET, "no scheme: a URL begins with http:// or https://")
    if text.startswith("//"):
        return _with_authority(base.scheme, text[2:])
    return _relative(text, base)


def _absolute(scheme: str, rest: str) -> Url | BadUrl:
    if scheme not in _DEFAULT_PORTS:
        return BadUrl(Reason.UNSUPPORTED_SCHEME, "only http and https are fetched")
    if not rest.startswith("//"):
        return BadUrl(Reason.MALFORMED_TARGET, "two slashes belong between scheme and host")
    return _with_authority(scheme, rest[2:])


def _with_authority(scheme: str, rest: str) -> Url | BadUrl:
    end = min((place for mark in "/?#" if (place := rest.find(mark)) >= 0), default=len(rest))
    authority = rest[:end]
    if "@" in authority:
        return BadUrl(Reason.MALFORMED_TARGET, "user info before the host")
    host_text, port_text = split_authority(authority)
    host = _host(host_text)
    if isinstance(host, BadUrl):
        return host
    port = parse_port(port_text) if port_text else _DEFAULT_PORTS[scheme]
    if port is None:
        return BadUrl(Reason.MALFORMED_PORT, "a port is a number from 1 to 65535")
    path, query, fragment = _split(rest[end:])
    return Url(scheme, host, port, _path(path.split("/")[1:]), _query(query), _fragment(fragment))


def _host(text: str) -> HostName | Address | BadUrl:
    if len(text) > _HOST_MAX_LENGTH:
        return BadUrl(Reason.MALFORMED_TARGET, "the host is longer than any name")
    if not text.isascii():
        # The name that people see becomes the one that is judged here, once; an address written in other digits
        # becomes one with a last label that is a number, and that is no name.
        name = to_name(text)
        return BadUrl(Reason.MALFORMED_TARGET, name.detail) if isinstance(name, BadName) else name
    host = read_host(text)
    return BadUrl(host.reason, host.detail) if isinstance(host, BadTarget) else host


def _split(text: str) -> tuple[str, str | None, str | None]:
    before, number_sign, fragment = text.partition("#")
    path, mark, query = before.partition("?")
    return path.replace("\\", "/"), query if mark else None, fragment if number_sign else None


def _relative(text: str, base: Url) -> Url:
    path, query, fragment = _split(text)
    if path.startswith("/"):
        joined = _path(path.split("/")[1:])
    elif path:
        joined = _path(base.path.split("/")[1:-1] + path.split("/"))
    else:
        joined = base.path
        if query is None:
            return Url(base.scheme, base.host, base.port, joined, base.query, _fragment(fragment))
    return Url(base.scheme, base.host, base.port, joined, _query(query), _fragment(fragment))


def _path(segments: list[str]) -> str:
    """Join the segments after the first slash, dot segments resolved."""
    kept: list[str] = []
    is_open = True  # whether the path ends in a slash
    for segment in segments:
        folded = segment.lower() if len(segment) <= 6 else segment  # `%2e%2e` is the longest dot segment
        if folded in _TWO_DOTS:
            if kept:
                kept.pop()
            is_open = True
        elif folded in _ONE_DOT:
            is_open = True
        else:
            kept.append(segment)
            is_open = False
    if is_open:
        kept.append("")
    return quote("/" + "/".join(kept), safe=_KEPT_IN_PATH)


def _query(text: str | None) -> str | None:
    return None if text is None else quote(text, safe=_KEPT_IN_QUERY)


def _fragment(text: str | None) -> str | None:
    return None if text is None else quote(text, safe=_KEPT_IN_FRAGMENT)
