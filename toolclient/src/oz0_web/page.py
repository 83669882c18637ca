"""A body and its type to what an agent reads: text by `media_types` and `charset`, HTML by `html_page`.

Pure. Called by `tools`, in a thread, because a long page takes longer than a cancel may wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from egress_policy.targets import Url
from oz0_web.charset import decode
from oz0_web.media_types import HTML_TYPES, RefusedType, parse_media_type, settle_type

Output: TypeAlias = Literal["markdown", "text", "raw"]


@dataclass(frozen=True, slots=True)
class Page:
    """What became of a body.

    Attributes:
        media_type: The type without parameters.
        title: The page's title; for other types the last segment of the path.
        content: The whole of it, uncut.
        notes: What was left out or kept that one would not expect.
    """

    media_type: str
    title: str
    content: str
    notes: tuple[str, ...] = ()


def make_page(data: bytes, content_type: str | None, url: Url, output: Output) -> Page | RefusedType:
    """Turn a body into a page.

    Args:
        data: The decoded body, perhaps cut at the byte limit.
        content_type: The Content-Type field, or None.
        url: Where it came from in the end.
        output: `raw` is the decoded text without conversion; the other two convert HTML only.
    """
    media_type = settle_type(parse_media_type(content_type), data)
    if isinstance(media_type, RefusedType):
        return media_type
    decoded = decode(data, media_type.charset, essence=media_type.essence)
    text, notes = decoded.text, [decoded.note] if decoded.note is not None else []
    is_html = media_type.essence in HTML_TYPES
    if not is_html:
        return Page(media_type.essence, _last_segment(url), text, tuple(notes))
    from oz0_web.html_page import convert_html

    converted = convert_html(text, url.text, "text" if output == "text" else "markdown")
    if output == "raw":
        return Page(media_type.essence, converted.title, text, tuple(notes))
    if converted.hidden:
        notes.append(f"{converted.hidden} hidden elements were left out")
    if converted.kept_hidden:
        notes.append("hidden elements were kept: without them the page would be empty")
    return Page(media_type.essence, converted.title, converted.content, tuple(notes))


def _last_segment(url: Url) -> str:
    return url.path.rpartition("/")[2]
