"""Which encoding a body is in, and the body as text, with what decided it.

Pure. The order is: byte-order mark, the field's charset, what the document itself declares, UTF-8 if the bytes are
valid as that, and only then the fallback, windows-1252 unless a language stands out; statistics that beat a declaration
are how other programs got it wrong (case S1). Labels and decoders are the WHATWG ones, by turbohtml. Called by `page`
and `refresh`.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from enum import StrEnum

from oz0_web.media_types import HTML_TYPES
from oz0_web.prescan import PRESCAN_BYTES, declared_in_meta, declared_in_xml, encoding_name, meta_encoding

# UTF-32 is no encoding of the web; feeds in it exist, and its little-endian mark begins with that of UTF-16.
_MARKS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\0\0\xfe\xff", "utf-32be"),
    (b"\xff\xfe\0\0", "utf-32le"),
    (b"\xfe\xff", "utf-16be"),
    (b"\xff\xfe", "utf-16le"),
)
_WIDE = frozenset({"utf-16le", "utf-16be"})
_PYTHONS = _WIDE | {"utf-32le", "utf-32be"}
# How far a meta element may stand that the prescan did not reach. A parser meets it wherever it is.
_LATE_META_BYTES = 1_048_576


class Source(StrEnum):
    """What decided the encoding."""

    MARK = "byte-order mark"
    FIELD = "Content-Type field"
    DOCUMENT = "the document"
    VALID = "valid UTF-8"
    FALLBACK = "fallback"


@dataclass(frozen=True, slots=True)
class Decoded:
    """A body as text.

    Attributes:
        text: Without its byte-order mark; what does not decode is U+FFFD.
        encoding: The encoding's WHATWG name in lower case, or `utf-32be` or `utf-32le`.
        source: What decided it.
    """

    text: str
    encoding: str
    source: Source

    @property
    def note(self) -> str | None:
        """What the reader is told of it: nothing where it was declared, or is plainly UTF-8."""
        if self.source is not Source.FALLBACK:
            return None
        return f"no encoding is declared and it is not UTF-8: read as {self.encoding}, so some letters may be wrong"


def decode(data: bytes, label: str | None, *, essence: str) -> Decoded:
    """Decode a body.

    Args:
        data: The body, perhaps cut inside a character at its end.
        label: The charset of the Content-Type field, or None.
        essence: The type; markup types may declare their encoding inside.

    Source: WHATWG HTML, "encoding sniffing algorithm"; for XML, RFC 7303 section 3.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return Decoded(data[len(mark) :].decode(encoding, "replace"), encoding, Source.MARK)
    as_utf8 = _as_utf8(data)
    if (name := _usable(encoding_name(label) if label else None, data, as_utf8)) is not None:
        return _decoded(data, name, Source.FIELD, as_utf8)
    if (name := _usable(_declared(data, essence), data, as_utf8)) is not None:
        return _decoded(data, name, Source.DOCUMENT, as_utf8)
    if as_utf8 is not None:
        return Decoded(as_utf8, "utf-8", Source.VALID)
    return _decoded(data, _guess(data), Source.FALLBACK, as_utf8)


def decode_text(data: bytes, label: str | None, *, essence: str) -> str:
    """Give a body as text alone; see `decode`."""
    return decode(data, label, essence=essence).text


def _decoded(data: bytes, name: str, source: Source, as_utf8: str | None) -> Decoded:
    if name == "utf-8" and as_utf8 is not None:
        return Decoded(as_utf8, name, source)
    if name in _PYTHONS:
        return Decoded(data.decode(name, "replace"), name, source)
    import turbohtml.detect  # noqa: F401 - registers the codecs; not loaded before a reply is there

    return Decoded(data.decode(f"whatwg-{name}", "replace"), name, source)


def _usable(name: str | None, data: bytes, as_utf8: str | None) -> str | None:
    """Give the encoding if it can be the body's.

    A wide encoding without its mark, on bytes that are ASCII or UTF-8, is a wrong label (case S8). The replacement
    encoding stands for those that browsers no longer decode, for fear of scripts; here the bytes decide instead.
    """
    is_wrong = name in _WIDE and as_utf8 is not None and b"\0" not in data
    return None if is_wrong or name == "replacement" else name


def _declared(data: bytes, essence: str) -> str | None:
    """Give what a markup document declares."""
    if essence in HTML_TYPES:
        return declared_in_meta(data) or declared_in_xml(data) or _declared_late(data)
    return declared_in_xml(data) if essence.endswith(("/xml", "+xml")) else None


def _declared_late(data: bytes) -> str | None:
    """Give what a meta element beyond the prescan declares, as a parser meets it, so not from inside a script."""
    data = data[:_LATE_META_BYTES]
    if b"charset" not in data[PRESCAN_BYTES // 2 :].lower():
        return None
    from turbohtml import parse

    document = parse(data.decode("latin-1"), positions=False)
    for template in list(document.iter_elements("template")):
        template.decompose()
    for element in document.iter_elements("meta"):
        attributes = {name: str(value or "") for name, value in element.attrs.items()}
        if (name := meta_encoding(attributes)) is not None:
            return name
    return None


def _as_utf8(data: bytes) -> str | None:
    """Give the bytes as UTF-8 if they are.

    A body may have been cut inside its last character, which is then left out; but where that would be the only one
    beyond ASCII, nothing speaks for UTF-8 (`Café` in windows-1252 looks like that).
    """
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return None
    return None if text.isascii() and len(text) < len(data) else text


def _guess(data: bytes) -> str:
    """Give the encoding that the bytes look like where a language stands out, else windows-1252 (case S4)."""
    from turbohtml.detect import detect

    match = detect(data)
    name = encoding_name(match.encoding or "") if match.language is not None else None
    return name if name not in {None, "utf-8", "replacement"} and name is not None else "windows-1252"
