"""HTML text to Markdown or plain text: what is left out, what is mended before the writer sees it, and the title.

Pure. Decides OZ-36: no scripts, styles, navigation, page header or footer, nothing hidden. Parsing and writing are
turbohtml's (linear, depth capped), the passes on the tree between them are ours. Called by `page`, in a thread, after
the reply is there; the parser is imported only then.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias

from oz0_web.hidden import is_hidden
from oz0_web.mending import lift, mend

if TYPE_CHECKING:
    from turbohtml import Document, Element, Markdown, PlainText

Form: TypeAlias = Literal["markdown", "text"]

_LEFT_OUT = ("script", "style", "template", "nav", "svg", "canvas", "object", "embed", "noframes")
# A header or footer inside one of these belongs to it and stays; any other is the page's own (case E4, O19).
_SECTIONS = ("article", "main", "section")
_FOOTNOTES = '[role="doc-endnotes"], .footnotes, #footnotes, .footnote-list'
_HREF_MAX_CHARACTERS = 2_048
_DEAD_SCHEMES = ("javascript:", "vbscript:", "data:", "about:", "blob:")
# Says nothing and hides much: zero-width and bidirectional controls, soft hyphens, tag characters (case E17).
_INVISIBLE = dict.fromkeys(
    [
        0xAD,
        0x200B,
        0x200E,
        0x200F,
        0x2060,
        0xFEFF,
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
        *range(0xE0000, 0xE0080),
    ]
)


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """What became of a page.

    Attributes:
        title: The title, or the first level-1 heading, or empty.
        content: Markdown or text.
        hidden: How many hidden elements were left out; 0 where leaving them out would have emptied the page.
        kept_hidden: Whether that was so.
    """

    title: str
    content: str
    hidden: int
    kept_hidden: bool


def convert_html(text: str, base: str, form: Form) -> HtmlPage:
    """Convert a page.

    Args:
        text: The decoded document.
        base: The URL it came from in the end; relative links are resolved against it, or against the page's own base.
        form: What to write.

    Returns:
        The page; never an exception, whatever the text.
    """
    page = _convert(text, base, form, with_hidden=False)
    if page.content or not page.hidden:
        return page
    return _convert(text, base, form, with_hidden=True)


def _convert(text: str, base: str, form: Form, *, with_hidden: bool) -> HtmlPage:
    from turbohtml import parse

    document = parse(text, positions=False)
    title = _title(document)
    lift(document)
    _leave_out(document)
    hidden = 0 if with_hidden else _leave_out_hidden(document)
    _mend_links(document, base)
    mend(document)
    content = document.to_markdown(_writer()) if form == "markdown" else document.to_text(_text_writer())
    return HtmlPage(title, content.translate(_INVISIBLE).strip(), hidden, with_hidden)


@cache
def _writer() -> Markdown:
    from turbohtml import Markdown

    return Markdown(tables=Markdown.Tables(header="detect", cell_blocks="text"))


@cache
def _text_writer() -> PlainText:
    from turbohtml import PlainText

    return PlainText(bullet="- ")


def _title(document: Document) -> str:
    for selector in ("head > title", "h1"):
        found = document.select_one(selector)
        if found is not None and (words := found.text.translate(_INVISIBLE).split()):
            return " ".join(words)
    return ""


def _leave_out(document: Document) -> None:
    for element in list(document.iter_elements(_LEFT_OUT)):
        element.decompose()
    has_other_heading = any(not _is_page_edge(heading) for heading in document.iter_elements("h1"))
    for element in list(document.iter_elements(("header", "footer"))):
        if not _is_edge(element):
            continue
        kept = element.select(_FOOTNOTES) if element.tag == "footer" else []
        if element.tag == "header" and not has_other_heading:
            kept = element.select("h1")[:1]
            has_other_heading = bool(kept)
        if kept:
            element.replace_with(*kept)
        else:
            element.decompose()


def _is_edge(element: Element) -> bool:
    """Whether a header or footer is the page's own."""
    return not any(getattr(ancestor, "tag", "") in _SECTIONS for ancestor in element.ancestors)


def _is_page_edge(heading: Element) -> bool:
    edge = heading.closest("header, footer")
    return edge is not None and _is_edge(edge)


def _leave_out_hidden(document: Document) -> int:
    count = 0
    for element in list(document.iter_elements()):
        attributes = element.attrs
        if attributes and is_hidden(element.tag, {name: _first(value) for name, value in attributes.items()}):
            element.decompose()
            count += 1
    return count


def _first(value: str | list[str] | None) -> str | None:
    return " ".join(value) if isinstance(value, list) else value


def _mend_links(document: Document, base: str) -> None:
    """Make links absolute, and drop those that lead nowhere or are pages of data themselves (cases K7, K14, K16)."""
    for element in list(document.iter_elements(("a", "area", "base", "img", "iframe"))):
        name = "src" if element.tag in {"img", "iframe"} else "href"
        link = (element.attr(name) or "").strip()
        is_dead = link.lower().startswith(_DEAD_SCHEMES)
        if element.tag == "img" and is_dead:
            element.attrs["src"] = "data:"
        elif is_dead or not link or len(link) > _HREF_MAX_CHARACTERS:
            if name in element.attrs:
                del element.attrs[name]
            if element.tag == "a":
                element.unwrap()
    document.resolve_links(document.base_url(base))
    for frame in list(document.iter_elements("iframe")):
        _replace_frame(frame)


def _replace_frame(frame: Element) -> None:
    """Put a link in place of an embedded page (case O15)."""
    from turbohtml import Element

    source = frame.attr("src")
    if source is None or not source.startswith(("https://", "http://")):
        frame.decompose()
        return
    link = Element("a", {"href": source})
    link.set_text(" ".join((frame.attr("title") or source).split()))
    frame.replace_with(link)
