"""Metrics: sums over workers, the guard, and never a host."""

from __future__ import annotations

import pytest

from egress_policy.rules import ListKind
from egressd.snapshot import GrantSpec, Snapshot
from egressd.supervisor.health import Health
from egressd.supervisor.lists import LoadedList
from egressd.supervisor.metrics import Alive, NodeCollector, render

SNAPSHOT = Snapshot(
    version=4, grants=(GrantSpec("default", mode="report"),), channels={"default": 0}, unsafe_reach=("127.0.0.5/32",)
)
LOADED = {
    (ListKind.TENANT, "default"): LoadedList(ListKind.TENANT, "default", "a.example\n", stale=True),
    (ListKind.PLUGIN, "brave"): LoadedList(ListKind.PLUGIN, "brave", None, unavailable="why"),
}
COUNTS: list[dict[str, object]] = [
    {
        "requests": [["default", None, "CONNECT", "allowed", "", 3], ["default", None, "GET", "refused", "busy", 1]],
        "tunnel_ends": {"client-closed": 2},
        "bytes_up": 10,
        "tunnels_open": 1,
    },
    {"requests": [["default", None, "CONNECT", "allowed", "", 4]], "tunnel_ends": {"client-closed": 1}, "bytes_up": 5},
]


def lines(counts: list[dict[str, object]]) -> list[str]:
    body, content_type = render(NodeCollector(SNAPSHOT, LOADED, Health((), ("a",)), counts, Alive(2, deaths=3)))
    assert content_type.startswith("text/plain")
    return body.decode().splitlines()


def test_counters_are_summed_over_workers() -> None:
    found = lines(COUNTS)
    labels = 'decision="allowed",method="CONNECT",plugin="",reason="",tenant="default"'
    assert f"egressd_requests_total{{{labels}}} 7.0" in found
    assert 'egressd_tunnel_ends_total{end="client-closed"} 3.0' in found
    assert "egressd_tunnel_bytes_up_total 15.0" in found
    assert "egressd_tunnels_open 1.0" in found
    assert "egressd_policy_version 4.0" in found
    assert "egressd_workers 2.0" in found
    assert "egressd_worker_deaths_total 3.0" in found
    assert "egressd_ready 1.0" in found


@pytest.mark.case("H7")
def test_a_lowered_guard_is_a_metric() -> None:
    found = lines([])
    assert "egressd_unsafe_reach_networks 1.0" in found
    assert 'egressd_report_mode{tenant="default"} 1.0' in found
    assert "egressd_degraded 1.0" in found
    assert 'egressd_list_stale{list="tenants/default.list"} 1.0' in found
    assert 'egressd_list_unavailable{list="plugins/brave.list"} 1.0' in found


def test_counters_of_another_shape_are_passed_over() -> None:
    odd: list[dict[str, object]] = [{"requests": [["a"], 5, ["a", "b", "c", "d", "e", "f"]], "tunnel_ends": 5}]
    assert not [line for line in lines(odd) if line.startswith("egressd_requests_total{")]
