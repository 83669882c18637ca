"""What can go wrong on the way, as flat exceptions that carry data and no prose.

Raised by `link`, `tunnel`, `conversation`, `exchange` and `decoding`; `visit` is the border that makes a `Stop` of
each. A refusal is never one of them: refusals are values.
"""

from __future__ import annotations

from dataclasses import dataclass


class Fault(Exception):
    """Base of all; raised only through its children."""


@dataclass(eq=False)
class ProxyUnreachable(Fault):
    """The proxy's address did not take a connection.

    Attributes:
        proxy: The address as it is configured.
        detail: The operating system's word for it.
    """

    proxy: str
    detail: str


@dataclass(eq=False)
class ProxyBroke(Fault):
    """What answers at the proxy's address does not behave as an HTTP proxy.

    Attributes:
        detail: What it did.
    """

    detail: str


@dataclass(eq=False)
class TlsFault(Fault):
    """No trusted TLS connection to the named host came about.

    Attributes:
        host: The name or address that the certificate had to be for.
        detail: What the TLS library says.
        is_certificate: Whether the certificate was the trouble; trying again does not help then.
    """

    host: str
    detail: str
    is_certificate: bool


@dataclass(eq=False)
class TrustFault(Fault):
    """The file of trusted certificates that the environment names cannot be used.

    Attributes:
        path: The file.
        detail: What is wrong with it.
    """

    path: str
    detail: str


@dataclass(eq=False)
class PeerBroke(Fault):
    """The peer broke HTTP or a content coding.

    Attributes:
        detail: The rule it broke.
    """

    detail: str


@dataclass(eq=False)
class PeerCut(Fault):
    """The connection ended before the message did.

    Attributes:
        detail: How far it had come.
    """

    detail: str


@dataclass(eq=False)
class TimedOut(Fault):
    """A time budget was used up.

    Attributes:
        waited_for: What had not come, as words that follow "no".
        seconds: The budget.
    """

    waited_for: str
    seconds: float
