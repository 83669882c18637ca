"""Descriptors: the limit that is raised, and the connections that fit."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from egressd.supervisor.descriptors import connections_within


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
