"""A web site for tests, the demo and the bench: real sockets, TLS by trustme, given pages, everything counted.

Serves GET, HEAD and POST of the pages it was given and 404 for the rest, keeps connections alive, and listens on IPv4
and IPv6. A certificate holds exactly the names it was given, so a client that looks for another name fails as it
would outside. Used as `with TlsSite(pages, names=["site.test"]) as site`, or as a process that prints the addresses it
listens on: `python -m support.tls_site --listen 127.0.0.1:0 --name site.test --folder PAGES --ca-file ca.pem`.
"""

from __future__ import annotations

import argparse
import contextlib
import mimetypes
import os
import signal
import socket
import ssl
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Self

import trustme

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType


@dataclass(frozen=True, slots=True)
class Page:
    """What one path answers; the length is added."""

    body: bytes = b""
    media_type: str = "text/html; charset=utf-8"
    status: int = 200
    fields: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SiteRequest:
    """One request as it arrived; `path` is the request-target."""

    method: str
    path: str
    fields: tuple[tuple[str, str], ...]
    body: bytes = field(default=b"", repr=False)

    def get(self, name: str) -> list[str]:
        """Every value of one field, in order."""
        return [value for key, value in self.fields if key.lower() == name.lower()]


class TlsSite:
    """The site, a thread for each listener and each connection between `start` and `stop`.

    Attributes:
        authority: The certificate authority; `authority.cert_pem.write_to_path` gives a client its trust.
        addresses: Where it listens: `127.0.0.1:8443`, `[::1]:8443`.
        port: The port of the first of them.
        accepted: How many connections arrived, whether or not they ever sent a byte.
        requests: Every request read whole, in order.
    """

    def __init__(
        self,
        pages: Mapping[str, Page],
        *,
        names: Sequence[str] = ("localhost",),
        tls: bool = True,
        listen: Iterable[tuple[str, int]] = (("127.0.0.1", 0), ("::1", 0)),
        sockets: Sequence[socket.socket] | None = None,
        authority: trustme.CA | None = None,
    ) -> None:
        self.pages = dict(pages)
        self.authority = authority or trustme.CA()
        self.context = self._context(names) if tls else None
        self._listeners = list(sockets) if sockets is not None else [bind(*place) for place in listen]
        self.addresses = tuple(_written(listener) for listener in self._listeners)
        self.port: int = self._listeners[0].getsockname()[1]
        self.accepted = 0
        self.requests: list[SiteRequest] = []
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: set[threading.Thread] = set()
        self._stopping = False

    def _context(self, names: Sequence[str]) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        self.authority.issue_cert(*names).configure_cert(context)
        return context

    def trusting_context(self) -> ssl.SSLContext:
        """A client's context that trusts this site's authority and nobody else."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.authority.configure_trust(context)
        return context

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Serve in threads; the sockets listen already, so no connection is lost before it."""
        for listener in self._listeners:
            self._spawn(self._accept, listener)

    def stop(self) -> None:
        """Close every socket and wait for every thread."""
        with self._lock:
            self._stopping = True
        for listener in self._listeners:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
        with self._lock:
            for sock in self._open:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
        while True:
            with self._lock:
                running = tuple(self._threads)
            if not running:
                break
            for thread in running:
                thread.join()
        for listener in self._listeners:
            listener.close()

    def _spawn(self, work: Callable[[socket.socket], None], sock: socket.socket) -> None:
        def run() -> None:
            try:
                work(sock)
            finally:
                with self._lock:
                    self._threads.discard(thread)

        thread = threading.Thread(target=run, daemon=True)
        with self._lock:
            self._threads.add(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with self._lock:
                self.accepted += 1
                self._open.add(sock)
                if self._stopping:
                    sock.close()
                    return
            self._spawn(self._serve, sock)

    def _serve(self, sock: socket.socket) -> None:
        stream = sock
        # A peer that ends in the middle, or does not trust us, is the test's business and not a fault of the site.
        with contextlib.suppress(OSError):
            if self.context is not None:
                with self._lock:
                    self._open.discard(sock)
                    stream = self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
                    self._open.add(stream)
                    if self._stopping:
                        raise ConnectionAbortedError
                stream.do_handshake()
            _Visit(stream, self)
        with self._lock:
            self._open.discard(sock)
            self._open.discard(stream)
        stream.close()
        sock.close()


class _Visit(BaseHTTPRequestHandler):
    """One connection's requests, one after the other."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    site: TlsSite

    def __init__(self, stream: socket.socket, site: TlsSite) -> None:
        self.site = site
        super().__init__(stream, stream.getpeername(), None)  # type: ignore[arg-type]  # no server behind it is asked

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        """Say nothing."""

    def _answer(self) -> None:
        length = int(self.headers.get("content-length", "0"))
        body = self.rfile.read(length)
        self.site.requests.append(SiteRequest(self.command, self.path, tuple(self.headers.items()), body))
        page = self.site.pages.get(self.path.partition("?")[0], Page(b"not here", "text/plain", 404))
        self.send_response_only(page.status)
        self.send_header("Content-Type", page.media_type)
        self.send_header("Content-Length", str(len(page.body)))
        for name, value in page.fields:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.body)
        self.wfile.flush()

    do_GET = do_HEAD = do_POST = _answer  # noqa: N815 - names that the base class looks for


def bind(address: str, port: int) -> socket.socket:
    """A listening socket; port 0 means any."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen()
    return listener


def pages_of(folder: Path) -> dict[str, Page]:
    """Every file of a folder as a page under its path, and `index.html` under its folder's."""
    pages = {}
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        if media_type.startswith("text/"):
            media_type += "; charset=utf-8"
        place = "/" + path.relative_to(folder).as_posix()
        page = Page(path.read_bytes(), media_type)
        pages[place] = page
        if path.name == "index.html":
            pages[place.removesuffix("index.html")] = page
    return pages


def _written(listener: socket.socket) -> str:
    address, port = listener.getsockname()[:2]
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _place(text: str) -> tuple[str, int]:
    address, _, port = text.rpartition(":")
    return address.strip("[]"), int(port)


def main() -> None:
    """Serve a folder until a signal; the first lines of output are the addresses, one each."""
    options = argparse.ArgumentParser(prog="python -m support.tls_site")
    options.add_argument("--listen", action="append", type=_place, metavar="IP:PORT")
    options.add_argument("--name", action="append", metavar="NAME")
    options.add_argument("--folder", type=Path, required=True)
    options.add_argument("--ca-file", type=Path, help="where the authority's certificate is written")
    options.add_argument("--plain", action="store_true", help="http instead of https")
    given = options.parse_args()
    site = TlsSite(
        pages_of(given.folder),
        names=given.name or ["localhost"],
        tls=not given.plain,
        listen=given.listen or [("127.0.0.1", 0)],
    )
    if given.ca_file is not None:
        site.authority.cert_pem.write_to_path(str(given.ca_file))
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # nothing of it outlives the process
    site.start()
    print("\n".join(site.addresses), flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()
    site.stop()


if __name__ == "__main__":
    main()
