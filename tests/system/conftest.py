"""The worlds that the system tests run in: made once, ended with everything in them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.lab import lab, why_no_namespaces
from support.lab_daemon import short_folder, wait_until
from support.lab_world import World, loopback_world, namespace_world


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a path that is short enough for a Unix socket, and that other users may enter."""
    with short_folder() as made:
        yield made


@pytest.fixture(autouse=True)
def sites_are_left_alone(request: pytest.FixtureRequest) -> Iterator[None]:
    """Wait after a test until the lasting sites have closed what the test opened; their sockets are this process's."""
    yield
    if "world" in request.fixturenames:
        made: World = request.getfixturevalue("world")
        wait_until(made.is_quiet, "the sites to have closed every connection")


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    """An internet with public-looking addresses, a node and a sandbox, each a namespace."""
    if reason := why_no_namespaces():
        if os.environ.get("OZ0_REQUIRE_NAMESPACES"):
            pytest.fail(f"network namespaces cannot be made here: {reason}")
        pytest.skip(f"network namespaces cannot be made here: {reason}")
    with lab() as made, namespace_world(made) as world:
        yield world


@pytest.fixture(scope="session")
def loopback() -> Iterator[World]:
    """The same on this machine's loopback, by `unsafe_reach`: for what does not hang on addresses."""
    with loopback_world() as world:
        yield world
