"""The daemon's life as an operator sees it: start, ready, reload, drain, end, and each of them gone wrong.

The supervisor is the real one. The worker is a fake where it has to fail in a known way, and the real one at the end.
"""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path

import pytest

from support.egressd_process import ask_proxy, connect, running

pytestmark = pytest.mark.slow

GET = "GET http://docs.example/ HTTP/1.1\r\nHost: docs.example\r\n\r\n"
CONFIG = """
[admin]
socket = "admin.sock"
[[listener]]
tcp = "127.0.0.1:0"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lists/tenants").mkdir(parents=True)
    (tmp_path / "e.toml").write_text(CONFIG)
    return tmp_path


def write_list(folder: Path, text: str) -> None:
    (folder / "lists/tenants/default.list").write_text(text)


def test_it_tells_ready_and_ends_in_peace(folder: Path) -> None:
    with running(folder, "--config", "e.toml") as egressd:
        egressd.told("(policy version 1)")
        assert egressd.admin("GET", "/readyz") == (200, {"status": "ready", "degraded": []})
        assert ask_proxy(egressd.port(), GET) == "HTTP/1.1 403 Refused"
        egressd.signal(signal.SIGTERM)
        assert egressd.ended() == 0
    assert not (folder / "admin.sock").exists()
    assert egressd.err.splitlines()[-1] == "egressd: ended"


def test_a_worker_that_dies_is_replaced_and_the_daemon_tells_it_and_stays(folder: Path) -> None:
    (folder / "e.toml").write_text(CONFIG + "[node]\nworkers = 2\n")
    with running(folder, "--config", "e.toml") as egressd:
        port = egressd.port()
        before = egressd.children()
        os.kill(before[0], signal.SIGKILL)
        egressd.told(f"worker {before[0]} died (signal SIGKILL); another one starts now")
        egressd.told("serves, 0.")
        after = egressd.children()
        assert before[1] in after
        assert len(set(after) - set(before)) == 1
        assert egressd.admin("GET", "/node")[1]["workers"] == [after[1], before[1]]
        status, body = egressd.admin("GET", "/readyz")
        assert (status, body["degraded"]) == (200, ["workers: 1 died within 300 s, the last one: signal SIGKILL"])
        assert ask_proxy(port, GET) == "HTTP/1.1 403 Refused"
        egressd.signal(signal.SIGTERM)
        assert egressd.ended() == 0


def test_a_new_policy_reaches_a_worker_that_is_just_starting(folder: Path) -> None:
    (folder / "e.toml").write_text(CONFIG + "[node]\nworkers = 2\n")
    with running(folder, "--config", "e.toml") as egressd:
        egressd.told("ready")
        os.kill(egressd.children()[0], signal.SIGKILL)
        write_list(folder, "docs.python.org\n")
        assert egressd.admin("POST", "/reload")[1]["version"] == 2
        egressd.told("serves, 0.")
        egressd.until(lambda: len(egressd.admin("GET", "/readyz")[1]["degraded"]) == 1)  # type: ignore[arg-type]  # a list
        assert "is not applied" not in egressd.err


def test_a_worker_that_dies_during_the_drain_is_not_replaced(folder: Path) -> None:
    (folder / "e.toml").write_text(CONFIG + "[node]\nworkers = 2\n")
    with running(folder, "--config", "e.toml", modes="slow-drain") as egressd:
        egressd.told("ready")
        workers = egressd.children()
        egressd.signal(signal.SIGTERM)
        egressd.told("draining")
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        assert egressd.ended() == 0
    assert "died" not in egressd.err


def test_workers_that_cannot_be_had_any_more_end_the_daemon(folder: Path) -> None:
    (folder / "e.toml").write_text(CONFIG + "[node]\nworkers = 1\n")
    words = ("--config", "e.toml")
    with running(folder, *words, modes=f"die-while={folder / 'broken'}") as egressd:
        egressd.told("ready")
        (folder / "broken").touch()
        os.kill(egressd.children()[0], signal.SIGKILL)
        egressd.told("workers keep dying")
        assert egressd.ended() == 70
    assert egressd.err.count("exit code 4") == 6
    assert "no worker can be had (the last one: exit code 4)" in egressd.err


@pytest.mark.parametrize(("mode", "how"), [("die-at-start", "exit code 4"), ("die-at-snapshot", "exit code 3")])
def test_a_worker_that_fails_at_start_ends_the_daemon_before_ready(folder: Path, mode: str, how: str) -> None:
    with running(folder, "--config", "e.toml", modes=mode) as egressd:
        assert egressd.ended() == 70
    assert how in egressd.err
    assert "ready" not in egressd.err


def test_the_worker_ends_when_the_supervisor_is_killed(folder: Path) -> None:
    with running(folder, "--config", "e.toml") as egressd:
        egressd.told("ready")
        pidfd = os.pidfd_open(egressd.children()[0])
        egressd.process.kill()
        ended, _, _ = select.select([pidfd], [], [], 20)
        os.close(pidfd)
        assert ended


def test_a_hang_up_loads_lists_and_tells_who_and_what(folder: Path) -> None:
    with running(folder, "--config", "e.toml") as egressd:
        egressd.told("ready")
        write_list(folder, "docs.python.org\n")
        egressd.signal(signal.SIGHUP)
        egressd.told("reload by SIGHUP: policy version 2")
        (record,) = egressd.records("policy")
        assert (record["who"], record["version"], record["changed"]) == ("SIGHUP", 2, ["tenants/default.list"])


def test_a_broken_list_is_told_and_the_old_one_stays(folder: Path) -> None:
    with running(folder, "--config", "e.toml") as egressd:
        egressd.told("ready")
        write_list(folder, "docs.python.org\nhttp://x/\n*.*\n")
        egressd.signal(signal.SIGHUP)
        egressd.told("nothing changed, but not everything could be loaded")
        assert egressd.err.count("tenants/default.list:2:") == 1
        assert egressd.err.count("tenants/default.list:3:") == 1
        status, body = egressd.admin("GET", "/readyz")
        assert status == 200
        assert len(body["degraded"]) == 2  # type: ignore[arg-type]  # a list, or the test fails
        write_list(folder, "docs.python.org\n")
        egressd.signal(signal.SIGHUP)
        egressd.told("policy version 2")
        assert egressd.admin("GET", "/readyz")[1]["degraded"] == []


@pytest.mark.case("D2")
def test_a_broken_list_at_start_is_no_policy_and_the_daemon_serves_refusals(folder: Path) -> None:
    write_list(folder, "*.*\n")
    with running(folder, "--config", "e.toml") as egressd:
        egressd.told("ready")
        status, body = egressd.admin("GET", "/readyz")
        assert status == 503
        assert body["failing"] == ["no policy"]


def test_a_broken_configuration_at_start_tells_every_problem_and_exits_78(folder: Path) -> None:
    (folder / "e.toml").write_text('[node]\nresolvers = ["x"]\nsurprise = 1\n[[listener]]\ntcp = "0.0.0.0:1"\n')
    with running(folder, "--config", "e.toml") as egressd:
        assert egressd.ended() == 78
    assert [line.split(": found")[0] for line in egressd.err.splitlines()] == [
        "egressd: e.toml: node.resolvers[0]",
        "egressd: e.toml: node.surprise",
        "egressd: e.toml: listener[0].tcp",
    ]


def test_a_broken_configuration_at_reload_leaves_the_old_one(folder: Path) -> None:
    with running(folder, "--config", "e.toml") as egressd:
        egressd.told("ready")
        (folder / "e.toml").write_text(CONFIG + "[node]\nsurprise = 1\n")
        write_list(folder, "docs.python.org\n")
        egressd.signal(signal.SIGHUP)
        egressd.told("reload by SIGHUP: policy version 2, but not everything could be loaded")
        assert "e.toml: node.surprise: found a key that means nothing here" in egressd.err
        (folder / "e.toml").write_text(CONFIG.replace("127.0.0.1:0", "127.0.0.1:1"))
        egressd.signal(signal.SIGHUP)
        egressd.told("listener changed; it takes effect at the next restart")


def test_a_reload_by_the_admin_socket_answers_when_it_is_in_force(folder: Path) -> None:
    with running(folder, "--config", "e.toml") as egressd:
        egressd.told("ready")
        write_list(folder, "docs.python.org\n")
        status, body = egressd.admin("POST", "/reload")
        assert (status, body["version"], body["whole"]) == (200, 2, True)
        (record,) = egressd.records("policy")
        assert record["who"] == f"uid {os.geteuid()} by the admin socket"


def test_a_hang_up_during_the_start_is_answered_after_it(folder: Path) -> None:
    with running(folder, "--config", "e.toml") as egressd:
        egressd.until(lambda: bool(egressd.children()))
        egressd.signal(signal.SIGHUP)
        egressd.told("reload by SIGHUP")
        assert egressd.process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_drain_refuses_new_connections_and_tells_not_ready(folder: Path, number: signal.Signals) -> None:
    with running(folder, "--config", "e.toml", modes="slow-drain") as egressd:
        port = egressd.port()
        egressd.signal(number)
        egressd.told("draining for at most 30 s")
        status, body = egressd.admin("GET", "/readyz")
        assert (status, body["failing"]) == (503, ["draining"])
        with connect(port):
            pass  # the fake keeps its own copy of the listener open; the supervisor's is closed
        egressd.signal(number)
        assert egressd.ended() == 0


def test_the_drain_time_is_kept(folder: Path) -> None:
    (folder / "e.toml").write_text(CONFIG + "[limits]\ndrain_seconds = 0\n")
    with running(folder, "--config", "e.toml", modes="stubborn") as egressd:
        egressd.told("ready")
        egressd.signal(signal.SIGTERM)
        assert egressd.ended() == 0
    assert "draining for at most 0 s" in egressd.err


@pytest.mark.case("H7")
def test_what_lowers_the_guard_is_told_at_start_and_in_health(folder: Path) -> None:
    (folder / "e.toml").write_text(
        CONFIG + '[node]\nunsafe_reach = ["127.0.0.5/32"]\n[tenant.default]\nmode = "report"\n'
    )
    with running(folder, "--config", "e.toml") as egressd:
        egressd.told("ready")
        assert "egressd: UNSAFE: unsafe_reach: 127.0.0.5/32 is treated as public" in egressd.err
        assert "egressd: UNSAFE: report mode: tenant default is not enforced" in egressd.err
        assert len(egressd.admin("GET", "/readyz")[1]["degraded"]) == 2  # type: ignore[arg-type]  # as above


@pytest.mark.case("H12")
def test_the_daemon_ignores_proxy_variables_of_its_own(folder: Path) -> None:
    names = {"HTTP_PROXY": "http://127.0.0.1:1", "https_proxy": "http://127.0.0.1:1", "NO_PROXY": "*"}
    with running(folder, "--config", "e.toml", modes=None, environment=names) as egressd:
        egressd.told("ready")
        environment = Path(f"/proc/{egressd.children()[0]}/environ").read_bytes().split(b"\0")
        assert not [row for row in environment if row.split(b"=")[0].decode() in names]
        assert ask_proxy(egressd.port(), GET) == "HTTP/1.1 403 Refused by egress policy (not-on-allowlist)"


def test_the_embedded_default_needs_no_file(folder: Path) -> None:
    with running(folder, "--lists", "lists", "--listen", "127.0.0.1:0", "--admin", "admin.sock") as egressd:
        egressd.told("ready")
        status, body = egressd.admin("GET", "/node")
        assert status == 200
        assert (body["lists"], body["tenants"]) == (str(folder / "lists"), ["default"])


@pytest.mark.case("H1")
def test_the_real_worker_answers_under_the_policy_and_shows_no_metrics_on_a_jobs_channel(folder: Path) -> None:
    with running(folder, "--config", "e.toml", modes=None) as egressd:
        port = egressd.port()
        assert ask_proxy(port, GET) == "HTTP/1.1 403 Refused by egress policy (not-on-allowlist)"
        for target in ("/metrics", "/healthz", "/readyz", "/reload"):
            assert ask_proxy(port, f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").split()[1] == "400"
        write_list(folder, "docs.example\n")
        assert egressd.admin("POST", "/reload")[1]["version"] == 2
        (folder / "lists").rename(folder / "away")
        assert egressd.admin("POST", "/reload")[1]["whole"] is False
        assert ask_proxy(port, GET).split()[1] == "503"
        egressd.signal(signal.SIGTERM)
        assert egressd.ended() == 0
