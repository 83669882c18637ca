"""Bodies and forwarded heads under any input: every split cuts the same payload, and h11 reads what goes on alike."""

from __future__ import annotations

from itertools import accumulate, pairwise

import h11
from hypothesis import example, given
from hypothesis import strategies as st

from egress_policy.reasons import Refusal
from egress_policy.targets import AbsoluteForm, parse_absolute
from egressd.forwarding import forwarded_reply, forwarded_request
from egressd.framing import (
    LAST_CHUNK,
    BadFraming,
    Chunked,
    ChunkedReader,
    Length,
    NoBody,
    UntilClose,
    encode_chunk,
    reply_framing,
    request_framing,
)
from egressd.http_head import HeadReader, ReplyHead, ReplyReader, RequestHead

_CHUNK_PARTS = (
    *(
        b"0",
        b"1",
        b"a",
        b"5",
        b"00000005",
        b"000000005",
        b"x",
        b";",
        b";a=b",
        b';q="\\""',
        b" ",
        b"\t",
        b"\r\n",
        b"\r\n",
    ),
    *(b"\r", b"\n", b"hello", b"5\r\nhello\r\n", b"0\r\n\r\n", b"0\r\nA: b\r\n\r\n", b"A: b\r\n", b"\x00"),
)
CHUNKY = st.lists(st.one_of(st.sampled_from(_CHUNK_PARTS), st.binary(max_size=2)), max_size=12).map(b"".join)
PAYLOADS = st.lists(st.binary(min_size=1, max_size=60), max_size=6)
EXTENSIONS = st.sampled_from([b"", b";a", b";a=b", b' ; a = "b;\\"" ;c'])
TRAILERS = st.sampled_from([b"", b"A: b\r\n", b"A:\r\nB: c\r\n"])
SIZES = st.lists(st.integers(1, 30), max_size=30)
HOP = (
    *(b"connection", b"keep-alive", b"te", b"trailer", b"upgrade", b"http2-settings", b"proxy-authorization"),
    *(b"proxy-connection", b"proxy-status", b"oz0-egress-public-only", b"transfer_encoding", b"content_length"),
)
NAMES = st.one_of(
    st.sampled_from(
        [*HOP, b"accept", b"cookie", b"set-cookie", b"x-a", b"x-b", b"host", b"via", b"expect", b"forwarded"]
    ),
    st.text("abcxyz-_09", min_size=1, max_size=8).map(str.encode),
)
VALUES = st.one_of(
    st.sampled_from(
        [b"close", b"keep-alive", b"x-a, cookie", b"host, content-length", b"1.1 other", b"100-continue", b"a"]
    ),
    st.text([chr(code) for code in range(0x21, 0x7F)], max_size=12).map(str.encode),
)
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=10)
FRAMINGS = st.sampled_from([(), (b"Content-Length: 11",), (b"Transfer-Encoding: chunked",)])
BODY = b"hello world"


def cut(data: bytes, sizes: list[int]) -> tuple[bytes, bool, bytes] | None:
    """Payload, whether the body has ended, and what follows; None for bad framing."""
    reader = ChunkedReader()
    payload = b""
    edges = [0, *(edge for edge in accumulate(sizes) if edge < len(data)), len(data)]
    for start, end in pairwise(edges):
        answer = reader.feed(data[start:end])
        if isinstance(answer, BadFraming):
            return None
        payload += answer[0]
        if answer[1]:
            return payload, True, reader.rest + data[end:]
    return payload, False, reader.rest


@given(CHUNKY, SIZES)
@example(b"0\r\nA: b\r\n\r\nrest", [1] * 20)
def test_any_chunks_in_any_split_are_cut_the_same(data: bytes, sizes: list[int]) -> None:
    whole, pieces, single = cut(data, []), cut(data, sizes), cut(data, [1] * len(data))

    assert whole == pieces == single


@given(PAYLOADS, st.lists(EXTENSIONS, min_size=6, max_size=6), TRAILERS, st.binary(max_size=10), SIZES)
def test_good_chunks_give_back_their_payload(
    payloads: list[bytes], extensions: list[bytes], trailers: bytes, rest: bytes, sizes: list[int]
) -> None:
    chunks = [
        b"%X%b\r\n%b\r\n" % (len(payload), extension, payload)
        for payload, extension in zip(payloads, extensions, strict=False)
    ]
    data = b"".join(chunks) + b"0\r\n" + trailers + b"\r\n" + rest

    assert cut(data, sizes) == (b"".join(payloads), True, rest)


@given(
    st.lists(st.sampled_from([b"5\r\nhello\r\n", b"1;a=b\r\n!\r\n", b"5\r\nhello", b"\r\n", b"2"]), max_size=6), CHUNKY
)
def test_what_is_cut_to_an_end_is_what_h11_cuts(parts: list[bytes], junk: bytes) -> None:
    data = b"".join(parts) + b"0\r\n" + junk + b"\r\n"
    ours = cut(data, [])
    if ours is None or not ours[1]:
        return
    peer = h11.Connection(h11.SERVER)
    peer.receive_data(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + data)
    assert isinstance(peer.next_event(), h11.Request)

    assert body_of(peer) == ours[0]
    assert peer.trailing_data[0] == ours[2]


