"""From a URL to the end of its redirects: every hop checked, the proxy believed where it may be, faults told."""

from __future__ import annotations

import gzip
import ssl

import pytest
import trio

from egress_policy.targets import Url, parse_url
from oz0_web import visit as module
from oz0_web.exchange import Way
from oz0_web.faults import Fault, PeerBroke, PeerCut, ProxyBroke, ProxyUnreachable, TimedOut, TlsFault, TrustFault
from oz0_web.grants import GRANT_PATH, Grants
from oz0_web.link import Link
from oz0_web.replies import ReplyHead
from oz0_web.settings import read_config
from oz0_web.stops import By, Code, Stop
from oz0_web.visit import Hop, HopCheck, Visited, Visitor, fault_stop
from support.fake_proxy import FakeProxy, Peer, Script, Site, redirect, refusal, reply
from support.web_rig import grant, site, trusting

A = "https://a.example/"


def url_of(text: str) -> Url:
    url = parse_url(text)
    assert isinstance(url, Url)
    return url


def accept(head: ReplyHead, url: Url) -> None:
    return None


def visitor_for(
    proxy: FakeProxy, *, trusted: ssl.SSLContext | None = None, more_checks: tuple[HopCheck, ...] = ()
) -> Visitor:
    config = read_config({"OZ0_WEB_PROXY": proxy.url})
    link = Link(config.proxy)
    way = Way(link, config, lambda: trusted or trusting())
    return Visitor(way, Grants(link, config), listed_literals=True, more_checks=more_checks)


async def visit(
    proxy: FakeProxy, text: str = A, *, max_bytes: int = 100_000, more_checks: tuple[HopCheck, ...] = ()
) -> Visited | Stop:
    return await visitor_for(proxy, more_checks=more_checks).visit(url_of(text), max_bytes=max_bytes, check_head=accept)


async def stop_of(proxy: FakeProxy, text: str = A) -> Stop:
    stop = await visit(proxy, text)
    assert isinstance(stop, Stop), stop
    return stop


def routes(**pages: Script | Site) -> dict[str, Script | Site]:
    """Routes by the first label of `NAME.example`, all of it allowed by the grant."""
    found: dict[str, Script | Site] = {GRANT_PATH: grant("*.example", "a.example")}
    for name, page in pages.items():
        host = f"{name}.example"
        found[f"{host}:443"] = page if isinstance(page, Site) else site(host, {"/": page})
    return found


@pytest.mark.trio
async def test_a_page_is_visited_after_one_look_at_the_grant() -> None:
    with FakeProxy(routes(a=reply(b"page"))) as proxy:
        visited = await visit(proxy)

    assert visited == Visited(url_of(A), 200, "text/html; charset=utf-8", b"page", is_cut=False, chain=())
    assert proxy.targets() == [f"GET {GRANT_PATH}", "CONNECT a.example:443", "GET /"]


@pytest.mark.trio
@pytest.mark.requirement("OZ-31")
async def test_redirects_are_followed_over_hosts_and_told() -> None:
    with FakeProxy(
        routes(a=redirect("https://b.example/"), b=redirect("https://c.example/#end"), c=reply(b"page"))
    ) as proxy:
        visited = await visit(proxy)

    assert isinstance(visited, Visited)
    assert (visited.url.text, visited.chain) == ("https://c.example/#end", (A, "https://b.example/"))


def refreshing(url: str, status: str = "200 OK") -> bytes:
    return reply(f"<meta http-equiv=refresh content='0;url={url}'>Redirecting".encode(), status=status)


@pytest.mark.trio
@pytest.mark.requirement("OZ-31")
@pytest.mark.case("H17")
async def test_a_meta_refresh_is_followed_like_a_redirect_and_told() -> None:
    with FakeProxy(routes(a=refreshing("https://b.example/"), b=reply(b"page"))) as proxy:
        visited = await visit(proxy)

    assert isinstance(visited, Visited)
    assert (visited.url.text, visited.data, visited.chain) == ("https://b.example/", b"page", (A,))


