"""Frames between supervisor and worker: any cut of the bytes, descriptors with their frame, both ends gone wrong."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from egressd.control import (
    FRAME_MAX_BYTES,
    READ_BYTES,
    ControlClosed,
    ControlFault,
    ControlSocket,
    Frame,
    FrameReader,
    encode,
)


@pytest.fixture
def ends() -> Iterator[tuple[ControlSocket, ControlSocket]]:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    pair = ControlSocket(one), ControlSocket(other)
    yield pair
    for end in pair:
        end.close()


def receive_all(end: ControlSocket, count: int) -> list[Frame]:
    """Read until this many frames are there; the other end has sent them already, so nothing is waited for."""
    frames: list[Frame] = []
    while len(frames) < count:
        frames += end.receive()
    return frames


def names_of(descriptors: tuple[int, ...]) -> list[str]:
    names = [os.path.realpath(f"/proc/self/fd/{descriptor}") for descriptor in descriptors]
    for descriptor in descriptors:
        os.close(descriptor)
    return names


def test_messages_come_out_whole_at_every_cut() -> None:
    messages: list[dict[str, object]] = [
        {"type": "listening"},
        {"type": "applied", "version": 3},
        {"type": "counts", "text": "ü" * 100},
    ]
    raw = b"".join(encode(message) for message in messages)
    for cut in range(len(raw) + 1):
        reader = FrameReader()
        assert reader.feed(raw[:cut]) + reader.feed(raw[cut:]) == messages


def test_messages_come_out_whole_byte_by_byte() -> None:
    reader = FrameReader()
    raw = encode({"type": "drain", "seconds": 30})
    assert [found for byte in raw for found in reader.feed(bytes([byte]))] == [{"type": "drain", "seconds": 30}]


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"type":1}', b"\xff", b"null", b"[" * 50_000])
def test_a_frame_without_a_type_is_a_fault(body: bytes) -> None:
    with pytest.raises(ControlFault):
        FrameReader().feed(len(body).to_bytes(4, "big") + body)


def test_a_length_over_the_limit_is_a_fault_before_its_bytes_come() -> None:
    with pytest.raises(ControlFault):
        FrameReader().feed((FRAME_MAX_BYTES + 1).to_bytes(4, "big"))


def test_a_message_over_the_limit_is_not_sent() -> None:
    with pytest.raises(ControlFault):
        encode({"type": "snapshot", "text": "a" * FRAME_MAX_BYTES})


def test_descriptors_arrive_with_their_own_frame(ends: tuple[ControlSocket, ControlSocket], tmp_path: Path) -> None:
    sender, receiver = ends
    paths = [tmp_path / name for name in ("first", "second", "third")]
    files = [path.open("wb") for path in paths]
    sender.send({"type": "settings"}, [files[0].fileno()])
    sender.send({"type": "snapshot", "text": "a" * 1000})
    sender.send({"type": "listener", "name": "a"}, [files[1].fileno(), files[2].fileno()])
    sender.send({"type": "stop"})
    frames = receive_all(receiver, 4)
    assert [frame.type for frame in frames] == ["settings", "snapshot", "listener", "stop"]
    assert [names_of(frame.descriptors) for frame in frames] == [
        [str(paths[0])],
        [],
        [str(paths[1]), str(paths[2])],
        [],
    ]
    assert "fds" not in frames[0].message
    for file in files:
        file.close()


def test_received_descriptors_are_not_inherited_by_children(
    ends: tuple[ControlSocket, ControlSocket], tmp_path: Path
) -> None:
    sender, receiver = ends
    with (tmp_path / "file").open("wb") as file:
        sender.send({"type": "settings"}, [file.fileno()])
    (frame,) = receive_all(receiver, 1)
    assert not os.get_inheritable(frame.descriptors[0])
    os.close(frame.descriptors[0])


def test_a_large_frame_goes_out_in_parts_and_the_descriptor_with_the_first(
    ends: tuple[ControlSocket, ControlSocket], tmp_path: Path
) -> None:
    sender, receiver = ends
    text = "a" * (READ_BYTES * 8)
    path = tmp_path / "file"
    with path.open("wb") as file:
        assert sender.send({"type": "snapshot", "text": text}, [file.fileno()]) is False
        assert sender.send({"type": "stop"}) is False
        frames: list[Frame] = []
        while not sender.flush():
            frames += receiver.receive()
    frames += receive_all(receiver, 2 - len(frames))
    assert [frame.type for frame in frames] == ["snapshot", "stop"]
    assert frames[0].message["text"] == text
    assert names_of(frames[0].descriptors) == [str(path)]


def test_nothing_to_read_is_an_empty_list(ends: tuple[ControlSocket, ControlSocket]) -> None:
    assert ends[0].receive() == []


def test_the_other_end_gone_is_told_to_reader_and_writer(ends: tuple[ControlSocket, ControlSocket]) -> None:
    one, other = ends
    other.close()
    with pytest.raises(ControlClosed):
        one.receive()
    with pytest.raises(ControlClosed):
        one.send({"type": "stop"})


def test_a_frame_that_claims_more_descriptors_than_came_is_a_fault() -> None:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    end = ControlSocket(other)
    body = json.dumps({"type": "settings", "fds": 1}).encode()
    one.send(len(body).to_bytes(4, "big") + body)
    with pytest.raises(ControlFault):
        end.receive()
    end.close()
    one.close()


def test_descriptors_that_no_frame_claimed_are_closed_with_the_socket(tmp_path: Path) -> None:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    end = ControlSocket(other)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count, taken twice the same way
    with (tmp_path / "file").open("wb") as file:
        socket.send_fds(one, [b"\0\0\0\x10"], [file.fileno()])
    assert end.receive() == []
    assert len(os.listdir("/proc/self/fd")) == before + 1  # noqa: PTH208 - as above
    end.close()
    assert len(os.listdir("/proc/self/fd")) == before - 1  # noqa: PTH208 - as above
    one.close()


def test_an_end_can_be_made_of_an_inherited_descriptor() -> None:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    end = ControlSocket.from_descriptor(other.detach())
    one.sendall(encode({"type": "stop"}))
    assert [frame.type for frame in receive_all(end, 1)] == ["stop"]
    end.close()
    one.close()
