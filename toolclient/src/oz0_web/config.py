"""The client's configuration as frozen values: where the proxy is, and what else was found out about the environment.

Holds and decides nothing more; `settings` makes these from environment text, `link` is the one that opens the address.
The credential is kept out of `repr`, so that no log line or traceback can show it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from oz0_web.tokens import ProfileName


@dataclass(frozen=True, slots=True)
class TcpProxy:
    """A proxy on TCP.

    Attributes:
        addresses: Address literals in the order they are tried; two only for `localhost`.
        port: 1 to 65535.
        host_text: The host as it was written, for messages and for the Host field.
    """

    addresses: tuple[str, ...]
    port: int
    host_text: str

    def __str__(self) -> str:
        """Give host and port as they stand in an authority, IPv6 in brackets."""
        return f"[{self.host_text}]:{self.port}" if ":" in self.host_text else f"{self.host_text}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnixProxy:
    """A proxy on a Unix socket, by absolute path."""

    path: str

    def __str__(self) -> str:
        """Give the path in the form in which it is configured."""
        return f"unix:{self.path}"


ProxyAddress: TypeAlias = TcpProxy | UnixProxy


@dataclass(frozen=True, slots=True)
class Config:
    """All that the client takes from its environment.

    Attributes:
        proxy: The only address that is ever connected to.
        source: Name of the variable the address came from, for messages.
        authorization: Value of Proxy-Authorization, or None. Secret.
        ca_file: The file SSL_CERT_FILE names, or None for the system's trust store.
        estimator: The profile that counts tokens; it belongs to the family of the model that reads the answers.
        notes: What a user should be told although nothing is wrong, such as an ignored NO_PROXY.
    """

    proxy: ProxyAddress
    source: str
    authorization: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    estimator: ProfileName = "generic"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One thing wrong with the environment.

    Attributes:
        variable: The variable, or the variables that could have been set.
        found: What stands there, without user info.
        problem: What is wrong with it.
        write_instead: What to write.
    """

    variable: str
    found: str
    problem: str
    write_instead: str

    def __str__(self) -> str:
        """Give one line with all four parts."""
        found = f" ({self.found})" if self.found else ""
        return f"{self.variable}{found}: {self.problem}; {self.write_instead}"


class ConfigError(Exception):
    """The environment does not say how to reach the proxy, so nothing is sent. The operator is to mend it.

    Attributes:
        problems: All of them at once, in the order of the variables.
    """

    def __init__(self, problems: tuple[ConfigProblem, ...]) -> None:
        """Keep the problems; the message is one line for each."""
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems
