"""The addresses that are this node's own: every local route of the kernel, by an rtnetlink dump.

Routes and not interface addresses, because `ip route add local 198.51.100.0/24 dev lo` makes a whole network local
with no interface that says so. Asked of the tables that every dial passes (local, main, default); a local route in
another table takes a rule with a mark, which is how transparent proxies are built, and would make everything own.
Parsing is pure; `read_own_networks` is the only part that opens a socket. `daemon` calls it at start and at reload.
"""

from __future__ import annotations

import socket
import struct
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# linux/netlink.h, linux/rtnetlink.h
NLMSG_NOOP, NLMSG_ERROR, NLMSG_DONE = 1, 2, 3
RTM_NEWROUTE, RTM_GETROUTE = 24, 26
NLM_F_REQUEST, NLM_F_DUMP_INTR, NLM_F_DUMP = 0x01, 0x10, 0x300
RTN_LOCAL, RTN_ANYCAST = 2, 4
RT_TABLE_DEFAULT, RT_TABLE_MAIN, RT_TABLE_LOCAL = 253, 254, 255
RTA_DST, RTA_TABLE = 1, 15
SOL_NETLINK, NETLINK_GET_STRICT_CHK = 270, 12
ENOENT = 2
_HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port
_ROUTE = struct.Struct("=BBBBBBBBI")  # rtmsg: family, dst, src, tos, table, protocol, scope, type, flags
_ATTRIBUTE = struct.Struct("=HH")  # rtattr: length, type

TABLES = (RT_TABLE_LOCAL, RT_TABLE_MAIN, RT_TABLE_DEFAULT)
KINDS = (RTN_LOCAL, RTN_ANYCAST)
# The kernel fills at most 32 KiB a message of a dump; twice that can truncate nothing.
READ_BYTES = 65_536
# A dump during which routes changed is marked and has to be asked anew. Five changes in a row are no accident.
TRIES = 5
TIMEOUT_SECONDS = 2.0

Network = IPv4Network | IPv6Network


class RouteFault(Exception):
    """The kernel's local routes cannot be read, so the node cannot know what it must refuse."""


def dump_request(family: int, table: int, kind: int, sequence: int) -> bytes:
    """Write an RTM_GETROUTE dump request for one family, table and route type (rtnetlink(7))."""
    attribute = _ATTRIBUTE.pack(8, RTA_TABLE) + struct.pack("=I", table)
    body = _ROUTE.pack(family, 0, 0, 0, table, 0, 0, kind, 0) + attribute
    length = _HEADER.size + len(body)
    return _HEADER.pack(length, RTM_GETROUTE, NLM_F_REQUEST | NLM_F_DUMP, sequence, 0) + body


