"""What others have collected: llhttp's own examples, and the request-smuggling payloads of a public list."""

from __future__ import annotations

import json
from typing import Any

import h11
import pytest

from egress_policy.reasons import Refusal
from egress_policy.targets import AbsoluteForm, parse_absolute
from egressd.forwarding import forwarded_request
from egressd.framing import BadFraming, Chunked, ChunkedReader, reply_framing, request_framing
from egressd.http_head import BadHead, HeadReader, NeedMore, ReplyReader, RequestHead
from support.corpora import CORPORA
from support.http_heads import llhttp_examples

PAYLOADS = CORPORA / "smuggling-payloads" / "payloads.json"
# What llhttp refuses and heads alone cannot tell: it knows a closed list of methods, and what the caller does next.
_OTHER_MATTERS = ("Pause", "Paused", "Data after", "Invalid method for", "Expected space after method")
needs_llhttp = pytest.mark.skipif(not (CORPORA / "llhttp").is_dir(), reason="the llhttp examples are not here")


# Other protocols, HTTP before 1.0, and codings that RFC 9112 allows and this proxy does not speak.
KNOWN = {
    "request": {
        "method: ANNOUNCE request with RTSP",
        "method: OPTIONS request with RTSP",
        "method: SOURCE request with ICE",
        "sample: No HTTP version",
        "transfer-encoding: POST with `chunked` as last transfer-encoding",
        "transfer-encoding: POST with `chunked` as last transfer-encoding (multiple headers)",
    },
    "response": {
        "sample: HTTP version 0.9",
        "sample: ICE response",
        "sample: RTSP response",
        "sample: Response starting with CRLF",
        "transfer-encoding: `chunked` before other transfer-encoding",
        "transfer-encoding: `chunkedchunked` transfer-encoding does not enable chunked enconding",
        "transfer-encoding: multiple transfer-encoding where chunked is not the last one",
    },
}


def reader_for(kind: str) -> HeadReader | ReplyReader:
    return HeadReader() if kind == "request" else ReplyReader()


def accepted(kind: str, data: bytes) -> bool:
    """Whether a message passes: head, framing, and its chunks as far as they are there."""
    reader = reader_for(kind)
    head = reader.feed(data)
    if isinstance(head, NeedMore | BadHead):
        return False
    if isinstance(head, RequestHead):
        framing = request_framing(head)
    else:
        framing = reply_framing(head, request_method="GET", status=head.status)
    if isinstance(framing, BadFraming):
        return False
    return not (isinstance(framing, Chunked) and isinstance(ChunkedReader().feed(reader.rest), BadFraming))


@needs_llhttp
@pytest.mark.parametrize("kind", ["request", "response"])
def test_what_llhttp_refuses_is_refused(kind: str) -> None:
    examples = [example for example in llhttp_examples(kind) if example.error and example.kind.startswith(kind)]
    errors = [example for example in examples if not (example.error or "").startswith(_OTHER_MATTERS)]

    assert len(errors) > 15
    assert [example.title for example in errors if accepted(kind, example.data)] == []


@needs_llhttp
@pytest.mark.parametrize("kind", ["request", "response"])
def test_plain_messages_that_llhttp_accepts_pass(kind: str) -> None:
    """All but the ones above, so that strict does not come to mean deaf."""
    plain = [example for example in llhttp_examples(kind) if example.kind == kind and not example.error]
    refused = [
        example.title
        for example in plain
        if not accepted(kind, example.data) and not isinstance(reader_for(kind).feed(example.data), NeedMore)
    ]

    assert len(plain) > 25
    assert set(refused) == KNOWN[kind]


def smuggling_rows() -> list[Any]:
    """The spellings of the two lengths, each with both kinds of body."""
    if not PAYLOADS.is_file():
        return []
    listed = json.loads(PAYLOADS.read_text(encoding="utf-8"))
    return [
        pytest.param(spelling, body, id=f"{spelling['type']}-{body['type']}")
        for spelling in listed["permute"]
        for body in listed["detection"]
    ]


@pytest.mark.case("F4", "F5", "F6")
@pytest.mark.parametrize(("spelling", "body"), smuggling_rows())
def test_no_spelling_smuggles_a_second_length_past_the_proxy(spelling: dict[str, Any], body: dict[str, Any]) -> None:
    coding = spelling["transfer_encoding"]
    key = coding["te_key"].replace("[space here]", " ").encode("latin-1")
    data = (
        b"POST http://docs.example/ HTTP/1.1\r\nHost: docs.example\r\n"
        + f"{spelling['content_length_key']} {body['content_length']}\r\n".encode("latin-1")
        + key
        + coding["te_value"].encode("latin-1")
        + b"\r\n\r\n"
    )
    head = HeadReader().feed(data)
    if isinstance(head, BadHead):
        return
    assert not isinstance(head, NeedMore)
    framing = request_framing(head)
    if isinstance(framing, BadFraming):
        return
    form = parse_absolute(head.target)
    assert isinstance(form, AbsoluteForm)
    made = forwarded_request(head, form.target, form.path, framing)
    assert not isinstance(made, Refusal)
    peer = h11.Connection(h11.SERVER)
    peer.receive_data(made)
    event = peer.next_event()
    assert isinstance(event, h11.Request)
    folded = [bytes(letter for letter in name if chr(letter).isalpha()) for name, _ in event.headers]
    assert folded.count(b"contentlength") == 1
    assert b"transferencoding" not in folded
