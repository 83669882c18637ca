"""The `oz0` façade: `fetch` with exactly the arguments, defaults, limits and result of `oz0_web.fetch` (OZ-6 to OZ-10).

With `view`, `budget` or `query` the whole page is read and the biggest view of its Markdown that fits comes back
(OZ-41 to OZ-54); without any of them the first `max_chars` characters.
Checks arguments before any I/O and says which limit was broken; everything else is the engine's. The only façade that
may ask for an address that is not public, if the tenant's list names it (OZ-29).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from oz0_web.facades.oz0_answers import JSON_FORM, FetchResult, Form, fitted_result
from oz0_web.identity import PRODUCT
from oz0_web.limits import BUDGET_LEAST_TOKENS
from oz0_web.lookup import parse_range
from oz0_web.page import Output
from oz0_web.views import VIEW_NAMES, ViewName

if TYPE_CHECKING:
    from oz0_web.fitting import Draft
    from oz0_web.stops import Stop
    from oz0_web.tools import Reading, Web

__all__ = [
    "DEFAULT_MAX_BYTES",
    "DEFAULT_MAX_CHARS",
    "DEFAULT_OUTPUT",
    "LISTED_LITERALS",
    "OUTPUTS",
    "ArgumentError",
    "FetchArguments",
    "FetchResult",
    "fetch",
    "read_arguments",
]

LISTED_LITERALS = True
# robots.txt is obeyed under the client's own name (OZ-33).
ROBOTS_TOKEN = PRODUCT

OUTPUTS: tuple[Output, ...] = get_args(Output)
DEFAULT_OUTPUT: Output = "markdown"
DEFAULT_MAX_CHARS = 20_000
MAX_CHARS_LEAST = 1
# The seed writes MB without saying which; these are decimal.
DEFAULT_MAX_BYTES = 2_000_000
MAX_BYTES_LEAST = 1
MAX_BYTES_MOST = 10_000_000


class ArgumentError(ValueError):
    """An argument is missing, unknown or out of range; the caller is to mend it, and nothing was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchArguments:
    """Arguments of `fetch`, checked when they are made: they come from models and programs that mypy never saw.

    Attributes:
        url: An http or https URL.
        output: `markdown`, `text` or `raw`.
        max_chars: Most characters (code points) of content; at least 1. Not given, it is 20,000 for a call without
            view, budget and query, and no bound on the others (OZ-49).
        max_bytes: Most bytes of the decoded body to read; 1 to 10,000,000.
        view: `full`, `section`, `summary`, `stub`, `lines` or `find`.
        budget: Tokens that the whole answer may take; at least 100.
        query: A heading, a path of headings (`Install > Linux`), a range of lines (`40-90`) or words.
        fresh: Whether the site is asked anew, whatever was kept.
    """

    url: str
    output: Output = DEFAULT_OUTPUT
    max_chars: int | None = None
    max_bytes: int = DEFAULT_MAX_BYTES
    view: ViewName | None = None
    budget: int | None = None
    query: str | None = None
    fresh: bool = False

    def __post_init__(self) -> None:
        """Check types and ranges; all of it before any I/O."""
        url: object = self.url
        if not isinstance(url, str) or not url.strip():
            raise ArgumentError("url must be a URL as text, such as https://docs.python.org/3/")
        if self.output not in OUTPUTS:
            raise ArgumentError(f"output must be one of {', '.join(OUTPUTS)}, not {_shown(self.output)}")
        if self.max_chars is not None:
            _check_number("max_chars", self.max_chars, MAX_CHARS_LEAST, None)
        _check_number("max_bytes", self.max_bytes, MAX_BYTES_LEAST, MAX_BYTES_MOST)
        self._check_fit()

    @property
    def is_fitted(self) -> bool:
        """Whether the answer is a view that fits (OZ-41), or as 1.1.0 gave it (OZ-53)."""
        return self.view is not None or self.budget is not None or self.query is not None

    def _check_fit(self) -> None:
        query: object = self.query
        fresh: object = self.fresh
        if self.view is not None and self.view not in VIEW_NAMES:
            raise ArgumentError(f"view must be one of {', '.join(VIEW_NAMES)}, not {_shown(self.view)}")
        if self.budget is not None:
            _check_number("budget", self.budget, BUDGET_LEAST_TOKENS, None)
        if query is not None and not (isinstance(query, str) and query.strip()):
            raise ArgumentError(
                "query must be a heading, a range of lines such as 40-90, or words, as text that is not empty"
            )
        if not isinstance(fresh, bool):
            raise ArgumentError(f"fresh must be true or false, not {_shown(fresh)}")
        if self.is_fitted and self.output != DEFAULT_OUTPUT:
            given = next(name for name in ("view", "budget", "query") if getattr(self, name) is not None)
            raise ArgumentError(f"{given} and output {self.output} exclude each other: views are views of Markdown")
        if self.view == "find" and query is None:
            raise ArgumentError("view find needs query, the text to look for")
        if self.view == "section" and query is None and "#" not in self.url:
            raise ArgumentError("view section needs query, or a url with a fragment")
        if self.view == "lines" and self.query is not None and parse_range(self.query) is None:
            raise ArgumentError(f"query must be a range of lines such as 40-90 for view lines, not {_shown(query)}")


