"""Heads built anew: what goes on, what ends here, and who may not be impersonated by it."""

from __future__ import annotations

import pytest

from egress_policy.reasons import ErrorType, Reason, Refusal, Stage
from egress_policy.targets import AbsoluteForm, Target, parse_absolute
from egressd.forwarding import (
    asks_websocket,
    ends_by_close,
    forwarded_reply,
    forwarded_request,
    is_last_hop,
    origin_keeps_alive,
    unfit_reply,
    wants_keep_alive,
)
from egressd.framing import Chunked, Framing, Length, NoBody, UntilClose
from egressd.http_head import ReplyHead
from support.http_heads import reply_head, request_head

ENDS_HERE = [
    b"Connection: close",
    b"Connection: keep-alive",
    b"Proxy-Connection: keep-alive",
    b"Proxy-Authorization: Basic am9iOnRva2Vu",
    b"Proxy-Anything: a",
    b"Keep-Alive: timeout=5",
    b"TE: trailers",
    b"Trailer: Digest",
    b"Upgrade: h2c",
    b"HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA",
    b"Oz0-Egress-Public-Only: 1",
    b"Oz0-Egress-Anything: 1",
    b"Transfer_Encoding: chunked",
    b"Content_Length: 5",
]


def absolute(text: bytes) -> AbsoluteForm:
    form = parse_absolute(text)
    assert isinstance(form, AbsoluteForm)
    return form


def asked(
    *fields: bytes,
    method: bytes = b"GET",
    target: bytes = b"http://docs.python.org/3/?q=1",
    version: bytes = b"1.1",
    framing: Framing | None = None,
    websocket: bool = False,
) -> bytes | Refusal:
    """The forwarded head of a request."""
    form = absolute(target)
    head = request_head(*fields, method=method, target=target, version=version)
    return forwarded_request(head, form.target, form.path, framing or NoBody(), websocket=websocket)


def lines(made: bytes | Refusal) -> list[bytes]:
    """The lines of a forwarded head without those that every head has: the first, Host and Via."""
    assert isinstance(made, bytes)
    assert made.endswith(b"\r\n\r\n")
    return [line for line in made[:-4].split(b"\r\n")[1:] if not line.startswith((b"Host: ", b"Via: "))]


def answered(
    *fields: bytes,
    status: int = 200,
    version: bytes = b"1.1",
    framing: Framing | None = None,
    keep_alive: bool = True,
    client_minor: int = 1,
    websocket: bool = False,
) -> bytes:
    """The forwarded head of a reply."""
    head = reply_head(*fields, status=status, version=version)
    return forwarded_reply(
        head, framing or Length(3), keep_alive=keep_alive, client_minor=client_minor, websocket=websocket
    )


# Requests


def test_a_request_goes_on_in_origin_form_to_the_host_of_its_target() -> None:
    assert asked(b"Host: docs.python.org", b"Accept: */*", b"user-agent: curl/8.5.0", b"x-job-note:  a b ") == (
        b"GET /3/?q=1 HTTP/1.1\r\nHost: docs.python.org\r\nAccept: */*\r\nUser-Agent: curl/8.5.0\r\nX-Job-Note: a b\r\n"
        b"Via: 1.1 egressd\r\n\r\n"
    )


@pytest.mark.case("E5")
@pytest.mark.parametrize(
    ("target", "host"),
    [
        (b"http://docs.python.org:80/", b"docs.python.org"),
        (b"http://DOCS.python.ORG./", b"docs.python.org"),
        (b"http://docs.python.org:8080/", b"docs.python.org:8080"),
        (b"http://docs.python.org:180/", b"docs.python.org:180"),
        (b"http://93.184.216.34/", b"93.184.216.34"),
        (b"http://[2606:4700::1]/", b"[2606:4700::1]"),
        (b"http://[2606:4700::1]:8080/", b"[2606:4700::1]:8080"),
    ],
)
def test_host_is_written_from_the_judged_target_and_never_copied(target: bytes, host: bytes) -> None:
    made = asked(b"Host: elsewhere.example", target=target)

    assert isinstance(made, bytes)
    assert made.split(b"\r\n")[1:-2] == [b"Host: " + host, b"Via: 1.1 egressd"]


