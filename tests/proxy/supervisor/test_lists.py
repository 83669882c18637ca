"""The lists in force: a broken file leaves the old one, and none where there was none."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress_policy.rules import ListKind
from egressd.supervisor.lists import ListStore, LoadedList

KEY = (ListKind.TENANT, "default")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tenants").mkdir()
    return tmp_path


def write(folder: Path, text: str) -> None:
    (folder / "tenants/default.list").write_text(text)


def load(store: ListStore, folder: Path) -> LoadedList:
    return store.load(folder, [KEY])[KEY]


@pytest.mark.case("D2")
def test_an_absent_list_is_empty_and_in_force(folder: Path) -> None:
    found = load(ListStore(), folder)
    assert (found.text, found.unavailable, found.stale, found.problems) == ("", None, False, ())


def test_a_good_list_is_in_force_with_its_warnings(folder: Path) -> None:
    write(folder, "docs.python.org\n! docs.python.org\n")
    found = load(ListStore(), folder)
    assert found.text == "docs.python.org\n! docs.python.org\n"
    assert not found.stale
    assert {problem.severity for problem in found.problems} == {"warning"}


def test_a_broken_list_leaves_the_old_one_in_force(folder: Path) -> None:
    store = ListStore()
    write(folder, "docs.python.org\n")
    load(store, folder)
    write(folder, "docs.python.org\nhttp://x/\n*.*\n")
    found = load(store, folder)
    assert (found.text, found.stale, found.unavailable) == ("docs.python.org\n", True, None)
    assert [problem.line for problem in found.problems] == [2, 3]
    write(folder, "pypi.org\n")
    assert load(store, folder).text == "pypi.org\n"


@pytest.mark.case("D2")
def test_a_broken_list_without_an_old_one_is_unavailable(folder: Path) -> None:
    write(folder, "*.com\n")
    found = load(ListStore(), folder)
    assert found.text is None
    assert found.unavailable == "tenants/default.list is broken and there is no earlier one"


@pytest.mark.case("D7")
@pytest.mark.parametrize("rule", ["*.", "*.*", "*.com", "foo.*.com", "ex*mple.com", "*.co.uk", ".uk"])
def test_grants_that_are_too_broad_are_not_loaded(folder: Path, rule: str) -> None:
    write(folder, f"{rule}\n")
    found = load(ListStore(), folder)
    assert found.text is None
    (problem,) = found.problems
    assert problem.severity == "error"
    assert problem.write_instead


def test_a_file_that_cannot_be_read_is_a_broken_list(folder: Path) -> None:
    store = ListStore()
    write(folder, "docs.python.org\n")
    load(store, folder)
    (folder / "tenants/default.list").write_bytes(b"\xff")
    found = load(store, folder)
    assert (found.text, found.stale) == ("docs.python.org\n", True)
    assert "not UTF-8" in found.problems[0].found


@pytest.mark.case("D2")
def test_a_folder_that_is_away_is_unavailable_even_where_there_was_a_list(folder: Path) -> None:
    store = ListStore()
    write(folder, "docs.python.org\n")
    load(store, folder)
    found = load(store, folder / "away")
    assert found.text is None
    assert found.unavailable is not None
    assert found.unavailable.startswith("no folder")
    write(folder, "*.*\n")
    assert load(store, folder).text == "docs.python.org\n"


def test_a_list_that_is_no_longer_asked_for_is_forgotten(folder: Path) -> None:
    store = ListStore()
    write(folder, "docs.python.org\n")
    load(store, folder)
    store.load(folder, [])
    write(folder, "*.*\n")
    assert load(store, folder).text is None


def test_a_removed_file_is_an_empty_list_at_once(folder: Path) -> None:
    store = ListStore()
    write(folder, "docs.python.org\n")
    load(store, folder)
    (folder / "tenants/default.list").unlink()
    assert load(store, folder).text == ""
