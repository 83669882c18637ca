"""A page that only says where the page is: a meta refresh, or the field of that name, as one more redirect.

Pure. Decides what a refresh says, which one of a document counts and when it is followed; where it leads is judged as
any redirect (`redirects`, `hops`), and counts among the five. Called by `visit` on a page that was read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from egress_policy.targets import Url, parse_url
from oz0_web.charset import decode_text
from oz0_web.hops import read_url
from oz0_web.limits import REFRESH_MAX_SECONDS, REFRESH_PRESCAN_BYTES
from oz0_web.media_types import HTML_TYPES, RefusedType, parse_media_type, settle_type
from oz0_web.redirects import lead_to
from oz0_web.stops import Code, Stop

# WHATWG HTML, "shared declarative refresh steps": digits, then digits and dots that do not count, then a separator.
_TIME = re.compile(r"[\t\n\f\r ]*+([0-9]++|(?=\.))[0-9.]*+(?:$|(?=[;,\t\n\f\r ]))")
_SEPARATOR = re.compile(r"[\t\n\f\r ]*+[;,]?[\t\n\f\r ]*+")
_URL_WORD = re.compile(r"url[\t\n\f\r ]*+=[\t\n\f\r ]*+", re.IGNORECASE)
_SPACE = "\t\n\f\r "
_SECONDS_MAX_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Refresh:
    """What a refresh says.

    Attributes:
        seconds: The delay, fractions dropped.
        url: Where to, as written; empty means the document itself.
    """

    seconds: int
    url: str


def parse_refresh(text: str) -> Refresh | None:
    """Read the content of a meta refresh.

    Args:
        text: The attribute's value.

    Returns:
        What it says, or None where it is none.

    Source: WHATWG HTML, section "Refresh state", the shared declarative refresh steps.
    """
    time = _TIME.match(text)
    if time is None:
        return None
    # Nobody waits that long, and Python refuses to read very long numbers.
    seconds = int(time[1][:_SECONDS_MAX_DIGITS] or "0")
    separator = _SEPARATOR.match(text, time.end())
    rest = text[separator.end() if separator else time.end() :]
    if word := _URL_WORD.match(rest):
        rest = rest[word.end() :]
    if rest[:1] in {'"', "'"}:
        rest = rest[1:].partition(rest[0])[0]
    # Parsing a URL drops these wherever they stand.
    return Refresh(seconds, re.sub(r"[\t\n\r]", "", rest.strip(_SPACE)))


def next_refresh(
    data: bytes, content_type: str | None, field: str | None, url: Url, chain: Sequence[str]
) -> Url | Stop | None:
    """Say where a page that was read leads by itself.

    Args:
        data: Its body; only the first `REFRESH_PRESCAN_BYTES` are looked at.
        content_type: Its Content-Type field, or None.
        field: Its Refresh field, or None.
        url: Where it came from.
        chain: The URLs asked before it, first to last.

    Returns:
        The next URL; a stop, where it must not be followed; None, where the page is the answer: it has no refresh, it
        wants to wait longer than `REFRESH_MAX_SECONDS`, it means itself, or what it names is no http or https URL.
    """
    said, base = (parse_refresh(field), url) if field is not None else (None, url)
    if said is None:
        said, base = _of_document(data, content_type, url)
    if said is None or said.seconds > REFRESH_MAX_SECONDS or not said.url:
        return None
    target = read_url(said.url, base=base, chain=(*chain, url.text))
    if isinstance(target, Stop):
        # An app's own scheme, say. The page that names it is all there is.
        return target if target.code not in {Code.BAD_URL, Code.SCHEME_REFUSED} else None
    if target.text.partition("#")[0] == url.text.partition("#")[0]:
        return None
    return lead_to(target, url, chain)


def _of_document(data: bytes, content_type: str | None, url: Url) -> tuple[Refresh | None, Url]:
    """Give the first meta refresh of an HTML page, and what its URL is relative to."""
    start = data[:REFRESH_PRESCAN_BYTES]
    media_type = settle_type(parse_media_type(content_type), start)
    if isinstance(media_type, RefusedType) or media_type.essence not in HTML_TYPES:
        return None, url
    # In ASCII, as in all encodings of the web but the wide ones, whose letters are two bytes.
    if b"refresh" not in start.replace(b"\0", b"").lower():
        return None, url
    from turbohtml import parse

    text = decode_text(start, media_type.charset, essence=media_type.essence)
    # With scripting, so that noscript is text: what it holds is for those who would rather not see the page as it is.
    document = parse(text, positions=False, scripting=True)
    for template in list(document.iter_elements("template")):
        template.decompose()  # what is in one is not part of the page
    base = next((each.attrs.get("href") for each in document.iter_elements("base") if each.attrs.get("href")), None)
    for element in document.iter_elements("meta"):
        if str(element.attrs.get("http-equiv") or "").strip().lower() != "refresh":
            continue
        said = parse_refresh(str(element.attrs.get("content") or ""))
        if said is not None:
            found = parse_url(str(base), url) if base else url
            return said, found if isinstance(found, Url) else url
    return None, url