def body_of(peer: h11.Connection) -> bytes:
    """The body that an h11 connection has received, to its end."""
    body = b""
    while isinstance(event := peer.next_event(), h11.Data):
        body += bytes(event.data)
    assert isinstance(event, h11.EndOfMessage), event
    return body


def nominated(fields: list[tuple[bytes, bytes]]) -> set[bytes]:
    """What Connection fields name, read in the plainest way."""
    values = [value for name, value in fields if name == b"connection"]
    return {member.strip().lower() for value in values for member in value.split(b",")}


@given(FIELDS, FRAMINGS, st.sampled_from([b"GET", b"POST", b"OPTIONS"]), st.sampled_from([b"/", b"/a?b", b"", b"?b"]))
def test_what_goes_on_is_read_by_h11_as_the_request_that_was_judged(
    fields: list[tuple[bytes, bytes]], framing: tuple[bytes, ...], method: bytes, path: bytes
) -> None:
    target = b"http://docs.example:8080" + path
    lines = [method + b" " + target + b" HTTP/1.1", *(b"%b: %b" % field for field in fields), *framing]
    head = HeadReader().feed(b"\r\n".join(lines) + b"\r\n\r\n")
    form = parse_absolute(target)
    assert isinstance(head, RequestHead)
    assert isinstance(form, AbsoluteForm)
    body = request_framing(head)
    assert not isinstance(body, BadFraming)

    made = forwarded_request(head, form.target, form.path, body)
    assert isinstance(made, bytes)
    again = HeadReader().feed(made)
    assert isinstance(again, RequestHead)
    assert request_framing(again) == body
    peer = h11.Connection(h11.SERVER)
    peer.receive_data(made + (encode_chunk(BODY) + LAST_CHUNK if isinstance(body, Chunked) else BODY))
    event = peer.next_event()
    assert isinstance(event, h11.Request)

    assert event.method == method
    assert event.target == (b"*" if method == b"OPTIONS" and not path else form.path)
    assert [value for name, value in event.headers if name == b"host"] == [b"docs.example:8080"]
    assert [value for name, value in event.headers if name == b"via"] == [b"1.1 egressd"]
    gone = {*HOP, b"host", b"via", b"forwarded", *nominated(fields)}
    expected = [(name, value) for name, value in fields if name not in gone]
    lengths = {b"host", b"via", b"content-length", b"transfer-encoding"}
    assert sorted(field for field in event.headers if field[0] not in lengths) == sorted(expected)
    if not isinstance(body, NoBody):
        assert body_of(peer) == BODY
    assert isinstance(forwarded_request(again, form.target, form.path, body), Refusal)  # a second pass is a loop


@given(
    FIELDS, FRAMINGS, st.sampled_from([200, 204, 304, 404, 403]), st.sampled_from(["GET", "HEAD"]), st.integers(0, 1)
)
def test_what_comes_back_is_read_by_h11_as_the_reply_that_came(
    fields: list[tuple[bytes, bytes]], framing: tuple[bytes, ...], status: int, method: str, client_minor: int
) -> None:
    lines = [b"HTTP/1.1 %d Refused by egress policy" % status, *(b"%b: %b" % field for field in fields), *framing]
    head = ReplyReader().feed(b"\r\n".join(lines) + b"\r\n\r\n")
    assert isinstance(head, ReplyHead)
    body = reply_framing(head, request_method=method, status=status)
    assert not isinstance(body, BadFraming)

    made = forwarded_reply(head, body, keep_alive=True, client_minor=client_minor)
    peer = h11.Connection(h11.CLIENT)
    peer.send(h11.Request(method=method, target="/", headers=[("Host", "a")]))
    peer.send(h11.EndOfMessage())
    peer.receive_data(made)
    event = peer.next_event()
    assert isinstance(event, h11.Response)
    if isinstance(body, Chunked) and client_minor:
        peer.receive_data(encode_chunk(BODY) + LAST_CHUNK)
    elif not isinstance(body, NoBody):
        peer.receive_data(BODY)
    if isinstance(body, UntilClose) or not client_minor:
        peer.receive_data(b"")

    assert event.status_code == status
    assert b"egress policy" not in event.reason
    assert not [name for name, _ in event.headers if name.startswith((b"proxy-", b"oz0-egress-"))]
    gone = {*HOP, *nominated(fields), b"content-length", b"transfer-encoding"}
    expected = [*((name, value) for name, value in fields if name not in gone), (b"via", b"1.1 egressd")]
    lengths = {b"content-length", b"transfer-encoding", b"connection"}
    assert sorted(field for field in event.headers if field[0] not in lengths) == sorted(expected)
    assert body_of(peer) == (b"" if isinstance(body, NoBody) else BODY)
    if isinstance(body, Length):
        assert (b"content-length", b"11") in list(event.headers)
