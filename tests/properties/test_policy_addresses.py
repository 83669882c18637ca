"""Any spelling of an address gets one class, and an IPv4 address hidden in IPv6 is never judged milder."""

from __future__ import annotations

import ipaddress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from hypothesis import given
from hypothesis import strategies as st

from egress_policy.addresses import (
    METADATA,
    NAT64_LENGTHS,
    Address,
    AddressClass,
    Network,
    Reach,
    classify,
    fold,
    is_floor_network,
    is_metadata,
    parse_address,
)
from egress_policy.targets import BadTarget, Target, parse_authority

STRICTNESS = {AddressClass.PUBLIC: 0, AddressClass.PRIVATE: 1, AddressClass.FLOOR: 2}

# Where anything can change: both ends of each range and the metadata addresses, besides any number at all.
EDGES_V4 = [int(IPv4Address(text)) for text in ("10.0.0.0", "100.64.0.0", "127.0.0.0", "169.254.0.0", "172.16.0.0")]
EDGES_V4 += [int(each) for each in METADATA if isinstance(each, IPv4Address)]
v4 = st.one_of(
    st.integers(0, 2**32 - 1), st.sampled_from(EDGES_V4).flatmap(lambda at: st.integers(max(at - 2, 0), at + 2))
).map(IPv4Address)
v6 = st.one_of(
    st.integers(0, 2**128 - 1),
    st.integers(2**125, 2**126 - 1),  # 2000::/3
    st.integers(0, 2**64 - 1),
    st.sampled_from([int(each) for each in METADATA if isinstance(each, IPv6Address)]),
).map(IPv6Address)
networks_v4 = st.builds(
    lambda number, length: IPv4Network((number, length), strict=False), st.integers(0, 2**32 - 1), st.integers(0, 32)
)
networks_v6 = st.builds(
    lambda number, length: IPv6Network((number, length), strict=False), st.integers(0, 2**128 - 1), st.integers(0, 128)
)
networks = st.lists(st.one_of(networks_v4, networks_v6), max_size=4).map(tuple)
reaches = st.builds(Reach, own=networks, protected=networks, unsafe_reach=networks)
prefixes = st.builds(
    lambda number, length: IPv6Network((number & ~(0xFF << 56), length), strict=False),
    st.integers(2**125, 2**126 - 1),
    st.sampled_from(NAT64_LENGTHS),
)


@st.composite
def spellings_of_v6(draw: st.DrawFn, address: IPv6Address) -> str:
    """Write an address as nobody would: zeros kept or dropped, any run of zeros as `::`, any case, the end dotted."""
    groups = [f"{int(address) >> shift & 0xFFFF:x}" for shift in range(112, -1, -16)]
    written = [draw(st.sampled_from([group, group.zfill(4), group.upper()])) for group in groups]
    if draw(st.booleans()):
        written[6:] = [str(IPv4Address(int(address) & 0xFFFFFFFF))]
    runs = [
        (first, last)
        for first in range(len(written))
        for last in range(first + 1, len(written) + 1)
        if all(set(group) == {"0"} for group in written[first:last])
    ]
    if draw(st.booleans()) and runs:
        first, last = runs[draw(st.integers(0, len(runs) - 1))]
        return ":".join(written[:first]) + "::" + ":".join(written[last:])
    return ":".join(written)


@given(data=st.data(), address=v6, reach=reaches)
def test_any_spelling_of_an_ipv6_address_gets_one_class(
    data: st.DataObject, address: IPv6Address, reach: Reach
) -> None:
    text = data.draw(spellings_of_v6(address))

    assert parse_address(text) == address
    target = parse_authority(f"[{text}]:443".encode())
    assert isinstance(target, Target)
    assert target.host == address
    assert reach.classify(address) is reach.classify(fold(address))


@given(address=v4, reach=reaches)
def test_a_mapped_address_is_the_ipv4_address(address: IPv4Address, reach: Reach) -> None:
    mapped = IPv6Address(0xFFFF << 32 | int(address))

    assert reach.classify(mapped) is reach.classify(address)
    assert is_metadata(mapped) is is_metadata(address)


def carriers(address: IPv4Address, prefix: int) -> list[IPv6Address]:
    number = int(address)
    isatap = [prefix >> 64 << 64 | (id_bits << 48 | 0x5EFE << 32) | number for id_bits in (0, 0x0100, 0x0200, 0x0300)]
    teredo = [0x20010000 << 96 | number << 64, 0x20010000 << 96 | number ^ 0xFFFFFFFF]
    return [
        IPv6Address(each)
        for each in (
            0xFFFF << 32 | number,  # mapped
            number,  # compatible
            0xFFFF << 48 | number,  # SIIT
            0x0064FF9B << 96 | number,  # NAT64
            0x0064FF9B0001 << 80 | number,  # local NAT64
            0x2002 << 112 | number << 80,  # 6to4
            *teredo,
            *isatap,
        )
    ]


