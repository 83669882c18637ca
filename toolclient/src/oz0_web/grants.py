"""The job's own grant, read from the proxy: kept for a short while, asked for anew before a refusal rests on it.

`GET /.well-known/egress` goes to the proxy itself in origin form. Where it cannot be read (switched off, a proxy of
another make, a broken document) there is no local judgement and the proxy decides. Called by `visit` and by `oz0-web
grant`.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

import trio

from egress_policy.rules import RuleSet
from egress_policy.wire import BadGrant, GrantDocument, read_grant
from oz0_web.config import Config, TcpProxy
from oz0_web.conversation import Conversation
from oz0_web.exchange import Exchange, within
from oz0_web.faults import PeerBroke, PeerCut, TimedOut
from oz0_web.identity import USER_AGENT
from oz0_web.limits import GRANT_FRESH_SECONDS, GRANT_MAX_BYTES, GRANT_SECONDS
from oz0_web.link import Link

GRANT_PATH = "/.well-known/egress"


@dataclass(frozen=True, slots=True)
class Grant:
    """A grant as it was read.

    Attributes:
        document: What the proxy said.
        rules: Its rules, endpoints left out (they are not for requests that ask for public addresses only).
        read_at: When, in seconds on trio's clock.
    """

    document: GrantDocument
    rules: RuleSet
    read_at: float


@dataclass(frozen=True, slots=True)
class Unreadable:
    """No grant could be read.

    Attributes:
        detail: Why, for `oz0-web grant`.
        status: The proxy's status if it answered at all.
        read_at: When, in seconds on trio's clock.
    """

    detail: str
    status: int | None
    read_at: float


class Grants:
    """Reads the grant when it is needed and keeps it for `GRANT_FRESH_SECONDS`."""

    def __init__(self, link: Link, config: Config) -> None:
        """Take the way to the proxy; nothing is read yet."""
        self._link = link
        self._config = config
        self._known: Grant | Unreadable | None = None

    @property
    def document(self) -> GrantDocument | None:
        """The document that was read last, however old, or None."""
        return self._known.document if isinstance(self._known, Grant) else None

    async def current(self) -> Grant | Unreadable:
        """Give the grant, at most `GRANT_FRESH_SECONDS` old.

        Raises:
            ProxyUnreachable: The proxy takes no connection, so nothing else would work either.
        """
        return await self.since(trio.current_time() - GRANT_FRESH_SECONDS)

    async def since(self, moment: float) -> Grant | Unreadable:
        """Give the grant as it was at a moment or later.

        Args:
            moment: Seconds on trio's clock.

        Raises:
            ProxyUnreachable: As for `current`.
        """
        if self._known is None or self._known.read_at < moment:
            self._known = await self._read()
        return self._known

    async def _read(self) -> Grant | Unreadable:
        asked_at = trio.current_time()
        try:
            with within(GRANT_SECONDS, "grant"):
                return await self._ask(asked_at)
        except (PeerBroke, PeerCut) as error:
            return Unreadable(error.detail, None, asked_at)
        except TimedOut as error:
            return Unreadable(f"no answer within {error.seconds:g} s", None, asked_at)

    async def _ask(self, asked_at: float) -> Grant | Unreadable:
        stream = await self._link.open()
        try:
            conversation = Conversation(stream)
            head = await conversation.ask("GET", GRANT_PATH, self._fields())
            if head.status != HTTPStatus.OK:
                return Unreadable(f"the proxy answered {head.status} {head.phrase}".rstrip(), head.status, asked_at)
            body = await Exchange(head, conversation).read(GRANT_MAX_BYTES)
        finally:
            await trio.aclose_forcefully(stream)
        if body.is_cut:
            return Unreadable(f"the grant is longer than {GRANT_MAX_BYTES} bytes", head.status, asked_at)
        document = read_grant(body.data)
        if isinstance(document, BadGrant):
            return Unreadable(f"the proxy's answer is not a grant: {document.detail}", head.status, asked_at)
        return Grant(document, document.rule_set(), asked_at)

    def _fields(self) -> list[tuple[str, str]]:
        # RFC 9110 section 7.2 wants a Host even where the target has no authority but the server's own.
        host = str(self._config.proxy) if isinstance(self._config.proxy, TcpProxy) else "localhost"
        fields = [("Host", host), ("User-Agent", USER_AGENT), ("Accept", "application/json"), ("Connection", "close")]
        if self._config.authorization is not None:
            fields.append(("Proxy-Authorization", self._config.authorization))
        return fields
