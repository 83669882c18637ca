"""List files: read bounded and without waiting; absent is not the same as unreadable."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from egress_policy.rules import ListKind, Problem
from egressd.list_files import LIST_MAX_BYTES, NAME, ListFault, list_source, read_list, show_problem


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tenants").mkdir()
    return tmp_path


def test_lists_have_their_place() -> None:
    assert list_source(ListKind.TENANT, "default") == "tenants/default.list"
    assert list_source(ListKind.PLUGIN, "brave") == "plugins/brave.list"


def test_a_list_is_read_as_it_stands(folder: Path) -> None:
    (folder / "tenants/default.list").write_bytes("# für alle\r\ndocs.python.org\n".encode())
    assert read_list(folder, ListKind.TENANT, "default") == "# für alle\r\ndocs.python.org\n"


def test_a_byte_order_mark_is_no_part_of_a_rule(folder: Path) -> None:
    (folder / "tenants/default.list").write_bytes(b"\xef\xbb\xbfdocs.python.org\n")
    assert read_list(folder, ListKind.TENANT, "default") == "docs.python.org\n"


@pytest.mark.case("D2")
def test_an_absent_file_and_an_absent_folder_of_its_kind_are_empty_lists(folder: Path) -> None:
    assert read_list(folder, ListKind.TENANT, "default") == ""
    assert read_list(folder, ListKind.PLUGIN, "brave") == ""


@pytest.mark.case("D2")
def test_an_absent_folder_of_all_lists_is_a_fault(folder: Path) -> None:
    with pytest.raises(ListFault, match="no folder"):
        read_list(folder / "none", ListKind.TENANT, "default")


def test_a_file_where_a_folder_should_be_is_a_fault(folder: Path) -> None:
    (folder / "plugins").write_text("")
    with pytest.raises(ListFault, match="Not a directory"):
        read_list(folder, ListKind.PLUGIN, "brave")


@pytest.mark.parametrize("kind", ["folder", "pipe", "socket", "device"])
def test_what_is_no_file_is_a_fault_and_nobody_waits_for_it(folder: Path, kind: str) -> None:
    path = folder / "tenants/default.list"
    match kind:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case _:
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(str(path))
    with pytest.raises(ListFault, match=r"tenants/default\.list"):
        read_list(folder, ListKind.TENANT, "default")


def test_a_list_that_is_too_large_is_a_fault(folder: Path) -> None:
    path = folder / "tenants/default.list"
    path.write_bytes(b"#" * LIST_MAX_BYTES)
    assert len(read_list(folder, ListKind.TENANT, "default")) == LIST_MAX_BYTES
    with path.open("ab") as file:
        file.write(b"#")
    with pytest.raises(ListFault, match="larger than"):
        read_list(folder, ListKind.TENANT, "default")


def test_a_list_that_is_not_utf_8_is_a_fault_with_its_line(folder: Path) -> None:
    (folder / "tenants/default.list").write_bytes(b"a.example\n\xff.example\n")
    with pytest.raises(ListFault, match=r"tenants/default\.list:2: not UTF-8"):
        read_list(folder, ListKind.TENANT, "default")


@pytest.mark.parametrize("name", ["..", "a/b", "", ".hidden"])
def test_names_lead_nowhere_else(name: str) -> None:
    assert NAME.fullmatch(name) is None


def test_a_problem_is_one_line_with_place_found_and_what_to_write() -> None:
    problem = Problem("tenants/default.list", 3, 5, "*.com", "covers a whole registry", "*.example.com", "error")
    assert (
        show_problem(problem) == "tenants/default.list:3:5: covers a whole registry, found '*.com'; write *.example.com"
    )
    warning = Problem("the rule", 0, None, "a", "twice", "", "warning")
    assert show_problem(warning) == "the rule: warning: twice, found 'a'"
