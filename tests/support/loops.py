"""Runs a test's coroutine on the loop that the daemon uses. Keeps nothing; called by tests of the supervisor."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import uvloop

T = TypeVar("T")

# The first loop of a process makes a pipe that libuv keeps for good; no single test is to be blamed for it.
uvloop.new_event_loop().close()


def run(test: Callable[[], Awaitable[T]]) -> T:
    """Call a coroutine function and run it to its end on a uvloop of its own."""

    async def call() -> T:
        return await test()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(call())
