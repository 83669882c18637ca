"""Heads under any bytes in any split: one answer, few looks, and what passes is what h11 reads as well."""

from __future__ import annotations

import h11
from hypothesis import example, given
from hypothesis import strategies as st

from egressd.http_head import NEED_MORE, BadHead, HeadReader, NeedMore, ReplyHead, ReplyReader, RequestHead
from support.http_heads import Reader, feed_in_pieces

# Parts that heads are made of, whole and broken, so that random rows of them come near the grammar's edges.
_PARTS = (
    *(b"GET", b"CONNECT", b" ", b"  ", b"\t", b"http://a.example/", b"a:443", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0"),
    *(
        b"HTTP/1.1 200 OK",
        b"HTTP/1.0 404",
        b"\r\n",
        b"\r\n",
        b"\r\n",
        b"\r\n\r\n",
        b"\r",
        b"\n",
        b"\x00",
        b"\x7f",
        b"\xff",
    ),
    *(
        b":",
        b": ",
        b"Host: a",
        b"Content-Length: 5",
        b"Transfer-Encoding: chunked",
        b"X:",
        b"x" * 40,
        b"GET / HTTP/1.1",
    ),
    *(b"GET http://a/ HTTP/1.1\r\n", b"HTTP/1.1 200 OK\r\n"),
)
TOKENS = st.text("!#$%&'*+-.^_`|~0189AZaz", min_size=1, max_size=12).map(str.encode)
VALUES = st.binary(max_size=30).map(
    lambda raw: bytes(byte for byte in raw if (byte >= 32 and byte != 127) or byte == 9)
)
FIELDS = st.lists(st.tuples(TOKENS, VALUES), max_size=8)
TARGETS = st.text([chr(code) for code in range(0x21, 0x7F)], min_size=1, max_size=30).map(str.encode)
ANY = st.one_of(
    st.lists(st.one_of(st.sampled_from(_PARTS), st.binary(max_size=3)), max_size=14).map(b"".join),
    st.binary(max_size=200),
)
SPLITS = st.lists(st.integers(1, 40), max_size=30)
READERS = st.sampled_from([HeadReader, ReplyReader])
SMALL = st.integers(1, 120)


@st.composite
def heads(draw: st.DrawFn) -> bytes:
    """Good heads of both kinds, with something behind them."""
    first = draw(
        st.one_of(
            st.tuples(TOKENS, TARGETS).map(lambda parts: b"%b %b HTTP/1.1" % parts),
            st.tuples(st.integers(100, 599), VALUES).map(lambda parts: b"HTTP/1.1 %d %b" % parts),
        )
    )
    lines = [first, *(name + b":" + value for name, value in draw(FIELDS)), b"", draw(st.binary(max_size=20))]
    return b"\r\n".join(lines)


DATA = st.one_of(heads(), ANY)


@given(DATA, SPLITS, READERS, st.one_of(st.none(), SMALL))
@example(b"GET http://a/ HTTP/1.1\r\nX: a\r\n\x00\r\n\r\n", [31, 1], HeadReader, None)
@example(b"GET http://a/ HTTP/1.1\r\n\r\n\r\n\r\n", [1] * 40, HeadReader, None)
@example(b"\r\n\r\nGET http://a/ HTTP/1.1\r\n\r\n", [2], HeadReader, None)
@example(b"GET http://a/ HTTP/1.1\r\nA: b\r\n\r\nGET http://b/ HTTP/1.1\r\n\r\n", [3], HeadReader, None)
def test_any_bytes_in_any_split_give_the_answer_that_they_give_whole(
    data: bytes, sizes: list[int], make: type[Reader], bound: int | None
) -> None:
    arguments = {} if bound is None else {"max_bytes": bound, "max_fields": 3}
    whole, pieces, single = make(**arguments), make(**arguments), make(**arguments)

    expected, _ = feed_in_pieces(whole, data, [])
    answer, fed = feed_in_pieces(pieces, data, sizes)
    by_byte, fed_by_byte = feed_in_pieces(single, data, [1] * len(data))

    assert answer == expected == by_byte
    assert isinstance(expected, RequestHead | ReplyHead | NeedMore | BadHead)
    if not isinstance(expected, NeedMore | BadHead):
        assert whole.rest == pieces.rest + data[fed:] == single.rest + data[fed_by_byte:]
        assert single.rest == b""


@given(DATA, SPLITS, READERS)
def test_no_byte_is_looked_at_more_than_twice(data: bytes, sizes: list[int], make: type[Reader]) -> None:
    for split in (sizes, [], [1] * len(data)):
        reader = make()
        answer, fed = feed_in_pieces(reader, data, split)
        length = fed - len(reader.rest) if not isinstance(answer, NeedMore | BadHead) else fed

        assert reader.examined <= 2 * length


@given(DATA, READERS)
def test_more_bytes_never_change_an_answer(data: bytes, make: type[Reader]) -> None:
    answer, _ = feed_in_pieces(make(), data, [])
    longer, _ = feed_in_pieces(make(), data + b"X: y\r\n\r\n", [])

    assert answer is NEED_MORE or answer == longer


@given(heads())
def test_a_good_head_is_read_whatever_is_in_it(data: bytes) -> None:
    reader: Reader = ReplyReader() if data.startswith(b"HTTP/1.1 ") else HeadReader()
    head, fed = feed_in_pieces(reader, data, [7])

    assert isinstance(head, RequestHead | ReplyHead)
    lines = data[: data.index(b"\r\n\r\n")].split(b"\r\n")[1:]
    assert [name for name, _ in head.fields] == [line.split(b":", 1)[0].lower() for line in lines]
    assert [value for _, value in head.fields] == [line.split(b":", 1)[1].strip(b" \t") for line in lines]
    assert (reader.rest + data[fed:]) == data[data.index(b"\r\n\r\n") + 4 :]


@given(st.one_of(heads(), ANY.map(lambda junk: b"GET http://a/ HTTP/1.1\r\nHost: a\r\n" + junk + b"\r\n\r\n")))
def test_what_passes_as_a_request_is_what_h11_reads(data: bytes) -> None:
    head = HeadReader().feed(data)
    if not isinstance(head, RequestHead) or head.get_all(b"host") != [b"a"] or data.startswith(b"\r\n"):
        return
    peer = h11.Connection(h11.SERVER)
    peer.receive_data(data)
    try:
        event = peer.next_event()
    except h11.RemoteProtocolError as fault:  # it looks at more than the grammar
        assert any(word in str(fault) for word in ("Content-Length", "Transfer-Encoding", "Host")), fault  # noqa: PT017
        return
    assert isinstance(event, h11.Request)
    assert (event.method.decode("ascii"), event.target) == (head.method, head.target)
    theirs = [(name, value) for name, value in event.headers if name not in {b"transfer-encoding", b"content-length"}]
    ours = [(name, value) for name, value in head.fields if name not in {b"transfer-encoding", b"content-length"}]
    assert theirs == ours