@pytest.mark.case("F12", "F13")
@pytest.mark.parametrize("field", ENDS_HERE)
def test_fields_of_one_hop_and_of_the_proxy_end_here(field: bytes) -> None:
    assert lines(asked(b"Accept: a", field, b"Cookie: b=c")) == [b"Accept: a", b"Cookie: b=c"]
    assert lines(asked(field.replace(b":", b":\t").swapcase())) == []


@pytest.mark.parametrize(
    "field",
    [b"Forwarded: for=10.0.0.1", b"X-Forwarded-For: 10.0.0.1", b"X-Forwarded-Host: a", b"x-forwarded-proto: http"],
)
def test_what_tells_about_the_client_ends_here(field: bytes) -> None:
    assert lines(asked(field)) == []


def test_repeated_fields_keep_their_order() -> None:
    assert lines(asked(b"X-A: 1", b"Cookie: a", b"X-A: 2")) == [b"X-A: 1", b"Cookie: a", b"X-A: 2"]


@pytest.mark.case("F11")
def test_nominated_fields_end_here_and_framing_fields_do_not() -> None:
    nominations = b"Connection: Connection, close, Authorization, Host, X-Secret, Content-Length, Transfer-Encoding,, x"
    fields = (
        b"Authorization: a",
        b"X-Secret: b",
        b"Accept: c",
        nominations,
        b"Content-Length: 3",
        b"x-secret: d",
        b"X: e",
    )

    made = asked(*fields, framing=Length(3))

    assert lines(made) == [b"Accept: c", b"Content-Length: 3"]
    assert isinstance(made, bytes)
    assert b"\r\nHost: docs.python.org\r\n" in made


@pytest.mark.case("F11")
@pytest.mark.parametrize("value", [b"connection", b"", b",", b"close, close", b"Keep-Alive, Upgrade", b"\xff", b"a b"])
def test_a_nomination_of_nothing_changes_nothing(value: bytes) -> None:
    assert lines(asked(b"Accept: a", b"Connection: " + value)) == [b"Accept: a"]


def test_nominations_of_several_connection_fields_add_up() -> None:
    assert lines(asked(b"Connection: a", b"A: 1", b"B: 2", b"Connection: b", b"C: 3")) == [b"C: 3"]


def test_the_framing_is_written_from_its_one_reading() -> None:
    assert lines(asked(framing=Length(0))) == [b"Content-Length: 0"]
    assert lines(asked(b"Content-Length: 0012", framing=Length(12))) == [b"Content-Length: 12"]
    assert lines(asked(b"Transfer-Encoding: CHUNKED", framing=Chunked())) == [b"Transfer-Encoding: chunked"]
    assert lines(asked(b"Content-Length: 12", b"Transfer-Encoding: chunked")) == []


@pytest.mark.case("F14")
def test_an_expectation_passes_from_a_client_that_knows_it() -> None:
    assert lines(asked(b"Expect: 100-continue")) == [b"Expect: 100-continue"]
    assert lines(asked(b"Expect: 100-continue", version=b"1.0")) == []


def test_a_client_of_http_1_0_is_spoken_for_in_http_1_1() -> None:
    made = asked(version=b"1.0")

    assert isinstance(made, bytes)
    assert made.startswith(b"GET /3/?q=1 HTTP/1.1\r\n")
    assert made.endswith(b"\r\nVia: 1.0 egressd\r\n\r\n")


@pytest.mark.case("F24")
@pytest.mark.parametrize(
    "via",
    [b"1.1 egressd", b"1.0 EGRESSD", b"1.1 a, HTTP/1.1\tegressd (node 7)", b"1.1 egressd,1.1 b", b",, 1.1  egressd"],
)
def test_a_request_that_has_passed_a_node_is_a_loop(via: bytes) -> None:
    for fields in ((b"Via: " + via,), (b"Via: 1.1 a", b"Via: " + via), (b"Connection: via", b"Via: " + via)):
        made = asked(*fields)
        assert isinstance(made, Refusal)
        assert (made.reason, made.stage) == (Reason.LOOP_DETECTED, Stage.PARSE)


