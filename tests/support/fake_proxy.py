"""A scripted egress proxy on a real socket, which ends tunnels itself and plays the site inside them.

It answers each request as a table says and writes down what it saw. It judges nothing, so it can do what a real proxy
never would: forge, stall, cut, speak nonsense. Runs in threads, so that a trio test and a started program can both talk
to it. Used by the tests of the tool client.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TypeAlias

import trustme

CONNECT_OK = b"HTTP/1.1 200 Connection established\r\n\r\n"
GRANT_PATH = "/.well-known/egress"


@dataclass
class Seen:
    """One request as it arrived; `inside` says that it came through a tunnel."""

    method: str
    target: str
    fields: list[tuple[str, str]]
    inside: bool = False

    def all(self, name: str) -> list[str]:
        return [value for field_name, value in self.fields if field_name.lower() == name.lower()]


@dataclass
class Peer:
    """The accepted end of one connection, for scripts."""

    connection: socket.socket
    stopping: threading.Event
    buffered: bytearray = field(default_factory=bytearray)

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)

    def read_head(self) -> bytes | None:
        """Read up to the end of a head; None when the other side closed before it."""
        while b"\r\n\r\n" not in self.buffered:
            data = self.connection.recv(65_536)
            if not data:
                return None
            self.buffered += data
        head, _, rest = bytes(self.buffered).partition(b"\r\n\r\n")
        self.buffered[:] = rest
        return head

    def drip(self, data: bytes, seconds: float) -> None:
        """Send the same bytes again and again at this pace, until the other side goes or the test ends."""
        while not self.stopping.wait(seconds):
            self.connection.sendall(data)

    def hold(self) -> None:
        """Say nothing until the other side closes."""
        while self.connection.recv(65_536):
            pass

    def reset(self) -> None:
        """End with a reset in place of a clean end."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        self.connection.close()


Script: TypeAlias = "bytes | Callable[[Peer], None]"


@dataclass
class Site:
    """A TLS site inside a tunnel: replies by path, each once a connection."""

    certificate: trustme.LeafCert | None
    pages: Mapping[str, Script]
    alpn: tuple[str, ...] = ("http/1.1",)


def reply(
    body: bytes = b"", *, status: str = "200 OK", kind: str | None = "text/html; charset=utf-8", extra: str = ""
) -> bytes:
    """Bytes of a reply with a length; `extra` is further field lines, each ended by CR LF."""
    typed = f"Content-Type: {kind}\r\n" if kind is not None else ""
    return f"HTTP/1.1 {status}\r\n{typed}Content-Length: {len(body)}\r\n{extra}\r\n".encode() + body


def refusal(
    reason: str, *, status: str = "403 Refused", error: str = "http_request_denied", details: str = "why"
) -> bytes:
    """Bytes of the refusal that egressd makes of a CONNECT."""
    member = f'egressd; error={error}; reason={reason}; details="{details}"'
    return f"HTTP/1.1 {status}\r\nProxy-Status: {member}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


def redirect(location: str, status: str = "302 Found") -> bytes:
    return reply(status=status, kind=None, extra=f"Location: {location}\r\n")


class FakeProxy:
    """Listens on loopback (or a Unix path) while it is entered.

    Attributes:
        routes: By request-target: `host:port` for CONNECT, the absolute URL for a plain request, the path for the
            proxy's own pages. A `Site` is entered after a 200; a script is answered as it is. What is missing is
            refused, but for the robots.txt of a plain site, which is 404.
        seen: Every request head, in order of arrival.
        connections: How many were accepted.
        url: The value for the proxy variable; kept after the end, when nothing listens there any more.
    """

    def __init__(self, routes: Mapping[str, Script | Site] | None = None, *, path: Path | None = None) -> None:
        self.routes: dict[str, Script | Site] = dict(routes or {})
        self.seen: list[Seen] = []
        self.connections = 0
        self.faults: list[BaseException] = []
        self._path = path
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        if self._path is not None:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(str(self._path))
        else:
            self._listener = socket.socket()
            self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(64)
        self.url = f"unix:{self._path}" if self._path else f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        accepting = threading.Thread(target=self._accept, name="fake-proxy")
        accepting.start()
        self._threads.append(accepting)
        return self

    def __exit__(self, *unused: object) -> None:
        self._stopping.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join(10)
            assert not thread.is_alive()
        assert not self.faults, self.faults

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def targets(self) -> list[str]:
        """Method and target of every request, in order."""
        return [f"{each.method} {each.target}" for each in self.seen]

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._open.add(connection)
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(connection,), name="fake-proxy-connection")
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with self._closing(connection), contextlib.suppress(OSError, ssl.SSLError):
                self._answer(Peer(connection, self._stopping))
        except BaseException as error:  # noqa: BLE001 - a broken script is the test's to see, not this thread's
            self.faults.append(error)

    @contextlib.contextmanager
    def _closing(self, connection: socket.socket) -> Iterator[None]:
        try:
            yield
        finally:
            # What was not read would turn the end into a reset, and the client would lose the reply.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
                connection.settimeout(2)
                while connection.recv(65_536):
                    pass
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _answer(self, peer: Peer) -> None:
        seen = self._note(peer, inside=False)
        if seen is None:
            return
        route = self.routes.get(seen.target)
        match route:
            case None if seen.target == GRANT_PATH:
                peer.send(reply(b"no", status="404 Not Found"))
            case None if seen.target.endswith("/robots.txt") and self._knows(seen.target):
                peer.send(reply(b"no", status="404 Not Found", kind="text/plain"))
            case None:
                peer.send(refusal("not-on-allowlist"))
            case Site():
                peer.send(CONNECT_OK)
                self._play_site(peer, route)
            case bytes():
                peer.send(route)
            case _:
                route(peer)

    def _knows(self, target: str) -> bool:
        """Whether a plain site has a page here; one that says nothing of robots has no robots.txt."""
        origin = target.removesuffix("/robots.txt")
        return any(route.startswith(f"{origin}/") for route in self.routes)

    def _note(self, peer: Peer, *, inside: bool) -> Seen | None:
        head = peer.read_head()
        if head is None:
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        fields = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        self.seen.append(Seen(method, target, fields, inside))
        return self.seen[-1]

    def _play_site(self, peer: Peer, site: Site) -> None:
        assert site.certificate is not None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        site.certificate.configure_cert(context)
        context.set_alpn_protocols(list(site.alpn))
        with context.wrap_socket(peer.connection.dup(), server_side=True) as secured:
            inner = Peer(secured, self._stopping)
            seen = self._note(inner, inside=True)
            if seen is None:
                return
            page = site.pages.get(seen.target, reply(b"no such page", status="404 Not Found", kind="text/plain"))
            if isinstance(page, bytes):
                inner.send(page)
                with contextlib.suppress(OSError, ssl.SSLError):
                    secured.unwrap()
            else:
                page(inner)
