"""The engine's public functions for façades, the command and Python code: read a page, read the grant.

Has no defaults of its own: a façade brings them (X34). One `Web` is one way out with one configuration; it is made
inside a trio program and needs no closing. Nothing is opened before the first call.
"""

from __future__ import annotations

import functools
import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio

from egress_policy.targets import Url
from oz0_web.config import Config
from oz0_web.exchange import Way
from oz0_web.grants import Grant, Grants, Unreadable
from oz0_web.hops import read_url
from oz0_web.limits import CONVERT_SECONDS
from oz0_web.link import Link
from oz0_web.media_types import RefusedType, parse_media_type, refused_by_label
from oz0_web.page import Output, Page, make_page
from oz0_web.replies import ReplyHead
from oz0_web.report import Told, tell
from oz0_web.robots_gate import RobotsGate
from oz0_web.settings import read_config
from oz0_web.stops import By, Code, Stop
from oz0_web.store import Asked, Kept, Store
from oz0_web.tokens import ESTIMATORS, Estimator
from oz0_web.tunnel import trust
from oz0_web.visit import HopCheck, Visited, Visitor

if TYPE_CHECKING:
    from oz0_web.fitting import Draft, Envelope, Request, TooSmall
    from oz0_web.lookup import PastEnd


@dataclass(frozen=True, slots=True)
class Reading:
    """A page that was read.

    Attributes:
        url: The final URL.
        status: The final status; errors of the site have content too.
        page: Type, title, whole content and notes.
        is_cut: Whether the body was longer than the byte limit.
        chain: The URLs that redirected, first to last.
        fragment: The fragment of the URL that was asked for, or of the one that a redirect gave; or empty.
        age: Seconds since the page was read, where a kept conversion is given.
        has_changed: Whether the page is another than when this caller last asked for it.
        kept: The conversion, and what was made of it since.
    """

    url: str
    status: int
    page: Page
    is_cut: bool
    chain: tuple[str, ...]
    fragment: str = ""
    age: int | None = None
    has_changed: bool = False
    kept: Kept | None = field(default=None, compare=False, repr=False)


class Web:
    """The way out of one job."""

    def __init__(
        self,
        config: Config,
        *,
        listed_literals: bool,
        robots_token: str | None = None,
        trusted: ssl.SSLContext | None = None,
        more_checks: Sequence[HopCheck] = (),
    ) -> None:
        """Take the configuration.

        Args:
            config: From `read_config`.
            listed_literals: Whether addresses that are not public may be asked for if the tenant's list names them.
            robots_token: The product token under which each site's robots.txt is obeyed, or None where robots.txt is
                not asked for.
            trusted: TLS settings to use in place of the system's trust store.
            more_checks: Further checks of every hop.
        """
        self.config = config
        self._store = Store()
        link = Link(config.proxy)
        make_trust = functools.cache(lambda: trusted if trusted is not None else trust(config))
        self._grants = Grants(link, config)
        visitor = functools.partial(
            Visitor, Way(link, config, make_trust), self._grants, listed_literals=listed_literals
        )
        checks = () if robots_token is None else (RobotsGate(visitor(follows_refresh=False), robots_token).check,)
        self._visitor = visitor(more_checks=(*checks, *more_checks))

    async def read(
        self, url: str, *, output: Output, max_bytes: int, caller: str = "", may_be_stored: bool = False
    ) -> Reading | Stop:
        """Read a page.

        Args:
            url: As it was given; parsed here.
            output: What HTML becomes.
            max_bytes: Most bytes of the decoded body to read.
            caller: Whose kept pages may be used.
            may_be_stored: Whether a kept conversion will do. Every check of the way to it is made again all the same.

        Returns:
            The page, whole as far as it was read, or why there is none.
        """
        parsed = read_url(url)
        if isinstance(parsed, Stop):
            return parsed
        key = Asked(caller, parsed.text.partition("#")[0], output)
        if may_be_stored and (kept := self._store.find(key, max_bytes, trio.current_time())) is not None:
            if (stop := await self._visitor.check(kept.way)) is not None:
                return stop
            return _reading(kept, parsed, age=int(trio.current_time() - kept.read_at))
        visited = await self._visitor.visit(parsed, max_bytes=max_bytes, check_head=_check_type)
        if isinstance(visited, Stop):
            return visited
        page = await _convert(visited, output)
        if isinstance(page, Stop):
            return page
        kept = Kept(
            url=visited.url,
            status=visited.status,
            page=page,
            is_cut=visited.is_cut,
            max_bytes=max_bytes,
            way=_way(visited),
            read_at=trio.current_time(),
        )
        return _reading(kept, parsed, has_changed=self._store.keep(key, kept))

    async def fit(self, reading: Reading, request: Request, envelope: Envelope) -> Draft | PastEnd | TooSmall | Stop:
        """Choose the view of a page that answers a request, and fit it.

        Args:
            reading: From `read`, as Markdown.
            request: Checked.
            envelope: How the answer is sent; all of it is counted.

        Returns:
            As `fitting.choose`, or a stop where that took too long.
        """
        make = functools.partial(_choose, reading, request, envelope, ESTIMATORS[self.config.estimator])
        with trio.move_on_after(CONVERT_SECONDS):
            return await trio.to_thread.run_sync(make, abandon_on_cancel=True)
        detail = f"choosing a view of it took longer than {CONVERT_SECONDS:g} s"
        return Stop(code=Code.TIMED_OUT, by=By.CLIENT, url=reading.url, detail=detail, chain=reading.chain)

    async def grant(self) -> Grant | Unreadable:
        """Read the job's grant, anew.

        Raises:
            ProxyUnreachable: The proxy takes no connection.
        """
        return await self._grants.since(trio.current_time())

    def tell(self, stop: Stop) -> Told:
        """Put a stop into words, with the command that the grant names where the grant was read."""
        return tell(stop, self._grants.document)


