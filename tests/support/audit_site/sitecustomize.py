"""Ends a Python process that looks a name up, or sends anything to other than the one allowed place.

Loaded by the interpreter itself at start (the folder is put on PYTHONPATH), before any line of the program under test.
`AUDIT_ALLOW` names the place: `unix:/path` or `http://ADDRESS:PORT`. An audit hook cannot be removed or caught around.
"""

from __future__ import annotations

import os
import sys

_CODE = 97
_LOOK_UPS = {
    "socket.getaddrinfo",
    "socket.gethostbyname",
    "socket.gethostbyaddr",
    "socket.getnameinfo",
}
_SENDS = {"socket.connect", "socket.sendto", "socket.sendmsg"}


def _place() -> object:
    text = os.environ.get("AUDIT_ALLOW", "")
    if text.startswith("unix:"):
        return text.removeprefix("unix:")
    host, _, port = text.removeprefix("http://").rpartition(":")
    return (host, int(port)) if port.isdigit() else None


_ALLOWED = _place()


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if event in _LOOK_UPS:
        _end(f"{event} {arguments!r}")
    elif event in _SENDS:
        # sendmsg on a connected socket has no address; the connect before it was looked at.
        address = arguments[1]
        if address is not None and address != _ALLOWED:
            _end(f"{event} {address!r}")


def _end(what: str) -> None:
    os.write(2, f"audit: {what}\n".encode())
    os._exit(_CODE)


sys.addaudithook(_hook)
