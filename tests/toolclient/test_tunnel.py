"""CONNECT and TLS against a real socket: what is sent, what is believed, and what is refused."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path

import pytest
import trio
import trustme

from egress_policy.names import HostName
from egress_policy.targets import Target
from oz0_web.config import Config
from oz0_web.faults import ProxyBroke, ProxyUnreachable, TlsFault, TrustFault
from oz0_web.link import Link
from oz0_web.settings import read_config
from oz0_web.tunnel import ProxyAnswer, open_tunnel, proxy_fields, secure, trust
from support.fake_proxy import CONNECT_OK, FakeProxy, Peer, Script, Site, refusal, reply
from support.web_rig import authority, certificate, site, trusting

TARGET = Target("https", HostName("site.example"), 443)


def config_for(proxy: FakeProxy, *, user_info: str = "") -> Config:
    return read_config({"OZ0_WEB_PROXY": proxy.url.replace("http://", f"http://{user_info}")})


async def tunnel(proxy: FakeProxy, *, user_info: str = "") -> trio.SocketStream | ProxyAnswer:
    config = config_for(proxy, user_info=user_info)
    return await open_tunnel(Link(config.proxy), TARGET, config)


@pytest.mark.trio
@pytest.mark.requirement("OZ-39")
async def test_connect_names_the_host_and_asks_for_public_addresses_only() -> None:
    with FakeProxy({"site.example:443": CONNECT_OK}) as proxy:
        stream = await tunnel(proxy)
        assert isinstance(stream, trio.SocketStream)
        await stream.aclose()

    (seen,) = proxy.seen
    assert (seen.method, seen.target) == ("CONNECT", "site.example:443")
    assert (seen.all("host"), seen.all("oz0-egress-public-only")) == (["site.example:443"], ["1"])
    assert seen.all("proxy-authorization") == []


@pytest.mark.trio
async def test_user_info_of_the_proxy_address_goes_to_the_proxy() -> None:
    with FakeProxy({"site.example:443": CONNECT_OK}) as proxy:
        stream = await tunnel(proxy, user_info="job:token@")
        assert isinstance(stream, trio.SocketStream)
        await stream.aclose()

    assert proxy.seen[0].all("proxy-authorization") == ["Basic am9iOnRva2Vu"]
    assert len(proxy_fields(config_for(proxy, user_info="job:token@"))) == 2


@pytest.mark.trio
@pytest.mark.case("H23")
@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (refusal("not-on-allowlist"), 403),
        (b"HTTP/1.1 407 Log in\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n", 407),
        (reply(b"<h1>Not a proxy</h1>", status="405 Method Not Allowed"), 405),
        (b"HTTP/1.0 502 Bad\r\n\r\nbody until the end", 502),
        (b"HTTP/1.1 302 Found\r\nLocation: https://evil.example/\r\nContent-Length: 0\r\n\r\n", 302),
    ],
)
async def test_any_answer_but_a_success_is_the_proxys_own(answer: bytes, status: int) -> None:
    with FakeProxy({"site.example:443": answer}) as proxy:
        answered = await tunnel(proxy)

    assert isinstance(answered, ProxyAnswer)
    assert answered.head.status == status


@pytest.mark.trio
@pytest.mark.parametrize(
    "framing", [b"", b"Content-Length: 0\r\n", b"Content-Length: 7\r\n", b"Transfer-Encoding: chunked\r\n"]
)
async def test_framing_on_a_success_is_ignored(framing: bytes) -> None:
    with FakeProxy({"site.example:443": b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n"}) as proxy:
        stream = await tunnel(proxy)
        assert isinstance(stream, trio.SocketStream)
        await stream.aclose()


@pytest.mark.trio
@pytest.mark.parametrize(
    "script",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x15\x03\x01\x00\x02\x02\x16",
        b"",
        b"HTTP/1.1 200 Conn",
        lambda peer: peer.reset(),
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000,
    ],
    ids=["body", "ssh", "tls", "nothing", "half a line", "reset", "endless head"],
)
async def test_what_is_not_a_proxy_is_told_as_that(script: Script) -> None:
    with FakeProxy({"site.example:443": script}) as proxy, pytest.raises(ProxyBroke):
        await tunnel(proxy)


@pytest.mark.trio
async def test_a_proxy_that_is_gone_is_unreachable() -> None:
    with FakeProxy() as proxy:
        config = config_for(proxy)
    with pytest.raises(ProxyUnreachable):
        await open_tunnel(Link(config.proxy), TARGET, config)


async def shake_hands(
    played: Site | Script, *, host: str = "site.example", context: ssl.SSLContext | None = None
) -> str:
    """Give the TLS version that was agreed on inside the tunnel."""
    with FakeProxy({"site.example:443": played}) as proxy:
        stream = await tunnel(proxy)
        assert isinstance(stream, trio.SocketStream)
        inside = await secure(stream, host, context or trusting())
        version: str = inside.version()
        await trio.aclose_forcefully(inside)
        return version


@pytest.mark.trio
async def test_a_certificate_for_the_name_is_trusted() -> None:
    assert await shake_hands(site("site.example", {})) == "TLSv1.3"


@pytest.mark.trio
@pytest.mark.parametrize(
    ("leaf", "said"),
    [
        (lambda: certificate("other.example"), "mismatch"),
        (lambda: certificate("*.site.example"), "mismatch"),
        (lambda: certificate("127.0.0.1"), "mismatch"),
        (lambda: trustme.CA().issue_cert("site.example"), "unable to get local issuer"),
    ],
    ids=["another name", "below the name", "an address", "another authority"],
)
async def test_a_certificate_that_is_not_for_the_name_or_not_trusted_is_refused(leaf: object, said: str) -> None:
    assert callable(leaf)
    with pytest.raises(TlsFault) as caught:
        await shake_hands(Site(leaf(), {}))

    assert said in caught.value.detail
    assert (caught.value.is_certificate, caught.value.host) == (True, "site.example")


@pytest.mark.trio
async def test_an_address_is_verified_as_an_address() -> None:
    assert await shake_hands(site("203.0.113.9", {}), host="203.0.113.9") == "TLSv1.3"


def accept_then(data: bytes) -> Script:
    def play(peer: Peer) -> None:
        peer.send(CONNECT_OK)
        peer.connection.recv(65_536)
        peer.send(data)

    return play


@pytest.mark.trio
@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 200 OK\r\n\r\n", b"\x15\x03\x03\x00\x02\x02\x28"])
async def test_a_handshake_that_is_cut_or_answered_by_something_else_is_a_fault_of_tls(data: bytes) -> None:
    with pytest.raises(TlsFault) as caught:
        await shake_hands(accept_then(data))

    assert caught.value.is_certificate is False


def test_the_default_trust_verifies_names_by_the_systems_store() -> None:
    context = trust(Config(read_config({"OZ0_WEB_PROXY": "http://127.0.0.1:1"}).proxy, "OZ0_WEB_PROXY"))

    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_the_file_of_the_environment_is_trusted_and_a_broken_one_is_told(tmp_path: Path) -> None:
    base = read_config({"OZ0_WEB_PROXY": "http://127.0.0.1:1"})
    good, empty = tmp_path / "good.pem", tmp_path / "empty.pem"
    authority().cert_pem.write_to_path(str(good))
    empty.write_text("nothing here")

    assert trust(replace(base, ca_file=str(good))).get_ca_certs()
    for path, said in ((empty, "no certificate"), (tmp_path / "none.pem", "no such file")):
        with pytest.raises(TrustFault) as caught:
            trust(replace(base, ca_file=str(path)))
        assert said in caught.value.detail
