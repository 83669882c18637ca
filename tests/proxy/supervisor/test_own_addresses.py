"""Own addresses: netlink messages by hand with their neighbours, then the kernel of this machine."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
from ipaddress import ip_address, ip_network

import pytest

from egressd.supervisor import own_addresses
from egressd.supervisor.own_addresses import (
    NLMSG_DONE,
    RTM_NEWROUTE,
    RTN_ANYCAST,
    RTN_LOCAL,
    RouteFault,
    dump_request,
    minimal,
    read_messages,
    read_own_networks,
    read_route,
)

RTN_UNICAST, RTN_BROADCAST, TABLE_LOCAL, TABLE_MAIN = 1, 3, 255, 254


def message(kind: int, payload: bytes, sequence: int = 1, flags: int = 0) -> bytes:
    raw = struct.pack("=IHHII", 16 + len(payload), kind, flags, sequence, 0) + payload
    return raw.ljust((len(raw) + 3) & ~3, b"\0")


def route(destination: str, *, kind: int = RTN_LOCAL, table: int = TABLE_LOCAL, wide_table: int | None = None) -> bytes:
    network = ip_network(destination)
    family = socket.AF_INET if network.version == 4 else socket.AF_INET6
    raw = struct.pack("=BBBBBBBBI", family, network.prefixlen, 0, 0, table, 2, 254, kind, 0)
    packed = network.network_address.packed
    raw += struct.pack("=HH", 4 + len(packed), 1) + packed
    if wide_table is not None:
        raw += struct.pack("=HHI", 8, 15, wide_table)
    return raw


@pytest.mark.parametrize(
    "destination", ["127.0.0.0/8", "192.0.2.7/32", "198.51.100.0/24", "::1/128", "2001:db8:5::/64", "0.0.0.0/32"]
)
@pytest.mark.parametrize("kind", [RTN_LOCAL, RTN_ANYCAST])
def test_a_local_route_is_own(destination: str, kind: int) -> None:
    assert read_route(route(destination, kind=kind)) == ip_network(destination)


@pytest.mark.parametrize("kind", [0, RTN_UNICAST, RTN_BROADCAST, 5, 6, 7])
def test_other_kinds_of_route_are_not_own(kind: int) -> None:
    assert read_route(route("192.0.2.0/24", kind=kind)) is None


@pytest.mark.parametrize(("table", "is_own"), [(252, False), (253, True), (254, True), (255, True), (100, False)])
def test_only_tables_that_every_dial_passes_count(table: int, is_own: bool) -> None:
    assert (read_route(route("192.0.2.7/32", table=table)) is not None) is is_own


@pytest.mark.parametrize(("wide", "is_own"), [(1000, False), (TABLE_LOCAL, True)])
def test_the_attribute_names_tables_above_255(wide: int, is_own: bool) -> None:
    assert (read_route(route("192.0.2.7/32", table=252, wide_table=wide)) is not None) is is_own


def test_a_route_without_destination_is_everything() -> None:
    raw = struct.pack("=BBBBBBBBI", socket.AF_INET, 0, 0, 0, TABLE_LOCAL, 2, 254, RTN_LOCAL, 0)
    assert read_route(raw) == ip_network("0.0.0.0/0")


def test_another_family_is_passed_over() -> None:
    assert read_route(struct.pack("=BBBBBBBBI", 28, 0, 0, 0, TABLE_LOCAL, 2, 254, RTN_LOCAL, 0)) is None


@pytest.mark.parametrize(
    "raw", [b"", b"\2" * 11, route("192.0.2.7/32")[:-1], route("192.0.2.7/32") + struct.pack("=HH", 3, 1)]
)
def test_a_route_that_does_not_fit_is_a_fault(raw: bytes) -> None:
    with pytest.raises(RouteFault):
        read_route(raw)


def test_messages_are_cut_at_their_lengths() -> None:
    chunk = message(RTM_NEWROUTE, b"abcde") + message(NLMSG_DONE, b"", sequence=2)
    assert list(read_messages(chunk)) == [(RTM_NEWROUTE, 0, 1, b"abcde"), (NLMSG_DONE, 0, 2, b"")]


@pytest.mark.parametrize("length", [0, 15, 17])
def test_a_message_of_an_impossible_length_is_a_fault(length: int) -> None:
    with pytest.raises(RouteFault):
        list(read_messages(struct.pack("=IHHII", length, RTM_NEWROUTE, 0, 1, 0)))


def test_networks_inside_others_are_left_out() -> None:
    given = {ip_network(text) for text in ("127.0.0.0/8", "127.0.0.1/32", "192.0.2.1/32", "::1/128", "::/64")}
    assert minimal(given) == (ip_network("127.0.0.0/8"), ip_network("192.0.2.1/32"), ip_network("::/64"))


class FakeLink:
    """Answers dump requests from a script: one list of chunks a request."""

    def __init__(self, *answers: list[bytes]) -> None:
        self.answers = list(answers)
        self.chunks: list[bytes] = []
        self.asked = 0

    def send(self, _request: bytes) -> int:
        self.asked += 1
        self.chunks = self.answers.pop(0)
        return 0

    def recv(self, _size: int) -> bytes:
        return self.chunks.pop(0)


def ask(link: FakeLink) -> set[own_addresses.Network]:
    return own_addresses._ask(link, socket.AF_INET, TABLE_LOCAL, RTN_LOCAL, 1)  # type: ignore[arg-type]  # a fake


def test_a_dump_is_read_over_several_chunks_to_its_end() -> None:
    link = FakeLink(
        [
            message(RTM_NEWROUTE, route("192.0.2.1/32")) + message(RTM_NEWROUTE, route("192.0.2.2/32")),
            message(RTM_NEWROUTE, route("192.0.2.9/32"), sequence=99) + message(NLMSG_DONE, b"\0\0\0\0"),
        ]
    )
    assert ask(link) == {ip_network("192.0.2.1/32"), ip_network("192.0.2.2/32")}


def test_a_dump_that_changed_meanwhile_is_asked_anew() -> None:
    link = FakeLink(
        [message(RTM_NEWROUTE, route("192.0.2.1/32"), flags=0x10) + message(NLMSG_DONE, b"\0\0\0\0")],
        [message(RTM_NEWROUTE, route("192.0.2.2/32"), sequence=2) + message(NLMSG_DONE, b"\0\0\0\0", sequence=2)],
    )
    assert ask(link) == {ip_network("192.0.2.2/32")}


def test_routes_that_never_rest_are_a_fault() -> None:
    link = FakeLink(*([message(NLMSG_DONE, b"\0\0\0\0", sequence=number, flags=0x10)] for number in range(1, 6)))
    with pytest.raises(RouteFault, match="faster"):
        ask(link)
    assert link.asked == 5


def test_a_table_that_is_not_there_is_empty_and_any_other_error_is_a_fault() -> None:
    assert ask(FakeLink([message(2, struct.pack("=i", -2))])) == set()
    with pytest.raises(RouteFault, match="netlink error 1"):
        ask(FakeLink([message(2, struct.pack("=i", -1))]))


def test_the_request_asks_for_one_family_table_and_kind() -> None:
    raw = dump_request(socket.AF_INET6, TABLE_MAIN, RTN_LOCAL, 9)
    assert struct.unpack_from("=IHHII", raw) == (len(raw), 26, 0x301, 9, 0)
    assert raw[16] == socket.AF_INET6
    assert raw[20] == TABLE_MAIN
    assert raw[23] == RTN_LOCAL


def test_this_machine_owns_its_loopback() -> None:
    own = read_own_networks()
    assert any(ip_address("127.0.0.1") in network for network in own if network.version == 4)
    assert list(own) == sorted(own, key=lambda net: (net.version, int(net.network_address)))


@pytest.mark.namespace
@pytest.mark.slow
def test_local_routes_that_no_interface_shows_are_own_and_marked_tables_are_not() -> None:
    script = """
set -e
ip link set lo up
ip route add local 198.51.100.0/24 dev lo
ip route add local 203.0.113.0/24 dev lo table main
ip route add local 0.0.0.0/0 dev lo table 100
ip -6 route add local 2001:db8:5::/64 dev lo
exec "$0" -c 'from egressd.supervisor.own_addresses import read_own_networks as read; print(*read())'
"""
    words = ["unshare", "--map-root-user", "--net", "sh", "-c", script, sys.executable]
    found = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    assert found == ["127.0.0.0/8", "198.51.100.0/24", "203.0.113.0/24", "::1/128", "2001:db8:5::/64"]
