"""Worker processes as the supervisor sees them: started, spoken to, and noticed when they die.

`spawn` comes first of all in the life of the daemon, before pydantic or aiohttp are imported, so that both processes
start up side by side; therefore this module imports no more than the start needs. A `Worker` is made of what `spawn`
gave once there is a loop. It knows one process; which workers there are, and what follows from the death of one, is
`crew`'s.
"""

from __future__ import annotations

import mmap
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from egressd.control import TO_SUPERVISOR, ControlClosed, ControlFault, ControlSocket
from egressd.tally import TALLY_BYTES, make_memory, read_rows

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping, Sequence

# Variables that make programs use a proxy. The proxy itself would go through itself, or through a stranger.
PROXY_VARIABLES = frozenset({"http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"})
WORKER = (sys.executable, "-m", "egressd.worker")
# Between a worker's last word and its exit; Python takes some 20 ms to fold up.
EXIT_SECONDS = 2.0
# Reads of what a worker said before its end; 200 KiB at most wait in its socket, and a read takes as much.
_LAST_READS = 16


@dataclass(frozen=True, slots=True)
class Spawned:
    """A started process and our end of its control socket, before there is a loop to watch them."""

    process: subprocess.Popen[bytes]
    end: socket.socket
    user: tuple[int, int] | None = None


def without_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """Give an environment without the variables that name a proxy, in any case."""
    return {name: value for name, value in environment.items() if name.lower() not in PROXY_VARIABLES}


