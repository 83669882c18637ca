"""The ladder and the promise: which view comes back, within which bounds, and that the note is true of the bytes."""

from __future__ import annotations

import time
from functools import cache

import pytest

from oz0_web.facades.oz0 import _Envelope
from oz0_web.facades.oz0_answers import JSON_FORM, TEXT_FORM, fitted_result
from oz0_web.fit import Stored
from oz0_web.fitting import Draft, Past, Request, TooSmall, choose
from oz0_web.lookup import PastEnd
from oz0_web.page import Page
from oz0_web.tokens import ESTIMATORS, ProfileName
from oz0_web.tools import Reading
from oz0_web.views import Subject, ViewName, read_subject
from support.fit_reader import Checked, estimate, read_answer

URL = "https://docs.example.com/guide"
SENTENCE = "The proxy keeps a list of hosts, and every request is matched against it. "
GUIDE = "Before the first heading.\n\n" + "\n".join(
    f"{'#' * (1 + part % 3)} Part {part}\n\n{SENTENCE * 3}\n\n- item one\n- item two\n\n```sh\nrun --part {part}\n```\n"
    for part in range(60)
)
INSTALL = "# Guide\n\nIntro.\n\n## Install\n\n" + f"{SENTENCE}\n\n" * 40 + "## Use\n\nUse it.\n"
PAGES: dict[str, tuple[str, bool]] = {
    "guide": (GUIDE, True),
    "install": (INSTALL, True),
    "short": ("# Hello\n\nA short page.", True),
    "empty": ("", True),
    "prose without headings": ((SENTENCE * 4 + "\n\n") * 200, True),
    "plain text": ("# not a heading\n" + "\n".join(f"{each} {SENTENCE}" for each in range(800)), False),
    "one long line": ('{"a":[' + "1234567," * 5_000 + "0]}", False),
    "white space": ("\n" + " " * 200_000 + "\n" + "\n" * 30_000, True),
    "only headings": ("# Heading\n" * 1_000, True),
    "deep headings": ("".join(f"{'#' * (1 + each % 6)} H{each}\n\nword\n\n" for each in range(2_000)), True),
    "japanese": ("# 見出し\n\n" + "これは日本語の文章です。とても長い。\n\n" * 500, True),
    "one code block": ("# Code\n\n```\n" + "x = call(1, 2)\n" * 1_500 + "```\n", True),
    "quotes and controls": ('# "Q"\n\n' + '"\\\x01\x02"\n\n' * 3_000, True),
    "emoji": ("# 👍\n\n" + "👍👍 🎉 ok\n\n" * 800, True),
}
BUDGETS = (100, 150, 250, 500, 1_000, 2_000, 8_000, 60_000)


@cache
def subject(name: str, profile: ProfileName, url: str) -> Subject:
    text, is_markdown = PAGES[name]
    return read_subject(text, url=url, title="Guide", is_markdown=is_markdown, estimator=ESTIMATORS[profile])


def chosen(
    name: str, request: Request, *, profile: ProfileName = "generic", url: str = URL, past: Past | None = None
) -> tuple[Draft | PastEnd | TooSmall, Reading]:
    estimator = ESTIMATORS[profile]
    reading = Reading(url, 200, Page("text/html", "Guide", PAGES[name][0]), is_cut=False, chain=())
    draft = choose(subject(name, profile, url), request, _Envelope(reading, JSON_FORM), estimator, past or Past())
    return draft, reading


def answered(name: str, request: Request, *, profile: ProfileName = "generic") -> Checked:
    draft, reading = chosen(name, request, profile=profile)
    assert isinstance(draft, Draft), draft
    sent = JSON_FORM.write(fitted_result(reading, draft)).encode()
    checked = read_answer(sent, PAGES[name][0], profile=profile, max_chars=request.max_chars)
    assert checked.faults == []
    return checked


@pytest.mark.requirement("OZ-41", "OZ-46", "OZ-50", "OZ-51", "OZ-52", "P7")
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", sorted(PAGES))
def test_every_note_is_true_of_the_bytes_sent(name: str, budget: int) -> None:
    for query in ("", "Part 7", "install", "40-90", "matched against it"):
        draft, reading = chosen(name, Request(budget=budget, query=query))
        if isinstance(draft, PastEnd):
            continue
        assert isinstance(draft, Draft), (query, draft)
        sent = JSON_FORM.write(fitted_result(reading, draft)).encode()
        assert read_answer(sent, PAGES[name][0]).faults == [], query


