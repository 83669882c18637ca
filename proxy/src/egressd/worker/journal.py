"""Carries records to their sink in batches, without ever waiting for it: what it does not take is dropped and counted.

Only whole lines are dropped: a line of which a part is out is finished first, so that the sink never sees two lines
run together. To anything but a plain file lines go in pieces that the kernel takes whole or not at all, because the
workers share the sink. Decides nothing about what is recorded.

Written to by the worker's reporter, flushed by its sweep.
"""

from __future__ import annotations

import os
import stat

from egressd.limits import JOURNAL_BATCH_BYTES, JOURNAL_MAX_BYTES

# PIPE_BUF on Linux: a write of at most so much to a pipe (and to a stream socket) is not split (pipe(7)).
_WHOLE_BYTES = 4_096


class Journal:
    """The lines that wait, and what became of the others.

    Attributes:
        dropped: Lines that will never be written.
        faults: Times that the sink failed; a sink that is merely full has not failed.
        failing: Whether records are being lost now; ends with the next batch that is out whole.
    """

    __slots__ = (
        "_descriptor",
        "_flush_at",
        "_is_file",
        "_kept",
        "_lines",
        "_max_bytes",
        "_size",
        "_torn",
        "dropped",
        "failing",
        "faults",
    )

    def __init__(self, descriptor: int | None, *, max_bytes: int = JOURNAL_MAX_BYTES) -> None:
        """Write to a non-blocking descriptor, which stays the caller's; without one every record is lost, and told."""
        self._descriptor = descriptor
        self._is_file = descriptor is not None and stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._max_bytes = max_bytes
        self._flush_at = JOURNAL_BATCH_BYTES
        self._lines: list[str] = []
        self._kept = b""
        self._size = 0
        self._torn = False
        self.dropped = 0
        self.faults = 0
        self.failing = descriptor is None

    def write(self, line: str) -> None:
        """Take one line of ASCII with its line end."""
        size = self._size + len(line)
        if size > self._max_bytes or self._descriptor is None:
            self.dropped += 1
            self.failing = True
            return
        self._lines.append(line)
        self._size = size
        if size >= self._flush_at:
            self._write_out(self._descriptor)

    def flush(self, _now: float) -> None:
        """Write out what waits, as far as the sink takes it."""
        if self._size and self._descriptor is not None:
            self._write_out(self._descriptor)

    def _write_out(self, descriptor: int) -> None:
        data = self._kept + "".join(self._lines).encode("ascii", "backslashreplace")
        self._lines.clear()
        out = 0
        failed = False
        try:
            while out < len(data):
                out += os.write(descriptor, data if self._is_file and not out else self._piece(data, out))
        except BlockingIOError:
            pass  # full: what waits stays, up to the bound
        except OSError:
            failed = True
        if out:
            self._torn = data[out - 1] != ord("\n")
        rest = data[out:]
        if failed:
            self.faults += 1
            self.failing = True
            torn = rest[: rest.find(b"\n") + 1] if self._torn else b""
            self.dropped += rest.count(b"\n") - torn.count(b"\n")
            rest = torn
        elif not rest:
            self.failing = False
        self._kept = rest
        self._size = len(rest)
        self._flush_at = len(rest) + JOURNAL_BATCH_BYTES

    def _piece(self, data: bytes, start: int) -> bytes:
        """As many whole lines as the kernel takes at once; a longer line goes alone."""
        end = start + _WHOLE_BYTES
        if end >= len(data):
            return data[start:]
        cut = data.rfind(b"\n", start, end) + 1 or data.find(b"\n", end) + 1
        return data[start : cut or len(data)]
