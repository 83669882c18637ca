"""Feeds readers of heads in pieces, and reads llhttp's own test documents, for the tests of heads and framing.

Decides nothing about what is right. The documents are no part of the project.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, repeat

from egressd.http_head import NEED_MORE, BadHead, HeadReader, NeedMore, ReplyHead, ReplyReader, RequestHead
from support.corpora import CORPORA

Reader = HeadReader | ReplyReader
Answer = RequestHead | ReplyHead | NeedMore | BadHead
_EXAMPLE = re.compile(
    r'^#+ (?P<title>.*)\n(?:(?!^#).*\n)*?<!-- meta=\{"type": "(?P<kind>[a-z-]+)".*\} -->\n'
    r"```http\n(?P<data>(?:(?!```).*\n)*)```\s+```log\n(?P<log>(?:(?!```).*\n)*)```",
    re.MULTILINE,
)
_ESCAPES = {r"\r": "\r", r"\n": "\n", r"\t": "\t", r"\f": "\f"}


def feed_in_pieces(reader: Reader, data: bytes, sizes: Iterable[int]) -> tuple[Answer, int]:
    """Feed `data` in pieces of these sizes, the last taking what is left, until there is an answer.

    Returns:
        The answer, and how many bytes were fed for it.
    """
    at = 0
    answer: Answer = NEED_MORE
    for size in chain(sizes, repeat(len(data))):
        if at >= len(data) or answer is not NEED_MORE:
            break
        answer = reader.feed(data[at : at + size])
        at = min(at + size, len(data))
    return answer, at


def request_head(
    *fields: bytes, method: bytes = b"GET", target: bytes = b"http://docs.python.org/3/?q=1", version: bytes = b"1.1"
) -> RequestHead:
    """A request's head with these field lines."""
    data = b"".join([method, b" ", target, b" HTTP/", version, b"\r\n", *(line + b"\r\n" for line in fields), b"\r\n"])
    head = HeadReader().feed(data)
    assert isinstance(head, RequestHead)
    return head


def reply_head(*fields: bytes, status: int = 200, version: bytes = b"1.1", phrase: bytes = b"Fine") -> ReplyHead:
    """A reply's head with these field lines."""
    lines = [b"HTTP/%b %d %b" % (version, status, phrase), *fields]
    head = ReplyReader().feed(b"".join([line + b"\r\n" for line in lines]) + b"\r\n")
    assert isinstance(head, ReplyHead)
    return head


@dataclass(frozen=True)
class Example:
    """One example of llhttp: `error` is its parser's own message, None where it accepts the bytes."""

    title: str
    kind: str
    data: bytes
    error: str | None


def llhttp_examples(folder: str) -> Iterator[Example]:
    """The examples for `request` or `response`; none where the documents are not there."""
    for path in sorted((CORPORA / "llhttp" / folder).glob("*.md")):
        for found in _EXAMPLE.finditer(path.read_text(encoding="utf-8")):
            text = found["data"].removesuffix("\n").replace("\\\n", "").replace("\n", "\r\n")
            for escape, character in _ESCAPES.items():
                text = text.replace(escape, character)
            text = re.sub(r"\\x([0-9a-fA-F]{2})", lambda code: chr(int(code[1], 16)), text)
            error = re.search(r'error code=\d+ reason="(.*)"', found["log"])
            title = f"{path.stem}: {found['title']}"
            yield Example(title, found["kind"], text.encode("utf-8"), error[1] if error else None)
