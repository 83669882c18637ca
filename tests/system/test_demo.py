"""The demo shows what it says, and the README shows what the demo said."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from support.lab_daemon import bare_environment
from support.lab_world import World
from support.project import ROOT


def play(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "demo", *options], cwd=ROOT, env=bare_environment(), capture_output=True, text=True,
        timeout=60, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.namespace
def test_the_transcript_in_the_readme_is_what_the_demo_prints(world: World) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = play()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    # CPU, not wall: how long a person waits depends on what else the machine does.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 15
    assert done.stdout.strip() in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_without_namespaces_the_demo_plays_on_loopback_and_says_so_loudly() -> None:
    done = play("--loopback")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "!!  This is not the real demo" in done.stdout
    assert "unsafe_reach" in done.stdout
