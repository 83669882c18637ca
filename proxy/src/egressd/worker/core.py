"""What every connection of a worker shares: the event set, deadlines, resolver, pool, pipes and counters.

`Core` holds and hands out; it decides nothing. Made by the worker's service; passed to each connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from egressd.limits import PIPE_MAX_LARGE_PIPES, REMEMBERED_HEADS_MAX, TURN_MAX_BYTES, Limits
from egressd.tally import Tally
from egressd.worker.channel import may_be_remembered
from egressd.worker.pipes import PipePool
from egressd.worker.pool import Pool
from egressd.worker.reporter import Reporter

if TYPE_CHECKING:
    from egressd.http_head import ReplyHead
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


RequestKey = tuple[str, str, str, str, str]


class Counts:
    """Counters since the worker's start; the supervisor makes metrics of them.

    Requests, tunnels and their ends stand in the tally, where the worker's death does not take them away.
    """

    __slots__ = ("_cells", "_requests", "_tally", "_tunnels", "bytes_down", "bytes_up", "mixed_answers")

    def __init__(self, tally: Tally | None = None) -> None:
        self._tally = tally if tally is not None else Tally()
        self._cells = self._tally.cells
        self._requests: dict[RequestKey, int] = {}
        self._tunnels = self._tally.row(("tunnels",))
        self.bytes_up = 0
        self.bytes_down = 0
        self.mixed_answers = 0

    @property
    def requests(self) -> dict[RequestKey, int]:
        """Requests by tenant, plugin, method, decision and reason."""
        return {key: self._cells[cell] for key, cell in self._requests.items()}

    @property
    def tunnel_ends(self) -> dict[str, int]:
        """Tunnels that are over, by how they ended."""
        return {key[1]: count for key, count in self._tally.rows().items() if key[0] == "tunnel_ends"}

    def request(self, key: RequestKey) -> None:
        """Count one request by tenant, plugin, method, decision and reason."""
        cell = self._requests.get(key)
        if cell is None:
            cell = self._requests[key] = self._tally.row(("requests", *key))
        self._cells[cell] += 1

    def began(self) -> None:
        """Count a tunnel that begins."""
        self._cells[self._tunnels] += 1

    def ended(self, reason: str, up: int, down: int) -> None:
        """Count the end of a tunnel and its bytes."""
        self._cells[self._tally.row(("tunnel_ends", reason))] += 1
        self.bytes_up += up
        self.bytes_down += down


class Core:
    """The parts of one worker."""

    __slots__ = (
        "channel_max",
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

    def __init__(
        self,
        poller: Poller,
        sweep: Sweep,
        resolver: Resolver,
        journal: Journal,
        limits: Limits,
        *,
        tally: Tally | None = None,
        large_pipes: int = PIPE_MAX_LARGE_PIPES,
    ) -> None:
        self.poller = poller
        self.sweep = sweep
        self.resolver = resolver
        self.journal = journal
        self.limits = limits
        self.reporter = Reporter(self)
        self.log_required = False
        # Connections and tunnels of one channel; the service lowers it as soon as there are several.
        self.channel_max = limits.connections_max
        self.draining = False
        self.pipes = PipePool(large_pipes)
        self.pool = Pool(self)
        self.counts = Counts(tally)
        self.connections: set[Connection] = set()
        self.replies: dict[ReplyKey, ReplyPlan] = {}
        self.tunnels: set[Tunnel] = set()
        self.lingering: set[Linger] = set()
        # One buffer for all reads: what is not passed on at once is copied out of it.
        self.view = memoryview(bytearray(TURN_MAX_BYTES))

    def remember_reply(self, key: ReplyKey, head: ReplyHead, plan: ReplyPlan) -> None:
        """Keep what was made of a whole reply head, by its very bytes and all else that it depends on."""
        if may_be_remembered(key[0], head.fields):
            if len(self.replies) >= REMEMBERED_HEADS_MAX:
                self.replies.clear()
            self.replies[key] = plan
