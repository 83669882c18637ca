"""A reason is complete: status, error, details, advice, a sentence for people, a row in the documentation."""

from __future__ import annotations

import re

import pytest

from egress_policy.reasons import (
    ADVICE,
    DETAILS,
    ERROR,
    ERRORS,
    STATUS,
    End,
    ErrorType,
    Reason,
    Refusal,
    Stage,
    sentence,
)
from egress_policy.targets import Target, parse_authority
from egress_policy.wire import read_proxy_status, write_proxy_status
from support.project import ROOT

DOCUMENT = (ROOT / "docs" / "reasons.md").read_text(encoding="utf-8")
ROWS = {
    cells[0]: cells
    for line in DOCUMENT.splitlines()
    if line.startswith("| ") and len(cells := [cell.strip() for cell in line.strip("|").split("|")]) == 5
}
ENDS = set(re.findall(r"^\| ([a-z-]+) \| [^|]*\|$", DOCUMENT, re.MULTILINE)) - {"end", "---"}
TARGET = parse_authority(b"api.example.com:443")


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_has_its_status_error_details_and_advice(reason: Reason) -> None:
    assert 400 <= STATUS[reason] <= 599
    assert ERROR[reason] in ERRORS[reason]
    assert DETAILS[reason].strip()
    assert reason in ADVICE


@pytest.mark.parametrize("reason", Reason)
def test_details_are_fixed_text_that_a_quoted_string_can_hold(reason: Reason) -> None:
    assert re.fullmatch(r"[ !#-\[\]-~]+", DETAILS[reason])


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_has_a_sentence_for_people(reason: Reason) -> None:
    assert isinstance(TARGET, Target)
    refusal = Refusal(reason, Stage.ALLOW, TARGET)

    text = sentence(refusal, tenant="default", command_template="egressctl tenant {tenant} allow {host}")

    assert text.strip()
    assert "None" not in text
    assert "Reason." not in text


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_survives_the_header(reason: Reason) -> None:
    received = read_proxy_status([write_proxy_status(Refusal(reason, Stage.ALLOW))])

    assert received is not None
    assert received.reason is reason


def test_every_table_is_about_these_reasons_and_no_others() -> None:
    for table in (STATUS, ERROR, ERRORS, DETAILS, ADVICE):
        assert set(table) == set(Reason)


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_has_a_row_in_the_documentation(reason: Reason) -> None:
    _, status, errors, when, helps = ROWS[reason.value]

    assert int(status) == STATUS[reason]
    assert all(any(re.fullmatch(glob(each), kind) for each in errors.split(", ")) for kind in ERRORS[reason])
    assert when
    assert helps


def glob(text: str) -> str:
    """A documented error type, where `*` ends a family, as an expression."""
    return re.escape(text).replace(r"\*", "[a-z_]+")


def test_the_documentation_has_no_row_that_the_code_has_not() -> None:
    assert set(ROWS) - {"reason", "---"} == {reason.value for reason in Reason}
    assert {end.value for end in End} == ENDS


def test_every_documented_error_is_one_of_the_registry() -> None:
    known = {kind.value for kind in ErrorType}
    named = {each for cells in ROWS.values() for each in cells[2].split(", ")} - {"error", "---"}

    assert [each for each in named if not any(re.fullmatch(glob(each), kind) for kind in known)] == []


def test_words_are_hyphenated_tokens() -> None:
    assert [each.value for each in (*Reason, *End) if not re.fullmatch(r"[a-z]+(-[a-z]+)*", each.value)] == []
