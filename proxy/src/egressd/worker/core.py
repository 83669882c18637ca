"""What every connection of a worker shares: the event set, deadlines, resolver, pool, pipes, counters and channels.

`Core` holds and hands out; it decides nothing. A `Channel` is one listener's way in: the grant that its jobs have now
and the verdicts already given under it, which a policy swap throws away.

Made by the worker's main module; passed to each connection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from egressd import records
from egressd.limits import REMEMBERED_HEAD_MAX_BYTES, REMEMBERED_HEADS_MAX, TURN_MAX_BYTES, VERDICTS_MAX, Limits
from egressd.worker.pipes import PipePool
from egressd.worker.pool import Pool
from egressd.worker.reporter import Reporter

if TYPE_CHECKING:
    from egress_policy.reasons import Refusal
    from egressd.grants import Grant
    from egressd.framing import Framing
    from egressd.http_head import Fields, ReplyHead, RequestHead
    from egressd.judge import Allowed, Asked
    from egressd.pinning import PinnedTarget
    from egressd.replies import ReplyPlan
    from egressd.worker.connection import Connection
    from egressd.worker.journal import Journal
    from egressd.worker.linger import Linger
    from egressd.worker.poller import Poller
    from egressd.worker.resolver import Resolver
    from egressd.worker.timers import Sweep
    from egressd.worker.tunnel import Tunnel

    # The head's bytes, the request's method, the client's minor version, and whether its connection is to go on.
    ReplyKey = tuple[bytes, str, int, bool]

# Verdicts on longer request-targets are not remembered; real authorities are shorter.
ROUTE_KEY_MAX_BYTES = 300
_SECRETS = frozenset({b"authorization", b"proxy-authorization", b"cookie", b"set-cookie"})


@dataclass(slots=True, eq=False)
class Route:
    """One verdict of a grant, with what follows from it: the pin while it lasts, or the bytes of the refusal.

    `until` is when a time-limited rule ends next, in Unix seconds.
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


def carries_secrets(fields: Fields) -> bool:
    """Whether a head must not be remembered."""
    return any(name in _SECRETS for name, _value in fields)


class Channel:
    """One listener's way in."""

    __slots__ = ("_routes", "grant", "kind", "known", "name", "plugin", "source", "tenant")

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.kind = kind
        self.swap(None)

    def swap(self, grant: Grant | None) -> None:
        """Judge by another grant from now on."""
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

        The same bytes have one reading, and the verdict goes with the policy version; `swap` forgets both.
        """
        if len(raw) <= REMEMBERED_HEAD_MAX_BYTES and not carries_secrets(known.head.fields):
            if len(self.known) >= REMEMBERED_HEADS_MAX:
                self.known.clear()
            self.known[raw] = known

    def route(self, target: bytes, method: str, *, public_only: bool) -> Route | None:
        """The verdict already given on these very bytes, if any."""
        return self._routes.get((target, method, public_only))

    def routes(self) -> list[Route]:
        """The verdicts that are remembered."""
        return list(self._routes.values())

    def remember(self, target: bytes, method: str, *, public_only: bool, route: Route) -> None:
        """Keep a verdict for the same bytes; when the memory is full it starts anew, since the job chooses the names."""
        if len(target) > ROUTE_KEY_MAX_BYTES:
            return
        if len(self._routes) >= VERDICTS_MAX:
            self._routes.clear()
        self._routes[(target, method, public_only)] = route


class Counts:
    """Counters since the worker's start; the supervisor makes metrics of them."""

    __slots__ = ("bytes_down", "bytes_up", "mixed_answers", "requests", "self_hosts", "tunnel_ends")

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str, str, str, str], int] = {}
        self.tunnel_ends: dict[str, int] = {}
        self.bytes_up = 0
        self.bytes_down = 0
        self.mixed_answers = 0
        self.self_hosts = 0

    def request(self, key: tuple[str, str, str, str, str]) -> None:
        """Count one request by tenant, plugin, method, decision and reason."""
        self.requests[key] = self.requests.get(key, 0) + 1

    def ended(self, reason: str, up: int, down: int) -> None:
        """Count the end of a tunnel and its bytes."""
        self.tunnel_ends[reason] = self.tunnel_ends.get(reason, 0) + 1
        self.bytes_up += up
        self.bytes_down += down


class Core:
    """The parts of one worker."""

    __slots__ = (
        "connections",
        "counts",
        "draining",
        "journal",
        "limits",
        "lingering",
        "log_required",
        "pipes",
        "poller",
        "pool",
        "replies",
        "reporter",
        "resolver",
        "sweep",
        "tunnels",
        "view",
    )

    def __init__(self, poller: Poller, sweep: Sweep, resolver: Resolver, journal: Journal, limits: Limits) -> None:
        self.poller = poller
        self.sweep = sweep
        self.resolver = resolver
        self.journal = journal
        self.limits = limits
        self.reporter = Reporter(self)
        self.log_required = False
        self.draining = False
        self.pipes = PipePool()
        self.pool = Pool(self)
        self.counts = Counts()
        self.connections: set[Connection] = set()
        self.replies: dict[ReplyKey, ReplyPlan] = {}
        self.tunnels: set[Tunnel] = set()
        self.lingering: set[Linger] = set()
        # One buffer for all reads: what is not passed on at once is copied out of it.
        self.view = memoryview(bytearray(TURN_MAX_BYTES))

    def remember_reply(self, key: ReplyKey, head: ReplyHead, plan: ReplyPlan) -> None:
        """Keep what was made of a whole reply head, by its very bytes and all else that it depends on."""
        if len(key[0]) <= REMEMBERED_HEAD_MAX_BYTES and not carries_secrets(head.fields):
            if len(self.replies) >= REMEMBERED_HEADS_MAX:
                self.replies.clear()
            self.replies[key] = plan
