"""From a URL to the reply that stands at the end of its redirects, every hop checked before it is asked for.

The border of the client's I/O: faults end here and become a `Stop`, so that whoever calls gets a value whatever
happens. No cookies, no credentials, nothing carried from one hop to the next. Called by `tools`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import trio

from egress_policy.targets import Url
from egress_policy.wire import PROXY_STATUS, read_proxy_status
from oz0_web.exchange import Exchange, Way, open_exchange
from oz0_web.faults import (
    Fault,
    PeerBroke,
    PeerCut,
    ProxyBroke,
    ProxyUnreachable,
    TimedOut,
    TlsFault,
    TrustFault,
)
from oz0_web.grants import Grant, Grants, Unreadable
from oz0_web.hops import check_fixed, check_host, check_rules, check_step
from oz0_web.limits import VISIT_SECONDS
from oz0_web.redirects import next_hop
from oz0_web.refresh import next_refresh
from oz0_web.replies import ReplyHead
from oz0_web.stops import By, Code, Stop, proxy_stop
from oz0_web.tunnel import ProxyAnswer


@dataclass(frozen=True, slots=True)
class Hop:
    """One URL about to be asked for.

    Attributes:
        url: It.
        previous: The URL that redirected to it, or None for the first.
        began: When the visit began, in seconds on trio's clock.
    """

    url: Url
    previous: Url | None
    began: float


# A check gives a stop, or None to go on; further ones (a site's own rules for robots, say) join the visitor's list.
HopCheck: TypeAlias = Callable[[Hop], Awaitable[Stop | None]]
# Looks at the final reply's head before its body is read.
HeadCheck: TypeAlias = Callable[[ReplyHead, Url], Stop | None]


@dataclass(frozen=True, slots=True)
class Visited:
    """The reply at the end of the way.

    Attributes:
        url: The final URL.
        status: Its status, errors included.
        content_type: The Content-Type field, or None.
        data: The decoded body, cut at the limit.
        is_cut: Whether it was.
        chain: The URLs that redirected, first to last.
    """

    url: Url
    status: int
    content_type: str | None
    data: bytes
    is_cut: bool
    chain: tuple[str, ...]


class Visitor:
    """Visits URLs by one way and under one grant."""

    def __init__(
        self,
        way: Way,
        grants: Grants,
        *,
        listed_literals: bool = False,
        follows_refresh: bool = True,
        more_checks: Sequence[HopCheck] = (),
    ) -> None:
        """Take the way out and the grant.

        Args:
            way: How requests leave.
            grants: Where the grant comes from.
            listed_literals: Whether addresses that are not public may be sent if the tenant's list names them.
            follows_refresh: Whether a page that goes elsewhere by itself at once is taken for a redirect.
            more_checks: Further checks of every hop, after the built-in ones and in this order.
        """
        self._way = way
        self._grants = grants
        self._listed_literals = listed_literals
        self._follows_refresh = follows_refresh
        self._checks: tuple[HopCheck, ...] = (self._check_url, self._check_policy, *more_checks)

    async def visit(self, url: Url, *, max_bytes: int, check_head: HeadCheck) -> Visited | Stop:
        """Fetch a URL.

        Args:
            url: Where to begin.
            max_bytes: Most bytes of the body to keep, after decoding.
            check_head: Asked before the body is read.

        Returns:
            The final reply, or why there is none; the URLs so far are in either.
        """
        chain: list[str] = []
        current = url
        began = trio.current_time()
        with trio.move_on_after(VISIT_SECONDS):
            previous: Url | None = None
            while True:
                try:
                    outcome = await self._hop(Hop(current, previous, began), chain, max_bytes, check_head)
                except Fault as fault:
                    outcome = fault_stop(fault, current)
                if isinstance(outcome, Stop):
                    return outcome if outcome.chain else replace(outcome, chain=tuple(chain))
                if isinstance(outcome, Visited):
                    return outcome
                chain.append(current.text)
                previous, current = current, outcome
        late = TimedOut("end of the visit", VISIT_SECONDS)
        return replace(fault_stop(late, current), chain=tuple(chain))

    async def check(self, way: Sequence[Url]) -> Stop | None:
        """Check a way that was gone before as if it were gone again, without asking for anything on it.

        Args:
            way: Its URLs, first to final.

        Returns:
            Why it may not be gone now, or None.
        """
        began = trio.current_time()
        chain: list[str] = []
        previous: Url | None = None
        for url in way:
            try:
                for check in self._checks:
                    if (stop := await check(Hop(url, previous, began))) is not None:
                        return stop if stop.chain else replace(stop, chain=tuple(chain))
            except Fault as fault:
                return replace(fault_stop(fault, url), chain=tuple(chain))
            chain.append(url.text)
            previous = url
        return None

    async def _hop(self, hop: Hop, chain: Sequence[str], max_bytes: int, check_head: HeadCheck) -> Url | Visited | Stop:
        for check in self._checks:
            if (stop := await check(hop)) is not None:
                return stop
        async with open_exchange(self._way, hop.url) as exchange:
            if isinstance(exchange, ProxyAnswer):
                return _refusal(exchange.head, hop.url)
            if hop.url.scheme == "http" and (stop := _plain_refusal(exchange.head, hop.url)) is not None:
                return stop
            return await self._follow_or_read(exchange, hop.url, chain, max_bytes, check_head)

    async def _follow_or_read(
        self, exchange: Exchange, url: Url, chain: Sequence[str], max_bytes: int, check_head: HeadCheck
    ) -> Url | Visited | Stop:
        head = exchange.head
        following = next_hop(head, url, chain)
        if following is not None:
            return following
        if (stop := check_head(head, url)) is not None:
            return stop
        content_type = head.last(b"content-type")
        body = await exchange.read(max_bytes)
        if self._follows_refresh and head.is_success:
            following = next_refresh(body.data, content_type, head.last(b"refresh"), url, chain)
            if following is not None:
                return following
        return Visited(url, head.status, content_type, body.data, body.is_cut, tuple(chain))

    async def _check_url(self, hop: Hop) -> Stop | None:
        return check_step(hop.previous, hop.url) or check_fixed(hop.url, listed_literals=self._listed_literals)

    async def _check_policy(self, hop: Hop) -> Stop | None:
        grant = await self._grants.current()
        stop = _judge(hop.url, grant)
        if stop is not None and isinstance(grant, Grant) and grant.read_at < hop.began:
            # The list may have been changed a moment ago, by the very command that an earlier refusal named.
            stop = _judge(hop.url, await self._grants.since(hop.began))
        return stop


def _judge(url: Url, grant: Grant | Unreadable) -> Stop | None:
    rules = grant.rules if isinstance(grant, Grant) else None
    now = time.time()
    stop = check_host(url, rules, now=now)
    return check_rules(url, rules, now=now) if stop is None and rules is not None else stop


def _plain_refusal(head: ReplyHead, url: Url) -> Stop | None:
    """Tell the proxy's own reply to a plain request from the site's: by Proxy-Status, which no site's reply keeps."""
    is_proxy = head.status == 407 or read_proxy_status(head.all(_PROXY_STATUS)) is not None
    return _refusal(head, url) if is_proxy and not head.is_success else None


