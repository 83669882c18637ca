"""A pytest plugin that writes down which cases and requirements the collected tests name, and runs none of them.

Used by `tests/rules/test_cases_are_covered.py` as `python -m pytest --collect-only -p support.case_markers`; the
file to write is named by `OZ0_CASE_MARKERS`. A test names a case by `@pytest.mark.case("A6")`, or by `case_a6` in
its own name.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

_IN_NAME = re.compile(r"case_([a-z]\d+)(?![a-z0-9])")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Write `{"cases": {id: [test, ...]}, "requirements": {...}}`."""
    cases: dict[str, list[str]] = {}
    requirements: dict[str, list[str]] = {}
    for item in session.items:
        for kind, into in (("case", cases), ("requirement", requirements)):
            for marker in item.iter_markers(kind):
                for each in marker.args:
                    into.setdefault(str(each), []).append(item.nodeid)
        for each in _IN_NAME.findall(item.name.lower()):
            cases.setdefault(each.upper(), []).append(item.nodeid)
    Path(os.environ["OZ0_CASE_MARKERS"]).write_text(
        json.dumps({"cases": cases, "requirements": requirements}), encoding="utf-8"
    )
