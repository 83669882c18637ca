"""How bodies end: what has one reading passes, everything else is refused; chunks are cut by a strict grammar."""

from __future__ import annotations

from itertools import pairwise

import pytest

from egress_policy.reasons import ErrorType, Reason
from egressd.framing import (
    LAST_CHUNK,
    BadFraming,
    Chunked,
    ChunkedReader,
    Framing,
    Length,
    NoBody,
    UntilClose,
    encode_chunk,
    reply_framing,
    request_framing,
)
from egressd.http_head import BadHead, HeadReader, ReplyReader
from support.http_heads import reply_head, request_head


def of_request(*fields: bytes, method: bytes = b"POST", version: bytes = b"1.1") -> Framing | BadFraming:
    return request_framing(request_head(*fields, method=method, version=version))


def of_reply(*fields: bytes, status: int = 200, method: str = "GET", version: bytes = b"1.1") -> Framing | BadFraming:
    return reply_framing(reply_head(*fields, status=status, version=version), request_method=method, status=status)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ((), NoBody()),
        ((b"Accept: a", b"Content-Length: 0", b"Cookie: b"), Length(0)),
        ((b"Content-Length: 0012",), Length(12)),
        ((b"content-LENGTH:\t7 ",), Length(7)),
        ((b"Content-Length: 999999999999999999",), Length(999_999_999_999_999_999)),
        ((b"Transfer-Encoding: chunked",), Chunked()),
        ((b"TRANSFER-ENCODING: CHUNKED",), Chunked()),
        ((b"Transfer-Encoding: chunked\t",), Chunked()),
    ],
)
def test_a_request_with_one_reading_passes(fields: tuple[bytes, ...], expected: Framing) -> None:
    assert of_request(*fields) == expected


@pytest.mark.case("F4", "F5")
@pytest.mark.parametrize(
    "fields",
    [
        (b"Content-Length: 5", b"Transfer-Encoding: chunked"),
        (b"Transfer-Encoding: Chunked", b"Content-Length: 5"),
        (b"Transfer-Encoding: chunked\t", b"Content-Length: 5"),
        (b"Content-Length: 5", b"Transfer-Encoding: identity"),
        (b"Content-Length: ", b"Transfer-Encoding: chunked"),
        (b"Transfer-Encoding: chunked,",),
        (b"Transfer-Encoding: ,chunked",),
        (b"Transfer-Encoding: chunked, gzip",),
        (b"Transfer-Encoding: gzip, chunked",),
        (b"Transfer-Encoding: chunked, chunked",),
        (b"Transfer-Encoding: chunked;q=1",),
        (b"Transfer-Encoding: identity",),
        (b"Transfer-Encoding: xchunked",),
        (b'Transfer-Encoding: "chunked"',),
        (b"Transfer-Encoding: \xffchunked",),
        (b"Transfer-Encoding:",),
        (b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"),
        (b"Transfer-Encoding: identity", b"Transfer-Encoding: chunked"),
        (b"Transfer-Encoding:", b"Transfer-Encoding: chunked"),
        (b"Content-Length: 5", b"Content-Length: 5"),
        (b"Content-Length: 5", b"Content-Length: 6"),
        (b"Content-Length: 5, 5",),
        (b"Content-Length: 5,",),
        (b"Content-Length: +5",),
        (b"Content-Length: -5",),
        (b"Content-Length: 0x5",),
        (b"Content-Length: 1_0",),
        (b"Content-Length: 5.0",),
        (b"Content-Length: 5 5",),
        (b"Content-Length: \xd9\xa5",),
        (b"Content-Length:",),
        (b"Content-Length: 1000000000000000000",),
    ],
)
def test_a_body_with_two_readings_is_refused_in_both_directions(fields: tuple[bytes, ...]) -> None:
    request, reply = of_request(*fields), of_reply(*fields)

    assert isinstance(request, BadFraming)
    assert (request.reason, request.error) == (Reason.AMBIGUOUS_FRAMING, None)
    assert isinstance(reply, BadFraming)
    assert reply.reason is Reason.UPSTREAM_FAILED
    assert reply.error in {ErrorType.HTTP_PROTOCOL_ERROR, ErrorType.HTTP_RESPONSE_TRANSFER_CODING}


@pytest.mark.case("F5")
@pytest.mark.parametrize(
    "line", [b"Content-Length : 5", b"Transfer-Encoding\t: chunked", b"Transfer-Encoding:\x0bchunked"]
)
def test_a_length_that_is_no_field_line_does_not_even_make_a_head(line: bytes) -> None:
    assert isinstance(HeadReader().feed(b"POST http://a/ HTTP/1.1\r\n" + line + b"\r\n\r\n"), BadHead)
    assert isinstance(ReplyReader().feed(b"HTTP/1.1 200 OK\r\n" + line + b"\r\n\r\n"), BadHead)


def test_chunks_in_http_1_0_are_refused_in_both_directions() -> None:
    assert isinstance(of_request(b"Transfer-Encoding: chunked", version=b"1.0"), BadFraming)
    assert isinstance(of_reply(b"Transfer-Encoding: chunked", version=b"1.0"), BadFraming)


@pytest.mark.case("E9")
def test_on_connect_a_length_is_ignored_and_a_transfer_coding_refused() -> None:
    for value in (b"5", b"0", b"+5", b""):
        assert of_request(b"Content-Length: " + value, method=b"CONNECT") == NoBody()
    refused = of_request(b"Transfer-Encoding: chunked", method=b"CONNECT")
    assert isinstance(refused, BadFraming)
    assert refused.reason is Reason.AMBIGUOUS_FRAMING


@pytest.mark.case("F17")
@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_a_reply_without_length_lasts_until_the_connection_ends(version: bytes) -> None:
    assert of_reply(version=version) == UntilClose()
    assert of_reply(b"Content-Length: 5", version=version) == Length(5)


@pytest.mark.parametrize(
    ("method", "status"),
    [("HEAD", 200), ("HEAD", 404), ("GET", 204), ("GET", 304), ("GET", 100), ("GET", 103), ("GET", 101)],
)
@pytest.mark.parametrize("fields", [(), (b"Content-Length: 5",), (b"Transfer-Encoding: chunked",)])
def test_replies_that_never_have_a_body_have_none(method: str, status: int, fields: tuple[bytes, ...]) -> None:
    assert of_reply(*fields, method=method, status=status) == NoBody()


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304), ("GET", 100)])
def test_their_lengths_are_held_to_the_grammar_all_the_same(method: str, status: int) -> None:
    assert isinstance(of_reply(b"Content-Length: 5", b"Content-Length: 6", method=method, status=status), BadFraming)


