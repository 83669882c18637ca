"""One GET to one URL through the proxy: the stream opened, asked, and read within time and byte budgets.

`http` goes to the proxy in absolute form, `https` through a tunnel in origin form; only the former carries fields for
the proxy. Follows no redirect and judges nothing: `visit` does. Today each exchange has a connection of its own and
says so (`Connection: close`); what would keep one alive is all inside `open_exchange`.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass

import trio

from egress_policy.targets import Url
from oz0_web.config import Config
from oz0_web.conversation import Conversation
from oz0_web.decoding import ACCEPT_ENCODING, Work, check_end, decode, decoders
from oz0_web.faults import Fault, PeerBroke, PeerCut, ProxyBroke, TimedOut
from oz0_web.identity import USER_AGENT
from oz0_web.limits import CONNECT_SECONDS, FIRST_BYTE_SECONDS, WIRE_SLACK_BYTES
from oz0_web.link import Link
from oz0_web.replies import ReplyHead
from oz0_web.tunnel import ProxyAnswer, open_tunnel, proxy_fields, secure

ACCEPT = "text/html, application/xhtml+xml, text/markdown;q=0.9, text/plain;q=0.9, */*;q=0.5"


@dataclass(frozen=True, slots=True)
class Way:
    """How requests leave.

    Attributes:
        link: The way to the proxy.
        config: Whose credential goes to the proxy.
        trust: Gives the TLS settings; called at the first handshake, since loading the trust store costs CPU that a
            plain request does not need and that must not be spent before CONNECT is on its way.
    """

    link: Link
    config: Config
    trust: Callable[[], ssl.SSLContext]


@dataclass(frozen=True, slots=True)
class Body:
    """A body as it was read.

    Attributes:
        data: Decoded bytes, at most the limit.
        is_cut: Whether there was more than the limit.
    """

    data: bytes
    is_cut: bool


class Exchange:
    """A reply whose head was read and whose body waits."""

    def __init__(self, head: ReplyHead, conversation: Conversation) -> None:
        """Take the head and the conversation that the body is still in."""
        self.head = head
        self._conversation = conversation

    async def read(self, max_bytes: int) -> Body:
        """Read the body up to a limit; reading stops there and the rest is never asked for.

        Args:
            max_bytes: Most bytes to keep, counted after decoding.

        Raises:
            PeerBroke: Broken framing or coding.
            PeerCut: The connection ended before the body did.
        """
        chain = decoders(self.head.members(b"content-encoding"))
        work, kept = Work(max_bytes), bytearray()
        wire_limit = self._conversation.wire_bytes + max_bytes + WIRE_SLACK_BYTES
        async with aclosing(self._conversation.body()) as pieces:
            async for sent in pieces:
                for piece in decode(chain, sent, work):
                    kept += piece
                    if len(kept) > max_bytes:
                        return Body(bytes(kept[:max_bytes]), is_cut=True)
                if self._conversation.wire_bytes > wire_limit:
                    return Body(bytes(kept), is_cut=True)
        check_end(chain)
        return Body(bytes(kept), is_cut=False)


@asynccontextmanager
async def open_exchange(way: Way, url: Url) -> AsyncIterator[Exchange | ProxyAnswer]:
    """Send a GET and give its reply, or what the proxy answered instead.

    Whether a reply to a plain request is the proxy's own or the site's is not decided here, since both come as one.

    Args:
        way: How requests leave.
        url: An http or https URL that was judged.

    Raises:
        ProxyUnreachable, ProxyBroke, TlsFault, TrustFault, PeerBroke, PeerCut, TimedOut: See `faults`.
    """
    with within(CONNECT_SECONDS, "connection through the proxy"):
        opened = await _open(way, url)
    if isinstance(opened, ProxyAnswer):
        yield opened
        return
    try:
        conversation = Conversation(opened)
        with within(FIRST_BYTE_SECONDS, "reply"):
            head = await _ask(conversation, way, url)
        yield Exchange(head, conversation)
    finally:
        # Forcefully: the reply was read as far as it is wanted, and a polite end would wait for the peer.
        await trio.aclose_forcefully(opened)


async def _open(way: Way, url: Url) -> trio.abc.Stream | ProxyAnswer:
    if url.scheme == "http":
        return await way.link.open()
    stream = await open_tunnel(way.link, url.target, way.config)
    if isinstance(stream, ProxyAnswer):
        return stream
    try:
        context = way.trust()
    except Fault:
        await trio.aclose_forcefully(stream)
        raise
    return await secure(stream, url.target.host_text, context)


async def _ask(conversation: Conversation, way: Way, url: Url) -> ReplyHead:
    fields = [
        ("Host", url.origin.removeprefix(f"{url.scheme}://")),
        ("User-Agent", USER_AGENT),
        ("Accept", ACCEPT),
        ("Accept-Encoding", ACCEPT_ENCODING),
        ("Connection", "close"),
    ]
    if url.scheme == "https":
        return await conversation.ask("GET", url.request_path, fields)
    try:
        return await conversation.ask("GET", f"{url.origin}{url.request_path}", [*fields, *proxy_fields(way.config)])
    except (PeerBroke, PeerCut) as error:
        # The proxy answers for its origins: egressd turns a broken origin into a 502 of its own.
        raise ProxyBroke(f"its answer to a plain request is not whole HTTP/1.1: {error.detail}") from error


@contextmanager
def within(seconds: float, waited_for: str) -> Iterator[None]:
    """Bound what happens inside to a time budget.

    Raises:
        TimedOut: The budget was used up.
    """
    with trio.move_on_after(seconds) as scope:
        yield
    if scope.cancelled_caught:
        raise TimedOut(waited_for, seconds)
