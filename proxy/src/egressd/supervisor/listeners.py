"""Binds the daemon's listening sockets: TCP addresses and Unix sockets, its own and those it hands to workers.

Which addresses may be bound is `config`'s decision. Here a socket is bound exactly as asked, or the fault says why not
and what to do. A Unix socket that nobody listens on is taken over, one that answers belongs to another process and
stays. Accepts nothing; `daemon` calls it before anything answers.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# Connections that wait to be accepted; the kernel clamps it to net.core.somaxconn (4096 since 5.4). nginx asks 511.
BACKLOG = 4096
# How long a Unix socket in our place may take to say whether someone listens: it is local, and answers or is full.
PROBE_SECONDS = 0.2


class ListenFault(Exception):
    """A listener that cannot be had; the text is for the operator."""


@dataclass(slots=True)
class Bound:
    """A listening socket, and the file that is its address if it is a Unix one."""

    name: str
    kind: str
    socket: socket.socket
    address: str
    path: Path | None = None
    inode: tuple[int, int] | None = None

    def close(self) -> None:
        """Stop listening, and remove the socket's file if it is still ours."""
        self.socket.close()
        path, self.path = self.path, None
        if path is None:
            return
        with suppress(OSError):
            found = path.lstat()
            if (found.st_dev, found.st_ino) == self.inode:
                path.unlink()


def bind_tcp(name: str, host: str, port: int) -> Bound:
    """Listen on an address literal; port 0 lets the kernel choose.

    Raises:
        ListenFault: The address is taken, not this machine's, or not permitted.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    listening = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        # without it a restart within a minute of the last tunnel's end finds its own port in TIME_WAIT
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        fault = f"listener {name}: {place}: {_advice(error)}"
        raise ListenFault(fault) from error
    bound_port: int = listening.getsockname()[1]
    address = f"[{host}]:{bound_port}" if ":" in host else f"{host}:{bound_port}"
    return Bound(name=name, kind="tcp", socket=listening, address=address)


def bind_unix(name: str, path: Path, mode: int) -> Bound:
    """Listen on a Unix socket; a stale file in its place is removed.

    Args:
        name: The listener's, for messages.
        path: Absolute, at most 107 bytes.
        mode: Of the socket's file. Connecting takes write permission.

    Raises:
        ListenFault: Another process listens there, another kind of file is there, or the folder does not let us.
    """
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        _make_room(name, path)
        # the mode holds from the first moment: a chmod alone would leave a gap in which anyone may connect
        before = os.umask(0o777 & ~mode)
        try:
            listening.bind(str(path))
        finally:
            os.umask(before)
        listening.listen(BACKLOG)
        found = path.lstat()
    except OSError as error:
        listening.close()
        fault = f"listener {name}: {path}: {_advice(error)}"
        raise ListenFault(fault) from error
    except ListenFault:
        listening.close()
        raise
    inode = (found.st_dev, found.st_ino)
    return Bound(name=name, kind="unix", socket=listening, address=str(path), path=path, inode=inode)


def _make_room(name: str, path: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        fault = f"listener {name}: {path}: there is something that is no socket; move it away or choose another path"
        raise ListenFault(fault)
    if _answers(path):
        fault = f"listener {name}: {path}: another process listens there; stop it or choose another path"
        raise ListenFault(fault)
    path.unlink()


def _answers(path: Path) -> bool:
    """Ask whether someone listens on a Unix socket. A full backlog and a refused permission are someone, too."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(PROBE_SECONDS)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
        return True


def _advice(error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return "another process listens there; stop it or choose another address"
        case errno.EADDRNOTAVAIL:
            return "not an address of this machine"
        case errno.EACCES | errno.EPERM:
            return "not permitted; ports under 1024 and foreign folders need rights that this user lacks"
        case errno.ENOENT:
            return "its folder does not exist; create it"
    return error.strerror or str(error)