@pytest.mark.parametrize("status", [200, 205, 404, 500])
def test_other_replies_have_the_body_that_they_announce(status: int) -> None:
    assert of_reply(b"Server: a", b"Content-Length: 5", b"Set-Cookie: b", status=status) == Length(5)
    assert of_reply(b"Transfer-Encoding: chunked", status=status) == Chunked()


def test_a_coding_that_is_not_spoken_here_is_told_as_that() -> None:
    odd = of_reply(b"Transfer-Encoding: gzip, chunked")

    assert isinstance(odd, BadFraming)
    assert odd.error is ErrorType.HTTP_RESPONSE_TRANSFER_CODING


# Chunks

GOOD = (
    b'5\r\nhello\r\nB;name=value;flag;q="a; \\" b" ; x = y\r\n, chunked w\r\n1\r\n!\r\n0\r\nDigest: x\r\nEmpty:\r\n\r\n'
)


def cut(*chunks: bytes | memoryview) -> tuple[bytes, bool, bytes] | BadFraming:
    """Payload, whether the body has ended, and what follows it."""
    reader = ChunkedReader()
    payload = b""
    ended = False
    for chunk in chunks:
        answer = reader.feed(chunk)
        if isinstance(answer, BadFraming):
            return answer
        payload += answer[0]
        ended = answer[1]
    return payload, ended, reader.rest


@pytest.mark.case("F8")
def test_chunks_are_cut_out_of_extensions_and_trailers() -> None:
    assert cut(GOOD) == (b"hello, chunked w!", True, b"")
    assert cut(GOOD + b"GET /") == (b"hello, chunked w!", True, b"GET /")


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13, 40])
def test_chunks_are_cut_alike_in_any_split(size: int) -> None:
    edges = [*range(0, len(GOOD), size), len(GOOD)]

    assert cut(*(GOOD[start:end] for start, end in pairwise(edges))) == (b"hello, chunked w!", True, b"")
    assert cut(*(memoryview(GOOD)[start:end] for start, end in pairwise(edges))) == (b"hello, chunked w!", True, b"")


def test_a_body_that_has_not_ended_says_so() -> None:
    for end in range(len(GOOD)):
        answer = cut(GOOD[:end])
        assert not isinstance(answer, BadFraming)
        assert b"hello, chunked w!".startswith(answer[0])
        assert answer[1:] == (False, b"")


def test_a_big_chunk_passes_without_a_copy_of_its_bytes() -> None:
    reader = ChunkedReader()
    reader.feed(b"fffff\r\n")
    piece = b"x" * 65_536
    answer = reader.feed(piece)

    assert not isinstance(answer, BadFraming)
    assert answer[0] is piece


