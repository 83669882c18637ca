"""What a document's first bytes say of its own encoding: a meta element, an XML declaration.

Pure. Walks bytes as the HTML standard says, before anything is decoded or parsed, and each byte once. Which of several
declarations counts is `charset`'s to decide; it calls this.
"""

from __future__ import annotations

import re
from functools import lru_cache

# WHATWG HTML, "determining the character encoding": the first 1024 bytes are looked at.
PRESCAN_BYTES = 1_024
_SPACE = b"\t\n\f\r "
_TAG_START = re.compile(rb"</?[A-Za-z][^\t\n\f\r >]*")
_META_START = re.compile(rb"<meta(?=[\t\n\f\r /])", re.IGNORECASE)
_SKIPPED = re.compile(rb"[\t\n\f\r /]*")
_SPACES = re.compile(rb"[\t\n\f\r ]*")
_NAME = re.compile(rb"(?:[^\t\n\f\r />][^\t\n\f\r />=]*)")
_UNQUOTED = re.compile(rb"[^\t\n\f\r >]*")
_CHARSET = re.compile(r"charset[\t\n\f\r ]*+(=[\t\n\f\r ]*+)?", re.IGNORECASE)
_BARE = re.compile(r"[^\t\n\f\r ;]*")
# XML 1.0 section 4.3.3; the declaration stands at the very start. Without it, wide characters give themselves away
# (appendix F).
_XML_DECLARATION = re.compile(rb"<\?xml[^>]{0,200}?\bencoding[\t\n\r ]*=[\t\n\r ]*([\"'])([^\"'>]{1,40})\1")
_WIDE_XML = (
    (b"<\0?\0x\0", "utf-16le"),
    (b"\0<\0?\0x", "utf-16be"),
    (b"<\0\0\0?\0\0\0", "utf-32le"),
    (b"\0\0\0<\0\0\0?", "utf-32be"),
)
_LABEL = re.compile(r"[a-z0-9][a-z0-9_:.()-]{0,30}")


@lru_cache(maxsize=128)
def encoding_name(label: str) -> str | None:
    """Give the name of the encoding that a label stands for, in lower case, or None for an unknown label.

    Source: WHATWG Encoding section 4.2.
    """
    from turbohtml import parse  # not loaded before a reply is there

    # Single quotes are no quotes in a field, and some servers use them.
    label = label.strip("\t\n\f\r '").lower()
    if _LABEL.fullmatch(label) is None:
        return None
    try:
        name = parse(b"", encoding=label).encoding
    except LookupError:
        return None
    return name.lower() if name is not None else None


def declared_in_meta(data: bytes) -> str | None:
    """Give the encoding that the first meta element with one declares within the first `PRESCAN_BYTES`.

    Source: WHATWG HTML, "prescan a byte stream to determine its encoding".
    """
    data = data[:PRESCAN_BYTES]
    at = data.find(b"<")
    while at >= 0:
        if data.startswith(b"<!--", at):
            end = data.find(b"-->", at + 2)
            if end < 0:
                return None
            at = end + 2
        elif meta := _META_START.match(data, at):
            attributes, at = _attributes(data, meta.end())
            if at >= len(data):
                return None
            if (name := meta_encoding(attributes)) is not None:
                return name
        elif tag := _TAG_START.match(data, at):
            _, at = _attributes(data, tag.end())
        elif data[at + 1 : at + 2] in {b"!", b"/", b"?"}:
            at = data.find(b">", at + 1)
            if at < 0:
                return None
        at = data.find(b"<", at + 1)
    return None


def meta_encoding(attributes: dict[str, str]) -> str | None:
    """Give the encoding that a meta element declares.

    Args:
        attributes: By lower-case name.

    Returns:
        Its name; a document that could be read up to here is not in a wide encoding, so those mean UTF-8.
    """
    if (label := attributes.get("charset")) is not None:
        name = encoding_name(label)
    elif attributes.get("http-equiv", "").lower() == "content-type":
        name = encoding_name(label_in_content(attributes.get("content", "")) or "")
    else:
        return None
    if name in {"utf-16le", "utf-16be"}:
        return "utf-8"
    return "windows-1252" if name == "x-user-defined" else name


def label_in_content(content: str) -> str | None:
    """Give the label in a meta element's content, such as `text/html; charset=utf-8`.

    Source: WHATWG HTML, "extracting a character encoding from a meta element".
    """
    for found in _CHARSET.finditer(content):
        if found[1] is None:
            continue
        rest = content[found.end() :]
        if rest[:1] in {'"', "'"}:
            label, end, _ = rest[1:].partition(rest[0])
            return label if end else None
        bare = _BARE.match(rest)
        return bare[0] if bare else None
    return None


def declared_in_xml(data: bytes) -> str | None:
    """Give the encoding of an XML declaration, or the wide one that the declaration is written in.

    Source: XML 1.0 section 4.3.3 and appendix F; WHATWG HTML, "get an XML encoding".
    """
    for start, wide in _WIDE_XML:
        if data.startswith(start):
            return wide
    declaration = _XML_DECLARATION.match(data)
    name = encoding_name(declaration[2].decode("latin-1")) if declaration else None
    return "utf-8" if name in {"utf-16le", "utf-16be"} else name


def _attributes(data: bytes, at: int) -> tuple[dict[str, str], int]:
    """Give a tag's attributes, the first of each name, and the place of its end, or of the data's where it has none."""
    found: dict[str, str] = {}
    while True:
        at = _end(_SKIPPED, data, at)
        if at >= len(data) or data[at : at + 1] == b">":
            return found, at
        name, value, at = _attribute(data, at)
        if at >= len(data):
            return found, at
        found.setdefault(name, value)


def _attribute(data: bytes, at: int) -> tuple[str, str, int]:
    """Give an attribute's name and value, in lower case, and the place after it."""
    end = _end(_NAME, data, at)
    name = data[at:end].decode("latin-1").lower()
    at = _end(_SPACES, data, end)
    if data[at : at + 1] != b"=":
        return name, "", at
    at = _end(_SPACES, data, at + 1)
    quote = data[at : at + 1]
    if quote in {b'"', b"'"}:
        end = data.find(quote, at + 1)
        if end < 0:
            return name, "", len(data)
        return name, data[at + 1 : end].decode("latin-1").lower(), end + 1
    end = _end(_UNQUOTED, data, at)
    return name, data[at:end].decode("latin-1").lower(), end


def _end(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    match = pattern.match(data, at)
    return match.end() if match else at
