"""Which encoding a body is in: the mark, the field, the page, UTF-8, a guess, in this order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oz0_web.charset import decode_text


@pytest.mark.case("S1")
@pytest.mark.parametrize(
    ("data", "label", "essence", "text"),
    [
        (b"\xef\xbb\xbfd\xc3\xa9j\xc3\xa0", "iso-8859-1", "text/plain", "déjà"),
        ("déjà".encode("utf-16"), "utf-8", "text/plain", "déjà"),
        (b"\xfe\xff" + "déjà".encode("utf-16-be"), None, "text/html", "déjà"),
        ("你好".encode(), None, "text/plain", "你好"),
        ("<meta charset=UTF-8>你好".encode(), None, "text/html", "<meta charset=UTF-8>你好"),
        ("déjà".encode(), None, "application/json", "déjà"),
        (b"", None, "text/html", ""),
    ],
)
def test_marks_come_first_and_valid_utf_8_is_never_guessed_away(
    data: bytes, label: str | None, essence: str, text: str
) -> None:
    assert decode_text(data, label, essence=essence) == text


@pytest.mark.case("S3")
@pytest.mark.parametrize(
    ("label", "python", "text"),
    [
        ("Shift_JIS", "shift_jis", "日本語"),
        ("euc-kr", "euc-kr", "한국어"),
        ("GBK", "gbk", "中文"),
        ("windows-1251", "cp1251", "Привет"),
        ("latin1", "cp1252", "“déjà”"),
    ],
)
def test_the_fields_label_is_honoured(label: str, python: str, text: str) -> None:
    assert decode_text(text.encode(python), label, essence="text/html") == text


def test_the_pages_own_declaration_counts_without_a_field() -> None:
    page = "<meta charset=windows-1251><p>Привет"

    assert decode_text(page.encode("cp1251"), None, essence="text/html") == page


def test_xml_declares_its_encoding_in_its_first_line() -> None:
    page = '<?xml version="1.0" encoding="ISO-8859-2"?><a>żółw</a>'

    assert decode_text(page.encode("iso-8859-2"), None, essence="application/rss+xml") == page


@pytest.mark.case("S4")
def test_without_any_label_western_bytes_are_windows_1252() -> None:
    assert (
        decode_text("Müller “quoted” naïve café".encode("cp1252"), None, essence="text/plain")
        == "Müller “quoted” naïve café"
    )


@pytest.mark.case("S8")
@pytest.mark.parametrize("label", ["unicode", "utf-16", "utf-16le"])
def test_a_wide_label_on_narrow_bytes_is_ignored(label: str) -> None:
    assert decode_text(b"plain words", label, essence="text/html") == "plain words"


@pytest.mark.parametrize("label", ["nonsense", "os.path", "../x", "utf-8\0", "x" * 500, "idna", "rot13", "hex"])
def test_an_unknown_label_counts_as_none_and_never_reaches_a_module(label: str) -> None:
    assert decode_text("déjà".encode(), label, essence="text/plain") == "déjà"


@pytest.mark.case("S15")
def test_a_character_cut_at_the_end_does_not_spoil_the_rest() -> None:
    assert decode_text("aé".encode()[:-1], None, essence="text/plain").startswith("a")
    assert decode_text(("é" * 50).encode()[:-1], None, essence="text/plain")[:49] == "é" * 49


@given(
    st.binary(max_size=300),
    st.sampled_from([None, "utf-8", "shift_jis", "utf-16", "big5", "x-user-defined", "replacement"]),
)
def test_any_bytes_under_any_label_give_text(data: bytes, label: str | None) -> None:
    assert isinstance(decode_text(data, label, essence="text/html"), str)
