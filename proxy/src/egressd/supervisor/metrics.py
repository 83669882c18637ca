"""Prometheus metrics: what the workers counted, and what the supervisor knows about policy and guard.

Read when someone asks; nothing is kept between two readings. Labels are reasons, tenants, plugins and methods, never a
host: names are the jobs' to choose, and there is no end of them. Imports prometheus_client, so `daemon` imports it
after the workers listen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from egressd.snapshot import Snapshot
from egressd.supervisor.health import Health
from egressd.supervisor.policy import Loaded

REQUEST_LABELS = ("tenant", "plugin", "method", "decision", "reason")
# counter of the worker → metric and what it counts
_SUMS = {
    "bytes_up": ("egressd_tunnel_bytes_up", "Bytes from clients through tunnels"),
    "bytes_down": ("egressd_tunnel_bytes_down", "Bytes to clients through tunnels"),
    "mixed_answers": ("egressd_mixed_answers", "DNS answers refused as a whole because some address was not allowed"),
    "accept_pauses": ("egressd_accept_pauses", "Pauses of accepting for want of descriptors or memory"),
    "records_dropped": ("egressd_records_dropped", "Decision records that the log did not take"),
    "uncounted": ("egressd_uncounted", "Requests and tunnel ends that no counter was left for"),
    "faults": ("egressd_faults", "Connections ended by a fault of the program"),
    "dns_lookups": ("egressd_dns_lookups", "Look-ups sent to the resolver"),
    "dns_failures": ("egressd_dns_failures", "Look-ups without an answer"),
}
_GAUGES = {
    "tunnels_open": ("egressd_tunnels_open", "Tunnels that stand"),
    "connections_open": ("egressd_connections_open", "Client connections that are open"),
}

Counts = Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Alive:
    """How many workers live, and how many died since the daemon's start."""

    workers: int
    deaths: int = 0


class NodeCollector:
    """Gives the metrics of one moment to a registry."""

    def __init__(self, snapshot: Snapshot, loaded: Loaded, health: Health, counts: Counts, alive: Alive) -> None:
        """Take what is to be shown.

        Args:
            snapshot: The policy in force.
            loaded: The lists in force.
            health: What `judge_health` said.
            counts: The counters of every worker that lives, and the sums of those that died.
            alive: How many workers there are and were.
        """
        self._snapshot, self._loaded, self._health = snapshot, loaded, health
        self._counts, self._alive = counts, alive

    def collect(self) -> Iterator[Metric]:
        """Give every metric family."""
        yield GaugeMetricFamily("egressd_workers", "Worker processes that are alive", value=self._alive.workers)
        yield CounterMetricFamily("egressd_worker_deaths", "Worker processes that died", value=self._alive.deaths)
        yield GaugeMetricFamily(
            "egressd_policy_version", "Version of the policy in force", value=self._snapshot.version
        )
        yield GaugeMetricFamily("egressd_ready", "1 if the node can serve", value=int(self._health.is_ready))
        yield GaugeMetricFamily(
            "egressd_degraded", "Things that are not as they should be", value=len(self._health.degraded)
        )
        yield from self._guard()
        yield from self._lists()
        yield from self._requests()
        for kind, (name, text) in _SUMS.items():
            yield CounterMetricFamily(name, text, value=self._sum(kind))
        for kind, (name, text) in _GAUGES.items():
            yield GaugeMetricFamily(name, text, value=self._sum(kind))

    def _guard(self) -> Iterator[Metric]:
        """Show what is lowered on purpose; these are 0 on a node that is as it should be."""
        yield GaugeMetricFamily(
            "egressd_unsafe_reach_networks",
            "Networks that unsafe_reach makes public",
            value=len(self._snapshot.unsafe_reach),
        )
        report = GaugeMetricFamily(
            "egressd_report_mode", "1 where a tenant's policy is not enforced", labels=["tenant"]
        )
        for tenant, mode in {grant.tenant: grant.mode for grant in self._snapshot.grants}.items():
            report.add_metric([tenant], int(mode == "report"))
        yield report

    def _lists(self) -> Iterator[Metric]:
        stale = GaugeMetricFamily(
            "egressd_list_stale", "1 where a broken file left an older list in force", labels=["list"]
        )
        absent = GaugeMetricFamily("egressd_list_unavailable", "1 where no list is in force", labels=["list"])
        for row in self._loaded.values():
            stale.add_metric([row.source], int(row.stale))
            absent.add_metric([row.source], int(row.text is None))
        yield stale
        yield absent

    def _requests(self) -> Iterator[Metric]:
        requests = CounterMetricFamily("egressd_requests", "Requests by their decision", labels=list(REQUEST_LABELS))
        sums: dict[tuple[str, ...], int] = {}
        for row in self._rows("requests"):
            *labels, count = row
            key = tuple("" if label is None else str(label) for label in labels)
            if len(key) == len(REQUEST_LABELS) and isinstance(count, int):
                sums[key] = sums.get(key, 0) + count
        for key, total in sums.items():
            requests.add_metric(list(key), total)
        yield requests
        ends = CounterMetricFamily("egressd_tunnel_ends", "Tunnels by how they ended", labels=["end"])
        totals: dict[str, int] = {}
        for counts in self._counts:
            found = counts.get("tunnel_ends")
            for end, total in found.items() if isinstance(found, dict) else ():
                totals[str(end)] = totals.get(str(end), 0) + int(total)
        for end, total in totals.items():
            ends.add_metric([end], total)
        yield ends

    def _rows(self, kind: str) -> Iterator[list[object]]:
        for counts in self._counts:
            found = counts.get(kind)
            if isinstance(found, list):
                yield from (row for row in found if isinstance(row, list))

    def _sum(self, kind: str) -> int:
        return sum(value for counts in self._counts if isinstance(value := counts.get(kind), int))


def render(collector: NodeCollector) -> tuple[bytes, str]:
    """Write the metrics as text; returns the body and its content type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return generate_latest(registry), CONTENT_TYPE_LATEST
