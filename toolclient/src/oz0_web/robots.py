"""What a robots.txt says of one path: the groups that name a token, the longest rule that matches, and its line.

Pure: bytes in, a decision out, nothing fetched and nothing kept; `robots_gate` does that. Follows RFC 9309 and is
usable alone. Reads more than the grammar asks for where sites get it wrong and the meaning is plain (a missing colon, a
misspelt field name, a stray tag, UTF-16 with its mark): a site that asked to be left alone is left alone.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, field

from oz0_web.limits import ROBOTS_MAX_BYTES

# What each field is called. The misspellings are those that sites are seen to write (case R22).
_AGENT = frozenset({b"user-agent", b"useragent", b"user agent", b"usar-agent", b"user-agents", b"useg-agent"})
_DISALLOW = frozenset(
    {
        b"disallow",
        b"disalow",
        b"dissallow",
        b"dissalow",
        b"disallaw",
        b"diasllow",
        b"desallow",
        b"dsallow",
        b"dissalows",
        b"disallows",
    }
)
_ALLOW = frozenset({b"allow", b"alow", b"alllow", b"allows"})
# The RFC's identifier has no digits (section 2.2.1), yet the tokens of real crawlers do, this client's among them.
_TOKEN = re.compile(rb"[A-Za-z0-9_-]+")
_WITHOUT_COLON = re.compile(rb"([A-Za-z]+(?:-[A-Za-z]+)?)[ \t]+(\S++)")
# No URI holds a bare "<" (RFC 3986 appendix A), so a tag in a line is what an HTML editor put there.
_TAG = re.compile(rb"<[^<>]*+>")
_LINE_END = re.compile(rb"\r\n|\n|\r")
_OCTET = re.compile(rb"%([0-9A-Fa-f]{2})|([^%]|%)", re.DOTALL)
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
# May stand in a query as they are (RFC 3986 section 3.4), so their encoded forms mean the same there.
_PLAIN_IN_QUERY = frozenset(b":/?@")
_ALWAYS_ALLOWED = b"/robots.txt"
_SHOWN_BYTES = 200
_SPACE = b" \t\f\v"


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a path may be fetched, and what said so.

    Attributes:
        is_allowed: The answer.
        rule: The deciding rule as the file has it, such as `Disallow: /private/`; None where no rule matched.
        line: Its line, counted from 1.
        agent: The name of the group that was looked into: the token, `*`, or None where neither has one.
    """

    is_allowed: bool
    rule: str | None = None
    line: int | None = None
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class RobotsRule:
    """One Allow or Disallow line.

    Attributes:
        is_allow: Which of the two.
        pattern: The path pattern, normalised as paths are, wildcards kept.
        text: The line as it is shown: field name and value, the latter cut where it is long.
        line: Counted from 1.
    """

    is_allow: bool
    pattern: bytes
    text: str
    line: int

    def matches(self, path: bytes) -> bool:
        """Whether the pattern matches a normalised path from its start.

        Each piece between wildcards is taken at its first place, which is enough: a later place never leaves more room
        for the next piece. So there is no backtracking, whatever a site writes.

        Source: RFC 9309 section 2.2.3.
        """
        pattern = self.pattern
        is_anchored = pattern.endswith(b"$")
        first, *others = (pattern[:-1] if is_anchored else pattern).split(b"*")
        if not path.startswith(first):
            return False
        at = len(first)
        if not others:
            return not is_anchored or at == len(path)
        last = others.pop() if is_anchored else b""
        for piece in others:
            found = path.find(piece, at)
            if found < 0:
                return False
            at = found + len(piece)
        return not is_anchored or (len(path) - len(last) >= at and path.endswith(last))


@dataclass(frozen=True, slots=True)
class Group:
    """Consecutive User-agent lines and the rules below them.

    Attributes:
        tokens: The lower-case tokens that it names, `*` among them.
        rules: In the file's order.
    """

    tokens: set[str] = field(default_factory=set)
    rules: list[RobotsRule] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Robots:
    """A robots.txt as it was read.

    Attributes:
        groups: In the file's order; those that name one token count together.
        sitemaps: The values of its Sitemap lines, in order; they belong to no group.
    """

    groups: tuple[Group, ...] = ()
    sitemaps: tuple[str, ...] = ()

    def decide(self, token: str, path: str) -> Decision:
        """Say whether a crawler may fetch a path.

        Args:
            token: The crawler's product token, such as `oz0-web`; what follows its first other character is ignored.
            path: Path and query of the URL, such as `/a/b?c=d`; a fragment is ignored, empty means `/`.

        Returns:
            The decision of the longest matching rule, an Allow rule winning a tie; allowed where none matches.

        Source: RFC 9309 sections 2.2.1 and 2.2.2.
        """
        name = product_token(token.encode("utf-8", "replace"))
        agent = next((each for each in (name, "*") if any(each in group.tokens for group in self.groups)), None)
        asked = normalise(path.partition("#")[0].encode("utf-8", "surrogateescape") or b"/")
        if agent is None or asked == _ALWAYS_ALLOWED:
            return Decision(is_allowed=True, agent=agent)
        rules = (rule for group in self.groups if agent in group.tokens for rule in group.rules)
        matching = [rule for rule in rules if rule.matches(asked)]
        if not matching:
            return Decision(is_allowed=True, agent=agent)
        best = max(matching, key=lambda rule: (len(rule.pattern), rule.is_allow))
        return Decision(best.is_allow, best.text, best.line, agent)


