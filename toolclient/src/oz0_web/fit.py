"""The fit note: which view came back, how big it and the page are, what was left out, and how to ask for more.

Pure values and their JSON. The same object stands in the answer and as `oz0/fit` in the result's `_meta` (OZ-46). With
little room the note says less, never something else. Called by `fitting` and the façades.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from oz0_web.outline import Span
from oz0_web.views import ViewName

META_KEY = "oz0/fit"
_OMITTED_MAX = 6
_OMITTED_MAX_LEAN = 2


@dataclass(frozen=True, slots=True)
class Stored:
    """That a kept conversion was used.

    Attributes:
        age: Seconds since the page was read.
    """

    age: int


@dataclass(frozen=True, slots=True)
class Fit:
    """The note.

    Attributes:
        view: What came back.
        requested_view: What was asked for, or None.
        budget: What was asked for, in tokens, or None.
        page_tokens: The whole page's Markdown.
        answer_tokens: The answer as serialised, this note included.
        omitted: Ranges of lines that are not in the content.
        more: A call that gives what follows, or None.
        estimator: What counted, and how well.
        is_filled: Whether a summary has more than first sentences.
        note: What else one should know, or empty.
        matches: Further headings that match the query, with their lines.
        stored: Whether a kept conversion was used.
        has_changed: Whether the page is another than when this caller last asked.
        thrift: 0 tells all; from 1 on less, where the budget has no room for it.
    """

    view: ViewName
    requested_view: ViewName | None
    budget: int | None
    page_tokens: int
    answer_tokens: int = 0
    omitted: tuple[str, ...] = ()
    more: Mapping[str, object] | None = None
    estimator: str = ""
    is_filled: bool = False
    note: str = ""
    matches: tuple[str, ...] = ()
    stored: Stored | None = None
    has_changed: bool = False
    thrift: int = field(default=0, compare=False)

    def as_json(self) -> dict[str, object]:
        """Give the note as it is serialised."""
        found: dict[str, object] = {"view": self.view}
        if self.thrift < 2:
            found["requested_view"] = self.requested_view
        found["budget"] = self.budget
        found["page_tokens"] = self.page_tokens
        found["answer_tokens"] = self.answer_tokens
        if self.thrift < 2:
            found["omitted"] = list(self.omitted)
        if self.more is not None and self.thrift < 3:
            found["more"] = dict(self.more) if self.thrift < 2 else {"query": self.more["query"]}
        elif self.thrift < 2:
            found["more"] = None
        if self.estimator and self.thrift < 2:
            found["estimator"] = self.estimator if self.thrift < 1 else self.estimator.partition(":")[0]
        if self.is_filled and self.thrift < 2:
            found["filled"] = True
        if self.note and self.thrift < 3:
            found["note"] = self.note
        if self.matches and self.thrift < 2:
            found["matches"] = list(self.matches)
        if self.stored is not None:
            found["stored"] = {"age": self.stored.age}
        if self.has_changed:
            found["changed"] = True
        return found


def tell_omitted(spans: Sequence[Span], *, thrift: int) -> tuple[str, ...]:
    """Name the ranges that were left out: the first few, and how many more there are."""
    most = _OMITTED_MAX if thrift < 1 else _OMITTED_MAX_LEAN
    told = [str(each) for each in spans[:most]]
    if len(spans) > most:
        told.append(f"and {len(spans) - most} more ranges")
    return tuple(told)