@pytest.mark.case("F24")
@pytest.mark.parametrize(
    "via", [b"1.1 other", b"1.1 egressd2", b"1.1 my-egressd", b"egressd", b"", b"1.1", b",", b"1.1 a (egressd)"]
)
def test_another_via_is_dropped_and_ours_takes_its_place(via: bytes) -> None:
    made = asked(b"Via: " + via)

    assert isinstance(made, bytes)
    assert made.count(b"Via: ") == 1
    assert made.endswith(b"\r\nVia: 1.1 egressd\r\n\r\n")


def test_what_goes_on_is_a_loop_where_it_comes_back() -> None:
    made = asked()

    assert isinstance(made, bytes)
    assert isinstance(asked(made[:-4].split(b"\r\n")[-1]), Refusal)


def test_trace_is_refused() -> None:
    made = asked(method=b"TRACE")

    assert isinstance(made, Refusal)
    assert (made.reason, made.stage) == (Reason.METHOD_NOT_ALLOWED, Stage.PARSE)


def test_options_goes_as_far_as_max_forwards_lets_it() -> None:
    assert lines(asked(b"Max-Forwards: 10", b"Accept: a", method=b"OPTIONS")) == [b"Max-Forwards: 9", b"Accept: a"]
    assert lines(asked(b"Max-Forwards: 1", method=b"OPTIONS")) == [b"Max-Forwards: 0"]
    assert isinstance(asked(b"Max-Forwards: 0", method=b"OPTIONS"), Refusal)
    assert lines(asked(b"Max-Forwards: 0", method=b"GET")) == [b"Max-Forwards: 0"]


@pytest.mark.parametrize(
    "fields", [(b"Max-Forwards: -1",), (b"Max-Forwards:",), (b"Max-Forwards: 1",) * 2, (b"Max-Forwards: 1_0",)]
)
def test_an_odd_max_forwards_is_refused_where_it_counts(fields: tuple[bytes, ...]) -> None:
    made = asked(*fields, method=b"OPTIONS")

    assert isinstance(made, Refusal)
    assert made.reason is Reason.MALFORMED_HEADER
    assert not is_last_hop(request_head(*fields, method=b"OPTIONS"))


def test_options_with_no_forwards_left_is_answered_here() -> None:
    assert is_last_hop(request_head(b"Max-Forwards: 0", method=b"OPTIONS"))
    assert not is_last_hop(request_head(b"Max-Forwards: 1", method=b"OPTIONS"))
    assert not is_last_hop(request_head(b"Max-Forwards: 0"))
    assert not is_last_hop(request_head(method=b"OPTIONS"))


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"http://docs.python.org", b"*"),
        (b"http://docs.python.org:8080", b"*"),
        (b"http://docs.python.org/", b"/"),
        (b"http://docs.python.org?q", b"/?q"),
    ],
)
def test_options_without_a_path_asks_the_origin_as_a_whole(target: bytes, path: bytes) -> None:
    made = asked(method=b"OPTIONS", target=target)

    assert isinstance(made, bytes)
    assert made.startswith(b"OPTIONS " + path + b" HTTP/1.1\r\n")


@pytest.mark.case("F13")
def test_a_switch_to_websocket_goes_on_where_it_is_asked_for() -> None:
    fields = (b"Connection: keep-alive, Upgrade", b"Upgrade: WebSocket", b"Sec-WebSocket-Key: dGhlIHNhbXBsZQ==")

    assert asks_websocket(request_head(*fields))
    assert lines(asked(*fields, websocket=True)) == [
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZQ==",
        b"Connection: Upgrade",
        b"Upgrade: websocket",
    ]
    assert lines(asked(*fields)) == [b"Sec-WebSocket-Key: dGhlIHNhbXBsZQ=="]


@pytest.mark.case("F13")
def test_nothing_else_is_a_switch_to_websocket() -> None:
    switch = (b"Connection: Upgrade", b"Upgrade: websocket")

    assert asks_websocket(request_head(*switch))
    assert asks_websocket(request_head(b"Connection: upgrade", b"Upgrade: h2c, websocket"))
    assert not asks_websocket(request_head(*switch, method=b"POST"))
    assert not asks_websocket(request_head(*switch, version=b"1.0"))
    assert not asks_websocket(request_head(b"Upgrade: websocket"))
    assert not asks_websocket(request_head(b"Connection: Upgrade", b"Upgrade: h2c"))
    assert not asks_websocket(request_head(b"Connection: Upgrade", b"Upgrade: websocket2"))


