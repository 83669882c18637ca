"""The fit note as it is serialised, with less and less room."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oz0_web.fit import Fit, Stored, tell_omitted
from oz0_web.outline import span

FIT = Fit(
    view="section",
    requested_view=None,
    budget=2_000,
    page_tokens=9_000,
    answer_tokens=1_900,
    omitted=("1-9",),
    more={"url": "https://a.example/", "query": "10-20", "budget": 2_000},
    estimator="generic-1: good",
    is_filled=True,
    note="said",
    matches=("Linux (40-50)",),
    stored=Stored(12),
    has_changed=True,
)


@pytest.mark.requirement("OZ-46")
def test_the_note_has_everything() -> None:
    assert FIT.as_json() == {
        "view": "section",
        "requested_view": None,
        "budget": 2_000,
        "page_tokens": 9_000,
        "answer_tokens": 1_900,
        "omitted": ["1-9"],
        "more": {"url": "https://a.example/", "query": "10-20", "budget": 2_000},
        "estimator": "generic-1: good",
        "filled": True,
        "note": "said",
        "matches": ["Linux (40-50)"],
        "stored": {"age": 12},
        "changed": True,
    }


@pytest.mark.parametrize(
    ("thrift", "gone", "changed"),
    [
        (1, set(), {"estimator": "generic-1"}),
        (2, {"requested_view", "omitted", "estimator", "filled", "matches"}, {"more": {"query": "10-20"}}),
        (3, {"requested_view", "omitted", "estimator", "filled", "matches", "more", "note"}, {}),
    ],
)
def test_with_less_room_it_says_less_and_nothing_else(thrift: int, gone: set[str], changed: dict[str, object]) -> None:
    full = FIT.as_json()
    found = replace(FIT, thrift=thrift).as_json()

    assert set(full) - set(found) == gone
    assert {name: value for name, value in found.items() if full[name] != value} == changed


def test_what_is_absent_is_not_written_but_for_the_fields_that_always_are() -> None:
    assert Fit("full", "full", None, 5, 60).as_json() == {
        "view": "full",
        "requested_view": "full",
        "budget": None,
        "page_tokens": 5,
        "answer_tokens": 60,
        "omitted": [],
        "more": None,
    }


def test_many_omitted_ranges_are_counted() -> None:
    spans = [span(each, each) for each in range(1, 10)]

    assert tell_omitted(spans, thrift=0) == ("1", "2", "3", "4", "5", "6", "and 3 more ranges")
    assert tell_omitted(spans, thrift=1) == ("1", "2", "and 7 more ranges")
    assert tell_omitted(spans[:2], thrift=1) == ("1", "2")
