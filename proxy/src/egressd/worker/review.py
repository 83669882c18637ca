"""Judges everything in flight again after the policy has changed, in slices that leave the loop to the others.

What is no longer allowed ends: a tunnel with rule-removed, an exchange with its refusal or, when its reply is on the
way, with a reset. Each is judged with its own public-only flag, by the address it is connected to. Look-ups and dials
need no review: they are judged again when they end. Called by the worker's service after each swap, and when a
time-limited rule has ended.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from egressd.limits import DRAIN_TURN_SECONDS

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from egressd.worker.core import Core


class Review:
    """The review that is under way, if any; a new one takes its place, since only the newest policy counts."""

    __slots__ = ("_checks", "_core", "_loop", "_scheduled")

    def __init__(self, core: Core, loop: asyncio.AbstractEventLoop) -> None:
        """Begin with nothing to review."""
        self._core = core
        self._loop = loop
        self._checks: list[Callable[[], None]] = []
        self._scheduled = False

    def start(self) -> None:
        """Look at everything that is in flight now; what begins later is judged by the new policy anyway."""
        core = self._core
        tunnels = [tunnel.review for tunnel in core.tunnels]
        exchanges = [connection.review for connection in core.connections if connection.exchange is not None]
        self._checks = [*tunnels, *exchanges]
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._slice)

    def _slice(self) -> None:
        self._scheduled = False
        until = time.monotonic() + DRAIN_TURN_SECONDS
        checks = self._checks
        while checks:
            check = checks.pop()
            try:
                check()
            except Exception:  # noqa: BLE001 - a bug ends what could not be judged, and the review goes on
                self._core.poller.failed(check)
            if checks and time.monotonic() > until:
                self._scheduled = True
                self._loop.call_soon(self._slice)
                return
