"""Writing to one socket: what it takes now, what waits, in which order."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from egressd.worker.outflow import Outflow

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    yield near, far
    near.close()
    far.close()


def drain(sock: socket.socket) -> bytes:
    got = bytearray()
    while True:
        try:
            got += sock.recv(65_536)
        except BlockingIOError:
            return bytes(got)


def test_what_the_socket_takes_goes_out_at_once(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    outflow = Outflow(near)

    outflow.write(b"head")
    outflow.write(memoryview(b" and body"))

    assert drain(far) == b"head and body"
    assert outflow.waits == b""
    assert outflow.count == 13


def test_what_it_does_not_take_waits_in_order_and_leaves_with_the_flushes(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    near, far = pair
    outflow = Outflow(near)
    big = bytes(range(256)) * 8_192
    buffer = bytearray(big)

    outflow.write(memoryview(buffer))
    assert outflow.waits
    buffer[:] = bytes(len(buffer))  # whoever owns the view reuses it
    outflow.write(b"the end")
    got = b""
    while not outflow.flush():
        got += drain(far)
    got += drain(far)

    assert got == big + b"the end"
    assert outflow.count == len(big) + 7


def test_a_broken_connection_is_told(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    far.close()
    outflow = Outflow(near)
    with pytest.raises(OSError, match="Broken pipe"):
        outflow.write(b"x")
    outflow.waits = b"y"
    with pytest.raises(OSError, match="Broken pipe"):
        outflow.flush()
