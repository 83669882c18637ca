"""One client from its first byte to its last: read this page first.

The methods are the steps, in their order: head, judge, resolve, pin, dial, answer; then a CONNECT becomes a `Tunnel`
and a plain request an `Exchange`. Everything that decides is called, not inlined: `judge`, `pinning`, `framing`,
`views`. A refusal is a value until `refuse` writes its record and its bytes; after it nothing more is parsed (case E1).

Made by a listener for each client it accepts. Never reads a policy file, never resolves, never blocks.
"""

from __future__ import annotations

import socket
import time
from functools import partial
from typing import TYPE_CHECKING

from egress_policy.names import HostName
from egress_policy.reasons import ErrorType, Reason, Refusal, Stage
from egressd import views
from egressd.answers import ResolveFault
from egressd.forwarding import is_last_hop
from egressd.http_head import NEED_MORE, BadHead, HeadReader
from egressd.judge import Asked, GrantAsked, read_request
from egressd.pinning import PinnedTarget, is_mixed, pin
from egressd.worker.channel import Known, Route
from egressd.worker.client import Client
from egressd.worker.dialer import Dial, DialFault
from egressd.worker.exchange import Exchange
from egressd.worker.poller import IN
from egressd.worker.tunnel import Tunnel

if TYPE_CHECKING:
    from collections.abc import Callable

    from egress_policy.targets import Target
    from egressd.answers import Answers
    from egressd.grants import Grant
    from egressd.http_head import RequestHead
    from egressd.pinning import Place
    from egressd.worker.channel import Channel
    from egressd.worker.core import Core
    from egressd.worker.resolver import Lookup


