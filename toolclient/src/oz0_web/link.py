"""Opens streams to the proxy, and to nothing else: the one place of the client that connects.

The address is a literal or a path by the time it gets here (`settings` saw to that), and trio hands a literal to the
kernel without asking a resolver, so no name is ever looked up. `trio.open_tcp_stream` is not used because it resolves;
it is banned outside this module and not needed inside it. Called by `tunnel`, `exchange` and `grants`.
"""

from __future__ import annotations

import os

import trio

from oz0_web.config import ProxyAddress, TcpProxy, UnixProxy
from oz0_web.faults import ProxyUnreachable


class Link:
    """The way to one proxy."""

    def __init__(self, proxy: ProxyAddress) -> None:
        """Take the proxy's address; nothing is opened yet."""
        self.proxy = proxy

    async def open(self) -> trio.SocketStream:
        """Connect to the proxy.

        Two addresses exist for `localhost` only; they are tried one after the other, since on loopback a refusal is
        immediate and a race would gain nothing.

        Returns:
            A stream to the proxy. The caller closes it.

        Raises:
            ProxyUnreachable: No address took the connection; the proxy is not running or the sandbox does not carry it.
        """
        match self.proxy:
            case UnixProxy(path=path):
                return await self._connect(trio.socket.AF_UNIX, path)
            case TcpProxy(addresses=(first, *others), port=port):
                try:
                    return await self._connect(_family(first), (first, port))
                except ProxyUnreachable:
                    if not others:
                        raise
                return await self._connect(_family(others[0]), (others[0], port))
            case _:
                raise AssertionError(self.proxy)

    async def _connect(self, family: int, address: str | tuple[str, int]) -> trio.SocketStream:
        try:
            end = trio.socket.socket(family, trio.socket.SOCK_STREAM)
        except OSError as error:
            raise ProxyUnreachable(str(self.proxy), _reason(error)) from error
        try:
            await end.connect(address)
        except OSError as error:
            end.close()
            raise ProxyUnreachable(str(self.proxy), _reason(error)) from error
        except BaseException:
            end.close()
            raise
        return trio.SocketStream(end)


def _family(address: str) -> int:
    return trio.socket.AF_INET6 if ":" in address else trio.socket.AF_INET


def _reason(error: OSError) -> str:
    return os.strerror(error.errno).lower() if error.errno else "no reason given"
