"""How results are written: JSON, text, and with less and less room."""

from __future__ import annotations

import json

import pytest

from oz0_web.facades.oz0_answers import JSON_FORM, TEXT_FORM, FetchResult, fitted_result, head_lines, tail_lines
from oz0_web.fit import Fit
from oz0_web.fitting import Draft
from oz0_web.page import Page
from oz0_web.tools import Reading

URL = "https://a.example/"
RESULT = FetchResult(url=URL, status=200, type="text/html", title="T", content='a "b"\n', truncated=False)
FIT = Fit("full", None, 500, 3, 60)


def test_json_is_one_line_with_characters_as_they_are() -> None:
    sent = JSON_FORM.write(FetchResult(url=URL, status=200, type="t", title="é", content="漢\n", truncated=True))

    assert sent == '{"url":"https://a.example/","status":200,"type":"t","title":"é","content":"漢\\n","truncated":true}'


@pytest.mark.parametrize("form", [JSON_FORM, TEXT_FORM])
def test_content_stands_in_the_answer_as_the_form_escapes_it(form: object) -> None:
    for each in (JSON_FORM, TEXT_FORM):
        assert each.escape(RESULT.content) in each.write(RESULT)


@pytest.mark.requirement("OZ-46")
def test_the_note_is_in_the_result_and_a_second_time_in_its_meta() -> None:
    result = FetchResult(url=URL, status=200, type="t", title="", content="", truncated=False, fit=FIT)

    assert result.as_json()["fit"] == result.meta()["oz0/fit"] == FIT.as_json()
    assert RESULT.meta() == {}
    assert "fit" not in RESULT.as_json()


def test_text_says_what_is_known_of_the_page_before_it_and_of_the_answer_after_it() -> None:
    result = FetchResult(
        url=URL,
        status=200,
        type="text/html",
        title="T",
        content="page",
        truncated=False,
        redirects=("https://b.example/",),
        notes=("2 hidden elements were left out",),
        fit=FIT,
    )

    assert head_lines(result) == ["redirected from https://b.example/", f"{URL} · 200 · text/html · T"]
    assert tail_lines(result)[0] == "2 hidden elements were left out"
    assert json.loads(tail_lines(result)[1].removeprefix("fit: ")) == FIT.as_json()
    assert tail_lines(FetchResult(url=URL, status=200, type="t", title="", content="", truncated=True)) == [
        "cut short: ask for more with --max-chars or --max-bytes"
    ]


@pytest.mark.parametrize(
    ("thrift", "url", "title", "redirects", "names"),
    [
        (0, 2_000, 400, 1, 8),
        (1, 2_000, 120, 1, 8),
        (2, 1_000, 60, 0, 7),
        (3, 200, 20, 0, 7),
        (4, 60, 0, 0, 7),
        (5, 40, 0, 0, 5),
    ],
)
def test_with_less_room_the_head_says_less(thrift: int, url: int, title: int, redirects: int, names: int) -> None:
    page = Page("text/html", "t" * 500, "x", ("note",))
    reading = Reading("u" * 2_000, 200, page, is_cut=True, chain=("https://b.example/",))
    fit = Fit("stub", None, 100, 5, 90, thrift=thrift)
    result = fitted_result(reading, Draft("x", False, fit, thrift))

    assert (len(result.url), len(result.title), len(result.redirects)) == (url, title, redirects)
    assert result.truncated is True
    assert len(result.as_json()) == names