@pytest.mark.parametrize("view", ["full", "section", "summary", "stub", "lines", "find"])
@pytest.mark.parametrize("profile", ["generic", "claude"])
@pytest.mark.parametrize("name", ["guide", "one long line", "plain text"])
def test_so_are_those_of_views_asked_for_and_of_both_profiles(
    name: str, profile: ProfileName, view: ViewName | None
) -> None:
    query = {"section": "Part 7", "find": "part"}.get(view or "", "")

    assert answered(name, Request(view=view, budget=2_000, query=query), profile=profile).fit["requested_view"] == view


@pytest.mark.requirement("OZ-41", "OZ-42")
def test_a_page_that_fits_comes_whole() -> None:
    answer = answered("short", Request(budget=2_000))

    assert (answer.fit["view"], answer.answer["truncated"], answer.fit["omitted"]) == ("full", False, [])


@pytest.mark.requirement("OZ-41", "OZ-44")
def test_a_page_that_does_not_fit_comes_as_a_filled_summary() -> None:
    answer = answered("guide", Request(budget=4_000))

    assert (answer.fit["view"], answer.fit["filled"], answer.answer["truncated"]) == ("summary", True, True)
    assert all(f"Part {part}\n" in answer.answer["content"] for part in range(60))


@pytest.mark.requirement("OZ-44")
def test_a_summary_asked_for_is_not_filled() -> None:
    answer = answered("guide", Request(view="summary", budget=8_000))

    assert (answer.fit["view"], "filled" in answer.fit, answer.answer["truncated"]) == ("summary", False, False)


@pytest.mark.requirement("OZ-45")
def test_where_not_even_the_summary_fits_a_stub_comes_with_a_call_for_more() -> None:
    answer = answered("guide", Request(budget=800))

    assert (answer.fit["view"], answer.answer["truncated"]) == ("stub", True)
    assert answer.fit["more"]["query"]
    assert URL in answer.answer["content"]


@pytest.mark.requirement("OZ-43", "OZ-54")
def test_a_query_and_a_budget_give_the_section() -> None:
    answer = answered("guide", Request(budget=2_000, query="Part 10"))

    assert answer.fit["view"] == "section"
    assert answer.answer["content"].startswith("## Part 10\n")
    assert answer.answer["truncated"] is False


@pytest.mark.requirement("OZ-43")
def test_a_section_that_is_too_big_is_cut_after_a_block_with_the_next_range_named() -> None:
    answer = answered("install", Request(budget=600, query="Install"))

    assert (answer.fit["view"], answer.answer["truncated"]) == ("section", True)
    assert answer.answer["content"].endswith(SENTENCE.strip()) or answer.answer["content"].endswith(SENTENCE)
    first = int(answer.fit["more"]["query"].partition("-")[0])
    assert PAGES["install"][0].split("\n")[first - 1] == SENTENCE


@pytest.mark.requirement("OZ-43")
def test_the_calls_for_more_lead_through_the_whole_section() -> None:
    text = PAGES["install"][0]
    seen = ""
    query = "Install"
    for _ in range(40):
        answer = answered("install", Request(budget=900, query=query))
        seen += answer.answer["content"] + "\n\n"
        if answer.fit["more"] is None:
            break
        query = answer.fit["more"]["query"]

    assert seen.split() == text[text.index("## Install") : text.index("## Use")].split()


@pytest.mark.requirement("OZ-43", "OZ-46")
@pytest.mark.parametrize("view", [None, "section", "lines"])
def test_a_range_gives_these_lines(view: ViewName | None) -> None:
    answer = answered("guide", Request(view=view, query="40-44"))

    assert answer.answer["content"] == "\n".join(GUIDE.split("\n")[39:44]).strip("\n")
    assert answer.fit["view"] == (view or "section")
    assert answer.fit["omitted"] == ["1-39", f"45-{GUIDE.count(chr(10))}"]


def test_a_range_past_the_end_is_told_with_the_last_line() -> None:
    assert chosen("short", Request(query="40-90"))[0] == PastEnd("40-90", "3")


@pytest.mark.requirement("OZ-48")
@pytest.mark.parametrize("name", ["plain text", "prose without headings", "one long line"])
def test_without_headings_lines_come_and_the_next_range_is_named(name: str) -> None:
    answer = answered(name, Request(budget=2_000))

    assert answer.fit["view"] == "lines"
    assert answer.fit["more"]["query"]
    assert answer.fit["answer_tokens"] > 1_700


