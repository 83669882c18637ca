"""Classifies IP addresses by a table of our own: floor, private or public.

Decides what an address is, never who may reach it. The classes come from `_FLOOR_V4`, `_FLOOR_V6` and the lists below,
each line with its source; the flags of the `ipaddress` module (`is_global`, `is_private`) are never asked, because
they differ by patch level and call multicast, 6to4 and IPv4-compatible addresses global (case A20). Text is read by a
grammar of our own as well, so one spelling is one address. Never resolves, never looks at the machine: what is the
node's own comes in as `Reach`. Called by `targets`, `rules`, and the judging modules of both programs.

Sources: IANA IPv4 Special-Purpose Address Registry and IANA IPv6 Special-Purpose Address Registry, both last updated
2025-10-09; IANA IPv6 Address Space (2000::/3 is all of Global Unicast).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class AddressClass(StrEnum):
    """What an address is: refused to everybody, reached by right only, or open to rules."""

    FLOOR = "floor"
    PRIVATE = "private"
    PUBLIC = "public"


_FLOOR_V4 = (
    "0.0.0.0/8",  # this network; connects to loopback on Linux (RFC 791, RFC 1122)
    "127.0.0.0/8",  # loopback (RFC 1122)
    "169.254.0.0/16",  # link local, and most metadata services (RFC 3927)
    "192.0.0.0/24",  # IETF protocol assignments, the two anycast addresses in it too (RFC 6890)
    "192.0.2.0/24",  # TEST-NET-1 (RFC 5737)
    "192.88.99.0/24",  # 6to4 relay anycast, deprecated (RFC 7526)
    "198.18.0.0/15",  # benchmarking (RFC 2544)
    "198.51.100.0/24",  # TEST-NET-2 (RFC 5737)
    "203.0.113.0/24",  # TEST-NET-3 (RFC 5737)
    "224.0.0.0/4",  # multicast (RFC 5771)
    "240.0.0.0/4",  # reserved, and limited broadcast (RFC 1112, RFC 919)
)
_PRIVATE_V4 = (
    "10.0.0.0/8",  # RFC 1918
    "100.64.0.0/10",  # shared address space of carriers (RFC 6598)
    "172.16.0.0/12",  # RFC 1918
    "192.168.0.0/16",  # RFC 1918
)
_FLOOR_V6 = (
    # Outside 2000::/3 everything but ULA: whatever is not allocated today is nobody's to reach.
    "::/3",  # ::, ::1, ::/96 (compatible), ::ffff:0:0:0/96 (SIIT), 64:ff9b::/96, 64:ff9b:1::/48 (NAT64), 100::/63
    "4000::/2",  # with 5f00::/16 (SRv6, RFC 9602)
    "8000::/2",
    "c000::/3",
    "e000::/4",
    "f000::/5",
    "f800::/6",
    "fe00::/7",  # with fe80::/10 (link local), fec0::/10 (site local, RFC 3879), ff00::/8 (multicast)
    # Inside it:
    "2001::/23",  # IETF protocol assignments, with Teredo, ORCHID and benchmarking (RFC 2928)
    "2001:db8::/32",  # documentation (RFC 3849)
    "2002::/16",  # 6to4, which carries an IPv4 address (RFC 3056)
    "3fff::/20",  # documentation (RFC 9637)
)
_PRIVATE_V6 = ("fc00::/7",)  # unique local (RFC 4193)
_MAPPED = IPv6Network("::ffff:0:0/96")  # RFC 4291 section 2.5.5.2

# Where platforms answer with credentials, names or time, by the rows of the metadata list; most are floor by their
# block as well, but they stay floor where `unsafe_reach` opens the block.
METADATA: frozenset[Address] = frozenset(
    {
        IPv4Address("169.254.169.254"),  # B1, B4, B5, B7, B8: nearly everyone
        IPv4Address("169.254.169.253"),  # B1: AWS DNS
        IPv4Address("169.254.169.123"),  # B1: AWS time
        IPv4Address("169.254.170.2"),  # B2: AWS ECS credentials
        IPv4Address("169.254.170.23"),  # B3: AWS EKS Pod Identity
        IPv4Address("169.254.169.252"),  # B4: GKE metadata server
        IPv4Address("168.63.129.16"),  # B5: Azure WireServer
        IPv4Address("100.100.100.200"),  # B6: Alibaba
        IPv4Address("100.100.2.136"),  # B6: Alibaba DNS
        IPv4Address("100.100.2.138"),  # B6: Alibaba DNS
        IPv4Address("192.0.0.192"),  # B7: Oracle classic
        IPv4Address("169.254.0.23"),  # B9: Tencent
        IPv4Address("169.254.42.42"),  # B10: Scaleway
        IPv6Address("fd00:ec2::254"),  # B1: AWS
        IPv6Address("fd00:ec2::253"),  # B1: AWS DNS
        IPv6Address("fd00:ec2::123"),  # B1: AWS time
        IPv6Address("fd00:ec2::23"),  # B3: AWS EKS Pod Identity
        IPv6Address("fd20:ce::254"),  # B4: Google
        IPv6Address("fd00:c1::a9fe:a9fe"),  # B7: Oracle
        IPv6Address("fd00:a9fe:a9fe::1"),  # B8: Linode
        IPv6Address("fe80::a9fe:a9fe"),  # B8: OpenStack
        IPv6Address("fd00:42::42"),  # B10: Scaleway
    }
)

# A grant's own addresses and names ask for a few thousand different addresses; a literal a request could ask for more.
_MEMO_MAX = 8192

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_V4 = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}")
_V6_MAX_LENGTH = 45  # eight groups with the last two as an IPv4 address
_GROUP = re.compile(r"[0-9A-Fa-f]{1,4}")


def parse_address(text: str) -> Address | None:
    """Read an IP address in its usual form, or give None.

    IPv4 is four decimal numbers without leading zeros; IPv6 is the text form without zone and without brackets. All
    else that `inet_aton` or a URL parser would take (octal, hexadecimal, fewer parts, full-width digits, trailing
    text) is no address.

    Source: RFC 6943 section 3.1.1 (strict form), RFC 4291 section 2.2.
    """
    if len(text) > _V6_MAX_LENGTH:
        return None
    if ":" in text:
        return _parse_v6(text)
    if _V4.fullmatch(text) is None:
        return None
    return IPv4Address(_v4_number(text))


def _v4_number(text: str) -> int:
    one, two, three, four = text.split(".")
    return int(one) << 24 | int(two) << 16 | int(three) << 8 | int(four)


def _parse_v6(text: str) -> IPv6Address | None:
    before, gap, after = text.partition("::")
    head = _groups(before, may_end_in_v4=not gap)
    tail = _groups(after, may_end_in_v4=True)
    if head is None or tail is None:
        return None
    missing = 8 - len(head) - len(tail)
    # `::` stands for at least one group; without it all eight are there.
    if missing < 1 if gap else missing != 0:
        return None
    number = 0
    for group in (*head, *([0] * missing), *tail):
        number = number << 16 | group
    return IPv6Address(number)


def _groups(text: str, *, may_end_in_v4: bool) -> list[int] | None:
    if not text:
        return []
    parts = text.split(":")
    last: list[int] = []
    if may_end_in_v4 and _V4.fullmatch(parts[-1]) is not None:
        number = _v4_number(parts.pop())
        last = [number >> 16, number & 0xFFFF]
    if any(_GROUP.fullmatch(part) is None for part in parts):
        return None
    return [int(part, 16) for part in parts] + last


def fold(address: Address) -> Address:
    """Give the IPv4 address of an IPv4-mapped one, and any other address as it is.

    Only `::ffff:0:0/96` folds: a kernel connects such an address by IPv4. Every other carrier goes by way of a
    translator or relay, and is judged by its own rules.
    """
    if isinstance(address, IPv6Address) and int(address) >> 32 == 0xFFFF:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def fold_network(network: Network) -> Network:
    """Give the IPv4 network of one inside `::ffff:0:0/96`, and any other network as it is."""
    if isinstance(network, IPv6Network) and network.prefixlen >= _MAPPED.prefixlen:
        first = fold(network.network_address)
        if isinstance(first, IPv4Address):
            return IPv4Network((int(first), network.prefixlen - _MAPPED.prefixlen))
    return network


def address_text(address: Address) -> str:
    """Give the one text of an address, the same under every version of Python: a mapped one ends in dotted form.

    Source: RFC 5952 sections 4 and 5.
    """
    folded = fold(address)
    return str(address) if folded is address else f"::ffff:{folded}"


def is_metadata(address: Address) -> bool:
    """Whether a platform's metadata service, or one of its helpers, has this address."""
    return fold(address) in METADATA