# Replies


def test_a_reply_goes_on_with_the_registered_phrase() -> None:
    assert answered(b"content-type: text/html", b"etag: x", b"x-note: y", b"Content-Length: 3") == (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: x\r\nX-Note: y\r\n"
        b"Content-Length: 3\r\nVia: 1.1 egressd\r\n\r\n"
    )


def test_no_phrase_of_an_origin_is_shown() -> None:
    head = reply_head(status=403, phrase=b"Refused by egress policy (not-on-allowlist)")

    assert forwarded_reply(head, NoBody(), keep_alive=True, client_minor=1).startswith(b"HTTP/1.1 403 Forbidden\r\n")
    assert answered(status=499).startswith(b"HTTP/1.1 499 \r\n")


@pytest.mark.case("F12", "F13")
@pytest.mark.parametrize("field", ENDS_HERE)
def test_fields_of_one_hop_end_here_on_the_way_back_too(field: bytes) -> None:
    assert lines(answered(b"Server: a", field, b"Set-Cookie: b")) == [
        b"Server: a",
        b"Set-Cookie: b",
        b"Content-Length: 3",
    ]


@pytest.mark.parametrize(
    "field",
    [
        b"Proxy-Status: egressd; error=http_request_denied; reason=not-on-allowlist",
        b"proxy-status: egressd",
        b"Proxy-Authenticate: Basic realm=egressd",
        b"Proxy-Authentication-Info: a",
        b"Oz0-Egress-Anything: a",
    ],
)
def test_no_origin_can_forge_a_refusal(field: bytes) -> None:
    assert lines(answered(field, status=403)) == [b"Content-Length: 3"]


@pytest.mark.case("F11")
def test_fields_that_an_origin_nominates_end_here() -> None:
    made = answered(b"Connection: X-A, Content-Length", b"X-A: 1", b"Content-Length: 3", b"X-B: 2")

    assert lines(made) == [b"X-B: 2", b"Content-Length: 3"]


def test_via_of_the_origin_stays_before_ours() -> None:
    made = answered(b"Via: 1.1 varnish", version=b"1.0")

    assert made.endswith(b"\r\nVia: 1.1 varnish\r\nContent-Length: 3\r\nVia: 1.0 egressd\r\n\r\n")


@pytest.mark.case("F17")
@pytest.mark.parametrize(
    ("framing", "client_minor", "expected"),
    [
        (Length(5), 1, [b"Content-Length: 5"]),
        (Length(5), 0, [b"Content-Length: 5", b"Connection: close"]),
        (Chunked(), 1, [b"Transfer-Encoding: chunked"]),
        (Chunked(), 0, [b"Connection: close"]),
        (UntilClose(), 1, [b"Connection: close"]),
        (UntilClose(), 0, [b"Connection: close"]),
        (NoBody(), 1, []),
    ],
)
def test_a_body_is_announced_as_its_client_can_read_it(
    framing: Framing, client_minor: int, expected: list[bytes]
) -> None:
    assert lines(answered(framing=framing, client_minor=client_minor)) == expected
    assert ends_by_close(framing, client_minor=client_minor) == (
        b"Connection: close" in expected and not isinstance(framing, Length)
    )


def test_a_connection_that_ends_is_announced() -> None:
    assert lines(answered(keep_alive=False)) == [b"Content-Length: 3", b"Connection: close"]


@pytest.mark.parametrize(
    ("status", "expected"), [(200, [b"Content-Length: 5"]), (304, [b"Content-Length: 5"]), (204, [])]
)
def test_the_length_that_a_body_would_have_passes_without_a_body(status: int, expected: list[bytes]) -> None:
    assert lines(answered(b"Content-Length: 5", status=status, framing=NoBody())) == expected
    assert lines(answered(b"Transfer-Encoding: chunked", status=status, framing=NoBody())) == []


