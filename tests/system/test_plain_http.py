"""Plain HTTP through a real egressd: the head is built anew, bodies stay whole, each request is judged by itself."""

from __future__ import annotations

import socket

import pytest

from support.lab_daemon import wait_until
from support.lab_origin import Talk, Visit, pages
from support.lab_wire import get_request, parse_reply, read_all, read_head
from support.lab_world import LOOPBACK_SITE, World

PAGE = b"<!doctype html><title>A page</title><p>Hello.\n"


def site() -> Talk:
    return pages({"/": PAGE, "/other": b"other\n"})


def once(answer: bytes) -> Talk:
    """An origin that says exactly these bytes to every request, then closes."""

    def talk(visit: Visit) -> None:
        visit.read_request()
        visit.write(answer)

    return talk


def exactly(client: socket.socket, count: int) -> bytes:
    got = b""
    while len(got) < count:
        part = client.recv(count - len(got))
        assert part, got
        got += part
    return got


def test_a_get_reaches_the_origin_in_origin_form_with_a_head_built_anew(loopback: World) -> None:
    with loopback.origin(site()) as origin:
        authority = f"{loopback.echo_name}:{origin.port}"
        reply = loopback.daemon.ask(
            get_request(
                f"http://{authority}/other",
                "Proxy-Authorization: Basic c2VjcmV0",
                "Proxy-Connection: keep-alive",
                "Oz0-Egress-Public-Only: 0",
                "X-Forwarded-For: 10.0.0.1",
                "Forwarded: for=10.0.0.1",
                "X-Kept: yes",
                "TE: trailers",
                "Keep-Alive: 5",
                "Connection: X-Nominated",
                "X-Nominated: no",
            )
        )
        assert (reply.status, reply.body, reply.reason) == (200, b"other\n", None)
        (request,) = origin.requests
    assert request.line == "GET /other HTTP/1.1"
    assert request.get("host") == [authority]
    assert request.get("x-kept") == ["yes"]
    assert any("egressd" in value for value in request.get("via"))
    gone = {"proxy-authorization", "proxy-connection", "oz0-egress-public-only", "x-forwarded-for", "forwarded", "te"}
    assert not (gone | {"keep-alive", "x-nominated"}) & {name.lower() for name, _ in request.fields}


@pytest.mark.parametrize("size", [0, 1, 70_000, 1_500_000])
def test_a_body_with_its_length_arrives_whole(loopback: World, size: int) -> None:
    body = bytes(i * 7 % 251 for i in range(size))
    with loopback.origin(site()) as origin:
        url = f"http://{loopback.echo_name}:{origin.port}/"
        with loopback.daemon.connect() as client:
            client.sendall(get_request(url, f"Content-Length: {size}", method="POST") + body)
            reply = parse_reply(read_all(client))
    assert (reply.status, reply.body == body) == (200, True)


@pytest.mark.case("F8")
def test_a_chunked_body_arrives_whole_without_its_extensions_and_trailers(loopback: World) -> None:
    pieces = [b"5;name=value\r\nhello\r\n", b"1\r\n,\r", b"\n00000006\r\n world\r\n", b"0\r\nX-Trailer: 1\r\n\r\n"]
    with loopback.origin(site()) as origin:
        url = f"http://{loopback.echo_name}:{origin.port}/"
        reply = loopback.daemon.ask([get_request(url, "Transfer-Encoding: chunked", method="POST"), *pieces])
    assert (reply.status, reply.body) == (200, b"hello, world")


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\nbody\r\n0\r\nT: 1\r\n\r\n",
            b"4\r\nbody\r\n0\r\n\r\n",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody", b"body"),
        (b"HTTP/1.0 200 OK\r\n\r\nbody to the end", b"body to the end"),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nbody to the end", b"body to the end"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n", b""),
        (b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", None),
    ],
    ids=["chunked", "length", "http-1.0", "close", "204", "304", "1xx"],
)  # fmt: skip
@pytest.mark.case("F17")
def test_every_way_to_end_a_reply_comes_through(loopback: World, answer: bytes, wanted: bytes | None) -> None:
    with loopback.origin(once(answer)) as origin, loopback.daemon.connect() as client:
        client.sendall(get_request(f"http://{loopback.echo_name}:{origin.port}/"))
        raw = read_all(client)
    if wanted is None:
        assert raw.endswith(b"\r\n\r\nok")
        return
    reply = parse_reply(raw)
    assert reply.line.split(" ", 1)[1] == answer.split(b"\r\n")[0].decode().split(" ", 1)[1]
    if reply.get("transfer-encoding"):
        assert reply.body.endswith(b"0\r\n\r\n")
        wanted = wanted if b"\r\n" in wanted else b"%x\r\n%s\r\n0\r\n\r\n" % (len(wanted), wanted)
    assert reply.body == wanted


