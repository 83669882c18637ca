"""Replaces a list file as a whole: whoever reads it sees the old text or the new one, never half of one.

Owner and mode stay as they were. Two commands at one time wait for each other, so that neither loses the other's rule.
Decides nothing about rules. `cli` calls it.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# What a new list file gets: the daemon may run as another user than the one who edits.
NEW_FILE_MODE = 0o644
NEW_FOLDER_MODE = 0o755


class WriteFault(Exception):
    """The list cannot be written; the text is for the operator."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder of a kind of lists for one edit; made if it is not there.

    Raises:
        WriteFault: It cannot be made or opened.
    """
    try:
        _make(folder)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise WriteFault(f"{folder}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _make(folder: Path) -> None:
    """Make the folder with its parent's owner; the parent itself must be there (it may be a mount that is away)."""
    if folder.is_dir():
        return
    folder.mkdir(mode=NEW_FOLDER_MODE)
    parent = folder.parent.stat()
    with suppress(PermissionError):
        os.chown(folder, parent.st_uid, parent.st_gid)


def replace(path: Path, text: str) -> None:
    """Put a new text in the place of a file, owner and mode kept; a link's target is replaced, not the link.

    Raises:
        WriteFault: Not permitted, no room, or the owner cannot be kept (then nothing has changed).
    """
    target = Path(os.path.realpath(path))
    try:
        before: os.stat_result | None = target.stat()
    except FileNotFoundError:
        before = None
    except OSError as error:
        raise WriteFault(f"{path}: {error.strerror}") from error
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise WriteFault(f"{target.parent}: {error.strerror}") from error
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
            file.write(text.encode())
            _keep_owner(descriptor, target, before)
            file.flush()
            os.fsync(descriptor)
        Path(name).replace(target)
        _sync(target.parent)
    except OSError as error:
        with suppress(OSError):
            Path(name).unlink()
        raise WriteFault(f"{path}: {error.strerror}") from error


def _keep_owner(descriptor: int, target: Path, before: os.stat_result | None) -> None:
    like = target.parent.stat() if before is None else before
    mine = os.fstat(descriptor)
    if (like.st_uid, like.st_gid) != (mine.st_uid, mine.st_gid):
        try:
            os.fchown(descriptor, like.st_uid, like.st_gid)
        except PermissionError:
            # a new file may as well be ours; an old one must not change hands by an edit
            if before is not None:
                raise
    os.fchmod(descriptor, NEW_FILE_MODE if before is None else stat.S_IMODE(before.st_mode))


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
