"""The admin API over real sockets, with a fake node behind it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from egressd.supervisor.admin import make_app, names_this, serve
from egressd.supervisor.health import Health
from egressd.supervisor.listeners import Bound, bind_tcp, bind_unix
from egressd.supervisor.policy import Report
from support.loops import run

OTHERS_UID = 4_242_424


@dataclass
class FakeNode:
    """A node in a fixed state that notes who reloads it."""

    state: Health = field(default_factory=Health)
    reloads: list[str] = field(default_factory=list)

    def health(self) -> Health:
        return self.state

    def metrics(self) -> tuple[bytes, str]:
        return b"egressd_workers 1.0\n", "text/plain; version=0.0.4; charset=utf-8"

    def describe(self) -> dict[str, object]:
        return {"lists": "/l", "tenants": ["default"], "plugins": [], "version": 1}

    async def reload(self, who: str) -> Report:
        self.reloads.append(who)
        return Report(version=2, changed=("tenants/default.list",))


async def ask(
    bound: Bound, method: str, target: str, *, host: str | None = None, more: str = ""
) -> tuple[int, dict[str, str], bytes]:
    """One request on a connection of its own; gives status, fields and body."""
    if bound.kind == "unix":
        reader, writer = await asyncio.open_unix_connection(bound.address)
    else:
        client = socket.socket(socket.AF_INET6 if bound.address.startswith("[") else socket.AF_INET)
        client.connect(bound.socket.getsockname()[:2])
        reader, writer = await asyncio.open_connection(sock=client)  # noqa: TID251 - to a listener of this test
    host = bound.address if host is None else host
    writer.write(f"{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n".encode())
    raw = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = raw.partition(b"\r\n\r\n")
    status, *fields = head.decode().split("\r\n")
    rows = dict(row.split(": ", 1) for row in fields)
    return int(status.split()[1]), rows, body


@asynccontextmanager
async def serving(node: FakeNode, bound: Bound) -> AsyncIterator[None]:
    runner = await serve(node, bound)
    try:
        yield
    finally:
        await runner.cleanup()
        bound.close()


def on_unix(folder: Path) -> Bound:
    return bind_unix("admin", folder / "a.sock", 0o600)


def on_tcp() -> Bound:
    return bind_tcp("admin", "127.0.0.1", 0)


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_health_is_told_on_both_listeners(tmp_path: Path, kind: str) -> None:
    async def test() -> None:
        bound = on_unix(tmp_path) if kind == "unix" else on_tcp()
        async with serving(FakeNode(Health((), ("a list is broken",))), bound):
            status, fields, body = await ask(bound, "GET", "/healthz")
            assert (status, json.loads(body)) == (200, {"status": "alive"})
            assert fields["Cache-Control"] == "no-store"
            assert fields["Server"] == "egressd"
            status, _, body = await ask(bound, "GET", "/readyz")
            assert (status, json.loads(body)) == (200, {"status": "ready", "degraded": ["a list is broken"]})
            status, fields, body = await ask(bound, "GET", "/metrics")
            assert (status, body) == (200, b"egressd_workers 1.0\n")
            assert fields["Content-Type"].startswith("text/plain")

    run(test)


def test_a_node_that_cannot_serve_answers_503_with_why(tmp_path: Path) -> None:
    async def test() -> None:
        bound = on_unix(tmp_path)
        async with serving(FakeNode(Health(("no worker",), ("x",))), bound):
            status, _, body = await ask(bound, "GET", "/readyz")
            assert status == 503
            assert json.loads(body) == {"status": "not ready", "degraded": ["x"], "failing": ["no worker"]}
            assert (await ask(bound, "GET", "/healthz"))[0] == 200

    run(test)


@pytest.mark.case("H2")
def test_a_reload_is_taken_from_the_daemons_own_user_and_recorded_as_its(tmp_path: Path) -> None:
    async def test() -> None:
        bound, node = on_unix(tmp_path), FakeNode()
        async with serving(node, bound):
            status, _, body = await ask(bound, "POST", "/reload", more="Content-Length: 0\r\n")
            assert status == 200
            assert json.loads(body) == {
                "version": 2,
                "changed": ["tenants/default.list"],
                "whole": True,
                "problems": [],
            }
            assert node.reloads == [f"uid {os.geteuid()} by the admin socket"]
            assert (await ask(bound, "GET", "/node"))[0] == 200
            assert (await ask(bound, "GET", "/reload"))[0] == 405

    run(test)


ASK_AS_ANOTHER = """
import os, socket, sys
if os.geteuid() == 0:
    # after the imports: the interpreter may lie where the other user sees nothing
    os.setgroups([])
    os.setresuid(4242424, 4242424, 4242424)