@pytest.mark.case("F18")
def test_an_event_arrives_before_the_reply_has_ended(loopback: World) -> None:
    def events(visit: Visit) -> None:
        visit.read_request()
        visit.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: first\n\n")
        visit.wait_for_end()

    with loopback.origin(events) as origin, loopback.daemon.connect() as client:
        client.sendall(get_request(f"http://{loopback.echo_name}:{origin.port}/"))
        seen = b""
        while b"data: first\n\n" not in seen:
            seen += client.recv(1000)


def test_connections_are_kept_on_both_sides(loopback: World) -> None:
    with loopback.origin(site()) as origin:
        url = f"http://{loopback.echo_name}:{origin.port}/"
        for _ in range(3):
            with loopback.daemon.connect() as client:
                for _ in range(3):
                    client.sendall(get_request(url, close=False))
                    reply, rest = read_head(client)
                    assert reply.status == 200
                    assert rest + exactly(client, len(PAGE) - len(rest)) == PAGE
        assert (origin.accepted, len(origin.requests)) == (1, 9)


@pytest.mark.case("F23")
def test_an_upstream_connection_that_ended_while_kept_is_not_used(loopback: World) -> None:
    def one_reply(visit: Visit) -> None:
        request = visit.read_request()
        assert request is not None
        visit.answer(request.body)

    with loopback.origin(one_reply) as origin:
        url = f"http://{loopback.echo_name}:{origin.port}/"
        for number in range(5):
            body = b"number %d" % number
            reply = loopback.daemon.ask(get_request(url, f"Content-Length: {len(body)}", method="POST") + body)
            assert (reply.status, reply.body) == (200, body)
            wait_until(origin.is_quiet, "the origin to have closed the connection that the proxy keeps")


@pytest.mark.case("F2", "F3")
def test_each_request_of_a_kept_connection_is_judged_by_itself(loopback: World) -> None:
    with loopback.origin(site()) as origin, loopback.daemon.connect() as client:
        client.sendall(get_request(f"http://{loopback.echo_name}:{origin.port}/", close=False))
        reply, rest = read_head(client)
        assert (reply.status, rest + exactly(client, len(PAGE) - len(rest))) == (200, PAGE)
        before = loopback.sent()
        client.sendall(get_request(f"http://other.example:{origin.port}/"))
        refused = parse_reply(read_all(client))
        assert (refused.status, refused.reason) == (403, "not-on-allowlist")
        assert loopback.sent() == before


def test_a_request_sent_while_the_first_is_looked_up_waits_and_is_judged_by_itself(loopback: World) -> None:
    name = loopback.name_with(LOOPBACK_SITE)
    with loopback.origin(site()) as origin, loopback.open_daemon.connect() as client:
        loopback.dns.hold(name)
        client.sendall(get_request(f"http://{name}:{origin.port}/other", close=False))
        loopback.dns.wait_until(lambda: loopback.dns.count(name) == 2)
        client.sendall(get_request(f"http://127.0.0.1:{origin.port}/"))
        loopback.dns.release()
        raw = read_all(client)
        assert [request.path for request in origin.requests] == ["/other"]
    first = parse_reply(raw)
    assert (first.status, first.body[:6]) == (200, b"other\n")
    second = parse_reply(first.body[6:])
    assert (second.status, second.reason) == (403, "forbidden-address")


def test_a_refused_plain_request_says_what_to_change(loopback: World) -> None:
    reply = loopback.daemon.ask(get_request("http://other.example/x?y=secret"))
    text = reply.body.decode()
    assert reply.status == 403
    assert "egressctl tenant default allow other.example" in text
    assert "secret" not in text + str(reply.fields)


def test_head_has_the_length_and_no_body(loopback: World) -> None:
    with loopback.origin(site()) as origin:
        reply = loopback.daemon.ask(get_request(f"http://{loopback.echo_name}:{origin.port}/", method="HEAD"))
    assert (reply.status, reply.get("content-length"), reply.body) == (200, [str(len(PAGE))], b"")


def test_no_origin_can_forge_a_refusal(loopback: World) -> None:
    forged = (
        b"HTTP/1.1 403 Refused by egress policy (not-on-allowlist)\r\nContent-Length: 0\r\n"
        b"Proxy-Status: egressd; error=http_request_denied; reason=not-on-allowlist\r\nOz0-Egress-X: 1\r\n"
        b"Proxy-Authenticate: Basic\r\n\r\n"
    )
    with loopback.origin(once(forged)) as origin:
        reply = loopback.daemon.ask(get_request(f"http://{loopback.echo_name}:{origin.port}/"))
    assert (reply.status, reply.reason) == (403, None)
    assert not {"proxy-status", "oz0-egress-x", "proxy-authenticate"} & {name for name, _ in reply.fields}


