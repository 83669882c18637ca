"""The journal never waits: what its sink does not take is dropped in whole lines, and counted."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from egressd.limits import JOURNAL_BATCH_BYTES
from egressd.worker.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = 0.0


def line(number: int, size: int = 100) -> str:
    """A line of so many bytes that begins with its number."""
    return f"{number:06} ".ljust(size - 1, "x") + "\n"


def numbers(data: bytes, size: int = 100) -> list[int]:
    """The numbers of the lines; every line must be whole."""
    lines = data.decode("ascii").splitlines(keepends=True)
    assert all(each == line(int(each[:6]), size) for each in lines)
    return [int(each[:6]) for each in lines]


def drained(descriptor: int) -> bytes:
    """All that a pipe or socket holds now."""
    got = bytearray()
    try:
        while chunk := os.read(descriptor, 65_536):
            got += chunk
    except BlockingIOError:
        pass
    return bytes(got)


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    path = tmp_path / "records.jsonl"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK)
    yield path, descriptor
    os.close(descriptor)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe2(os.O_NONBLOCK)
    yield ends
    for descriptor in ends:
        with contextlib.suppress(OSError):  # a test has closed it
            os.close(descriptor)


def test_lines_wait_for_the_flush_and_come_in_their_order(sink: tuple[Path, int]) -> None:
    path, descriptor = sink
    journal = Journal(descriptor)
    for number in range(10):
        journal.write(line(number))
    assert path.read_bytes() == b""

    journal.flush(NOW)

    assert numbers(path.read_bytes()) == list(range(10))
    assert (journal.dropped, journal.faults, journal.failing) == (0, 0, False)


def test_a_full_batch_is_written_at_once(sink: tuple[Path, int]) -> None:
    path, descriptor = sink
    journal = Journal(descriptor)
    for number in range(JOURNAL_BATCH_BYTES // 100 + 1):
        journal.write(line(number))

    assert len(path.read_bytes()) >= JOURNAL_BATCH_BYTES


def test_an_idle_journal_does_not_touch_its_sink(pipe: tuple[int, int]) -> None:
    journal = Journal(pipe[1])
    os.close(pipe[0])

    journal.flush(NOW)

    assert journal.faults == 0


def test_two_writers_of_one_file_keep_each_others_lines(sink: tuple[Path, int]) -> None:
    path, descriptor = sink
    first, second = Journal(descriptor), Journal(descriptor)
    for number in range(1000):
        (first if number % 2 else second).write(line(number))
        if number % 7 == 0:
            first.flush(NOW)
            second.flush(NOW)
    first.flush(NOW)
    second.flush(NOW)

    assert sorted(numbers(path.read_bytes())) == list(range(1000))


def test_what_a_full_pipe_does_not_take_waits_and_comes_later(pipe: tuple[int, int]) -> None:
    journal = Journal(pipe[1])
    for number in range(2000):
        journal.write(line(number))
    journal.flush(NOW)
    journal.flush(NOW)
    got = drained(pipe[0])
    assert 0 < len(got) < 200_000

    for _ in range(10):
        journal.flush(NOW)
        got += drained(pipe[0])

    assert numbers(got) == list(range(2000))
    assert (journal.dropped, journal.faults, journal.failing) == (0, 0, False)


def test_above_the_bound_the_new_lines_are_dropped_and_counted(pipe: tuple[int, int]) -> None:
    journal = Journal(pipe[1], max_bytes=100_000)
    for number in range(5000):
        journal.write(line(number))
    assert journal.dropped > 0
    assert (journal.failing, journal.faults) == (True, 0)

    got = b""
    for _ in range(10):
        journal.flush(NOW)
        got += drained(pipe[0])

    kept = numbers(got)
    assert kept == list(range(len(kept)))
    assert len(kept) + journal.dropped == 5000
    assert not journal.failing


def test_many_writers_of_one_full_pipe_never_mix_their_lines(pipe: tuple[int, int]) -> None:
    journals = [Journal(pipe[1]) for _ in range(4)]
    got = b""
    for number in range(8000):
        journals[number % 4].write(line(number, 97))
        if number % 500 == 0:
            for journal in journals:
                journal.flush(NOW)
            got += os.read(pipe[0], 5000)
    for _ in range(20):
        for journal in journals:
            journal.flush(NOW)
        got += drained(pipe[0])

    assert sorted(numbers(got, 97)) == list(range(8000))


def test_a_stream_socket_gets_whole_lines_too() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    with ours, theirs:
        journal = Journal(ours.fileno())
        for number in range(5000):
            journal.write(line(number))
        got = b""
        for _ in range(50):
            journal.flush(NOW)
            got += drained(theirs.fileno())

    assert numbers(got) == list(range(5000))


def test_a_line_longer_than_a_piece_goes_whole_to_a_reader_who_reads(pipe: tuple[int, int]) -> None:
    journal = Journal(pipe[1])
    sizes = (100, 10_000, 100)
    for number, size in enumerate(sizes):
        journal.write(line(number, size))
    journal.flush(NOW)

    assert drained(pipe[0]).decode("ascii") == "".join(line(number, size) for number, size in enumerate(sizes))


def test_a_torn_line_is_finished_before_anything_else(pipe: tuple[int, int]) -> None:
    journal = Journal(pipe[1])
    long = 200_000
    journal.write(line(1, long))
    journal.write(line(2, long))
    got = drained(pipe[0])
    for _ in range(20):
        journal.flush(NOW)
        got += drained(pipe[0])

    assert numbers(got, long) == [1, 2]
    assert journal.dropped == 0


def test_a_broken_sink_costs_its_lines_and_nothing_else(pipe: tuple[int, int]) -> None:
    journal = Journal(pipe[1])
    os.close(pipe[0])
    for number in range(10):
        journal.write(line(number))

    journal.flush(NOW)

    assert (journal.dropped, journal.faults, journal.failing) == (10, 1, True)
    journal.flush(NOW)
    assert journal.faults == 1
    journal.write(line(10))
    journal.flush(NOW)
    assert (journal.dropped, journal.faults) == (11, 2)


def test_a_full_disk_costs_whole_lines_and_the_torn_one_is_finished_when_there_is_room(tmp_path: Path) -> None:
    # A process of its own, since the limit on file sizes, which stands for the full disk, holds for all of a process.
    script = f"""