def read_arguments(given: Mapping[str, Any]) -> FetchArguments:
    """Check a call's arguments.

    Args:
        given: Names and values as a model or a program sent them.

    Raises:
        ArgumentError: A name that does not exist, no url, or a value out of range; the message names the field and the
            limit.
    """
    known = FetchArguments.__dataclass_fields__
    unknown = [str(name) for name in given if name not in known]
    if unknown:
        raise ArgumentError(f"unknown argument {_shown(unknown[0])}; fetch takes {', '.join(known)}")
    if "url" not in given:
        raise ArgumentError("url is missing")
    return FetchArguments(**given)


def _check_number(name: str, value: object, least: int, most: int | None) -> None:
    # bool is an int to Python and to nobody else.
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentError(f"{name} must be a whole number, not {_shown(value)}")
    if value < least:
        raise ArgumentError(f"{name} must be at least {least}, not {_shown(value)}")
    if most is not None and value > most:
        raise ArgumentError(f"{name} must be at most {most}, not {_shown(value)}")


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:
        # Python refuses to write integers of more than some thousand digits.
        return "such a number"
    return text if len(text) <= 40 else text[:39] + "…"


@dataclass(frozen=True, slots=True)
class _Envelope:
    """One reading in one form, as `fitting` has it measured."""

    reading: Reading
    form: Form

    def write(self, draft: Draft) -> str:
        """Give the answer as it is sent."""
        return self.form.write(fitted_result(self.reading, draft))

    def escape(self, content: str) -> str:
        """Give content as it stands in there."""
        return self.form.escape(content)


async def fetch(web: Web, arguments: FetchArguments, *, form: Form = JSON_FORM, caller: str = "") -> FetchResult | Stop:
    """Fetch a page.

    Args:
        web: The way out, made with `LISTED_LITERALS` and `ROBOTS_TOKEN`.
        arguments: Checked arguments.
        form: How the result is sent; a fitted answer keeps to its budget in this form.
        caller: Whose kept pages may be used, where several share a way out.

    Returns:
        The page, or why there is none; `Web.tell` puts the latter into words.

    Raises:
        ArgumentError: A range begins after the page's end, or not even a stub of this page fits the budget.
    """
    from oz0_web.stops import Stop

    reading = await web.read(
        arguments.url,
        output=arguments.output,
        max_bytes=arguments.max_bytes,
        caller=caller,
        may_be_stored=arguments.is_fitted and not arguments.fresh,
    )
    if isinstance(reading, Stop):
        return reading
    if not arguments.is_fitted:
        content = reading.page.content
        most = DEFAULT_MAX_CHARS if arguments.max_chars is None else arguments.max_chars
        return FetchResult(
            url=reading.url,
            status=reading.status,
            type=reading.page.media_type,
            title=reading.page.title,
            content=content[:most],
            truncated=reading.is_cut or len(content) > most,
            redirects=reading.chain,
            notes=reading.page.notes,
        )
    from oz0_web.fitting import Draft, Request, TooSmall
    from oz0_web.lookup import PastEnd

    request = Request(
        view=arguments.view,
        budget=arguments.budget,
        query=arguments.query or "",
        max_chars=arguments.max_chars,
        fragment=reading.fragment,
    )
    chosen = await web.fit(reading, request, _Envelope(reading, form))
    match chosen:
        case Draft():
            return fitted_result(reading, chosen)
        case PastEnd(asked=asked, end=end):
            raise ArgumentError(f"query {asked} begins after the page's end: its last line is {end}")
        case TooSmall(needed=needed):
            raise ArgumentError(f"budget must be at least {needed} for this page, not {arguments.budget}")
        case Stop():
            return chosen
