"""Tells whether a name is a public suffix, so that nobody allows a whole registry by a slip (`*.co.uk`).

The list comes with the publicsuffixlist package and is read when the first wildcard rule asks, because reading it takes
a tenth of a second that a start without such rules need not spend. Reads no network, ever. `egress_policy.rules` takes
`suffix_kind` as a function; the supervisor and `egressctl` hand it over.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from egress_policy.rules import SuffixKind

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList


@cache
def _lists() -> tuple[PublicSuffixList, PublicSuffixList]:
    from publicsuffixlist import PublicSuffixList  # noqa: PLC0415 - read only when a wildcard rule asks

    return PublicSuffixList(only_icann=True), PublicSuffixList()


def suffix_kind(name: str) -> SuffixKind | None:
    """Give the kind of public suffix that a name is, or None.

    Args:
        name: In A-label form, lower case, no final dot.

    Source: https://publicsuffix.org/list/, its ICANN and PRIVATE divisions.
    """
    icann, every = _lists()
    if icann.is_public(name):
        return SuffixKind.ICANN
    return SuffixKind.PRIVATE if every.is_public(name) else None
