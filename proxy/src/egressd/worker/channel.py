"""One listener's way in: the grant that its jobs have now, and what was already decided under it.

A verdict is asked of `judge` and `pinning` once for the same bytes under the same policy version and remembered with
what follows from it; a policy swap forgets it all. The job chooses the names, so every memory here is bounded, and no
head that carries credentials or cookies is kept. Decides nothing by itself, and sees no clock.

Made by the worker's service for each listener; asked by its connections.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from egress_policy.reasons import Reason, Refusal, Stage
from egressd import records, views
from egressd.judge import judge_target
from egressd.limits import REMEMBERED_HEAD_MAX_BYTES, REMEMBERED_HEADS_MAX, VERDICTS_MAX
from egressd.pinning import still_allowed

if TYPE_CHECKING:
    from egressd.framing import Framing
    from egressd.grants import Grant
    from egressd.http_head import Fields, RequestHead
    from egressd.judge import Allowed, Asked
    from egressd.pinning import PinnedTarget, Place

# Verdicts on longer methods and request-targets are not remembered; real ones are shorter.
ROUTE_KEY_MAX_BYTES = 300
# What a refusal says where no grant could be found that would say it.
_UNKNOWN_TENANT = "default"
_UNKNOWN_COMMAND = "egressctl tenant {tenant} allow {host}"
_SECRETS = frozenset({b"authorization", b"proxy-authorization", b"cookie", b"set-cookie"})
_NEVER = float("inf")


@dataclass(slots=True, eq=False)
class Route:
    """One verdict of a grant, with what follows from it: the pin while it lasts, or the bytes of the refusal.

    `until` is when a time-limited rule ends next, in Unix seconds; from then on the verdict must be asked for anew.
    """

    verdict: Allowed | Refusal
    grant: Grant
    until: float
    pinned: PinnedTarget | None = None
    answer: bytes | None = None
    record: str | None = None


@dataclass(slots=True, eq=False)
class Known:
    """What one request head says and what was made of it; `plain` is the framing and the forwarded head."""

    head: RequestHead
    asked: Asked
    route: Route
    plain: tuple[Framing, bytes] | None = None


def may_be_remembered(raw: bytes, fields: Fields) -> bool:
    """Whether a head may be kept by its bytes: a short one without secrets."""
    return len(raw) <= REMEMBERED_HEAD_MAX_BYTES and not any(name in _SECRETS for name, _value in fields)


class Channel:
    """One listener's way in."""

    __slots__ = ("_routes", "grant", "kind", "known", "name", "open", "plugin", "source", "tenant")

    def __init__(self, name: str, kind: str) -> None:
        """Begin without a grant: everything is refused."""
        self.name = name
        self.kind = kind
        # Connections and tunnels that stand.
        self.open = 0
        self.swap(None)

    def swap(self, grant: Grant | None) -> None:
        """Judge by another grant from now on, and forget what was decided under the old one."""
        self.grant: Grant | None = grant
        self.tenant = grant.tenant if grant is not None else ""
        self.plugin = (grant.plugin or "") if grant is not None else ""
        self.source = records.source_fragment(
            version=grant.version if grant is not None else 0,
            job=grant.job if grant is not None else None,
            tenant=self.tenant,
            plugin=self.plugin or None,
            channel=self.name,
        )
        self._routes: dict[tuple[bytes, str, bool], Route] = {}
        self.known: dict[bytes, Known] = {}

    def know(self, raw: bytes, known: Known) -> None:
        """Keep what a whole head without a body says, by its very bytes: programs ask for one thing in the same words.

        The same bytes have one reading, and the verdict goes with the policy version.
        """
        if may_be_remembered(raw, known.head.fields):
            if len(self.known) >= REMEMBERED_HEADS_MAX:
                self.known.clear()
            self.known[raw] = known

    def judge(self, head: RequestHead, asked: Asked, grant: Grant, unix_now: float) -> Route:
        """The verdict on what is asked, remembered as long as the grant and its time-limited rules stand."""
        target = head.target if asked.path is None else asked.target.authority.encode("ascii")
        key = (target, head.method, asked.public_only)
        route = self._routes.get(key)
        if route is not None and route.until > unix_now:
            return route
        verdict = judge_target(asked.target, grant, method=head.method, public_only=asked.public_only, now=unix_now)
        end = grant.rules.next_end(unix_now)
        route = Route(verdict, grant, until=_NEVER if end is None else end)
        if len(target) + len(head.method) <= ROUTE_KEY_MAX_BYTES:
            if len(self._routes) >= VERDICTS_MAX:
                self._routes.clear()
            self._routes[key] = route
        return route

    def recheck(self, route: Route, head: RequestHead, asked: Asked, place: Place, unix_now: float) -> Refusal | None:
        """Ask the policy of this moment about the address that is connected to (the last step before the 200)."""
        pinned = route.pinned
        if pinned is not None and pinned.grant is self.grant and route.until > unix_now:
            return None  # the same version has judged this very address
        return self.permits(head.method, asked, place, unix_now)

    def permits(self, method: str, asked: Asked, place: Place, unix_now: float) -> Refusal | None:
        """Judge a connection that stands, by the policy of this moment; None where it may go on."""
        grant = self.grant
        if grant is None:
            return Refusal(Reason.POLICY_UNAVAILABLE, Stage.PEER, asked.target)
        verdict = judge_target(asked.target, grant, method=method, public_only=asked.public_only, now=unix_now)
        if isinstance(verdict, Refusal):
            return Refusal(verdict.reason, Stage.PEER, asked.target, rule=verdict.rule)
        if not still_allowed(place.address, asked.target, verdict, grant, unix_now=unix_now):
            return Refusal(Reason.RESOLVED_ADDRESS_DENIED, Stage.PEER, asked.target)
        return None

    def routes(self) -> list[Route]:
        """The verdicts that are remembered."""
        return list(self._routes.values())

    def answer(self, refusal: Refusal, head: RequestHead | None, route: Route | None) -> bytes:
        """The bytes of a refusal, made once for each verdict."""
        # Before its head is read a client may be about to CONNECT: then, as there, nothing follows the fields.
        method = head.method if head is not None else "CONNECT"
        accepts = head.get_all(b"accept") if head is not None and method != "CONNECT" else []
        remembers = route is not None and route.verdict is refusal and not accepts
        if remembers and route is not None and route.answer is not None:
            return route.answer
        grant = self.grant
        answer = views.closing_response(
            refusal,
            method=method,
            accept=accepts[0] if accepts else None,
            tenant=grant.tenant if grant is not None else _UNKNOWN_TENANT,
            command_template=grant.command if grant is not None else _UNKNOWN_COMMAND,
        )
        if remembers and route is not None:
            route.answer = answer
        return answer
