"""Reads a structured list, the form of the Proxy-Status field, strictly: anything odd makes the whole field none.

Decides the grammar of RFC 9651 lists and nothing about their meaning. Linear in the text. Called by `wire`.

Source: RFC 9651 section 4.2.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass


class Token(str):
    """A bare word; a plain `str` is a quoted string."""

    __slots__ = ()


class DisplayString(str):
    """Text beyond ASCII."""

    __slots__ = ()


class Date(int):
    """Seconds since 1970."""

    __slots__ = ()


BareItem = int | float | str | bytes | bool
Parameters = dict[str, BareItem]


@dataclass(frozen=True, slots=True)
class Item:
    """One value and its parameters; of parameters given twice the last one counts."""

    value: BareItem
    parameters: Parameters


@dataclass(frozen=True, slots=True)
class InnerList:
    """Items in parentheses and the parameters of them all."""

    items: tuple[Item, ...]
    parameters: Parameters


_KEY = re.compile(r"[a-z*][a-z0-9_.*-]*")
_TOKEN = re.compile(r"[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]*")
_NUMBER = re.compile(r"(-?)([0-9]+)(?:(\.)([0-9]*))?")
_STRING = re.compile(r'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*+)"')
_ESCAPE = re.compile(r'\\(["\\])')
_BYTES = re.compile(r":([A-Za-z0-9+/=]*):")
_DISPLAY = re.compile(r'%"((?:[\x20\x21\x23\x24\x26-\x7e]|%[0-9a-f]{2})*+)"')
_DISPLAY_ESCAPE = re.compile(rb"%([0-9a-f]{2})")
_BLANKS = re.compile(r"[ \t]*")
_SPACES = re.compile(r" *")


class _OddError(Exception):
    """The text is not in the grammar; never leaves this module."""


def read_list(values: Sequence[str]) -> tuple[Item | InnerList, ...] | None:
    """Read a list from the values of all field lines of one name, in order; None if it is none.

    Source: RFC 9651 section 4.2.1.
    """
    text = ", ".join(values)
    if not text.isascii():
        return None
    try:
        return _Reader(text.strip(" ")).members()
    except _OddError:
        return None


class _Reader:
    """A place in a text, moved on by what is read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def members(self) -> tuple[Item | InnerList, ...]:
        found: list[Item | InnerList] = []
        while self._at < len(self._text):
            found.append(self._inner_list() if self._peek("(") else self._item())
            self._skip(_BLANKS)
            if self._at == len(self._text):
                break
            if not self._take(","):
                raise _OddError
            self._skip(_BLANKS)
            if self._at == len(self._text):
                raise _OddError
        return tuple(found)

    def _peek(self, character: str) -> bool:
        return self._text.startswith(character, self._at)

    def _take(self, character: str) -> bool:
        if not self._peek(character):
            return False
        self._at += 1
        return True

    def _skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self._text, self._at)
        self._at = found.end() if found else self._at

    def _expect(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise _OddError
        self._at = found.end()
        return found

    def _inner_list(self) -> InnerList:
        self._at += 1
        items: list[Item] = []
        while True:
            self._skip(_SPACES)
            if self._take(")"):
                return InnerList(tuple(items), self._parameters())
            items.append(self._item())
            if not self._peek(" ") and not self._peek(")"):
                raise _OddError

    def _item(self) -> Item:
        return Item(self._bare_item(), self._parameters())

    def _parameters(self) -> Parameters:
        found: Parameters = {}
        while self._take(";"):
            self._skip(_SPACES)
            key = self._expect(_KEY).group()
            found[key] = self._bare_item() if self._take("=") else True
        return found

    def _bare_item(self) -> BareItem:
        first = self._text[self._at : self._at + 1]
        if first == '"':
            return _ESCAPE.sub(r"\1", self._expect(_STRING).group(1))
        if first == "?":
            self._at += 1
            if self._take("1"):
                return True
            if self._take("0"):
                return False
            raise _OddError
        if first == ":":
            return self._byte_sequence()
        if first == "@":
            self._at += 1
            seconds = self._number()
            if not isinstance(seconds, int):
                raise _OddError
            return Date(seconds)
        if first == "%":
            return self._display_string()
        if first == "-" or first.isdigit():
            return self._number()
        return Token(self._expect(_TOKEN).group())

    def _number(self) -> int | float:
        sign, whole, dot, part = self._expect(_NUMBER).groups()
        if dot is None:
            if len(whole) > 15:
                raise _OddError
            return int(sign + whole)
        if len(whole) > 12 or not 1 <= len(part) <= 3:
            raise _OddError
        return float(f"{sign}{whole}.{part}")

    def _byte_sequence(self) -> bytes:
        encoded = self._expect(_BYTES).group(1).rstrip("=")
        try:
            return b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
        except binascii.Error as error:
            raise _OddError from error

    def _display_string(self) -> DisplayString:
        escaped = self._expect(_DISPLAY).group(1).encode("ascii")
        raw = _DISPLAY_ESCAPE.sub(lambda found: bytes.fromhex(found.group(1).decode("ascii")), escaped)
        try:
            return DisplayString(raw.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise _OddError from error


def string_text(text: str) -> str:
    """Write a quoted string.

    Raises:
        ValueError: The text holds more than printable ASCII; the caller is at fault.

    Source: RFC 9651 section 4.1.6.
    """
    if not (text.isascii() and text.isprintable()):
        raise ValueError("a structured string holds printable ASCII only")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
