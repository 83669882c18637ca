"""Public test corpora, read where they lie: `OZ0_CORPORA`, or `../shared/corpora` beside the project.

A test that needs one is skipped where it is absent, and only then. Nothing of them is copied into the project.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from support.project import ROOT

CORPORA = Path(os.environ.get("OZ0_CORPORA") or ROOT.parent / "shared" / "corpora")


def corpus_file(name: str) -> Path:
    """Give the path of a corpus file, such as `wpt-url/urltestdata.json`, or skip the test."""
    path = CORPORA / name
    if not path.is_file():
        pytest.skip(f"no corpus {name} in {CORPORA}")
    return path


def corpus_json(name: str) -> Any:  # noqa: ANN401 - as the file has it
    """Read a corpus file in JSON, or skip the test."""
    return json.loads(corpus_file(name).read_text(encoding="utf-8"))


def corpus_lines(name: str) -> list[str]:
    """Read the lines of a corpus file, empty ones left out, or skip the test."""
    return [line for line in corpus_file(name).read_text(encoding="utf-8").split("\n") if line]
