"""What `tests/conftest.py` promises about the suite itself, shown on suites of one test each, run apart."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from support.project import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

SKIPS = "import pytest\n@pytest.mark.namespace\ndef test_it(): pytest.skip('none here')\n"
LEAKS = "import os\ndef test_it(): os.dup(1)\n"
SWAPS = "import os\ndef test_it(): os.dup2(os.open('/etc/passwd', 0), 1)\n"
CLOSES = "import os\ndef test_it(): os.close(os.dup(1))\n"
ADMITS = "import os, pytest\n@pytest.mark.keeps_descriptors('shown here')\ndef test_it(): os.dup(1)\n"
ASKS = """
import hypothesis

def test_it():
    now = hypothesis.settings()
    assert (now.deadline, now.derandomize) == (None, {})
"""


def run(folder: Path, text: str, **environment: str) -> str:
    """Run a suite of this one file with our conftest; returns pytest's last line."""
    (folder / "test_one.py").write_text(text, encoding="utf-8")
    inherited = {name: value for name, value in os.environ.items() if name not in {"CI", "OZ0_REQUIRE_NAMESPACES"}}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "conftest",
            "-o",
            "markers=namespace: x",
            ".",
        ],
        cwd=folder,
        env=inherited | environment | {"PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.splitlines()[-1]


def test_a_skipped_namespace_test_is_a_skip(tmp_path: Path) -> None:
    assert run(tmp_path, SKIPS).startswith("1 skipped")


def test_a_skipped_namespace_test_is_a_failure_where_namespaces_are_required(tmp_path: Path) -> None:
    assert run(tmp_path, SKIPS, OZ0_REQUIRE_NAMESPACES="1").startswith("1 failed")


@pytest.mark.parametrize("text", [LEAKS, SWAPS])
def test_a_test_that_leaves_a_descriptor_open_fails(text: str, tmp_path: Path) -> None:
    assert "1 error" in run(tmp_path, text)


@pytest.mark.parametrize("text", [CLOSES, ADMITS])
def test_a_test_that_closes_its_descriptors_or_says_why_not_passes(text: str, tmp_path: Path) -> None:
    assert run(tmp_path, text).startswith("1 passed")


@pytest.mark.parametrize("ci", [False, True])
def test_properties_have_no_deadline_and_repeat_their_examples_in_ci_only(tmp_path: Path, *, ci: bool) -> None:
    environment = {"CI": "true"} if ci else {}

    assert run(tmp_path, ASKS.format(ci), **environment).startswith("1 passed")
