"""Every known bypass of other proxies that is in scope has a test that names it, found by pytest's own collection."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from support.project import ROOT

if TYPE_CHECKING:
    from pathlib import Path

# The rows of the case list by section: spellings of addresses, metadata addresses, DNS, names and authorities. C2, C11
# and the sections after D come later.
CASES = {
    "A": (3, 4, 6, 7, 9, 10, 12, 13, 14, 15, 16, 17, 20),
    "B": (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11),
    "C": (1, 3, 4, 5, 7, 9),
    "D": (1, 2, 3, 7, 10, 12, 13, 14, 15, 16, 18),
}
IDS = [f"{section}{number}" for section, numbers in CASES.items() for number in numbers]


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The cases and requirements that the whole suite names."""
    found: Path = tmp_path_factory.mktemp("collection") / "markers.json"
    collected = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "--collect-only",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "support.case_markers",
        ],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT / "tests"), "OZ0_CASE_MARKERS": str(found)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert collected.returncode == 0, collected.stdout[-2000:] + collected.stderr[-2000:]
    answer: dict[str, Any] = json.loads(found.read_text(encoding="utf-8"))
    return answer


@pytest.mark.slow
@pytest.mark.parametrize("case", IDS)
def test_a_test_names_the_case(case: str, named: dict[str, Any]) -> None:
    # The client has a list of its own with the same letters.
    tests = [test for test in named["cases"].get(case, ()) if not test.startswith("tests/toolclient/")]

    assert tests, f'no test is marked @pytest.mark.case("{case}") or has case_{case.lower()} in its name'


@pytest.mark.slow
def test_no_test_names_a_case_that_cannot_be(named: dict[str, Any]) -> None:
    odd = [case for case in named["cases"] if not re.fullmatch(r"[A-Z][1-9][0-9]?", case)]

    assert not odd, f"misspelt case ids: {odd}"