class _Spans:
    """Whether an address lies in any of some networks, by bisection over merged spans."""

    __slots__ = ("_v4", "_v6")

    def __init__(self, networks: Iterable[Network]) -> None:
        folded = [fold_network(network) for network in networks]
        self._v4 = _merged(network for network in folded if isinstance(network, IPv4Network))
        self._v6 = _merged(network for network in folded if isinstance(network, IPv6Network))

    def __contains__(self, address: Address) -> bool:
        return self._reaches(address, int(address))

    def holds(self, network: Network) -> bool:
        """Whether the whole network lies in one merged span."""
        return self._reaches(network.network_address, int(network.broadcast_address))

    def _reaches(self, address: Address, last: int) -> bool:
        firsts, lasts = self._v4 if isinstance(address, IPv4Address) else self._v6
        place = bisect_right(firsts, int(address)) - 1
        return place >= 0 and last <= lasts[place]


def _merged(networks: Iterable[Network]) -> tuple[list[int], list[int]]:
    firsts: list[int] = []
    lasts: list[int] = []
    for first, last in sorted((int(each.network_address), int(each.broadcast_address)) for each in networks):
        if lasts and first <= lasts[-1] + 1:
            lasts[-1] = max(lasts[-1], last)
        else:
            firsts.append(first)
            lasts.append(last)
    return firsts, lasts


