"""Which types are read and which are refused by name (OZ-35)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oz0_web.media_types import MediaType, RefusedType, is_text, parse_media_type, refused_by_label, settle_type


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (None, MediaType("")),
        ("", MediaType("")),
        ("text/html", MediaType("text/html")),
        (" Text/HTML ;charset=UTF-8", MediaType("text/html", "UTF-8")),
        ('text/html; a="b;c"; charset="utf-8"', MediaType("text/html", "utf-8")),
        ("text/html; charset", MediaType("text/html")),
        ("text", MediaType("")),
        ("text/", MediaType("")),
        ("text/html charset=x", MediaType("")),
        ("text/ht ml", MediaType("")),
        ("application/ld+json;profile=x", MediaType("application/ld+json")),
        ("a/" + "b" * 200, MediaType("")),
    ],
)
def test_a_content_type_is_read_or_counts_as_none(field: str | None, expected: MediaType) -> None:
    assert parse_media_type(field) == expected


@pytest.mark.requirement("OZ-35")
@pytest.mark.parametrize(
    "essence",
    [
        *("text/html", "application/xhtml+xml", "text/plain", "text/markdown", "text/x-markdown", "text/csv"),
        *("application/json", "application/ld+json", "application/xml", "text/xml", "application/rss+xml"),
    ],
)
def test_text_types_are_read(essence: str) -> None:
    assert is_text(essence)
    assert refused_by_label(MediaType(essence)) is None


@pytest.mark.requirement("OZ-35")
@pytest.mark.parametrize(
    "essence",
    [
        "application/pdf",
        "image/png",
        "image/svg+xml",
        "application/octet-stream",
        "text/css",
        "video/mp4",
        "font/woff2",
    ],
)
def test_any_other_type_is_refused_by_its_name(essence: str) -> None:
    assert refused_by_label(MediaType(essence)) == RefusedType(essence)


def test_without_a_label_the_body_decides() -> None:
    assert refused_by_label(MediaType("")) is None
    assert settle_type(MediaType(""), b"plain words") == MediaType("text/plain")
    assert settle_type(MediaType(""), b"a\x01b") == RefusedType("binary data without a type")


@pytest.mark.case("Y2", "S9")
@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"%PDF-1.7\n", "application/pdf (labelled text/plain)"),
        (b"wOF2\0\1\0\0", "font/woff2 (labelled text/plain)"),
        (b"\x89PNG\r\n\x1a\n\0", "image/png (labelled text/plain)"),
        (b"\x7fELF\2\1", "application/x-elf (labelled text/plain)"),
        (b"ab\0\0\0cd", "binary data (labelled text/plain)"),
    ],
)
def test_a_wrong_label_does_not_make_binary_data_text(data: bytes, found: str) -> None:
    assert settle_type(MediaType("text/plain"), data) == RefusedType(found)


@pytest.mark.parametrize(
    ("media_type", "data"),
    [
        (MediaType("text/plain"), "text".encode("utf-16")),
        (MediaType("text/plain", "utf-16le"), "text".encode("utf-16-le")),
        (MediaType("text/plain"), b"colour \x1b[31mred"),
        (MediaType("text/html"), b""),
    ],
)
def test_text_that_looks_odd_stays_text(media_type: MediaType, data: bytes) -> None:
    assert settle_type(media_type, data) == media_type


@given(st.text(max_size=200))
def test_any_field_is_read_or_counts_as_none(field: str) -> None:
    media_type = parse_media_type(field)

    assert media_type.essence == media_type.essence.lower()
