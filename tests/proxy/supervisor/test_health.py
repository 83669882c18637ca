"""Health: 503 only where nothing can be served, and everything else told as degraded."""

from __future__ import annotations

import pytest

from egress_policy.rules import Problem
from egressd.snapshot import GrantSpec, Snapshot
from egressd.supervisor.health import Health, judge_health
from egressd.supervisor.policy import Report
from egressd.supervisor.problems import ConfigProblem
from egressd.supervisor.workers import WorkerState

GOOD = Snapshot(version=3, grants=(GrantSpec("default"), GrantSpec("other")), channels={"default": 0, "other": 1})
WHOLE = Report(version=3)


def working(**health: object) -> WorkerState:
    return WorkerState(listening=True, applied=3, health=dict(health))


def judge(
    snapshot: Snapshot = GOOD,
    report: Report = WHOLE,
    *workers: WorkerState,
    notices: tuple[str, ...] = (),
    draining: bool = False,
) -> Health:
    return judge_health(snapshot, report, notices, workers or (working(),), draining=draining)


def test_a_node_as_it_should_be() -> None:
    assert judge() == Health((), ())
    assert judge().is_ready


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (judge(draining=True), "draining"),
        (judge(Snapshot(version=3, grants=(GrantSpec("default"),))), "no listener"),
        (judge(GOOD, WHOLE, WorkerState()), "no worker"),
        (judge(GOOD, WHOLE, WorkerState(listening=True, applied=3, ended="exit code 1")), "no worker"),
        (judge(Snapshot(3, (GrantSpec("default", unavailable="why"),), {"default": 0})), "no policy"),
        (judge(GOOD, WHOLE, working(resolver_dead=True)), "resolver dead"),
    ],
)
def test_a_node_that_cannot_serve_is_not_ready(found: Health, why: str) -> None:
    assert found.failing == (why,)
    assert not found.is_ready


def test_one_worker_and_one_grant_that_work_are_ready() -> None:
    half = Snapshot(3, (GrantSpec("default", unavailable="why"), GrantSpec("other")), {"default": 0, "other": 1})
    found = judge(half, WHOLE, working(resolver_dead=True), working())
    assert found.is_ready
    assert "resolver: no answer" in found.degraded


@pytest.mark.case("H7")
def test_a_lowered_guard_is_degraded_and_ready() -> None:
    found = judge(notices=("unsafe_reach: 127.0.0.5/32 is treated as public",))
    assert found == Health((), ("unsafe_reach: 127.0.0.5/32 is treated as public",))


def test_what_is_wrong_with_the_workers_is_degraded_and_ready() -> None:
    found = judge_health(GOOD, WHOLE, (), [working()], troubles=("workers: 1 of 2 serve",), draining=False)
    assert found == Health((), ("workers: 1 of 2 serve",))


def test_everything_that_is_not_whole_is_named() -> None:
    report = Report(
        version=3,
        config_problems=(ConfigProblem("e.toml", "node", "5", "a table"),),
        list_problems=(
            Problem("tenants/a.list", 1, 1, "*.*", "too wide", "*.example.com", "error"),
            Problem("tenants/a.list", 2, 1, "*.github.io", "wide", "a name", "warning"),
        ),
        unavailable=("no folder /x",),
        waiting=("limits",),
        fault="own addresses: netlink",
    )
    worker = working(record_faults=2)
    worker.counts = {"records_dropped": 7}
    worker.applied = 2
    assert judge(GOOD, report, worker).degraded == (
        "configuration: e.toml: node: found 5; write a table",
        "list: tenants/a.list:1:1: too wide, found '*.*'; write *.example.com",
        "policy unavailable: no folder /x",
        "waits for a restart: limits",
        "own addresses: netlink",
        "records: 7 dropped",
        "records: the log cannot be written",
        "policy: version 3 is not applied everywhere yet",
    )
