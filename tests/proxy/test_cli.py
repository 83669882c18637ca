"""The command `egressd`: flags, `check`, and how little it imports before the worker is on its way."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from egressd import cli
from support.egressd_process import PATIENCE_SECONDS, running

GOOD = '[[listener]]\ntcp = "127.0.0.1:3128"\n'
HEAVY = ("pydantic", "aiohttp", "prometheus_client", "publicsuffixlist", "uvloop", "asyncio", "tomllib")
# What the daemon may take on an idle machine from the start of its process to the first accepted connection.
FIRST_CONNECTION_SECONDS = 0.6


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lists/tenants").mkdir(parents=True)
    (tmp_path / "e.toml").write_text(GOOD)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--config", "a", "--lists", "b"],
        ["--config", "a", "--listen", "127.0.0.1:1"],
        ["--config", "a", "--admin", "b"],
        ["--listen", "127.0.0.1:1"],
        ["start", "--config", "a"],
        ["--conf", "a"],
    ],
)
def test_wrong_usage_exits_2_with_a_message(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.parse(words)
    assert caught.value.code == 2
    assert "egressd: error:" in capsys.readouterr().err


def test_help_has_examples_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.parse(["--help"])
    assert caught.value.code == 0
    out = capsys.readouterr().out
    assert "egressd --lists ./lists" in out
    assert "exit codes:" in out


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.parse(["--version"])
    assert capsys.readouterr().out.split()[0] == "egressd"


def test_check_finds_nothing_wrong(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "--config", str(folder / "e.toml")]) == 0
    assert "no problem found, 1 list" in capsys.readouterr().out


@pytest.mark.case("H8")
def test_check_tells_every_problem_of_the_configuration(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "e.toml").write_text("[node]\nresolvers = ['x']\nsurprise = 1\n")
    assert cli.main(["check", "--config", str(folder / "e.toml")]) == 78
    assert len(capsys.readouterr().err.splitlines()) == 3


def test_check_tells_problems_of_the_lists_and_what_is_unsafe(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "lists/tenants/default.list").write_text("docs.python.org\n*.*\nhttp://x/\n")
    (folder / "e.toml").write_text(GOOD + '[node]\nunsafe_reach = ["127.0.0.5"]\n')
    assert cli.main(["check", "--config", str(folder / "e.toml")]) == 78
    err = capsys.readouterr().err
    assert "egressd: UNSAFE: unsafe_reach" in err
    assert "tenants/default.list:2:" in err
    assert "tenants/default.list:3:" in err
    assert "policy unavailable: tenants/default.list is broken" in err


def test_a_missing_configuration_exits_78(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "--config", str(folder / "none.toml")]) == 78
    assert "a file that cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (GOOD, 4),
        ("[node]\nworkers = 3\n" + GOOD, 3),
        ("[node]\nworkers = 0\n" + GOOD, 1),
        ("[node]\nworkers = 65\n" + GOOD, 1),
        ("[node]\nworkers = 'many'\n" + GOOD, 1),
        ("node = 'workers'\n" + GOOD, 4),
        ("workers = [", 1),
        ('[node]\nuser = "no-such-user"\n', 4),
        (None, 1),
    ],
)
def test_as_many_workers_are_started_early_as_the_file_says(
    text: str | None, count: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _process: {0, 1, 2, 3})
    path = folder / "e.toml"
    path.unlink()
    if text is not None:
        path.write_text(text)
    assert cli._crew(cli.parse(["--config", str(path)])) == (None, count)
    assert cli._crew(cli.parse(["--lists", "lists"])) == (None, 1)


@pytest.mark.slow
def test_nothing_heavy_is_imported_before_the_worker_is_spawned() -> None:
    script = (
        "import sys; from egressd import cli; from egressd.supervisor import workers;"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


@pytest.mark.slow
def test_the_first_connection_is_answered_soon_after_the_start(folder: Path) -> None:
    """Both processes together spend less CPU time than they have on the clock: a busy machine may stretch the clock."""
    spent = []
    for _ in range(3):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            place = free.getsockname()
        words = ("--lists", "lists", "--listen", f"127.0.0.1:{place[1]}", "--admin", "admin.sock")
        start = time.monotonic()
        with running(folder, *words, modes=None) as egressd:
            while not _is_answered(place):
                assert time.monotonic() < start + PATIENCE_SECONDS
                time.sleep(0.002)
            spent.append(sum(_cpu_seconds(pid) for pid in (egressd.process.pid, *egressd.children())))
    assert min(spent) < FIRST_CONNECTION_SECONDS


def _cpu_seconds(pid: int) -> float:
    """User and system time of a process so far (proc_pid_stat(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _is_answered(place: tuple[str, int]) -> bool:
    with socket.socket() as client:
        client.settimeout(PATIENCE_SECONDS)
        try:
            client.connect(place)
        except ConnectionRefusedError:
            return False
        client.sendall(b"GET http://docs.example/ HTTP/1.1\r\nHost: docs.example\r\n\r\n")
        return client.recv(12) == b"HTTP/1.1 403"
