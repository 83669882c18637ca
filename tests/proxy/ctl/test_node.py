"""Talking to the daemon: what it answers, and every way in which it does not."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from egressd.ctl.node import NodeFault, NoNode, describe, reload, usual_sockets


@contextmanager
def answering(path: Path, raw: bytes) -> Iterator[list[bytes]]:
    """A server that gives one fixed answer to one request, and what it was asked."""
    asked: list[bytes] = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def answer() -> None:
        client, _ = listener.accept()
        with client:
            asked.append(client.recv(65_536))
            client.sendall(raw)

    thread = threading.Thread(target=answer)
    thread.start()
    yield asked
    thread.join()
    listener.close()


def http(value: object, status: str = "200 OK") -> bytes:
    body = json.dumps(value).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def test_a_daemon_tells_which_lists_it_reads(tmp_path: Path) -> None:
    value = {"lists": "/etc/l", "tenants": ["a", "b"], "plugins": [], "version": 3, "pid": 1}
    with answering(tmp_path / "s", http(value)) as asked:
        found = describe(tmp_path / "s")
    assert (found.lists, found.tenants, found.version, found.socket) == (Path("/etc/l"), ("a", "b"), 3, tmp_path / "s")
    assert asked[0].startswith(b"GET /node HTTP/1.1\r\n")


def test_a_reload_tells_what_came_of_it(tmp_path: Path) -> None:
    with answering(tmp_path / "s", http({"version": 4, "whole": False, "problems": ["x"], "changed": []})) as asked:
        found = reload(tmp_path / "s")
    assert (found.version, found.whole, found.problems) == (4, False, ("x",))
    assert asked[0].startswith(b"POST /reload HTTP/1.1\r\n")


def test_nobody_there_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(NoNode):
        describe(tmp_path / "none")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "s"))
    with pytest.raises(NoNode):
        reload(tmp_path / "s")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", "Remote end closed connection"),
        (b"junk\r\n\r\n", "junk"),
        (http([]), "not an answer of egressd"),
        (http({}), "not an answer of egressd"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{]", "not an answer of egressd"),
        (http({"refused": "only root and the daemon's own user may command it"}, "403 Forbidden"), "only root and"),
    ],
)
def test_whatever_else_it_answers_is_a_fault(tmp_path: Path, raw: bytes, expected: str) -> None:
    with answering(tmp_path / "s", raw), pytest.raises(NodeFault, match=expected):
        describe(tmp_path / "s")


def test_root_looks_at_the_machines_daemon_and_a_user_at_its_own_first() -> None:
    found = usual_sockets({"XDG_RUNTIME_DIR": "/run/user/7"})
    assert found[-1] == Path("/run/egressd/admin.sock")
    assert found[:-1] in {(), (Path("/run/user/7/egressd/admin.sock"),)}
    assert usual_sockets({}) == (Path("/run/egressd/admin.sock"),)
