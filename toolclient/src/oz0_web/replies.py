"""A reply's head as a value, and the questions that are asked of it.

Pure. Made by `conversation`, read by everything above it.
"""

from __future__ import annotations

from dataclasses import dataclass

_SUCCESS = range(200, 300)


@dataclass(frozen=True, slots=True)
class ReplyHead:
    """A final reply's status and fields.

    Attributes:
        status: 200 to 999.
        phrase: The reason phrase, decoded leniently; untrusted text.
        fields: Lower-case names and their values as bytes, in order.
    """

    status: int
    phrase: str
    fields: tuple[tuple[bytes, bytes], ...]

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return self.status in _SUCCESS

    def all(self, name: bytes) -> tuple[str, ...]:
        """Give every value of a field, in order.

        Args:
            name: The field's name in lower case.

        Returns:
            The values as text. Fields are UTF-8 in practice and ISO 8859-1 on paper (RFC 9110 section 5.5); what is not
            UTF-8 is read as the latter.
        """
        return tuple(_text(value) for field, value in self.fields if field == name)

    def last(self, name: bytes) -> str | None:
        """Give the last value of a field, or None."""
        values = self.all(name)
        return values[-1] if values else None

    def members(self, name: bytes) -> tuple[str, ...]:
        """Give the members of a comma-separated field of tokens, lower-case, empty ones left out."""
        joined = ",".join(self.all(name))
        return tuple(member for part in joined.split(",") if (member := part.strip().lower()))


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")
