"""Listeners: bound exactly as asked, stale sockets taken over, living ones left alone."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from egressd.supervisor.listeners import ListenFault, bind_tcp, bind_unix


def connects(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
        return True


def test_a_tcp_listener_tells_the_port_that_the_kernel_chose() -> None:
    bound = bind_tcp("default", "127.0.0.1", 0)
    host, port = bound.socket.getsockname()
    assert bound.address == f"{host}:{port}"
    assert bound.kind == "tcp"
    assert not bound.socket.getblocking()
    assert not os.get_inheritable(bound.socket.fileno())
    bound.close()


def test_an_ipv6_listener_takes_no_ipv4() -> None:
    try:
        bound = bind_tcp("six", "::1", 0)
    except ListenFault:
        pytest.skip("no IPv6 loopback here")
    assert bound.address.startswith("[::1]:")
    assert bound.socket.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == 1
    bound.close()


def test_a_taken_address_is_told_with_what_to_do() -> None:
    first = bind_tcp("first", "127.0.0.1", 0)
    port = int(first.address.rpartition(":")[2])
    with pytest.raises(ListenFault, match=f"second: 127.0.0.1:{port}: another process listens there"):
        bind_tcp("second", "127.0.0.1", port)
    first.close()


def test_a_foreign_address_is_told() -> None:
    with pytest.raises(ListenFault, match="not an address of this machine"):
        bind_tcp("default", "192.0.2.99", 3128)


@pytest.mark.parametrize("mode", [0o600, 0o660, 0o666])
def test_a_unix_socket_has_its_mode_whatever_the_umask(tmp_path: Path, mode: int) -> None:
    before = os.umask(0o077)
    try:
        bound = bind_unix("default", tmp_path / "s", mode)
        assert os.umask(0o077) == 0o077
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "s").lstat().st_mode) == mode
    assert connects(tmp_path / "s")
    bound.close()


def test_a_stale_unix_socket_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    bound = bind_unix("default", path, 0o600)
    assert connects(path)
    bound.close()


def test_a_living_unix_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    first = bind_unix("first", path, 0o600)
    with pytest.raises(ListenFault, match="another process listens there"):
        bind_unix("second", path, 0o600)
    assert connects(path)
    first.close()


def test_another_kind_of_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("notes")
    with pytest.raises(ListenFault, match="no socket"):
        bind_unix("default", path, 0o600)
    assert path.read_text() == "notes"


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(ListenFault, match="create it"):
        bind_unix("default", tmp_path / "none" / "s", 0o600)


def test_closing_removes_the_file_once_and_only_if_it_is_ours(tmp_path: Path) -> None:
    path = tmp_path / "s"
    first = bind_unix("first", path, 0o600)
    path.rename(tmp_path / "moved")
    second = bind_unix("second", path, 0o600)
    first.close()
    assert connects(path)
    second.close()
    assert not path.exists()
    third = bind_unix("third", path, 0o600)
    second.close()
    assert connects(path)
    third.close()