@pytest.mark.requirement("OZ-49")
@pytest.mark.parametrize("most", [1, 30, 300, 3_000])
def test_max_chars_bounds_the_view(most: int) -> None:
    answer = answered("guide", Request(budget=8_000, max_chars=most))

    assert answer.answer["truncated"] is True
    assert answer.fit["view"] in {"stub", "summary"}


@pytest.mark.requirement("OZ-50", "OZ-52")
def test_no_budget_is_bigger_than_50_000_tokens_and_200_000_characters() -> None:
    answer = answered("prose without headings", Request(budget=10**9))
    spaces = answered("white space", Request(view="full"))

    assert answer.fit["view"] == "full"
    assert (spaces.fit["view"], spaces.answer["truncated"]) != ("full", False)


@pytest.mark.requirement("OZ-51", "OZ-52")
def test_a_page_of_white_space_does_not_pass_as_short() -> None:
    answer = answered("white space", Request(budget=1_000))

    assert answer.answer["truncated"] is True
    assert len(answer.answer["content"]) < 8_000


def test_a_query_that_no_heading_matches_gives_the_best_match_of_the_text_and_says_so() -> None:
    answer = answered("guide", Request(budget=1_500, query="run --part 31"))

    assert answer.fit["view"] == "section"
    assert "no heading matches" in answer.fit["note"]
    assert "run --part 31" in answer.answer["content"]


def test_a_query_that_nothing_matches_is_told() -> None:
    assert "nothing matches 'zebra'" in answered("guide", Request(budget=4_000, query="zebra")).fit["note"]
    stub = answered("guide", Request(view="section", budget=4_000, query="zebra"))
    assert (stub.fit["view"], stub.answer["truncated"]) == ("stub", True)


def test_a_fragment_gives_its_section_where_the_page_does_not_fit() -> None:
    assert answered("install", Request(budget=800, fragment="use")).answer["content"] == "## Use\n\nUse it."
    assert answered("short", Request(budget=800, fragment="hello")).fit["view"] == "full"


def test_repeated_headings_are_listed_with_their_lines() -> None:
    answer = answered("only headings", Request(budget=2_000, query="heading"))

    assert answer.fit["matches"][0] == "Heading (2)"
    assert len(answer.fit["matches"]) == 8


def test_the_note_tells_of_the_store() -> None:
    draft, _ = chosen("short", Request(budget=500), past=Past(stored=Stored(7), has_changed=True))

    assert isinstance(draft, Draft)
    assert draft.fit.as_json()["stored"] == {"age": 7}
    assert draft.fit.as_json()["changed"] is True


def test_a_url_too_long_for_the_budget_is_shortened() -> None:
    draft, reading = chosen("guide", Request(budget=150), url=URL + "?" + "x=1&" * 1_000)

    assert isinstance(draft, Draft)
    assert len(fitted_result(reading, draft).url) == 40


def test_a_budget_that_the_heaviest_profile_has_no_room_in_is_told_with_one_that_has() -> None:
    draft, _ = chosen("guide", Request(budget=100), profile="claude")
    assert isinstance(draft, TooSmall)

    assert isinstance(chosen("guide", Request(budget=draft.needed), profile="claude")[0], Draft)


def test_the_text_form_keeps_its_budget_too() -> None:
    text, _ = PAGES["guide"]
    estimator = ESTIMATORS["generic"]
    page = read_subject(text, url=URL, title="Guide", is_markdown=True, estimator=estimator)
    reading = Reading(
        URL, 200, Page("text/html", "Guide", text, ("1 hidden element",)), is_cut=False, chain=(URL + "/",)
    )
    draft = choose(page, Request(budget=1_500), _Envelope(reading, TEXT_FORM), estimator)

    assert isinstance(draft, Draft)
    sent = TEXT_FORM.write(fitted_result(reading, draft))
    assert estimate(sent, "generic") == draft.fit.answer_tokens <= 1_500
    assert "1 hidden element" in sent


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["# H\n\nWords here. More.\n\n", "x = 1\n", "- item\n"])
def test_choosing_takes_time_in_proportion_to_the_page(unit: str) -> None:
    def seconds(count: int) -> float:
        began = time.process_time()
        page = read_subject(unit * count, url=URL, title="", is_markdown=True, estimator=ESTIMATORS["generic"])
        reading = Reading(URL, 200, Page("text/html", "", unit * count), is_cut=False, chain=())
        choose(page, Request(budget=2_000), _Envelope(reading, JSON_FORM), ESTIMATORS["generic"])
        return time.process_time() - began

    small = max(min(seconds(2_000) for _ in range(3)), 0.002)

    assert min(seconds(20_000) for _ in range(2)) < 30 * small
