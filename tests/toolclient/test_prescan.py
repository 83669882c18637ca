"""What a document's first bytes declare, byte by byte as the standard says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oz0_web.prescan import (
    PRESCAN_BYTES,
    declared_in_meta,
    declared_in_xml,
    encoding_name,
    label_in_content,
    meta_encoding,
)


@pytest.mark.case("S11", "S12", "S13", "S14")
@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"<meta charset=iso8859-2>", "iso-8859-2"),
        (b"<meta/charset=utf-8>", "utf-8"),
        (b"<<meta charset=iso8859-2>", "iso-8859-2"),
        (b"</xxx<meta charset=iso8859-2>", None),
        (b"<meta content='text/html; charsetcharset=iso-8859-2' http-equiv=content-type>", "iso-8859-2"),
        (b"<meta content='charset=iso8859-2;text/html' http-equiv=Content-Type>", "iso-8859-2"),
        (b"<meta content='text/html; charset=iso8859-2'>", None),
        (b"<metacharset=iso8859-2>", None),
        (b"<meta name=x charset=koi8-r charset=utf-8>", "koi8-r"),
        (b"<meta charset=>\n<meta charset=koi8-r>", "koi8-r"),
        (b"<!--><meta charset=koi8-r>", "koi8-r"),
        (b"<!-- <meta charset=koi8-r> ", None),
        (b"<!-- <meta charset=koi8-r> --><meta charset=utf-8>", "utf-8"),
        (b"<?php <meta charset=koi8-r>", None),
        (b"<p title='<meta charset=koi8-r>'>", None),
        (b"<p title='<meta charset=koi8-r>", None),
        (b"<! a><meta charset=koi8-r>", "koi8-r"),
        (b"<1><meta charset=koi8-r>", "koi8-r"),
        (b"<meta charset=utf-16be>", "utf-8"),
        (b"<meta charset=x-user-defined>", "windows-1252"),
        (b"<meta charset = 'koi8-r' >", "koi8-r"),
        (b"<meta charset=koi8-r", None),
        (b" " * (PRESCAN_BYTES - 21) + b"<meta charset=koi8-r>", "koi8-r"),
        (b" " * (PRESCAN_BYTES - 20) + b"<meta charset=koi8-r>", None),
        (b"", None),
    ],
)
def test_the_first_meta_element_that_declares_an_encoding_counts(data: bytes, name: str | None) -> None:
    assert declared_in_meta(data) == name


@pytest.mark.parametrize(
    ("content", "label"),
    [
        ("text/html; charset=utf-8", "utf-8"),
        ("charset = 'utf-8'", "utf-8"),
        ('charset="utf-8', None),
        ("charset utf-8", None),
        ("charset utf-8; CHARSET=koi8-r x", "koi8-r"),
        ("charset=", ""),
        ("", None),
    ],
)
def test_a_label_is_taken_out_of_a_content(content: str, label: str | None) -> None:
    assert label_in_content(content) == label


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"<?xml version='1.0' encoding='ISO-8859-2'?>", "iso-8859-2"),
        (b'<?xml encoding = "utf-16"?>', "utf-8"),
        (b'<?xml version="1.0"?>', None),
        (b' <?xml encoding="koi8-r"?>', None),
        (b"<?xml encoding=\"koi8-r'?>", None),
        ("<?xml ".encode("utf-16-le"), "utf-16le"),
        ("<?xml ".encode("utf-16-be"), "utf-16be"),
        ("<?xml ".encode("utf-32-be"), "utf-32be"),
    ],
)
def test_an_xml_declaration_counts_at_the_very_start(data: bytes, name: str | None) -> None:
    assert declared_in_xml(data) == name


@pytest.mark.parametrize(
    ("label", "name"),
    [(" UTF8\n", "utf-8"), ("latin1", "windows-1252"), ("u16", None), ("utf-7", None), ("os.path", None), ("", None)],
)
def test_labels_are_those_of_the_encoding_standard(label: str, name: str | None) -> None:
    assert encoding_name(label) == name


def test_a_pragma_counts_only_with_its_name_and_a_charset_attribute_comes_first() -> None:
    assert meta_encoding({"http-equiv": "Content-Type", "content": "a;charset=koi8-r"}) == "koi8-r"
    assert meta_encoding({"http-equiv": "x", "content": "a;charset=koi8-r"}) is None
    assert meta_encoding({"http-equiv": "content-type", "content": "a;charset=koi8-r", "charset": "utf-8"}) == "utf-8"


@given(st.binary(max_size=300) | st.text("<meta charset='\"/>=-!?", max_size=80).map(str.encode))
def test_any_bytes_declare_something_or_nothing(data: bytes) -> None:
    assert declared_in_meta(data) is None or isinstance(declared_in_xml(data), str | None)
