"""How proxy addresses and problems are shown."""

from __future__ import annotations

import pytest

from oz0_web.config import ConfigError, ConfigProblem, ProxyAddress, TcpProxy, UnixProxy


@pytest.mark.parametrize(
    ("proxy", "shown"),
    [
        (TcpProxy(("127.0.0.1",), 3128, "127.0.0.1"), "127.0.0.1:3128"),
        (TcpProxy(("::1",), 3128, "::1"), "[::1]:3128"),
        (TcpProxy(("127.0.0.1", "::1"), 3128, "localhost"), "localhost:3128"),
        (UnixProxy("/run/x.sock"), "unix:/run/x.sock"),
    ],
)
def test_an_address_is_shown_as_it_is_configured(proxy: ProxyAddress, shown: str) -> None:
    assert str(proxy) == shown


def test_an_error_tells_every_problem_in_a_line_of_its_own() -> None:
    first = ConfigProblem("A", "'x'", "is wrong", "write y")
    second = ConfigProblem("B", "", "is missing", "write z")

    assert str(ConfigError((first, second))) == "A ('x'): is wrong; write y\nB: is missing; write z"
