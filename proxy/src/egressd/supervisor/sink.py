"""Opens the place that decision records go to, in a way that neither waits nor overwrites.

A file is appended to. Nothing blocks, so that a full pipe or a slow terminal costs records (dropped, counted) and never
traffic. A pipe or terminal at standard output is opened anew for that, because the flag belongs to the open file, which
the daemon shares with the shell that started it. `daemon` opens the sink and hands it to the workers.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

FLAGS = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
# Records tell who reached what: for the operator and a group, not for everyone.
MODE = 0o640
STANDARD_OUTPUT = 1


class SinkFault(Exception):
    """The place for records cannot be opened; the text is for the operator."""


def open_sink(path: Path | None) -> int:
    """Open a file, or standard output for None.

    Raises:
        SinkFault: It cannot be opened for writing.
    """
    if path is not None:
        try:
            return os.open(path, FLAGS | os.O_CREAT, MODE)
        except OSError as error:
            raise SinkFault(f"records: {path}: {error.strerror}") from error
    try:
        kind = os.fstat(STANDARD_OUTPUT).st_mode
        if stat.S_ISFIFO(kind) or stat.S_ISCHR(kind):
            return _open_anew()
        sink = os.dup(STANDARD_OUTPUT)
    except OSError as error:
        raise SinkFault(f"records: standard output: {error.strerror}") from error
    if stat.S_ISSOCK(kind):
        # the journal's socket has no second opening; the only others who share it are our own processes
        os.set_blocking(sink, False)
    # a file never makes anyone wait, and is to be written where standard error, often the same file, moves on
    return sink


def _open_anew() -> int:
    try:
        return os.open(f"/proc/self/fd/{STANDARD_OUTPUT}", FLAGS)
    except OSError:
        return os.dup(STANDARD_OUTPUT)  # a stranger's terminal refuses a second opening


def write_line(descriptor: int, line: str) -> bool:
    """Append one line whole; False when it was not taken.

    A pipe takes up to 4096 bytes whole or not at all (PIPE_BUF), and a record of ours is shorter.
    """
    raw = line.encode("ascii", "backslashreplace") + b"\n"
    try:
        return os.write(descriptor, raw) == len(raw)
    except OSError:
        return False