_FLOOR = _Spans([*map(IPv4Network, _FLOOR_V4), *map(IPv6Network, _FLOOR_V6)])
_PRIVATE = _Spans([*map(IPv4Network, _PRIVATE_V4), *map(IPv6Network, _PRIVATE_V6)])


def _by_table(address: Address) -> AddressClass:
    if address in _FLOOR:
        return AddressClass.FLOOR
    return AddressClass.PRIVATE if address in _PRIVATE else AddressClass.PUBLIC


def is_floor_network(network: Network) -> bool:
    """Whether the table makes every address of a network floor, so that a rule for it can never take effect."""
    folded = fold_network(network)
    return _FLOOR.holds(folded) or (folded.num_addresses == 1 and folded.network_address in METADATA)


def is_private_network(network: Network) -> bool:
    """Whether the table makes every address of a network private, single metadata addresses apart."""
    return _PRIVATE.holds(fold_network(network))


@dataclass(frozen=True, slots=True)
class Reach:
    """What the node adds to the table.

    Attributes:
        own: The node's addresses, as networks; floor on every port.
        protected: Networks of the node's neighbours (sandbox subnets, resolvers, policy store); floor.
        unsafe_reach: For tests and demos: exactly these networks are public, metadata and `protected` excepted.
        nat64: A NAT64 prefix of the network; its addresses are judged as the IPv4 addresses they carry.

    Raises:
        ValueError: `nat64` has none of the lengths of RFC 6052; whoever configured it is at fault.
    """

    own: tuple[Network, ...] = ()
    protected: tuple[Network, ...] = ()
    unsafe_reach: tuple[Network, ...] = ()
    nat64: IPv6Network | None = None
    _own: _Spans = field(init=False, repr=False, compare=False)
    _protected: _Spans = field(init=False, repr=False, compare=False)
    _unsafe: _Spans = field(init=False, repr=False, compare=False)
    _memo: dict[Address, AddressClass] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        if self.nat64 is not None and self.nat64.prefixlen not in NAT64_LENGTHS:
            raise ValueError(f"a NAT64 prefix has one of the lengths {NAT64_LENGTHS}")
        object.__setattr__(self, "_own", _Spans(self.own))
        object.__setattr__(self, "_protected", _Spans(self.protected))
        object.__setattr__(self, "_unsafe", _Spans(self.unsafe_reach))

    def classify(self, address: Address) -> AddressClass:
        """Give the class of an address on this node.

        Metadata and protected addresses are floor whatever else is set; then `unsafe_reach` is public; then own
        addresses are floor; then the table decides. An address that carries an IPv4 address is never judged milder
        than that one.
        """
        known = self._memo.get(address)
        if known is None:
            known = self._judge(fold(address))
            if len(self._memo) >= _MEMO_MAX:
                self._memo.clear()
            self._memo[address] = known
        return known

    def _judge(self, address: Address) -> AddressClass:
        translated: IPv4Address | None = None
        if self.nat64 is not None and isinstance(address, IPv6Address) and address in self.nat64:
            translated = embedded_in_nat64(address, self.nat64)
            if translated is None:
                return AddressClass.FLOOR
        carried = [each for each in (translated, _carried_by_isatap(address)) if each is not None]
        every: list[Address] = [address, *carried]
        if any(each in METADATA or each in self._protected for each in every):
            return AddressClass.FLOOR
        # What `unsafe_reach` names is opened in its own spelling only: behind a translator it is another machine.
        if address in self._unsafe:
            return AddressClass.PUBLIC
        if any(each in self._own for each in every):
            return AddressClass.FLOOR
        return _strictest(_by_table(each) for each in every if translated is None or each is not address)


