"""What every source file keeps to and no linter checks: whose judgement of an address counts, sizes, words."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from support.project import PACKAGES, ROOT, project_files, source_modules

if TYPE_CHECKING:
    from pathlib import Path

# ipaddress's own opinions differ by patch level, and call multicast, 168.63.129.16 and NAT64 global (case A20).
FLAGS = {
    *("is_global", "is_private", "is_loopback", "is_link_local", "is_multicast", "is_reserved", "is_unspecified"),
    *("is_site_local", "ipv4_mapped", "sixtofour", "teredo"),
}
# One idea a module; near this many lines there is a decision hiding in the doing.
LONGEST_MODULE = 400
# Module to its own bound and the reason why cutting it would cost more than its length. Bounds only fall.
LONGER = {
    "proxy/src/egressd/worker/connection.py": (520, "a client's steps in their order: the page to read first"),
    "proxy/src/egressd/worker/exchange.py": (540, "both directions of one exchange share its state at every step"),
}
FOLDERS_WITHOUT_MEANING = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}
# What belongs to the place where the code is written, and not to the project. The brackets keep this file out of it.
ELSEWHERE = re.compile(r"/w[o]rk/|w[o]rkplace|/tmp/t[e]am|sub-?[a]gent|h[e]lper session|\bC[E]O\b")
INDEX = re.compile(r"ind[e]x-url|/simpl[e]/|find-link[s]|pypi\.[o]rg|registry\.npmj[s]", re.IGNORECASE)
SOURCES = source_modules()


def label(path: Path) -> str:
    """The path as people write it."""
    return str(path.relative_to(ROOT))


@pytest.mark.case("A20")
@pytest.mark.parametrize("path", SOURCES, ids=label)
def test_no_address_is_judged_by_the_standard_library(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))

    assert [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in FLAGS] == []


@pytest.mark.parametrize("path", SOURCES, ids=label)
def test_a_module_is_short_enough_to_hold_one_idea(path: Path) -> None:
    longest, _ = LONGER.get(label(path), (LONGEST_MODULE, ""))

    assert len(path.read_text(encoding="utf-8").splitlines()) <= longest


@pytest.mark.parametrize("path", SOURCES, ids=label)
def test_a_module_is_named_for_what_it_is(path: Path) -> None:
    assert FOLDERS_WITHOUT_MEANING.isdisjoint(path.with_suffix("").parts[len(ROOT.parts) :])


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package[1])
def test_package_files_re_export_and_do_nothing_more(package: tuple[Path, str, Path]) -> None:
    allowed = (ast.Import, ast.ImportFrom, ast.Expr, ast.Assign)
    for path in package[0].rglob("__init__.py"):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        assert all(isinstance(node, allowed) for node in body), path


def test_nothing_speaks_of_the_place_where_it_was_written() -> None:
    found = []
    for path in project_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{label(path)}: {match[0]}" for match in ELSEWHERE.finditer(text)]

    assert found == []


def test_no_file_names_a_package_index() -> None:
    found = []
    for path in project_files():
        if path.suffix in {".toml", ".txt", ".md", ".sh", ".cfg", ".ini"} or path.parent.name in {
            "scripts",
            "lib",
            ".ci",
        }:
            found += [f"{label(path)}: {match[0]}" for match in INDEX.finditer(path.read_text(encoding="utf-8"))]

    assert found == []
