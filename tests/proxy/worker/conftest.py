"""Rigs for the worker's tests, closed and held to having left nothing behind whatever the test did."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from support.worker_rig import Origin, Rig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def rigs() -> Iterator[Callable[..., Rig]]:
    """Make rigs with the arguments of `Rig`."""
    with ExitStack() as stack:

        def make(**kwargs: object) -> Rig:
            made = Rig(**kwargs)  # type: ignore[arg-type]
            stack.callback(made.close)
            return made

        yield make


@pytest.fixture
def origin() -> Iterator[Origin]:
    """An origin on loopback."""
    made = Origin()
    yield made
    made.close()
