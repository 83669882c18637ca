"""Fixes the addresses that a dial may use, or refuses the target for them.

`pin` is the second half of the judgement: `judge` decided on the name, `pin` decides on every address the name has.
The result, a `PinnedTarget`, is the only thing the dialer takes, so no name can reach a connect call and nothing is
resolved a second time (cases C1, C5). Resolves nothing, dials nothing, sees no clock.

Called by the worker's connection after the look-up.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from egress_policy.addresses import AddressClass, fold
from egress_policy.names import HostName
from egress_policy.reasons import Reason, Refusal, Stage
from egress_policy.rules import ListKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from egress_policy.addresses import Address
    from egress_policy.targets import Target
    from egressd.answers import Answers
    from egressd.grants import Grant
    from egressd.judge import Allowed

LITERAL_PIN_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Place:
    """One judged address and the port, with the text form that `connect` takes."""

    address: Address
    sockaddr: tuple[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class PinnedTarget:
    """A target with the places that were judged for it, in the order to dial them.

    `expires` is in seconds on the monotonic clock: a new request after it resolves and pins anew.
    """

    target: Target
    places: tuple[Place, ...]
    allowed: Allowed
    grant: Grant
    expires: float


def pin(
    allowed: Allowed, answers: Answers | None, grant: Grant, *, now: float, unix_now: float
) -> PinnedTarget | Refusal:
    """Fix the addresses a dial to this target may use, or refuse it.

    A mixed answer (some addresses allowed, some not) is refused as a whole: whoever controls the answer put the
    others there, a client that fails over would reach for them next, and "the public one worked" would hide it.

    Args:
        allowed: What `judge_target` said of the target under this grant.
        answers: All addresses of the name; None for a literal.
        now: Seconds on the monotonic clock.
        unix_now: Unix seconds, for rules with an end.

    Returns:
        The addresses in dial order, or a refusal at stage `resolve` or `pin`.

    Source: RFC 8305 section 4 for the order.
    """
    target = allowed.target
    host = target.host
    if not isinstance(host, HostName):
        return _pinned(allowed, (fold(host),), grant, now + LITERAL_PIN_SECONDS)
    if answers is None or not answers.addresses:
        return Refusal(Reason.RESOLVE_FAILED, Stage.RESOLVE, target)
    for address in answers.addresses:
        if not may_resolve_to(address, allowed, grant, unix_now=unix_now):
            return Refusal(Reason.RESOLVED_ADDRESS_DENIED, Stage.PIN, target)
    return _pinned(allowed, dial_order(answers.addresses), grant, answers.expires)


def _pinned(allowed: Allowed, addresses: tuple[Address, ...], grant: Grant, expires: float) -> PinnedTarget:
    port = allowed.target.port
    places = tuple(Place(address, (str(address), port)) for address in addresses)
    return PinnedTarget(allowed.target, places, allowed, grant, expires)


def may_resolve_to(address: Address, allowed: Allowed, grant: Grant, *, unix_now: float) -> bool:
    """Whether the allowed name may have this address: no floor, no denied network, private by right only."""
    judged = grant.reach.classify(address)
    if judged is AddressClass.FLOOR or grant.is_own_listener(address, allowed.target.port):
        return False
    if grant.denying_rule(address, allowed.target.port, unix_now=unix_now) is not None:
        return False
    if judged is AddressClass.PUBLIC:
        return True
    match = allowed.match
    if allowed.public_only:
        return False
    if match.kind is ListKind.ENDPOINT:
        return True
    folded = fold(address)
    return match.kind is ListKind.TENANT and match.exact and any(folded in network for network in grant.private)


def is_mixed(allowed: Allowed, answers: Answers, grant: Grant, *, unix_now: float) -> bool:
    """Whether a refused answer also held addresses that would have been allowed; counted apart (case C2)."""
    return any(may_resolve_to(address, allowed, grant, unix_now=unix_now) for address in answers.addresses)


def dial_order(addresses: Iterable[Address]) -> tuple[Address, ...]:
    """Interleave the families, IPv6 first, each in the order of the answer, no address twice.

    Source: RFC 8305 section 4.
    """
    folded = list(dict.fromkeys(fold(address) for address in addresses))
    six = [address for address in folded if address.version == 6]
    four = [address for address in folded if address.version == 4]
    return tuple(address for pair in zip_longest(six, four) for address in pair if address is not None)


def still_allowed(address: Address, target: Target, allowed: Allowed, grant: Grant, *, unix_now: float) -> bool:
    """Whether a connection to this address is still right under a grant; asked after the dial, before the 200.

    `allowed` is the verdict on the target under the same grant.
    """
    if isinstance(target.host, HostName):
        return may_resolve_to(address, allowed, grant, unix_now=unix_now)
    return fold(target.host) == fold(address)
