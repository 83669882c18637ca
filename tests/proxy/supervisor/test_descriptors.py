"""Cores and descriptors: how many workers, the limit that is raised, the connections that fit, and their shares."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from egressd.supervisor.descriptors import connections_within, default_workers, share


@pytest.mark.parametrize(
    ("limit", "wanted", "fitting"),
    [
        (1_048_576, 16_384, 16_384),
        (33_024, 16_384, 16_384),
        (33_022, 16_384, 16_383),
        (1024, 16_384, 384),
        (100, 16_384, 1),
        (-1, 16_384, 16_384),
        (1024, 10, 10),
    ],
)
def test_connections_fit_into_the_descriptors(limit: int, wanted: int, fitting: int) -> None:
    assert connections_within(limit, wanted) == fitting


def test_several_workers_hold_more_together() -> None:
    assert connections_within(1024, 16_384, workers=2) == 768
    assert connections_within(100, 16_384, workers=2) == 1


@pytest.mark.parametrize(("connections", "shares"), [(10, [4, 3, 3]), (9, [3, 3, 3]), (1, [1, 1, 1])])
def test_shares_differ_by_one_at_most_and_none_is_nothing(connections: int, shares: list[int]) -> None:
    assert [share(connections, 3, place) for place in range(3)] == shares


@pytest.mark.parametrize(("cores", "workers"), [(1, 1), (2, 2), (8, 8), (9, 8), (96, 8)])
def test_there_is_one_worker_a_core_up_to_eight(cores: int, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _process: set(range(cores)))
    assert default_workers() == workers


@pytest.mark.slow
def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    script = """
import resource
from egressd.supervisor.descriptors import raise_limit
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
print(raise_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.split() == [str(hard)] * 3