@pytest.mark.trio
@pytest.mark.case("H17", "H29")
@pytest.mark.parametrize(
    ("location", "code"),
    [
        ("http://a.example/", Code.DOWNGRADE_REFUSED),
        ("https://169.254.169.254/", Code.NOT_PUBLIC),
        ("https://elsewhere.test/", Code.NOT_ALLOWED),
    ],
)
async def test_a_meta_refresh_is_checked_like_a_redirect(location: str, code: Code) -> None:
    with FakeProxy(routes(a=refreshing(location))) as proxy:
        stop = await stop_of(proxy)

    assert (stop.code, stop.chain) == (code, (A,))


@pytest.mark.trio
@pytest.mark.requirement("OZ-31")
@pytest.mark.case("H17")
async def test_meta_refreshes_and_redirects_are_counted_together() -> None:
    steps = {f"/{number}": (refreshing if number % 2 else redirect)(f"/{number + 1}") for number in range(1, 9)}
    with FakeProxy(routes(a=site("a.example", {"/": redirect("/1"), **steps}))) as proxy:
        stop = await stop_of(proxy)

    assert (stop.code, len(stop.chain)) == (Code.REDIRECT_LIMIT, 6)
    assert len([each for each in proxy.seen if each.inside]) == 6


@pytest.mark.trio
async def test_a_meta_refresh_of_an_error_page_or_of_a_visitor_that_follows_none_is_not_followed() -> None:
    with FakeProxy(routes(a=refreshing("https://b.example/", "404 Not Found"), c=refreshing(A))) as proxy:
        error = await visit(proxy)
        config = read_config({"OZ0_WEB_PROXY": proxy.url})
        link = Link(config.proxy)
        plain = Visitor(Way(link, config, trusting), Grants(link, config), follows_refresh=False)
        page = await plain.visit(url_of("https://c.example/"), max_bytes=1_000, check_head=accept)

    assert isinstance(error, Visited)
    assert isinstance(page, Visited)
    assert (error.status, page.status) == (404, 200)


@pytest.mark.trio
async def test_nothing_is_carried_from_one_hop_to_the_next() -> None:
    first = redirect("https://b.example/").replace(b"\r\n", b"\r\nSet-Cookie: a=b; Domain=example\r\n", 1)
    with FakeProxy(routes(a=first, b=reply(b"page"))) as proxy:
        await visit(proxy)

    inside = [each for each in proxy.seen if each.inside]
    assert [each.all("cookie") + each.all("referer") + each.all("authorization") for each in inside] == [[], []]


@pytest.mark.trio
@pytest.mark.requirement("OZ-31")
@pytest.mark.case("P6", "H29")
@pytest.mark.parametrize(
    ("location", "code", "by"),
    [
        ("http://a.example/", Code.DOWNGRADE_REFUSED, By.CLIENT),
        ("https://169.254.169.254/latest/meta-data/", Code.NOT_PUBLIC, By.CLIENT),
        ("https://[::ffff:a9fe:a9fe]/", Code.NOT_PUBLIC, By.CLIENT),
        ("https://127.0.0.1/", Code.NOT_PUBLIC, By.CLIENT),
        ("https://localhost/", Code.NOT_PUBLIC, By.CLIENT),
        ("https://10.0.0.7/", Code.NOT_PUBLIC, By.CLIENT),
        ("https://metadata.google.internal/", Code.NOT_PUBLIC, By.CLIENT),
        ("https://user:pw@b.example/", Code.BAD_URL, By.CLIENT),
        ("https://2130706433/", Code.BAD_URL, By.CLIENT),
        ("file:///etc/passwd", Code.SCHEME_REFUSED, By.CLIENT),
        ("https://elsewhere.test/", Code.NOT_ALLOWED, By.LIST),
        ("https://b.example:8443/", Code.NOT_ALLOWED, By.LIST),
    ],
)
async def test_a_redirect_to_what_may_not_be_fetched_is_refused_and_never_asked_for(
    location: str, code: Code, by: By
) -> None:
    with FakeProxy(routes(a=redirect(location))) as proxy:
        stop = await stop_of(proxy)

    assert (stop.code, stop.by, stop.chain) == (code, by, (A,))
    assert "pw" not in stop.url
    assert [target for target in proxy.targets() if target.startswith("CONNECT")] == ["CONNECT a.example:443"]


