"""What becomes of a reply's head: what passes, what is refused, and which of the two connections goes on."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from egress_policy.reasons import ErrorType, Reason, Refusal, Stage
from egressd.framing import Chunked, Length, NoBody, UntilClose
from egressd.http_head import ReplyHead, ReplyReader
from egressd.replies import ReplyPlan, plan_reply
from support.grants import target

if TYPE_CHECKING:
    from egressd.framing import Framing

ORIGIN = target("plain.test:80")
OK = "HTTP/1.1 200 OK"
OLD = "HTTP/1.0 200 OK"
LENGTH = "Content-Length: 5"
CHUNKED = "Transfer-Encoding: chunked"


def head(*lines: str) -> ReplyHead:
    parsed = ReplyReader().feed("\r\n".join([*lines, "", ""]).encode())
    assert isinstance(parsed, ReplyHead), parsed
    return parsed


def plan(*lines: str, method: str = "GET", minor: int = 1, keep: bool = True) -> ReplyPlan | Refusal:
    return plan_reply(head(*lines), ORIGIN, method=method, client_minor=minor, keep=keep)


def planned(*lines: str, method: str = "GET", minor: int = 1, keep: bool = True) -> ReplyPlan:
    made = plan(*lines, method=method, minor=minor, keep=keep)
    assert isinstance(made, ReplyPlan), made
    return made


@pytest.mark.parametrize(
    ("lines", "method", "minor", "body", "keeps_client", "keeps_origin"),
    [
        ([OK, LENGTH], "GET", 1, Length(5), True, True),
        ([OK, "Content-Length: 0"], "GET", 1, Length(0), True, True),
        ([OK, CHUNKED], "GET", 1, Chunked(), True, True),
        ([OK, CHUNKED], "GET", 0, Chunked(), False, True),
        ([OK], "GET", 1, UntilClose(), False, False),
        ([OK, "Connection: keep-alive"], "GET", 1, UntilClose(), False, False),
        ([OK, LENGTH, "Connection: close"], "GET", 1, Length(5), True, False),
        ([OLD, LENGTH], "GET", 1, Length(5), True, False),
        ([OLD, LENGTH, "Connection: keep-alive"], "GET", 1, Length(5), True, True),
        ([OK, LENGTH], "HEAD", 1, NoBody(), True, True),
        ([OK, CHUNKED], "HEAD", 1, NoBody(), True, True),
        ([OK], "HEAD", 1, NoBody(), True, True),
        (["HTTP/1.1 204 No Content"], "GET", 1, NoBody(), True, True),
        (["HTTP/1.1 204 No Content", LENGTH], "GET", 1, NoBody(), True, False),
        (["HTTP/1.1 204 No Content", "Content-Length: 0"], "GET", 1, NoBody(), True, True),
        (["HTTP/1.1 304 Not Modified", LENGTH], "GET", 1, NoBody(), True, True),
        (["HTTP/1.1 404 Not Found", LENGTH], "GET", 1, Length(5), True, True),
    ],
)
def test_a_reply_says_which_connections_go_on(
    lines: list[str], method: str, minor: int, body: Framing, keeps_client: bool, keeps_origin: bool
) -> None:
    made = planned(*lines, method=method, minor=minor)

    assert (made.body, made.keeps_client, made.keeps_origin) == (body, keeps_client, keeps_origin)


@pytest.mark.parametrize("lines", [[OK, LENGTH], [OK, CHUNKED], [OK], ["HTTP/1.1 204 No Content"]])
def test_a_client_that_is_not_to_go_on_never_does_and_is_told(lines: list[str]) -> None:
    made = planned(*lines, keep=False)

    assert not made.keeps_client
    assert b"\r\nConnection: close\r\n" in made.head


@pytest.mark.parametrize(
    ("lines", "minor", "closes"),
    [
        ([OK, LENGTH], 1, False),
        ([OK, LENGTH, "Connection: close"], 1, False),
        ([OK, CHUNKED], 1, False),
        ([OK], 1, True),
        ([OK, CHUNKED], 0, True),
        ([OK, LENGTH], 0, True),
    ],
)
def test_the_head_says_close_exactly_where_the_client_is_to_expect_it(
    lines: list[str], minor: int, closes: bool
) -> None:
    assert (b"\r\nConnection: close\r\n" in planned(*lines, minor=minor).head) is closes


def test_the_head_for_the_client_is_whole_and_holds_nothing_of_the_hop() -> None:
    made = planned(
        OK,
        LENGTH,
        "Content-Type: text/plain",
        "Proxy-Status: forged; reason=not-on-allowlist",
        "Oz0-Egress-Public-Only: 0",
        "Keep-Alive: timeout=5",
        "Connection: X-Hop",
        "X-Hop: 1",
    )

    lines = made.head.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 200 OK"
    assert lines[-2:] == [b"", b""]
    assert sorted(line.split(b":")[0].lower() for line in lines[1:-2]) == [b"content-length", b"content-type", b"via"]


def test_a_chunked_reply_to_a_client_of_http_1_0_has_no_transfer_encoding() -> None:
    assert b"ransfer-" not in planned(OK, CHUNKED, minor=0).head
    assert b"\r\nTransfer-Encoding: chunked\r\n" in planned(OK, CHUNKED, minor=1).head


@pytest.mark.case("F4", "F5")
@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ([OK, LENGTH, CHUNKED], ErrorType.HTTP_PROTOCOL_ERROR),
        ([OK, LENGTH, "Content-Length: 6"], ErrorType.HTTP_PROTOCOL_ERROR),
        ([OK, LENGTH, LENGTH], ErrorType.HTTP_PROTOCOL_ERROR),
        ([OK, "Content-Length: +5"], ErrorType.HTTP_PROTOCOL_ERROR),
        ([OLD, CHUNKED], ErrorType.HTTP_PROTOCOL_ERROR),
        ([OK, "Transfer-Encoding: gzip, chunked"], ErrorType.HTTP_RESPONSE_TRANSFER_CODING),
        (["HTTP/1.1 407 Proxy Authentication Required", LENGTH], ErrorType.HTTP_PROTOCOL_ERROR),
    ],
)
def test_a_reply_that_plays_the_proxy_or_has_two_readings_is_refused(lines: list[str], error: ErrorType) -> None:
    made = plan(*lines)

    assert made == Refusal(Reason.UPSTREAM_FAILED, Stage.UPSTREAM, ORIGIN, error=error)
    assert made.status == 502


def test_a_reply_read_from_a_real_socket_is_planned_whole() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"HTTP/1.1 200 Fine by me\r\nContent-Length: 2\r\n\r\nok")
        reader = ReplyReader()
        read = reader.feed(ours.recv(1000))

    assert isinstance(read, ReplyHead)
    made = plan_reply(read, ORIGIN, method="GET", client_minor=1, keep=True)
    assert isinstance(made, ReplyPlan)
    assert made.head.startswith(b"HTTP/1.1 200 OK\r\n"), "the phrase is never the origin's"
    assert reader.rest == b"ok"
