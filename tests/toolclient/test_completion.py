"""Completion scripts know the command's own options, and shells accept them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from oz0_web.completion import SCRIPTS

OPTIONS = [
    *("--output", "--max-chars", "--max-bytes", "--budget", "--query", "--view", "--fresh"),
    *("--json", "--help"),
]


@pytest.mark.parametrize("shell", sorted(SCRIPTS))
def test_every_command_and_option_is_in_the_script(shell: str) -> None:
    words = ["fetch", "find", "grant", "completion", "markdown text raw", *OPTIONS]
    script = SCRIPTS[shell]

    if shell == "fish":
        words = [word.replace("--", "-l ") for word in words]
    assert [word for word in words if word not in script] == []


@pytest.mark.parametrize("shell", sorted(SCRIPTS))
def test_the_shell_accepts_the_script(shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"no {shell} here")
    flag = "--no-execute" if shell == "fish" else "-n"

    done = subprocess.run([program, flag], input=SCRIPTS[shell], text=True, capture_output=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_bash_completes_the_commands() -> None:
    program = shutil.which("bash")
    if program is None:
        pytest.skip("no bash here")
    ask = 'COMP_WORDS=(oz0-web ""); COMP_CWORD=1; _oz0_web; echo "${COMPREPLY[@]}"'

    done = subprocess.run([program, "-c", SCRIPTS["bash"] + ask], text=True, capture_output=True, check=False)

    assert done.stdout.split() == ["fetch", "find", "grant", "completion", "--help", "--version"]
