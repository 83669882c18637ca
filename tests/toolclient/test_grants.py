"""The grant: how it is asked for, kept, asked for anew, and what happens where it cannot be read."""

from __future__ import annotations

import pytest
import trio

from egress_policy.names import HostName
from egress_policy.rules import MatchOutcome
from egress_policy.targets import Target
from oz0_web import grants as module
from oz0_web.faults import ProxyUnreachable
from oz0_web.grants import GRANT_PATH, Grant, Grants, Unreadable
from oz0_web.link import Link
from oz0_web.settings import read_config
from support.fake_proxy import FakeProxy, Script, refusal, reply
from support.web_rig import COMMAND, grant


def grants_of(proxy: FakeProxy, *, user_info: str = "") -> Grants:
    config = read_config({"OZ0_WEB_PROXY": proxy.url.replace("http://", f"http://{user_info}")})
    return Grants(Link(config.proxy), config)


def outcome(read: Grant, host: str, port: int = 443) -> MatchOutcome:
    return read.rules.match(Target("https", HostName(host), port), now=0).outcome


@pytest.mark.trio
async def test_the_grant_is_asked_of_the_proxy_itself_in_origin_form() -> None:
    with FakeProxy({GRANT_PATH: grant("a.example", plugin=["b.example"])}) as proxy:
        read = await grants_of(proxy, user_info="job:token@").current()

    assert isinstance(read, Grant)
    assert (read.document.tenant, read.document.command) == ("acme", COMMAND)
    assert [outcome(read, host) for host in ("a.example", "b.example", "c.example")] == [
        *(MatchOutcome.ALLOWED, MatchOutcome.ALLOWED, MatchOutcome.NONE)
    ]
    (seen,) = proxy.seen
    assert (seen.method, seen.target, seen.all("host")) == ("GET", GRANT_PATH, [proxy.url.removeprefix("http://")])
    assert seen.all("proxy-authorization") == ["Basic am9iOnRva2Vu"]


@pytest.mark.trio
async def test_endpoints_allow_no_fetch() -> None:
    with FakeProxy({GRANT_PATH: grant("a.example", endpoints=["searx.internal:8080"])}) as proxy:
        read = await grants_of(proxy).current()

    assert isinstance(read, Grant)
    assert outcome(read, "searx.internal", 8080) is MatchOutcome.NONE


@pytest.mark.trio
async def test_the_grant_is_kept_for_a_while_and_asked_for_anew_when_it_must_be_newer() -> None:
    with FakeProxy({GRANT_PATH: grant("a.example")}) as proxy:
        grants = grants_of(proxy)
        first = await grants.current()
        assert await grants.current() is first
        assert await grants.since(first.read_at) is first
        proxy.routes[GRANT_PATH] = grant("b.example", version=2)
        second = await grants.since(trio.current_time())

    assert isinstance(second, Grant)
    assert second.document.version == 2
    assert grants.document == second.document
    assert len(proxy.seen) == 2


@pytest.mark.trio
async def test_an_old_grant_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRANT_FRESH_SECONDS", -1.0)
    with FakeProxy({GRANT_PATH: grant("a.example")}) as proxy:
        grants = grants_of(proxy)
        assert await grants.current() is not await grants.current()


@pytest.mark.trio
@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (reply(b"no", status="404 Not Found"), 404),
        (refusal("identity-unknown"), 403),
        (b"HTTP/1.1 302 Found\r\nLocation: http://evil.example/\r\nContent-Length: 0\r\n\r\n", 302),
        (reply(b"<html>"), 200),
        (reply(b"{}", kind="application/json"), 200),
        (reply(b'{"tenant": 1}', kind="application/json"), 200),
        (reply(b"[" * 100_000, kind="application/json"), 200),
        (reply(b"\xff\xfe", kind="application/json"), 200),
        (grant("a.example", "not a rule at all"), 200),
        (b"SSH-2.0-x\r\n\r\n", None),
        (b"", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", None),
    ],
)
async def test_what_is_no_grant_is_unreadable_and_no_error(answer: bytes, status: int | None) -> None:
    with FakeProxy({GRANT_PATH: answer}) as proxy:
        grants = grants_of(proxy)
        read = await grants.current()

    assert isinstance(read, Unreadable)
    assert (read.status, grants.document) == (status, None)
    assert read.detail


@pytest.mark.trio
async def test_a_grant_without_end_is_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRANT_MAX_BYTES", 1_000)
    with FakeProxy({GRANT_PATH: grant(*[f"n{number}.example" for number in range(500)])}) as proxy:
        assert isinstance(await grants_of(proxy).current(), Unreadable)


@pytest.mark.trio
async def test_a_proxy_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRANT_SECONDS", 0.1)
    hold: Script = lambda peer: peer.hold()  # noqa: E731 - a script of one line
    with FakeProxy({GRANT_PATH: hold}) as proxy:
        read = await grants_of(proxy).current()

    assert isinstance(read, Unreadable)
    assert "0.1 s" in read.detail


@pytest.mark.trio
async def test_a_proxy_that_is_gone_is_a_fault() -> None:
    with FakeProxy() as proxy:
        grants = grants_of(proxy)
    with pytest.raises(ProxyUnreachable):
        await grants.current()
