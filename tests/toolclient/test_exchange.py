"""One GET through the proxy: its form, its fields, its budgets of time and bytes."""

from __future__ import annotations

import gzip
import ssl

import pytest
import trio

from egress_policy.targets import Url, parse_url
from oz0_web import exchange as module
from oz0_web.config import Config
from oz0_web.exchange import Body, Exchange, Way, open_exchange, within
from oz0_web.faults import PeerBroke, PeerCut, ProxyBroke, TimedOut, TlsFault, TrustFault
from oz0_web.identity import USER_AGENT
from oz0_web.link import Link
from oz0_web.settings import read_config
from oz0_web.tunnel import ProxyAnswer
from support.fake_proxy import FakeProxy, Peer, Script, refusal, reply
from support.web_rig import site, trusting

HTTPS = "https://site.example/a/b?q=1#part"
HTTP = "http://site.example/a/b?q=1#part"


def url_of(text: str) -> Url:
    url = parse_url(text)
    assert isinstance(url, Url)
    return url


def way_for(proxy: FakeProxy, *, user_info: str = "") -> Way:
    config: Config = read_config({"OZ0_WEB_PROXY": proxy.url.replace("http://", f"http://{user_info}")})
    return Way(Link(config.proxy), config, trusting)


async def get(proxy: FakeProxy, text: str, *, max_bytes: int = 1_000_000, user_info: str = "") -> tuple[int, Body]:
    async with open_exchange(way_for(proxy, user_info=user_info), url_of(text)) as exchange:
        assert isinstance(exchange, Exchange)
        return exchange.head.status, await exchange.read(max_bytes)


def https_proxy(page: Script) -> FakeProxy:
    return FakeProxy({"site.example:443": site("site.example", {"/a/b?q=1": page})})


def http_proxy(page: Script) -> FakeProxy:
    return FakeProxy({"http://site.example/a/b?q=1": page})


@pytest.mark.trio
@pytest.mark.requirement("OZ-39")
async def test_https_goes_through_a_tunnel_and_nothing_for_the_proxy_goes_inside() -> None:
    with https_proxy(reply(b"page")) as proxy:
        assert await get(proxy, HTTPS, user_info="job:token@") == (200, Body(b"page", is_cut=False))

    outside, inside = proxy.seen
    assert (outside.method, outside.target, outside.inside) == ("CONNECT", "site.example:443", False)
    assert outside.all("oz0-egress-public-only") == ["1"]
    assert (inside.method, inside.target, inside.inside) == ("GET", "/a/b?q=1", True)
    assert [name.lower() for name, _ in inside.fields] == [
        "host",
        "user-agent",
        "accept",
        "accept-encoding",
        "connection",
    ]
    assert (inside.all("host"), inside.all("user-agent")) == (["site.example"], [USER_AGENT])


@pytest.mark.trio
@pytest.mark.requirement("OZ-39")
async def test_http_goes_in_absolute_form_with_the_proxys_fields() -> None:
    with http_proxy(reply(b"page")) as proxy:
        assert await get(proxy, HTTP, user_info="job:token@") == (200, Body(b"page", is_cut=False))

    (seen,) = proxy.seen
    assert (seen.method, seen.target) == ("GET", "http://site.example/a/b?q=1")
    assert (seen.all("host"), seen.all("oz0-egress-public-only")) == (["site.example"], ["1"])
    assert seen.all("proxy-authorization") == ["Basic am9iOnRva2Vu"]
    assert seen.all("accept-encoding") == ["gzip, deflate, br, zstd"]


@pytest.mark.trio
async def test_a_port_of_its_own_stands_in_host_and_target() -> None:
    with FakeProxy({"http://site.example:8080/": reply(b"page")}) as proxy:
        await get(proxy, "http://site.example:8080/")

    assert proxy.seen[0].all("host") == ["site.example:8080"]


@pytest.mark.trio
async def test_a_refused_tunnel_is_given_as_the_proxys_answer() -> None:
    with FakeProxy({"site.example:443": refusal("not-on-allowlist")}) as proxy:
        async with open_exchange(way_for(proxy), url_of(HTTPS)) as answer:
            assert isinstance(answer, ProxyAnswer)


@pytest.mark.trio
@pytest.mark.requirement("OZ-9")
@pytest.mark.parametrize(
    ("body", "limit", "expected"),
    [
        (b"0123456789", 10, Body(b"0123456789", is_cut=False)),
        (b"0123456789", 9, Body(b"012345678", is_cut=True)),
        (b"", 1, Body(b"", is_cut=False)),
    ],
)
async def test_reading_stops_at_the_limit_and_says_so(body: bytes, limit: int, expected: Body) -> None:
    with https_proxy(reply(body)) as proxy:
        assert (await get(proxy, HTTPS, max_bytes=limit))[1] == expected


@pytest.mark.trio
@pytest.mark.requirement("OZ-9")
async def test_the_limit_counts_decoded_bytes() -> None:
    packed = gzip.compress(bytes(50_000_000), 9)
    with https_proxy(reply(packed, extra="Content-Encoding: gzip\r\n")) as proxy:
        assert (await get(proxy, HTTPS, max_bytes=1_000))[1] == Body(bytes(1_000), is_cut=True)


