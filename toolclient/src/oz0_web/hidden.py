"""Whether an element is hidden from a reader by its own markup: attribute, class or inline style.

Pure, and knows no tree: name and attributes in, an answer out. Style sheets are not read, so a page can still hide what
this does not see; what it does see is where instructions for models are put (REQUIREMENTS 5.4, case O16). Called by
`html_page`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

# Exact class tokens; a substring test removes visible text (cases O18, O27).
HIDDEN_CLASSES = frozenset(
    {
        "d-none",
        "hidden",
        "invisible",
        "offscreen",
        "screen-reader-only",
        "screen-reader-text",
        "sr-only",
        "sr_only",
        "visually-hidden",
        "visuallyhidden",
    }
)
# A class that shows the element again from some screen width on, as Tailwind and Bootstrap write it.
_SHOWN_FROM_A_WIDTH = re.compile(
    r"(?:(?:sm|md|lg|xl|2xl):(?:not-sr-only|visible|block|flex|grid|inline\S*|table\S*|contents|list-item)"
    r"|d-(?:sm|md|lg|xl|xxl)-(?:block|flex|grid|inline\S*|table\S*))"
)
# The whole page; hiding it would leave nothing, and pages hide it until a script has run.
_NEVER_HIDDEN = frozenset({"html", "body", "main"})

_NUMBER = re.compile(r"([+-]?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9}))(px|em|rem|pt|%|vw|vh|ch)?")
# An offset that puts text off any screen.
_OFF_SCREEN = -1000.0
_PIXELS = {"px": 1.0, "pt": 1.33, "em": 16.0, "rem": 16.0, "ch": 8.0, "%": 10.0, "vw": 10.0, "vh": 10.0, None: 1.0}


def is_hidden(tag: str, attributes: Mapping[str, str | None]) -> bool:
    """Whether the element's own markup hides it.

    Args:
        tag: Its name in lower case.
        attributes: Names in lower case; None for one without a value.
    """
    if tag in _NEVER_HIDDEN:
        return False
    if "hidden" in attributes or (attributes.get("aria-hidden") or "").strip().lower() == "true":
        return True
    if tag == "dialog" and "open" not in attributes:
        return True
    if tag == "input" and (attributes.get("type") or "").strip().lower() == "hidden":
        return True
    classes = (attributes.get("class") or "").split()
    if not HIDDEN_CLASSES.isdisjoint(classes) and not any(_SHOWN_FROM_A_WIDTH.fullmatch(each) for each in classes):
        return True
    style = attributes.get("style")
    return style is not None and _is_hidden_by(_declarations(style))


def _declarations(style: str) -> dict[str, str]:
    """Read a style attribute leniently; of a property the last declaration holds, or the last important one."""
    found: dict[str, str] = {}
    important: set[str] = set()
    for declaration in _without_comments(style).split(";"):
        name, colon, value = declaration.partition(":")
        name = name.strip().lower()
        value = " ".join(value.lower().split())
        if not colon or (name in important and not value.endswith("important")):
            continue
        if value.endswith("important"):
            important.add(name)
            value = value.removesuffix("important").rstrip().removesuffix("!").rstrip()
        found[name] = value
    return found


def _without_comments(style: str) -> str:
    """Take CSS comments out; an open one swallows the rest. Not by a lazy match: without an end that is quadratic."""
    kept, start = [], 0
    while (opened := style.find("/*", start)) >= 0:
        kept.append(style[start:opened])
        closed = style.find("*/", opened + 2)
        if closed < 0:
            return "".join(kept)
        start = closed + 2
    return "".join([*kept, style[start:]])


def _is_hidden_by(style: Mapping[str, str]) -> bool:
    if any(test(style[name]) for name, test in _TESTS.items() if name in style):
        return True
    is_positioned = style.get("position") in {"absolute", "fixed"}
    if is_positioned and any(
        _is_off_screen(style[side]) for side in ("left", "top", "right", "bottom") if side in style
    ):
        return True
    is_clipped = style.get("overflow", "").startswith(("hidden", "clip"))
    return is_clipped and any(
        _is_tiny(style[side]) for side in ("width", "height", "max-height", "max-width") if side in style
    )


def _pixels(value: str) -> float | None:
    match = _NUMBER.fullmatch(value)
    return float(match[1]) * _PIXELS[match[2]] if match else None


def _is_zero(value: str) -> bool:
    return _pixels(value) == 0


def _is_tiny(value: str) -> bool:
    pixels = _pixels(value)
    return pixels is not None and 0 <= pixels <= 1


def _is_off_screen(value: str) -> bool:
    pixels = _pixels(value)
    return pixels is not None and pixels <= _OFF_SCREEN


def _is_clipped_away(value: str) -> bool:
    inside = re.fullmatch(r"rect\((.{0,80})\)", value)
    return inside is not None and all(_is_tiny(part) for part in re.split(r"[\s,]+", inside[1].strip()))


def _is_inset_away(value: str) -> bool:
    inside = re.fullmatch(r"inset\((.{0,80})\)", value)
    if inside is None:
        return False
    percents = [float(part[:-1]) for part in inside[1].split() if re.fullmatch(r"\d{1,3}(\.\d{0,3})?%", part)]
    return bool(percents) and max(percents) >= 50


def _is_moved_away(value: str) -> bool:
    if re.search(r"\bscale(?:3d|x|y)?\(\s*0*\.?0*\s*[,)]", value):
        return True
    moves = re.findall(r"\btranslate(?:3d|x|y)?\(([^)]{0,80})\)", value)
    return any(_is_off_screen(part.strip()) for move in moves for part in move.split(","))


def _is_see_through(value: str) -> bool:
    inside = re.fullmatch(r"(?:rgb|hsl)a?\((.{0,80})\)", value)
    if inside is None:
        return value == "transparent"
    commas, slashes = inside[1].split(","), inside[1].split("/")
    alpha = slashes[1] if len(slashes) == 2 else commas[3] if len(commas) == 4 else "1"
    return re.fullmatch(r"0*\.?0*%?", alpha.strip()) is not None


_TESTS: dict[str, Callable[[str], bool]] = {
    "display": lambda value: value == "none",
    "visibility": lambda value: value in {"hidden", "collapse"},
    "content-visibility": lambda value: value == "hidden",
    "opacity": _is_zero,
    "font-size": _is_zero,
    "text-indent": _is_off_screen,
    "color": _is_see_through,
    "clip": _is_clipped_away,
    "clip-path": _is_inset_away,
    "transform": _is_moved_away,
}