def test_a_view_may_be_reused_by_its_owner() -> None:
    reader = ChunkedReader()
    buffer = bytearray(b"6\r\nabc")
    first = reader.feed(memoryview(buffer))
    buffer[:3] = b"def"
    second = reader.feed(memoryview(buffer)[:2])

    assert (first, second) == ((b"abc", False), (b"de", False))
    buffer[:] = b"f\r\n0\r\n"
    assert reader.feed(memoryview(buffer)) == (b"f", False)


@pytest.mark.case("F9")
@pytest.mark.parametrize(
    "size",
    [
        b"0x1",
        b"-1",
        b"+1",
        b"0_0",
        b" 5",
        b"5 ",
        b"\t5",
        b"000000005",
        b"12345678901234567",
        b"",
        b"g",
        b"5\x00",
        b"\xd9\xa5",
    ],
)
def test_a_chunk_size_is_one_to_eight_hex_digits(size: bytes) -> None:
    assert isinstance(cut(size + b"\r\nhello\r\n0\r\n\r\n"), BadFraming)


@pytest.mark.case("F9")
@pytest.mark.parametrize("size", [b"5", b"05", b"00000005"])
def test_leading_zeros_within_eight_digits_are_a_size(size: bytes) -> None:
    assert cut(size + b"\r\nhello\r\n0\r\n\r\n") == (b"hello", True, b"")


@pytest.mark.case("F8")
@pytest.mark.parametrize(
    "line",
    [
        b"5;ext\nX\r\n",
        b"5;\nX\r\n",
        b"5\n",
        b"5;ext\rX\r\n",
        b"5\rX\r\n",
        b"5;\r\n",
        b"5;=a\r\n",
        b"5;a=\r\n",
        b"5; ;a\r\n",
        b"5 a\r\n",
        b"5;a b\r\n",
        b'5;a="b\r\n',
        b'5;a="b\x00"\r\n',
        b'5;a="b\\"\r\n',
        b"5;a\x00\r\n",
        b"5;" + b"a" * 5000 + b"\r\n",
    ],
)
def test_an_extension_outside_the_grammar_is_refused(line: bytes) -> None:
    for body in (line + b"hello\r\n0\r\n\r\n", line + b"\r\nhello\r\n0\r\n\r\n"):
        assert isinstance(cut(body), BadFraming)
        assert isinstance(cut(*(bytes([byte]) for byte in body)), BadFraming)


@pytest.mark.parametrize("end", [b"\n", b"\r\r\n", b"X\r\n", b"0\r\n", b"\r0", b"XY"])
def test_a_chunk_ends_where_its_size_says(end: bytes) -> None:
    assert isinstance(cut(b"5\r\nhello" + end + b"0\r\n\r\n"), BadFraming)


def test_a_chunk_that_is_too_long_is_refused_without_waiting_for_a_line() -> None:
    assert cut(b"5\r\nhello\r") == (b"hello", False, b"")
    assert isinstance(cut(b"5\r\nhelloXY"), BadFraming)


@pytest.mark.parametrize(
    "trailer", [b"X: a\n", b"X : a\r\n", b" X: a\r\n", b"X\r\n", b"X: \x00\r\n", b"\n", b"\rX\r\n", b": a\r\n"]
)
def test_a_trailer_outside_the_grammar_is_refused(trailer: bytes) -> None:
    assert isinstance(cut(b"0\r\n" + trailer + b"\r\n"), BadFraming)
    assert isinstance(cut(b"0\r\nA: b\r\n" + trailer + b"\r\n"), BadFraming)


def test_trailers_have_the_bound_of_a_head() -> None:
    line = b"X: " + b"a" * 1019 + b"\r\n"

    assert cut(b"0\r\n" + line * 64 + b"\r\n") == (b"", True, b"")
    assert isinstance(cut(b"0\r\n" + line * 65 + b"\r\n"), BadFraming)


def test_a_line_without_an_end_is_refused_at_its_bound() -> None:
    assert cut(b"5;" + b"a" * 4000) == (b"", False, b"")
    assert isinstance(cut(b"5;" + b"a" * 5000), BadFraming)
    assert isinstance(cut(b"5;", *[b"a" * 100] * 50), BadFraming)


def test_chunks_are_written_as_they_are_read() -> None:
    assert encode_chunk(b"x" * 26) == b"1a\r\n" + b"x" * 26 + b"\r\n"
    assert encode_chunk(memoryview(b"hello")) == b"5\r\nhello\r\n"
    assert cut(encode_chunk(b"hello") + LAST_CHUNK) == (b"hello", True, b"")


def test_an_empty_payload_does_not_end_the_body() -> None:
    assert encode_chunk(b"") == b""