def spawn(command: Sequence[str] = (), *, user: tuple[int, int] | None = None) -> Spawned:
    """Start a worker process that inherits 0, 1, 2 and its end of a control socket, and nothing else.

    Args:
        command: What to run instead of the worker; `--control-fd N` is appended.
        user: (uid, gid) to run as; needs root.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with theirs:
        argv = [*(command or WORKER), "--control-fd", str(theirs.fileno())]
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            argv,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=without_proxies(os.environ),
            user=None if user is None else user[0],
            group=None if user is None else user[1],
            extra_groups=None if user is None else [],
            # the terminal's Ctrl-C and hang-up are the supervisor's to answer: it drains, and the worker hears of it
            process_group=0,
        )
    return Spawned(process, ours, user)


def discard(spawned: Spawned) -> None:
    """End a spawned worker that is not needed (any more), and wait for it."""
    spawned.end.close()
    if spawned.process.poll() is None:
        spawned.process.kill()
    spawned.process.wait()


@dataclass(slots=True)
class WorkerState:
    """What a worker has told about itself."""

    listening: bool = False
    applied: int = 0
    drained: bool = False
    counts: dict[str, object] = field(default_factory=dict)
    health: dict[str, object] = field(default_factory=dict)
    ended: str | None = None

    @property
    def serves(self) -> bool:
        """Whether it takes connections under some policy."""
        return self.ended is None and self.listening and self.applied > 0


class Worker:
    """One running worker process. Belongs to one loop and is used from its thread only."""

    def __init__(self, spawned: Spawned, loop: asyncio.AbstractEventLoop, on_change: Callable[[], None]) -> None:
        """Begin to watch a spawned worker.

        Args:
            spawned: What `spawn` gave; it is ours from now on.
            loop: The running loop.
            on_change: Called after `state` has changed, the worker's end included; it may close the worker.

        Raises:
            OSError: No descriptor or no memory is to be had.
        """
        self.state = WorkerState()
        self.tally = make_memory()
        self._process = spawned.process
        self._control = ControlSocket(spawned.end)
        self._loop = loop
        self._on_change = on_change
        try:
            self._memory = mmap.mmap(self.tally, TALLY_BYTES, prot=mmap.PROT_READ)
            self._pidfd = os.pidfd_open(spawned.process.pid)
        except OSError:
            os.close(self.tally)
            raise
        self._writing = False
        self._closed = False
        self._killing: asyncio.TimerHandle | None = None
        loop.add_reader(self._control.fileno(), self._on_frames)
        loop.add_reader(self._pidfd, self._on_exit)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def send(self, message: Mapping[str, object], descriptors: Sequence[int] = ()) -> None:
        """Send a frame; what the socket does not take now goes out when it can. To a worker that is gone, nothing."""
        if self._closed or self.state.ended is not None:
            return
        try:
            self._watch_writing(not self._control.send(message, descriptors))
        except ControlClosed:
            self._watch_writing(False)

    def counts(self) -> dict[str, object]:
        """Give everything it counted: what it said last, and what stands in the memory since then."""
        requests: list[list[object]] = []
        ends: dict[str, int] = {}
        found: dict[str, object] = {}
        for (kind, *rest), count in read_rows(self._memory).items():
            if kind == "requests":
                requests.append([*rest, count])
            elif kind == "tunnel_ends":
                ends["".join(rest)] = count
            else:
                found[kind] = count
        if requests:
            found["requests"] = requests
        if ends:
            found["tunnel_ends"] = ends
        return {**self.state.counts, **found}

    def kill(self) -> None:
        """End the process at once."""
        if self.state.ended is None:
            self._process.kill()

    def close(self) -> None:
        """Stop watching; a process that still runs is killed and waited for."""
        if self._closed:
            return
        self._closed = True
        if self._killing is not None:
            self._killing.cancel()
        self._watch_writing(False)
        self._loop.remove_reader(self._control.fileno())
        self._loop.remove_reader(self._pidfd)
        self._control.close()
        self._memory.close()
        os.close(self.tally)
        os.close(self._pidfd)
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    def _watch_writing(self, wanted: bool) -> None:  # noqa: FBT001 - says what is so, switches nothing
        if wanted and not self._writing:
            self._loop.add_writer(self._control.fileno(), self._on_writable)
        elif not wanted and self._writing:
            self._loop.remove_writer(self._control.fileno())
        self._writing = wanted

    def _on_writable(self) -> None:
        try:
            self._watch_writing(not self._control.flush())
        except ControlClosed:
            self._watch_writing(False)

    def _on_frames(self) -> None:
        try:
            taken = self._take_frames()
        except ControlClosed:
            # it is about to exit, which the pidfd will tell; one that only closed its control socket is of no use
            self._loop.remove_reader(self._control.fileno())
            self._killing = self._loop.call_later(EXIT_SECONDS, self.kill)
            return
        except ControlFault as fault:
            self._loop.remove_reader(self._control.fileno())
            self.kill()
            self._end(f"sent {fault}")
            return
        if taken:
            self._on_change()

    def _take_frames(self) -> int:
        """Read once, and take the frames that are whole; returns how many.

        Raises:
            ControlClosed: The worker's end is closed.
            ControlFault: It sent no frame.
        """
        frames = self._control.receive()
        for frame in frames:
            for descriptor in frame.descriptors:
                os.close(descriptor)
            self._take(frame.type, frame.message)
        return len(frames)

    def _take(self, kind: str, message: Mapping[str, object]) -> None:
        state = self.state
        match kind:
            case "listening":
                state.listening = True
            case "applied":
                version = message.get("version")
                state.applied = version if isinstance(version, int) else state.applied
            case "drained":
                state.drained = True
            case "counts":
                state.counts = dict(message)
            case "health":
                state.health = dict(message)
            case _ if kind not in TO_SUPERVISOR:
                self.kill()
                self._end(f"sent a frame of type {kind!a}")

    def _on_exit(self) -> None:
        self._loop.remove_reader(self._pidfd)
        code = self._process.wait()
        # what it said last may still wait in its socket
        with suppress(ControlClosed, ControlFault):
            for _ in range(_LAST_READS):
                self._take_frames()
        self._end(_how_ended(code))
        self._on_change()

    def _end(self, how: str) -> None:
        if self.state.ended is None:
            self.state.ended = how


def _how_ended(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
