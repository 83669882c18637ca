"""What the proxy answers by itself, read back by independent readers: h11 for HTTP, the shared reader for the field."""

from __future__ import annotations

import json
import shlex

import h11
import pytest

from egress_policy.reasons import ERRORS, RETRYABLE, STATUS, ErrorType, Reason, Refusal, Stage
from egress_policy.targets import AbsoluteForm, Target, parse_absolute, parse_authority
from egress_policy.wire import read_proxy_status
from egressd.views import CONNECT_OK, closing_response, grant_response, options_response, prefers_json

TEMPLATE = "egressctl tenant {tenant} allow {host}"
PAIRS = [(reason, error) for reason in Reason for error in (None, *sorted(ERRORS[reason]))]


def connect_target(text: bytes = b"docs.python.org:443") -> Target:
    target = parse_authority(text)
    assert isinstance(target, Target)
    return target


def answer(
    refusal: Refusal,
    *,
    method: str = "GET",
    accept: bytes | None = None,
    tenant: str = "default",
    template: str = TEMPLATE,
) -> bytes:
    return closing_response(refusal, method=method, accept=accept, tenant=tenant, command_template=template)


def read(raw: bytes, method: str = "GET") -> tuple[h11.Response, bytes]:
    """An answer as h11 reads it: the head, and the body up to the end of the connection."""
    client = h11.Connection(h11.CLIENT)
    client.send(
        h11.Request(method=method, target="http://a/" if method != "CONNECT" else "a:1", headers=[("Host", "a")])
    )
    client.send(h11.EndOfMessage())
    client.receive_data(raw)
    client.receive_data(b"")
    head = client.next_event()
    assert isinstance(head, h11.Response)
    body = b""
    while isinstance(event := client.next_event(), h11.Data):
        body += bytes(event.data)
    assert isinstance(event, h11.EndOfMessage)
    return head, body


def values(head: h11.Response, name: bytes) -> list[str]:
    return [value.decode("ascii") for found, value in head.headers if found == name]


@pytest.mark.parametrize(("reason", "error"), PAIRS)
@pytest.mark.parametrize("method", ["CONNECT", "GET", "HEAD", ""])
def test_a_refusal_says_its_reason_in_the_phrase_and_in_one_field(
    reason: Reason, error: ErrorType | None, method: str
) -> None:
    head, _ = read(answer(Refusal(reason, Stage.PARSE, error=error), method=method), method or "GET")

    assert head.status_code == STATUS[reason]
    assert head.reason.endswith(f"({reason.value})".encode())
    received = read_proxy_status(values(head, b"proxy-status"))
    assert received is not None
    assert (received.reason, received.error) == (reason, Refusal(reason, Stage.PARSE, error=error).error_type)
    assert len(values(head, b"proxy-status")) == 1
    assert values(head, b"connection") == ["close"]


def test_the_phrase_tells_policy_from_failure() -> None:
    phrases = {
        Reason.NOT_ON_ALLOWLIST: b"HTTP/1.1 403 Refused by egress policy (not-on-allowlist)\r\n",
        Reason.MALFORMED_TARGET: b"HTTP/1.1 400 Refused by egress proxy (malformed-target)\r\n",
        Reason.DIAL_FAILED: b"HTTP/1.1 502 Destination failed behind egress proxy (dial-failed)\r\n",
        Reason.BUSY: b"HTTP/1.1 503 Egress proxy unavailable (busy)\r\n",
    }
    for reason, line in phrases.items():
        assert answer(Refusal(reason, Stage.PARSE)).startswith(line)