class Connection(Client):
    """A client connection that is not yet a tunnel, or is between and within plain requests."""

    # What a new connection starts with; in the class, because most connections never change most of it.
    reader: HeadReader | None = None
    head: RequestHead | None = None
    asked: Asked | None = None
    route: Route | None = None
    lookup: Lookup | None = None
    dial: Dial | None = None
    plain: Exchange | None = None
    exchange: Exchange | None = None
    started = 0.0
    step_started = 0.0
    dns_seconds = 0.0
    connect_seconds = 0.0

    def __init__(self, core: Core, channel: Channel, sock: socket.socket) -> None:
        super().__init__(core, sock)
        self.channel = channel
        core.poller.handlers[sock.fileno()] = self.on_head
        core.connections.add(self)
        channel.open += 1

    # Head

    def on_head(self, _events: int) -> None:
        """Read a head, whole or a piece of it."""
        chunk = self.receive()
        if chunk:
            self.feed(chunk)
        elif chunk is not None:
            self.close()  # between requests, or in the middle of a head: there is nothing to answer

    def feed(self, chunk: bytes) -> None:
        """Take the bytes of a head; the deadline runs from its first byte to its last, not per read."""
        core = self.core
        reader = self.reader
        is_first = reader is None
        if reader is None:
            self.started = core.poller.now
            if self._recall(chunk):
                return
            reader = self.reader = HeadReader(core.limits.head_max_bytes, core.limits.head_max_fields)
        head = reader.feed(chunk)
        if head is NEED_MORE:
            core.sweep.arm(self, self.started + core.limits.head_timeout_seconds)
        elif isinstance(head, BadHead):
            self.refuse(Refusal(head.reason, Stage.PARSE))
        else:
            self.head = head
            if reader.rest:
                self.early = reader.rest
            self.judge(head, chunk if is_first and not reader.rest else None)

    def _recall(self, chunk: bytes) -> bool:
        """Go on at once if these very bytes are a whole head that this policy version has judged before."""
        known = self.channel.known.get(chunk)
        core = self.core
        if known is None or core.draining or core.log_required or known.route.until <= time.time():
            return False
        self.head, self.asked, self.route = known.head, known.asked, known.route
        if known.plain is not None:
            self.plain = Exchange(self, known.head, *known.plain)
        self.proceed(known.route)
        return True

    # Judge

    def judge(self, head: RequestHead, raw: bytes | None) -> None:
        """Read what is asked and judge it, before anything is looked up.

        Args:
            raw: The head's bytes, if it came whole and alone.
        """
        grant = self.channel.grant
        if grant is None:
            self.refuse(Refusal(Reason.POLICY_UNAVAILABLE, Stage.GRANT))
            return
        asked = read_request(head, grant.proxy_names)
        if isinstance(asked, Refusal):
            self.refuse(asked)
            return
        if isinstance(asked, GrantAsked):
            self.answer_grant(grant)
            return
        self.asked = asked
        if self.core.draining:
            self.refuse(Refusal(Reason.DRAINING, Stage.CHANNEL, asked.target))
            return
        if self.core.log_required and self.core.journal.failing:
            self.refuse(Refusal(Reason.BUSY, Stage.CHANNEL, asked.target))
            return
        route = self.route = self.channel.judge(head, asked, grant, time.time())
        if is_last_hop(head) and not isinstance(route.verdict, Refusal):
            self.core.reporter.answered(self)
            self.finish(views.options_response())
            return
        known = Known(head, asked, route)
        if head.method != "CONNECT" and not isinstance(route.verdict, Refusal):
            forwardable = Exchange.forwardable(head, asked)
            if isinstance(forwardable, Refusal):
                self.refuse(forwardable)
                return
            known.plain = forwardable
            self.plain = Exchange(self, head, *forwardable)
        if raw is not None:
            self.channel.know(raw, known)
        self.proceed(route)

    def proceed(self, route: Route) -> None:
        """Refuse or go on, as the verdict says."""
        verdict = route.verdict
        if isinstance(verdict, Refusal):
            self.refuse(verdict)
        else:
            self.resolve()

    # Resolve and pin

    def resolve(self) -> None:
        """Find the addresses: pinned already, in the cache, or by a look-up; nothing is looked up for a refusal."""
        route = self.route
        assert route is not None  # noqa: S101 - judge() has set it
        verdict = route.verdict
        assert not isinstance(verdict, Refusal)  # noqa: S101
        now = self.core.poller.now
        if route.pinned is not None and route.pinned.expires > now:
            self.connect(route.pinned)
            return
        host = verdict.target.host
        if not isinstance(host, HostName):
            self.pin(None)
            return
        answers = self.core.resolver.cached(host.text, now)
        if answers is not None:
            self.pin(answers)
            return
        # What comes meanwhile is not a head: it waits, as it does while the target is dialed (cases E1, E2).
        self.core.poller.handlers[self.sock.fileno()] = self.on_early
        self.step_started = time.monotonic()
        self.wait(self.core.limits.dns_timeout_seconds + 1.0)
        self.lookup = self.core.resolver.lookup(host.text, now, self._resolved, owner=self.channel.name)

    def _resolved(self, result: Answers | ResolveFault) -> None:
        self.lookup = None
        if self.closed:
            return
        self.dns_seconds = time.monotonic() - self.step_started
        if isinstance(result, ResolveFault):
            error = ErrorType.DNS_TIMEOUT if result.kind == "timeout" else ErrorType.DNS_ERROR
            self.refuse(Refusal(Reason.RESOLVE_FAILED, Stage.RESOLVE, self._target(), error=error))
            return
        if self._judged_anew():
            # A swap during the look-up may have given the name addresses of its own.
            known = self.core.resolver.cached(self._name(), self.core.poller.now)
            self.pin(known or result)

    def _name(self) -> str:
        target = self._target()
        return target.host_text if target is not None else ""

    def _judged_anew(self) -> bool:
        """Whether the target is still allowed, by the policy of this moment if that is another than before the wait."""
        head, asked, grant, route = self.head, self.asked, self.channel.grant, self.route
        assert head is not None  # noqa: S101 - set before any look-up
        assert asked is not None  # noqa: S101
        if grant is None:
            self.refuse(Refusal(Reason.POLICY_UNAVAILABLE, Stage.GRANT, asked.target))
            return False
        if route is None or route.grant is not grant or route.until <= time.time():
            route = self.route = self.channel.judge(head, asked, grant, time.time())
        if isinstance(route.verdict, Refusal):
            self.refuse(route.verdict)
            return False
        return True

    def pin(self, answers: Answers | None) -> None:
        """Judge every address and fix those that may be dialed."""
        route = self.route
        assert route is not None  # noqa: S101 - judge() has set it
        allowed, grant = route.verdict, route.grant
        assert not isinstance(allowed, Refusal)  # noqa: S101 - a refused target is not resolved
        unix_now = time.time()
        pinned = pin(allowed, answers, grant, now=self.core.poller.now, unix_now=unix_now)
        if isinstance(pinned, Refusal):
            if answers is not None and is_mixed(allowed, answers, grant, unix_now=unix_now):
                self.core.counts.mixed_answers += 1
            self.refuse(pinned)
            return
        route.pinned = pinned
        self.connect(pinned)

    # Dial

    def connect(self, pinned: PinnedTarget) -> None:
        """Connect to the pinned target; a plain request takes an idle connection to it first."""
        plain = self.plain
        if plain is not None:
            self.exchange = plain
            plain.start(pinned)
            return
        self.start_dial(pinned, self._connected)

    def start_dial(self, pinned: PinnedTarget, done: Callable[[socket.socket | DialFault, Place | None], None]) -> None:
        """Dial; meanwhile what the client sends is kept, up to a bound."""
        poller = self.core.poller
        poller.handlers[self.sock.fileno()] = self.on_early
        self.step_started = time.monotonic()
        dial = self.dial = Dial(self.core, pinned, done)
        dial.start()
        if self.dial is dial:
            self.wait(self.core.limits.dial_timeout_seconds + 1.0)

    def _connected(self, result: socket.socket | DialFault, place: Place | None) -> None:
        """Judge once more what was connected to, then answer."""
        self.end_dial()
        if isinstance(result, DialFault):
            self.refuse(Refusal(Reason.DIAL_FAILED, Stage.DIAL, self._target(), error=result.error))
            return
        assert place is not None  # noqa: S101 - a socket comes with its place
        refusal = self.recheck(place)
        if refusal is not None:
            result.close()
            self.refuse(refusal)
            return
        self.answer(result, place)

    def end_dial(self) -> None:
        """The dial has ended, one way or the other."""
        self.dial = None
        self.connect_seconds = time.monotonic() - self.step_started

    def recheck(self, place: Place) -> Refusal | None:
        """Judge once more what is connected to, by the policy of this moment."""
        route, asked, head = self.route, self.asked, self.head
        assert route is not None  # noqa: S101 - set before a dial
        assert asked is not None  # noqa: S101
        assert head is not None  # noqa: S101
        return self.channel.recheck(route, head, asked, place, time.time())

    # Answer

    def answer(self, upstream: socket.socket, place: Place) -> None:
        """Say 200 and become a tunnel."""
        try:
            sent = self.sock.send(views.CONNECT_OK)
        except OSError:
            sent = 0
        if sent != len(views.CONNECT_OK):  # an empty send buffer takes 39 bytes, or the client is gone
            upstream.close()
            self.abort()
            return
        self.become_tunnel(upstream, 0, place)

    def become_tunnel(self, upstream: socket.socket, upstream_wants: int, place: Place, late: bytes = b"") -> None:
        """Hand both sockets on; what the client has sent early, and the origin `late`, is delivered first."""
        core = self.core
        ended = core.reporter.tunnel(self, place)
        head, asked = self.head, self.asked
        assert head is not None  # noqa: S101 - there is a request
        assert asked is not None  # noqa: S101
        permits = partial(self.channel.permits, head.method, asked, place)
        early, self.early = self.early, b""
        self.leave()
        self.channel.open += 1  # the tunnel's, until its end is told
        tunnel = Tunnel(core, self.sock, self.wants, upstream, upstream_wants, permits, ended)
        tunnel.start(early, late, client_ended=self.client_ended)

    def answer_grant(self, grant: Grant) -> None:
        """Tell the job what it may reach, or that the operator has switched that off."""
        if grant.document is None:
            self.refuse(Refusal(Reason.NOT_A_PROXY_REQUEST, Stage.PARSE))
            return
        self.core.reporter.answered(self)
        self.finish(views.grant_response(grant.document))

    def refuse(self, refusal: Refusal) -> None:
        """Write the one record of a refusal and its bytes, then end: nothing after it is ever parsed."""
        if self.closed:
            return
        self.core.reporter.refused(self, refusal)
        self.finish(self.channel.answer(refusal, self.head, self.route))

    # Between plain requests

    def next_request(self) -> None:
        """Wait for the next request of a kept-alive client, or take the one that is already here."""
        core = self.core
        self.plain = None
        self.head = None
        self.asked = None
        self.route = None
        self.reader = None
        self.started = 0.0
        if self.step_started:
            self.step_started = self.dns_seconds = self.connect_seconds = 0.0
        if core.draining:
            self.close()
            return
        core.poller.handlers[self.sock.fileno()] = self.on_head
        core.sweep.arm(self, core.poller.now + core.limits.idle_client_seconds)
        if self.early:
            early, self.early = self.early, b""
            self.feed(early)
        elif self.client_ended:
            self.close()
        if self.wants != IN and not self.closed and self.head is None:
            self.want(IN)

    # Ends

    def review(self) -> None:
        """The policy has changed: a request that is no longer allowed ends."""
        exchange, asked, head = self.exchange, self.asked, self.head
        if exchange is None or exchange.place is None or asked is None or head is None:
            return  # nothing stands yet: it is judged again when it is connected
        refusal = self.channel.permits(head.method, asked, exchange.place, time.time())
        if refusal is not None:
            exchange.end(refusal)

    def expire(self, now: float) -> None:
        """A deadline has passed: of the head, of an idle client, or of a step that has its own."""
        if self.exchange is not None:
            self.exchange.expire(now)
        elif self.head is not None:
            # The look-up and the dial end by their own deadlines; this is the net under them.
            reason = Reason.RESOLVE_FAILED if self.dial is None else Reason.DIAL_FAILED
            self.refuse(Refusal(reason, Stage.RESOLVE if self.dial is None else Stage.DIAL, self._target()))
        elif self.started:
            self.refuse(Refusal(Reason.HEAD_TIMEOUT, Stage.PARSE))
        else:
            self.close()

    def abort(self) -> None:
        """The client is gone, or this connection has failed: end everything of it."""
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.abandon()
        self.close()

    def drop(self) -> None:
        """Cancel what is under way."""
        lookup, self.lookup = self.lookup, None
        if lookup is not None:
            lookup.cancel()
        dial, self.dial = self.dial, None
        if dial is not None:
            dial.cancel()

    def leave(self) -> None:
        """Hand the socket on, or give it up."""
        super().leave()
        self.core.connections.discard(self)
        self.channel.open -= 1
        # It leads back here: without this only the collector would free both, and all that they hold.
        self.plain = None

    def _target(self) -> Target | None:
        return self.asked.target if self.asked is not None else None
