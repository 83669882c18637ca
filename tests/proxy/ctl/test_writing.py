"""Writing a list file: whole or not at all, owner and mode kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from egressd.ctl.writing import WriteFault, locked, replace

OTHER = 4_242_424
AS_ANOTHER = """
import os, sys
from pathlib import Path
from egressd.ctl.writing import WriteFault, replace
os.setgroups([])
os.setresgid(4242424, 4242424, 4242424)
os.setresuid(4242424, 4242424, 4242424)
try:
    replace(Path(sys.argv[1]), "new\\n")
except WriteFault as fault:
    print(fault)
"""


def test_a_new_file_can_be_read_by_the_daemon(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        replace(tmp_path / "a.list", "docs.python.org\n")
    finally:
        os.umask(before)
    assert (tmp_path / "a.list").read_text() == "docs.python.org\n"
    assert (tmp_path / "a.list").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_the_mode_is_kept_and_the_file_is_a_new_one(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a.list"
    path.write_text("old\n")
    path.chmod(mode)
    inode = path.stat().st_ino
    with path.open() as reader:
        replace(path, "new\n")
        assert reader.read() == "old\n"
    assert path.read_text() == "new\n"
    assert path.stat().st_mode & 0o777 == mode
    assert path.stat().st_ino != inode
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.list"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_is_kept_and_a_new_file_gets_its_folders(tmp_path: Path) -> None:
    path = tmp_path / "a.list"
    path.write_text("old\n")
    os.chown(path, OTHER, OTHER + 1)
    replace(path, "new\n")
    assert (path.stat().st_uid, path.stat().st_gid) == (OTHER, OTHER + 1)
    os.chown(tmp_path, OTHER, OTHER)
    replace(tmp_path / "b.list", "new\n")
    assert (tmp_path / "b.list").stat().st_uid == OTHER


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="takes a file of another user")
def test_a_file_that_would_change_hands_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.list"
    path.write_text("old\n")
    for folder in (tmp_path, *tmp_path.parents[:2]):
        before = folder.stat().st_mode
        folder.chmod(before | 0o007)
    found = subprocess.run([sys.executable, "-c", AS_ANOTHER, str(path)], capture_output=True, text=True, check=True)
    assert "Operation not permitted" in found.stdout
    assert path.read_text() == "old\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.list"]


def test_a_links_target_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old\n")
    (tmp_path / "a.list").symlink_to("target")
    replace(tmp_path / "a.list", "new\n")
    assert (tmp_path / "a.list").is_symlink()
    assert (tmp_path / "target").read_text() == "new\n"


def test_a_folder_that_is_away_is_told(tmp_path: Path) -> None:
    with pytest.raises(WriteFault, match="No such file"):
        replace(tmp_path / "none" / "a.list", "")
    with pytest.raises(WriteFault, match="No such file"), locked(tmp_path / "none" / "tenants"):
        pass


def test_the_folder_of_a_kind_is_made_where_there_was_none(tmp_path: Path) -> None:
    with locked(tmp_path / "tenants"):
        assert (tmp_path / "tenants").is_dir()


@pytest.mark.slow
def test_two_edits_at_one_time_wait_for_each_other(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from egressd.ctl.writing import locked
print("asking", flush=True)
with locked(Path(sys.argv[1])):
    print("in", flush=True)
"""
    with locked(tmp_path):
        other = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert other.stdout is not None
        assert other.stdout.readline() == "asking\n"
        assert other.poll() is None
    assert other.stdout.readline() == "in\n"
    other.stdout.close()
    assert other.wait(20) == 0
