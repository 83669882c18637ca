"""How many tokens a text is for a model whose tokenizer is not here: a weighted count of kinds of characters.

Pure, and linear in the text. There is one estimator with a profile for each family of models, because no single number
is both safe and useful for all: what keeps a promise to the newest Claude vocabularies wastes half of anybody else's
budget. A profile's count is meant as an upper bound; `error` says on how many of 1,461 whole pages it was one when the
weights were fitted. Called by `views` and its neighbours, and by nobody for billing.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias, get_args

ProfileName: TypeAlias = Literal["generic", "claude"]
PROFILE_NAMES: tuple[ProfileName, ...] = get_args(ProfileName)

# Tokens for each, fitted by least squares of the ratio on 4,868 samples of 81 kinds (prose in some thirty languages,
# documentation, code, tables, JSON, logs, white space) to the largest count of six open tokenizers.
_WORD = 0.69
_LETTER_PAST_4 = 0.31
_LETTER_PAST_8 = 0.15
_UPPER = 0.20
_DIGIT = 0.80
_DIGITS = 1.20
_SIGN = 0.17
_SIGNS = 0.62
_NEWLINE = 0.58
_SPACES = 1.03
# A run of spaces is one token up to some length, which differs; code rarely indents deeper, hostile pages do.
_SPACES_PAST_16 = 0.05
_TAB = 0.58
_CONTROL = 1.96
_ELSE = 1.96

# (last code point of a range, tokens for each of its characters); ranges follow one another from U+0080 on.
_BEYOND_ASCII: tuple[tuple[int, float], ...] = (
    (0x00BF, 1.49),  # Latin-1 signs
    (0x024F, 1.22),  # Latin with marks
    (0x036F, 1.96),  # phonetic letters, combining marks
    (0x03FF, 0.85),  # Greek: more than Cyrillic with most vocabularies
    (0x052F, 0.62),  # Cyrillic
    (0x058F, 1.96),  # Armenian
    (0x06FF, 1.03),  # Hebrew, Arabic
    (0x08FF, 1.96),
    (0x0DFF, 1.12),  # Indic
    (0x0EFF, 1.12),  # Thai, Lao
    (0x1DFF, 1.96),
    (0x1EFF, 1.22),  # Latin with two marks
    (0x1FFF, 1.96),  # old Greek
    (0x2BFF, 1.49),  # general signs, arrows, mathematics, boxes
    (0x2FFF, 1.96),
    (0x303F, 1.17),  # CJK punctuation
    (0x30FF, 0.89),  # kana
    (0x33FF, 1.96),
    (0x9FFF, 1.17),  # Han
    (0xABFF, 1.96),
    (0xD7AF, 1.15),  # Hangul
    (0xF8FF, 1.96),
    (0xFAFF, 1.96),  # compatibility Han
    (0xFEFF, 1.96),
    (0xFFEF, 1.27),  # full-width forms
    (0x1EFFF, 2.60),  # rare scripts
    (0x1FAFF, 2.60),  # emoji
    (0x1FFFF, 2.60),
    (0x3FFFF, 2.60),  # rare Han
    (0x10FFFF, 3.50),
)


def _kept(keep: bytes) -> bytes:
    """Make a table that turns every byte but these into a space."""
    return bytes(byte if byte in keep else 0x20 for byte in range(256))


_LETTER_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_UPPER_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGIT_BYTES = b"0123456789"
_SIGN_BYTES = bytes(byte for byte in range(0x21, 0x7F) if not chr(byte).isalnum())
_CONTROL_BYTES = bytes(byte for byte in (*range(0x20), 0x7F) if byte not in b"\t\n\r")
_LETTERS_ONLY = _kept(_LETTER_BYTES)
_DIGITS_ONLY = _kept(_DIGIT_BYTES)
_SIGNS_ONLY = _kept(_SIGN_BYTES)
_NOT_UPPER = bytes(byte for byte in range(256) if byte not in _UPPER_BYTES)
_NOT_CONTROL = bytes(byte for byte in range(256) if byte not in _CONTROL_BYTES)
_SPACE_RUN = re.compile(rb"  +")
_ASCII = re.compile(r"[\x00-\x7f]+")


@dataclass(frozen=True, slots=True)
class Estimator:
    """A profile of the estimate.

    Attributes:
        name: As `fit.estimator` gives it; the number goes up when a weight or margin changes.
        margin: The factor on the weighted count that makes an upper bound of it.
        error: How good that bound is, as measured.
    """

    name: str
    margin: float
    error: str

    def count(self, text: str) -> int:
        """Give a bound on the tokens of a text."""
        return math.ceil(self.weigh(text))

    def weigh(self, text: str) -> float:
        """Give the same without rounding: never more for two lines together than for both one by one."""
        return self.margin * _weigh(text)


ESTIMATORS: dict[ProfileName, Estimator] = {
    "generic": Estimator("generic-1", 1.29, "an upper bound on 99.5 % of pages"),
    "claude": Estimator("claude-1", 1.92, "an upper bound on 99.5 % of pages, as far as observed"),
}


def _weigh(text: str) -> float:
    data = text.encode("utf-8", "surrogatepass")
    lengths = Counter(map(len, data.translate(_LETTERS_ONLY).split()))
    total = 0.0
    for length, count in lengths.items():
        past_4 = length - 4 if length > 4 else 0
        past_8 = length - 8 if length > 8 else 0
        total += count * (_WORD + _LETTER_PAST_4 * past_4 + _LETTER_PAST_8 * past_8)
    total += _UPPER * len(data.translate(None, _NOT_UPPER))
    total += _runs(data.translate(_DIGITS_ONLY), _DIGITS, _DIGIT)
    total += _runs(data.translate(_SIGNS_ONLY), _SIGNS, _SIGN)
    total += _NEWLINE * (data.count(b"\n") + data.count(b"\r")) + _TAB * data.count(b"\t")
    total += _CONTROL * len(data.translate(None, _NOT_CONTROL))
    for run, count in Counter(map(len, _SPACE_RUN.findall(data))).items():
        total += count * (_SPACES + _SPACES_PAST_16 * max(0, run - 16))
    if len(data) != len(text):
        total += sum(count * _weight(each) for each, count in Counter(_ASCII.sub("", text)).items())
    return total


def _runs(data: bytes, run: float, each: float) -> float:
    runs = data.split()
    return run * len(runs) + each * sum(map(len, runs))


@lru_cache(maxsize=16_384)
def _weight(character: str) -> float:
    code = ord(character)
    return next((weight for last, weight in _BEYOND_ASCII if code <= last), _ELSE)


# A text's cost in tokens, not rounded; what the cutting of views works with.
Cost: TypeAlias = Callable[[str], float]