def decide(data: bytes | str, token: str, path: str) -> Decision:
    """Say whether a crawler may fetch a path, in one step.

    Args:
        data: The robots.txt.
        token: As for `Robots.decide`.
        path: As for `Robots.decide`.
    """
    return parse_robots(data).decide(token, path)


def parse_robots(data: bytes | str) -> Robots:
    """Read a robots.txt; nothing in it is an error.

    Args:
        data: UTF-8, or UTF-16 with its byte-order mark; only the first `ROBOTS_MAX_BYTES` count. What is not UTF-8 is
            compared byte by byte.

    Source: RFC 9309 sections 2.2 and 2.5.
    """
    octets = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
    groups: list[Group] = []
    sitemaps: list[str] = []
    is_open = False  # whether a further User-agent line still joins the last group
    for number, line in enumerate(_LINE_END.split(_plain(octets[:ROBOTS_MAX_BYTES])), start=1):
        name, value = _field(line)
        if name in _AGENT:
            if not is_open:
                groups.append(Group())
            is_open = True
            if token := "*" if value[:1] == b"*" else product_token(value):
                groups[-1].tokens.add(token)
        elif name in _DISALLOW or name in _ALLOW:
            is_open = False
            if value and groups:
                groups[-1].rules.append(_rule(value, is_allow=name in _ALLOW, line=number))
        elif name in {b"sitemap", b"site-map"} and value:
            sitemaps.append(value.decode("utf-8", "replace"))
    return Robots(tuple(groups), tuple(sitemaps))


def _rule(value: bytes, *, is_allow: bool, line: int) -> RobotsRule:
    shown = f"{'Allow' if is_allow else 'Disallow'}: {value[:_SHOWN_BYTES].decode('utf-8', 'replace')}"
    return RobotsRule(is_allow, normalise(value, is_pattern=True), shown, line)


def product_token(value: bytes) -> str:
    """Give the product token that a value begins with, in lower case; empty where it begins with none."""
    match = _TOKEN.match(value.strip())
    return match[0].decode("ascii").lower() if match else ""


def normalise(path: bytes, *, is_pattern: bool = False) -> bytes:
    """Bring a path or pattern into the form in which they are compared.

    Encoded unreserved characters are decoded, all other encoded ones get upper-case digits, what is not ASCII is
    encoded. A star or dollar sign in a path is encoded, so that it can only meet an encoded one in a pattern.

    Args:
        path: Path and query.
        is_pattern: Whether `*` anywhere and `$` at the end have their special meaning.

    Source: RFC 9309 sections 2.2.2 and 2.2.3.
    """
    front, mark, query = path.partition(b"?")
    done = _octets(front, b"") + (b"?" + _octets(query, bytes(_PLAIN_IN_QUERY)) if mark else b"")
    if not is_pattern:
        return done.replace(b"*", b"%2A").replace(b"$", b"%24")
    anchor = b"$" if done.endswith(b"$") else b""
    return done.removesuffix(b"$").replace(b"$", b"%24") + anchor


def _octets(part: bytes, also_plain: bytes) -> bytes:
    def one(match: re.Match[bytes]) -> bytes:
        if match[1] is None:
            octet = match[2][0]
            return match[2] if 0x20 < octet < 0x7F else b"%%%02X" % octet
        octet = int(match[1], 16)
        return bytes((octet,)) if octet in _UNRESERVED or octet in also_plain else b"%%%02X" % octet

    return _OCTET.sub(one, part)


def _field(line: bytes) -> tuple[bytes, bytes]:
    """Split a line into its field's name, in lower case, and its value; both empty where there is none."""
    line = _TAG.sub(b"", line.partition(b"#")[0]).strip(_SPACE)
    name, colon, value = line.partition(b":")
    name = name.strip(_SPACE).lower()
    if colon and (name in _KNOWN or b" " not in name):
        return name, value.strip(_SPACE)
    # Without a colon, exactly two words; `Disallow /a:b` is one too.
    match = _WITHOUT_COLON.fullmatch(line)
    return (match[1].lower(), match[2]) if match else (b"", b"")


_KNOWN = _AGENT | _ALLOW | _DISALLOW


def _plain(octets: bytes) -> bytes:
    """Give the file as UTF-8 without its mark."""
    if octets.startswith(codecs.BOM_UTF8):
        return octets[len(codecs.BOM_UTF8) :]
    for mark, codec in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        if octets.startswith(mark):
            return octets[len(mark) :].decode(codec, "replace").encode("utf-8", "replace")
    return octets
