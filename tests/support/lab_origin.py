"""An origin in this process: accepts on sockets it was given (of a namespace too), and counts what reached it.

What it says on a connection is a function, so that a test can be an origin that answers in pieces, late, wrongly or
never. `pages` is the well-behaved one. Called by the demo and the system tests; `lab_world` gives it its sockets.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it reached the origin."""

    line: str
    fields: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def method(self) -> str:
        return self.line.split(" ")[0]

    @property
    def path(self) -> str:
        return self.line.split(" ")[1]

    def get(self, name: str) -> list[str]:
        """Every value of one field, in order."""
        return [value for key, value in self.fields if key.lower() == name.lower()]


class Visit:
    """One accepted connection: reads requests, writes bytes.

    Attributes:
        origin: Where it was accepted.
        stream: The socket; inside TLS where the origin speaks TLS.
    """

    def __init__(self, origin: Origin, stream: socket.socket) -> None:
        self.origin = origin
        self.stream = stream
        self._kept = b""

    def read_request(self) -> Request | None:
        """The next whole request, or None at the end of the stream. Strict: anything odd is an AssertionError."""
        head = self._until(b"\r\n\r\n")
        if not head:
            return None
        line, *rest = head[:-4].decode("ascii").split("\r\n")
        fields = tuple((name, value.strip()) for name, _, value in (text.partition(":") for text in rest))
        lengths = [value for name, value in fields if name.lower() == "content-length"]
        codings = [value for name, value in fields if name.lower() == "transfer-encoding"]
        assert len(lengths) + len(codings) <= 1, f"ambiguous framing reached the origin: {fields}"
        body = self._chunks() if codings else self._exactly(int(lengths[0]) if lengths else 0)
        request = Request(line, fields, body)
        self.origin.requests.append(request)
        return request

    def write(self, data: bytes) -> None:
        self.stream.sendall(data)

    def answer(self, body: bytes, *fields: str, status: str = "200 OK", head_only: bool = False) -> None:
        """A response with its length; to HEAD the same without the body."""
        head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *fields]
        self.write("\r\n".join(head).encode() + b"\r\n\r\n" + (b"" if head_only else body))

    def wait_for_end(self) -> None:
        """Stay silent until the other side ends."""
        while self.stream.recv(65_536):
            pass

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self._until(b"\r\n"), 16):
            body += self._exactly(size)
            assert self._exactly(2) == b"\r\n"
        assert self._until(b"\r\n") == b"\r\n", "trailers reached the origin"
        return body

    def _until(self, end: bytes) -> bytes:
        while end not in self._kept:
            part = self.stream.recv(65_536)
            if not part:
                assert not self._kept, f"cut within a message: {self._kept[:200]!r}"
                return b""
            self._kept += part
        found, _, self._kept = self._kept.partition(end)
        return found + end

    def _exactly(self, count: int) -> bytes:
        while len(self._kept) < count:
            part = self.stream.recv(65_536)
            if not part:
                raise ConnectionError("cut within a body")
            self._kept += part
        found, self._kept = self._kept[:count], self._kept[count:]
        return found


Talk = Callable[[Visit], None]


@dataclass
class Origin:
    """A server of threads over sockets that already listen.

    Attributes:
        accepted: Connections that reached it, whatever came of them.
        requests: What was asked, in the order of arrival.
    """

    listeners: list[socket.socket]
    talk: Talk
    tls: ssl.SSLContext | None = None
    accepted: int = 0
    requests: list[Request] = field(default_factory=list)
    _open: set[socket.socket] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _threads: list[threading.Thread] = field(default_factory=list)

    @property
    def address(self) -> tuple[str, int]:
        """Address and port of the first listener."""
        host, port = self.listeners[0].getsockname()[:2]
        return str(host), int(port)

    @property
    def port(self) -> int:
        return self.address[1]

    def is_quiet(self) -> bool:
        """Whether no connection is open on this side."""
        return not self._open

    def __enter__(self) -> Self:
        for listener in self.listeners:
            self._spawn(self._accept, listener)
        return self

    def __exit__(self, *_: object) -> None:
        for listener in self.listeners:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        with self._lock:
            streams = list(self._open)
        for stream in streams:
            with suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)

    def _spawn(self, run: Callable[[socket.socket], None], stream: socket.socket) -> None:
        thread = threading.Thread(target=run, args=(stream,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                stream, _ = listener.accept()
            except OSError:
                return
            stream.settimeout(30)
            with self._lock:
                self.accepted += 1
                self._open.add(stream)
            self._spawn(self._serve, stream)

    def _serve(self, stream: socket.socket) -> None:
        # A peer that goes away is part of the tests; what the origin finds wrong with a request is not.
        try:
            with suppress(OSError):
                if self.tls is None:
                    self.talk(Visit(self, stream))
                    return
                raw = stream.dup()
                raw.settimeout(30)
                with self.tls.wrap_socket(raw, server_side=True, suppress_ragged_eofs=True) as inside:
                    self.talk(Visit(self, inside))
        finally:
            stream.close()
            with self._lock:
                self._open.discard(stream)


def listener(address: str = "127.0.0.1", port: int = 0) -> socket.socket:
    """A listening socket of this process's own namespace."""
    made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((address, port))
    made.listen(128)
    return made


def pages(content: Mapping[str, bytes], mime: str = "text/html; charset=utf-8") -> Talk:
    """An origin that serves these paths, echoes what is posted, and keeps connections open."""

    def talk(visit: Visit) -> None:
        while request := visit.read_request():
            if request.method == "POST":
                visit.answer(request.body, "Content-Type: application/octet-stream")
            elif (body := content.get(request.path)) is not None:
                visit.answer(body, f"Content-Type: {mime}", head_only=request.method == "HEAD")
            else:
                visit.answer(b"nothing here\n", "Content-Type: text/plain", status="404 Not Found")

    return talk