@given(address=v4, prefix=st.integers(0, 2**128 - 1), own=networks, protected=networks)
def test_an_ipv4_address_hidden_in_ipv6_is_never_judged_milder(
    address: IPv4Address, prefix: int, own: tuple[Network, ...], protected: tuple[Network, ...]
) -> None:
    reach = Reach(own=own, protected=protected)
    for carrier in carriers(address, prefix):
        assert STRICTNESS[reach.classify(carrier)] >= STRICTNESS[reach.classify(address)]


@given(address=v4, prefix=prefixes, own=networks, protected=networks, unsafe=networks)
def test_behind_a_named_nat64_prefix_nothing_is_judged_milder(
    address: IPv4Address,
    prefix: IPv6Network,
    own: tuple[Network, ...],
    protected: tuple[Network, ...],
    unsafe: tuple[Network, ...],
) -> None:
    octets = bytearray(prefix.network_address.packed)
    place = prefix.prefixlen // 8
    for octet in address.packed:
        place += place == 8
        octets[place] = octet
        place += 1
    carrier = IPv6Address(bytes(octets))
    reach = Reach(own=own, protected=protected, nat64=prefix)
    opened = Reach(own=own, protected=protected, nat64=prefix, unsafe_reach=unsafe)

    assert STRICTNESS[reach.classify(carrier)] >= STRICTNESS[reach.classify(address)]
    if not any(carrier in network for network in unsafe):
        assert opened.classify(carrier) is reach.classify(carrier)


@given(address=st.one_of(v4, v6), reach=reaches)
def test_what_the_node_adds_makes_nothing_milder_but_what_unsafe_reach_names(address: Address, reach: Reach) -> None:
    found, folded = reach.classify(address), fold(address)

    if is_metadata(address) or any(folded in network for network in reach.protected):
        assert found is AddressClass.FLOOR
    elif STRICTNESS[found] < STRICTNESS[classify(address)]:
        assert found is AddressClass.PUBLIC
        assert any(folded in network or address in network for network in reach.unsafe_reach)


@given(address=st.one_of(v4, v6))
def test_what_the_registry_keeps_from_the_world_is_never_public(address: Address) -> None:
    # The library's flags as a peer, in the one direction in which they are right: what they call private, reserved,
    # loopback, multicast or unspecified is not public, the globally reachable exceptions apart.
    peer = fold(address)
    if peer.is_loopback or peer.is_multicast or peer.is_unspecified or peer.is_link_local or peer.is_reserved:
        assert classify(address) is AddressClass.FLOOR
    if peer.is_private:
        assert classify(address) is not AddressClass.PUBLIC


@given(network=st.one_of(networks_v4, networks_v6), data=st.data())
def test_a_floor_network_holds_floor_addresses_only(network: Network, data: st.DataObject) -> None:
    number = data.draw(st.integers(int(network.network_address), int(network.broadcast_address)))
    address: Address = IPv4Address(number) if network.version == 4 else IPv6Address(number)

    if is_floor_network(network):
        assert classify(address) is AddressClass.FLOOR


@given(text=st.one_of(st.text(max_size=60), st.text("0123456789abcdefABCDEF:.%x/[] ", max_size=60)))
def test_text_that_is_read_is_read_as_the_library_reads_it(text: str) -> None:
    found = parse_address(text)

    if found is not None:
        assert found == ipaddress.ip_address(text)
    else:
        try:
            peer = ipaddress.ip_address(text)
        except ValueError:
            return
        # The library takes zones; nothing else that it takes is refused here.
        assert "%" in text
        assert isinstance(peer, IPv6Address)


@given(text=st.text("0123456789.xXabcdefo", min_size=1, max_size=40), port=st.integers(1, 65535))
def test_a_numeric_host_is_an_address_in_its_usual_form_or_refused(text: str, port: int) -> None:
    found = parse_authority(f"{text}:{port}".encode())
    last = text.removesuffix(".").rpartition(".")[2].lower()

    if last.isdigit() or last.startswith("0x"):
        assert isinstance(found, BadTarget) or isinstance(found.host, IPv4Address)
        if isinstance(found, Target):
            assert found.host_text == text
