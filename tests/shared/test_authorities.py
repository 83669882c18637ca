"""Hosts and ports as text, and the Host field's comparison with a target."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from egress_policy.authorities import (
    BadTarget,
    Target,
    parse_port,
    read_authority,
    read_host,
    same_authority,
    split_authority,
)
from egress_policy.names import HostName
from egress_policy.vocabulary import Reason


def target(text: str) -> Target:
    found = read_authority(text, scheme="https", default_port=443)
    assert isinstance(found, Target), found
    return found


@pytest.mark.parametrize(
    ("text", "host_text", "authority"),
    [
        ("Example.COM.:8443", "example.com", "example.com:8443"),
        ("example.com", "example.com", "example.com:443"),
        ("10.0.0.7:80", "10.0.0.7", "10.0.0.7:80"),
        ("[2001:DB8::1]:443", "2001:db8::1", "[2001:db8::1]:443"),
        ("[::ffff:102:304]", "::ffff:1.2.3.4", "[::ffff:1.2.3.4]:443"),
    ],
)
def test_a_target_has_its_texts_ready(text: str, host_text: str, authority: str) -> None:
    found = target(text)

    assert (found.host_text, found.authority) == (host_text, authority)
    assert found == Target("https", found.host, found.port)
    assert hash(found) == hash(Target("https", found.host, found.port))


@pytest.mark.parametrize("port", range(1, 65536, 4369))
def test_every_port_is_read(port: int) -> None:
    assert parse_port(str(port)) == port
    assert parse_port(f"{port:05}") == port


@pytest.mark.case("D12")
@pytest.mark.parametrize(
    "text",
    [
        *("", "0", "00000", "65536", "99999", "000080", "+443", "-1", "4_4_3", " 443", "443 ", "443\n", "4٤3", "٤٤٣"),
        *("４４３", "0x50", "1e3", "8080-8081", "*", "https", "443:443", "9" * 100_000),
    ],
)
def test_a_port_is_one_to_five_ascii_digits_in_range(text: str) -> None:
    assert parse_port(text) is None


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("host:1", ("host", "1")),
        ("host", ("host", None)),
        ("host:", ("host", "")),
        ("[::1]", ("[::1]", None)),
        ("[::1]:1", ("[::1]", "1")),
        ("::1:443", ("::1", "443")),
        ("a:b:1", ("a:b", "1")),
        ("[::1]:1]", ("[::1]:1]", None)),
        ("", ("", None)),
    ],
)
def test_the_port_follows_the_last_colon_outside_brackets(text: str, parts: tuple[str, str | None]) -> None:
    assert split_authority(text) == parts


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "[", "]", "[::1", "::1]", "::1", "[[::1]]", "[::1]]", "[127.0.0.1]", "[example.net]", "[v1.a]"),
        *("[::1]x", "x[::1]", "[::1 ]", "[ ::1]", "1:2:3:4:5:6:7:8", "[::1%]x", "[%]", "[%eth0]", "[fe80::g%eth0]"),
    ],
)
def test_an_address_stands_in_exactly_one_pair_of_brackets(text: str) -> None:
    found = read_host(text)

    assert isinstance(found, BadTarget)
    assert found.reason is Reason.MALFORMED_TARGET


@pytest.mark.case("D10")
@pytest.mark.parametrize("text", ["[fe80::1%eth0]", "[fe80::1%25eth0]", "[::1%]", "[::1%00]", "[::ffff:1.2.3.4%1]"])
def test_a_zone_is_refused_as_such(text: str) -> None:
    found = read_host(text)

    assert isinstance(found, BadTarget)
    assert found.reason is Reason.SCOPED_IP


def test_a_host_is_a_name_or_an_address() -> None:
    assert read_host("a.b2") == HostName("a.b2")
    assert read_host("1.2.3.4") == ip_address("1.2.3.4")
    assert read_host("[::1]") == ip_address("::1")


@pytest.mark.parametrize(
    ("value", "asked"),
    [
        (b"example.com", "example.com:443"),
        (b"example.com:443", "example.com:443"),
        (b"EXAMPLE.com.", "example.com:443"),
        (b"example.com.:0443", "example.com:443"),
        (b"10.0.0.7", "10.0.0.7:8080"),
        (b"10.0.0.7:8080", "10.0.0.7:8080"),
        (b"[2001:DB8::1]", "[2001:db8:0::1]:443"),
        (b"[2001:db8::1]:443", "[2001:db8::1]:443"),
    ],
)
def test_a_host_field_of_the_same_text_names_the_target(value: bytes, asked: str) -> None:
    assert same_authority(value, target(asked))


@pytest.mark.parametrize(
    ("value", "asked"),
    [
        (b"", "example.com:443"),
        (b"other.example", "example.com:443"),
        (b"example.com:80", "example.com:443"),
        (b"example.com:", "example.com:443"),
        (b"example.com:+443", "example.com:443"),
        (b"example.com..", "example.com:443"),
        (b"www.example.com", "example.com:443"),
        (b"example.com@example.com", "example.com:443"),
        (b"ex\xe4mple.com", "example.com:443"),
        (b"example.com" * 100, "example.com:443"),
        (b"10.0.0.7.", "10.0.0.7:80"),
        (b"[::ffff:10.0.0.7]", "10.0.0.7:80"),
        (b"010.0.0.7", "10.0.0.7:80"),
        (b"2001:db8::1", "[2001:db8::1]:443"),
        (b"[2001:db8:0:0:0:0:0:1]", "[2001:db8::1]:443"),
        (b"[2001:db8::1]:80", "[2001:db8::1]:443"),
    ],
)
def test_a_host_field_of_another_text_does_not(value: bytes, asked: str) -> None:
    assert not same_authority(value, target(asked))