def test_a_407_of_an_origin_becomes_a_502_of_the_proxy(loopback: World) -> None:
    with loopback.origin(once(b"HTTP/1.1 407 Pay\r\nContent-Length: 0\r\nProxy-Authenticate: Basic\r\n\r\n")) as origin:
        reply = loopback.daemon.ask(get_request(f"http://{loopback.echo_name}:{origin.port}/"))
    assert (reply.status, reply.reason) == (502, "upstream-failed")


@pytest.mark.case("F4", "F5", "F6", "F8", "F9")
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (("Content-Length: 5", "Transfer-Encoding: chunked"), "ambiguous-framing"),
        (("Transfer-Encoding: Chunked", "Content-Length: 5"), "ambiguous-framing"),
        (("Transfer-Encoding: chunked, gzip",), "ambiguous-framing"),
        (("Transfer-Encoding: chunked,", "Content-Length: 5"), "ambiguous-framing"),
        (("Transfer-Encoding: identity",), "ambiguous-framing"),
        (("Content-Length: 5", "Content-Length: 6"), "ambiguous-framing"),
        (("Content-Length: 5, 5",), "ambiguous-framing"),
        (("Content-Length: +5",), "ambiguous-framing"),
        (("Content-Length: 0x5",), "ambiguous-framing"),
        (("Content-Length: 1_0",), "ambiguous-framing"),
        (("Content-Length : 5",), "malformed-header"),
        (("X-Folded: a\r\n b",), "malformed-header"),
        (("X-Bare: a\nb",), "malformed-header"),
        (("X-Nul: a\x00b",), "malformed-header"),
    ],
)
def test_ambiguous_framing_is_refused_and_reaches_no_origin(
    loopback: World, fields: tuple[str, ...], reason: str
) -> None:
    with loopback.origin(site()) as origin:
        url = f"http://{loopback.echo_name}:{origin.port}/"
        reply = loopback.daemon.ask(get_request(url, *fields, method="POST") + b"hello")
        assert (reply.status, reply.reason, reply.get("connection")) == (400, reason, ["close"])
        assert origin.accepted == 0


@pytest.mark.case("F9")
@pytest.mark.parametrize("size", [b"0x1", b"-1", b"0_0", b" 5", b"10000000000000000", b"5;\n", b""])
def test_a_bad_chunk_never_becomes_a_whole_request_at_the_origin(loopback: World, size: bytes) -> None:
    with loopback.origin(site()) as origin:
        url = f"http://{loopback.echo_name}:{origin.port}/"
        request = get_request(url, "Transfer-Encoding: chunked", method="POST") + size + b"\r\nhello\r\n0\r\n\r\n"
        with loopback.daemon.connect() as client:
            client.sendall(request)
            raw = read_all(client)
        assert not raw or parse_reply(raw).status in {400, 502}
        assert not origin.requests


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nbody",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"",
    ],
)
def test_a_reply_that_is_no_sound_http_is_an_upstream_failure(loopback: World, answer: bytes) -> None:
    with loopback.origin(once(answer)) as origin:
        reply = loopback.daemon.ask(get_request(f"http://{loopback.echo_name}:{origin.port}/"))
    assert (reply.status, reply.reason) == (502, "upstream-failed")


@pytest.mark.case("F14")
def test_expect_continue_is_answered_and_the_body_arrives(loopback: World) -> None:
    def talk(visit: Visit) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += visit.stream.recv(1000)
        if b"expect" in head.lower():
            visit.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = head.partition(b"\r\n\r\n")[2]
        while len(body) < 5:
            body += visit.stream.recv(1000)
        visit.answer(body)

    with loopback.origin(talk) as origin, loopback.daemon.connect() as client:
        url = f"http://{loopback.echo_name}:{origin.port}/"
        client.sendall(get_request(url, "Content-Length: 5", "Expect: 100-continue", method="POST"))
        reply, rest = read_head(client)
        assert (reply.status, rest) == (100, b"")
        client.sendall(b"hello")
        final = parse_reply(read_all(client))
        assert (final.status, final.body) == (200, b"hello")


@pytest.mark.case("F24")
def test_a_request_that_has_passed_here_before_is_a_loop(loopback: World) -> None:
    with loopback.origin(site()) as origin:
        url = f"http://{loopback.echo_name}:{origin.port}/"
        reply = loopback.daemon.ask(get_request(url, "Via: 1.1 somewhere, 1.1 egressd"))
        assert (reply.status, reply.reason, reply.error) == (502, "loop-detected", "proxy_loop_detected")
        assert origin.accepted == 0


def test_trace_is_refused(loopback: World) -> None:
    with loopback.origin(site()) as origin:
        reply = loopback.daemon.ask(get_request(f"http://{loopback.echo_name}:{origin.port}/", method="TRACE"))
        assert (reply.status, reply.reason) == (403, "method-not-allowed")
        assert origin.accepted == 0
