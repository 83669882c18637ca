"""Keeps pipes for splice: a few large ones, the rest of default size, and none rather than tiny ones.

A pipe that is given back is empty and goes to the next bulk stream. One that may still hold bytes must be discarded, or
they would reach somebody else. Moves no bytes. Called by the worker's tunnels.
"""

from __future__ import annotations

import fcntl
import os

from egressd.limits import PIPE_BYTES, PIPE_MAX_IDLE_PIPES, PIPE_MAX_LARGE_PIPES

Pipe = tuple[int, int]

# The default size (pipe(7)). Beyond a user's soft limit the kernel makes pipes of one or two pages, and then reading
# and writing is cheaper than splicing.
_DEFAULT_BYTES = 65_536


class PipePool:
    """The pipes that nobody uses now, large ones apart."""

    __slots__ = ("_idle", "_idle_large", "_large", "_max_large")

    def __init__(self, max_large: int = PIPE_MAX_LARGE_PIPES) -> None:
        """Let at most `max_large` pipes of this pool be of `PIPE_BYTES`."""
        self._max_large = max_large
        self._idle: list[Pipe] = []
        self._idle_large: list[Pipe] = []
        self._large: set[Pipe] = set()

    def get(self) -> Pipe | None:
        """An empty pipe (read end, write end), neither of which blocks; None where there is none to be had."""
        if self._idle_large:
            return self._idle_large.pop()
        if len(self._large) >= self._max_large and self._idle:
            return self._idle.pop()
        return self._make()

    def _make(self) -> Pipe | None:
        try:
            pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:  # no descriptors, no memory
            return self._idle.pop() if self._idle else None
        if len(self._large) < self._max_large:
            try:
                fcntl.fcntl(pipe[1], fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            except OSError:
                # The user's limit or the node's: it will not be lifted by asking again.
                self._max_large = len(self._large)
            else:
                self._large.add(pipe)
                return pipe
        if fcntl.fcntl(pipe[1], fcntl.F_GETPIPE_SZ) < _DEFAULT_BYTES:
            _close(pipe)
            return None
        return pipe

    def put(self, pipe: Pipe) -> None:
        """Take back an empty pipe."""
        if pipe in self._large:
            self._idle_large.append(pipe)
        elif len(self._idle) < PIPE_MAX_IDLE_PIPES:
            self._idle.append(pipe)
        else:
            _close(pipe)

    def discard(self, pipe: Pipe) -> None:
        """Close a pipe that may hold bytes."""
        self._large.discard(pipe)
        _close(pipe)

    def close(self) -> None:
        """Close every idle pipe."""
        for pipe in (*self._idle, *self._idle_large):
            self.discard(pipe)
        self._idle.clear()
        self._idle_large.clear()


def _close(pipe: Pipe) -> None:
    for descriptor in pipe:
        os.close(descriptor)
