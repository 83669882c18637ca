"""robots.txt before each hop: once a site, ten minutes, every failure with its meaning, every refusal as itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import trio

from egress_policy.targets import Url, parse_url
from oz0_web import robots_gate as module
from oz0_web.exchange import Way
from oz0_web.grants import GRANT_PATH, Grants
from oz0_web.limits import ROBOTS_FRESH_SECONDS
from oz0_web.link import Link
from oz0_web.replies import ReplyHead
from oz0_web.report import tell
from oz0_web.robots_gate import RobotsGate
from oz0_web.settings import read_config
from oz0_web.stops import By, Code, Stop
from oz0_web.visit import Visited, Visitor
from support.fake_proxy import FakeProxy, Peer, Script, Site, redirect, refusal, reply
from support.web_rig import grant, site, trusting

A = "https://a.example/"
RULES = b"User-agent: *\nAllow: /public\n\nUser-agent: oz0-web\nDisallow: /private/\n"


@dataclass
class Clock:
    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


def url_of(text: str) -> Url:
    url = parse_url(text)
    assert isinstance(url, Url)
    return url


def accept(head: ReplyHead, url: Url) -> None:
    return None


def obeying(proxy: FakeProxy, clock: Clock | None = None) -> Visitor:
    config = read_config({"OZ0_WEB_PROXY": proxy.url})
    link = Link(config.proxy)
    way, grants = Way(link, config, trusting), Grants(link, config)
    plain = Visitor(way, grants, listed_literals=True, follows_refresh=False)
    gate = RobotsGate(plain, "oz0-web", clock=clock or Clock())
    return Visitor(way, grants, listed_literals=True, more_checks=(gate.check,))


async def visit(visitor: Visitor, text: str = A) -> Visited | Stop:
    return await visitor.visit(url_of(text), max_bytes=100_000, check_head=accept)


async def visit_once(proxy: FakeProxy, text: str = A) -> Visited | Stop:
    return await visit(obeying(proxy), text)


def routes(robots: Script, **more: Script | Site) -> dict[str, Script | Site]:
    """A site `a.example` with this robots.txt, further ones by their first label; the grant allows `*.example`."""
    pages: dict[str, Script] = {"/robots.txt": robots, "/": reply(b"page"), "/private/a": reply(b"secret")}
    found: dict[str, Script | Site] = {
        GRANT_PATH: grant("*.example", "a.example"),
        "a.example:443": site("a.example", pages),
    }
    for name, page in more.items():
        host = f"{name}.example"
        found[f"{host}:443"] = page if isinstance(page, Site) else site(host, {"/": page})
    return found


def text_file(body: bytes, status: str = "200 OK") -> bytes:
    return reply(body, status=status, kind="text/plain")


def asked_inside(proxy: FakeProxy) -> list[str]:
    return [each.target for each in proxy.seen if each.inside]


@pytest.mark.trio
@pytest.mark.requirement("OZ-33")
@pytest.mark.case("R26")
async def test_a_path_disallowed_for_oz0_web_is_not_fetched_and_told_with_its_rule() -> None:
    with FakeProxy(routes(text_file(RULES))) as proxy:
        stop = await visit_once(proxy, f"{A}private/a")

    assert isinstance(stop, Stop)
    assert (stop.code, stop.by, stop.rule) == (Code.ROBOTS_REFUSED, By.SITE, "Disallow: /private/")
    assert asked_inside(proxy) == ["/robots.txt"]
    told = tell(stop, None)
    assert (told.is_policy, told.is_retryable) == (True, False)
    for part in ("oz0-web", "/private/a", "Disallow: /private/", "line 5 of https://a.example/robots.txt"):
        assert part in told.text


@pytest.mark.trio
@pytest.mark.requirement("OZ-33")
async def test_a_path_that_is_not_disallowed_is_fetched_after_robots_txt() -> None:
    with FakeProxy(routes(text_file(RULES))) as proxy:
        visited = await visit_once(proxy)

    assert isinstance(visited, Visited)
    assert asked_inside(proxy) == ["/robots.txt", "/"]


@pytest.mark.trio
@pytest.mark.case("R6")
async def test_robots_txt_is_asked_for_under_the_same_name_as_the_page() -> None:
    with FakeProxy(routes(text_file(RULES))) as proxy:
        await visit_once(proxy)

    first, second = (each for each in proxy.seen if each.inside)
    assert first.all("user-agent") == second.all("user-agent")


@pytest.mark.trio
async def test_robots_txt_itself_may_always_be_read() -> None:
    with FakeProxy(routes(text_file(b"User-agent: *\nDisallow: /"))) as proxy:
        visited = await visit_once(proxy, f"{A}robots.txt")

    assert isinstance(visited, Visited)
    assert asked_inside(proxy) == ["/robots.txt"]


@pytest.mark.trio
@pytest.mark.requirement("OZ-32")
async def test_robots_txt_is_fetched_once_a_site_and_reused_for_ten_minutes() -> None:
    clock = Clock()
    with FakeProxy(routes(text_file(RULES))) as proxy:
        visitor = obeying(proxy, clock)
        await visit(visitor)
        clock.now += ROBOTS_FRESH_SECONDS - 0.1
        await visit(visitor, f"{A}other")
        await visit(visitor, f"{A}private/b")
        assert asked_inside(proxy).count("/robots.txt") == 1
        clock.now += 0.1
        await visit(visitor)

    assert ROBOTS_FRESH_SECONDS == 600
    assert asked_inside(proxy).count("/robots.txt") == 2


@pytest.mark.trio
@pytest.mark.requirement("OZ-32")
@pytest.mark.parametrize("answer", [text_file(b"", "404 No"), text_file(b"", "503 Later"), b"nonsense\r\n\r\n"])
async def test_an_answer_without_rules_is_kept_as_long(answer: bytes) -> None:
    clock = Clock()
    with FakeProxy(routes(answer)) as proxy:
        visitor = obeying(proxy, clock)
        for _ in range(3):
            await visit(visitor)
            clock.now += ROBOTS_FRESH_SECONDS / 3 - 1
        assert asked_inside(proxy).count("/robots.txt") == 1
        clock.now += 3
        await visit(visitor)

    assert asked_inside(proxy).count("/robots.txt") == 2


@pytest.mark.trio
@pytest.mark.requirement("OZ-32")
async def test_a_site_is_scheme_host_and_port() -> None:
    pages = {
        "http://a.example/robots.txt": text_file(b""),
        "http://a.example/": reply(b"plain"),
        "http://a.example:8080/robots.txt": text_file(b"User-agent: *\nDisallow: /"),
    }
    with FakeProxy({**routes(text_file(b"")), **pages, GRANT_PATH: grant("a.example:*")}) as proxy:
        visitor = obeying(proxy)
        outcomes = [await visit(visitor, text) for text in (A, "http://a.example/", "http://a.example:8080/")]

    assert [isinstance(each, Visited) for each in outcomes] == [True, True, False]
    assert len([each for each in proxy.seen if each.target.endswith("/robots.txt")]) == 3


@pytest.mark.trio
@pytest.mark.requirement("OZ-32")
async def test_visits_at_the_same_time_share_one_request() -> None:
    with FakeProxy(routes(text_file(RULES))) as proxy:
        visitor = obeying(proxy)
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(visit, visitor)

    assert asked_inside(proxy).count("/robots.txt") == 1
    assert asked_inside(proxy).count("/") == 4


@pytest.mark.trio
async def test_only_so_many_sites_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROBOTS_MAX_SITES", 2)
    others = {name: site(f"{name}.example", {"/": reply(b"page")}) for name in ("b", "c")}
    with FakeProxy(routes(text_file(b""), **others)) as proxy:
        visitor = obeying(proxy)
        for text in (A, "https://b.example/", A, "https://c.example/", A, "https://b.example/"):
            await visit(visitor, text)

    asked = [each.all("host")[0] for each in proxy.seen if each.inside and each.target == "/robots.txt"]
    assert asked == ["a.example", "b.example", "c.example", "b.example"]


@pytest.mark.trio
@pytest.mark.requirement("OZ-34")
@pytest.mark.case("R3", "H25")
@pytest.mark.parametrize(
    "answer",
    [
        *(text_file(RULES + b"Disallow: /", f"{status} No") for status in (400, 401, 403, 404, 410, 429, 451)),
        text_file(RULES + b"Disallow: /", "304 Not Modified"),
        text_file(RULES + b"Disallow: /", "302 Found"),
        text_file(b""),
        reply(b"<!doctype html><title>Home</title><p>Welcome: to all"),
        redirect("/robots.txt"),
        redirect("//["),
    ],
)
async def test_4xx_and_files_without_rules_allow_everything(answer: bytes) -> None:
    with FakeProxy(routes(answer)) as proxy:
        assert isinstance(await visit_once(proxy, f"{A}private/a"), Visited)


def hang(peer: Peer) -> None:
    peer.hold()


def drip(peer: Peer) -> None:
    peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100000\r\n\r\n")
    peer.drip(b"#", 0.02)


@pytest.mark.trio
@pytest.mark.requirement("OZ-34")
@pytest.mark.case("R1", "R2", "R5")
@pytest.mark.parametrize(
    "answer",
    [
        text_file(b"", "500 Oops"),
        text_file(b"User-agent: *\nAllow: /", "503 Later"),
        text_file(b"", "599 What"),
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nUser-agent: *",
        reply(b"not gzip", extra="Content-Encoding: gzip\r\n"),
        hang,
        drip,
        lambda peer: peer.reset(),
    ],
)
async def test_5xx_or_no_answer_disallow_everything(answer: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROBOTS_SECONDS", 0.5)
    with FakeProxy(routes(answer)) as proxy:
        stop = await visit_once(proxy)

    assert isinstance(stop, Stop)
    assert (stop.code, stop.by, stop.url) == (Code.ROBOTS_UNREACHABLE, By.SITE, A)
    assert asked_inside(proxy) == ["/robots.txt"]
    told = tell(stop, None)
    assert (told.is_policy, told.is_retryable) == (False, True)
    assert "https://a.example/robots.txt" in told.text


@pytest.mark.trio
@pytest.mark.requirement("OZ-31")
@pytest.mark.case("R17")
async def test_robots_txt_is_followed_over_five_redirects_and_its_rules_hold_for_the_first_site() -> None:
    steps = {f"/{number}": redirect(f"/{number + 1}") for number in range(1, 4)}
    b = site("b.example", {**steps, "/4": text_file(b"User-agent: *\nDisallow: /private"), "/": reply(b"b")})
    with FakeProxy(routes(redirect("https://b.example/1"), b=b)) as proxy:
        stop = await visit_once(proxy, f"{A}private/a")

    assert isinstance(stop, Stop)
    assert (stop.code, stop.rule) == (Code.ROBOTS_REFUSED, "Disallow: /private")
    assert asked_inside(proxy) == ["/robots.txt", "/1", "/2", "/3", "/4"]


@pytest.mark.trio
@pytest.mark.case("R17", "R18")
async def test_a_sixth_redirect_and_a_loop_leave_no_rules() -> None:
    steps = {f"/{number}": redirect(f"/{number + 1}") for number in range(1, 9)}
    b = site("b.example", {**steps, "/": reply(b"b")})
    for location in ("https://b.example/1", "https://a.example/robots.txt#again"):
        with FakeProxy(routes(redirect(location), b=b)) as proxy:
            assert isinstance(await visit_once(proxy), Visited)


@pytest.mark.trio
@pytest.mark.requirement("OZ-31", "OZ-37")
@pytest.mark.parametrize(
    ("location", "code", "host"),
    [
        ("https://elsewhere.test/robots.txt", Code.NOT_ALLOWED, "elsewhere.test"),
        ("https://169.254.169.254/robots.txt", Code.NOT_PUBLIC, "169.254.169.254"),
        ("https://10.0.0.7/", Code.NOT_PUBLIC, "10.0.0.7"),
        ("http://a.example/robots.txt", Code.DOWNGRADE_REFUSED, "http://a.example/robots.txt"),
        ("file:///etc/passwd", Code.SCHEME_REFUSED, "file:///etc/passwd"),
    ],
)
async def test_a_refusal_on_the_way_to_robots_txt_is_told_as_that_refusal_and_not_kept(
    location: str, code: Code, host: str
) -> None:
    with FakeProxy(routes(redirect(location))) as proxy:
        visitor = obeying(proxy)
        stop = await visit(visitor)
        again = await visit(visitor)

    assert isinstance(stop, Stop)
    assert (stop.code, stop.robots_of, stop.chain) == (code, A, (f"{A}robots.txt",))
    told = tell(stop, None)
    assert told.is_policy
    assert host in told.text
    assert f"robots.txt, which is read before {A}" in told.text
    assert isinstance(again, Stop)
    assert asked_inside(proxy) == ["/robots.txt", "/robots.txt"]


@pytest.mark.trio
@pytest.mark.requirement("OZ-40")
@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("not-on-allowlist", Code.NOT_ALLOWED),
        ("resolved-address-denied", Code.NOT_PUBLIC),
        ("busy", Code.PROXY_REFUSED),
        ("resolve-failed", Code.RESOLVE_FAILED),
        ("dial-failed", Code.CONNECTION_FAILED),
    ],
)
async def test_what_the_proxy_says_of_the_site_is_told_as_that(reason: str, code: Code) -> None:
    with FakeProxy({**routes(b""), "a.example:443": refusal(reason)}) as proxy:
        stop = await visit_once(proxy)

    assert isinstance(stop, Stop)
    assert (stop.code, stop.by, stop.reason, stop.robots_of) == (code, By.PROXY, reason, A)


@pytest.mark.trio
async def test_a_certificate_that_is_wrong_is_told_as_that() -> None:
    with FakeProxy({**routes(b""), "a.example:443": site("b.example", {})}) as proxy:
        stop = await visit_once(proxy)

    assert isinstance(stop, Stop)
    assert stop.code is Code.TLS_FAILED


@pytest.mark.trio
@pytest.mark.requirement("OZ-31", "OZ-33")
@pytest.mark.case("R26")
async def test_every_redirect_of_a_page_is_asked_of_its_own_site_before_it_is_followed() -> None:
    b = site("b.example", {"/robots.txt": text_file(b"User-agent: oz0-web\nDisallow: /x"), "/x": reply(b"x")})
    start = site("s.example", {"/": redirect("https://b.example/x")})
    with FakeProxy(routes(b"", b=b, s=start)) as proxy:
        stop = await visit_once(proxy, "https://s.example/")

    assert isinstance(stop, Stop)
    assert (stop.code, stop.url) == (Code.ROBOTS_REFUSED, "https://b.example/x")
    assert stop.chain == ("https://s.example/",)
    assert asked_inside(proxy) == ["/robots.txt", "/", "/robots.txt"]


@pytest.mark.trio
async def test_a_cancelled_visit_leaves_the_next_one_free_to_ask() -> None:
    answers: list[Callable[[Peer], None]] = [hang, lambda peer: peer.send(text_file(b""))]

    def next_answer(peer: Peer) -> None:
        answers.pop(0)(peer)

    with FakeProxy(routes(next_answer)) as proxy:
        visitor = obeying(proxy)
        with trio.move_on_after(0.3) as scope:
            await visit(visitor)
        second = await visit(visitor)

    assert scope.cancelled_caught
    assert isinstance(second, Visited)


def test_a_long_path_is_shown_cut() -> None:
    stop = Stop(code=Code.ROBOTS_REFUSED, by=By.SITE, url=A, detail=module._shown("/" + "a" * 500))

    assert len(tell(stop, None).text) < 400
