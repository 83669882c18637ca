"""Every script says what it is for, can be run, and answers `--help` without making an environment first."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from support.project import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SCRIPTS = sorted(path for path in (ROOT / "scripts").iterdir() if path.is_file())
EXPECTED = {"bench", "check", "demo", "run", "test"}


def test_the_scripts_are_all_there() -> None:
    assert {path.name for path in SCRIPTS} >= EXPECTED


@pytest.mark.parametrize("path", [*SCRIPTS, ROOT / ".ci" / "run"], ids=lambda path: path.name)
def test_a_script_is_executable_and_opens_with_what_it_is_for(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()

    assert os.access(path, os.X_OK)
    assert lines[0].startswith("#!")
    assert lines[1].startswith("# ")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_answers_help_on_a_machine_without_anything(path: Path, tmp_path: Path) -> None:
    for tool in ("bash", "env", "sed", "dirname", "basename"):
        (tmp_path / tool).symlink_to(str(shutil.which(tool)))

    done = subprocess.run([path, "--help"], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == path.read_text(encoding="utf-8").splitlines()[1].removeprefix("# ")


# What the scripts themselves call; a machine that has nothing else.
BARE = ("bash", "env", "sed", "dirname", "basename", "cat", "cut", "sha256sum", "mkdir", "rm")
# Answers as a Python 3.12 that came without its venv module.
PYTHON_WITHOUT_VENV = """#!/bin/bash
case "$2" in
*ensurepip*) exit 1 ;;
*_base_executable*) echo "$0" ;;
*%d.%d*) echo 3.12 ;;
esac
"""


def run_on_a_bare_machine(folder: Path, python: str | None) -> subprocess.CompletedProcess[str]:
    """Run `scripts/run` of a copy of the project where PATH has the barest tools, and this Python if any."""
    project, tools = folder / "project", folder / "bin"
    shutil.copytree(ROOT / "scripts", project / "scripts")
    for name in ("constraints.txt", "shared/pyproject.toml", "proxy/pyproject.toml", "toolclient/pyproject.toml"):
        (project / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, project / name)
    tools.mkdir()
    for tool in BARE:
        (tools / tool).symlink_to(str(shutil.which(tool)))
    if python is not None:
        (tools / "python3").write_text(python, encoding="ascii")
        (tools / "python3").chmod(0o755)
    return subprocess.run(
        [project / "scripts" / "run"], env={"PATH": str(tools)}, capture_output=True, text=True, check=False
    )


def test_without_a_python_the_scripts_say_what_to_install(tmp_path: Path) -> None:
    done = run_on_a_bare_machine(tmp_path, None)

    assert done.returncode != 0
    assert "apt-get install python3" in done.stderr


def test_without_the_venv_module_the_scripts_say_which_package_brings_it(tmp_path: Path) -> None:
    done = run_on_a_bare_machine(tmp_path, PYTHON_WITHOUT_VENV)

    assert done.returncode != 0
    assert "apt-get install python3.12-venv" in done.stderr
