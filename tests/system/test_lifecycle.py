"""Start, reload, drain and stop of a real egressd, and what it says when its files are wrong."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from support.lab_daemon import BIN, GRANT_REQUEST, Daemon, bare_environment, wait_until, write_folder
from support.lab_origin import Origin, Visit
from support.lab_wire import connect_request, get_request, parse_reply, read_all, read_head
from support.lab_world import World


def echo(visit: Visit) -> None:
    while part := visit.stream.recv(65_536):
        visit.write(part)


def open_tunnel(world: World, daemon: Daemon, origin: Origin) -> socket.socket:
    client = daemon.connect()
    client.sendall(connect_request(f"{world.echo_name}:{origin.port}"))
    reply, _ = read_head(client)
    assert reply.status == 200
    return client


def reason_of(daemon: Daemon, authority: str) -> str | None:
    return daemon.ask(connect_request(authority)).reason


def test_sigterm_lets_a_tunnel_finish_and_takes_nothing_new(loopback: World, folder: Path) -> None:
    with loopback.launch(folder, {"default": "*:*\n"}) as daemon, loopback.origin(echo) as origin:
        with open_tunnel(loopback, daemon, origin) as client:
            daemon.process.terminate()

            def refuses() -> bool:
                try:
                    return daemon.ask(GRANT_REQUEST).reason == "draining"
                except (OSError, ValueError):
                    return True

            wait_until(refuses, "new requests to be refused")
            client.sendall(b"still here")
            assert client.recv(100) == b"still here"
            assert daemon.process.poll() is None
            client.shutdown(socket.SHUT_WR)
            assert client.recv(100) == b""
        assert daemon.process.wait(5) == 0
        records = daemon.records()
        assert [record for record in records if record.get("bytes_up") == len(b"still here")]


def test_sigterm_with_nothing_open_ends_at_once(loopback: World, folder: Path) -> None:
    with loopback.launch(folder, {"default": "*:*\n"}) as daemon:
        start = time.monotonic()
        assert daemon.stop() == 0
        assert time.monotonic() - start < 2


def test_a_tunnel_that_does_not_finish_is_cut_when_the_drain_ends(loopback: World, folder: Path) -> None:
    settings = {"limits": {"drain_seconds": 0.5}}
    with loopback.launch(folder, {"default": "*:*\n"}, settings) as daemon, loopback.origin(echo) as origin:
        with open_tunnel(loopback, daemon, origin) as client:
            start = time.monotonic()
            daemon.process.terminate()
            with suppress(ConnectionError):
                while client.recv(100):
                    pass
            assert 0.3 < time.monotonic() - start < 3
        assert daemon.process.wait(5) == 0
        assert daemon.wait_for_record(end="draining")


@pytest.mark.case("D2")
def test_sighup_swaps_the_list_whole(loopback: World, folder: Path) -> None:
    with loopback.launch(folder, {"default": "one.example:9\n"}) as daemon:
        assert reason_of(daemon, "two.example:9") == "not-on-allowlist"
        assert reason_of(daemon, "one.example:9") == "resolve-failed"
        daemon.set_list_and_reload("two.example:9\n")
        assert reason_of(daemon, "one.example:9") == "not-on-allowlist"
        assert reason_of(daemon, "two.example:9") == "resolve-failed"
        daemon.set_list_and_reload("")
        assert reason_of(daemon, "two.example:9") == "not-on-allowlist"


def test_a_broken_list_keeps_the_old_policy_and_each_problem_is_told(loopback: World, folder: Path) -> None:
    with loopback.launch(folder, {"default": "one.example:9\n"}) as daemon:
        version = daemon.version()
        daemon.set_list("default", "two.example:9\nfoo.*.com\nten.example:99999\n*.\n")
        daemon.reload()
        wait_until(lambda: "default.list:4" in daemon.messages(), "the last problem to be told")
        for line, found in ((2, "foo.*.com"), (3, "99999"), (4, "*.")):
            assert [text for text in daemon.messages().splitlines() if f"default.list:{line}" in text and found in text]
        assert reason_of(daemon, "one.example:9") == "resolve-failed"
        assert reason_of(daemon, "two.example:9") == "not-on-allowlist"
        status, health = daemon.ask_admin("/readyz")
        assert status == 200
        assert "default.list" in str(health["degraded"])
        assert daemon.version() == version or reason_of(daemon, "two.example:9") == "not-on-allowlist"
        daemon.set_list_and_reload("two.example:9\n")
        assert reason_of(daemon, "two.example:9") == "resolve-failed"
        assert "default.list" not in str(daemon.ask_admin("/readyz")[1])


def test_a_broken_configuration_is_told_whole_and_nothing_listens(loopback: World, folder: Path) -> None:
    config = write_folder(folder, {}, {})
    config.write_text(config.read_text() + '\n[nodes]\nx = 1\n\n[limits]\nhead_max_bytes = "many"\nno_such = 1\n')
    done = subprocess.run(
        [BIN / "egressd", "--config", config], capture_output=True, text=True, timeout=10, check=False,
        env=bare_environment(),
    )  # fmt: skip
    assert done.returncode not in {0, 1}
    for found in ("nodes", "head_max_bytes", "no_such"):
        assert [line for line in done.stderr.splitlines() if "egressd.toml" in line and found in line], done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "job" / "proxy.sock").exists()


def test_egressctl_allows_a_name_in_the_running_daemon(loopback: World, folder: Path) -> None:
    with loopback.launch(folder, {"default": "# kept\none.example:9\n"}) as daemon:
        assert reason_of(daemon, "two.example:9") == "not-on-allowlist"
        done = subprocess.run(
            [BIN / "egressctl", "--socket", daemon.admin, "tenant", "default", "allow", "two.example:9"],
            capture_output=True, text=True, timeout=10, check=False, env=bare_environment(),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        wait_until(lambda: reason_of(daemon, "two.example:9") == "resolve-failed", "the rule to be in force")
        text = (folder / "lists" / "tenants" / "default.list").read_text()
        assert "# kept" in text
        assert "two.example:9" in text


def test_a_stale_socket_of_a_killed_daemon_is_taken_over(loopback: World, folder: Path) -> None:
    with loopback.launch(folder, {"default": "one.example:9\n"}) as first:
        worker = Path(f"/proc/{first.worker()}")
        first.process.kill()
        first.process.wait()
        wait_until(lambda: not worker.exists(), "the worker to end with its supervisor")
        with loopback.launch(folder, {"default": "one.example:9\n"}) as second:
            assert reason_of(second, "one.example:9") == "resolve-failed"


def test_each_request_leaves_one_record_without_path_or_query(loopback: World, folder: Path) -> None:
    with loopback.launch(folder, {"default": f"{loopback.echo_name}:*\n"}) as daemon, loopback.origin(echo) as origin:
        daemon.ask(connect_request("other.example:443"))
        daemon.ask(get_request("http://other.example/secret-path?secret-query", "Cookie: secret-field"))
        with open_tunnel(loopback, daemon, origin) as client:
            client.sendall(b"hello")
            assert client.recv(10) == b"hello"
        closed = daemon.wait_for_record(bytes_up=5)
        refused = [record for record in daemon.records() if record.get("reason") == "not-on-allowlist"]
        assert [(record["method"], record["host"], record["port"]) for record in refused] == [
            ("CONNECT", "other.example", 443), ("GET", "other.example", 80),
        ]  # fmt: skip
        assert closed["end"] in {"client-closed", "origin-closed"}
        # beside the ones that asked for the own grant
        assert len([record for record in daemon.records() if record.get("decision") != "answered"]) == 4
        assert "secret" not in json.dumps(daemon.records())


def test_a_job_can_read_its_own_grant_and_nothing_of_the_node(loopback: World, folder: Path) -> None:
    with loopback.launch(folder, {"default": "one.example\n", "other": "two.example\n"}) as daemon:
        reply = daemon.ask(b"GET /.well-known/egress HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        document = json.loads(reply.body)
        assert document["tenant"] == "default"
        assert "one.example" in json.dumps(document)
        assert "two.example" not in reply.body.decode()
        assert str(folder) not in reply.body.decode()
        for path in ("/healthz", "/readyz", "/metrics", "/", "/.well-known/egress?x"):
            other = parse_reply(_raw(daemon, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()))
            assert (other.status, other.reason) == (400, "not-a-proxy-request")


@pytest.mark.case("H1", "H2")
def test_health_is_on_the_admin_socket(loopback: World) -> None:
    assert loopback.daemon.ask_admin("/healthz")[0] == 200
    assert loopback.daemon.ask_admin("/readyz")[0] == 200


def _raw(daemon: Daemon, request: bytes) -> bytes:
    with daemon.connect() as client:
        client.sendall(request)
        return read_all(client)


@pytest.mark.case("G11")
def test_a_tunnel_ends_when_the_rule_that_allowed_it_is_removed_and_others_go_on(loopback: World, folder: Path) -> None:
    both = f"{loopback.echo_name}:*\nother.example:9\n"
    with (
        loopback.launch(folder, {"default": both}) as daemon,
        loopback.origin(echo) as origin,
        open_tunnel(loopback, daemon, origin) as client,
    ):
        daemon.set_list_and_reload(f"{loopback.echo_name}:*\n")
        client.sendall(b"goes on")
        assert client.recv(100) == b"goes on"

        daemon.set_list_and_reload("other.example:9\n")

        with suppress(ConnectionResetError):
            assert client.recv(100) == b"", "bytes passed through a tunnel that no rule allows"
        assert daemon.wait_for_record(end="rule-removed")


@pytest.mark.slow
def test_a_tunnel_ends_with_the_time_of_its_rule(loopback: World, folder: Path) -> None:
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3))
    rules = f"{loopback.echo_name}:* until={until}\n"
    with (
        loopback.launch(folder, {"default": rules}) as daemon,
        loopback.origin(echo) as origin,
        open_tunnel(loopback, daemon, origin) as client,
    ):
        client.sendall(b"in time")
        assert client.recv(100) == b"in time"
        with suppress(ConnectionResetError):
            assert client.recv(100) == b""
        assert daemon.wait_for_record(end="rule-removed")
        assert reason_of(daemon, f"{loopback.echo_name}:{origin.port}") == "not-on-allowlist"