@pytest.mark.trio
@pytest.mark.case("H16")
async def test_a_redirect_loop_ends_with_its_chain() -> None:
    with FakeProxy(routes(a=redirect("https://b.example/"), b=redirect(A))) as proxy:
        stop = await stop_of(proxy)

    assert (stop.code, stop.chain) == (Code.REDIRECT_LOOP, (A, "https://b.example/"))


@pytest.mark.trio
@pytest.mark.requirement("OZ-31")
async def test_the_sixth_redirect_is_not_followed() -> None:
    steps = {f"/{number}": redirect(f"/{number + 1}") for number in range(1, 9)}
    with FakeProxy(routes(a=site("a.example", {"/": redirect("/1"), **steps}))) as proxy:
        stop = await stop_of(proxy)

    assert (stop.code, len(stop.chain)) == (Code.REDIRECT_LIMIT, 6)
    assert len([each for each in proxy.seen if each.inside]) == 6


@pytest.mark.trio
@pytest.mark.requirement("OZ-37")
async def test_a_host_that_the_list_does_not_allow_is_refused_without_asking_the_proxy_for_it() -> None:
    with FakeProxy(routes()) as proxy:
        stop = await stop_of(proxy, "https://other.test/")

    assert (stop.code, stop.by, stop.reason) == (Code.NOT_ALLOWED, By.LIST, "not-on-allowlist")
    assert proxy.targets() == [f"GET {GRANT_PATH}"]


@pytest.mark.trio
async def test_metadata_is_refused_before_anything_is_sent_at_all() -> None:
    with FakeProxy(routes()) as proxy:
        stop = await stop_of(proxy, "http://169.254.169.254/")

    assert (stop.code, proxy.connections) == (Code.NOT_PUBLIC, 0)


@pytest.mark.trio
async def test_the_grant_is_read_anew_before_a_refusal_rests_on_an_older_one() -> None:
    with FakeProxy({**routes(a=reply(b"page"), new=reply(b"new page")), GRANT_PATH: grant("a.example")}) as proxy:
        visitor = visitor_for(proxy)
        first = await visitor.visit(url_of(A), max_bytes=100, check_head=accept)
        proxy.routes[GRANT_PATH] = grant("a.example", "new.example", version=2)
        second = await visitor.visit(url_of("https://new.example/"), max_bytes=100, check_head=accept)
        third = await visitor.visit(url_of("https://none.example/"), max_bytes=100, check_head=accept)

    assert isinstance(first, Visited)
    assert isinstance(second, Visited)
    assert isinstance(third, Stop)
    # One for the first visit, one anew for each of the others.
    assert proxy.targets().count(f"GET {GRANT_PATH}") == 3


@pytest.mark.trio
@pytest.mark.parametrize("answer", [reply(b"no", status="404 Not Found"), refusal("identity-unknown"), b"nonsense"])
async def test_where_the_grant_cannot_be_read_the_proxy_decides(answer: bytes) -> None:
    with FakeProxy({**routes(a=reply(b"page")), GRANT_PATH: answer}) as proxy:
        allowed = await visit(proxy)
        refused = await stop_of(proxy, "https://other.test/")

    assert isinstance(allowed, Visited)
    assert (refused.code, refused.by, refused.reason) == (Code.NOT_ALLOWED, By.PROXY, "not-on-allowlist")


