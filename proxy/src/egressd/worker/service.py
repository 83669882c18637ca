"""The worker's life: what the supervisor tells it over the control socket, and what it tells back.

Settings come first and make the `Core`; then listening sockets; then the first snapshot, with which accepting begins.
Every later snapshot swaps the policy whole: a snapshot that cannot be compiled is refused and the old one stays. When
the supervisor is gone the worker ends: nobody would take policy away any more.

Decides nothing about traffic. Called by the worker's `__main__`.
"""

from __future__ import annotations

import dataclasses
import os
import socket
import sys
import time
from typing import TYPE_CHECKING, cast

from egress_policy.reasons import End
from egressd.control import ControlClosed, ControlFault, ControlSocket
from egressd.grants import compile_policy
from egressd.limits import PIPE_MAX_LARGE_PIPES, SWEEP_SECONDS, Limits
from egressd.snapshot import SnapshotFault, from_value
from egressd.tally import Tally
from egressd.worker.channel import Channel
from egressd.worker.core import Core
from egressd.worker.journal import Journal
from egressd.worker.listener import Listener
from egressd.worker.poller import Poller
from egressd.worker.resolver import Resolver
from egressd.worker.review import Review
from egressd.worker.timers import Sweep

if TYPE_CHECKING:
    import asyncio

    from egressd.control import Frame
    from egressd.grants import Policy

_REPORT_SECONDS = 1.0
_NEVER = float("inf")