@pytest.mark.trio
@pytest.mark.case("H8")
async def test_a_body_without_end_ends_at_the_limit() -> None:
    def endless(peer: Peer) -> None:
        peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            peer.send(bytes(65_536))

    with https_proxy(endless) as proxy:
        assert (await get(proxy, HTTPS, max_bytes=300_000))[1] == Body(bytes(300_000), is_cut=True)


@pytest.mark.trio
async def test_a_compressed_body_that_never_gives_a_byte_ends_by_its_bytes_on_the_wire(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "WIRE_SLACK_BYTES", 1_000)

    def empty_blocks(peer: Peer) -> None:
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\x08\0\0\0\0\0\0\xff")
        while True:
            peer.send(b"\x00\x00\x00\xff\xff" * 1_000)

    with https_proxy(empty_blocks) as proxy:
        assert (await get(proxy, HTTPS, max_bytes=10_000))[1] == Body(b"", is_cut=True)


@pytest.mark.trio
async def test_a_reply_that_does_not_come_ends_by_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_BYTE_SECONDS", 0.1)
    with https_proxy(lambda peer: peer.hold()) as proxy, pytest.raises(TimedOut) as caught:
        await get(proxy, HTTPS)

    assert (caught.value.waited_for, caught.value.seconds) == ("reply", 0.1)


@pytest.mark.trio
async def test_a_head_that_drips_ends_by_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_BYTE_SECONDS", 0.2)

    def drip(peer: Peer) -> None:
        peer.send(b"HTTP/1.1 200 OK\r\nX: ")
        peer.drip(b"y", 0.02)

    with https_proxy(drip) as proxy, pytest.raises(TimedOut):
        await get(proxy, HTTPS)


@pytest.mark.trio
@pytest.mark.parametrize("text", [HTTPS, HTTP])
async def test_a_proxy_that_never_answers_ends_by_the_budget(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECT_SECONDS", 0.1)
    monkeypatch.setattr(module, "FIRST_BYTE_SECONDS", 0.1)
    hold: Script = lambda peer: peer.hold()  # noqa: E731 - a script of one line
    routes = {"site.example:443": hold, "http://site.example/a/b?q=1": hold}
    with FakeProxy(routes) as proxy, pytest.raises(TimedOut):
        await get(proxy, text)


@pytest.mark.trio
@pytest.mark.parametrize(
    ("page", "fault"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", PeerCut),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", PeerBroke),
        (reply(b"not gzip", extra="Content-Encoding: gzip\r\n"), PeerBroke),
        (reply(b"x", extra="Content-Encoding: br\r\n"), PeerBroke),
        (reply(b"x", extra="Content-Encoding: compress\r\n"), PeerBroke),
        (reply(gzip.compress(b"page" * 100)[:-10], extra="Content-Encoding: gzip\r\n"), PeerBroke),
        (b"", PeerCut),
    ],
)
async def test_a_broken_reply_of_the_site_is_the_sites_fault(page: bytes, fault: type[Exception]) -> None:
    with https_proxy(page) as proxy, pytest.raises(fault):
        await get(proxy, HTTPS)


@pytest.mark.trio
async def test_a_page_without_a_length_that_is_cut_inside_tls_is_not_taken_for_whole() -> None:
    def cut(peer: Peer) -> None:
        peer.send(b"HTTP/1.1 200 OK\r\n\r\nhalf a page")
        assert isinstance(peer.connection, ssl.SSLSocket)
        peer.connection.shutdown(1)

    with https_proxy(cut) as proxy, pytest.raises(PeerCut):
        await get(proxy, HTTPS)


@pytest.mark.trio
async def test_a_plain_reply_that_is_no_http_is_the_proxys_fault() -> None:
    with http_proxy(b"220 ftp ready\r\n\r\n") as proxy, pytest.raises(ProxyBroke):
        await get(proxy, HTTP)


@pytest.mark.trio
async def test_a_trust_store_that_cannot_be_used_ends_the_exchange_before_the_handshake() -> None:
    def broken() -> ssl.SSLContext:
        raise TrustFault("/none.pem", "no such file")

    with https_proxy(reply(b"page")) as proxy:
        way = way_for(proxy)
        with pytest.raises(TrustFault):
            async with open_exchange(Way(way.link, way.config, broken), url_of(HTTPS)):
                pass

    assert proxy.targets() == ["CONNECT site.example:443"]


@pytest.mark.trio
async def test_a_wrong_certificate_ends_the_exchange_and_no_request_is_sent() -> None:
    with FakeProxy({"site.example:443": site("other.example", {})}) as proxy, pytest.raises(TlsFault):
        await get(proxy, HTTPS)

    assert proxy.targets() == ["CONNECT site.example:443"]


@pytest.mark.trio
async def test_within_says_what_was_waited_for(autojump_clock: trio.testing.MockClock) -> None:
    with pytest.raises(TimedOut) as caught, within(5, "reply"):
        await trio.sleep_forever()

    assert (caught.value.waited_for, caught.value.seconds) == ("reply", 5)
    with within(5, "reply"):
        await trio.sleep(4)
