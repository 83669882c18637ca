"""The oz0 façade's fetch with view, budget and query (OZ-41 to OZ-54), over a fake proxy."""

from __future__ import annotations

from typing import Any

import pytest

from oz0_web import grants
from oz0_web.facades.oz0 import ArgumentError, FetchResult, fetch, read_arguments
from oz0_web.facades.oz0_answers import JSON_FORM
from oz0_web.grants import GRANT_PATH
from oz0_web.stops import Code, Stop
from oz0_web.tools import Web
from support.fake_proxy import FakeProxy, redirect, reply
from support.fit_reader import read_answer
from support.web_rig import grant, site, web_for

URL = "https://a.example/"
SENTENCE = "The proxy keeps a list of hosts. Every request is matched against it. "
GUIDE = (
    "<title>Guide</title><h1>Guide</h1><p>What it is. More.</p>"
    + "".join(f"<h2>Part {each}</h2>" + f"<p>{SENTENCE * 4}</p>" * 6 for each in range(12))
    + "<h2>Install</h2><p>Run it. Then wait.</p>"
)
PAGES = {
    "/": reply(GUIDE.encode()),
    "/short": reply(b"<title>S</title><h1>Short</h1><p>page"),
    "/data": reply(("\n".join(f'{{"row": {each}}}' for each in range(2_000))).encode(), kind="application/json"),
    "/moved": redirect("/#install"),
    "/white": reply(b"<pre>" + b" " * 200_000 + b"x</pre>"),
}


@pytest.fixture(name="proxy")
def serve() -> Any:  # noqa: ANN401 - a generator of one proxy
    with FakeProxy({GRANT_PATH: grant("a.example"), "a.example:443": site("a.example", PAGES)}) as proxy:
        yield proxy


async def asked(web: Web, path: str = "/", **given: object) -> FetchResult:
    result = await fetch(web, read_arguments({"url": f"https://a.example{path}", **given}))
    assert isinstance(result, FetchResult), result
    return result


