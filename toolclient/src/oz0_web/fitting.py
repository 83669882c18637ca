"""Which view an answer is, so that the answer as sent keeps to its budget and bounds.

Pure. Walks down the ladder full → section → summary → stub, or begins where the request does; builds a view, has the
whole answer written by the façade that sends it, measures that, and takes away room until it fits. A budget is a
promise about what is sent, so head, fit note and marks are counted with the content. Called by the façades.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from oz0_web import summaries, views
from oz0_web.fit import Fit, Stored, tell_omitted
from oz0_web.limits import ANSWER_MAX_CHARACTERS, ANSWER_MAX_TOKENS, CHARACTERS_PER_TOKEN
from oz0_web.lookup import By, Found, PastEnd, find_fragment, find_query, find_range, find_text, parse_range
from oz0_web.measures import Meter, Size
from oz0_web.outline import Outline, span
from oz0_web.tokens import Estimator
from oz0_web.views import Subject, View, ViewName

_THRIFTS = (0, 1, 2, 3, 4, 5)
# The share of a budget that head and note may take before they say less.
_HEAD_SHARE = 0.30
_TRIES = 10
# What the shortest stub takes by any profile.
_STUB_TOKENS = 30
# With less of the budget used than this, one more try is made with more room.
_WELL_USED = 0.97
_NOTE_QUERY_CHARACTERS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What was asked for.

    Attributes:
        view: A view by name, or None for the biggest that fits.
        budget: Tokens, or None.
        query: A heading, a path of headings, a range of lines, or words.
        max_chars: Most code points of content, where the caller gave it.
        fragment: The URL's fragment, or empty.
    """

    view: ViewName | None = None
    budget: int | None = None
    query: str = ""
    max_chars: int | None = None
    fragment: str = ""


@dataclass(frozen=True, slots=True)
class Draft:
    """An answer to be written.

    Attributes:
        content: The view's text.
        is_short: Whether it is less than was asked for.
        fit: The note.
        thrift: How much the answer's head is to save: 0 nothing, 5 all it can.
    """

    content: str
    is_short: bool
    fit: Fit
    thrift: int


class Envelope(Protocol):
    """How a façade writes an answer."""

    def write(self, draft: Draft) -> str:
        """Give the answer as it is sent."""

    def escape(self, content: str) -> str:
        """Give content as it stands in such an answer."""


@dataclass(frozen=True, slots=True)
class TooSmall:
    """The budget has no room for the smallest answer about this page.

    Attributes:
        needed: A budget that has.
    """

    needed: int


_Build: TypeAlias = Callable[[Size], View | None]


