"""Heads by the strict grammar: what passes, what is refused and why, and how many bytes are looked at for it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from egress_policy.reasons import ErrorType, Reason
from egressd.http_head import NEED_MORE, BadHead, HeadReader, NeedMore, ReplyHead, ReplyReader, RequestHead
from egressd.limits import HEAD_MAX_BYTES, HEAD_MAX_FIELDS
from support.http_heads import feed_in_pieces

if TYPE_CHECKING:
    from support.http_heads import Reader

GET = b"GET http://docs.python.org/3/ HTTP/1.1\r\n"
CONNECT = b"CONNECT docs.python.org:443 HTTP/1.1\r\nHost: docs.python.org:443\r\nUser-Agent: curl/8.5.0\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\n"


def request(data: bytes) -> RequestHead:
    head = HeadReader().feed(data)
    assert isinstance(head, RequestHead)
    return head


def reply(data: bytes) -> ReplyHead:
    head = ReplyReader().feed(data)
    assert isinstance(head, ReplyHead)
    return head


def refused(data: bytes) -> Reason:
    """The reason of a request's head that must be bad, whole and byte by byte."""
    whole = HeadReader().feed(data)
    assert isinstance(whole, BadHead)
    pieces, _ = feed_in_pieces(HeadReader(), data, [1] * len(data))
    assert pieces == whole
    return whole.reason


def test_a_connect_head_is_read_as_it_is() -> None:
    assert request(CONNECT) == RequestHead(
        "CONNECT",
        b"docs.python.org:443",
        1,
        ((b"host", b"docs.python.org:443"), (b"user-agent", b"curl/8.5.0")),
    )


def test_names_are_in_lower_case_and_values_bare_of_white_space_around_them() -> None:
    head = request(GET + b"X-Request-ID:\t a\t b \t\r\nEmpty:\r\nBlank: \t \r\nUTF: \xc3\xa9\xff\r\n\r\n")

    assert head.fields == (
        (b"x-request-id", b"a\t b"),
        (b"empty", b""),
        (b"blank", b""),
        (b"utf", b"\xc3\xa9\xff"),
    )


def test_all_values_of_a_name_are_given_in_their_order() -> None:
    head = request(GET + b"Via: 1.1 a\r\nHost: h\r\nvIA: 1.1 b\r\n\r\n")

    assert head.get_all(b"via") == [b"1.1 a", b"1.1 b"]
    assert head.get_all(b"accept") == []
    assert reply(OK + b"Set-Cookie: a\r\nSET-COOKIE: b\r\n\r\n").get_all(b"set-cookie") == [b"a", b"b"]


@pytest.mark.parametrize(("line", "minor"), [(b"HTTP/1.0", 0), (b"HTTP/1.1", 1)])
def test_both_versions_of_http_1_are_spoken(line: bytes, minor: int) -> None:
    assert request(b"GET http://a/ " + line + b"\r\n\r\n").minor == minor


@pytest.mark.parametrize("method", ["get", "GET", "PROPFIND", "M-SEARCH", "!#$%&'*+-.^_`|~09Az"])
def test_a_method_is_any_token_and_keeps_its_case(method: str) -> None:
    assert request(f"{method} http://a/ HTTP/1.1\r\n\r\n".encode()).method == method


def test_one_empty_line_before_a_request_is_skipped() -> None:
    assert request(b"\r\n" + CONNECT) == request(CONNECT)


