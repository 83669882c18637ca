"""A client of raw bytes: what a test writes to the proxy is what the proxy gets, and what comes back is taken strictly.

Used by the system tests and the demo, for requests that no HTTP library would send. Never resolves a name.
"""

from __future__ import annotations

import re
import socket
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# Longer than any step that should take no time at all, shorter than the deadlines that the tests are about.
PATIENCE_SECONDS = 10.0
_REASON = re.compile(r"; reason=([a-z0-9-]+)")
_ERROR = re.compile(r"egressd; error=([a-z0-9_]+)")


@dataclass(frozen=True, slots=True)
class Reply:
    """One response: its head taken apart, and the bytes that came after the head."""

    line: str
    fields: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def status(self) -> int:
        """The status code."""
        return int(self.line.split(" ", 2)[1])

    @property
    def phrase(self) -> str:
        """What stands after the status code."""
        return self.line.split(" ", 2)[2]

    def get(self, name: str) -> list[str]:
        """Every value of one field, in order."""
        return [value for field, value in self.fields if field == name.lower()]

    @property
    def reason(self) -> str | None:
        """The reason in the one `Proxy-Status` of a refusal; None for a reply that is not the proxy's own."""
        return self._status_part(_REASON)

    @property
    def error(self) -> str | None:
        """The RFC 9209 type in the one `Proxy-Status` of a refusal."""
        return self._status_part(_ERROR)

    def _status_part(self, pattern: re.Pattern[str]) -> str | None:
        values = self.get("proxy-status")
        if not values:
            return None
        assert len(values) == 1, f"more than one Proxy-Status: {values}"
        found = pattern.search(values[0])
        return found and found[1]


def parse_reply(raw: bytes) -> Reply:
    """Take one response apart, strictly: every line ends in CRLF, every field has a colon.

    Raises:
        ValueError: There is no whole head in it.
    """
    head, blank, body = raw.partition(b"\r\n\r\n")
    if not blank:
        raise ValueError(f"no head in {raw[:200]!r}")
    line, *rest = head.decode("ascii").split("\r\n")
    fields = []
    for text in rest:
        name, colon, value = text.partition(":")
        if not colon or name != name.strip():
            raise ValueError(f"not a field: {text!r}")
        fields.append((name.lower(), value.strip()))
    return Reply(line, tuple(fields), body)


def read_all(stream: socket.socket) -> bytes:
    """Everything up to the end of the stream. A reset is an error: a refusal must be readable to its end."""
    parts = []
    while part := stream.recv(65_536):
        parts.append(part)
    return b"".join(parts)


def read_head(stream: socket.socket) -> tuple[Reply, bytes]:
    """One response's head, and what was read after it."""
    raw = bytearray()
    while b"\r\n\r\n" not in raw:
        part = stream.recv(65_536)
        if not part:
            break
        raw += part
    reply = parse_reply(bytes(raw))
    return Reply(reply.line, reply.fields, b""), reply.body


def ask(connect: Callable[[], socket.socket], request: bytes | Iterable[bytes]) -> Reply:
    """Open a connection, write a request, and read to the end.

    Args:
        request: All bytes at once, or pieces that are written one by one.
    """
    with closing(connect()) as stream:
        for piece in (request,) if isinstance(request, bytes) else request:
            stream.sendall(piece)
        return parse_reply(read_all(stream))


def connect_request(authority: str, *fields: str, host: str | None = None) -> bytes:
    """The head of a CONNECT, with its Host."""
    lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority if host is None else host}", *fields]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8")


def get_request(url: str, *fields: str, method: str = "GET", close: bool = True) -> bytes:
    """The head of a plain request in absolute form, with its Host."""
    authority = url.split("/", 3)[2]
    ending = ("Connection: close",) if close else ()
    return ("\r\n".join([f"{method} {url} HTTP/1.1", f"Host: {authority}", *ending, *fields]) + "\r\n\r\n").encode(
        "utf-8"
    )