@pytest.mark.trio
@pytest.mark.requirement("OZ-40")
@pytest.mark.case("H23")
@pytest.mark.parametrize(
    ("reason", "error", "code"),
    [
        ("not-on-allowlist", "http_request_denied", Code.NOT_ALLOWED),
        ("resolved-address-denied", "destination_ip_prohibited", Code.NOT_PUBLIC),
        ("resolve-failed", "dns_error", Code.RESOLVE_FAILED),
        ("dial-failed", "connection_refused", Code.CONNECTION_FAILED),
        ("busy", "connection_limit_reached", Code.PROXY_REFUSED),
        ("reason-of-tomorrow", "http_request_denied", Code.PROXY_REFUSED),
    ],
)
async def test_a_refusal_of_the_proxy_is_told_as_that_with_its_reason(reason: str, error: str, code: Code) -> None:
    with FakeProxy(
        {**routes(), "a.example:443": refusal(reason, error=error), "http://a.example/": refusal(reason, error=error)}
    ) as proxy:
        for text in (A, "http://a.example/"):
            stop = await stop_of(proxy, text)
            assert (stop.code, stop.by, stop.reason) == (code, By.PROXY, reason)


@pytest.mark.trio
async def test_a_407_is_the_proxys_on_both_paths() -> None:
    answer = b"HTTP/1.1 407 Log in\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n"
    with FakeProxy({**routes(), "a.example:443": answer, "http://a.example/": answer}) as proxy:
        stops = [await stop_of(proxy, A), await stop_of(proxy, "http://a.example/")]

    assert [(stop.code, stop.reason) for stop in stops] == [(Code.PROXY_REFUSED, "credentials-required")] * 2


@pytest.mark.trio
async def test_a_server_that_is_no_proxy_is_told_as_that() -> None:
    with FakeProxy(
        {**routes(), "a.example:443": reply(b"<h1>It works</h1>", status="405 Method Not Allowed")}
    ) as proxy:
        stop = await stop_of(proxy)

    assert (stop.code, stop.by) == (Code.PROXY_FAILED, By.PROXY)
    assert "405" in stop.detail


@pytest.mark.trio
@pytest.mark.requirement("OZ-40")
async def test_a_refusal_forged_inside_a_tunnel_is_the_sites_own_page() -> None:
    forged = refusal("not-on-allowlist").replace(b"Content-Length: 0\r\n", b"Content-Length: 4\r\n") + b"fake"
    with FakeProxy(routes(a=forged)) as proxy:
        visited = await visit(proxy)

    assert isinstance(visited, Visited)
    assert (visited.status, visited.data) == (403, b"fake")


@pytest.mark.trio
async def test_a_407_inside_a_tunnel_is_the_sites_own_page() -> None:
    with FakeProxy(routes(a=reply(b"x", status="407 Log in", extra="Proxy-Authenticate: Basic\r\n"))) as proxy:
        visited = await visit(proxy)

    assert isinstance(visited, Visited)
    assert visited.status == 407
    assert all(not each.all("proxy-authorization") for each in proxy.seen)


@pytest.mark.trio
@pytest.mark.requirement("X8")
@pytest.mark.parametrize("status", ["404 Not Found", "500 Oops", "304 Not Modified", "300 Choices"])
async def test_errors_of_the_site_are_pages(status: str) -> None:
    with FakeProxy(routes(a=reply(b"", status=status))) as proxy:
        visited = await visit(proxy)

    assert isinstance(visited, Visited)
    assert visited.status == int(status[:3])


@pytest.mark.trio
async def test_plain_http_is_visited_and_may_lead_to_https() -> None:
    with FakeProxy({**routes(a=reply(b"page")), "http://a.example/": redirect(A)}) as proxy:
        visited = await visit(proxy, "http://a.example/")

    assert isinstance(visited, Visited)
    assert (visited.url.text, visited.chain) == (A, ("http://a.example/",))


@pytest.mark.trio
async def test_a_refused_type_is_refused_before_its_body_is_read() -> None:
    def endless(peer: Peer) -> None:
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\n\r\n")
        peer.hold()

    def refuse(head: ReplyHead, url: Url) -> Stop:
        return Stop(code=Code.TYPE_REFUSED, by=By.CLIENT, url=url.text, detail=str(head.last(b"content-type")))

    with FakeProxy(routes(a=endless)) as proxy:
        stop = await visitor_for(proxy).visit(url_of(A), max_bytes=100, check_head=refuse)

    assert isinstance(stop, Stop)
    assert (stop.code, stop.detail) == (Code.TYPE_REFUSED, "application/pdf")