def read_messages(chunk: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Cut what one read gave into (type, flags, sequence, payload).

    Raises:
        RouteFault: A length that does not fit.
    """
    place = 0
    while place + _HEADER.size <= len(chunk):
        length, kind, flags, sequence, _port = _HEADER.unpack_from(chunk, place)
        if not _HEADER.size <= length <= len(chunk) - place:
            fault = "a netlink message of an impossible length"
            raise RouteFault(fault)
        yield kind, flags, sequence, chunk[place + _HEADER.size : place + length]
        place += (length + 3) & ~3


def read_route(payload: bytes) -> Network | None:
    """Give the network of a local (or own anycast) route in a table that every dial passes, else None.

    Raises:
        RouteFault: A message too short for what it says.
    """
    if len(payload) < _ROUTE.size:
        fault = "a route message that is too short"
        raise RouteFault(fault)
    family, prefix, _src, _tos, table, _protocol, _scope, kind, _flags = _ROUTE.unpack_from(payload)
    size = {socket.AF_INET: 4, socket.AF_INET6: 16}.get(family)
    destination = b"" if size is None else bytes(size)
    place = _ROUTE.size
    while place + _ATTRIBUTE.size <= len(payload):
        length, name = _ATTRIBUTE.unpack_from(payload, place)
        if not _ATTRIBUTE.size <= length <= len(payload) - place:
            fault = "a route attribute of an impossible length"
            raise RouteFault(fault)
        value = payload[place + _ATTRIBUTE.size : place + length]
        if name == RTA_DST and len(value) == size:
            destination = value
        elif name == RTA_TABLE and len(value) == 4:
            (table,) = struct.unpack("=I", value)
        place += (length + 3) & ~3
    if size is None or kind not in KINDS or table not in TABLES:
        return None
    return ip_network((destination, prefix))


def read_own_networks() -> tuple[Network, ...]:
    """Ask the kernel for its local routes, IPv4 and IPv6.

    Returns:
        The networks, sorted, none inside another.

    Raises:
        RouteFault: The kernel does not answer, or answers something else. The node must not start then: without this
            the daemon's neighbours on the machine itself could be reached.
    """
    found: set[Network] = set()
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE) as link:
            link.settimeout(TIMEOUT_SECONDS)
            _filter_in_kernel(link)
            for number, (family, table, kind) in enumerate(_questions()):
                found |= _ask(link, family, table, kind, number * TRIES + 1)
    except OSError as error:
        fault = f"netlink: {error.strerror or error}"
        raise RouteFault(fault) from error
    return minimal(found)


def minimal(networks: set[Network]) -> tuple[Network, ...]:
    """Leave out every network that lies inside another, and sort."""
    kept: list[Network] = []
    for network in sorted(networks, key=lambda net: (net.version, int(net.network_address), net.prefixlen)):
        if not kept or not _covers(kept[-1], network):
            kept.append(network)
    return tuple(kept)


def _covers(wide: Network, network: Network) -> bool:
    if isinstance(wide, IPv4Network):
        return isinstance(network, IPv4Network) and network.subnet_of(wide)
    return isinstance(network, IPv6Network) and network.subnet_of(wide)


def _questions() -> Iterator[tuple[int, int, int]]:
    for family in (socket.AF_INET, socket.AF_INET6):
        for table in TABLES:
            for kind in KINDS:
                yield family, table, kind


def _filter_in_kernel(link: socket.socket) -> None:
    """Have the kernel keep to table and type (since 4.20), so that a full routing table of the world is not dumped."""
    try:
        link.setsockopt(SOL_NETLINK, NETLINK_GET_STRICT_CHK, 1)
    except OSError:
        return  # an older kernel sends everything; read_route filters all the same


def _ask(link: socket.socket, family: int, table: int, kind: int, sequence: int) -> set[Network]:
    for attempt in range(TRIES):
        link.send(dump_request(family, table, kind, sequence + attempt))
        answer = _answer(link, sequence + attempt)
        if answer is not None:
            return answer
    fault = "routes change faster than they can be read"
    raise RouteFault(fault)


def _answer(link: socket.socket, sequence: int) -> set[Network] | None:
    """Read one dump to its end; None when routes changed meanwhile."""
    found: set[Network] = set()
    interrupted = False
    while True:
        for kind, flags, number, payload in read_messages(link.recv(READ_BYTES)):
            if number != sequence:
                continue
            interrupted = interrupted or bool(flags & NLM_F_DUMP_INTR)
            if kind == NLMSG_DONE:
                return None if interrupted else found
            if kind == NLMSG_ERROR:
                _raise_unless_absent(payload)
                return found
            if kind == RTM_NEWROUTE and (network := read_route(payload)) is not None:
                found.add(network)


def _raise_unless_absent(payload: bytes) -> None:
    """Pass over ENOENT, which a table without routes (or a kernel without IPv6 tables) answers."""
    (code,) = struct.unpack_from("=i", payload.ljust(4, b"\0"))
    if -code != ENOENT:
        fault = f"netlink error {-code}"
        raise RouteFault(fault)
