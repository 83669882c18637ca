"""Spellings of single configuration values: each accepted form, and its neighbours just outside."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic_core import PydanticCustomError

from egressd.supervisor import settings


def told(check: Callable[[str], str], text: str) -> tuple[str, str]:
    """The problem and what to write instead."""
    with pytest.raises(PydanticCustomError) as caught:
        check(text)
    assert caught.value.context is not None
    return caught.value.message(), caught.value.context["write_instead"]


@pytest.mark.parametrize("text", ["default", "a", "_x", "9-a.b", "A" * 63])
def test_names_of_tenants(text: str) -> None:
    assert settings.label(text) == text


@pytest.mark.parametrize("text", ["", ".", "..", "../x", "a/b", "-a", ".a", "a b", "ä", "a\n", "a\0", "A" * 64])
def test_names_that_would_be_no_file_names_are_refused(text: str) -> None:
    assert told(settings.label, text)[1].startswith("letters, digits")


@pytest.mark.parametrize(
    ("text", "found"), [("10.0.0.7", "10.0.0.7"), ("2001:DB8::7", "2001:db8::7"), ("::ffff:10.0.0.7", "10.0.0.7")]
)
def test_addresses_are_made_canonical(text: str, found: str) -> None:
    assert settings.address(text) == found


@pytest.mark.parametrize("text", ["", "10.0.0", "010.0.0.7", "10.0.0.7/32", "[::1]", "fe80::1%eth0", "example.com"])
def test_what_is_no_address_is_refused(text: str) -> None:
    assert told(settings.address, text)[1].startswith("an IP address")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("10.0.0.7", "10.0.0.7/32"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("2001:db8::/32", "2001:db8::/32"),
        ("::1", "::1/128"),
    ],
)
def test_networks_are_made_canonical(text: str, found: str) -> None:
    assert settings.network(text) == found


@pytest.mark.parametrize(
    "text", ["", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/+8", "10.0.0.0/255.0.0.0", "10.0.0.0/8/8", "10/8", "::/129", "x"]
)
def test_what_is_no_network_is_refused(text: str) -> None:
    assert told(settings.network, text)[0] == "not a network"


def test_an_address_inside_a_network_is_refused_with_both_meanings() -> None:
    assert told(settings.network, "10.0.0.7/8") == (
        "an address inside a network",
        '"10.0.0.0/8", or "10.0.0.7" for the one address',
    )


def test_an_ipv4_network_in_ipv6_clothes_is_refused() -> None:
    assert told(settings.network, "::ffff:10.0.0.0/104")[1] == "it as IPv4: 10.0.0.0"


@pytest.mark.parametrize(
    "text", ["10.20.0.0/16", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fd00::/8", "10.0.0.7"]
)
def test_private_networks_may_be_opened(text: str) -> None:
    assert settings.private_network(text) == settings.network(text)


@pytest.mark.parametrize(
    "text",
    [
        "9.255.255.255",
        "11.0.0.0/8",
        "172.32.0.0/16",
        "192.167.255.255",
        "8.8.8.0/24",
        "127.0.0.0/8",
        "169.254.169.254",
        "0.0.0.0/0",
        "10.0.0.0/7",
        "fe80::/10",
        "2000::/3",
        "fd00:ec2::254",
    ],
)
def test_nothing_public_and_nothing_of_the_floor_may_be_opened(text: str) -> None:
    assert told(settings.private_network, text)[0] == "not private address space"


@pytest.mark.parametrize("text", ["", "64:ff9b::/96", "2001:db8::/32", "2001:db8:100::/40", "2001:db8:122:300::/56"])
def test_nat64_prefixes_have_the_lengths_of_rfc_6052(text: str) -> None:
    assert settings.nat64_prefix(text) == text


@pytest.mark.parametrize("text", ["64:ff9b::/95", "2001:db8::/33", "10.0.0.0/8", "64:ff9b::"])
def test_other_nat64_prefixes_are_refused(text: str) -> None:
    assert told(settings.nat64_prefix, text)[0] == "not a NAT64 prefix"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1:3128", "127.0.0.1:3128"),
        ("[::1]:3128", "[::1]:3128"),
        ("[2001:DB8::7]:1", "[2001:db8::7]:1"),
        ("[::ffff:127.0.0.1]:80", "127.0.0.1:80"),
        ("127.0.0.1:0", "127.0.0.1:0"),
        ("127.0.0.1:65535", "127.0.0.1:65535"),
    ],
)
def test_tcp_addresses(text: str, found: str) -> None:
    assert settings.tcp_address(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":3128",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:65536",
        "127.0.0.1:+80",
        "127.0.0.1:8_0",
        "127.0.0.1:٨٠",
        "::1:3128",
        "[127.0.0.1]:3128",
        "localhost:3128",
        "127.1:3128",
    ],
)
def test_other_tcp_addresses_are_refused(text: str) -> None:
    assert told(settings.tcp_address, text)[0] == "not an address with a port"


@pytest.mark.case("H2")
@pytest.mark.parametrize(("text", "fits"), [("127.0.0.1:1", True), ("127.9.9.9:1", True), ("[::1]:1", True)])
def test_the_admin_api_takes_loopback(text: str, fits: bool) -> None:
    assert (settings.loopback_tcp_address(text) == text) is fits


@pytest.mark.case("H2")
@pytest.mark.parametrize("text", ["0.0.0.0:1", "[::]:1", "128.0.0.1:1", "126.255.255.255:1", "10.0.0.1:1", "[::2]:1"])
def test_the_admin_api_takes_nothing_but_loopback(text: str) -> None:
    assert told(settings.loopback_tcp_address, text)[0] == "not a loopback address"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.53", "127.0.0.53"),
        ("127.0.0.1:53", "127.0.0.1"),
        ("127.0.0.1:5353", "127.0.0.1:5353"),
        ("::1", "::1"),
        ("[::1]:5353", "[::1]:5353"),
    ],
)
def test_resolvers(text: str, found: str) -> None:
    assert settings.resolver(text) == found


@pytest.mark.parametrize("text", ["", "dns.internal", "127.0.0.1:0", "127.0.0.1:99999", "fe80::1%eth0"])
def test_other_resolvers_are_refused(text: str) -> None:
    assert told(settings.resolver, text)[0] == "not a name server's address"


def test_host_names_become_a_labels() -> None:
    assert settings.host_name("Bücher.Example.") == "xn--bcher-kva.example"


@pytest.mark.parametrize("text", ["", "a..b", "127.0.0.1", "a b", "*.example"])
def test_other_host_names_are_refused(text: str) -> None:
    assert told(settings.host_name, text)[1].startswith("a host name")


@pytest.mark.parametrize(
    ("text", "found"),
    [("searx.internal:8080", "searx.internal:8080"), ("10.0.0.7:80", "10.0.0.7:80"), ("[fd00::7]:1", "[fd00::7]:1")],
)
def test_endpoints(text: str, found: str) -> None:
    assert settings.authority(text) == found


@pytest.mark.parametrize("text", ["searx.internal", "searx.internal:", "*.internal:80", "ü:80", "a:0"])
def test_other_endpoints_are_refused(text: str) -> None:
    assert told(settings.authority, text)[1].startswith("a host and a port")


@pytest.mark.parametrize("text", ["egressctl tenant {tenant} allow {host}", "ask-for {host}", "{host} {{literally}}"])
def test_command_templates(text: str) -> None:
    assert settings.command_template(text) == text


@pytest.mark.parametrize(
    "text", ["", "ask", "{tenant}", "{host} {0}", "{host.__class__}", "{host[0]}", "{host} {", "{host}\n{tenant}"]
)
def test_other_command_templates_are_refused(text: str) -> None:
    assert "{host}" in told(settings.command_template, text)[1]


def test_socket_paths_fit_into_an_address() -> None:
    assert settings.unix_path("a" * 107) == "a" * 107
    assert settings.optional_unix_path("") == ""
    for text in ("", "a" * 108, "ä" * 54, "a\0b"):
        assert "107 bytes" in told(settings.unix_path, text)[1]


@pytest.mark.parametrize(
    ("text", "fits"), [("0660", True), ("600", True), ("0o660", False), ("0888", False), ("", False)]
)
def test_file_modes_are_octal(text: str, fits: bool) -> None:
    if fits:
        assert settings.file_mode(text) == text
    else:
        assert told(settings.file_mode, text)[0] == "not a file mode"
