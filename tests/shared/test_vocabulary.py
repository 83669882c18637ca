"""The closed words: each reason has its status, type, text and advice, as the design's table says."""

from __future__ import annotations

import re

import pytest

from egress_policy import reasons, vocabulary
from egress_policy.vocabulary import (
    ADVICE,
    DETAILS,
    ERROR,
    ERRORS,
    RETRYABLE,
    STATUS,
    Advice,
    End,
    ErrorType,
    Reason,
    Stage,
)

# Status, error types (by their beginning), reasons: the table of statuses, written down a second time.
TABLE = [
    (
        400,
        {"http_request_error"},
        """malformed-request-line malformed-header missing-host duplicate-host malformed-target malformed-port
        authority-mismatch ambiguous-framing unsupported-scheme not-a-proxy-request""",
    ),
    (
        403,
        {"http_request_denied"},
        """not-on-allowlist port-not-allowed denied-by-rule forbidden-name method-not-allowed identity-unknown
        job-ended life-ended""",
    ),
    (403, {"destination_ip_prohibited"}, "ip-not-on-allowlist forbidden-address resolved-address-denied scoped-ip"),
    (407, {"http_request_denied"}, "credentials-required"),
    (408, {"http_request_error"}, "head-timeout"),
    (431, {"http_request_error"}, "head-too-large"),
    (505, {"http_protocol_error"}, "unsupported-version"),
    (429, {"http_request_denied"}, "rate-exhausted bytes-exhausted names-exhausted"),
    (502, {"dns_error", "dns_timeout"}, "resolve-failed"),
    (502, {"connection_refused", "connection_timeout", "destination_unavailable"}, "dial-failed"),
    (502, {"http_response_", "http_protocol_error"}, "upstream-failed"),
    (502, {"proxy_loop_detected"}, "loop-detected"),
    (504, {"http_response_timeout"}, "upstream-timeout"),
    (503, {"connection_limit_reached"}, "busy draining"),
    (503, {"proxy_configuration_error"}, "policy-unavailable"),
]


@pytest.mark.parametrize(("status", "errors", "tokens"), TABLE)
def test_a_reason_has_the_status_and_types_of_the_table(status: int, errors: set[str], tokens: str) -> None:
    for token in tokens.split():
        reason = Reason(token)
        assert STATUS[reason] == status
        assert ERROR[reason] in ERRORS[reason]
        for error in ERRORS[reason]:
            assert any(error.startswith(each) for each in errors), (reason, error)


def test_the_table_holds_every_reason_once() -> None:
    tokens = [token for _, _, row in TABLE for token in row.split()]

    assert sorted(tokens) == sorted(Reason)
    for mapping in (STATUS, ERROR, ERRORS, DETAILS, ADVICE):
        assert set(mapping) == set(Reason)


@pytest.mark.parametrize("reason", Reason)
def test_a_text_is_one_printable_line_for_a_header(reason: Reason) -> None:
    text = DETAILS[reason]

    assert text.isascii()
    assert text.isprintable()
    assert not set(text) & {'"', "\\"}
    assert 10 < len(text) < 100


@pytest.mark.parametrize("kind", [Reason, End, Stage])
def test_tokens_are_the_names_with_hyphens(kind: type[Reason | End | Stage]) -> None:
    for member in kind:
        assert member.value == member.name.lower().replace("_", "-")
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", member.value)


def test_error_types_are_their_names() -> None:
    for member in ErrorType:
        assert member.value == member.name.lower()
    assert {error for errors in ERRORS.values() for error in errors} == set(ErrorType)


def test_trying_again_is_told_only_where_it_can_help() -> None:
    for reason in Reason:
        if ADVICE[reason] is Advice.LATER:
            assert reason in RETRYABLE
        if ADVICE[reason] in {Advice.RULE, Advice.NOTHING}:
            assert reason not in RETRYABLE
    assert not any(STATUS[reason] in {400, 403, 407} for reason in RETRYABLE)


def test_the_ends_of_tunnels_are_the_closed_list() -> None:
    assert sorted(End) == [
        *("bytes-exhausted", "client-closed", "draining", "hello-timeout", "idle", "job-ended", "not-tls"),
        *("origin-closed", "reset", "rule-removed", "sni-mismatch", "sni-missing", "worker-died", "write-stalled"),
    ]


def test_the_words_are_handed_on_by_reasons() -> None:
    for name in ("ADVICE", "DETAILS", "ERROR", "ERRORS", "RETRYABLE", "STATUS", "Advice", "End", "Reason", "Stage"):
        assert getattr(reasons, name) is getattr(vocabulary, name)
