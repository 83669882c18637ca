"""Asks a site's robots.txt before each hop: read once a site, kept ten minutes, and its word told with rule and line.

Fetches by a visitor of its own, so that the way to robots.txt is under the same checks as any page, each redirect too;
only robots.txt itself is not asked about. What the text means is decided by `robots`. Joins the checks of `visit` where
a façade obeys robots (`tools` sees to that).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import trio

from egress_policy.targets import Url
from oz0_web.limits import ROBOTS_FRESH_SECONDS, ROBOTS_MAX_BYTES, ROBOTS_MAX_SITES, ROBOTS_SECONDS
from oz0_web.replies import ReplyHead
from oz0_web.robots import Robots, parse_robots
from oz0_web.stops import POLICY_CODES, By, Code, Stop
from oz0_web.visit import Hop, Visited, Visitor

ROBOTS_PATH = "/robots.txt"
_SHOWN_PATH_CHARACTERS = 200
# Redirects that lead nowhere leave the file unavailable, which allows everything (RFC 9309 sections 2.3.1.2 and
# 2.3.1.3).
_LED_NOWHERE = frozenset({Code.REDIRECT_LIMIT, Code.REDIRECT_LOOP, Code.BAD_URL})
# Ends that came before the site said a word. The page's own request would have met the same, so they are told as what
# they are, and not kept: a rule or a proxy that was mended counts at once.
_BEFORE_THE_SITE = POLICY_CODES | {
    Code.PROXY_FAILED,
    Code.RESOLVE_FAILED,
    Code.TLS_FAILED,
    Code.TRUST_STORE,
}


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A site's robots.txt cannot be read, so nothing of the site may be fetched.

    Attributes:
        detail: What was met in its place.
    """

    detail: str


Known: TypeAlias = Robots | Unreachable


@dataclass(slots=True)
class _Kept:
    """What is known of one site; the lock makes several visits of it wait for one request."""

    known: Known | None = None
    read_at: float = 0.0
    lock: trio.Lock = field(default_factory=trio.Lock)


class RobotsGate:
    """Obeys the robots.txt of every site on the way."""

    def __init__(self, visitor: Visitor, token: str, *, clock: Callable[[], float] = trio.current_time) -> None:
        """Take what robots.txt is fetched by.

        Args:
            visitor: Has the usual checks and not this one.
            token: The product token that is looked for in the files.
            clock: Seconds, never going back.
        """
        self._visitor = visitor
        self._token = token
        self._clock = clock
        self._sites: dict[str, _Kept] = {}

    async def check(self, hop: Hop) -> Stop | None:
        """Refuse a hop that the site's robots.txt disallows, or whose robots.txt cannot be read.

        Returns:
            A stop, or None to go on. What refuses the way to robots.txt itself (a list, the proxy) is given as that
            refusal.
        """
        url = hop.url
        if url.request_path == ROBOTS_PATH:
            return None
        known = await self._of_site(url)
        if isinstance(known, Stop):
            return replace(known, robots_of=url.text)
        if isinstance(known, Unreachable):
            return Stop(
                code=Code.ROBOTS_UNREACHABLE,
                by=By.SITE,
                url=url.text,
                target=url.target,
                detail=f"{url.origin}{ROBOTS_PATH}: {known.detail}",
            )
        decision = known.decide(self._token, url.request_path)
        if decision.is_allowed:
            return None
        where = f"line {decision.line} of {url.origin}{ROBOTS_PATH}, for {decision.agent}"
        return Stop(
            code=Code.ROBOTS_REFUSED,
            by=By.SITE,
            url=url.text,
            target=url.target,
            rule=decision.rule,
            detail=f"{self._token} may not fetch {_shown(url.request_path)} by “{decision.rule}” ({where})",
        )

    async def _of_site(self, url: Url) -> Known | Stop:
        kept = self._sites.pop(url.origin, None) or _Kept()
        self._sites[url.origin] = kept  # at the end of the order: the one asked for last
        if len(self._sites) > ROBOTS_MAX_SITES:
            del self._sites[next(iter(self._sites))]
        async with kept.lock:
            if kept.known is not None and self._clock() - kept.read_at < ROBOTS_FRESH_SECONDS:
                return kept.known
            asked_at = self._clock()
            found = await self._read(url)
            if not isinstance(found, Stop):
                kept.known, kept.read_at = found, asked_at
            return found

    async def _read(self, url: Url) -> Known | Stop:
        robots_url = replace(url, path=ROBOTS_PATH, query=None, fragment=None)
        outcome: Visited | Stop | None = None
        with trio.move_on_after(ROBOTS_SECONDS):
            outcome = await self._visitor.visit(robots_url, max_bytes=ROBOTS_MAX_BYTES, check_head=_take_any)
        if outcome is None:
            return Unreachable(f"no whole answer within {ROBOTS_SECONDS:g} s")
        return _meaning(outcome)


def _meaning(outcome: Visited | Stop) -> Known | Stop:
    """Say what an answer in place of the file means.

    Source: RFC 9309 section 2.3.1.
    """
    if isinstance(outcome, Visited):
        if outcome.status >= 500:
            return Unreachable(f"the site answered {outcome.status}")
        return parse_robots(outcome.data) if outcome.status < 300 else Robots()
    if outcome.code in _LED_NOWHERE:
        return Robots()
    is_dial = outcome.code is Code.CONNECTION_FAILED and outcome.by is By.PROXY
    if outcome.code in _BEFORE_THE_SITE or is_dial:
        return outcome
    return Unreachable(outcome.detail or outcome.code.value)


def _take_any(head: ReplyHead, url: Url) -> Stop | None:  # noqa: ARG001 - every type may hold rules, or none
    return None


def _shown(path: str) -> str:
    return path if len(path) <= _SHOWN_PATH_CHARACTERS else f"{path[:_SHOWN_PATH_CHARACTERS]}…"
