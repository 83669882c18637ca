"""The address table against the registries and the tables of other libraries: deviations one by one, none milder."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_network

import pytest

from egress_policy.addresses import AddressClass, Reach, classify, embedded_in_nat64, parse_address
from egress_policy.names import HostName, is_floor_name
from egress_policy.urls import BadUrl, Url, parse_url
from support.corpora import corpus_json

PUBLIC = AddressClass.PUBLIC

# Blocks that the registry calls globally reachable and that are floor here all the same.
STRICTER_THAN_THE_REGISTRY = {
    "192.0.0.9/32",  # Port Control Protocol anycast: inside 192.0.0.0/24, which the requirements close as a whole
    "192.0.0.10/32",  # TURN anycast: the same
    "64:ff9b::/96",  # NAT64: judged by what it carries where the operator names it, floor otherwise
    "2001:1::1/128",  # anycast services inside 2001::/23, which is closed as a whole
    "2001:1::2/128",
    "2001:1::3/128",
    "2001:3::/32",  # AMT
    "2001:4:112::/48",  # AS112
    "2001:20::/28",  # ORCHIDv2: identifiers, no locators
    "2001:30::/28",  # drone identifiers
}

# Addresses that Rust's table calls safe and that are floor here.
STRICTER_THAN_RUST = {
    *("192.0.0.9", "192.0.0.10"),  # anycast inside 192.0.0.0/24
    *("2001:1::1", "2001:1::2", "2001:1::3", "2001:3::", "2001:4:112::", "2001:20::", "2001:30::"),  # in 2001::/23
    *("::2", "1::", "102:304:506:708:90a:b0c:d0e:f10"),  # outside 2000::/3: not allocated
}

# Addresses that another library allows and that are floor here.
STRICTER_THAN_OTHERS = {
    ("ssrf_filter", "64:ff9b:1:808:8:800::")
}  # local NAT64 of 8.8.8.8, unless the operator names it


def test_no_special_block_is_judged_milder_than_the_registry_says() -> None:
    stricter = set()
    for row in corpus_json("ip-classification/iana_special_purpose.json"):
        network = ip_network(row["addressBlock"])
        for address in (network.network_address, network.broadcast_address):
            if row["globallyReachable"] is not True:
                assert classify(address) is not PUBLIC, row
            elif classify(address) is not PUBLIC:
                stricter.add(row["addressBlock"])

    assert stricter == STRICTER_THAN_THE_REGISTRY


def test_rust_and_this_table_differ_in_known_addresses_only() -> None:
    stricter = set()
    for row in corpus_json("ip-classification/rust_ip_properties.json"):
        address = parse_address(row["ip"])
        assert address is not None, row
        if not row["safe_to_dial"]:
            assert classify(address) is not PUBLIC, row
        elif classify(address) is not PUBLIC:
            stricter.add(row["ip"])

    assert stricter == STRICTER_THAN_RUST


def test_advocate_and_ssrf_filter_and_this_table_differ_in_known_addresses_only() -> None:
    tables = corpus_json("ip-classification/other_libraries.json")
    stricter = set()
    for library in ("advocate", "ssrf_filter"):
        for row in tables[library]:
            address = parse_address(row["ip"])
            assert address is not None, row
            if not row["allowed"]:
                assert classify(address) is not PUBLIC, row
            elif classify(address) is not PUBLIC:
                stricter.add((library, row["ip"]))

    assert stricter == STRICTER_THAN_OTHERS


def test_every_embedding_of_rfc_6052_is_found_and_judged() -> None:
    seen = set()
    for row in corpus_json("ip-classification/other_libraries.json")["rfc6052_embedding"]:
        address = parse_address(row["ipv6"])
        assert isinstance(address, IPv6Address)
        prefix = IPv6Network((int(address), row["prefix_len"]), strict=False)
        seen.add(row["prefix_len"])

        assert embedded_in_nat64(address, prefix) == IPv4Address(row["ipv4"])
        assert Reach(nat64=prefix).classify(address) is AddressClass.PRIVATE

    assert seen == {32, 40, 48, 56, 64, 96}


# Names that only an answer from DNS shows to be bad; the address they resolve to is judged then.
LEFT_TO_RESOLUTION = ("127.0.0.1.nip.io", "169.254.169.254.nip.io")


@pytest.mark.case("A3", "A6", "A13", "D14")
def test_the_urls_that_request_filtering_agent_refuses_are_refused_here() -> None:
    urls = corpus_json("ip-classification/other_libraries.json")["request_filtering_agent_urls"]
    for text in urls["deny"]:
        found = parse_url(text.replace("{port}", "8080"))
        if isinstance(found, BadUrl):
            continue
        if isinstance(found.host, HostName):
            assert is_floor_name(found.host) or found.host.text in LEFT_TO_RESOLUTION, text
        else:
            assert classify(found.host) is AddressClass.FLOOR, text
    for text in urls["allow"]:
        assert isinstance(parse_url(text), Url)
