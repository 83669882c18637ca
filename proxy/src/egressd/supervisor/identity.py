"""Which user the daemon runs as, and which users may command it.

Looks up `node.user`, gives up root for it, and judges the credentials that the kernel reports for a peer on the admin
socket. The command line calls it before the worker is started, `daemon` after the listeners are bound.
"""

from __future__ import annotations

import os
import pwd
import socket
import struct
from pathlib import Path

ROOT = 0
# What the kernel reports for a user of another user namespace (/proc/sys/kernel/overflowuid); nobody in particular.
OVERFLOW_UID_DEFAULT = 65_534
_CREDENTIALS = struct.Struct("=iII")  # struct ucred: pid, uid, gid


class UserFault(Exception):
    """The configured user cannot be become; the text is for the operator."""


def find_user(name: str) -> tuple[int, int]:
    """Give the uid and gid of a user of this machine.

    Raises:
        UserFault: There is none of that name, or it cannot be become without root.
    """
    try:
        row = pwd.getpwnam(name)
    except KeyError:
        raise UserFault(
            f"node.user: no user {name!a} on this machine; write an existing one, or leave it out"
        ) from None
    if os.geteuid() not in {ROOT, row.pw_uid}:
        raise UserFault(f"node.user: {name!a} can be become by root only; start as root, or leave it out")
    return row.pw_uid, row.pw_gid


def become(user: tuple[int, int]) -> None:
    """Give up root for a user and its group, for good; nothing happens where we are that user already."""
    uid, gid = user
    if os.geteuid() != ROOT or uid == ROOT:
        return
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def overflow_uid() -> int:
    """Give the uid that stands for everyone whom this user namespace does not know."""
    try:
        return int(Path("/proc/sys/kernel/overflowuid").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return OVERFLOW_UID_DEFAULT


def peer_uid(peer: socket.socket) -> int:
    """Give the uid of the process at the other end of a Unix socket, as it was when it connected (unix(7))."""
    _pid, uid, _gid = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return int(uid)


def may_command(uid: int, *, own: int, overflow: int) -> bool:
    """Say whether a user may change policy: root, or the user that the daemon runs as.

    The overflow uid never may, not even where it is our own: with it, all strangers look alike.
    """
    return uid == ROOT or (uid == own and uid != overflow)
