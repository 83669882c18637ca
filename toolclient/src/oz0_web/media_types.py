"""Which types are read: from a Content-Type field and the first bytes to a type, or to a refusal that names it.

Pure. Decides OZ-35: HTML, plain text, Markdown, CSV, JSON and XML; anything else is refused by its type. Called by
`tools`, once on the head before a body is read, and by `page` on the body, since a label can be wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
TEXT_TYPES = HTML_TYPES | {
    "text/plain",
    "text/markdown",
    "text/x-markdown",
    "text/csv",
    "application/json",
    "application/xml",
    "text/xml",
}
_TEXT_SUFFIXES = ("+json", "+xml")

# RFC 9110 section 8.3.1: type "/" subtype, both tokens; parameters after it, their values tokens or quoted strings.
_TCHARS = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_ESSENCE = re.compile(rf"\s*({_TCHARS}/{_TCHARS})\s*(?:;|$)")
_CHARSET = re.compile(rf";\s*charset\s*=\s*(?:\"([^\"\\]*)\"|({_TCHARS}))", re.IGNORECASE)
_TYPE_MAX_CHARACTERS = 127

# How much of a body is looked at for signs that it is not text (WHATWG MIME Sniffing section 5.2: 1445 bytes).
_SNIFFED_BYTES = 1445
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe", b"\0\0\xfe\xff")
# XML in wide characters without a mark (XML 1.0 appendix F).
_WIDE_XML = (b"<\0?\0", b"\0<\0?", b"<\0\0\0?\0\0\0", b"\0\0\0<\0\0\0?")
# WHATWG MIME Sniffing section 3: the binary data bytes.
_BINARY_BYTES = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
# Formats that servers are known to label as text, by their first bytes (cases Y2, S9).
_SIGNATURES = (
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b\x08", "application/gzip"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"wOFF", "font/woff"),
    (b"wOF2", "font/woff2"),
    (b"\x7fELF", "application/x-elf"),
)


@dataclass(frozen=True, slots=True)
class MediaType:
    """A type as a reply states it.

    Attributes:
        essence: `type/subtype` in lower case; empty where there is none or it does not parse.
        charset: The charset parameter as written, or None.
    """

    essence: str
    charset: str | None = None


@dataclass(frozen=True, slots=True)
class RefusedType:
    """A type that is not read.

    Attributes:
        found: The type, with what it was labelled as where that differs.
    """

    found: str


def parse_media_type(field: str | None) -> MediaType:
    """Read a Content-Type field.

    Source: RFC 9110 section 8.3.1.
    """
    match = _ESSENCE.match(field or "")
    if field is None or match is None or len(match[1]) > _TYPE_MAX_CHARACTERS:
        return MediaType("")
    charset = _CHARSET.search(field, match.end(1))
    return MediaType(match[1].lower(), (charset[1] or charset[2]) if charset else None)


def is_text(essence: str) -> bool:
    """Whether a type is one of those that are read (OZ-35)."""
    return essence in TEXT_TYPES or (
        "/" in essence and essence.endswith(_TEXT_SUFFIXES) and not essence.startswith("image/")
    )


def refused_by_label(media_type: MediaType) -> RefusedType | None:
    """Refuse a reply on its label alone, before its body is read; without a label the body decides."""
    if media_type.essence and not is_text(media_type.essence):
        return RefusedType(media_type.essence)
    return None


def settle_type(media_type: MediaType, data: bytes) -> MediaType | RefusedType:
    """Settle the type of a body that was read.

    Args:
        media_type: As labelled, and not refused by that.
        data: The body's first bytes or all of them.

    Returns:
        The type to treat it as (plain text where it has no label), or a refusal where the bytes are plainly something
        else.
    """
    head = data[:_SNIFFED_BYTES]
    labelled = f" (labelled {media_type.essence})" if media_type.essence else ""
    for signature, name in _SIGNATURES:
        if head.startswith(signature):
            return RefusedType(f"{name}{labelled}")
    is_wide = head.startswith(_BYTE_ORDER_MARKS + _WIDE_XML) or (media_type.charset or "").lower().startswith("utf-16")
    if _BINARY_BYTES.search(head) and not is_wide and (b"\0" in head or not media_type.essence):
        return RefusedType(f"binary data{labelled or ' without a type'}")
    return media_type if media_type.essence else MediaType("text/plain", media_type.charset)
