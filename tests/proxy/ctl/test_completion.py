"""Completion scripts: every verb and option in each, and that the shells take them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from egressd.ctl.cli import make_parser
from egressd.ctl.completion import OPTIONS, SHELLS, VERBS, script


@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_every_verb_and_option_is_completed(shell: str) -> None:
    text = script(shell)
    assert " ".join(VERBS) in text
    for option in OPTIONS:
        assert option.removeprefix("--") in text or option in {"--help", "--version"}


def test_the_options_are_those_of_the_command() -> None:
    known = {option for action in make_parser()._actions for option in action.option_strings}
    assert set(OPTIONS) == known - {"-h"}


@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_the_shell_takes_its_script(shell: str) -> None:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"no {shell} here")
    subprocess.run([path, "-n"], input=script(shell), text=True, check=True)


def test_bash_completes_verbs_after_the_name() -> None:
    if shutil.which("bash") is None:
        pytest.skip("no bash here")
    ask = "\nCOMP_WORDS=(egressctl tenant default re); COMP_CWORD=3; _egressctl; echo ${COMPREPLY[@]}"
    found = subprocess.run(["bash"], input=script("bash") + ask, text=True, check=True, capture_output=True)
    assert found.stdout == "remove\n"
