"""A worker's parts without an event loop: the real event set, driven by hand, with a fake resolver and a kept journal.

`Rig.until` waits on the event set for a condition, never for a time; a condition that does not come within five
seconds fails the test.
"""

from __future__ import annotations

import json
import select
import socket
import time
from typing import TYPE_CHECKING, cast

from egressd.answers import Answers, ResolveFault
from egressd.grants import Policy, compile_policy
from egressd.limits import Limits
from egressd.snapshot import GrantSpec, ListText, Snapshot
from egressd.worker.channel import Channel
from egressd.worker.connection import Connection
from egressd.worker.core import Core
from egressd.worker.poller import Poller
from egressd.worker.timers import Sweep

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from ipaddress import IPv4Address, IPv6Address

    from egressd.worker.journal import Journal
    from egressd.worker.resolver import Resolver

WAIT_SECONDS = 5.0


class FakeLoop:
    """The three methods of a loop that the event set uses."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def add_reader(self, _descriptor: int, _callback: Callable[[], None]) -> None:
        """The rig calls the event set itself."""

    def remove_reader(self, _descriptor: int) -> None:
        """Nothing was added."""

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Kept for the rig's next turn."""
        self.soon.append(callback)


class FakeLookup:
    """A look-up under way; `cancelled` says whether its owner gave it up."""

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        """Give it up."""
        self.cancelled = True


class FakeResolver:
    """Answers by name: a row is the addresses, or the kind of fault; `asked` holds every name looked up."""

    def __init__(
        self, loop: FakeLoop, rows: dict[str, tuple[IPv4Address | IPv6Address, ...] | str], *, hold: bool = False
    ) -> None:
        self._loop = loop
        self.rows = rows
        self.hold = hold
        self.asked: list[str] = []
        self.held: list[tuple[str, Callable[[Answers | ResolveFault], None], FakeLookup]] = []

    def cached(self, _name: str, _now: float) -> Answers | None:
        """Nothing is ever in the cache."""
        return None

    def lookup(
        self, name: str, _now: float, on_done: Callable[[Answers | ResolveFault], None], *, owner: str
    ) -> FakeLookup:
        """Answer in the loop's next turn, or when the test releases it."""
        assert owner == "default"
        self.asked.append(name)
        lookup = FakeLookup()
        if self.hold:
            self.held.append((name, on_done, lookup))
        else:
            self._loop.soon.append(lambda: None if lookup.cancelled else on_done(self.result(name)))
        return lookup

    def result(self, name: str) -> Answers | ResolveFault:
        """What the rows say of a name."""
        row = self.rows.get(name, "nxdomain")
        if isinstance(row, str):
            return ResolveFault(row)
        return Answers(row, time.monotonic() + 60)

    def release(self) -> None:
        """Answer what is held and not given up."""
        held, self.held = self.held, []
        for name, on_done, lookup in held:
            if not lookup.cancelled:
                on_done(self.result(name))


class KeptJournal:
    """Keeps the records as values."""

    failing = False
    dropped = 0
    faults = 0

    def __init__(self) -> None:
        self.lines: list[dict[str, object]] = []

    def write(self, line: str) -> None:
        """Keep one record; it must be one line of JSON."""
        assert line.endswith("\n")
        assert line.count("\n") == 1
        self.lines.append(json.loads(line))

    def flush(self, _now: float) -> None:
        """Nothing waits."""


class Rig:
    """A core with one channel, and the means to drive it."""

    def __init__(
        self,
        *,
        rules: str = "",
        rows: dict[str, tuple[IPv4Address | IPv6Address, ...] | str] | None = None,
        limits: Limits | None = None,
        unsafe_reach: tuple[str, ...] = ("127.0.0.0/8",),
        hold: bool = False,
        spec: GrantSpec | None = None,
    ) -> None:
        self.loop = FakeLoop()
        self._passed = 0.0
        self.poller = Poller(cast("asyncio.AbstractEventLoop", self.loop), lambda: time.monotonic() + self._passed)
        self.resolver = FakeResolver(self.loop, rows or {}, hold=hold)
        self.journal = KeptJournal()
        self.core = Core(
            self.poller,
            Sweep(self.poller.now, self.poller.failed),
            cast("Resolver", self.resolver),
            cast("Journal", self.journal),
            limits or Limits(),
        )
        self.channel = Channel("default", "tcp")
        self.unsafe_reach = unsafe_reach
        self._version = 0
        self.load(rules, spec)
        self._open: list[socket.socket] = []

    def load(self, rules: str, spec: GrantSpec | None = None) -> Policy:
        """Swap the policy to one with these rules in the tenant's list."""
        self._version += 1
        grant = spec or GrantSpec("default", lists=(ListText("tenant", "tenants/default.list", rules),))
        policy = compile_policy(
            Snapshot(
                version=self._version,
                grants=(grant,),
                channels={"default": 0},
                own=("127.0.0.0/8", "::1/128"),
                unsafe_reach=self.unsafe_reach,
            )
        )
        self.channel.swap(policy.channels["default"])
        return policy

    def client(self) -> tuple[socket.socket, Connection]:
        """A connected client over TCP on loopback, and the connection object that serves it."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            client = socket.create_connection(listener.getsockname())
            accepted, _address = listener.accept()
        accepted.setblocking(False)
        self._open.append(client)
        return client, Connection(self.core, self.channel, accepted)

    def turn(self, wait_seconds: float = 0.0) -> int:
        """One drain, after waiting at most so long for something to be ready; how many descriptors were ready."""
        ready = select.select([self.poller.fileno()], [], [], wait_seconds)[0]
        self.poller.drain()
        soon, self.loop.soon = self.loop.soon, []
        for callback in soon:
            callback()
        return len(ready)

    def until(self, condition: Callable[[], bool]) -> None:
        """Turn until the condition holds."""
        end = time.monotonic() + WAIT_SECONDS
        while not condition():
            assert time.monotonic() < end, "the condition did not come"
            self.turn(0.001)

    def read_all(self, sock: socket.socket) -> bytes:
        """Everything that a client gets until its connection ends; the worker is driven meanwhile."""
        sock.setblocking(False)
        got = bytearray()
        ended = False

        def read() -> bool:
            nonlocal ended
            try:
                chunk = sock.recv(65_536)
            except BlockingIOError:
                return False
            got.extend(chunk)
            ended = not chunk
            return ended

        self.until(read)
        return bytes(got)

    def pass_time(self, seconds: float) -> None:
        """Let so many seconds pass for deadlines, without waiting."""
        self._passed += seconds
        self.poller.now += seconds
        self.core.sweep.run(self.poller.now)

    def close(self) -> None:
        """Close everything, and hold the worker to having left nothing behind."""
        for sock in self._open:
            sock.close()
        core = self.core
        for tunnel in list(core.tunnels):
            tunnel.abort()
        for connection in list(core.connections):
            connection.abort()
        for linger in list(core.lingering):
            linger.abort()
        core.pool.clear()
        core.pipes.close()
        left = (dict(self.poller.handlers), len(core.sweep), self.poller.faults)
        self.poller.close()
        assert left == ({}, 0, 0), "descriptors, deadlines or failures are left behind"


class Origin:
    """A listening socket that counts the connections that reach it."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.port: int = self.listener.getsockname()[1]
        self.accepted: list[socket.socket] = []

    def accept(self) -> socket.socket | None:
        """The next connection, if there is one."""
        try:
            sock, _address = self.listener.accept()
        except BlockingIOError:
            return None
        self.accepted.append(sock)
        return sock

    def close(self) -> None:
        """Close everything."""
        for sock in self.accepted:
            sock.close()
        self.listener.close()