fields = "Host: x\\r\\nX-Remote-User: root\\r\\nConnection: close\\r\\n\\r\\n"
for request in sys.argv[2:]:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(20)
    client.connect(sys.argv[1])
    client.sendall(f"{request} HTTP/1.1\\r\\n{fields}".encode())
    print(client.recv(100).split()[1].decode())
    client.close()
"""


def ask_as_another(address: str, requests: list[str]) -> list[str]:
    """Ask as a user that is not root (where we are root), and give the statuses."""
    words = [sys.executable, "-c", ASK_AS_ANOTHER, address, *requests]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.case("H2", "H3")
@pytest.mark.slow
def test_another_user_is_told_health_and_may_command_nothing() -> None:
    node = FakeNode()

    async def test(bound: Bound) -> list[str]:
        own = 0 if os.geteuid() == 0 else OTHERS_UID
        runner = web.AppRunner(make_app(node, tcp=None, own_uid=lambda: own), access_log=None)
        await runner.setup()
        await web.SockSite(runner, bound.socket).start()
        try:
            return await asyncio.to_thread(ask_as_another, bound.address, ["POST /reload", "GET /node", "GET /readyz"])
        finally:
            await runner.cleanup()

    # a folder that the other user can enter, which pytest's own are not
    with tempfile.TemporaryDirectory(prefix="egressd-") as folder:
        Path(folder).chmod(0o755)
        bound = bind_unix("admin", Path(folder) / "a.sock", 0o666)
        assert run(lambda: test(bound)) == ["403", "403", "200"]
        bound.close()
    assert node.reloads == []


@pytest.mark.case("H2")
def test_no_command_goes_over_tcp() -> None:
    async def test() -> None:
        bound, node = on_tcp(), FakeNode()
        async with serving(node, bound):
            for method in ("POST", "PUT", "HEAD", "OPTIONS", "DELETE"):
                assert (await ask(bound, method, "/reload"))[0] == 405
            for target in ("/reload", "/node", "/"):
                assert (await ask(bound, "GET", target))[0] == 404
            assert node.reloads == []

    run(test)


@pytest.mark.case("H1", "H2")
def test_a_request_under_another_name_is_refused_on_tcp() -> None:
    async def test() -> None:
        bound = on_tcp()
        port = bound.address.rpartition(":")[2]
        async with serving(FakeNode(), bound):
            for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{int(port) + 1}", ""):
                status, _, body = await ask(bound, "GET", "/readyz", host=host)
                assert status == 421
                assert b"degraded" not in body
            for host in (f"localhost:{port}", f"LOCALHOST:{port}", f"127.0.0.1:{port}"):
                assert (await ask(bound, "GET", "/readyz", host=host))[0] == 200

    run(test)


@pytest.mark.case("H9")
def test_a_refusal_repeats_nothing_of_the_request(tmp_path: Path) -> None:
    async def test() -> None:
        bound = on_unix(tmp_path)
        async with serving(FakeNode(), bound):
            status, _, body = await ask(bound, "GET", "/secret-name?token=s3cret")
            assert status == 404
            assert json.loads(body) == {"refused": "Not Found"}

    run(test)


@pytest.mark.parametrize(
    ("host", "tcp", "named"),
    [
        ("127.0.0.1:3129", "127.0.0.1:3129", True),
        ("[::1]:3129", "[::1]:3129", True),
        ("localhost:3129", "[::1]:3129", True),
        ("localhost", "127.0.0.1:3129", False),
        ("127.0.0.1:3129.", "127.0.0.1:3129", False),
        ("127.0.0.2:3129", "127.0.0.1:3129", False),
        (None, "127.0.0.1:3129", False),
    ],
)
def test_a_host_field_names_this_listener_or_not(host: str | None, tcp: str, named: bool) -> None:
    assert names_this(host, tcp) is named