@pytest.mark.case("E1")
@pytest.mark.parametrize("reason", list(Reason))
def test_a_refused_connect_has_no_body_and_ends_the_connection(reason: Reason) -> None:
    raw = answer(Refusal(reason, Stage.ALLOW, connect_target()), method="CONNECT", accept=b"application/json")

    assert raw.endswith(b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    assert raw.count(b"\r\n\r\n") == 1


def test_the_body_for_people_says_what_to_change() -> None:
    _, body = read(answer(Refusal(Reason.NOT_ON_ALLOWLIST, Stage.ALLOW, connect_target(b"docs.python.org:8080"))))
    text = body.decode("utf-8")

    assert "not-on-allowlist" in text
    assert "not a network fault" in text
    assert "egressctl tenant default allow docs.python.org:8080" in text


def test_the_body_for_programs_holds_the_same() -> None:
    refusal = Refusal(Reason.NOT_ON_ALLOWLIST, Stage.ALLOW, connect_target())
    head, body = read(answer(refusal, accept=b"application/json", tenant="it's me"))
    said = json.loads(body)

    assert values(head, b"content-type") == ["application/json"]
    assert said["reason"] == "not-on-allowlist"
    assert said["error"] == "http_request_denied"
    assert said["status"] == 403
    assert said["target"] == "docs.python.org:443"
    assert said["try_again"] is False
    assert said["advice"] == "rule"
    assert shlex.split(said["command"]) == ["egressctl", "tenant", "it's me", "allow", "docs.python.org"]
    assert said["command"] in said["message"]


@pytest.mark.parametrize("reason", list(Reason))
def test_both_bodies_are_there_for_every_reason(reason: Reason) -> None:
    for target in (None, connect_target()):
        refusal = Refusal(reason, Stage.ALLOW, target)
        _, text = read(answer(refusal))
        _, document = read(answer(refusal, accept=b"application/json"))
        said = json.loads(document)

        assert reason.value in text.decode()
        assert said["message"] in text.decode()
        assert said["try_again"] is (reason in RETRYABLE)
        assert ("command" in said) <= (target is not None)


def test_the_floor_offers_no_command() -> None:
    refusal = Refusal(Reason.FORBIDDEN_ADDRESS, Stage.FLOOR, connect_target(b"169.254.169.254:80"))
    _, body = read(answer(refusal, accept=b"application/json"))

    assert "command" not in json.loads(body)
    assert "egressctl" not in body.decode()


def test_an_answer_to_head_has_the_length_and_not_the_body() -> None:
    refusal = Refusal(Reason.NOT_ON_ALLOWLIST, Stage.ALLOW, connect_target())
    full, bare = answer(refusal), answer(refusal, method="HEAD")

    assert full.startswith(bare)
    assert bare.endswith(b"\r\n\r\n")
    assert len(full) > len(bare)


def test_a_tenant_of_any_script_makes_a_whole_answer() -> None:
    refusal = Refusal(Reason.NOT_ON_ALLOWLIST, Stage.ALLOW, connect_target())
    _, body = read(answer(refusal, tenant="büro"))

    assert "büro" in body.decode("utf-8")


@pytest.mark.case("H9")
@pytest.mark.parametrize(
    "target",
    [b"http://a/<script>alert(1)</script>?token=secret", b"http://a.example/'\"><img src=x>"],
)
def test_nothing_of_the_requests_bytes_but_the_parsed_target_is_shown(target: bytes) -> None:
    form = parse_absolute(target.replace(b" ", b"+"))
    assert isinstance(form, AbsoluteForm)
    for accept in (None, b"application/json", b"text/html"):
        raw = answer(Refusal(Reason.NOT_ON_ALLOWLIST, Stage.ALLOW, form.target, rule="! secret.example"), accept=accept)
        assert b"<" not in raw
        assert b"secret" not in raw
        assert b"text/html" not in raw
        assert b"X-Content-Type-Options: nosniff\r\n" in raw
        assert b"Cache-Control: no-store\r\n" in raw


def test_missing_credentials_are_asked_for() -> None:
    assert b'\r\nProxy-Authenticate: Basic realm="egressd"\r\n' in answer(
        Refusal(Reason.CREDENTIALS_REQUIRED, Stage.CHANNEL)
    )
    assert b"Proxy-Authenticate" not in answer(Refusal(Reason.NOT_ON_ALLOWLIST, Stage.ALLOW))


@pytest.mark.case("G9")
@pytest.mark.parametrize("reason", [Reason.BUSY, Reason.DRAINING, Reason.RATE_EXHAUSTED, Reason.POLICY_UNAVAILABLE])
def test_who_may_come_again_is_told_when(reason: Reason) -> None:
    head, _ = read(answer(Refusal(reason, Stage.BUDGET), method="CONNECT"), "CONNECT")

    assert int(values(head, b"retry-after")[0]) > 0


def test_used_up_bytes_do_not_come_back_by_waiting() -> None:
    assert b"Retry-After" not in answer(Refusal(Reason.BYTES_EXHAUSTED, Stage.BUDGET))


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (b"application/json", True),
        (b"APPLICATION/JSON ; charset=utf-8", True),
        (b"application/json, text/plain, */*", True),
        (b"application/problem+json", True),
        (b"text/plain;q=0.5, application/json;q=0.6", True),
        (b"application/json;q=0.3;x=y, text/html;q=0.2", True),
        (b"*/*", False),
        (b"", False),
        (b"text/html,application/xhtml+xml,application/json;q=0.9,*/*;q=0.8", False),
        (b"text/html, application/json;q=0.9", False),
        (b"application/json;q=0", False),
        (b"application/json;q=0.000", False),
        (b"application/jsonx", False),
        (b"application/", False),
        (b"json", False),
        (b";;;,,,", False),
        (b"image/png", False),
        (b"text/*;q=1.000, application/json;q=0.999", False),
        (b"a/b," * 100 + b"application/json", False),
    ],
)
def test_json_is_for_those_who_name_it_and_like_text_no_better(accept: bytes, expected: bool) -> None:
    assert prefers_json(accept) is expected


@pytest.mark.case("E4")
def test_the_answer_to_connect_is_bare() -> None:
    assert CONNECT_OK == b"HTTP/1.1 200 Connection established\r\n\r\n"


def test_a_grant_is_answered_as_json_and_kept_nowhere() -> None:
    head, body = read(grant_response(b'{"tenant":"default"}'))

    assert (head.status_code, body) == (200, b'{"tenant":"default"}')
    assert values(head, b"content-type") == ["application/json"]
    assert values(head, b"cache-control") == ["no-store"]
    assert values(head, b"connection") == ["close"]
    assert values(head, b"proxy-status") == []
    assert b"Connection" not in grant_response(b"{}", keep_alive=True)


def test_options_that_end_here_are_answered_without_a_refusal() -> None:
    head, body = read(options_response(), "OPTIONS")

    assert (head.status_code, body) == (200, b"")
    assert values(head, b"proxy-status") == []
    assert "TRACE" not in values(head, b"allow")[0]
    assert options_response(keep_alive=True).endswith(b"\r\nContent-Length: 0\r\n\r\n")