@pytest.mark.case("E11", "D18", "D16")
@pytest.mark.parametrize(
    "line",
    [
        b"CONNECT  host:443 HTTP/1.1",
        b"CONNECT host:443  HTTP/1.1",
        b"CONNECT\thost:443\tHTTP/1.1",
        b" CONNECT host:443 HTTP/1.1",
        b"CONNECT host:443 HTTP/1.1 ",
        b"CONNECT host:443",
        b"GET /",
        b"CONNECT host:443 http/1.1",
        b"CONNECT host:443 HTTP/1.1x",
        b"CONNECT host:443 HTTP/11",
        b"CONNECT host:443 HTTP/1.10",
        b"CONNECT host:443 HTTP/x.y",
        b"CONNECT host:443 HTTPS/1.1",
        b"CONNECT host:443 ICE/1.0",
        b"CONN\xc3\x89CT host:443 HTTP/1.1",
        b"GE(T http://a/ HTTP/1.1",
        b"GET http://exa\tmple.com/ HTTP/1.1",
        b"GET http://exa\x00mple.com/ HTTP/1.1",
        b"GET http://exa\x7fmple.com/ HTTP/1.1",
        b"GET http://b\xc3\xbccher.example/ HTTP/1.1",
        b"GET http://exa\rmple.com/ HTTP/1.1",
        b"GET http://exa\nmple.com/ HTTP/1.1",
        b"GET http://a/a b HTTP/1.1",
        b"\r\nGET http://a/ HTTP/1.1",
        b"\nGET http://a/ HTTP/1.1",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"SSH-2.0-OpenSSH_9.6",
    ],
)
def test_a_first_line_outside_the_grammar_is_malformed(line: bytes) -> None:
    prefix = b"\r\n" if line.startswith(b"\r\n") else b""

    assert refused(prefix + line + b"\r\nHost: host:443\r\n\r\n") is Reason.MALFORMED_REQUEST_LINE


@pytest.mark.case("E11")
@pytest.mark.parametrize(
    "data",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT host:443 HTTP/2\r\nHost: host:443\r\n\r\n",
        b"CONNECT host:443 HTTP/0.9\r\n\r\n",
        b"CONNECT host:443 HTTP/1.2\r\n\r\n",
        b"CONNECT host:443 HTTP/3.0\r\n\r\n",
    ],
)
def test_another_version_is_told_as_that(data: bytes) -> None:
    assert refused(data) is Reason.UNSUPPORTED_VERSION


@pytest.mark.case("F5", "F6", "D1")
@pytest.mark.parametrize(
    "field",
    [
        b"Content-Length : 100",
        b"Content-Length\t: 100",
        b" Content-Length: 100",
        b"X: a\r\n b",
        b"X: a\r\n\tb",
        b"X: a\r\n \r\nY: b",
        b": a",
        b"no colon",
        b"na me: a",
        b"na\x00me: a",
        b"n\xc3\xa4me: a",
        b"X: a\x00b",
        b"X: a\x0bb",
        b"X: a\x7fb",
        b"X: a\x1bb",
        b"X: a\nY: b",
        b"X: a\rY: b",
        b"X: a\r\r\nY: b",
        b"X: a\n\nY: b",
        b"X: a\r\n\rY: b",
        b"X: a\r\n\nY: b",
        b"\x00",
    ],
)
def test_a_field_line_outside_the_grammar_is_malformed(field: bytes) -> None:
    for head in (GET + field, GET + b"Host: a\r\n" + field, GET + b"A: \r\n" + field + b"\r\nHost: a"):
        assert refused(head + b"\r\n\r\n") is Reason.MALFORMED_HEADER


def test_a_continued_line_is_told_apart_for_people() -> None:
    folded = HeadReader().feed(GET + b"X: a\r\n b\r\n\r\n")
    odd = HeadReader().feed(GET + b"X : a\r\n\r\n")

    assert isinstance(folded, BadHead)
    assert isinstance(odd, BadHead)
    assert folded.detail != odd.detail


def test_what_is_no_text_is_refused_before_the_head_ends() -> None:
    """A client that speaks TLS or bare LF here would otherwise wait for its answer until the head's time is up."""
    for data in (b"\x16\x03\x01\x02\x00", b"GET http://a/ HTTP/1.1\nHost: a\n\n", GET + b"X: a\rb", GET + b"\r\x00"):
        assert isinstance(HeadReader().feed(data), BadHead), data


def test_a_head_that_has_not_ended_needs_more() -> None:
    for end in range(1, len(CONNECT)):
        assert HeadReader().feed(CONNECT[:end]) is NEED_MORE
    assert NEED_MORE is NeedMore.NEED_MORE


@pytest.mark.case("E2")
def test_what_follows_the_head_is_kept() -> None:
    hello = b"\x16\x03\x01\x02\x00\r\n\r\n"
    for cut in range(1, len(CONNECT + hello)):
        reader = HeadReader()
        first = reader.feed((CONNECT + hello)[:cut])
        if first is NEED_MORE:
            assert reader.feed((CONNECT + hello)[cut:]) == request(CONNECT)
            assert reader.rest == hello
        else:
            assert reader.rest == hello[: cut - len(CONNECT)]


