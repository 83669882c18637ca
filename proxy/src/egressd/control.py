"""Frames between the supervisor and a worker, over one socket pair, with descriptors attached.

A frame is four bytes of length (big-endian), then a JSON object with a text member `type`. Descriptors travel by
SCM_RIGHTS with the frame's first byte; how many belong to a frame is its member `fds`, which `ControlSocket` writes and
takes away again. The kernel hands descriptors over no later than that byte and in order, so a queue and a count
suffice, however the bytes are cut.

What the frames say (`TO_WORKER`, `TO_SUPERVISOR`):

    settings   resolvers ["ip" or "ip:port"], limits {fields of limits.Limits that the operator set},
               log_required, large_pipes (how many pipes of the full size this worker may have);
               two descriptors: the record sink, and the memory of its counters (`egressd.tally`)
    listener   name, kind ("tcp" or "unix"); one descriptor: bound, listening, not blocking
    snapshot   snapshot (the value that `egressd.snapshot` reads)
    drain      seconds
    stop       end at once

    listening  every listener given before the first snapshot is being accepted from
    applied    version
    counts     counters since the worker's start, as a whole
    health     resolver_dead, record_faults
    drained    nothing is left; the worker ends by itself

The codec is pure. `ControlSocket` does no waiting: its owner watches the descriptor and calls `receive` and `flush`.
"""

from __future__ import annotations

import array
import json
import os
import socket
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# A snapshot carries every list's text. 64 MiB is some two million rules; above it one end has lost the other's framing.
FRAME_MAX_BYTES = 64 * 1024 * 1024
LENGTH_BYTES = 4
# What one read takes; the default buffer of a Unix socket is 208 KiB.
READ_BYTES = 262_144
# The kernel's SCM_MAX_FD is 253; we send at most two a frame, and a read ends at the first bytes that carry any.
DESCRIPTORS_MAX = 16

TO_WORKER = frozenset({"settings", "listener", "snapshot", "drain", "stop"})
TO_SUPERVISOR = frozenset({"listening", "applied", "counts", "health", "drained"})


class ControlFault(Exception):
    """The other end sent something that is no frame; the two ends no longer understand each other."""


class ControlClosed(Exception):
    """The other end is gone."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A decoded frame; who takes `descriptors` must close them."""

    type: str
    message: dict[str, object]
    descriptors: tuple[int, ...] = ()


def encode(message: Mapping[str, object]) -> bytes:
    """Write a message as one frame.

    Raises:
        ControlFault: Larger than `FRAME_MAX_BYTES`.
    """
    body = json.dumps(message, separators=(",", ":")).encode("ascii")
    if len(body) > FRAME_MAX_BYTES:
        fault = f"a frame of {len(body)} bytes"
        raise ControlFault(fault)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


class FrameReader:
    """Cuts a stream of bytes into messages; one for each direction of a connection."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        """Start with nothing read."""
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> list[dict[str, object]]:
        """Take more bytes and give the messages that are now whole, in order.

        Raises:
            ControlFault: A length over the limit, no JSON object, or no `type`.
        """
        buffer = self._buffer
        buffer += chunk
        messages: list[dict[str, object]] = []
        start = 0
        while len(buffer) - start >= LENGTH_BYTES:
            length = int.from_bytes(buffer[start : start + LENGTH_BYTES], "big")
            if length > FRAME_MAX_BYTES:
                fault = f"a frame of {length} bytes"
                raise ControlFault(fault)
            end = start + LENGTH_BYTES + length
            if len(buffer) < end:
                break
            messages.append(_message(bytes(buffer[start + LENGTH_BYTES : end])))
            start = end
        del buffer[:start]
        return messages


def _message(body: bytes) -> dict[str, object]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        fault = "a frame that is not JSON"
        raise ControlFault(fault) from error
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        fault = "a frame without a type"
        raise ControlFault(fault)
    return cast("dict[str, object]", value)


class ControlSocket:
    """One end of the pair. Never blocks; never closes a descriptor that it was given to send."""

    __slots__ = ("_arrived", "_reader", "_socket", "_waiting")

    def __init__(self, end: socket.socket) -> None:
        """Take over a connected AF_UNIX stream socket."""
        end.setblocking(False)
        self._socket = end
        self._reader = FrameReader()
        self._arrived: deque[int] = deque()
        self._waiting: deque[tuple[memoryview, tuple[int, ...]]] = deque()

    @classmethod
    def from_descriptor(cls, descriptor: int) -> ControlSocket:
        """Take over an inherited descriptor (`--control-fd N`)."""
        return cls(socket.socket(fileno=descriptor))

    def fileno(self) -> int:
        """Give the descriptor to watch: readable means `receive`, writable (while `send` said False) means `flush`."""
        return self._socket.fileno()

    def send(self, message: Mapping[str, object], descriptors: Sequence[int] = ()) -> bool:
        """Queue a message and write what the socket takes now.

        Args:
            message: A JSON object with `type`; `fds` is ours.
            descriptors: Sent with the frame; the caller keeps them open until `flush` has said True.

        Returns:
            True when nothing waits, False when `flush` is to be called once the socket is writable.

        Raises:
            ControlFault: Too large.
            ControlClosed: The other end is gone.
        """
        framed = {**message, "fds": len(descriptors)} if descriptors else message
        self._waiting.append((memoryview(encode(framed)), tuple(descriptors)))
        return self.flush()

    def flush(self) -> bool:
        """Write what the socket takes; True when nothing waits any more.

        Raises:
            ControlClosed: The other end is gone.
        """
        while self._waiting:
            view, descriptors = self._waiting[0]
            try:
                sent = self._write(view, descriptors)
            except (BlockingIOError, InterruptedError):
                return False
            except OSError as error:
                raise ControlClosed from error
            if sent < len(view):
                self._waiting[0] = (view[sent:], ())
            else:
                self._waiting.popleft()
        return True

    def receive(self) -> list[Frame]:
        """Read once and give the frames that are now whole; an empty list when there is nothing yet.

        Raises:
            ControlClosed: The other end is gone.
            ControlFault: The other end sent no frame, or fewer descriptors than it said.
        """
        try:
            chunk, ancillary, _flags, _address = self._socket.recvmsg(
                READ_BYTES,
                socket.CMSG_SPACE(DESCRIPTORS_MAX * array.array("i").itemsize),
                socket.MSG_CMSG_CLOEXEC,
            )
        except (BlockingIOError, InterruptedError):
            return []
        except OSError as error:
            raise ControlClosed from error
        for level, kind, raw in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                numbers = array.array("i")
                numbers.frombytes(raw[: len(raw) - len(raw) % numbers.itemsize])
                self._arrived.extend(numbers)
        if not chunk:
            raise ControlClosed
        return [self._frame(message) for message in self._reader.feed(chunk)]

    def close(self) -> None:
        """Close the socket and every descriptor that no frame claimed."""
        while self._arrived:
            os.close(self._arrived.popleft())
        self._waiting.clear()
        self._socket.close()

    def _write(self, view: memoryview, descriptors: tuple[int, ...]) -> int:
        if not descriptors:
            return self._socket.send(view)
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))
        return self._socket.sendmsg([view], [rights])

    def _frame(self, message: dict[str, object]) -> Frame:
        count = message.pop("fds", 0)
        if not isinstance(count, int) or not 0 <= count <= len(self._arrived):
            fault = "fewer descriptors than the frame says"
            raise ControlFault(fault)
        return Frame(str(message["type"]), message, tuple(self._arrived.popleft() for _ in range(count)))
