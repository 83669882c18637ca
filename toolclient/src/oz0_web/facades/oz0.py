"""The `oz0` façade: `fetch` with exactly the arguments, defaults, limits and result of `oz0_web.fetch` (OZ-6 to OZ-10).

Checks arguments before any I/O and says which limit was broken; everything else is the engine's. The only façade that
may ask for an address that is not public, if the tenant's list names it (OZ-29).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from oz0_web.identity import PRODUCT
from oz0_web.page import Output

if TYPE_CHECKING:
    from oz0_web.stops import Stop
    from oz0_web.tools import Web

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
        max_chars: Most characters (code points) of content; at least 1.
        max_bytes: Most bytes of the decoded body to read; 1 to 10,000,000.
    """

    url: str
    output: Output = DEFAULT_OUTPUT
    max_chars: int = DEFAULT_MAX_CHARS
    max_bytes: int = DEFAULT_MAX_BYTES

    def __post_init__(self) -> None:
        """Check types and ranges; all of it before any I/O."""
        url: object = self.url
        if not isinstance(url, str) or not url.strip():
            raise ArgumentError("url must be a URL as text, such as https://docs.python.org/3/")
        if self.output not in OUTPUTS:
            raise ArgumentError(f"output must be one of {', '.join(OUTPUTS)}, not {_shown(self.output)}")
        _check_number("max_chars", self.max_chars, MAX_CHARS_LEAST, None)
        _check_number("max_bytes", self.max_bytes, MAX_BYTES_LEAST, MAX_BYTES_MOST)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResult:
    """What `fetch` returns (OZ-10).

    Attributes:
        url: The final URL.
        status: The site's status; errors have content too.
        type: The media type without parameters.
        title: The page's title, or empty.
        content: At most `max_chars` code points.
        truncated: Whether anything was cut, by `max_chars` or by `max_bytes`.
        redirects: The URLs that led here, first to last; not part of the serialised result when there are none.
        notes: What was left out or kept that one would not expect; not part of the serialised result.
    """

    url: str
    status: int
    type: str
    title: str
    content: str
    truncated: bool
    redirects: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

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
        return found


async def fetch(web: Web, arguments: FetchArguments) -> FetchResult | Stop:
    """Fetch a page.

    Args:
        web: The way out, made with `LISTED_LITERALS` and `ROBOTS_TOKEN`.
        arguments: Checked arguments.

    Returns:
        The page, or why there is none; `Web.tell` puts the latter into words.
    """
    from oz0_web.tools import Reading

    reading = await web.read(arguments.url, output=arguments.output, max_bytes=arguments.max_bytes)
    if not isinstance(reading, Reading):
        return reading
    content = reading.page.content
    return FetchResult(
        url=reading.url,
        status=reading.status,
        type=reading.page.media_type,
        title=reading.page.title,
        content=content[: arguments.max_chars],
        truncated=reading.is_cut or len(content) > arguments.max_chars,
        redirects=reading.chain,
        notes=reading.page.notes,
    )
