"""Every default number lives in a `limits` module, with its unit in the name and its reason beside it."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from support.project import source_modules

if TYPE_CHECKING:
    from pathlib import Path

LIMITS = [path for path in source_modules() if path.name == "limits.py"]
UNITS = re.compile(
    "_(SECONDS|BYTES|CHARS|TOKENS?|MAX|FIELDS|NAMES|ADDRESSES|PIPES|LOOKUPS|CONNECTIONS|REDIRECTS|HOPS|DEPTH|PROBES|BATCH"
    "|FACTOR|ATTEMPTS)(_|$)"
)


def numbers(path: Path) -> list[tuple[str, int]]:
    """The names that a limits module sets, each with its line."""
    return [
        (target.id, node.lineno)
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    ]


@pytest.mark.parametrize("path", LIMITS, ids=lambda path: path.parent.name)
def test_each_number_has_its_unit_in_the_name(path: Path) -> None:
    assert [name for name, _ in numbers(path) if not UNITS.search(name)] == []


@pytest.mark.parametrize("path", LIMITS, ids=lambda path: path.parent.name)
def test_each_number_has_its_reason_beside_it(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()

    # On the line itself or right above it; a block of numbers may share the comment above the first.
    def explained(line: int) -> bool:
        text = lines[line - 1]
        if "  # " in text:
            return True
        above = lines[line - 2].strip()
        return above.startswith("#") or (bool(above) and above[0].isupper() and explained(line - 1))

    assert [name for name, line in numbers(path) if not explained(line)] == []
