"""Tells whether the name servers are alive, and asks them for a sign of life when look-ups get no answer.

Silence about names alone is no proof: whoever owns a zone can make it never answer. So after
`DNS_SILENT_MAX_LOOKUPS` silent look-ups in a row the name servers themselves are probed, one probe at a time and none
soon after another, and while they stay silent the probes go on, so that a node without traffic recovers.

Knows nothing of DNS. Called by the resolver, which sends the probe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from egressd.limits import DNS_SILENT_MAX_LOOKUPS

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    # Sends a probe, and calls back once with whether there was any answer.
    Probe = Callable[[Callable[[bool], None]], None]


class Pulse:
    """What the look-ups and the probes say.

    Attributes:
        dead: Whether the last probe was met by silence, and nothing has been heard since.
    """

    __slots__ = ("_loop", "_next", "_probe", "_probing", "_seconds", "_silent", "_stopped", "dead")

    def __init__(self, loop: asyncio.AbstractEventLoop, probe: Probe, *, seconds: float) -> None:
        """Send probes by `probe`, the next at least `seconds` after the end of one; none is sent now."""
        self._loop = loop
        self._probe = probe
        self._seconds = seconds
        self._silent = 0
        self._probing = False
        self._stopped = False
        self._next: asyncio.TimerHandle | None = None
        self.dead = False

    def heard(self) -> None:
        """Take note of an answer to a look-up, whatever it says."""
        self._silent = 0
        self.dead = False

    def missed(self) -> None:
        """Take note of a look-up without any answer."""
        self._silent += 1
        if not self._probing:
            self._send()

    def stop(self) -> None:
        """Send no more probes."""
        self._stopped = True
        if self._next is not None:
            self._next.cancel()

    def _send(self) -> None:
        self._probing = self._silent >= DNS_SILENT_MAX_LOOKUPS and not self._stopped
        if self._probing:
            self._probe(self._on_answer)

    def _on_answer(self, heard: bool) -> None:  # noqa: FBT001 - the one argument that a probe gives
        if heard:
            self.heard()
        elif self._silent:
            self.dead = True
        if not self._stopped:
            self._next = self._loop.call_later(self._seconds, self._send)
