"""Says whether the node can serve, and what is not as it should be although it can.

Pure: values in, a `Health` out. Not ready means that no request can be served at all (DESIGN: health); everything
less, such as a broken list with an older one in force, a failing log or a guard that was lowered on purpose, is
`degraded` and stays ready, because taking a node out of service for one tenant's typing error would punish all the
others. `admin` shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from egressd.list_files import show_problem
from egressd.snapshot import Snapshot
from egressd.supervisor.policy import Report
from egressd.supervisor.workers import WorkerState


@dataclass(frozen=True, slots=True)
class Health:
    """`failing` says why the node cannot serve (empty: it can), `degraded` what else is wrong."""

    failing: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()

    @property
    def is_ready(self) -> bool:
        """True when requests are served."""
        return not self.failing


def judge_health(
    snapshot: Snapshot,
    report: Report,
    notices: Sequence[str],
    workers: Sequence[WorkerState],
    *,
    troubles: Sequence[str] = (),
    draining: bool,
) -> Health:
    """Sum up what is known.

    Args:
        snapshot: The policy in force.
        report: What the last load came to.
        notices: What lowers the guard on purpose.
        workers: The states of all workers; those that died may be among them.
        troubles: What is wrong with the workers as a whole.
        draining: Whether the daemon is about to end.
    """
    alive = [state for state in workers if state.ended is None and state.listening]
    failing = []
    if draining:
        failing.append("draining")
    if not snapshot.channels:
        failing.append("no listener")
    if not alive:
        failing.append("no worker")
    if all(grant.unavailable is not None for grant in snapshot.grants):
        failing.append("no policy")
    if alive and all(state.health.get("resolver_dead") is True for state in alive):
        failing.append("resolver dead")
    degraded = list(notices)
    degraded += [f"configuration: {problem}" for problem in report.config_problems]
    degraded += [f"list: {show_problem(problem)}" for problem in report.list_problems if problem.severity == "error"]
    degraded += [f"policy unavailable: {why}" for why in report.unavailable]
    degraded += [f"waits for a restart: {key}" for key in report.waiting]
    if report.fault is not None:
        degraded.append(report.fault)
    degraded += troubles
    degraded += _from_workers(snapshot.version, alive)
    return Health(tuple(failing), tuple(degraded))


def _from_workers(version: int, alive: Sequence[WorkerState]) -> list[str]:
    dropped = sum(_number(state.counts.get("records_dropped")) for state in alive)
    found = [f"records: {dropped} dropped"] if dropped else []
    if any(_number(state.health.get("record_faults")) for state in alive):
        found.append("records: the log cannot be written")
    if any(state.health.get("resolver_dead") is True for state in alive):
        found.append("resolver: no answer")
    if any(state.applied != version for state in alive):
        found.append(f"policy: version {version} is not applied everywhere yet")
    return found


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
