"""What a name's look-up gives: addresses for a bounded time, or a fault; and how DNS records become one of the two.

`read_family` judges one response, `combine` puts both families together. An answer that is odd (records of another
name only, a loop of aliases, more addresses than any service has) is a failure and never a guess. Decides nothing about
which address may be dialed; that is `pinning`. Asks nobody, sees no clock.

Called by the worker's resolver; `Answers` and `ResolveFault` go on to the connection and to `pinning`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING

from egressd.limits import (
    DNS_ANSWER_MAX_ADDRESSES,
    DNS_CHAIN_MAX_HOPS,
    DNS_FAILURE_SECONDS,
    DNS_NEGATIVE_SECONDS,
    DNS_TTL_MAX_SECONDS,
    DNS_TTL_MIN_SECONDS,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from egress_policy.addresses import Address

# Types of records (RFC 1035 section 3.2.2, RFC 3596 section 2.1) and the class Internet.
TYPE_A = 1
TYPE_CNAME = 5
TYPE_AAAA = 28
CLASS_IN = 1


@dataclass(frozen=True, slots=True)
class Answers:
    """Every address of a name, IPv4 first; `expires` is in seconds on the monotonic clock."""

    addresses: tuple[Address, ...]
    expires: float


@dataclass(frozen=True, slots=True)
class ResolveFault:
    """Why a name has no addresses now.

    Attributes:
        kind: "nxdomain" (no such name, or a name without addresses), "timeout", or "failed" (all else: the name
            servers refuse, fail, or say something odd).
        expires: Until when the fault is remembered, in seconds on the monotonic clock.
    """

    kind: str
    expires: float = 0.0


@dataclass(frozen=True, slots=True)
class Record:
    """One resource record of an answer section; `data` is the address or the alias as text."""

    owner: str
    type: int
    record_class: int
    ttl: int
    data: str


class Failure(Enum):
    """Why one family has no addresses."""

    NO_NAME = "no such name"
    NO_DATA = "the name has no address of this family"
    TIMEOUT = "no answer in time"
    FAILED = "the name servers refuse or fail"
    ODD = "the answer makes no sense"


@dataclass(frozen=True, slots=True)
class Found:
    """The addresses of one family, and the smallest TTL on the way to them."""

    addresses: tuple[Address, ...]
    ttl: int


def read_family(name: str, record_type: int, records: Iterable[Record]) -> Found | Failure:
    """Read one response: follow the aliases that it holds, and take the addresses at their end.

    Records that are not on the way are passed over: they are somebody's else, and nothing asked for them. An alias
    whose target the response does not hold is no data; it is not looked up apart, so that one request costs one
    question a family.

    Args:
        name: Absolute, lower case, without the final dot.
        record_type: `TYPE_A` or `TYPE_AAAA`.
        records: The answer section.

    Source: RFC 1034 section 3.6.2 for aliases.
    """
    addresses: dict[str, list[Record]] = {}
    aliases: dict[str, Record] = {}
    strange = 0
    for record in records:
        owner = record.owner.lower().rstrip(".")
        if record.record_class != CLASS_IN:
            strange += 1
        elif record.type == record_type:
            addresses.setdefault(owner, []).append(record)
        elif record.type == TYPE_CNAME:
            if owner in aliases and aliases[owner].data.lower() != record.data.lower():
                return Failure.ODD  # one name has one canonical name
            aliases[owner] = record
        else:
            strange += 1
    ttls: list[int] = []
    for _ in range(DNS_CHAIN_MAX_HOPS + 1):
        rows = addresses.get(name)
        alias = aliases.get(name)
        if rows is not None:
            return _found(rows, ttls, record_type) if alias is None else Failure.ODD
        if alias is None:
            # Nothing at all is no data, and so is an alias to nowhere; records that are all somebody else's are odd.
            return Failure.ODD if not ttls and (addresses or aliases or strange) else Failure.NO_DATA
        ttls.append(alias.ttl)
        name = alias.data.lower().rstrip(".")
    return Failure.ODD


def _found(rows: list[Record], ttls: list[int], record_type: int) -> Found | Failure:
    if len(rows) > DNS_ANSWER_MAX_ADDRESSES:
        return Failure.ODD
    make = IPv4Address if record_type == TYPE_A else IPv6Address
    try:
        found = tuple(dict.fromkeys(make(row.data) for row in rows))
    except ValueError:
        return Failure.ODD
    return Found(found, min([*ttls, *(row.ttl for row in rows)]))


def combine(four: Found | Failure, six: Found | Failure, *, now: float) -> Answers | ResolveFault:
    """Put both families together: one that failed counts as none, and two that failed are a fault.

    A fault is remembered too, a failure more shortly than the word of a name server that there is nothing.

    Args:
        four: What became of the A question.
        six: What became of the AAAA question.
        now: Seconds on the monotonic clock.

    Source: RFC 9520 section 3.2 for remembering failures, RFC 2308 section 5 for remembering nothing.
    """
    found = [each for each in (four, six) if isinstance(each, Found)]
    if found:
        addresses = tuple(address for each in found for address in each.addresses)
        if len(addresses) > DNS_ANSWER_MAX_ADDRESSES:
            return ResolveFault("failed", now + DNS_FAILURE_SECONDS)
        return Answers(addresses, now + bounded_ttl(min(each.ttl for each in found)))
    if Failure.NO_NAME in (four, six) or (four is Failure.NO_DATA and six is Failure.NO_DATA):
        return ResolveFault("nxdomain", now + DNS_NEGATIVE_SECONDS)
    kind = "timeout" if Failure.TIMEOUT in (four, six) else "failed"
    return ResolveFault(kind, now + DNS_FAILURE_SECONDS)


def bounded_ttl(ttl: float) -> float:
    """Keep a TTL within what this proxy remembers, in seconds (DESIGN: 1 to 300)."""
    return min(max(float(ttl), DNS_TTL_MIN_SECONDS), DNS_TTL_MAX_SECONDS)


def fixed(addresses: tuple[Address, ...]) -> Answers:
    """Give answers from the configuration, which end with the policy that holds them."""
    return Answers(addresses, math.inf)
