"""Counters in shared memory: rows, their bounds, and a reader that believes nothing."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from egressd import tally
from egressd.tally import ROW_BYTES, ROWS, TALLY_BYTES, UNCOUNTED, Tally, make_memory, read_rows


@pytest.fixture
def descriptor() -> Iterator[int]:
    made = make_memory()
    yield made
    os.close(made)


def read(descriptor: int) -> dict[tuple[str, ...], int]:
    with mmap.mmap(descriptor, TALLY_BYTES, prot=mmap.PROT_READ) as memory:
        return read_rows(memory)


def test_what_one_side_counts_the_other_reads(descriptor: int) -> None:
    counts = Tally(descriptor)
    for _ in range(3):
        counts.cells[counts.row(("requests", "default", "", "GET", "allowed", ""))] += 1
    counts.cells[counts.row(("tunnels",))] += 2**40

    expected = {UNCOUNTED: 0, ("requests", "default", "", "GET", "allowed", ""): 3, ("tunnels",): 2**40}
    assert read(descriptor) == expected
    assert counts.rows() == expected


def test_counts_outlive_the_process_that_made_them(descriptor: int) -> None:
    script = (
        "import os, signal, sys; from egressd.tally import Tally; t = Tally(int(sys.argv[1]));"
        "t.cells[t.row(('tunnels',))] += 7; os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", script, str(descriptor)], pass_fds=[descriptor], check=False)

    assert read(descriptor)["tunnels",] == 7


def test_an_unused_memory_is_empty(descriptor: int) -> None:
    assert read(descriptor) == {}


def test_what_no_row_is_left_for_is_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "ROWS", 3)
    counts = Tally()
    for name in ("a", "b", "c", "d"):
        counts.cells[counts.row((name,))] += 1

    assert counts.rows() == {UNCOUNTED: 2, ("a",): 1, ("b",): 1}


def test_a_text_that_no_row_holds_is_counted_together() -> None:
    counts = Tally()
    counts.cells[counts.row(("x" * (ROW_BYTES - 16),))] += 1
    counts.cells[counts.row(("x" * (ROW_BYTES - 15),))] += 1

    assert counts.rows() == {UNCOUNTED: 1, ("x" * (ROW_BYTES - 16),): 1}


def test_the_last_row_ends_with_the_memory() -> None:
    counts = Tally()
    for number in range(ROWS):
        counts.cells[counts.row((str(number),))] += 1

    assert counts.rows()[UNCOUNTED] == 1
    assert len(counts.rows()) == ROWS


def test_the_memory_can_be_neither_cut_nor_stretched(descriptor: int) -> None:
    for size in (0, TALLY_BYTES * 2):
        with pytest.raises(PermissionError):
            os.ftruncate(descriptor, size)


@pytest.mark.parametrize("length", [ROW_BYTES, 2**64 - 1])
def test_a_length_that_cannot_be_ends_the_reading(descriptor: int, length: int) -> None:
    counts = Tally(descriptor)
    counts.cells[counts.row(("a",))] = 1
    counts.cells[counts.row(("b",)) + 1] = length

    assert read(descriptor) == {UNCOUNTED: 0, ("a",): 1}


def test_text_that_is_no_text_is_still_read(descriptor: int) -> None:
    memory = mmap.mmap(descriptor, TALLY_BYTES)
    memory[:20] = (1).to_bytes(8, sys.byteorder) + (4).to_bytes(8, sys.byteorder) + b"\xff\x00ab"
    memory.close()

    assert read(descriptor) == {("\\xff", "ab"): 1}