import resource, signal, sys
from pathlib import Path
import os
from egressd.worker.journal import Journal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = Path(sys.argv[1])
descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK)
journal = Journal(descriptor)
limits = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (250, limits[1]))
for number in range(5):
    journal.write({line.__name__}(number))
journal.flush(0.0)
assert path.stat().st_size == 250, path.stat()
assert (journal.dropped, journal.faults, journal.failing) == (2, 1, True), (journal.dropped, journal.faults)
resource.setrlimit(resource.RLIMIT_FSIZE, limits)
journal.write(line(7))
journal.flush(0.0)
assert (journal.dropped, journal.failing) == (2, False)
"""
    source = 'def line(number, size=100):\n    return f"{number:06} ".ljust(size - 1, "x") + "\\n"\n'
    path = tmp_path / "records.jsonl"
    subprocess.run([sys.executable, "-c", source + script, str(path)], check=True, timeout=30)

    assert numbers(path.read_bytes()) == [0, 1, 2, 7]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 250


def test_without_a_sink_every_record_is_lost_and_told() -> None:
    journal = Journal(None)
    assert journal.failing

    journal.write(line(1))
    journal.flush(NOW)

    assert (journal.dropped, journal.failing) == (1, True)


def test_a_line_that_is_not_ascii_cannot_stop_the_others(sink: tuple[Path, int]) -> None:
    path, descriptor = sink
    journal = Journal(descriptor)
    journal.write("é\n")
    journal.flush(NOW)

    assert path.read_bytes() == b"\\xe9\n"
