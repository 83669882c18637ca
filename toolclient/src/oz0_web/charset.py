"""Which encoding a body is in, and the body as text.

Pure. The order is: byte-order mark, the field's charset, what the document itself declares, UTF-8 if the bytes are
valid as that, and only then a guess from the bytes; statistics that beat a declaration are how other programs got it
wrong (case S1). Labels and decoders are the WHATWG ones, by turbohtml. Called by `page`.
"""

from __future__ import annotations

import codecs
import re

_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xfe\xff", "utf-16be"), (b"\xff\xfe", "utf-16le"))
# XML 1.0 section 4.3.3; the declaration stands at the very start.
_XML_DECLARATION = re.compile(rb"<\?xml[^>]{0,200}?\bencoding\s*=\s*[\"']([A-Za-z0-9._:-]{1,40})[\"']")

# Every label of the WHATWG table; anything else never reaches Python's codec search, which imports modules by name.
_LABEL = re.compile(r"[a-z0-9][a-z0-9_:-]{0,30}")


def decode_text(data: bytes, label: str | None, *, essence: str) -> str:
    """Give a body as text; what does not decode becomes U+FFFD.

    Args:
        data: The body, perhaps cut inside a character at its end.
        label: The charset of the Content-Type field, or None.
        essence: The type; markup types may declare their encoding inside.

    Returns:
        The text without its byte-order mark.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    for codec in _declared(data, label, essence):
        return data.decode(codec, "replace")
    text = _as_utf8(data)
    return text if text is not None else data.decode(_guess(data), "replace")


def _declared(data: bytes, label: str | None, essence: str) -> list[str]:
    """Give the usable encodings that are declared, the strongest first."""
    labels = [label] if label else []
    if essence.endswith(("/xml", "+xml")) and (match := _XML_DECLARATION.match(data)):
        labels.append(match[1].decode("ascii"))
    found = [codec for text in labels if (codec := _codec(text)) is not None]
    # A wide encoding without its mark, on bytes that are ASCII or UTF-8, is a wrong label (case S8).
    return [codec for codec in found if not _is_wide(codec) or _as_utf8(data) is None or b"\0" in data]


def _codec(label: str) -> str | None:
    """Give the codec for a WHATWG label, or None for an unknown one.

    Source: WHATWG Encoding section 4.2.
    """
    import turbohtml.detect  # noqa: F401 - registers the codecs; not loaded before a reply is there

    label = label.strip().lower()
    if _LABEL.fullmatch(label) is None:
        return None
    try:
        return codecs.lookup(f"whatwg-{label}").name
    except LookupError:
        return None


def _is_wide(codec: str) -> bool:
    return "a" in {b"a\0".decode(codec, "replace"), b"\0a".decode(codec, "replace")}


def _as_utf8(data: bytes) -> str | None:
    """Give the bytes as UTF-8 if they are, allowing for a last character that was cut."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return None


def _guess(data: bytes) -> str:
    """Give the codec of what a page declares in a meta element, or else of what its bytes look like."""
    from turbohtml.detect import detect

    return detect(data).codec or "whatwg-windows-1252"
