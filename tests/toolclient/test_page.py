"""A body and its type to what is read."""

from __future__ import annotations

import pytest

from egress_policy.targets import Url, parse_url
from oz0_web.media_types import RefusedType
from oz0_web.page import Output, Page, make_page


def page(
    data: bytes, kind: str | None, output: Output = "markdown", text: str = "https://e.example/dir/file.txt"
) -> Page | RefusedType:
    url = parse_url(text)
    assert isinstance(url, Url)
    return make_page(data, kind, url, output)


HTML = b"<title>T</title><nav>n</nav><p>a <b>b</b>"


@pytest.mark.requirement("OZ-7", "OZ-36", "X9")
@pytest.mark.parametrize(("output", "content"), [("markdown", "a **b**"), ("text", "a b"), ("raw", HTML.decode())])
def test_html_is_converted_unless_it_is_wanted_raw(output: Output, content: str) -> None:
    assert page(HTML, "text/html; charset=utf-8", output) == Page("text/html", "T", content)


@pytest.mark.case("Y3", "Y6")
@pytest.mark.parametrize("output", ["markdown", "text", "raw"])
@pytest.mark.parametrize("kind", ["text/plain", "application/json", "text/csv", "text/markdown", "application/xml"])
def test_other_text_stays_as_it_is(kind: str, output: Output) -> None:
    assert page(b"{<b>} *x*\n", kind, output) == Page(kind, "file.txt", "{<b>} *x*\n")


def test_without_a_path_there_is_no_title_for_text() -> None:
    assert page(b"x", "text/plain", text="https://e.example/") == Page("text/plain", "", "x")


def test_the_label_of_the_field_decides_how_bytes_are_read() -> None:
    assert page("Привет".encode("cp1251"), "text/html; charset=windows-1251") == Page("text/html", "", "Привет")


@pytest.mark.requirement("OZ-35")
@pytest.mark.case("Y2")
def test_binary_data_is_refused_whatever_its_label() -> None:
    assert page(b"%PDF-1.7", "text/html") == RefusedType("application/pdf (labelled text/html)")
    assert page(b"\0\1\2", None) == RefusedType("binary data without a type")


def test_what_was_left_out_or_kept_is_noted() -> None:
    hidden = page(b"<p>a<p hidden>b", "text/html")
    emptied = page(b"<p hidden>b", "text/html")

    assert isinstance(hidden, Page)
    assert isinstance(emptied, Page)
    assert hidden.notes == ("1 hidden elements were left out",)
    assert (emptied.content, len(emptied.notes)) == ("b", 1)
