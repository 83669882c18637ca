"""List files as both the daemon and `egressctl` know them: where they lie, how they are read, how they are wrong.

Reading never waits and is bounded; what a rule means is `egress_policy.rules`' business, and what a broken list leads
to `supervisor.lists`'. Writes nothing.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from egress_policy.rules import ListKind, Problem

# A quarter of a million rules; more is a mistaken path, and a device file never ends.
LIST_MAX_BYTES = 8 * 1024 * 1024
FOLDERS = {ListKind.TENANT: "tenants", ListKind.PLUGIN: "plugins"}
# Names of tenants and plugins are file names, log fields and metric labels at once.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
NAME_FORM = "letters, digits, '_', '-' and '.', not beginning with '.' or '-', at most 63"


class ListFault(Exception):
    """A list file or its folder cannot be read; the text is for the operator."""


def list_source(kind: ListKind, name: str) -> str:
    """Give the path of a list inside its folder, such as `tenants/default.list`."""
    return f"{FOLDERS[kind]}/{name}.list"


def read_list(folder: Path, kind: ListKind, name: str) -> str:
    """Read one list file; an absent file, or an absent folder of its kind, is the empty text.

    Raises:
        ListFault: The folder or the file cannot be read, is something else, is too large, or is not UTF-8.
    """
    if not look_into(folder, kind):
        return ""
    source = list_source(kind, name)
    try:
        # not blocking: a FIFO in the place of a list would otherwise hold the daemon until someone writes
        descriptor = os.open(folder / source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ListFault(f"{source}: {error.strerror}") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ListFault(f"{source}: not a file")
        with open(descriptor, "rb", closefd=False) as file:
            raw = file.read(LIST_MAX_BYTES + 1)
    except OSError as error:
        raise ListFault(f"{source}: {error.strerror}") from error
    finally:
        os.close(descriptor)
    if len(raw) > LIST_MAX_BYTES:
        raise ListFault(f"{source}: larger than {LIST_MAX_BYTES} bytes")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ListFault(f"{source}:{line}: not UTF-8") from error


def look_into(folder: Path, kind: ListKind) -> bool:
    """Make sure that the folder of the lists can be read; False where it has no folder of this kind.

    Raises:
        ListFault: It is absent, or it or its folder of this kind cannot be read: not the same as having no lists.
    """
    return _can_scan(folder, absent_is_empty=False) and _can_scan(folder / FOLDERS[kind], absent_is_empty=True)


def _can_scan(folder: Path, *, absent_is_empty: bool) -> bool:
    try:
        with os.scandir(folder):
            return True
    except FileNotFoundError as error:
        if absent_is_empty:
            return False
        raise ListFault(f"no folder {folder}") from error
    except OSError as error:
        raise ListFault(f"folder {folder}: {error.strerror}") from error


def show_problem(problem: Problem) -> str:
    """Write a list's problem as one line: place, what is wrong, what was found, what to write instead."""
    place = f"{problem.source}:{problem.line}" if problem.line else problem.source
    if problem.column is not None:
        place += f":{problem.column}"
    kind = "" if problem.severity == "error" else f"{problem.severity}: "
    instead = f"; write {problem.write_instead}" if problem.write_instead else ""
    return f"{place}: {kind}{problem.problem}, found {problem.found!r}{instead}"
