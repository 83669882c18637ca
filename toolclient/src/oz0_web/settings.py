"""From environment text to a `Config`, or to every problem in it at once.

Decides which variable names the proxy and whether its value can be used without looking up a name. Reads no file and no
environment itself: the mapping comes in. A variable that is set counts, empty or wrong included, and never gives way to
the next one: a client that fell back would send its requests to a proxy nobody chose. Called by `cli`, `tools` and the
façades.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from urllib.parse import unquote_to_bytes

from egress_policy.addresses import parse_address
from oz0_web.config import Config, ConfigError, ConfigProblem, ProxyAddress, TcpProxy, UnixProxy
from oz0_web.tokens import PROFILE_NAMES, ProfileName

OWN_VARIABLE = "OZ0_WEB_PROXY"
# In the order in which they are asked; upper case first because that is how the documentation of this system writes
# them.
VARIABLES = (OWN_VARIABLE, "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")
ESTIMATOR_VARIABLE = "OZ0_WEB_ESTIMATOR"
IGNORED_VARIABLES = ("NO_PROXY", "no_proxy")

# sockaddr_un.sun_path is 108 bytes with its final NUL (unix(7)).
_UNIX_PATH_MAX_BYTES = 107
_PORT_MAX = 65_535
_PORT_MAX_DIGITS = 5
_EXAMPLE = "http://127.0.0.1:3128"
_FOUND_MAX_CHARACTERS = 80

_NO_PROXY_SET = ConfigProblem(
    variable="no proxy is set",
    found="",
    problem="oz0-web sends every request through the egress proxy and has no other way out, so nothing was sent",
    write_instead=f"set {OWN_VARIABLE} (also unix:/path), HTTPS_PROXY or HTTP_PROXY, as in {OWN_VARIABLE}={_EXAMPLE}",
)


def read_config(environ: Mapping[str, str]) -> Config:
    """Take the proxy's address and what belongs to it from the environment.

    Args:
        environ: The environment; `os.environ` outside tests.

    Returns:
        The configuration, with notes on what was ignored.

    Raises:
        ConfigError: No proxy is named, or what names it cannot be used, or a setting has no such value. The
            operator is to mend it.
    """
    source = next((name for name in VARIABLES if name in environ), None)
    if source is None:
        raise ConfigError((_NO_PROXY_SET,))
    parsed = _parse_proxy(environ[source], source)
    if isinstance(parsed, ConfigProblem):
        raise ConfigError((parsed,))
    proxy, authorization = parsed
    estimator = _read_estimator(environ)
    if isinstance(estimator, ConfigProblem):
        raise ConfigError((estimator,))
    return Config(
        proxy=proxy,
        source=source,
        authorization=authorization,
        ca_file=environ.get("SSL_CERT_FILE") or None,
        estimator=estimator,
        notes=_notes(environ),
    )


def _read_estimator(environ: Mapping[str, str]) -> ProfileName | ConfigProblem:
    if ESTIMATOR_VARIABLE not in environ:
        return "generic"
    text = environ[ESTIMATOR_VARIABLE]
    for name in PROFILE_NAMES:
        if text.strip().lower() == name:
            return name
    return ConfigProblem(
        ESTIMATOR_VARIABLE,
        repr(text[:_FOUND_MAX_CHARACTERS]),
        "no such profile of the token estimate",
        f"write {' or '.join(PROFILE_NAMES)}, or leave it out",
    )


def _notes(environ: Mapping[str, str]) -> tuple[str, ...]:
    ignored = [name for name in IGNORED_VARIABLES if environ.get(name)]
    return tuple(f"{name} is ignored: oz0-web reaches nothing without the proxy" for name in ignored)


def _parse_proxy(text: str, variable: str) -> tuple[ProxyAddress, str | None] | ConfigProblem:
    def problem(what: str, write: str = f"write for example {variable}={_EXAMPLE}") -> ConfigProblem:
        return ConfigProblem(variable, _without_user_info(text), what, write)

    if not text.strip():
        return problem("it is set but empty")
    if not text.isascii() or not text.isprintable() or " " in text:
        return problem("it has a space, a control character or a character outside ASCII")
    if text.startswith("unix:"):
        return _parse_unix(text.removeprefix("unix:"), variable)
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "http", text
    if scheme.lower() != "http":
        return problem(
            "the scheme is not http: the proxy speaks plain HTTP/1.1, and TLS to a site goes through its CONNECT"
        )
    authority = rest.removesuffix("/")
    if any(mark in authority for mark in "/?#\\"):
        return problem("there is a path, query or fragment after the address")
    user_info, at, host_port = authority.rpartition("@")
    address = _parse_host_port(host_port)
    if isinstance(address, str):
        return problem(address)
    if not at:
        return address, None
    authorization = _basic(user_info)
    if authorization is None:
        return problem(
            "its user info is not of the form user:password", f"write {variable}=http://USER:PASSWORD@{address}"
        )
    return address, authorization


def _parse_unix(path: str, variable: str) -> tuple[UnixProxy, None] | ConfigProblem:
    path = path.removeprefix("//")
    write = f"write {OWN_VARIABLE}=unix:/run/egressd/job.sock"
    if variable != OWN_VARIABLE:
        return ConfigProblem(variable, f"unix:{path}", "other programs cannot read a Unix socket there", write)
    if not path.startswith("/"):
        return ConfigProblem(variable, f"unix:{path}", "the path is not absolute", write)
    if len(path) > _UNIX_PATH_MAX_BYTES:
        return ConfigProblem(variable, "", f"the path is longer than {_UNIX_PATH_MAX_BYTES} bytes", write)
    return UnixProxy(path), None


def _parse_host_port(text: str) -> TcpProxy | str:
    """Give the proxy's address, or what is wrong with the text."""
    if text.startswith("["):
        host, bracket, tail = text[1:].partition("]")
        if not bracket or not tail.startswith(":"):
            return "an IPv6 address needs brackets and a port, as in [::1]:3128"
        digits, literal = tail[1:], parse_address(host)
        if literal is None or ":" not in host:
            return "what stands in the brackets is not an IPv6 address"
    else:
        host, colon, digits = text.rpartition(":")
        if not colon:
            return "it has no port"
        literal = parse_address(host)
    port = int(digits) if digits.isdecimal() and len(digits) <= _PORT_MAX_DIGITS else 0
    if not 0 < port <= _PORT_MAX:
        return "its port is not a number from 1 to 65535"
    if host.lower() == "localhost":
        return TcpProxy(("127.0.0.1", "::1"), port, "localhost")
    if literal is None or (":" in host and not text.startswith("[")):
        return "its host is neither an address nor localhost, and oz0-web resolves no names, the proxy's included"
    return TcpProxy((str(literal),), port, str(literal))


def _basic(user_info: str) -> str | None:
    """Give the Basic credential for percent-encoded user info, or None.

    Source: RFC 7617 section 2.
    """
    user, colon, password = user_info.partition(":")
    credential = unquote_to_bytes(user) + b":" + unquote_to_bytes(password)
    if not user or b":" in unquote_to_bytes(user) or (not colon and not user) or min(credential) < ord(" "):
        return None
    return "Basic " + base64.b64encode(credential).decode("ascii")


def _without_user_info(text: str) -> str:
    head, at, tail = text.rpartition("@")
    scheme = head.partition("://")[0] + "://" if "://" in head else ""
    shown = f"{scheme}…@{tail}" if at else text
    return repr(shown[:_FOUND_MAX_CHARACTERS])