@dataclass(frozen=True, slots=True)
class _Step:
    """One rung: what builds the view, and what the note says of it."""

    build: _Build
    is_asked: bool
    is_fixed: bool = False  # whether it is the same in any room
    note: str = ""
    matches: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What is known of the page's past.

    Attributes:
        stored: Set where a kept conversion is used.
        has_changed: Whether it is another than this caller's last.
    """

    stored: Stored | None = None
    has_changed: bool = False


_FRESH = Past()


def choose(
    page: Subject, request: Request, envelope: Envelope, estimator: Estimator, past: Past = _FRESH
) -> Draft | PastEnd | TooSmall:
    """Choose the view and fit it.

    Args:
        page: The page.
        request: What was asked for, checked.
        envelope: Writes the answer.
        estimator: Counts tokens.
        past: What the note says of the store.

    Returns:
        What to answer; or that a range begins after the page's end; or that not even a stub fits.
    """
    fitter = _Fitter(page, request, envelope, Meter(estimator, envelope.escape), past)
    steps = _ladder(page, request, fitter.meter)
    if isinstance(steps, PastEnd):
        return steps
    for step in steps:
        if (draft := fitter.fit(step)) is not None:
            return draft
    return TooSmall(fitter.least())


class _Fitter:
    """One page and request: its bounds, and how much the head has to save."""

    def __init__(self, page: Subject, request: Request, envelope: Envelope, meter: Meter, past: Past) -> None:
        self._page = page
        self._request = request
        self._envelope = envelope
        self._past = past
        self.meter = meter
        tokens = min(request.budget or ANSWER_MAX_TOKENS, ANSWER_MAX_TOKENS)
        self._bound = Size(
            float(tokens),
            min(ANSWER_MAX_CHARACTERS, CHARACTERS_PER_TOKEN * tokens),
            request.max_chars or ANSWER_MAX_CHARACTERS,
        )
        self._thrift, self._head = self._choose_thrift()

    def _choose_thrift(self) -> tuple[int, Size]:
        head = Size(0.0, 0, 0)
        for thrift in _THRIFTS:
            # A view with much to say about itself; the note of the real one is measured later.
            sample = View("summary", "", (span(10_000, 20_000),), span(10_000, 20_000), is_cut=True, is_filled=True)
            head = self._size(self._draft(sample, _Step(lambda _: None, is_asked=False), thrift))
            if (
                head.tokens <= _HEAD_SHARE * self._bound.tokens
                and head.characters <= _HEAD_SHARE * self._bound.characters
            ):
                return thrift, head
        return _THRIFTS[-1], head

    def fit(self, step: _Step) -> Draft | None:
        """Give the step's biggest view that fits with all that is sent with it, or None."""
        room = self._bound.minus(self._head)
        best: Draft | None = None
        best_tokens = 0.0
        for _ in range(_TRIES):
            if room.tokens <= 0 or room.characters <= 0:
                break
            view = step.build(room)
            if view is None or not view.content:
                break
            if step.is_fixed and len(view.content) > min(self._bound.characters, self._bound.points):
                break
            draft = self._draft(view, step, self._thrift)
            size = self._size(draft)
            over = size.minus(self._bound)
            if size.fits(self._bound):
                if size.tokens <= best_tokens:
                    break
                best, best_tokens = draft, size.tokens
                if not view.is_cut or min(
                    -over.tokens / self._bound.tokens, -over.characters / self._bound.characters
                ) < (1 - _WELL_USED):
                    break
                room = Size(room.tokens - over.tokens * 0.9, room.characters - int(over.characters * 0.9), room.points)
                continue
            if best is not None or step.is_fixed:
                break
            room = room.minus(Size(max(0.0, over.tokens) + 1, max(0, over.characters) + 8, max(0, over.points)))
        return best

    def least(self) -> int:
        """Give a budget that the smallest answer fits into."""
        view = View("stub", "", (), None, is_cut=True)
        size = self._size(self._draft(view, _Step(lambda _: None, is_asked=False), _THRIFTS[-1]))
        return max(int(size.tokens), -(-size.characters // CHARACTERS_PER_TOKEN)) + _STUB_TOKENS

    def _size(self, draft: Draft) -> Size:
        sent = self._envelope.write(draft)
        return Size(float(draft.fit.answer_tokens), len(sent), len(draft.content))

    def _draft(self, view: View, step: _Step, thrift: int) -> Draft:
        request = self._request
        fit = Fit(
            view=view.name,
            requested_view=request.view,
            budget=request.budget,
            page_tokens=self._page.tokens,
            omitted=tell_omitted(view.left_out, thrift=thrift),
            more=self._more(view),
            estimator=f"{self.meter.estimator.name}: {self.meter.estimator.error}",
            is_filled=view.is_filled,
            note=step.note,
            matches=step.matches,
            stored=self._past.stored,
            has_changed=self._past.has_changed,
            thrift=thrift,
        )
        draft = Draft(view.content, view.is_cut or not step.is_asked, fit, thrift)
        # The note holds the size of the answer that it stands in: a number with more digits makes it bigger once.
        while (tokens := self.meter.estimator.count(self._envelope.write(draft))) != draft.fit.answer_tokens:
            draft = replace(draft, fit=replace(draft.fit, answer_tokens=tokens))
        return draft

    def _more(self, view: View) -> Mapping[str, object] | None:
        if view.rest is None:
            return None
        call: dict[str, object] = {"url": self._page.url, "query": str(view.rest)}
        budget = self._request.budget
        if budget is not None:
            # The same budget would cut the same line at the same place.
            call["budget"] = min(ANSWER_MAX_TOKENS, budget * 4) if view.is_inside else budget
        return call


def _ladder(page: Subject, request: Request, meter: Meter) -> Iterator[_Step] | PastEnd:
    """Give the steps from the view that is asked for down to the stub."""
    outline = page.outline
    found: Found | PastEnd | None = None
    if request.view not in {"summary", "stub", "find"}:
        found = _look(outline, request)
    if isinstance(found, PastEnd):
        return found
    return _steps(page, request, meter, found)


def _steps(page: Subject, request: Request, meter: Meter, found: Found | None) -> Iterator[_Step]:
    outline, view = page.outline, request.view
    is_first = True
    if view == "find":
        matches = find_text(outline, request.query)
        yield _Step(lambda room: views.find(page, request.query, matches, room, meter), is_asked=True)
        is_first = False
    is_place_asked = view in {"section", "lines"} or (view is None and found is not None and found.by is not By.WORDS)
    if view in {None, "full"} and not (is_place_asked and request.query):
        yield _Step(lambda _: views.full(page), is_asked=True, is_fixed=True, note=_miss_note(request, found))
        is_first = False
    if found is not None:
        place = found
        name: ViewName = "lines" if view == "lines" or (place.by is By.WORDS and not outline.headings) else "section"
        yield _Step(
            lambda room: views.passage(page, name, place.span, room, meter),
            is_asked=is_first and is_place_asked,
            note=_found_note(request, place),
            matches=tuple(f"{heading.text[:80]} ({span(heading.line, heading.end)})" for heading in place.others),
        )
        is_first = False
    note = _miss_note(request, found)
    if view == "summary":
        yield _Step(lambda _: summaries.summary(page), is_asked=True, is_fixed=True)
        is_first = False
    elif view not in {"stub", "find"} and not (view in {"section", "lines"} and found is None):
        if outline.headings:
            yield _Step(lambda room: summaries.fill(page, room, meter), is_asked=False, note=note)
        else:
            whole = span(1, outline.end)
            yield _Step(lambda room: views.passage(page, "lines", whole, room, meter), is_asked=False, note=note)
    yield _Step(lambda room: summaries.stub(page, room, meter), is_asked=is_first and view == "stub", note=note)


def _look(outline: Outline, request: Request) -> Found | PastEnd | None:
    if request.view == "lines":
        asked = parse_range(request.query) if request.query else span(1, outline.end)
        return find_range(outline, asked) if asked is not None else None
    if request.query:
        return find_query(outline, request.query)
    return find_fragment(outline, request.fragment) if request.fragment else None


def _found_note(request: Request, found: Found) -> str:
    if found.by is not By.WORDS:
        return ""
    where = f": {found.heading.text[:80]}" if found.heading is not None else ""
    return f"no heading matches {request.query[:_NOTE_QUERY_CHARACTERS]!r}; this is the best match of the text{where}"


def _miss_note(request: Request, found: Found | None) -> str:
    if not request.query or found is not None or request.view in {"summary", "stub", "find"}:
        return ""
    return f"nothing matches {request.query[:_NOTE_QUERY_CHARACTERS]!r}"