def _refusal(head: ReplyHead, url: Url) -> Stop:
    return proxy_stop(url, head.status, head.phrase, read_proxy_status(head.all(_PROXY_STATUS)))


_PROXY_STATUS = PROXY_STATUS.lower().encode("ascii")


def fault_stop(fault: Fault, url: Url) -> Stop:
    """Say what a fault means for the visit."""
    code, by, detail = _meaning(fault)
    return Stop(code=code, by=by, url=url.text, target=url.target, detail=detail)


def _meaning(fault: Fault) -> tuple[Code, By, str]:
    match fault:
        case ProxyUnreachable(proxy=proxy, detail=detail):
            return Code.PROXY_FAILED, By.PROXY, f"{proxy} takes no connection: {detail}"
        case ProxyBroke(detail=detail):
            return Code.PROXY_FAILED, By.PROXY, detail
        case TlsFault(detail=detail):
            return Code.TLS_FAILED, By.SITE, detail
        case TrustFault(path=path, detail=detail):
            return Code.TRUST_STORE, By.CLIENT, f"SSL_CERT_FILE names {path}: {detail}"
        case PeerBroke(detail=detail):
            return Code.SITE_BROKE_HTTP, By.SITE, detail
        case PeerCut(detail=detail):
            return Code.CONNECTION_FAILED, By.SITE, detail
        case TimedOut(waited_for=waited_for, seconds=seconds):
            return Code.TIMED_OUT, By.SITE, f"no {waited_for} within {seconds:g} s"
    raise AssertionError(fault)