async def whole(web: Web, path: str) -> str:
    return (await asked(web, path, max_chars=10**9)).content


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"budget": 99}, "budget must be at least 100"),
        ({"budget": "500"}, "budget must be a whole number"),
        ({"budget": True}, "budget must be a whole number"),
        ({"view": "page"}, "view must be one of full, section, summary, stub, lines, find"),
        ({"view": ["full"]}, "view must be one of"),
        ({"query": ""}, "query must be"),
        ({"query": 5}, "query must be"),
        ({"view": "section"}, "view section needs query"),
        ({"view": "find"}, "view find needs query"),
        ({"view": "lines", "query": "Install"}, "query must be a range of lines"),
        ({"fresh": "yes"}, "fresh must be true or false"),
        ({"view": "full", "output": "text"}, "view and output text exclude each other"),
        ({"budget": 500, "output": "raw"}, "budget and output raw exclude each other"),
        ({"query": "x", "output": "raw"}, "query and output raw exclude each other"),
    ],
)
@pytest.mark.requirement("OZ-6", "OZ-41")
def test_what_does_not_go_together_is_refused_before_any_request(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        read_arguments({"url": URL, **given})

    assert str(caught.value).startswith(said)


@pytest.mark.requirement("OZ-54")
def test_a_query_and_a_budget_without_a_view_are_valid() -> None:
    arguments = read_arguments({"url": "https://docs.example.com/guide", "budget": 2000, "query": "Install"})

    assert (arguments.budget, arguments.query, arguments.view) == (2_000, "Install", None)


@pytest.mark.trio
@pytest.mark.requirement("OZ-41", "OZ-42", "OZ-10", "OZ-46")
@pytest.mark.parametrize(
    ("path", "given", "view"),
    [
        ("/short", {"budget": 500}, "full"),
        ("/", {"view": "full"}, "full"),
        ("/", {"budget": 2_000, "query": "Install"}, "section"),
        ("/", {"budget": 2_000}, "summary"),
        ("/", {"budget": 260}, "stub"),
        ("/data", {"budget": 2_000}, "lines"),
        ("/", {"view": "find", "query": "wait"}, "find"),
    ],
)
async def test_the_biggest_view_that_fits_comes_with_a_note_that_is_true(
    proxy: FakeProxy, path: str, given: dict[str, object], view: str
) -> None:
    web = web_for(proxy)
    result = await asked(web, path, **given)
    checked = read_answer(JSON_FORM.write(result).encode(), await whole(web, path))

    assert checked.faults == []
    assert checked.fit["view"] == view


@pytest.mark.trio
@pytest.mark.requirement("OZ-43")
async def test_a_section_comes_with_the_headings_below_it_and_nothing_else(proxy: FakeProxy) -> None:
    result = await asked(web_for(proxy), view="section", query="install")

    assert (result.content, result.truncated) == ("## Install\n\nRun it. Then wait.", False)


@pytest.mark.trio
@pytest.mark.requirement("OZ-43")
async def test_a_range_past_the_end_is_an_error_with_the_last_line(proxy: FakeProxy) -> None:
    with pytest.raises(ArgumentError, match=r"query 40-90 begins after the page's end: its last line is 3"):
        await asked(web_for(proxy), "/short", query="40-90")


@pytest.mark.trio
@pytest.mark.requirement("OZ-44")
async def test_a_summary_has_every_heading_with_its_first_sentence(proxy: FakeProxy) -> None:
    content = (await asked(web_for(proxy), view="summary")).content

    assert content.startswith("https://a.example/\nGuide\n\n# Guide\nWhat it is.\n")
    assert content.count("The proxy keeps a list of hosts.\n") == 12
    assert content.endswith("## Install\nRun it.")


@pytest.mark.trio
@pytest.mark.requirement("OZ-45")
async def test_a_stub_has_the_headings_and_says_how_to_ask_for_more(proxy: FakeProxy) -> None:
    result = await asked(web_for(proxy), budget=1_000, view="stub")

    assert result.fit is not None
    assert result.fit.view == "stub"
    assert "- Guide (1-" in result.content
    assert result.fit.as_json()["more"]


@pytest.mark.trio
@pytest.mark.requirement("OZ-48")
async def test_json_is_divided_into_ranges_of_lines(proxy: FakeProxy) -> None:
    web = web_for(proxy)
    first = await asked(web, "/data", budget=1_000)
    assert first.fit is not None
    assert first.fit.more is not None
    second = await asked(web, "/data", budget=1_000, query=first.fit.more["query"])

    lines = (await whole(web, "/data")).split("\n")
    shown = [*first.content.split("\n"), *second.content.split("\n")]
    assert shown == lines[: len(shown)]
    assert len(shown) > 30


@pytest.mark.trio
@pytest.mark.requirement("OZ-49")
async def test_max_chars_chooses_a_smaller_view_and_the_note_is_true_of_it(proxy: FakeProxy) -> None:
    web = web_for(proxy)
    result = await asked(web, budget=8_000, max_chars=500)

    page = await whole(web, "/")
    assert read_answer(JSON_FORM.write(result).encode(), page, max_chars=500).faults == []
    assert (len(result.content) <= 500, result.truncated) == (True, True)


@pytest.mark.trio
@pytest.mark.requirement("OZ-49")
async def test_the_default_of_max_chars_is_no_bound_on_a_view(proxy: FakeProxy) -> None:
    assert len((await asked(web_for(proxy), view="full")).content) > 20_000


@pytest.mark.trio
@pytest.mark.requirement("OZ-50", "OZ-51", "OZ-52")
async def test_a_page_of_white_space_is_past_a_bound(proxy: FakeProxy) -> None:
    result = await asked(web_for(proxy), "/white", budget=1_000)

    assert result.truncated is True
    assert len(JSON_FORM.write(result)) <= 8_000


@pytest.mark.trio
@pytest.mark.requirement("OZ-53")
async def test_without_view_budget_and_query_the_first_characters_come_without_a_note(proxy: FakeProxy) -> None:
    result = await asked(web_for(proxy), fresh=True)

    assert (len(result.content), result.truncated, result.fit) == (20_000, True, None)


@pytest.mark.trio
async def test_the_fragment_of_the_url_or_of_a_redirect_names_the_section(proxy: FakeProxy) -> None:
    web = web_for(proxy)

    assert (await asked(web, "/#install", view="section")).content.startswith("## Install")
    assert (await asked(web, "/moved#x", view="section")).content.startswith("## Install")


@pytest.mark.trio
async def test_a_second_view_of_a_page_is_given_from_the_store_and_says_so(proxy: FakeProxy) -> None:
    web = web_for(proxy)
    await asked(web, budget=2_000)
    asked_once = len(proxy.seen)
    second = await asked(web, "/#install", query="Part 3")
    seen_for_second = [each.target for each in proxy.seen[asked_once:]]
    fresh = await asked(web, budget=2_000, fresh=True)

    assert second.fit is not None
    assert second.fit.as_json()["stored"] == {"age": 0}
    assert [target for target in seen_for_second if target != GRANT_PATH] == []
    assert fresh.fit is not None
    assert fresh.fit.stored is None


@pytest.mark.trio
async def test_another_caller_gets_nothing_from_this_ones_store(proxy: FakeProxy) -> None:
    web = web_for(proxy)
    await fetch(web, read_arguments({"url": URL, "budget": 500}), caller="one")
    other = await fetch(web, read_arguments({"url": URL, "budget": 500}), caller="two")

    assert isinstance(other, FetchResult)
    assert other.fit is not None
    assert other.fit.stored is None


@pytest.mark.trio
async def test_a_stored_page_whose_host_is_no_longer_allowed_is_refused(
    proxy: FakeProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grants, "GRANT_FRESH_SECONDS", 0.0)
    web = web_for(proxy)
    await asked(web, budget=500)
    proxy.routes[GRANT_PATH] = grant("b.example", version=2)
    stop = await fetch(web, read_arguments({"url": URL, "budget": 500}))

    assert isinstance(stop, Stop)
    assert stop.code is Code.NOT_ALLOWED


@pytest.mark.trio
async def test_a_page_that_has_changed_since_is_told(proxy: FakeProxy) -> None:
    web = web_for(proxy)
    await asked(web, "/short", budget=500)
    pages = {**PAGES, "/short": reply(b"<h1>Other</h1>")}
    proxy.routes["a.example:443"] = site("a.example", pages)
    changed = await asked(web, "/short", budget=500, fresh=True)

    assert changed.fit is not None
    assert changed.fit.as_json()["changed"] is True


@pytest.mark.trio
async def test_a_body_longer_than_max_bytes_is_told_as_cut(proxy: FakeProxy) -> None:
    assert (await asked(web_for(proxy), max_bytes=2_000, view="summary")).truncated is True