class Service:
    """One worker process."""

    def __init__(self, loop: asyncio.AbstractEventLoop, control: socket.socket) -> None:
        """Listen to the supervisor; `run` of the loop does the rest."""
        self._loop = loop
        self._control_socket = control
        self._control = ControlSocket(control)
        self._core: Core | None = None
        self._review: Review | None = None
        self._review_due = _NEVER
        self._policy: Policy | None = None
        self._channels: dict[str, Channel] = {}
        self._listeners: list[Listener] = []
        self._drain_until: float | None = None
        self._reported = ""
        self._report_due = 0.0
        self._wants_write = False
        loop.add_reader(control.fileno(), self._on_control)

    # The supervisor's words

    def _on_control(self) -> None:
        try:
            frames = self._control.receive()
        except (ControlClosed, ControlFault):
            self._stop()
            return
        for frame in frames:
            try:
                claimed = self._take(frame)
            except (KeyError, TypeError, ValueError) as fault:
                sys.stderr.write(f"egressd: the worker cannot read a frame of type {frame.type!r}: {fault!r}\n")
                claimed = 0
            for descriptor in frame.descriptors[claimed:]:
                os.close(descriptor)

    def _take(self, frame: Frame) -> int:
        """Do what a frame says; returns how many of its descriptors are ours now."""
        match frame.type:
            case "settings":
                return self._settings(frame)
            case "listener":
                return self._listener(frame)
            case "snapshot":
                self._snapshot(frame)
            case "drain":
                self._drain(float(cast("float", frame.message["seconds"])))
            case "stop":
                self._stop()
            case _:
                sys.stderr.write(f"egressd: the worker does not know the frame {frame.type!r}\n")
        return 0

    def _settings(self, frame: Frame) -> int:
        if self._core is not None:
            sys.stderr.write("egressd: the worker has its settings already; the new ones wait for a restart\n")
            return 0
        message = frame.message
        known = {field.name for field in dataclasses.fields(Limits)}
        given = cast("dict[str, float]", message.get("limits", {}))
        limits = Limits(**{name: value for name, value in given.items() if name in known})  # type: ignore[arg-type]
        poller = Poller(self._loop)
        journal = Journal(frame.descriptors[0] if frame.descriptors else None)
        resolver = Resolver(
            tuple(cast("list[str]", message.get("resolvers", []))),
            loop=self._loop,
            timeout_seconds=limits.dns_timeout_seconds,
        )
        core = Core(
            poller,
            Sweep(poller.now, poller.failed),
            resolver,
            journal,
            limits,
            # the memory stays mapped when its descriptor is closed
            tally=Tally(frame.descriptors[1] if len(frame.descriptors) > 1 else None),
            large_pipes=int(cast("int", message.get("large_pipes", PIPE_MAX_LARGE_PIPES))),
        )
        core.log_required = bool(message.get("log_required", False))
        self._core = core
        self._review = Review(core, self._loop)
        self._tick()
        return min(len(frame.descriptors), 1)

    def _listener(self, frame: Frame) -> int:
        core = self._core
        if core is None or not frame.descriptors:
            sys.stderr.write("egressd: the worker got a listener before its settings, or without a socket\n")
            return 0
        name, kind = str(frame.message["name"]), str(frame.message["kind"])
        channel = self._channels.setdefault(name, Channel(name, kind))
        if len(self._channels) > 1:  # so that one job can never take them all
            core.channel_max = max(1, core.limits.connections_max // 2)
        listener = Listener(core, channel, socket.socket(fileno=frame.descriptors[0]))
        self._listeners.append(listener)
        if self._policy is not None:
            channel.swap(self._policy.channels.get(name))
            listener.start()
        return 1

    def _snapshot(self, frame: Frame) -> None:
        core = self._core
        if core is None:
            return
        try:
            policy = compile_policy(from_value(frame.message["snapshot"]))
        except (SnapshotFault, ValueError) as fault:
            sys.stderr.write(f"egressd: the worker refuses a policy snapshot, the old one stays: {fault}\n")
            return
        first = self._policy is None
        self._policy = policy
        for name, channel in self._channels.items():
            channel.swap(policy.channels.get(name))
        core.resolver.set_hosts(policy.hosts)
        core.pool.clear()
        self._review_due = _next_end(policy, time.time())
        if first:
            for listener in self._listeners:
                listener.start()
            self._say({"type": "listening"})
        elif self._review is not None:
            self._review.start()
        self._say({"type": "applied", "version": policy.version})

    # Time

    def _tick(self) -> None:
        """The one coarse timer: deadlines, records, counters, the end of a drain."""
        core = self._core
        if core is None:
            return
        # First of all: whatever fails below, the deadlines go on.
        following = self._loop.call_later(SWEEP_SECONDS, self._tick)
        now = core.poller.now = time.monotonic()
        core.sweep.run(now)
        core.journal.flush(now)
        if now >= self._report_due:
            self._report_due = now + _REPORT_SECONDS
            self._report(core)
            self._end_rules()
        if self._drain_until is not None:
            busy = core.connections or core.tunnels or core.lingering
            if not busy or now >= self._drain_until:
                following.cancel()
                self._end_drain(core)

    def _end_rules(self) -> None:
        """Review what is in flight once a time-limited rule has ended."""
        unix_now = time.time()
        if self._review is None or self._policy is None or self._review_due > unix_now:
            return
        self._review_due = _next_end(self._policy, unix_now)
        self._review.start()

    def _report(self, core: Core) -> None:
        counts = core.counts
        message: dict[str, object] = {
            "type": "counts",
            "requests": [[*key, count] for key, count in counts.requests.items()],
            "tunnel_ends": counts.tunnel_ends,
            "tunnels_open": len(core.tunnels),
            "connections_open": len(core.connections) + len(core.tunnels),
            # A tunnel may last for days, and what it moved would be lost with the worker.
            "bytes_up": counts.bytes_up + sum(tunnel.up.count for tunnel in core.tunnels),
            "bytes_down": counts.bytes_down + sum(tunnel.down.count for tunnel in core.tunnels),
            "mixed_answers": counts.mixed_answers,
            "accept_pauses": sum(listener.pauses for listener in self._listeners),
            "records_dropped": core.journal.dropped,
            "faults": core.poller.faults,
            "dns_lookups": core.resolver.lookups,
            "dns_failures": core.resolver.failures,
        }
        text = repr(message)
        if text != self._reported:
            self._reported = text
            self._say(message)
            self._say(
                {
                    "type": "health",
                    "resolver_dead": core.resolver.dead,
                    "record_faults": core.journal.faults,
                }
            )

    # The end

    def _drain(self, seconds: float) -> None:
        """Accept no more, end what is idle, and give the rest until the deadline."""
        core = self._core
        if core is None:
            self._stop()
            return
        core.draining = True
        for listener in self._listeners:
            listener.stop()
        self._listeners = []
        core.pool.clear()
        for connection in list(core.connections):
            if connection.head is None and not connection.started:
                connection.close()
        self._drain_until = time.monotonic() + seconds

    def _end_drain(self, core: Core) -> None:
        for tunnel in list(core.tunnels):
            tunnel.end(End.DRAINING)
        for connection in list(core.connections):
            connection.abort()
        core.journal.flush(time.monotonic())
        self._report(core)
        self._say({"type": "drained"})
        self._stop()

    def _stop(self) -> None:
        core = self._core
        if core is not None:
            for tunnel in list(core.tunnels):
                tunnel.end(End.DRAINING)
            core.journal.flush(time.monotonic())
        self._loop.stop()

    def _say(self, message: dict[str, object]) -> None:
        try:
            flushed = self._control.send(message)
        except ControlClosed:
            self._stop()
            return
        if not flushed and not self._wants_write:
            self._wants_write = True
            self._loop.add_writer(self._control_socket.fileno(), self._flush_control)

    def _flush_control(self) -> None:
        try:
            done = self._control.flush()
        except ControlClosed:
            self._stop()
            return
        if done:
            self._wants_write = False
            self._loop.remove_writer(self._control_socket.fileno())


def _next_end(policy: Policy, unix_now: float) -> float:
    """When the next time-limited rule of any grant ends."""
    ends = (grant.rules.next_end(unix_now) for grant in policy.channels.values())
    return min((end for end in ends if end is not None), default=_NEVER)


def run(loop: asyncio.AbstractEventLoop, descriptor: int) -> None:
    """Serve until the supervisor says so or is gone.

    Args:
        loop: A loop that nothing else runs on.
        descriptor: The worker's end of the control socket pair.
    """
    control = socket.socket(fileno=descriptor)
    control.setblocking(False)
    os.set_inheritable(descriptor, False)
    Service(loop, control)
    loop.run_forever()
