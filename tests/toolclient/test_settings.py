"""Which variable names the proxy, what its value may be, and that a wrong one never shows its secret."""

from __future__ import annotations

import base64

import pytest

from oz0_web.config import Config, ConfigError, TcpProxy, UnixProxy
from oz0_web.settings import VARIABLES, read_config


def problem_of(value: str, variable: str = "OZ0_WEB_PROXY") -> str:
    with pytest.raises(ConfigError) as caught:
        read_config({variable: value})
    return str(caught.value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("http://127.0.0.1:3128", TcpProxy(("127.0.0.1",), 3128, "127.0.0.1")),
        ("http://127.0.0.1:3128/", TcpProxy(("127.0.0.1",), 3128, "127.0.0.1")),
        ("HTTP://10.0.0.1:1", TcpProxy(("10.0.0.1",), 1, "10.0.0.1")),
        ("10.0.0.1:65535", TcpProxy(("10.0.0.1",), 65535, "10.0.0.1")),
        ("http://[::1]:3128", TcpProxy(("::1",), 3128, "::1")),
        ("http://localhost:3128", TcpProxy(("127.0.0.1", "::1"), 3128, "localhost")),
        ("http://LOCALHOST:3128", TcpProxy(("127.0.0.1", "::1"), 3128, "localhost")),
        ("unix:/run/egressd/job.sock", UnixProxy("/run/egressd/job.sock")),
        ("unix:///run/egressd/job.sock", UnixProxy("/run/egressd/job.sock")),
    ],
)
def test_an_address_localhost_or_a_socket_is_taken(value: str, expected: TcpProxy | UnixProxy) -> None:
    config = read_config({"OZ0_WEB_PROXY": value})

    assert (config.proxy, config.source, config.authorization) == (expected, "OZ0_WEB_PROXY", None)


@pytest.mark.parametrize("position", range(len(VARIABLES)))
def test_the_first_variable_that_is_set_counts(position: int) -> None:
    environ = {name: f"http://127.0.0.1:{number + 1}" for number, name in enumerate(VARIABLES) if number >= position}

    config = read_config(environ)

    assert config.source == VARIABLES[position]
    assert config.proxy == TcpProxy(("127.0.0.1",), position + 1, "127.0.0.1")


def test_without_a_proxy_the_error_names_every_variable() -> None:
    with pytest.raises(ConfigError) as caught:
        read_config({"PATH": "/bin"})

    assert all(name in str(caught.value) for name in ("OZ0_WEB_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "unix:/path"))


@pytest.mark.requirement("X28")
def test_a_wrong_value_never_gives_way_to_the_next_variable() -> None:
    with pytest.raises(ConfigError, match="OZ0_WEB_PROXY"):
        read_config({"OZ0_WEB_PROXY": "", "HTTPS_PROXY": "http://127.0.0.1:3128"})


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("http://proxy.internal:3128", "resolves no names"),
        ("http://proxy:3128", "resolves no names"),
        ("http://127.1:3128", "resolves no names"),
        ("http://0x7f000001:3128", "resolves no names"),
        ("http://127.0.0.01:3128", "resolves no names"),
        ("http://localhost.:3128", "resolves no names"),
        ("https://127.0.0.1:3128", "scheme"),
        ("socks5://127.0.0.1:1080", "scheme"),
        ("http://127.0.0.1", "port"),
        ("http://127.0.0.1:", "port"),
        ("http://127.0.0.1:0", "port"),
        ("http://127.0.0.1:65536", "port"),
        ("http://127.0.0.1:٣١٢٨", "outside ASCII"),
        ("http://127.0.0.1:+80", "port"),
        ("http://127.0.0.1:3128/path", "path"),
        ("http://127.0.0.1:3128?x", "path"),
        ("http://127.0.0.1:3128#x", "path"),
        ("http://127.0.0.1:31 28", "space"),
        ("http://127.0.0.1:3128\r\nX: y", "control"),
        ("http://::1:3128", "resolves no names"),
        ("http://[::1]", "brackets"),
        ("http://[::1:3128", "brackets"),
        ("http://[127.0.0.1]:3128", "not an IPv6 address"),
        ("http://[fe80::1%25eth0]:3128", "not an IPv6 address"),
        ("unix:relative.sock", "absolute"),
        ("unix:/" + "x" * 107, "107 bytes"),
        ("http://:secret@127.0.0.1:3128", "user:password"),
        ("http://a%3Ab:secret@127.0.0.1:3128", "user:password"),
        ("http://a%0Ab:secret@127.0.0.1:3128", "user:password"),
    ],
)
def test_what_cannot_be_used_is_an_error_that_says_why_and_what_to_write(value: str, said: str) -> None:
    message = problem_of(value)

    assert said in message
    assert "write" in message
    assert "secret" not in message


def test_a_socket_path_belongs_into_our_own_variable_only() -> None:
    assert "OZ0_WEB_PROXY=unix:" in problem_of("unix:/run/x.sock", "HTTPS_PROXY")


def test_user_info_becomes_a_basic_credential() -> None:
    config = read_config({"HTTPS_PROXY": "http://job%2F1:s%40cret:x@127.0.0.1:3128"})

    assert config.authorization == "Basic " + base64.b64encode(b"job/1:s@cret:x").decode()


@pytest.mark.parametrize(
    "value", ["http://job:s3cret@proxy.example:3128", "ftp://job:s3cret@127.0.0.1:1", "job:s3cret@[::1"]
)
def test_a_credential_is_never_echoed_by_an_error(value: str) -> None:
    message = problem_of(value)

    assert "s3cret" not in message
    assert "job" not in message.replace("job.sock", "")


def test_a_credential_is_not_in_the_repr_of_the_configuration() -> None:
    config = read_config({"HTTPS_PROXY": "http://job:s3cret@127.0.0.1:3128"})

    assert "Basic" not in repr(config)
    assert config != Config(config.proxy, config.source)


def test_no_proxy_is_ignored_and_told() -> None:
    config = read_config({"HTTPS_PROXY": "http://127.0.0.1:3128", "NO_PROXY": "*", "no_proxy": "localhost"})

    assert [note.split()[0] for note in config.notes] == ["NO_PROXY", "no_proxy"]


def test_the_file_of_trusted_certificates_is_taken_from_the_environment() -> None:
    base = {"HTTPS_PROXY": "http://127.0.0.1:3128"}

    assert read_config({**base, "SSL_CERT_FILE": "/etc/own.pem"}).ca_file == "/etc/own.pem"
    assert read_config({**base, "SSL_CERT_FILE": ""}).ca_file is None


@pytest.mark.parametrize(("text", "name"), [("generic", "generic"), (" Claude ", "claude")])
def test_the_estimator_is_a_setting(text: str, name: str) -> None:
    proxy = "http://127.0.0.1:3128"

    assert read_config({"OZ0_WEB_PROXY": proxy, "OZ0_WEB_ESTIMATOR": text}).estimator == name
    assert read_config({"OZ0_WEB_PROXY": proxy}).estimator == "generic"


@pytest.mark.parametrize("text", ["", "gpt"])
def test_an_estimator_that_does_not_exist_is_told_with_those_that_do(text: str) -> None:
    with pytest.raises(ConfigError, match=r"OZ0_WEB_ESTIMATOR.*write generic or claude"):
        read_config({"OZ0_WEB_PROXY": "http://127.0.0.1:3128", "OZ0_WEB_ESTIMATOR": text})