def test_a_request_behind_another_one_is_left_alone() -> None:
    reader = HeadReader()

    assert reader.feed(CONNECT + GET + b"\r\n") == request(CONNECT)
    assert reader.rest == GET + b"\r\n"
    assert reader.examined <= len(CONNECT) + 4


def test_nothing_is_kept_of_a_bad_head() -> None:
    reader = HeadReader()
    reader.feed(b"GET  http://a/ HTTP/1.1\r\n\r\nGET http://b/ HTTP/1.1\r\n\r\n")

    assert reader.rest == b""


def padded(size: int) -> bytes:
    """A head of exactly so many bytes."""
    return GET + b"X: " + b"a" * (size - len(GET) - 7) + b"\r\n\r\n"


@pytest.mark.case("F21")
@pytest.mark.parametrize("pieces", [[70_000], [1, 70_000], [65_535, 1], [65_536, 1], [30_000, 30_000, 30_000]])
def test_a_head_may_have_64_kib_and_not_a_byte_more(pieces: list[int]) -> None:
    assert isinstance(feed_in_pieces(HeadReader(), padded(HEAD_MAX_BYTES), pieces)[0], RequestHead)
    for data in (padded(HEAD_MAX_BYTES + 1), padded(HEAD_MAX_BYTES + 1000), padded(HEAD_MAX_BYTES)[:-4] + b"aaaa"):
        answer, _ = feed_in_pieces(HeadReader(), data, pieces)
        assert isinstance(answer, BadHead)
        assert answer.reason is Reason.HEAD_TOO_LARGE


@pytest.mark.case("F21")
def test_a_line_of_a_mebibyte_is_refused_at_the_bound() -> None:
    reader = HeadReader()
    answer, fed = feed_in_pieces(reader, GET + b"X: " + b" " * 1_048_576, itertools.repeat(4096))

    assert isinstance(answer, BadHead)
    assert answer.reason is Reason.HEAD_TOO_LARGE
    assert fed <= HEAD_MAX_BYTES + 4096
    assert reader.examined <= HEAD_MAX_BYTES


@pytest.mark.case("F21")
def test_a_head_may_have_256_fields_and_not_one_more() -> None:
    most = GET + b"X: a\r\n" * HEAD_MAX_FIELDS

    assert len(request(most + b"\r\n").fields) == HEAD_MAX_FIELDS
    assert refused(most + b"X: a\r\n\r\n") is Reason.HEAD_TOO_LARGE


def test_limits_can_be_set() -> None:
    assert isinstance(HeadReader(max_bytes=len(CONNECT)).feed(CONNECT), RequestHead)
    assert isinstance(HeadReader(max_bytes=len(CONNECT) - 1).feed(CONNECT), BadHead)
    assert isinstance(HeadReader(max_fields=2).feed(CONNECT), RequestHead)
    assert isinstance(HeadReader(max_fields=1).feed(CONNECT), BadHead)


@pytest.mark.parametrize("data", [CONNECT, GET + b"\r\n"])
def test_a_head_that_arrives_whole_is_looked_at_once(data: bytes) -> None:
    reader = HeadReader()
    reader.feed(data)

    assert reader.examined <= len(data) + 2


@pytest.mark.parametrize(
    "data",
    [
        CONNECT,
        GET + b"X:" + b" " * 60_000 + b"a\r\n\r\n",
        GET + b"X:" + b" \t" * 30_000 + b"\r\n\r\n",
        GET + b"X: " + b"a " * 30_000 + b"\r\n\r\n",
        GET + b"a:\r\n" * 250 + b"\r\n",
        GET + b"a:\r\n" * 16_000 + b"\r\n",
        GET + b"\r\n",
        b"G\r\n\r\n",
        b"\r\n\r\n",
        GET + b"X: a\r\n b\r\n\r\n",
        GET + b"X" * 60_000 + b"\r\n\r\n",
        b"X" * 65_000 + b"\r\n\r\n",
        b"GET " + b"/" * 65_000 + b"\r\n\r\n",
        GET + b"X: a\r\n\x00",
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 64, 1460, 65_535])
def test_no_byte_is_looked_at_more_than_twice_in_any_split(data: bytes, size: int) -> None:
    for reader in (HeadReader(), ReplyReader()):
        _, fed = feed_in_pieces(reader, data, itertools.repeat(size))

        assert reader.examined <= 2 * fed


