"""Which encoding a body is in: the mark, the field, the page, UTF-8, a guess, in this order."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oz0_web.charset import Decoded, Source, decode, decode_text
from oz0_web.media_types import RefusedType, parse_media_type, refused_by_label, settle_type
from support.corpora import CORPORA, corpus_file, corpus_json


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


@pytest.mark.case("S4")
def test_a_last_byte_beyond_ascii_on_its_own_is_windows_1252() -> None:
    assert decode_text("Café".encode("cp1252"), None, essence="text/plain") == "Café"


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


def decoded(data: bytes, content_type: str | None, default: str) -> Decoded:
    media_type = parse_media_type(content_type)
    return decode(data, media_type.charset, essence=media_type.essence or default)


def test_all_pages_of_the_w3c_are_in_the_encoding_it_says() -> None:
    for row in corpus_json("w3c-charset/expected.json"):
        data = corpus_file(f"w3c-charset/{row['file']}").read_bytes()
        assert decoded(data, row["content_type"], "text/html").encoding == row["encoding"], row


@pytest.mark.case("S3")
def test_all_labels_with_bytes_of_the_w3c_decode_as_it_says() -> None:
    for row in corpus_json("w3c-charset/decode_cases.json"):
        assert decode_text(bytes.fromhex(row["bytes_hex"]), row["label"], essence="text/plain") == row["text"], row


@pytest.mark.case("S11", "S12", "S13", "S14")
def test_all_documents_of_html5lib_are_in_the_encoding_it_says() -> None:
    """Where nothing is declared it says windows-1252, the default; on ASCII, UTF-8 says the same and comes first.

    So those get one byte that is not UTF-8, which shows that no declaration was found.
    """
    count = 0
    for name in ("tests1.dat", "tests2.dat"):
        text = corpus_file(f"html5lib-tests/encoding/{name}").read_bytes()
        for case in re.split(rb"(?m)^#data\n", text)[1:]:
            data, _, expected = case.partition(b"\n#encoding\n")
            encoding = expected.split(b"\n")[0].decode("ascii").lower()
            found = decode(data, None, essence="text/html")
            if found.source is Source.VALID and encoding == "windows-1252":
                found = decode(data + b"\xe4", None, essence="text/html")
            assert found.encoding == encoding, data
            count += 1
    assert count == 81


# Why an encoding that feedparser expects is another here, by kind; all other files must agree.
FEED_NAMES = {
    # Labels of the Encoding Standard: these are the same bytes read by the larger set, as browsers do.
    "us-ascii": "windows-1252",
    "iso-8859-1": "windows-1252",
    "gb18030": "gbk",
}


FEED_COUNTS = (23, 21, 6, 12)  # agreed, renamed, old default, not read


def test_all_feeds_of_feedparser_are_in_the_encoding_it_says_but_for_four_kinds() -> None:
    """Agree with the files that name an encoding, but for kinds that have a reason.

    The kinds: other names for the same (`FEED_NAMES`); US-ASCII as the default of text/xml (RFC 3023; RFC 7303 section
    3 replaced it by the document's own word and UTF-8); types that are not read at all; and, not counted, tests of its
    repair of badly made feeds, which name no encoding.
    """
    folder = CORPORA / "feedparser" / "encoding"
    corpus_file("feedparser/encoding/big5.xml")
    agreed = renamed = replaced = unread = 0
    for path in sorted(folder.glob("*.xml")):
        data = path.read_bytes()
        head = data.replace(b"\0", b"").decode("latin-1")
        kind = match[1].strip() if (match := re.search(r"(?i)Header:\s*Content-type:(.*)", head)) else None
        expected = re.search(r"Expect:.*\bencoding == '([^']*)'", head)
        if expected is None:
            continue
        media_type = parse_media_type(kind)
        if isinstance(refused_by_label(media_type), RefusedType):
            unread += 1
            continue
        found = decoded(data, kind, "application/xml").encoding
        if found == expected[1]:
            agreed += 1
        elif found == FEED_NAMES.get(expected[1]):
            renamed += 1
        else:
            is_old_default = expected[1] == "us-ascii" and media_type.charset is None
            assert is_old_default, (path.name, kind, expected[1], found)
            assert media_type.essence.startswith("text/")
            replaced += 1
    assert (agreed, renamed, replaced, unread) == FEED_COUNTS


def test_the_texts_that_feedparser_expects_are_read() -> None:
    for name, text in (
        ("euc-kr.xml", "\ub144"),
        ("euc-kr-item.xml", "\ub144"),
        ("euc-kr-attribute.xml", '<img alt="\ub144" />'),
        ("http_text_xml_charset_2.xml", "This is a \xa3\u201ctest.\u201d"),
        ("http_text_xml_charset_overrides_encoding_2.xml", "This is a \xa3\u201ctest.\u201d"),
    ):
        data = corpus_file(f"feedparser/encoding/{name}").read_bytes()
        kind = "text/xml; charset=windows-1252" if name.startswith("http") else None
        assert text in decoded(data, kind, "application/xml").text.replace("&lt;", "<").replace("&gt;", ">")


@pytest.mark.parametrize(
    ("data", "label", "essence", "encoding", "source"),
    [
        (b"\xef\xbb\xbfa", "iso-8859-2", "text/html", "utf-8", Source.MARK),
        (b"a", "latin1", "text/html", "windows-1252", Source.FIELD),
        (b"a", "'latin1'", "text/html", "windows-1252", Source.FIELD),
        (b"<meta charset=koi8-r>", "nonsense", "text/html", "koi8-r", Source.DOCUMENT),
        (b"<meta charset=koi8-r>", None, "text/plain", "utf-8", Source.VALID),
        (b"<meta charset=utf-16>", None, "text/html", "utf-8", Source.DOCUMENT),
        (b"<?xml version='1.0' encoding='koi8-r'?><p>", None, "application/xhtml+xml", "koi8-r", Source.DOCUMENT),
        (b"\xe4", "iso-2022-kr", "text/html", "windows-1252", Source.FALLBACK),
        ("Привет, как дела? Хорошо.".encode("cp1251"), None, "text/plain", "windows-1251", Source.FALLBACK),
        (b"\xa3100", None, "text/plain", "windows-1252", Source.FALLBACK),
    ],
)
def test_what_decided_is_told(data: bytes, label: str | None, essence: str, encoding: str, source: Source) -> None:
    found = decode(data, label, essence=essence)

    assert (found.encoding, found.source) == (encoding, source)


LATE = b"<!doctype html><!--" + b"-" * 3_000 + b"-->"


@pytest.mark.parametrize(
    ("page", "encoding"),
    [
        (LATE + b"<meta charset=koi8-r>\xe4", "koi8-r"),
        (LATE + b"<meta http-equiv=content-type content='text/html;charset=koi8-r'>\xe4", "koi8-r"),
        (LATE + b"<script>'<meta charset=koi8-r>'</script>\xe4", "windows-1252"),
        (LATE + b"<template><meta charset=koi8-r></template>\xe4", "windows-1252"),
        (LATE + b"<meta charset=nonsense><meta charset=koi8-r>\xe4", "koi8-r"),
    ],
)
def test_a_declaration_beyond_the_prescan_counts_as_a_parser_meets_it(page: bytes, encoding: str) -> None:
    assert decode(page, None, essence="text/html").encoding == encoding


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_wide_xml_is_text_with_and_without_its_mark(codec: str) -> None:
    feed = '<?xml version="1.0"?><a>żółw</a>'
    data = feed.encode(codec)

    assert not isinstance(settle_type(parse_media_type("application/xml"), data), RefusedType)
    assert decode_text(data, None, essence="application/xml") == feed


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit", [b"<", b"<meta ", b"<meta charset=", b"<!-- ", b"charset=", b"<meta charset=x ", b"<a b=c "]
)
def test_no_page_takes_long(unit: bytes) -> None:
    data = unit * (2_000_000 // len(unit)) + b"\xe4"
    began = time.process_time()
    decode(data, None, essence="text/html")

    assert time.process_time() - began < 2


def test_a_note_is_made_only_of_a_guess() -> None:
    guess = decode(b"Caf\xe9", None, essence="text/plain")

    assert guess.note is not None
    assert "windows-1252" in guess.note
    assert decode(b"Caf\xe9", "latin1", essence="text/plain").note is None