@pytest.mark.trio
async def test_further_checks_see_every_hop_with_where_it_came_from() -> None:
    seen = []

    async def check(hop: Hop) -> Stop | None:
        seen.append((hop.url.text, hop.previous.text if hop.previous else None))
        return Stop(code=Code.NOT_ALLOWED, by=By.CLIENT, url=hop.url.text) if hop.previous else None

    with FakeProxy(routes(a=redirect("https://b.example/"), b=reply(b"page"))) as proxy:
        stop = await visit(proxy, more_checks=(check,))

    assert isinstance(stop, Stop)
    assert seen == [(A, None), ("https://b.example/", A)]
    assert "CONNECT b.example:443" not in proxy.targets()


@pytest.mark.trio
@pytest.mark.requirement("X12")
async def test_slow_bytes_end_with_the_visits_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "VISIT_SECONDS", 0.5)

    def slow(peer: Peer) -> None:
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        peer.drip(b"x", 0.02)

    with FakeProxy(routes(a=redirect("https://b.example/"), b=slow)) as proxy:
        stop = await stop_of(proxy)

    assert (stop.code, stop.url, stop.chain) == (Code.TIMED_OUT, "https://b.example/", (A,))
    assert "0.5 s" in stop.detail


@pytest.mark.trio
async def test_a_bomb_is_cut_at_the_limit() -> None:
    bomb = reply(gzip.compress(bytes(30_000_000), 9), extra="Content-Encoding: gzip\r\n")
    with FakeProxy(routes(a=bomb)) as proxy:
        visited = await visit(proxy, max_bytes=5_000)

    assert isinstance(visited, Visited)
    assert (len(visited.data), visited.is_cut) == (5_000, True)


@pytest.mark.trio
async def test_a_wrong_certificate_ends_the_visit() -> None:
    with FakeProxy({**routes(), "a.example:443": site("b.example", {})}) as proxy:
        stop = await stop_of(proxy)

    assert (stop.code, stop.by) == (Code.TLS_FAILED, By.SITE)


@pytest.mark.trio
@pytest.mark.case("H22")
async def test_a_proxy_that_is_gone_ends_the_visit() -> None:
    with FakeProxy() as proxy:
        visitor = visitor_for(proxy)
    stop = await visitor.visit(url_of(A), max_bytes=1, check_head=accept)

    assert isinstance(stop, Stop)
    assert (stop.code, stop.by) == (Code.PROXY_FAILED, By.PROXY)


@pytest.mark.trio
async def test_a_cancelled_visit_closes_what_it_opened() -> None:
    with FakeProxy(routes(a=lambda peer: peer.hold())) as proxy:
        with trio.move_on_after(0.3) as scope:
            await visit(proxy)

    assert scope.cancelled_caught


@pytest.mark.parametrize(
    ("fault", "code", "by"),
    [
        (ProxyUnreachable("127.0.0.1:1", "connection refused"), Code.PROXY_FAILED, By.PROXY),
        (ProxyBroke("why"), Code.PROXY_FAILED, By.PROXY),
        (TlsFault("a.example", "why", is_certificate=True), Code.TLS_FAILED, By.SITE),
        (TrustFault("/x.pem", "why"), Code.TRUST_STORE, By.CLIENT),
        (PeerBroke("why"), Code.SITE_BROKE_HTTP, By.SITE),
        (PeerCut("why"), Code.CONNECTION_FAILED, By.SITE),
        (TimedOut("reply", 3), Code.TIMED_OUT, By.SITE),
    ],
)
def test_every_fault_has_a_meaning(fault: Fault, code: Code, by: By) -> None:
    stop = fault_stop(fault, url_of(A))

    assert (stop.code, stop.by, stop.url) == (code, by, A)
    assert stop.detail


def test_every_fault_there_is_has_a_meaning() -> None:
    covered = {ProxyUnreachable, ProxyBroke, TlsFault, TrustFault, PeerBroke, PeerCut, TimedOut}

    assert set(Fault.__subclasses__()) == covered
