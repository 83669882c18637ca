"""Turns text into host names: `parse_name` for the wire, `to_name` for what people write.

Decides what a name is, and which names are floor or need an exact rule. `parse_name` takes ASCII only and decodes
nothing: whatever another layer would fold to something else (full-width digits, percent escapes, NUL) is no name here.
`to_name` converts once, by UTS 46, and hands the result to the same grammar. Never resolves anything.
Called by `targets` and `rules`, and by configuration readers.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

import idna

# RFC 1035 section 2.3.4: 255 octets on the wire are 253 characters of text.
NAME_MAX_LENGTH = 253
LABEL_MAX_LENGTH = 63
# Beyond this no text can become 253 characters of A-labels, and conversion is spared the work.
TEXT_MAX_LENGTH = 1024

_ALPHABET = re.compile(r"[a-z0-9_.-]+")
_NAME = re.compile(r"(?:[a-z0-9_-]{1,63}\.)*+[a-z0-9_-]{1,63}")
_SHOWN_CHARACTERS = 40

# Cases B4, B9 and B11 of the metadata list: what a platform answers to with credentials, by name.
_METADATA_NAMES = frozenset(
    {
        "metadata",
        "metadata.google.internal",
        "metadata.goog",
        "metadata.tencentyun.com",
        "instance-data",
        "instance-data.ec2.internal",
    }
)
_FLOOR_BELOW = (".localhost", ".docker.internal")
_EXACT_BELOW = (".internal", ".local", ".svc", ".home.arpa")


@dataclass(frozen=True, slots=True)
class HostName:
    """A host name as it is matched, looked up and dialled: lower-case A-labels, no final dot."""

    text: str


@dataclass(frozen=True, slots=True)
class BadName:
    """Why a text is no host name, in fixed words that echo at most a few harmless characters."""

    detail: str


def parse_name(text: str) -> HostName | BadName:
    """Read a host name from the wire.

    Letters, digits, hyphen and underscore, labels of 1 to 63, at most 253 characters after one final dot is dropped.
    A last label that is a number, or looks like a hexadecimal one, is refused: other programs read such a name as an
    IPv4 address in an odd form (`0x7f.1`, `2130706433`). A name may not begin with a hyphen, because it ends up as an
    argument of commands.

    Source: RFC 1123 section 2.1, RFC 2181 section 11; WHATWG URL, "ends in a number checker".
    """
    name = text.lower().removesuffix(".")
    # The text itself is asked for ASCII: `lower` makes a `k` of the Kelvin sign (U+212A).
    if not text.isascii() or len(name) > NAME_MAX_LENGTH or _NAME.fullmatch(name) is None or name[0] == "-":
        return BadName(_what_is_wrong(name))
    last = name.rpartition(".")[2]
    if last.isdigit() or last.startswith("0x"):
        return BadName("the last label is a number, and this is no address in its usual form")
    return HostName(name)


def _what_is_wrong(name: str) -> str:
    if not name:
        return "the name is empty"
    if len(name) > NAME_MAX_LENGTH:
        return f"the name is longer than {NAME_MAX_LENGTH} characters"
    if _ALPHABET.fullmatch(name) is None:
        return f"a character that no host name has: {_shown(name)}"
    if name[0] == "-":
        return "the name begins with a hyphen"
    if "" in name.split("."):
        return "an empty label"
    return f"a label is longer than {LABEL_MAX_LENGTH} characters"


def to_name(text: str) -> HostName | BadName:
    """Read a host name that a person wrote: in a rule, a configuration or a URL.

    Text beyond ASCII is converted by UTS 46 without transitional processing, as browsers do, and then read as from the
    wire. ASCII text is not checked further: an A-label that decodes to nothing is still a name.

    Source: UTS 46 section 4 with UseSTD3ASCIIRules, CheckHyphens and VerifyDnsLength off; WHATWG URL, "domain to
    ASCII". The alphabet and the lengths are then those of `parse_name`.
    """
    if text.isascii():
        return parse_name(text)
    if len(text) > TEXT_MAX_LENGTH:
        return BadName(f"the name is longer than {NAME_MAX_LENGTH} characters")
    try:
        labels = [_to_ascii(label) for label in idna.uts46_remap(text, std3_rules=False).split(".")]
        _check_bidi(labels)
    except ValueError as error:  # idna and the codec raise kinds of it
        return BadName(f"no host name by UTS 46: {_shown(str(error))}")
    return parse_name(".".join(labels))


def _to_ascii(label: str) -> str:
    if label.isascii():
        if label.startswith("xn--"):
            _check_label(_decoded(label))
        return label
    if len(label) > LABEL_MAX_LENGTH:
        raise ValueError("a label is too long")
    if label.startswith("xn--"):
        raise ValueError("a label that only looks like an A-label")
    _check_label(label)
    return "xn--" + label.encode("punycode").decode("ascii")


def _decoded(label: str) -> str:
    """Give the text of an A-label; one that would not be written so is none."""
    if len(label) > LABEL_MAX_LENGTH:
        raise ValueError("a label is too long")
    decoded = label[4:].encode("ascii").decode("punycode")
    if decoded.isascii() or "xn--" + decoded.encode("punycode").decode("ascii") != label:
        raise ValueError("an A-label that is not its own text")
    if idna.uts46_remap(decoded, std3_rules=False) != decoded:
        raise ValueError("an A-label of characters that no name keeps")
    return decoded


def _check_label(label: str) -> None:
    """Raise if a label breaks the validity criteria that mapping does not settle.

    Source: UTS 46 section 4.1, criteria 1, 4 (the label separator), 5 (combining mark) and 8 (joiners).
    """
    if "." in label or unicodedata.category(label[0]).startswith("M"):
        raise ValueError("a label begins with a combining mark or holds a dot")
    for position, character in enumerate(label):
        if character in "\u200c\u200d" and not idna.valid_contextj(label, position):
            raise ValueError("a joiner out of place")


def _check_bidi(labels: list[str]) -> None:
    """Raise if a name with right-to-left letters breaks the Bidi rule in any label.

    Source: RFC 5893 section 2.
    """
    texts = [_decoded(label) if label.startswith("xn--") else label for label in labels]
    if any(_is_right_to_left(text) for text in texts):
        for text in texts:
            if text:
                idna.check_bidi(text, check_ltr=True)


def _is_right_to_left(text: str) -> bool:
    return any(unicodedata.bidirectional(character) in {"R", "AL", "AN"} for character in text)


def _shown(text: str) -> str:
    return ascii(text[:_SHOWN_CHARACTERS])


def is_localhost(name: HostName) -> bool:
    """Whether the name is `localhost` or below it.

    Source: RFC 6761 section 6.3.
    """
    return name.text == "localhost" or name.text.endswith(".localhost")


def is_floor_name(name: HostName) -> bool:
    """Whether no rule may allow the name: loopback, metadata services, the container host."""
    return name.text in _METADATA_NAMES or name.text == "localhost" or name.text.endswith(_FLOOR_BELOW)


def needs_exact_rule(name: HostName) -> bool:
    """Whether only an exact tenant rule or an endpoint may allow the name, since it means something on this network.

    Source: RFC 6762 (`local`), RFC 8375 (`home.arpa`), ICANN's reservation of `internal` (2024-07-29).
    """
    text = name.text
    return "." not in text or text.endswith(_EXACT_BELOW) or text == "home.arpa"