@pytest.mark.case("F14")
def test_an_interim_reply_has_neither_length_nor_end() -> None:
    made = answered(b"Link: </a>; rel=preload", b"Content-Length: 5", status=103, framing=NoBody(), keep_alive=False)

    assert made == b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\nVia: 1.1 egressd\r\n\r\n"
    assert answered(status=100, framing=NoBody(), client_minor=0) == b""


@pytest.mark.case("F13")
def test_a_switch_that_was_asked_for_is_passed_on_and_no_other() -> None:
    target = absolute(b"http://docs.python.org/").target
    switch = reply_head(b"Connection: upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Accept: a", status=101)

    assert unfit_reply(switch, target, asked_websocket=True) is None
    assert unfit(switch, target) == ErrorType.HTTP_PROTOCOL_ERROR
    for fields in ((b"Upgrade: websocket",), (b"Connection: upgrade",), (b"Connection: upgrade", b"Upgrade: h2c"), ()):
        assert unfit(reply_head(*fields, status=101), target, asked=True) == ErrorType.HTTP_PROTOCOL_ERROR
    made = forwarded_reply(switch, NoBody(), keep_alive=True, client_minor=1, websocket=True)
    assert made.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
    assert lines(made) == [b"Sec-WebSocket-Accept: a", b"Connection: Upgrade", b"Upgrade: websocket"]


def unfit(head: ReplyHead, target: Target, *, asked: bool = False) -> ErrorType | None:
    refusal = unfit_reply(head, target, asked_websocket=asked)
    assert refusal is not None
    assert (refusal.reason, refusal.stage, refusal.target) == (Reason.UPSTREAM_FAILED, Stage.UPSTREAM, target)
    return refusal.error


def test_an_origin_that_asks_for_proxy_credentials_is_a_fault() -> None:
    target = absolute(b"http://docs.python.org/").target

    assert unfit(reply_head(status=407), target) == ErrorType.HTTP_PROTOCOL_ERROR
    for status in (100, 200, 401, 403, 502):
        assert unfit_reply(reply_head(status=status), target) is None


# Connections


@pytest.mark.parametrize(
    ("fields", "version", "expected"),
    [
        ((), b"1.1", True),
        ((b"Connection: keep-alive",), b"1.1", True),
        ((b"Proxy-Connection: Keep-Alive",), b"1.1", True),
        ((b"Connection: close",), b"1.1", False),
        ((b"Connection: TE, Close",), b"1.1", False),
        ((b"Proxy-Connection: close",), b"1.1", False),
        ((b"Connection: keep-alive", b"Connection: close"), b"1.1", False),
        ((b"Connection: closed",), b"1.1", True),
        ((), b"1.0", False),
        ((b"Connection: keep-alive",), b"1.0", False),
    ],
)
def test_a_client_keeps_its_connection_in_http_1_1_unless_it_says_close(
    fields: tuple[bytes, ...], version: bytes, expected: bool
) -> None:
    assert wants_keep_alive(request_head(*fields, version=version)) is expected


@pytest.mark.parametrize(
    ("fields", "status", "version", "expected"),
    [
        ((), 200, b"1.1", True),
        ((b"Connection: close",), 200, b"1.1", False),
        ((b"Connection: x, CLOSE",), 200, b"1.1", False),
        ((b"Proxy-Connection: close",), 200, b"1.1", True),
        ((), 200, b"1.0", False),
        ((b"Connection: Keep-Alive",), 200, b"1.0", True),
        ((b"Connection: keep-alive, close",), 200, b"1.0", False),
        ((b"Content-Length: 0",), 204, b"1.1", True),
        ((b"Content-Length: 5",), 204, b"1.1", False),
        ((b"Transfer-Encoding: chunked",), 204, b"1.1", False),
        ((b"Content-Length: 5",), 304, b"1.1", True),
        ((b"Content-Length: 5",), 200, b"1.1", True),
    ],
)
def test_an_origin_keeps_its_connection_unless_more_may_come_than_a_reply(
    fields: tuple[bytes, ...], status: int, version: bytes, expected: bool
) -> None:
    assert origin_keeps_alive(reply_head(*fields, status=status, version=version)) is expected
