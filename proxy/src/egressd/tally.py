"""Counters in memory that two processes share: a worker adds, the supervisor reads, and they outlive the worker.

A worker that is killed cannot tell any more what it counted since its last report; what stands in this memory needs no
telling. A row is a number and the key that it belongs to. Only one process writes: it puts a row's text down before the
row's length, and a reader stops at the first row without a length. Rows are bounded, because the keys are made of
methods and reasons that a job can provoke; what no row is left for is counted together under `UNCOUNTED`.

Decides nothing. `worker.core` writes, `supervisor.workers` makes the memory and reads.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct

Key = tuple[str, ...]

# Tenant and plugin have at most 63 characters each, method, decision and reason some 50 together.
ROW_BYTES = 320
# About 400 rows are possible for one tenant, a dozen are usual. Pages that nobody touches cost nothing.
ROWS = 8_192
TALLY_BYTES = ROW_BYTES * ROWS
UNCOUNTED = ("uncounted",)

_HEAD = struct.Struct("=QQ")  # the count, then the length of the key's text in bytes
_TEXT_MAX_BYTES = ROW_BYTES - _HEAD.size
_ROW_CELLS = ROW_BYTES // 8
_BETWEEN = "\0"
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def make_memory() -> int:
    """Make an empty memory of `TALLY_BYTES`; returns its descriptor, which the caller closes.

    It is sealed: a process that could cut it would kill the other one at its next access (memfd_create(2)).
    """
    descriptor = os.memfd_create("egressd-tally", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, TALLY_BYTES)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    return descriptor


class Tally:
    """The writing side. `cells[row(key)] += 1` counts."""

    __slots__ = ("_bytes", "_rows", "cells")

    def __init__(self, descriptor: int | None = None) -> None:
        """Write to a memory that `make_memory` gave and that nobody wrote to before; None is one of our own."""
        memory = mmap.mmap(-1 if descriptor is None else descriptor, TALLY_BYTES)
        self._bytes = memoryview(memory)
        self.cells = self._bytes.cast("Q")
        self._rows: dict[Key, int] = {}
        self.row(UNCOUNTED)

    def row(self, key: Key) -> int:
        """Give the index of a key's cell; its row is made when it is first asked for."""
        cell = self._rows.get(key)
        if cell is not None:
            return cell
        text = _BETWEEN.join(key).encode("utf-8", "backslashreplace")
        if len(self._rows) >= ROWS or len(text) > _TEXT_MAX_BYTES:
            return self._rows[UNCOUNTED]
        cell = len(self._rows) * _ROW_CELLS
        start = cell * 8 + _HEAD.size
        self._bytes[start : start + len(text)] = text
        self.cells[cell + 1] = len(text)
        self._rows[key] = cell
        return cell

    def rows(self) -> dict[Key, int]:
        """Give every count by its key."""
        return {key: self.cells[cell] for key, cell in self._rows.items()}


def read_rows(memory: mmap.mmap) -> dict[Key, int]:
    """Give every count by its key, as it stands now; believes nothing of what another process wrote."""
    found: dict[Key, int] = {}
    for start in range(0, min(len(memory), TALLY_BYTES), ROW_BYTES):
        count, length = _HEAD.unpack_from(memory, start)
        if not 0 < length <= _TEXT_MAX_BYTES:
            break
        text = memory[start + _HEAD.size : start + _HEAD.size + length].decode("utf-8", "backslashreplace")
        key = tuple(text.split(_BETWEEN))
        found[key] = found.get(key, 0) + count
    return found
