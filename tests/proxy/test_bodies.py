"""Bodies cut and framed anew: any split gives the same payload, and nothing beyond the body passes."""

from __future__ import annotations

import socket
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress_policy.reasons import Reason
from egressd.bodies import ReplyBody, RequestBody
from egressd.framing import LAST_CHUNK, BadFraming, Chunked, ChunkedReader, Framing, Length, NoBody, UntilClose

PAYLOADS = st.lists(st.binary(min_size=1, max_size=40), max_size=5)
REST = st.binary(max_size=30)
CUTS = st.lists(st.integers(0, 400), max_size=12)


class Passed(NamedTuple):
    """What a body let through, and whether it was whole."""

    out: bytes
    done: bool


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    """The same bytes in pieces; some may be empty."""
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(bounds)]


def chunked(pieces: list[bytes]) -> bytes:
    """A body in chunks, with an extension and a trailer that must go no further."""
    return b"".join(b"%X;ext=1\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\nX-Trailer: t\r\n\r\n"


def unframed(data: bytes) -> bytes:
    """The payload of a whole chunked body that has nothing after it, no extensions and no trailers."""
    assert b"ext=1" not in data
    reader = ChunkedReader()
    cut = reader.feed(data)
    assert not isinstance(cut, BadFraming)
    payload, done = cut
    assert done
    assert reader.rest == b""
    return payload


def pass_request(body: RequestBody, pieces: list[bytes]) -> tuple[bytes, bytes]:
    """Send pieces as the exchange does: what comes after the body's end is kept as the next request."""
    out, kept = b"", b""
    for piece in pieces:
        if body.done:
            kept += piece
            continue
        cut = body.cut(piece)
        assert not isinstance(cut, BadFraming)
        out += cut
        kept += body.rest
    return out, kept


def pass_reply(body: ReplyBody, pieces: list[bytes]) -> bytes:
    out = b""
    for piece in pieces:
        cut = body.cut(memoryview(piece))
        assert not isinstance(cut, BadFraming)
        out += bytes(cut)
    return out


# Requests


@pytest.mark.parametrize(
    ("framing", "done"), [(NoBody(), True), (Length(0), True), (Length(1), False), (Chunked(), False)]
)
def test_a_request_body_is_done_from_the_start_only_where_there_is_none(framing: Framing, *, done: bool) -> None:
    assert RequestBody(framing).done is done


@pytest.mark.parametrize(
    ("size", "chunk", "passed", "rest"),
    [
        (5, b"hell", Passed(b"hell", done=False), b""),
        (5, b"hello", Passed(b"hello", done=True), b""),
        (5, b"helloG", Passed(b"hello", done=True), b"G"),
        (5, b"", Passed(b"", done=False), b""),
        (0, b"GET ", Passed(b"", done=True), b"GET "),
    ],
)
def test_a_request_body_of_a_length_ends_at_its_last_byte(size: int, chunk: bytes, passed: Passed, rest: bytes) -> None:
    body = RequestBody(Length(size))

    assert (body.cut(chunk), body.done) == passed
    assert body.rest == rest


@pytest.mark.parametrize(
    ("chunk", "passed", "rest"),
    [
        (b"3\r\nabc\r\n", Passed(b"3\r\nabc\r\n", done=False), b""),
        (b"3\r\nab", Passed(b"2\r\nab\r\n", done=False), b""),
        (b"3", Passed(b"", done=False), b""),
        (b"0\r\n\r\n", Passed(LAST_CHUNK, done=True), b""),
        (b"3\r\nabc\r\n0\r\n\r\nGET ", Passed(b"3\r\nabc\r\n" + LAST_CHUNK, done=True), b"GET "),
        (b"3;q=1\r\nabc\r\n0\r\nA: b\r\n\r\n", Passed(b"3\r\nabc\r\n" + LAST_CHUNK, done=True), b""),
    ],
)
def test_a_chunked_request_body_is_framed_anew(chunk: bytes, passed: Passed, rest: bytes) -> None:
    body = RequestBody(Chunked())

    assert (body.cut(chunk), body.done) == passed
    assert body.rest == rest


@pytest.mark.case("F9")
@pytest.mark.parametrize(
    "chunk", [b"x\r\n", b"3\r\nabcde", b"0x3\r\nabc\r\n", b"-1\r\n", b"0\r\n A: b\r\n\r\n", b"3\nabc"]
)
def test_a_request_body_that_breaks_its_framing_is_refused_as_ambiguous(chunk: bytes) -> None:
    cut = RequestBody(Chunked()).cut(chunk)

    assert isinstance(cut, BadFraming)
    assert cut.reason is Reason.AMBIGUOUS_FRAMING


def test_a_request_body_keeps_what_it_has_passed_when_it_breaks_later() -> None:
    body = RequestBody(Chunked())

    assert body.cut(b"1\r\na\r\n") == b"1\r\na\r\n"
    assert isinstance(body.cut(b"zz\r\n"), BadFraming)
    assert not body.done


@given(payload=st.binary(max_size=200), rest=REST, cuts=CUTS)
def test_any_split_of_a_request_of_a_length_passes_the_same(payload: bytes, rest: bytes, cuts: list[int]) -> None:
    body = RequestBody(Length(len(payload)))

    out, kept = pass_request(body, split(payload + rest, cuts))

    assert (out, kept, body.done) == (payload, rest, True)


@given(pieces=PAYLOADS, rest=REST, cuts=CUTS)
def test_any_split_of_a_chunked_request_passes_the_same(pieces: list[bytes], rest: bytes, cuts: list[int]) -> None:
    body = RequestBody(Chunked())

    out, kept = pass_request(body, split(chunked(pieces) + rest, cuts))

    assert body.done
    assert unframed(out) == b"".join(pieces)
    assert kept == rest, "what follows is the next request, whole"


@given(pieces=PAYLOADS, cuts=CUTS, lost=st.integers(1, 5))
def test_a_chunked_request_without_its_end_is_never_done(pieces: list[bytes], cuts: list[int], lost: int) -> None:
    body = RequestBody(Chunked())

    out, _ = pass_request(body, split(chunked(pieces)[:-lost], cuts))

    assert not body.done
    assert not out.endswith(LAST_CHUNK) or b"".join(pieces).endswith(LAST_CHUNK[:-2])


# Replies


@pytest.mark.parametrize(
    ("framing", "done", "until_close"),
    [
        (NoBody(), True, False),
        (Length(0), True, False),
        (Length(1), False, False),
        (Chunked(), False, False),
        (UntilClose(), False, True),
    ],
)
@pytest.mark.parametrize("minor", [0, 1])
def test_a_reply_body_begins_as_its_framing_says(framing: Framing, done: bool, until_close: bool, minor: int) -> None:
    body = ReplyBody(framing, client_minor=minor)

    assert (body.done, body.until_close, body.surplus) == (done, until_close, False)


@pytest.mark.parametrize("framing", [NoBody(), Length(0), Length(2)])
@pytest.mark.parametrize("minor", [0, 1])
def test_bytes_beyond_a_reply_pass_to_nobody_and_spend_the_connection(framing: Framing, minor: int) -> None:
    body = ReplyBody(framing, client_minor=minor)
    size = framing.size if isinstance(framing, Length) else 0

    assert body.cut(b"okHTTP/1.1 200 OK\r\n") == b"ok"[:size]
    assert body.done
    assert body.surplus
    assert body.cut(b"more") == b""


@pytest.mark.parametrize(("minor", "last"), [(1, b"2\r\nok\r\n" + LAST_CHUNK), (0, b"ok")])
def test_a_chunked_reply_is_framed_for_the_clients_version(minor: int, last: bytes) -> None:
    body = ReplyBody(Chunked(), client_minor=minor)

    assert body.cut(b"2;e\r\nok\r\n0\r\nA: b\r\n\r\n") == last
    assert (body.done, body.surplus) == (True, False)


@pytest.mark.parametrize("minor", [0, 1])
def test_an_empty_piece_of_a_chunked_reply_changes_nothing(minor: int) -> None:
    body = ReplyBody(Chunked(), client_minor=minor)

    assert body.cut(b"") == b""
    assert (body.done, body.surplus) == (False, False)


@pytest.mark.parametrize("minor", [0, 1])
def test_what_follows_the_last_chunk_is_nobodys_reply(minor: int) -> None:
    body = ReplyBody(Chunked(), client_minor=minor)

    assert body.cut(LAST_CHUNK) == (LAST_CHUNK if minor else b"")
    spent = []
    for chunk in (b"", b"HTTP/1.1 200 OK\r\n", b""):
        assert body.cut(chunk) == b""
        spent.append(body.surplus)
    assert spent == [False, True, True], "once too much has come, the connection stays spent"


@pytest.mark.parametrize("minor", [0, 1])
def test_a_reply_that_breaks_its_chunks_is_bad_framing(minor: int) -> None:
    body = ReplyBody(Chunked(), client_minor=minor)

    assert isinstance(body.cut(b"5\r\nhelloX\r\n"), BadFraming)
    assert not body.done


def test_a_reply_until_close_passes_everything_and_is_never_done_by_itself() -> None:
    body = ReplyBody(UntilClose(), client_minor=1)

    assert pass_reply(body, [b"a", b"", b"0\r\n\r\n"]) == b"a0\r\n\r\n"
    assert (body.done, body.surplus) == (False, False)


@given(payload=st.binary(max_size=200), rest=REST, cuts=CUTS, minor=st.sampled_from([0, 1]))
def test_any_split_of_a_reply_of_a_length_passes_the_same(
    payload: bytes, rest: bytes, cuts: list[int], minor: int
) -> None:
    body = ReplyBody(Length(len(payload)), client_minor=minor)

    assert pass_reply(body, split(payload + rest, cuts)) == payload
    assert body.done
    assert body.surplus == bool(rest)


@given(pieces=PAYLOADS, rest=REST, cuts=CUTS, minor=st.sampled_from([0, 1]))
def test_any_split_of_a_chunked_reply_passes_the_same(
    pieces: list[bytes], rest: bytes, cuts: list[int], minor: int
) -> None:
    body = ReplyBody(Chunked(), client_minor=minor)

    out = pass_reply(body, split(chunked(pieces) + rest, cuts))

    assert body.done
    assert body.surplus == bool(rest)
    assert (unframed(out) if minor else out) == b"".join(pieces)


@given(payload=st.binary(max_size=200), cuts=CUTS)
def test_any_split_of_a_reply_until_close_passes_the_same(payload: bytes, cuts: list[int]) -> None:
    assert pass_reply(ReplyBody(UntilClose(), client_minor=0), split(payload, cuts)) == payload


@given(noise=st.binary(max_size=60), cuts=CUTS)
def test_any_bytes_and_any_split_of_them_have_one_reading(noise: bytes, cuts: list[int]) -> None:
    def read(pieces: list[bytes]) -> Passed | None:
        body = ReplyBody(Chunked(), client_minor=0)
        out = b""
        for piece in pieces:
            cut = body.cut(piece)
            if isinstance(cut, BadFraming):
                return None
            out += bytes(cut)
        return Passed(out, body.done)

    assert read([noise]) == read(split(noise, cuts))


# One real socket


def test_a_request_body_cut_from_a_real_socket_leaves_the_next_request_alone() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(chunked([b"hello", b" world"]) + b"GET http://next.test/ HTTP/1.1\r\n")
        theirs.shutdown(socket.SHUT_WR)
        pieces = list(iter(lambda: ours.recv(7), b""))

    out, kept = pass_request(RequestBody(Chunked()), pieces)

    assert unframed(out) == b"hello world"
    assert kept == b"GET http://next.test/ HTTP/1.1\r\n"
