"""Structured lists, against the public test suite and by the grammar's corners."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from egress_policy.structured_fields import Date, DisplayString, InnerList, Item, Token, read_list, string_text
from support.corpora import CORPORA, corpus_json

LIST_FILES = ["list", "listlist", "param-list", "param-listlist"]
ITEM_FILES = ["boolean", "binary", "date", "display-string", "examples", "item", "number", "number-generated", "string"]
ITEM_FILES += ["string-generated", "token", "token-generated", "large-generated"]


def plain(value: object) -> object:
    """Give a value in the form in which the suite writes it."""
    match value:
        case Item(bare, parameters):
            return [plain(bare), [[key, plain(each)] for key, each in parameters.items()]]
        case InnerList(items, parameters):
            return [[plain(each) for each in items], [[key, plain(each)] for key, each in parameters.items()]]
        case Token():
            return {"__type": "token", "value": str(value)}
        case DisplayString():
            return {"__type": "displaystring", "value": str(value)}
        case Date():
            return {"__type": "date", "value": int(value)}
        case bytes():
            return {"__type": "binary", "value": base64.b32encode(value).decode()}
    return value


def suite_rows() -> list[Any]:
    rows: list[Any] = []
    for name in LIST_FILES + ITEM_FILES:
        if (CORPORA / "structured-field-tests" / f"{name}.json").is_file():
            rows += [(name, row) for row in corpus_json(f"structured-field-tests/{name}.json")]
    return rows


def test_the_public_suite_is_read_as_it_says() -> None:
    corpus_json("structured-field-tests/list.json")  # skips where there is none
    seen = 0
    for name, row in suite_rows():
        if row["header_type"] not in {"list", "item"}:
            continue
        seen += 1
        found = read_list(row["raw"])
        label = f"{name}: {row['name']}"
        if row.get("must_fail") and row["header_type"] == "list":
            assert found is None, label
        elif row["header_type"] == "list":
            assert found is not None or row.get("can_fail"), label
            if found is not None:
                assert [plain(each) for each in found] == row["expected"], label
        elif not row.get("must_fail") and not row.get("can_fail"):
            # One item is also a list of one.
            assert found is not None, label
            assert [plain(each) for each in found] == [row["expected"]], label
        elif row.get("must_fail") and not set("".join(row["raw"])) & {",", "\t"} and "".join(row["raw"]).strip(" "):
            # A comma makes a list of two, and a list may end in a tab.
            assert found is None, label

    assert seen >= 900


@pytest.mark.parametrize(
    "text",
    [
        *("a,", ",a", "a,,b", "a b", "a;", "a;B=1", "a;=1", "a;b=", "(a", "(a,b)", "(a  b)x", '"a', '"a\\b"', '"\x7f"'),
        *(
            '"é"',
            "?2",
            "?",
            ":a",
            ":%:",
            "1.",
            "1.2345",
            "1234567890123456",
            "1234567890123.1",
            "--1",
            "-",
            "@1.5",
            "@",
        ),
        *('%"%ff"', '%"%C3"', "%a", '%"', "é", "a\n", "=a", "()=1"),
    ],
)
def test_one_odd_thing_makes_the_whole_field_none(text: str) -> None:
    assert read_list([f"ok, {text}"]) is None
    assert read_list(["ok", text]) is None


def test_lines_are_joined_and_blanks_around_commas_dropped() -> None:
    found = read_list(["a \t,\t b", "c;d;e=?0"])

    assert found == (Item(Token("a"), {}), Item(Token("b"), {}), Item(Token("c"), {"d": True, "e": False}))
    assert read_list([]) == ()
    assert read_list([""]) == ()


@pytest.mark.parametrize("unit", ["a, ", "a;b", "(", "( ", '"', '\\"', "a;b=1;", " ", "\t", ",", ":", "%", "-1"])
def test_long_text_of_one_kind_is_read_in_one_pass(unit: str) -> None:
    # Quadratic work over so many characters would take many minutes here.
    text = unit * (200_000 // len(unit))
    for tried in (text, f'"{text}', f'%"{text}', f":{text}"):
        found = read_list([tried])
        assert found is None or isinstance(found, tuple)


def test_a_string_is_written_escaped_and_only_if_it_can_be() -> None:
    assert string_text('a "b" \\c') == '"a \\"b\\" \\\\c"'
    assert read_list([string_text('a "b" \\c')]) == (Item('a "b" \\c', {}),)
    for text in ("é", "\n", "\x7f", "a\x00"):
        with pytest.raises(ValueError, match="printable"):
            string_text(text)
