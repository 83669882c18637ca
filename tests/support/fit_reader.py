"""A second reader of fitted answers: reads a fit note from the bytes that were sent and works every number out again.

Knows nothing of the client's own code: its estimate is a loop over characters by the published table, and its lines
are Python's.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

ANSWER_MAX_TOKENS = 50_000
ANSWER_MAX_CHARACTERS = 200_000
MARGINS = {"generic": 1.29, "claude": 1.92}
_RANGES = (
    *((0xBF, 1.49), (0x24F, 1.22), (0x36F, 1.96), (0x3FF, 0.85), (0x52F, 0.62), (0x58F, 1.96), (0x6FF, 1.03)),
    *((0x8FF, 1.96), (0xEFF, 1.12), (0x1DFF, 1.96), (0x1EFF, 1.22), (0x1FFF, 1.96), (0x2BFF, 1.49), (0x2FFF, 1.96)),
    *((0x303F, 1.17), (0x30FF, 0.89), (0x33FF, 1.96), (0x9FFF, 1.17), (0xABFF, 1.96), (0xD7AF, 1.15)),
    *((0xFEFF, 1.96), (0xFFEF, 1.27), (0xFFFF, 2.6), (0x3FFFF, 2.6), (0x10FFFF, 3.5)),
)
_TOKEN = re.compile(r"[A-Za-z]+|[0-9]+|  +|[\x00-\x7f]", re.DOTALL)
_SIGN_RUN = re.compile(r"[!-/:-@\[-`{-~]+")


def estimate(text: str, profile: str) -> int:
    """Give the tokens of a text by a profile."""
    total = 0.0
    for run in _SIGN_RUN.findall(text):
        total += 0.62 + 0.17 * len(run)
    for piece in _TOKEN.findall(text):
        if piece[0].isalpha():
            total += 0.69 + 0.31 * max(0, len(piece) - 4) + 0.15 * max(0, len(piece) - 8)
            total += 0.20 * sum(each.isupper() for each in piece)
        elif piece[0].isdigit():
            total += 1.20 + 0.80 * len(piece)
        elif piece.startswith("  "):
            total += 1.03 + 0.05 * max(0, len(piece) - 16)
        elif piece in "\n\r\t":
            total += 0.58
        elif piece < " " or piece == "\x7f":
            total += 1.96
    for each in text:
        if each > "\x7f":
            total += next(weight for last, weight in _RANGES if ord(each) <= last)
    return math.ceil(round(total * MARGINS[profile], 6))


@cache
def _page_tokens(page: str, profile: str) -> int:
    return estimate(page, profile)


@dataclass
class Checked:
    """A fitted answer that was read again.

    Attributes:
        answer: The object that was sent.
        fit: Its note.
        faults: What is not true in it; empty for an answer that keeps its promise.
    """

    answer: dict[str, Any]
    fit: dict[str, Any]
    faults: list[str] = field(default_factory=list)


def read_answer(sent: bytes, page: str, *, profile: str = "generic", max_chars: int | None = None) -> Checked:
    """Read an answer as it was sent.

    Args:
        sent: The JSON object.
        page: The whole page's Markdown.
        profile: Of the estimate.
        max_chars: As it was given.
    """
    text = sent.decode("utf-8")
    answer = json.loads(text)
    checked = Checked(answer, answer["fit"])
    fit, content = checked.fit, answer["content"]
    budget = min(fit["budget"] or ANSWER_MAX_TOKENS, ANSWER_MAX_TOKENS)
    tokens = estimate(text, profile)

    def hold(what: str, *, is_true: bool) -> None:
        if not is_true:
            checked.faults.append(what)

    hold(f"answer_tokens {fit['answer_tokens']}, counted {tokens}", is_true=abs(fit["answer_tokens"] - tokens) <= 1)
    hold(f"{tokens} tokens for a budget of {budget}", is_true=tokens <= budget)
    hold(f"{len(text)} characters for a budget of {budget}", is_true=len(text) <= 8 * budget)
    hold(f"{len(text)} characters", is_true=len(text) <= ANSWER_MAX_CHARACTERS)
    hold(f"content of {len(content)}", is_true=max_chars is None or len(content) <= max_chars)
    page_tokens = _page_tokens(page, profile)
    hold(f"page_tokens {fit['page_tokens']}, counted {page_tokens}", is_true=abs(fit["page_tokens"] - page_tokens) <= 1)
    if fit["view"] == "full":
        hold("full is not the page", is_true=content == page)
    else:
        hold("less than the page, and nothing omitted", is_true=bool(fit.get("omitted", True)) or fit["view"] == "find")
    if fit["view"] in {"section", "lines"} and "omitted" in fit:
        _check_lines(checked, page, content)
    return checked


def _check_lines(checked: Checked, page: str, content: str) -> None:
    """Hold a passage to the lines that the note does not call omitted."""
    lines = page.split("\n")
    gone: set[int] = set()
    for each in checked.fit["omitted"]:
        first, _, last = each.partition("-")
        start = int(first.partition(".")[0])
        gone.update(range(start, int((last or first).partition(".")[0]) + 1))
    kept = [line for number, line in enumerate(lines, 1) if number not in gone]
    expected = "\n".join(kept).strip("\n")
    has_mark = (
        content.endswith("…") or content.rstrip("`~") != content or any("." in each for each in checked.fit["omitted"])
    )
    if content != expected and not (has_mark and content.startswith(expected)):
        checked.faults.append("the lines shown are not those that the note leaves")