def _choose(reading: Reading, request: Request, envelope: Envelope, estimator: Estimator) -> Draft | PastEnd | TooSmall:
    """Choose a view, in a thread; what was made of the page for it is kept with the page."""
    from oz0_web.fit import Stored
    from oz0_web.fitting import Past, choose
    from oz0_web.outline import is_markdown
    from oz0_web.views import read_subject

    page = reading.page
    subject = reading.kept.subject if reading.kept is not None else None
    if subject is None:
        subject = read_subject(
            page.content,
            url=reading.url,
            title=page.title,
            is_markdown=is_markdown(page.media_type, reading.url),
            estimator=estimator,
        )
        if reading.kept is not None:
            reading.kept.subject = subject
    stored = Stored(reading.age) if reading.age is not None else None
    past = Past(stored=stored, has_changed=reading.has_changed)
    return choose(subject, request, envelope, estimator, past)


def _way(visited: Visited) -> tuple[Url, ...]:
    before = (read_url(text) for text in visited.chain)
    return (*(url for url in before if isinstance(url, Url)), visited.url)


def _reading(kept: Kept, asked: Url, *, age: int | None = None, has_changed: bool = False) -> Reading:
    return Reading(
        url=kept.url.text,
        status=kept.status,
        page=kept.page,
        is_cut=kept.is_cut,
        chain=tuple(url.text for url in kept.way[:-1]),
        fragment=kept.url.fragment or asked.fragment or "",
        age=age,
        has_changed=has_changed,
        kept=kept,
    )


async def _convert(visited: Visited, output: Output) -> Page | Stop:
    make = functools.partial(make_page, visited.data, visited.content_type, visited.url, output)
    page: Page | RefusedType | None = None
    with trio.move_on_after(CONVERT_SECONDS):
        # A thread, left behind when its time is over: a page that is hard to convert does not hold up a cancel.
        page = await trio.to_thread.run_sync(make, abandon_on_cancel=True)
    if page is None:
        detail = f"its conversion took longer than {CONVERT_SECONDS:g} s"
        return Stop(
            code=Code.TIMED_OUT,
            by=By.CLIENT,
            url=visited.url.text,
            target=visited.url.target,
            detail=detail,
            chain=visited.chain,
        )
    if isinstance(page, RefusedType):
        return _type_stop(page, visited.url, visited.chain)
    return page


def _check_type(head: ReplyHead, url: Url) -> Stop | None:
    refused = refused_by_label(parse_media_type(head.last(b"content-type")))
    return _type_stop(refused, url, ()) if refused is not None else None


def _type_stop(refused: RefusedType, url: Url, chain: tuple[str, ...]) -> Stop:
    return Stop(
        code=Code.TYPE_REFUSED, by=By.CLIENT, url=url.text, target=url.target, detail=refused.found, chain=chain
    )


def web_from_environment(
    environ: Mapping[str, str] | None = None, *, listed_literals: bool, robots_token: str | None = None
) -> Web:
    """Make a `Web` from the environment.

    Args:
        environ: In place of `os.environ`.
        listed_literals: As for `Web`.
        robots_token: As for `Web`.

    Raises:
        ConfigError: No proxy is named, or it cannot be used; nothing is sent then.
    """
    config = read_config(os.environ if environ is None else environ)
    return Web(config, listed_literals=listed_literals, robots_token=robots_token)
