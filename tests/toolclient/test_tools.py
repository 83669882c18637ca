"""The engine's public functions, over a fake proxy."""

from __future__ import annotations

import time

import pytest
import trio

from oz0_web import tools as module
from oz0_web.config import ConfigError
from oz0_web.grants import GRANT_PATH, Grant, Unreadable
from oz0_web.page import Page
from oz0_web.stops import Code, Stop
from oz0_web.tools import Reading, Web, web_from_environment
from support.fake_proxy import FakeProxy, redirect, reply
from support.web_rig import grant, site, web_for


def proxy_with(page: bytes) -> FakeProxy:
    return FakeProxy(
        {GRANT_PATH: grant("a.example"), "a.example:443": site("a.example", {"/": redirect("/page"), "/page": page})}
    )


async def read(web: Web, url: str = "https://a.example/") -> Reading | Stop:
    return await web.read(url, output="markdown", max_bytes=1_000)


@pytest.mark.trio
async def test_a_page_is_read_with_its_url_status_and_chain() -> None:
    with proxy_with(reply(b"<h1>Gone</h1>", status="410 Gone")) as proxy:
        reading = await read(web_for(proxy))

    assert reading == Reading(
        "https://a.example/page", 410, Page("text/html", "Gone", "# Gone"), is_cut=False, chain=("https://a.example/",)
    )


@pytest.mark.trio
async def test_a_url_that_is_none_stops_before_any_connection() -> None:
    with FakeProxy() as proxy:
        stop = await read(web_for(proxy), "nonsense")

    assert isinstance(stop, Stop)
    assert (stop.code, proxy.connections) == (Code.BAD_URL, 0)


@pytest.mark.trio
@pytest.mark.requirement("OZ-35")
@pytest.mark.parametrize(
    ("page", "found"),
    [
        (reply(b"x", kind="application/pdf"), "application/pdf"),
        (reply(b"%PDF-1.7", kind="text/plain"), "application/pdf (labelled text/plain)"),
    ],
)
async def test_a_type_that_is_not_read_stops_with_its_name_and_the_chain(page: bytes, found: str) -> None:
    with proxy_with(page) as proxy:
        stop = await read(web_for(proxy))

    assert isinstance(stop, Stop)
    assert (stop.code, stop.detail, stop.chain) == (Code.TYPE_REFUSED, found, ("https://a.example/",))


@pytest.mark.trio
async def test_a_stop_is_told_with_the_command_of_the_grant_that_was_read() -> None:
    with proxy_with(b"") as proxy:
        web = web_for(proxy)
        stop = await read(web, "https://b.example/")
        assert isinstance(stop, Stop)

    assert "egressctl tenant acme allow b.example" in web.tell(stop).text


@pytest.mark.trio
async def test_the_grant_is_read_anew_each_time() -> None:
    with FakeProxy({GRANT_PATH: grant("a.example")}) as proxy:
        web = web_for(proxy)
        first = await web.grant()
        proxy.routes[GRANT_PATH] = reply(b"no", status="404 Not Found")
        second = await web.grant()

    assert isinstance(first, Grant)
    assert isinstance(second, Unreadable)


@pytest.mark.trio
async def test_a_conversion_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[bool] = []

    def slow(*arguments: object) -> None:
        while not done:
            time.sleep(0.01)

    monkeypatch.setattr(module, "make_page", slow)
    monkeypatch.setattr(module, "CONVERT_SECONDS", 0.1)
    with proxy_with(reply(b"x")) as proxy:
        stop = await read(web_for(proxy))
    done.append(True)
    await trio.lowlevel.checkpoint()

    assert isinstance(stop, Stop)
    assert (stop.code, stop.chain) == (Code.TIMED_OUT, ("https://a.example/",))


def test_without_a_proxy_there_is_no_way_out() -> None:
    with pytest.raises(ConfigError):
        web_from_environment({}, listed_literals=True)
