"""The fragments of the changelog have names and a form that a release can use."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from support.project import ROOT

if TYPE_CHECKING:
    from pathlib import Path

FRAGMENTS = sorted(path for path in (ROOT / "changes.d").iterdir() if path.name != "README.md")
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\.(added|changed|deprecated|removed|fixed|security)\.md")


def test_there_is_something_to_release() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")

    assert FRAGMENTS or re.search(r"^## \[\d", changelog, re.MULTILINE)


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.name)
def test_a_fragment_is_named_by_topic_and_kind(path: Path) -> None:
    assert NAME.fullmatch(path.name)


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.name)
def test_a_fragment_is_a_list_of_sentences(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()

    assert lines
    assert all(line.startswith(("- ", "  ")) for line in lines)
    assert all(len(line) <= 120 for line in lines)
    assert lines[-1].endswith(".")


def test_the_changelog_keeps_its_form() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heads = re.findall(r"^## (.*)$", text, re.MULTILINE)

    assert heads[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", head) for head in heads[1:])
