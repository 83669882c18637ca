"""The place for records: appended to, never waited for, and standard output left as it was."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from egressd.supervisor.sink import SinkFault, open_sink, write_line

SHOW_FLAGS = """
import fcntl, os, sys
from egressd.supervisor.sink import open_sink, write_line
before = fcntl.fcntl(1, fcntl.F_GETFL)
sink = open_sink(None)
flags = fcntl.fcntl(sink, fcntl.F_GETFL)
assert write_line(sink, "{}")
assert fcntl.fcntl(1, fcntl.F_GETFL) == before
print(bool(flags & os.O_NONBLOCK), file=sys.stderr)
"""


def flags_of(descriptor: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_GETFL)


def test_a_file_is_appended_to_and_its_mode_is_not_for_everyone(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    before = os.umask(0)
    try:
        sink = open_sink(path)
    finally:
        os.umask(before)
    assert flags_of(sink) & (os.O_APPEND | os.O_NONBLOCK) == os.O_APPEND | os.O_NONBLOCK
    assert not os.get_inheritable(sink)
    path.write_text("old\n")
    assert write_line(sink, '{"kind":"policy"}')
    assert path.read_text() == 'old\n{"kind":"policy"}\n'
    assert path.stat().st_mode & 0o777 == 0o640
    os.close(sink)


def test_a_place_that_cannot_be_had_is_told(tmp_path: Path) -> None:
    with pytest.raises(SinkFault, match="No such file"):
        open_sink(tmp_path / "none" / "records")


def test_a_full_pipe_takes_nothing_and_nobody_waits() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    while write_line(writer, "a" * 4000):
        pass
    assert not write_line(writer, "a" * 4000)
    os.close(reader)
    os.close(writer)


@pytest.mark.slow
def test_a_file_at_standard_output_is_written_where_standard_error_moves_on(tmp_path: Path) -> None:
    script = """
import sys
from egressd.supervisor.sink import open_sink, write_line
sink = open_sink(None)
print("one", file=sys.stderr, flush=True)
write_line(sink, "two")
print("three", file=sys.stderr, flush=True)
"""
    with (tmp_path / "log").open("wb") as log:
        subprocess.run([sys.executable, "-c", script], stdout=log, stderr=log, check=True)
    assert (tmp_path / "log").read_text() == "one\ntwo\nthree\n"


@pytest.mark.slow
def test_a_pipe_at_standard_output_is_opened_anew_so_that_its_own_flags_stay() -> None:
    found = subprocess.run([sys.executable, "-c", SHOW_FLAGS], capture_output=True, text=True, check=True)
    assert found.stdout == "{}\n"
    assert found.stderr == "True\n"
