"""ClientHellos for tests: built by hand, taken from real clients, and read by a parser and a server that are not ours.

Decides nothing about what is right. `hello` builds bytes from parts that may each be wrong; `Listener` is what a client
is pointed at; `names_in` finds host names with no state and no bound; `openssl_sees` asks OpenSSL's server.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Self

from egressd.client_hello import NEED_MORE, Answer, HelloReader

if TYPE_CHECKING:
    from types import TracebackType

VECTORS = Path(__file__).parents[1] / "vectors" / "client_hellos.json"
SERVER_NAME, ECH = 0, 0xFE0D
RANDOM = bytes(range(32))
# TLS_AES_128_GCM_SHA256 and the ECDHE suites that every server has.
SUITES = bytes.fromhex("1301c02bc02fc009c013009c002f")
# What OpenSSL wants to see before it looks at a TLS 1.2 hello any further: groups, point formats, signatures.
USUAL = (
    (10, bytes.fromhex("0004001d0017")),
    (11, bytes.fromhex("0100")),
    (13, bytes.fromhex("0006040308040401")),
)


@dataclass(frozen=True)
class Vector:
    """One row of the vectors: `answer` is a host name, `no name`, `need more`, `not tls`, or the end of a bad hello."""

    name: str
    why: str
    data: bytes
    answer: str


def vectors() -> list[Vector]:
    """Every hand-made hello of the project."""
    rows = json.loads(VECTORS.read_text(encoding="utf-8"))
    return [Vector(row["name"], row["why"], bytes.fromhex("".join(row["hex"])), row["answer"]) for row in rows]


def sized(data: bytes, width: int) -> bytes:
    """The data behind its length."""
    return len(data).to_bytes(width, "big") + data


def extension(kind: int, data: bytes) -> bytes:
    """One extension."""
    return kind.to_bytes(2, "big") + sized(data, 2)


def name_list(*names: bytes, kind: int = 0) -> bytes:
    """The data of a server_name extension with these names, all of one type."""
    return sized(b"".join([bytes([kind]) + sized(name, 2) for name in names]), 2)


def named(name: bytes) -> bytes:
    """A server_name extension with one host name."""
    return extension(SERVER_NAME, name_list(name))


def body(
    extensions: bytes | None,
    *,
    version: bytes = b"\x03\x03",
    session_id: bytes = b"",
    suites: bytes = SUITES,
    methods: bytes = b"\0",
) -> bytes:
    """The body of a ClientHello; None for one that ends without extensions."""
    parts = [version, RANDOM, sized(session_id, 1), sized(suites, 2), sized(methods, 1)]
    return b"".join(parts) + (b"" if extensions is None else sized(extensions, 2))


def message(content: bytes, kind: int = 1) -> bytes:
    """A handshake message."""
    return bytes([kind]) + sized(content, 3)


def records(data: bytes, sizes: Iterable[int] = (), *, version: bytes = b"\x03\x01", kind: int = 22) -> bytes:
    """The data in records of these sizes, the last with what is left."""
    made, at = [], 0
    for size in chain(sizes, [len(data)]):
        if at < len(data):
            made.append(bytes([kind]) + version + sized(data[at : at + size], 2))
        at += size
    return b"".join(made)


def hello(name: bytes | None = b"a.example.com", *more: bytes, sizes: Iterable[int] = ()) -> bytes:
    """A whole hello in its records, as a TLS 1.2 client sends it."""
    first = b"" if name is None else named(name)
    return records(message(body(first + b"".join([extension(*each) for each in USUAL]) + b"".join(more))), sizes)


def feed_in_pieces(reader: HelloReader, data: bytes, sizes: Iterable[int]) -> tuple[Answer, int]:
    """Feed `data` in pieces of these sizes, the last taking what is left, until there is an answer.

    Returns:
        The answer, and how many bytes were fed for it.
    """
    at = 0
    answer: Answer = NEED_MORE
    for size in chain(sizes, repeat(max(1, len(data)))):
        if at >= len(data) or answer is not NEED_MORE:
            break
        answer = reader.feed(data[at : at + size])
        at = min(at + size, len(data))
    return answer, at


def names_in(data: bytes) -> list[str] | None:
    """Every host name in the hello that a stream opens with, in lower case; None if it holds no whole ClientHello.

    A second reading, and a naive one: all records joined, lengths believed, every server_name extension and every name
    in it looked at. It knows no bound and refuses nothing that it can step over.
    """
    joined, at = b"", 0
    while len(data) - at >= 5 and data[at] == 22:
        size = int.from_bytes(data[at + 3 : at + 5], "big")
        joined += data[at + 5 : at + 5 + size]
        at += 5 + size
    size = int.from_bytes(joined[1:4], "big")
    if joined[:1] != b"\x01" or len(joined) < 4 + size:
        return None
    rest = joined[4 : 4 + size][34:]
    for width in (1, 2, 1):
        rest = rest[width + int.from_bytes(rest[:width], "big") :]
    rest = rest[2:]
    found = []
    while len(rest) >= 4:
        kind, size = int.from_bytes(rest[:2], "big"), int.from_bytes(rest[2:4], "big")
        entries = rest[6 : 4 + size] if kind == SERVER_NAME else b""
        while len(entries) >= 3:
            length = int.from_bytes(entries[1:3], "big")
            found.append(entries[3 : 3 + length].decode("latin-1").lower())
            entries = entries[3 + length :]
        rest = rest[4 + size :]
    return found


def openssl_sees(data: bytes) -> list[str | None]:
    """What OpenSSL's server takes for the name: one entry, None for no name, or empty where it gave up before that."""
    seen: list[str | None] = []

    def note(_: ssl.SSLObject | ssl.SSLSocket, name: str | None, __: ssl.SSLContext) -> None:
        seen.append(name)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.sni_callback = note
    incoming = ssl.MemoryBIO()
    incoming.write(data)
    with contextlib.suppress(ssl.SSLError, UnicodeError):  # it has no certificate, and the hello may be anything
        context.wrap_bio(incoming, ssl.MemoryBIO(), server_side=True).do_handshake()
    return seen


def openssl_says(name: str, *, versions: Sequence[ssl.TLSVersion] = ()) -> bytes:
    """The first bytes of this Python's own client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if versions:
        context.minimum_version, context.maximum_version = versions
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("a handshake ended without a server")


class Listener:
    """Takes connections and keeps the first bytes of each up to the reader's answer; answers a CONNECT with 200.

    Attributes:
        port: On 127.0.0.1.
        taken: One entry a connection: the bytes inside the tunnel, where there was one.
    """

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(20)
        self.port: int = self._server.getsockname()[1]
        self.taken: list[bytes] = []
        self._thread = threading.Thread(target=self._take)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.join()
        self._server.close()

    def _take(self) -> None:
        try:
            client, _ = self._server.accept()
        except TimeoutError:
            return
        with client:
            client.settimeout(20)
            data = client.recv(65_536)
            if data.startswith(b"CONNECT "):
                while b"\r\n\r\n" not in data:
                    data += client.recv(65_536)
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                data = client.recv(65_536)
            reader = HelloReader()
            while data and reader.feed(data) is NEED_MORE:
                data = client.recv(65_536)
            self.taken.append(bytes(reader.held))
