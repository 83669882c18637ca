"""What Markdown cannot say or the writer gets wrong, said otherwise in the tree before it is written.

Pure but for the tree it is given, which it changes: declarative shadow roots, lazy images, languages of code blocks,
buttons in them, links round headings, readings of ruby, terms and summaries. Each pass is one walk over the elements it
is about, so the whole stays linear. Nothing is left out here that a reader would see. Called by `html_page`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from turbohtml import Document, Element

_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_NOT_IN_BOLD = (
    *_HEADINGS,
    "p",
    "div",
    "b",
    "strong",
    "dl",
    "dt",
    "details",
    "summary",
    "ul",
    "ol",
    "table",
    "pre",
    "blockquote",
)
# How highlighters name a language in a class: `language-x` (HTML), `lang-x`, `highlight-source-x`, `brush: x`.
_LANGUAGE_CLASS = re.compile(r"(?:language|lang|highlight-source)-([\w+#.-]{1,40})")
_BRUSH = re.compile(r"\bbrush:\s{0,8}([\w+#.-]{1,40}?);?(?:\s|$)")
_LANGUAGE = re.compile(r"[\w+#.-]{1,40}")
_LANGUAGE_ATTRIBUTES = ("data-lang", "data-language")
_LAZY_ATTRIBUTES = ("data-src", "data-lazy-src", "data-original")
_LAZY_SETS = ("data-srcset", "data-lazy-srcset", "srcset")
# A name that says of a picture that it only holds a place.
_PLACEHOLDER_SCHEME = "data:"


def lift(document: Document) -> None:
    """Bring out content that scripts or the browser would: at every cleaning level, before anything is left out."""
    for host in list(document.iter_elements()):
        if host.shadow_root is not None:
            _open(host)
    for image in list(document.iter_elements("img")):
        _load(image)


def mend(document: Document) -> None:
    """Rewrite what the Markdown writer would lose or break."""
    for block in list(document.iter_elements("pre")):
        _mend_code_block(block)
    for link in list(document.iter_elements("a")):
        _link_inside_heading(link)
    for reading in list(document.iter_elements("rt")):
        _put_in_brackets(reading)
    for bracket in list(document.iter_elements("rp")):
        bracket.decompose()
    for term in list(document.iter_elements(("dt", "summary"))):
        _make_bold(term)
    for inner in list(document.iter_elements(("b", "strong"))):
        if _is_inside_bold(inner):
            inner.unwrap()


def _open(host: Element) -> None:
    """Put what a declarative shadow root holds before what stands in its host already (case O12)."""
    root = host.shadow_root
    if root is not None:
        for child in [*root.children, *host.children]:
            host.append(child)


def _load(image: Element) -> None:
    """Give a lazy image the address it would load (case K18)."""
    source = (image.attr("src") or "").strip()
    lazy = next((value for name in _LAZY_ATTRIBUTES if (value := (image.attr(name) or "").strip())), "")
    if not lazy and (not source or source.lower().startswith(_PLACEHOLDER_SCHEME)):
        lazy = next((first for name in _LAZY_SETS if (first := _first_of_set(image.attr(name) or ""))), "")
    if lazy and not lazy.lower().startswith(_PLACEHOLDER_SCHEME):
        image.attrs["src"] = lazy


def _first_of_set(text: str) -> str:
    """Give the first URL of a srcset (HTML section 4.8.4.2.1)."""
    words = text.split(None, 1)
    return words[0].rstrip(",") if words else ""


def _mend_code_block(block: Element) -> None:
    for button in list(block.select("button")):
        button.decompose()
    code = block.select_one("code")
    around = block.parent
    places = [place for place in (code, block, around) if place is not None]
    language = next((found for place in places if (found := _language(place))), "")
    if language:
        target = code if code is not None else block
        target.attrs["class"] = f"language-{language}"
        block.attrs["class"] = f"language-{language}"


def _language(place: object) -> str:
    attributes = getattr(place, "attrs", None)
    if attributes is None:
        return ""
    for name in _LANGUAGE_ATTRIBUTES:
        value = str(attributes.get(name) or "")
        if _LANGUAGE.fullmatch(value):
            return value
    classes = attributes.get("class") or ""
    names: Iterable[str] = classes if isinstance(classes, list) else str(classes).split()
    if found := next((match[1] for name in names if (match := _LANGUAGE_CLASS.fullmatch(name))), ""):
        return found
    brush = _BRUSH.search(" ".join(names))
    return brush[1] if brush else ""


def _link_inside_heading(link: Element) -> None:
    """Turn a link round a heading into a heading with a link in it; what else was linked stays as text (K8, K9)."""
    from turbohtml import Element

    target = link.attr("href")
    heading = next(link.iter_elements(_HEADINGS), None)
    if target is None or heading is None:
        return
    inside = Element("a", {"href": target})
    children = list(heading.children)
    for child in children:
        inside.append(child)
    heading.append(inside)
    link.unwrap()


def _put_in_brackets(reading: Element) -> None:
    """Write a ruby reading behind its base, in brackets (case O11)."""
    from turbohtml import Text

    words = reading.text.strip()
    reading.replace_with(Text(f"({words})" if words else ""))


def _make_bold(term: Element) -> None:
    """Make a term or summary bold, where it holds words only (cases O1, O2)."""
    from turbohtml import Element

    # Blocks first, at any depth: nested terms are not to have their text read again at every level.
    if next(term.iter_elements(_NOT_IN_BOLD), None) is not None or not term.text.strip():
        return
    children = list(term.children)
    bold = Element("strong", {})
    for child in children:
        bold.append(child)
    term.append(bold)


def _is_inside_bold(inner: Element) -> bool:
    return any(getattr(ancestor, "tag", "") in {"b", "strong"} for ancestor in inner.ancestors)
