"""The `oz0` façade's answers: what `fetch` returns, and how it is written as JSON and as text.

Pure. A fitted answer is measured as one of these writes it, so every field here is within the budget; with little room
the fields that a caller can do without say less. Called by `oz0`, which chooses, and by whoever sends.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from oz0_web.fit import META_KEY, Fit

if TYPE_CHECKING:
    from oz0_web.fitting import Draft
    from oz0_web.tools import Reading

# Title and URL at each thrift from 0 on.
_TITLE_CHARACTERS = (400, 120, 60, 20, 0, 0)
_URL_CHARACTERS = (10_000, 10_000, 1_000, 200, 60, 40)

_THRIFT_WITHOUT_TYPE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResult:
    """What `fetch` returns (OZ-10).

    Attributes:
        url: The final URL.
        status: The site's status; errors have content too.
        type: The media type without parameters.
        title: The page's title, or empty.
        content: At most `max_chars` code points.
        truncated: Whether anything was cut, by `max_chars`, by `max_bytes` or to fit.
        redirects: The URLs that led here, first to last; not part of the serialised result when there are none.
        notes: What was left out or kept that one would not expect; not part of the serialised result.
        fit: With a budget, view or query, what came back (OZ-46).
    """

    url: str
    status: int
    type: str
    title: str
    content: str
    truncated: bool
    redirects: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    fit: Fit | None = None

    def as_json(self) -> dict[str, object]:
        """Give the result as it is serialised."""
        found: dict[str, object] = {
            "url": self.url,
            "status": self.status,
            "type": self.type,
            "title": self.title,
            "content": self.content,
            "truncated": self.truncated,
        }
        if self.redirects:
            found["redirects"] = list(self.redirects)
        if self.fit is not None:
            if self.fit.thrift >= _THRIFT_WITHOUT_TYPE:
                del found["type"], found["title"]
            found["fit"] = self.fit.as_json()
        return found

    def meta(self) -> dict[str, object]:
        """Give the result's `_meta`: the fit note a second time (OZ-46), or nothing."""
        return {META_KEY: self.fit.as_json()} if self.fit is not None else {}


def fitted_result(reading: Reading, draft: Draft) -> FetchResult:
    """Give the result for a draft, saving as much of its head as the draft says."""
    url = reading.url
    most = _URL_CHARACTERS[draft.thrift]
    return FetchResult(
        url=url if len(url) <= most else url[: most - 1] + "…",
        status=reading.status,
        type=reading.page.media_type,
        title=reading.page.title[: _TITLE_CHARACTERS[draft.thrift]],
        content=draft.content,
        truncated=draft.is_short or reading.is_cut,
        redirects=reading.chain if draft.thrift < 2 else (),
        notes=reading.page.notes if draft.thrift < 2 else (),
        fit=draft.fit,
    )


class Form(Protocol):
    """A way to write a result; whoever sends results in another way brings its own, so that its bytes are counted."""

    def write(self, result: FetchResult) -> str:
        """Give the result as it is sent."""

    def escape(self, content: str) -> str:
        """Give content as it stands in there."""


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class JsonForm:
    """One JSON object on one line, characters beyond ASCII as they are."""

    def write(self, result: FetchResult) -> str:
        """Give the object."""
        return _compact(result.as_json())

    def escape(self, content: str) -> str:
        """Give the content as it stands in a JSON string."""
        return json.dumps(content, ensure_ascii=False)[1:-1]


class TextForm:
    """Lines about the page, the content, and lines about the answer."""

    def write(self, result: FetchResult) -> str:
        """Give all of it."""
        return "\n".join([*head_lines(result), result.content, *tail_lines(result)]) + "\n"

    def escape(self, content: str) -> str:
        """Give the content as it is."""
        return content


JSON_FORM = JsonForm()
TEXT_FORM = TextForm()


def head_lines(result: FetchResult) -> list[str]:
    """Give what is said before the content."""
    title = f" · {result.title}" if result.title else ""
    return [
        *(f"redirected from {url}" for url in result.redirects),
        f"{result.url} · {result.status} · {result.type}{title}",
    ]


def tail_lines(result: FetchResult) -> list[str]:
    """Give what is said after it."""
    lines = list(result.notes)
    if result.fit is not None:
        lines.append(f"fit: {_compact(result.fit.as_json())}")
    elif result.truncated:
        lines.append("cut short: ask for more with --max-chars or --max-bytes")
    return lines
