"""The address table, with the neighbours just outside each range, and every way an address can be spelt."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import pytest

from egress_policy.addresses import (
    METADATA,
    NAT64_LENGTHS,
    Address,
    AddressClass,
    Network,
    Reach,
    address_text,
    classify,
    embedded_in_nat64,
    fold,
    fold_network,
    is_floor_network,
    is_metadata,
    is_private_network,
    parse_address,
)

FLOOR, PRIVATE, PUBLIC = AddressClass.FLOOR, AddressClass.PRIVATE, AddressClass.PUBLIC


def address(text: str) -> Address:
    found = parse_address(text)
    assert found is not None, text
    return found


def networks(*texts: str) -> tuple[Network, ...]:
    return tuple(ip_network(text) for text in texts)


# Each row: first and last of a range, its class, and the class just before and just after it (None: nothing there).
RANGES = [
    ("0.0.0.0", "0.255.255.255", FLOOR, None, PUBLIC),
    ("10.0.0.0", "10.255.255.255", PRIVATE, PUBLIC, PUBLIC),
    ("100.64.0.0", "100.127.255.255", PRIVATE, PUBLIC, PUBLIC),
    ("127.0.0.0", "127.255.255.255", FLOOR, PUBLIC, PUBLIC),
    ("169.254.0.0", "169.254.255.255", FLOOR, PUBLIC, PUBLIC),
    ("172.16.0.0", "172.31.255.255", PRIVATE, PUBLIC, PUBLIC),
    ("192.0.0.0", "192.0.0.255", FLOOR, PUBLIC, PUBLIC),
    ("192.0.2.0", "192.0.2.255", FLOOR, PUBLIC, PUBLIC),
    ("192.88.99.0", "192.88.99.255", FLOOR, PUBLIC, PUBLIC),
    ("192.168.0.0", "192.168.255.255", PRIVATE, PUBLIC, PUBLIC),
    ("198.18.0.0", "198.19.255.255", FLOOR, PUBLIC, PUBLIC),
    ("198.51.100.0", "198.51.100.255", FLOOR, PUBLIC, PUBLIC),
    ("203.0.113.0", "203.0.113.255", FLOOR, PUBLIC, PUBLIC),
    ("224.0.0.0", "239.255.255.255", FLOOR, PUBLIC, FLOOR),
    ("240.0.0.0", "255.255.255.255", FLOOR, FLOOR, None),
    ("168.63.129.16", "168.63.129.16", FLOOR, PUBLIC, PUBLIC),
    ("100.100.100.200", "100.100.100.200", FLOOR, PRIVATE, PRIVATE),
    ("::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", FLOOR, None, PUBLIC),
    ("2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", FLOOR, PUBLIC, PUBLIC),
    ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", FLOOR, PUBLIC, PUBLIC),
    ("2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", FLOOR, PUBLIC, PUBLIC),
    ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", FLOOR, PUBLIC, PUBLIC),
    ("4000::", "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", FLOOR, PUBLIC, PRIVATE),
    ("fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", PRIVATE, FLOOR, FLOOR),
    ("fe00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", FLOOR, PRIVATE, None),
    ("fd00:42::42", "fd00:42::42", FLOOR, PRIVATE, PRIVATE),
]


@pytest.mark.case("A13", "A14", "A15", "A16", "A17")
@pytest.mark.parametrize(("first", "last", "inside", "before", "after"), RANGES)
def test_a_range_ends_where_its_registry_says(
    first: str, last: str, inside: AddressClass, before: AddressClass | None, after: AddressClass | None
) -> None:
    low, high = address(first), address(last)

    assert (classify(low), classify(high)) == (inside, inside)
    if before is not None:
        assert classify(low - 1) is before
    if after is not None:
        assert classify(high + 1) is after


@pytest.mark.case("A13", "A14", "A16")
@pytest.mark.parametrize(
    "text",
    [
        *("0.0.0.0", "0.1.2.3", "::", "127.0.0.1", "127.127.127.127", "::1"),
        *("224.0.0.1", "239.1.2.3", "255.255.255.255", "ff02::1", "ff0e::1"),
        *("192.0.0.1", "192.0.0.9", "192.0.0.10", "192.0.0.170", "198.18.0.1", "240.0.0.1", "203.0.113.7"),
    ],
)
def test_loopback_multicast_and_reserved_addresses_are_floor(text: str) -> None:
    assert classify(address(text)) is FLOOR


@pytest.mark.case("A17")
@pytest.mark.parametrize(
    "text",
    ["fec0::1", "fe80::1", "3fff::1", "5f00::1", "100::1", "100:0:0:1::1", "2001:db8::1", "4000::1", "e000::1", "1::1"],
)
def test_ipv6_outside_global_unicast_and_its_special_blocks_are_floor(text: str) -> None:
    assert classify(address(text)) is FLOOR


@pytest.mark.case("A15")
def test_carrier_space_is_private_and_not_public() -> None:
    assert classify(address("100.64.0.1")) is PRIVATE
    assert classify(address("100.127.255.254")) is PRIVATE


@pytest.mark.parametrize(
    "text",
    [
        "1.1.1.1",
        "8.8.8.8",
        "192.31.196.1",  # AS112, globally reachable
        "192.52.193.1",  # AMT
        "192.175.48.1",  # AS112
        "2606:4700:4700::1111",
        "2001:4860:4860::8888",
        "2001:200::1",
        "2620:4f:8000::1",  # AS112
        "2a00:1450:4001:800::200e",
        "3ffe::1",
    ],
)
def test_addresses_of_the_world_are_public(text: str) -> None:
    assert classify(address(text)) is PUBLIC


# Mapped, compatible, SIIT, the three kinds of NAT64, 6to4, Teredo (server and mapped client).
CARRIERS = [
    "::ffff:{high:x}:{low:x}",
    "::{high:x}:{low:x}",
    "::ffff:0:{high:x}:{low:x}",
    "64:ff9b::{high:x}:{low:x}",
    "64:ff9b:1::{high:x}:{low:x}",
    "64:ff9b:1:ffff::{high:x}:{low:x}",
    "2002:{high:x}:{low:x}::1",
    "2001:0:{high:x}:{low:x}::1",
    "2001::{high:x}:{low:x}",
]
HIDDEN = ["127.0.0.1", "10.0.0.1", "169.254.169.254", "100.100.100.200", "8.8.8.8"]


def carried(pattern: str, text: str) -> Address:
    number = int(IPv4Address(text))
    return address(pattern.format(high=number >> 16, low=number & 0xFFFF))


@pytest.mark.case("A6", "A7", "A9", "A10", "A12")
@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("pattern", CARRIERS[1:])
def test_every_carrier_of_an_ipv4_address_but_the_mapped_is_floor(pattern: str, hidden: str) -> None:
    assert classify(carried(pattern, hidden)) is FLOOR


@pytest.mark.case("A6")
@pytest.mark.parametrize("hidden", [*HIDDEN, "192.168.1.1", "1.1.1.1"])
def test_a_mapped_address_is_judged_as_its_ipv4_address(hidden: str) -> None:
    mapped = carried(CARRIERS[0], hidden)

    assert fold(mapped) == IPv4Address(hidden)
    assert classify(mapped) is classify(IPv4Address(hidden))
    assert is_metadata(mapped) is is_metadata(IPv4Address(hidden))


@pytest.mark.case("A6")
def test_the_mapped_alibaba_address_is_floor() -> None:
    assert classify(address("::ffff:100.100.100.200")) is FLOOR


@pytest.mark.case("A7")
def test_an_ipv4_compatible_address_is_floor() -> None:
    assert classify(address("::127.0.0.1")) is FLOOR
    assert classify(address("::8.8.8.8")) is FLOOR


@pytest.mark.case("A9")
@pytest.mark.parametrize("text", ["64:ff9b:1::", "64:ff9b:1::a00:1", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff"])
def test_local_nat64_is_floor_as_a_whole(text: str) -> None:
    assert classify(address(text)) is FLOOR


@pytest.mark.case("A10")
@pytest.mark.parametrize("text", ["2002:7f00:1::", "2002:a9fe:a9fe::", "2002:808:808::1"])
def test_6to4_is_floor(text: str) -> None:
    assert classify(address(text)) is FLOOR


@pytest.mark.case("A12")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("::ffff:0:127.0.0.1", FLOOR),  # SIIT
        ("::ffff:0:8.8.8.8", FLOOR),
        ("2606:4700::5efe:7f00:1", FLOOR),
        ("2606:4700::5efe:10.0.0.1", PRIVATE),
        ("2606:4700::5efe:8.8.8.8", PUBLIC),
        ("2606:4700::200:5efe:127.0.0.1", FLOOR),  # the universal bit
        ("2606:4700::300:5efe:127.0.0.1", FLOOR),  # and the group bit
        ("2606:4700::100:5efe:a9fe:a9fe", FLOOR),
        ("2606:4700::400:5efe:127.0.0.1", PUBLIC),  # another interface id
        ("2606:4700::5eff:127.0.0.1", PUBLIC),
        ("fd00::5efe:8.8.8.8", PRIVATE),
        ("fd00::5efe:127.0.0.1", FLOOR),
        ("fe80::5efe:8.8.8.8", FLOOR),
    ],
)
def test_an_isatap_interface_takes_the_stricter_of_both(text: str, expected: AddressClass) -> None:
    assert classify(address(text)) is expected


@pytest.mark.case("A20")
@pytest.mark.parametrize(
    "text",
    [
        *("168.63.129.16", "192.0.0.192", "192.88.99.1", "224.0.0.1", "::8.8.8.8", "64:ff9b::a00:1"),
        *("2002:a00:1::", "fec0::1", "3fff::1", "5f00::1"),
    ],
)
def test_what_the_standard_library_calls_global_is_floor_here(text: str) -> None:
    assert classify(address(text)) is FLOOR


PLATFORMS = {
    "B1": [
        *("169.254.169.254", "fd00:ec2::254", "169.254.169.253", "fd00:ec2::253", "169.254.169.123", "fd00:ec2::123"),
    ],
    "B2": ["169.254.170.2"],
    "B3": ["169.254.170.23", "fd00:ec2::23"],
    "B4": ["169.254.169.254", "fd20:ce::254", "169.254.169.252"],
    "B5": ["169.254.169.254", "168.63.129.16"],
    "B6": ["100.100.100.200", "100.100.2.136", "100.100.2.138"],
    "B7": ["169.254.169.254", "192.0.0.192", "fd00:c1::a9fe:a9fe"],
    "B8": ["169.254.169.254", "fd00:a9fe:a9fe::1", "fe80::a9fe:a9fe"],
    "B9": ["169.254.0.23"],
    "B10": ["169.254.42.42", "fd00:42::42"],
}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(text, id=f"{row}-{text}", marks=pytest.mark.case(row))
        for row, texts in PLATFORMS.items()
        for text in texts
    ],
)
def test_a_platform_address_is_floor_and_nothing_lifts_it(text: str) -> None:
    found = address(text)
    everything = Reach(unsafe_reach=networks("0.0.0.0/0", "::/0"))

    assert is_metadata(found)
    assert classify(found) is FLOOR
    assert everything.classify(found) is FLOOR
    if isinstance(found, IPv4Address):
        assert everything.classify(IPv6Address(0xFFFF << 32 | int(found))) is FLOOR


def test_every_platform_address_stands_in_a_row_of_the_list() -> None:
    assert {ip_address(text) for texts in PLATFORMS.values() for text in texts} == METADATA


@pytest.mark.parametrize("text", ["169.254.169.251", "168.63.129.15", "168.63.129.17", "fd00:ec2::255", "fd00:42::43"])
def test_neighbours_of_platform_addresses_are_not_metadata(text: str) -> None:
    assert not is_metadata(address(text))


# ---------------------------------------------------------------------------------------------- text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.0.0.0", "0.0.0.0"),
        ("255.255.255.255", "255.255.255.255"),
        ("1.20.199.249", "1.20.199.249"),
        ("::", "::"),
        ("::1", "::1"),
        ("1::", "1::"),
        ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"),
        ("1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"),
        ("::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8"),
        ("2001:DB8::00aB", "2001:db8::ab"),
        ("0000:0000:0000:0000:0000:0000:0000:0001", "::1"),
        ("::ffff:1.2.3.4", "::ffff:102:304"),
        ("1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304"),
        ("64:ff9b::192.0.2.33", "64:ff9b::c000:221"),
        ("0000:0000:0000:0000:0000:ffff:255.255.255.255", "::ffff:ffff:ffff"),
    ],
)
def test_an_address_in_its_usual_form_is_read(text: str, expected: str) -> None:
    assert parse_address(text) == ip_address(expected)


@pytest.mark.case("A3", "A4", "D14")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "127.0.0.1 x",
        "127.0.0.1\n",
        "127.0.0.1\x00",
        " 127.0.0.1",
        "127.0.0.1.",
        "127.0.0.01",
        "127.0.0.256",
        "127.0.0",
        "127.0.0.0.1",
        "127.0..1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "１２７.0.0.1",
        "①②⑦.0.0.1",
        "127。0。0。1",
        "127.0.0.١",
        "+127.0.0.1",
        "1_0.0.0.1",
        "127.0.0.-1",
        ":",
        ":::",
        "::1::",
        "1::2::3",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:9",
        "1:2:3:4:5:6:7:8::",
        "::1:2:3:4:5:6:7:8",
        "1:2:3:4::5:6:7:8",
        ":1:2:3:4:5:6:7:8",
        ":1::",
        "1:",
        "::1:",
        "::12345",
        "::g",
        "::-1",
        "::+1",
        "::0x1",
        "::١",
        "::1_0",
        ":: 1",
        "[::1]",
        "::1%eth0",
        "fe80::1%25eth0",
        "::1%",
        "::1/128",
        "::127.1",
        "::0177.0.0.1",
        "::127.0.0.1:1",
        "127.0.0.1::",
        "1.2.3.4:5::",
        "::ffff:127.0.0.256",
        "::" + "0" * 60 + "1",
        "1" * 1_000_000,
        ":" * 1_000_000,
    ],
)
def test_every_other_form_is_no_address(text: str) -> None:
    assert parse_address(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("::FFFF:102:304", "::ffff:1.2.3.4"),
        ("0:0:0:0:0:ffff:127.0.0.1", "::ffff:127.0.0.1"),
        ("2001:0DB8:0:0:1::1", "2001:db8::1:0:0:1"),
        ("::127.0.0.1", "::7f00:1"),
        ("10.0.0.7", "10.0.0.7"),
    ],
)
def test_an_address_is_written_in_one_way(text: str, expected: str) -> None:
    assert address_text(address(text)) == expected
    assert parse_address(expected) == address(text)


# ---------------------------------------------------------------------------------------------- folding


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("::ffff:10.0.0.0/120", "10.0.0.0/24"),
        ("::ffff:10.0.0.7/128", "10.0.0.7/32"),
        ("::ffff:0:0/96", "0.0.0.0/0"),
        ("::ffff:0:0/95", "::fffe:0:0/95"),
        ("2606:4700::/32", "2606:4700::/32"),
        ("10.0.0.0/24", "10.0.0.0/24"),
        ("::/0", "::/0"),
    ],
)
def test_only_networks_of_mapped_addresses_fold(text: str, expected: str) -> None:
    assert fold_network(ip_network(text, strict=False)) == ip_network(expected)


def test_floor_and_private_networks_are_known_as_a_whole() -> None:
    for text in ("127.0.0.0/8", "127.0.0.5/32", "224.0.0.0/3", "::/3", "fe80::/10", "168.63.129.16/32", "8000::/3"):
        assert is_floor_network(ip_network(text)), text
    for text in ("126.0.0.0/7", "0.0.0.0/0", "10.0.0.0/8", "::/0", "::/2", "8.8.8.8/32", "168.63.129.16/31"):
        assert not is_floor_network(ip_network(text)), text
    for text in ("10.0.0.0/8", "10.1.0.0/16", "fd00::/8", "::ffff:192.168.0.0/112"):
        assert is_private_network(ip_network(text)), text
    for text in ("10.0.0.0/7", "0.0.0.0/0", "8.8.8.8/32", "fe00::/7", "127.0.0.0/8"):
        assert not is_private_network(ip_network(text)), text


# ---------------------------------------------------------------------------------------------- reach


def test_own_and_protected_addresses_are_floor_in_every_spelling() -> None:
    reach = Reach(
        own=networks("203.0.114.5/32", "2a00:1::5/128", "::ffff:198.52.0.1/128"),
        protected=networks("10.77.0.0/16", "2a00:2::/32"),
    )

    for text in ("203.0.114.5", "::ffff:203.0.114.5", "2a00:1::5", "198.52.0.1", "10.77.1.2", "::ffff:10.77.1.2"):
        assert reach.classify(address(text)) is FLOOR, text
    assert reach.classify(address("2a00:2::1")) is FLOOR
    for text in ("203.0.114.4", "203.0.114.6", "2a00:1::4", "2a00:1::6", "198.52.0.2", "2a00:3::"):
        assert reach.classify(address(text)) is PUBLIC, text
    assert reach.classify(address("10.78.0.0")) is PRIVATE
    assert reach.classify(address("10.76.255.255")) is PRIVATE


def test_an_isatap_interface_of_an_own_or_protected_address_is_floor() -> None:
    reach = Reach(own=networks("203.0.114.5/32"), protected=networks("198.52.0.0/24"))

    assert reach.classify(address("2606:4700::5efe:203.0.114.5")) is FLOOR
    assert reach.classify(address("2606:4700::5efe:198.52.0.9")) is FLOOR
    assert reach.classify(address("2606:4700::5efe:203.0.114.6")) is PUBLIC


def test_unsafe_reach_opens_exactly_its_networks() -> None:
    reach = Reach(own=networks("127.0.0.0/8", "10.0.0.9/32"), unsafe_reach=networks("127.0.0.5/32", "::1/128"))

    assert reach.classify(address("127.0.0.5")) is PUBLIC
    assert reach.classify(address("::ffff:127.0.0.5")) is PUBLIC
    assert reach.classify(address("::1")) is PUBLIC
    for text in (
        "127.0.0.4",
        "127.0.0.6",
        "10.0.0.9",
        "::2",
        "::",
        "64:ff9b::127.0.0.5",
        "2002:7f00:5::",
        "::127.0.0.5",
    ):
        assert reach.classify(address(text)) is FLOOR, text


def test_unsafe_reach_never_opens_protected_networks() -> None:
    reach = Reach(protected=networks("127.0.0.5/32"), unsafe_reach=networks("127.0.0.0/8", "2606:4700::/32"))

    assert reach.classify(address("127.0.0.5")) is FLOOR
    assert reach.classify(address("127.0.0.6")) is PUBLIC
    # A carrier of what is protected, or of metadata, is not opened by its own spelling either.
    assert reach.classify(address("2606:4700::5efe:127.0.0.5")) is FLOOR
    assert reach.classify(address("2606:4700::5efe:169.254.169.254")) is FLOOR


def test_the_answer_is_kept_within_a_bound() -> None:
    reach = Reach()
    for number in range(20_000):
        reach.classify(IPv4Address(0x08000000 + number))

    assert len(reach._memo) <= 8192
    assert reach.classify(address("8.8.8.8")) is PUBLIC
    assert reach == Reach()


# ---------------------------------------------------------------------------------------------- NAT64

# The example of RFC 6052 section 2.4 (192.0.2.33), with a public address in its place: 203.1.2.33.
RFC_6052 = [
    ("2a00:db8::/32", "2a00:db8:cb01:221::"),
    ("2a00:db8:100::/40", "2a00:db8:1cb:102:21::"),
    ("2a00:db8:122::/48", "2a00:db8:122:cb01:2:2100::"),
    ("2a00:db8:122:300::/56", "2a00:db8:122:3cb:1:221::"),
    ("2a00:db8:122:344::/64", "2a00:db8:122:344:cb:102:2100::"),
    ("2a00:db8:122:344::/96", "2a00:db8:122:344::203.1.2.33"),
    ("64:ff9b::/96", "64:ff9b::203.1.2.33"),
]


@pytest.mark.parametrize(("prefix", "text"), RFC_6052)
def test_the_ipv4_address_is_found_at_every_prefix_length(prefix: str, text: str) -> None:
    network, found = IPv6Network(prefix), address(text)
    assert isinstance(found, IPv6Address)

    assert embedded_in_nat64(found, network) == IPv4Address("203.1.2.33")
    assert Reach(nat64=network).classify(found) is PUBLIC


def in_nat64(prefix: IPv6Network, text: str) -> IPv6Address:
    """Put an address into a prefix, written apart from the code under test: octet by octet, skipping octet 8."""
    octets = bytearray(prefix.network_address.packed)
    place = prefix.prefixlen // 8
    for octet in IPv4Address(text).packed:
        place += place == 8
        octets[place] = octet
        place += 1
    return IPv6Address(bytes(octets))


@pytest.mark.parametrize("prefix", [row[0] for row in RFC_6052])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1", FLOOR),
        ("10.0.0.1", PRIVATE),
        ("169.254.169.254", FLOOR),
        ("168.63.129.16", FLOOR),
        ("203.1.2.5", FLOOR),  # own
        ("203.1.3.5", FLOOR),  # protected
        ("127.0.0.5", FLOOR),  # opened by unsafe_reach, but this is the translator's loopback
        ("8.8.8.8", PUBLIC),
    ],
)
def test_a_named_nat64_prefix_is_judged_as_the_address_it_carries(
    prefix: str, text: str, expected: AddressClass
) -> None:
    network = IPv6Network(prefix)
    reach = Reach(
        own=networks("203.1.2.5/32"),
        protected=networks("203.1.3.0/24"),
        unsafe_reach=networks("127.0.0.5/32"),
        nat64=network,
    )

    assert reach.classify(in_nat64(network, text)) is expected


@pytest.mark.parametrize("prefix", [row[0] for row in RFC_6052 if not row[0].endswith("/96")])
def test_a_nat64_address_with_other_bits_set_is_floor(prefix: str) -> None:
    network = IPv6Network(prefix)
    reach = Reach(nat64=network)
    plain = int(in_nat64(network, "8.8.8.8"))

    assert reach.classify(IPv6Address(plain | 1 << 56)) is FLOOR  # the octet that must be zero
    assert reach.classify(IPv6Address(plain | 1)) is FLOOR  # the suffix


def test_an_unnamed_prefix_stays_floor_and_folding_is_for_mapped_addresses_only() -> None:
    reach = Reach(nat64=IPv6Network("2a00:db8:122:344::/96"))

    assert reach.classify(address("64:ff9b::8.8.8.8")) is FLOOR
    assert reach.classify(address("2a00:db8:122:345::8.8.8.8")) is PUBLIC
    assert fold(address("64:ff9b::8.8.8.8")) == IPv6Address("64:ff9b::808:808")


@pytest.mark.parametrize("length", [length for length in range(129) if length not in NAT64_LENGTHS])
def test_other_prefix_lengths_are_no_nat64(length: int) -> None:
    with pytest.raises(ValueError, match="NAT64"):
        Reach(nat64=IPv6Network((0, length)))


def test_an_own_address_inside_the_nat64_prefix_is_floor() -> None:
    reach = Reach(own=networks("64:ff9b::808:808/128"), nat64=IPv6Network("64:ff9b::/96"))

    assert reach.classify(address("64:ff9b::8.8.8.8")) is FLOOR
    assert reach.classify(address("64:ff9b::8.8.4.4")) is PUBLIC


def test_networks_that_touch_or_overlap_are_one_span() -> None:
    reach = Reach(own=networks("10.0.0.0/24", "10.0.1.0/24", "10.0.0.0/23", "10.0.0.7/32", "0.0.0.0/32"))

    assert reach.classify(IPv4Address("10.0.1.255")) is FLOOR
    assert reach.classify(IPv4Address("10.0.2.0")) is PRIVATE
    assert is_floor_network(IPv4Network("240.0.0.0/5"))
