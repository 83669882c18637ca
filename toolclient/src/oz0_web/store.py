"""Conversions kept for a while, so that a further question about a page does not fetch and convert it again.

Pure: time comes in. Decides what is kept (the last 32 pages, 64 MB, ten minutes), for whom (a page is found again by
the caller that read it and by nobody else), and whether a page is another than that caller's last. Never decides
whether a kept page may be given: the way to it is checked anew by `tools`, which is the one that calls this.
"""

from __future__ import annotations

import hashlib
import sys
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from egress_policy.targets import Url
from oz0_web.limits import STORE_MAX_BYTES, STORE_MAX_PAGES, STORE_SECONDS
from oz0_web.page import Output, Page

if TYPE_CHECKING:
    from oz0_web.views import Subject

# Digests outlive the pages; so many are remembered for each page that may be kept.
_DIGESTS_FACTOR = 8


class Asked(NamedTuple):
    """What a page is found by.

    Attributes:
        caller: Who asks; one process on standard input is one caller.
        url: The URL that was asked for, without its fragment.
        output: What HTML becomes.
    """

    caller: str
    url: str
    output: Output


@dataclass(slots=True)
class Kept:
    """A conversion.

    Attributes:
        url: The final URL.
        status: The site's status.
        page: What became of the body.
        is_cut: Whether the body was longer than `max_bytes`.
        max_bytes: The limit that it was read with.
        way: Every URL asked on the way, first to final.
        read_at: When, in seconds on the caller's clock.
        subject: The page as views want it, once a view was asked for.
    """

    url: Url
    status: int
    page: Page
    is_cut: bool
    max_bytes: int
    way: tuple[Url, ...]
    read_at: float
    subject: Subject | None = None

    @property
    def size(self) -> int:
        """Give the bytes of memory that its text takes."""
        return sys.getsizeof(self.page.content)

    def serves(self, max_bytes: int, now: float) -> bool:
        """Whether it is fresh enough and as much of the page as is asked for."""
        is_whole_enough = not self.is_cut or self.max_bytes >= max_bytes
        return now - self.read_at < STORE_SECONDS and is_whole_enough


class Store:
    """Kept conversions, least recently used first."""

    def __init__(self) -> None:
        self._pages: OrderedDict[Asked, Kept] = OrderedDict()
        self._digests: OrderedDict[Asked, bytes] = OrderedDict()
        self._bytes = 0

    def find(self, asked: Asked, max_bytes: int, now: float) -> Kept | None:
        """Give a conversion that will do, or None.

        Args:
            asked: What for.
            max_bytes: How much of the body is wanted.
            now: Seconds on the clock of `Kept.read_at`.
        """
        kept = self._pages.get(asked)
        if kept is None:
            return None
        if not kept.serves(max_bytes, now):
            self._drop(asked)
            return None
        self._pages.move_to_end(asked)
        return kept

    def keep(self, asked: Asked, kept: Kept) -> bool:
        """Keep a conversion, under the URL that was asked for and under its final one.

        Returns:
            Whether the page is another than when this caller last read it.
        """
        final = asked._replace(url=kept.url.text.partition("#")[0])
        digest = hashlib.sha256(kept.page.content.encode("utf-8", "surrogatepass")).digest()
        before = self._digests.pop(final, digest)
        self._digests[final] = digest
        if len(self._digests) > _DIGESTS_FACTOR * STORE_MAX_PAGES:
            self._digests.popitem(last=False)
        for name in {asked, final}:
            self._drop(name)
            if kept.size <= STORE_MAX_BYTES:
                self._pages[name] = kept
                self._bytes += kept.size
        # A page under two names counts twice: a bound that is kept too well is simpler than one that is shared.
        while self._bytes > STORE_MAX_BYTES or len(self._pages) > STORE_MAX_PAGES:
            self._drop(next(iter(self._pages)))
        return before != digest

    def _drop(self, asked: Asked) -> None:
        kept = self._pages.pop(asked, None)
        if kept is not None:
            self._bytes -= kept.size
