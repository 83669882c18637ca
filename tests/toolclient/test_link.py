"""The link connects to the proxy, by literal or path, and to nothing else."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import trio

from oz0_web.config import ProxyAddress, TcpProxy, UnixProxy
from oz0_web.faults import ProxyUnreachable
from oz0_web.link import Link
from support.fake_proxy import FakeProxy


def free_port(family: int, address: str) -> int:
    with socket.socket(family) as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


async def has_peer(proxy: ProxyAddress) -> bool:
    stream = await Link(proxy).open()
    async with stream:
        return stream.socket.getpeername() is not None


@pytest.fixture
def no_look_ups(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*asked: object, **options: object) -> None:
        raise AssertionError(asked)

    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "getfqdn"):
        monkeypatch.setattr(socket, name, fail)
    monkeypatch.setattr("trio.socket.getaddrinfo", fail)


@pytest.mark.trio
@pytest.mark.usefixtures("no_look_ups")
async def test_a_literal_and_a_path_are_opened_without_a_look_up(tmp_path: Path) -> None:
    with FakeProxy() as proxy:
        assert await has_peer(TcpProxy(("127.0.0.1",), proxy.port, "127.0.0.1"))
    with FakeProxy(path=tmp_path / "s") as proxy:
        assert await has_peer(UnixProxy(str(tmp_path / "s"))) is True


@pytest.mark.trio
@pytest.mark.usefixtures("no_look_ups")
@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
async def test_localhost_is_both_loopback_addresses_in_turn() -> None:
    with socket.socket(socket.AF_INET6) as listener:
        listener.bind(("::1", 0))
        listener.listen()
        assert await has_peer(TcpProxy(("127.0.0.1", "::1"), listener.getsockname()[1], "localhost"))


@pytest.mark.trio
@pytest.mark.case("H22")
@pytest.mark.parametrize("addresses", [("127.0.0.1",), ("127.0.0.1", "::1"), ("::1",)])
async def test_a_proxy_that_is_not_there_is_a_fault_and_nothing_else_is_tried(addresses: tuple[str, ...]) -> None:
    port = free_port(socket.AF_INET, "127.0.0.1")

    with pytest.raises(ProxyUnreachable) as caught:
        await Link(TcpProxy(addresses, port, "localhost")).open()

    assert (caught.value.proxy, caught.value.detail) == (f"localhost:{port}", "connection refused")


@pytest.mark.trio
async def test_a_path_without_a_socket_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(ProxyUnreachable) as caught:
        await Link(UnixProxy(str(tmp_path / "none"))).open()

    assert caught.value.detail == "no such file or directory"


@pytest.mark.trio
async def test_a_cancelled_connect_leaves_no_descriptor_open() -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await Link(TcpProxy(("127.0.0.1",), 1, "127.0.0.1")).open()

    assert scope.cancelled_caught
