"""Talks to the daemon over its admin socket: which lists it reads, and that it load them anew.

The only part of `egressctl` that opens a connection, and only to a Unix socket: nothing is resolved. Decides nothing.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

# A reload waits until every worker applies the policy; the daemon itself gives up after 10 s.
TIMEOUT_SECONDS = 20.0
USUAL_SOCKET = Path("/run/egressd/admin.sock")


class NodeFault(Exception):
    """The daemon does not answer as it should; the text is for the operator."""


class NoNode(NodeFault):
    """Nobody listens there."""


@dataclass(frozen=True, slots=True)
class Description:
    """What a daemon says about itself."""

    socket: Path
    lists: Path
    tenants: tuple[str, ...]
    version: int


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What a reload came to: `whole` when everything that was read is in force."""

    version: int
    whole: bool
    problems: tuple[str, ...]


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("egressd", timeout=TIMEOUT_SECONDS)
        self._path = path

    def connect(self) -> None:
        """Connect to the path; the host of the URL is a word and nothing more."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT_SECONDS)
        self.sock.connect(str(self._path))


def usual_sockets(environment: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """Give the places where a daemon of this user, then of the machine, has its socket."""
    runtime = environment.get("XDG_RUNTIME_DIR")
    mine = (Path(runtime, "egressd", "admin.sock"),) if runtime and os.geteuid() != 0 else ()
    return (*mine, USUAL_SOCKET)


def describe(path: Path) -> Description:
    """Ask a daemon which lists it reads.

    Raises:
        NoNode: Nobody listens there.
        NodeFault: It refuses, or answers something else.
    """
    row = _ask(path, "GET", "/node")
    lists, tenants, version = row.get("lists"), row.get("tenants"), row.get("version")
    if not isinstance(lists, str) or not isinstance(tenants, list) or not isinstance(version, int):
        raise NodeFault(f"{path}: not an answer of egressd")
    return Description(path, Path(lists), tuple(str(name) for name in tenants), version)


def reload(path: Path) -> Reloaded:
    """Have a daemon load its lists anew, and wait until they are in force.

    Raises:
        NoNode: Nobody listens there.
        NodeFault: It refuses, or answers something else.
    """
    row = _ask(path, "POST", "/reload")
    version, problems = row.get("version"), row.get("problems")
    if not isinstance(version, int) or not isinstance(problems, list):
        raise NodeFault(f"{path}: not an answer of egressd")
    return Reloaded(version, row.get("whole") is True, tuple(str(problem) for problem in problems))


def _ask(path: Path, method: str, target: str) -> dict[str, object]:
    connection = _UnixConnection(path)
    try:
        connection.request(method, target)
        response = connection.getresponse()
        body = response.read()
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise NoNode(f"{path}: no daemon listens there") from error
    except (OSError, http.client.HTTPException) as error:
        raise NodeFault(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    finally:
        connection.close()
    try:
        row = json.loads(body)
    except ValueError as error:
        raise NodeFault(f"{path}: not an answer of egressd") from error
    if not isinstance(row, dict):
        raise NodeFault(f"{path}: not an answer of egressd")
    if response.status != http.client.OK:
        raise NodeFault(f"{path}: {row.get('refused', response.status)}")
    return cast("dict[str, object]", row)
