"""What a start needs of the machine: addresses, files, users, descriptors; and what is told without them."""

from __future__ import annotations

import os
import pwd
import resource
import socket
import tempfile
from pathlib import Path

import pytest

from egressd.supervisor.startup import default_admin_socket
from support.egressd_process import python_for, running

pytestmark = pytest.mark.slow

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


def test_connections_are_bounded_by_the_descriptors_and_that_is_told(folder: Path) -> None:
    (folder / "e.toml").write_text(CONFIG + "[node]\nworkers = 2\n")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    words = ("--config", "e.toml")
    with running(folder, *words, launcher=("prlimit", "--nofile=512:1024")) as egressd:
        egressd.told("ready")
        assert "at most 768 connections at a time" in egressd.err
        for pid in (egressd.process.pid, *egressd.children()):
            assert resource.prlimit(pid, resource.RLIMIT_NOFILE) == (1024, 1024)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_a_taken_address_is_told_and_exits_71(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        with running(folder, "--lists", "lists", "--listen", place, "--admin", "admin.sock") as egressd:
            assert egressd.ended() == 71
    assert f"listener default: {place}: another process listens there" in egressd.err


def test_records_that_cannot_be_opened_are_told_and_exit_71(folder: Path) -> None:
    (folder / "e.toml").write_text(CONFIG + '[records]\npath = "none/records"\n')
    with running(folder, "--config", "e.toml") as egressd:
        assert egressd.ended() == 71
    assert "records: " in egressd.err


def test_an_unknown_user_is_a_problem_of_the_configuration(folder: Path) -> None:
    (folder / "e.toml").write_text(CONFIG + '[node]\nuser = "no-such-user"\n')
    with running(folder, "--config", "e.toml") as egressd:
        assert egressd.ended() == 78
    assert "node.user: no user 'no-such-user'" in egressd.err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_both_processes_give_up_root_for_the_configured_user() -> None:
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        pytest.skip("no user nobody here")
    found = python_for(nobody.pw_uid)
    if found is None:
        pytest.skip("no interpreter here that nobody can run")
    python, environment = found
    with tempfile.TemporaryDirectory(prefix="egressd-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "lists/tenants").mkdir(parents=True)
        (folder / "e.toml").write_text(CONFIG + '[node]\nuser = "nobody"\n')
        with running(folder, "--config", "e.toml", modes=None, python=python, environment=environment) as egressd:
            egressd.told("ready")
            for pid in (egressd.process.pid, *egressd.children()):
                assert Path(f"/proc/{pid}").stat().st_uid == nobody.pw_uid
            assert (folder / "admin.sock").stat().st_uid == nobody.pw_uid


def test_two_embedded_daemons_of_one_user_share_the_usual_admin_socket_first_come(folder: Path) -> None:
    # its own runtime folder, so that no daemon of this machine is met; root's usual place cannot be moved
    if os.geteuid() == 0:
        assert default_admin_socket() == Path("/run/egressd/admin.sock")
        return
    environment = {"XDG_RUNTIME_DIR": str(folder)}
    words = ("--lists", "lists", "--listen", "127.0.0.1:0")
    with running(folder, *words, environment=environment) as first:
        first.told("ready")
        with running(folder, *words, environment=environment) as second:
            second.told("no admin socket")
            second.told("ready", times=2)


def test_without_a_runtime_folder_a_user_has_no_usual_admin_socket() -> None:
    if os.geteuid() != 0:
        assert default_admin_socket({}) is None
        assert default_admin_socket({"XDG_RUNTIME_DIR": "/run/user/7"}) == Path("/run/user/7/egressd/admin.sock")
