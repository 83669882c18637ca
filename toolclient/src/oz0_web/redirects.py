"""What a reply says about going elsewhere: the next URL, nothing, or the end.

Pure. Decides which statuses are redirects, what a Location means and when a chain is too long or a loop. The checks on
the next URL are the hop's (`hops`), the same as on the first. Called by `visit`.
"""

from __future__ import annotations

from collections.abc import Sequence

from egress_policy.targets import Url
from oz0_web.hops import read_url
from oz0_web.limits import REDIRECTS_MAX
from oz0_web.replies import ReplyHead
from oz0_web.stops import By, Code, Stop

# 300 offers a choice, 304 answers a question that was not asked (case H18), 305 and 306 are out of use (RFC 9110
# section 15.4).
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


def next_hop(head: ReplyHead, url: Url, chain: Sequence[str], *, most: int = REDIRECTS_MAX) -> Url | Stop | None:
    """Say where a reply leads.

    Args:
        head: The reply's head.
        url: The URL that was asked.
        chain: The URLs asked before it, first to last.
        most: Most redirects to follow.

    Returns:
        The next URL; a stop, where it cannot be followed; None, where the reply is the answer (a redirect without a
        Location too).

    Source: RFC 9110 section 15.4 and, for the fragment, section 10.2.2.
    """
    locations = head.all(b"location")
    if head.status not in _REDIRECTS or not locations:
        return None
    if len(set(locations)) > 1:
        return Stop(
            code=Code.SITE_BROKE_HTTP,
            by=By.SITE,
            url=url.text,
            detail="it redirects to two places at once",
            chain=tuple(chain),
        )
    target = read_url(locations[0], base=url, chain=(*chain, url.text))
    return target if isinstance(target, Stop) else lead_to(target, url, chain, most=most)


def lead_to(target: Url, url: Url, chain: Sequence[str], *, most: int = REDIRECTS_MAX) -> Url | Stop:
    """Say whether a redirect may be followed as one more of its chain.

    Args:
        target: Where it leads.
        url: The URL that was asked.
        chain: The URLs asked before it, first to last.
        most: Most redirects to follow.

    Returns:
        The target, or a stop where the chain is a loop or too long.
    """
    asked = (*chain, url.text)
    if _without_fragment(target.text) in {_without_fragment(each) for each in asked}:
        return Stop(code=Code.REDIRECT_LOOP, by=By.SITE, url=target.text, target=target.target, chain=asked)
    if len(asked) > most:
        return Stop(
            code=Code.REDIRECT_LIMIT,
            by=By.CLIENT,
            url=target.text,
            target=target.target,
            detail=f"at most {most} redirects are followed",
            chain=asked,
        )
    return target


def _without_fragment(text: str) -> str:
    return text.partition("#")[0]
