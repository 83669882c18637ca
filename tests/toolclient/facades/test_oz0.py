"""The oz0 façade's fetch: arguments, defaults, limits and result, exactly (OZ-6 to OZ-10)."""

from __future__ import annotations

from typing import Any

import pytest

from oz0_web.facades.oz0 import DEFAULT_MAX_CHARS, ArgumentError, FetchArguments, FetchResult, fetch, read_arguments
from oz0_web.grants import GRANT_PATH
from oz0_web.stops import Code, Stop
from support.fake_proxy import FakeProxy, redirect, reply
from support.web_rig import grant, site, web_for

URL = "https://a.example/"


@pytest.mark.requirement("OZ-6", "OZ-7", "OZ-8", "OZ-9")
def test_the_defaults_are_markdown_20_000_characters_and_2_mb() -> None:
    arguments = read_arguments({"url": URL})

    assert arguments == FetchArguments(url=URL, output="markdown", max_chars=None, max_bytes=2_000_000)
    assert DEFAULT_MAX_CHARS == 20_000


@pytest.mark.requirement("OZ-7", "OZ-8", "OZ-9", "X3")
@pytest.mark.parametrize(
    "given",
    [
        {"output": "text"},
        {"output": "raw"},
        {"max_chars": 1},
        {"max_chars": 10**9},
        {"max_bytes": 1},
        {"max_bytes": 10_000_000},
    ],
)
def test_values_at_the_limits_are_taken(given: dict[str, Any]) -> None:
    arguments = read_arguments({"url": URL, **given})

    assert {name: getattr(arguments, name) for name in given} == given


@pytest.mark.requirement("OZ-7", "OZ-8", "OZ-9", "X2", "X3")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_bytes": 10_000_001}, "max_bytes must be at most 10000000"),
        ({"max_bytes": 0}, "max_bytes must be at least 1"),
        ({"max_bytes": -1}, "max_bytes must be at least 1"),
        ({"max_bytes": 2.5}, "max_bytes must be a whole number"),
        ({"max_bytes": "2000"}, "max_bytes must be a whole number"),
        ({"max_bytes": True}, "max_bytes must be a whole number"),
        ({"max_bytes": None}, "max_bytes must be a whole number"),
        ({"max_bytes": 10**5000}, "max_bytes must be at most 10000000"),
        ({"max_chars": 0}, "max_chars must be at least 1"),
        ({"max_chars": float("nan")}, "max_chars must be a whole number"),
        ({"output": "html"}, "output must be one of markdown, text, raw"),
        ({"output": None}, "output must be one of"),
        ({"output": ["raw"]}, "output must be one of"),
        ({"outptu": "raw"}, "unknown argument 'outptu'"),
        ({"proxy": "http://evil.example"}, "unknown argument 'proxy'"),
        ({"url": ""}, "url must be"),
        ({"url": 5}, "url must be"),
    ],
)
@pytest.mark.case("P5")
def test_anything_else_is_refused_with_the_field_and_the_limit(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        read_arguments({"url": URL, **given})

    assert str(caught.value).startswith(said)
    assert len(str(caught.value)) < 200


def test_the_url_is_required() -> None:
    with pytest.raises(ArgumentError, match="url is missing"):
        read_arguments({"max_chars": 5})


def proxy_with(page: bytes) -> FakeProxy:
    return FakeProxy({GRANT_PATH: grant("a.example", "10.0.0.7:8080"), "a.example:443": site("a.example", {"/": page})})


async def fetched(proxy: FakeProxy, **given: object) -> FetchResult:
    result = await fetch(web_for(proxy), read_arguments({"url": URL, **given}))
    assert isinstance(result, FetchResult), result
    return result


@pytest.mark.trio
@pytest.mark.requirement("OZ-10")
async def test_the_result_has_url_status_type_title_content_and_whether_it_was_cut() -> None:
    with proxy_with(reply(b"<title>T</title><p>page", status="404 Not Found")) as proxy:
        result = await fetched(proxy)

    assert result.as_json() == {
        "url": URL,
        "status": 404,
        "type": "text/html",
        "title": "T",
        "content": "page",
        "truncated": False,
    }


@pytest.mark.trio
@pytest.mark.requirement("OZ-8", "OZ-10", "OZ-53", "X10")
@pytest.mark.parametrize(
    ("most", "content", "cut"), [(1, "é", True), (2, "é👍", True), (3, "é👍x", False), (4, "é👍x", False)]
)
async def test_max_chars_cuts_code_points_and_says_so(most: int, content: str, *, cut: bool) -> None:
    with proxy_with(reply("é👍x".encode(), kind="text/plain")) as proxy:
        result = await fetched(proxy, max_chars=most)

    assert (result.content, result.truncated) == (content, cut)


@pytest.mark.trio
@pytest.mark.requirement("OZ-9", "OZ-10", "X11", "X13")
@pytest.mark.parametrize(("most", "content", "cut"), [(4, "0123", True), (10, "0123456789", False)])
async def test_max_bytes_cuts_the_body_and_says_so(most: int, content: str, *, cut: bool) -> None:
    with proxy_with(reply(b"0123456789", kind="text/plain")) as proxy:
        result = await fetched(proxy, max_bytes=most)

    assert (result.content, result.truncated) == (content, cut)


@pytest.mark.trio
@pytest.mark.requirement("OZ-7")
@pytest.mark.parametrize(("output", "content"), [("markdown", "a **b**"), ("text", "a b"), ("raw", "<p>a <b>b</b>")])
async def test_output_chooses_the_form(output: str, content: str) -> None:
    with proxy_with(reply(b"<p>a <b>b</b>")) as proxy:
        assert (await fetched(proxy, output=output)).content == content


@pytest.mark.trio
async def test_redirects_are_told_only_where_there_were_some() -> None:
    pages = {"/": redirect("/b"), "/b": reply(b"x")}
    with FakeProxy({GRANT_PATH: grant("a.example"), "a.example:443": site("a.example", pages)}) as proxy:
        result = await fetched(proxy)

    assert (result.url, result.as_json()["redirects"]) == ("https://a.example/b", [URL])


@pytest.mark.trio
@pytest.mark.requirement("OZ-27", "OZ-29", "OZ-39")
async def test_an_address_that_the_tenants_list_names_is_asked_of_the_proxy_with_the_header() -> None:
    with proxy_with(b"") as proxy:
        proxy.routes["http://10.0.0.7:8080/"] = reply(b"intranet", kind="text/plain")
        listed = await fetched(proxy, url="http://10.0.0.7:8080/")
        other = await fetch(web_for(proxy), read_arguments({"url": "http://10.0.0.8:8080/"}))

    assert listed.content == "intranet"
    assert isinstance(other, Stop)
    assert other.code is Code.NOT_PUBLIC
    assert all(each.all("oz0-egress-public-only") == ["1"] for each in proxy.seen if each.target != GRANT_PATH)