# Replies


def test_a_reply_head_is_read_as_it_is() -> None:
    assert reply(OK + b"Content-Length: 3\r\n\r\nabc") == ReplyHead(200, 1, b"OK", ((b"content-length", b"3"),))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"HTTP/1.1 200", (200, 1, b"")),
        (b"HTTP/1.1 200 ", (200, 1, b"")),
        (b"HTTP/1.0 404 Not\tthere \xe9", (404, 0, b"Not\tthere \xe9")),
        (b"HTTP/1.1 100 Continue", (100, 1, b"Continue")),
        (b"HTTP/1.1 599 x", (599, 1, b"x")),
    ],
)
def test_status_lines_pass_with_and_without_a_phrase(line: bytes, expected: tuple[int, int, bytes]) -> None:
    assert reply(line + b"\r\n\r\n")[:3] == expected


@pytest.mark.case("F14")
def test_an_interim_reply_is_a_head_and_the_final_one_follows_in_rest() -> None:
    reader = ReplyReader()
    interim = reader.feed(b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"\r\n")

    assert isinstance(interim, ReplyHead)
    assert interim.status == 100
    assert reply(reader.rest).status == 200


@pytest.mark.parametrize(
    "line",
    [
        b"HTTP/2 200",
        b"HTTP/2.0 200 OK",
        b"HTTP/0.9 200 OK",
        b"HTTP/1.1 20 OK",
        b"HTTP/1.1 2000 OK",
        b"HTTP/1.1 099 x",
        b"HTTP/1.1 600 x",
        b"HTTP/1.1  200 OK",
        b"HTTP/1.1 200OK",
        b"HTTP/1.1 +20 OK",
        b"HTTP/1.1 \xd9\xa2\xd9\xa0\xd9\xa0 OK",
        b"http/1.1 200 OK",
        b"ICY 200 OK",
        b"\r\nHTTP/1.1 200 OK",
        b"HTTP/1.1 200 O\x00K",
        b"HTTP/1.1 200 OK\rX",
        b"HTTP/1.1 200 OK\nX: a",
        b"<html>",
    ],
)
def test_a_status_line_outside_the_grammar_is_a_fault_of_the_origin(line: bytes) -> None:
    answer = ReplyReader().feed(line + b"\r\n\r\n")

    assert isinstance(answer, BadHead)
    assert (answer.reason, answer.error) == (Reason.UPSTREAM_FAILED, ErrorType.HTTP_PROTOCOL_ERROR)


@pytest.mark.case("F6", "F5")
@pytest.mark.parametrize(
    "field", [b"X: a\r\n b", b"Content-Length : 3", b"X: a\nY: b", b"X", b"X: \x00", b"Proxy Status: a"]
)
def test_a_field_line_of_an_origin_is_held_to_the_same_grammar(field: bytes) -> None:
    answer = ReplyReader().feed(OK + field + b"\r\n\r\n")

    assert isinstance(answer, BadHead)
    assert (answer.reason, answer.error) == (Reason.UPSTREAM_FAILED, ErrorType.HTTP_PROTOCOL_ERROR)


@pytest.mark.case("F21")
@pytest.mark.parametrize("data", [OK + b"X: " + b"a" * 70_000, OK + b"X: a\r\n" * 257 + b"\r\n"])
def test_a_reply_head_has_the_same_bounds_and_its_own_error_type(data: bytes) -> None:
    answer = ReplyReader().feed(data)

    assert isinstance(answer, BadHead)
    assert (answer.reason, answer.error) == (Reason.UPSTREAM_FAILED, ErrorType.HTTP_RESPONSE_HEADER_SECTION_SIZE)


@pytest.mark.parametrize("make", [HeadReader, ReplyReader])
def test_readers_are_fresh_each_time(make: type[Reader]) -> None:
    assert make().examined == 0
    assert make().rest == b""