def _strictest(classes: Iterable[AddressClass]) -> AddressClass:
    found = set(classes)
    if AddressClass.FLOOR in found:
        return AddressClass.FLOOR
    return AddressClass.PRIVATE if AddressClass.PRIVATE in found else AddressClass.PUBLIC


def _carried_by_isatap(address: Address) -> IPv4Address | None:
    """Give the IPv4 address of an ISATAP interface id, with the universal and group bits set or not.

    Source: RFC 5214 section 6.1.
    """
    if isinstance(address, IPv4Address) or int(address) >> 32 & 0xFCFFFFFF != 0x00005EFE:
        return None
    return IPv4Address(int(address) & 0xFFFFFFFF)


# Where the IPv4 address stands, by prefix length: bits from the left, skipping bits 64 to 71, which are zero.
NAT64_LENGTHS = (32, 40, 48, 56, 64, 96)


def embedded_in_nat64(address: IPv6Address, prefix: IPv6Network) -> IPv4Address | None:
    """Give the IPv4 address that a NAT64 address carries, or None if its other bits are not zero as they must be.

    Args:
        address: Inside `prefix`.
        prefix: Of one of the lengths in `NAT64_LENGTHS`.

    Source: RFC 6052 section 2.2.
    """
    number = int(address)
    length = prefix.prefixlen
    if length == 96:
        # The octet of bits 64 to 71 lies in the prefix here, and is the operator's to choose.
        return IPv4Address(number & 0xFFFFFFFF)
    if number >> 56 & 0xFF:
        return None
    # Take the octet of zeros out: 120 bits are left, of which the IPv4 address follows the prefix.
    rest = number >> 64 << 56 | number & ((1 << 56) - 1)
    after = rest & ((1 << (120 - length)) - 1)
    spare = 120 - length - 32
    if after & ((1 << spare) - 1):
        return None
    return IPv4Address(after >> spare)


_BY_TABLE_ALONE = Reach()


def classify(address: Address) -> AddressClass:
    """Give the class of an address by the table alone, as the client knows it."""
    return _BY_TABLE_ALONE.classify(address)
