"""The closed words of a refusal: stages, reasons, error types, ends, and what each reason says and means.

Decides which HTTP status, RFC 9209 error type, fixed text and advice belong to a reason. Adding a reason is one member
and one row of `_ROWS`, and the tests name every place still missing. Knows no target and no rule: `reasons` puts the
words together to a refusal and hands them all on, so that callers import from there. Never does I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Stage(StrEnum):
    """Where in the order of judgement something ended."""

    CHANNEL = "channel"
    GRANT = "grant"
    PARSE = "parse"
    FLOOR = "floor"
    DENY = "deny"
    ALLOW = "allow"
    RESOLVE = "resolve"
    PIN = "pin"
    DIAL = "dial"
    PEER = "peer"
    BUDGET = "budget"
    UPSTREAM = "upstream"


class Reason(StrEnum):
    """Why a request was refused or failed: the same token in code, header, records and metrics."""

    MALFORMED_REQUEST_LINE = "malformed-request-line"
    MALFORMED_HEADER = "malformed-header"
    MISSING_HOST = "missing-host"
    DUPLICATE_HOST = "duplicate-host"
    MALFORMED_TARGET = "malformed-target"
    MALFORMED_PORT = "malformed-port"
    AUTHORITY_MISMATCH = "authority-mismatch"
    AMBIGUOUS_FRAMING = "ambiguous-framing"
    UNSUPPORTED_SCHEME = "unsupported-scheme"
    NOT_A_PROXY_REQUEST = "not-a-proxy-request"
    NOT_ON_ALLOWLIST = "not-on-allowlist"
    PORT_NOT_ALLOWED = "port-not-allowed"
    DENIED_BY_RULE = "denied-by-rule"
    FORBIDDEN_NAME = "forbidden-name"
    METHOD_NOT_ALLOWED = "method-not-allowed"
    IDENTITY_UNKNOWN = "identity-unknown"
    JOB_ENDED = "job-ended"
    LIFE_ENDED = "life-ended"
    IP_NOT_ON_ALLOWLIST = "ip-not-on-allowlist"
    FORBIDDEN_ADDRESS = "forbidden-address"
    RESOLVED_ADDRESS_DENIED = "resolved-address-denied"
    SCOPED_IP = "scoped-ip"
    CREDENTIALS_REQUIRED = "credentials-required"
    HEAD_TIMEOUT = "head-timeout"
    HEAD_TOO_LARGE = "head-too-large"
    UNSUPPORTED_VERSION = "unsupported-version"
    RATE_EXHAUSTED = "rate-exhausted"
    BYTES_EXHAUSTED = "bytes-exhausted"
    NAMES_EXHAUSTED = "names-exhausted"
    RESOLVE_FAILED = "resolve-failed"
    DIAL_FAILED = "dial-failed"
    UPSTREAM_FAILED = "upstream-failed"
    LOOP_DETECTED = "loop-detected"
    UPSTREAM_TIMEOUT = "upstream-timeout"
    BUSY = "busy"
    DRAINING = "draining"
    POLICY_UNAVAILABLE = "policy-unavailable"


class ErrorType(StrEnum):
    """The proxy error types of RFC 9209 section 2.3 that are used here."""

    DNS_TIMEOUT = "dns_timeout"
    DNS_ERROR = "dns_error"
    DESTINATION_UNAVAILABLE = "destination_unavailable"
    DESTINATION_IP_PROHIBITED = "destination_ip_prohibited"
    CONNECTION_REFUSED = "connection_refused"
    CONNECTION_TIMEOUT = "connection_timeout"
    CONNECTION_LIMIT_REACHED = "connection_limit_reached"
    HTTP_REQUEST_ERROR = "http_request_error"
    HTTP_REQUEST_DENIED = "http_request_denied"
    HTTP_RESPONSE_INCOMPLETE = "http_response_incomplete"
    HTTP_RESPONSE_HEADER_SECTION_SIZE = "http_response_header_section_size"
    HTTP_RESPONSE_HEADER_SIZE = "http_response_header_size"
    HTTP_RESPONSE_BODY_SIZE = "http_response_body_size"
    HTTP_RESPONSE_TRANSFER_CODING = "http_response_transfer_coding"
    HTTP_RESPONSE_TIMEOUT = "http_response_timeout"
    HTTP_PROTOCOL_ERROR = "http_protocol_error"
    PROXY_CONFIGURATION_ERROR = "proxy_configuration_error"
    PROXY_LOOP_DETECTED = "proxy_loop_detected"


class End(StrEnum):
    """How a tunnel ended; in records and metrics only, never on the wire."""

    CLIENT_CLOSED = "client-closed"
    ORIGIN_CLOSED = "origin-closed"
    IDLE = "idle"
    WRITE_STALLED = "write-stalled"
    SNI_MISMATCH = "sni-mismatch"
    SNI_MISSING = "sni-missing"
    NOT_TLS = "not-tls"
    HELLO_TIMEOUT = "hello-timeout"
    JOB_ENDED = "job-ended"
    RULE_REMOVED = "rule-removed"
    BYTES_EXHAUSTED = "bytes-exhausted"
    DRAINING = "draining"
    WORKER_DIED = "worker-died"
    RESET = "reset"


class Advice(StrEnum):
    """Who can change the answer."""

    RULE = "rule"  # a rule in the tenant's list, made by the command
    OPERATOR = "operator"  # a person who sets up the node or the tenant, by something else than one allow rule
    NOTHING = "nothing"  # no rule and no setting lifts it
    REQUEST = "request"  # the request itself must be another
    LATER = "later"  # the same request may pass another time


@dataclass(frozen=True, slots=True)
class _Row:
    status: int
    errors: tuple[ErrorType, ...]  # the first is the main one
    advice: Advice
    details: str
    retryable: bool = False


_REQUEST_ERROR = (ErrorType.HTTP_REQUEST_ERROR,)
_DENIED = (ErrorType.HTTP_REQUEST_DENIED,)
_IP_PROHIBITED = (ErrorType.DESTINATION_IP_PROHIBITED,)


def _bad(details: str) -> _Row:
    return _Row(400, _REQUEST_ERROR, Advice.REQUEST, details)


# The texts go into a header as a structured-field string: printable ASCII, no quote, no backslash (RFC 9651).
_ROWS: Mapping[Reason, _Row] = {
    Reason.MALFORMED_REQUEST_LINE: _bad("the request line is malformed"),
    Reason.MALFORMED_HEADER: _bad("a header field is malformed"),
    Reason.MISSING_HOST: _bad("HTTP/1.1 requests need a Host field"),
    Reason.DUPLICATE_HOST: _bad("more than one Host field"),
    Reason.MALFORMED_TARGET: _bad("the request target is malformed: names are ASCII, addresses in their usual form"),
    Reason.MALFORMED_PORT: _bad("the port is missing or not a number from 1 to 65535"),
    Reason.AUTHORITY_MISMATCH: _bad("the Host field names another destination than the request target"),
    Reason.AMBIGUOUS_FRAMING: _bad("the length of the request body is ambiguous"),
    Reason.UNSUPPORTED_SCHEME: _bad("only http is forwarded; use CONNECT for https"),
    Reason.NOT_A_PROXY_REQUEST: _bad("this is a proxy: use CONNECT or a target in absolute form"),
    Reason.NOT_ON_ALLOWLIST: _Row(403, _DENIED, Advice.RULE, "no rule allows this host"),
    Reason.PORT_NOT_ALLOWED: _Row(403, _DENIED, Advice.RULE, "no rule allows this port of the host"),
    Reason.DENIED_BY_RULE: _Row(403, _DENIED, Advice.OPERATOR, "a deny rule covers this destination"),
    Reason.FORBIDDEN_NAME: _Row(403, _DENIED, Advice.NOTHING, "this name is closed to jobs"),
    Reason.METHOD_NOT_ALLOWED: _Row(403, _DENIED, Advice.OPERATOR, "the list limits the methods for this host"),
    Reason.IDENTITY_UNKNOWN: _Row(403, _DENIED, Advice.OPERATOR, "the proxy does not know who asks"),
    Reason.JOB_ENDED: _Row(403, _DENIED, Advice.NOTHING, "the job has ended"),
    Reason.LIFE_ENDED: _Row(403, _DENIED, Advice.OPERATOR, "the life time of the job is over"),
    Reason.IP_NOT_ON_ALLOWLIST: _Row(403, _IP_PROHIBITED, Advice.RULE, "no rule allows this address"),
    Reason.FORBIDDEN_ADDRESS: _Row(403, _IP_PROHIBITED, Advice.NOTHING, "this address is closed to jobs"),
    Reason.RESOLVED_ADDRESS_DENIED: _Row(
        403, _IP_PROHIBITED, Advice.OPERATOR, "the name resolves to an address that is closed to this job"
    ),
    Reason.SCOPED_IP: _Row(403, _IP_PROHIBITED, Advice.NOTHING, "addresses with a zone are closed to jobs"),
    Reason.CREDENTIALS_REQUIRED: _Row(407, _DENIED, Advice.REQUEST, "the token of the job is missing or wrong"),
    Reason.HEAD_TIMEOUT: _Row(
        408, _REQUEST_ERROR, Advice.REQUEST, "the request head did not arrive in time", retryable=True
    ),
    Reason.HEAD_TOO_LARGE: _Row(431, _REQUEST_ERROR, Advice.REQUEST, "the request head is too large"),
    Reason.UNSUPPORTED_VERSION: _Row(
        505, (ErrorType.HTTP_PROTOCOL_ERROR,), Advice.REQUEST, "only HTTP/1.0 and HTTP/1.1 are spoken here"
    ),
    Reason.RATE_EXHAUSTED: _Row(
        429, _DENIED, Advice.LATER, "the job opens connections faster than it may", retryable=True
    ),
    Reason.BYTES_EXHAUSTED: _Row(429, _DENIED, Advice.OPERATOR, "the job has used up its bytes"),
    Reason.NAMES_EXHAUSTED: _Row(
        429, _DENIED, Advice.LATER, "the job has asked for too many names this hour", retryable=True
    ),
    Reason.RESOLVE_FAILED: _Row(
        502,
        (ErrorType.DNS_ERROR, ErrorType.DNS_TIMEOUT),
        Advice.LATER,
        "the name could not be resolved",
        retryable=True,
    ),
    Reason.DIAL_FAILED: _Row(
        502,
        (ErrorType.DESTINATION_UNAVAILABLE, ErrorType.CONNECTION_REFUSED, ErrorType.CONNECTION_TIMEOUT),
        Advice.LATER,
        "the destination could not be reached",
        retryable=True,
    ),
    Reason.UPSTREAM_FAILED: _Row(
        502,
        (
            ErrorType.HTTP_RESPONSE_INCOMPLETE,
            ErrorType.HTTP_PROTOCOL_ERROR,
            ErrorType.HTTP_RESPONSE_HEADER_SECTION_SIZE,
            ErrorType.HTTP_RESPONSE_HEADER_SIZE,
            ErrorType.HTTP_RESPONSE_BODY_SIZE,
            ErrorType.HTTP_RESPONSE_TRANSFER_CODING,
        ),
        Advice.LATER,
        "the destination broke off or answered against HTTP",
        retryable=True,
    ),
    Reason.LOOP_DETECTED: _Row(
        502, (ErrorType.PROXY_LOOP_DETECTED,), Advice.REQUEST, "the request has passed this proxy before"
    ),
    Reason.UPSTREAM_TIMEOUT: _Row(
        504,
        (ErrorType.HTTP_RESPONSE_TIMEOUT,),
        Advice.LATER,
        "the destination did not answer in time",
        retryable=True,
    ),
    Reason.BUSY: _Row(
        503, (ErrorType.CONNECTION_LIMIT_REACHED,), Advice.LATER, "too many open connections", retryable=True
    ),
    Reason.DRAINING: _Row(
        503, (ErrorType.CONNECTION_LIMIT_REACHED,), Advice.LATER, "the proxy is shutting down", retryable=True
    ),
    Reason.POLICY_UNAVAILABLE: _Row(
        503,
        (ErrorType.PROXY_CONFIGURATION_ERROR,),
        Advice.OPERATOR,
        "the egress policy is missing or broken, so nothing is allowed",
        retryable=True,
    ),
}

STATUS: Mapping[Reason, int] = MappingProxyType({reason: row.status for reason, row in _ROWS.items()})
ERROR: Mapping[Reason, ErrorType] = MappingProxyType({reason: row.errors[0] for reason, row in _ROWS.items()})
ERRORS: Mapping[Reason, frozenset[ErrorType]] = MappingProxyType(
    {reason: frozenset(row.errors) for reason, row in _ROWS.items()}
)
DETAILS: Mapping[Reason, str] = MappingProxyType({reason: row.details for reason, row in _ROWS.items()})
ADVICE: Mapping[Reason, Advice] = MappingProxyType({reason: row.advice for reason, row in _ROWS.items()})
RETRYABLE: frozenset[Reason] = frozenset(reason for reason, row in _ROWS.items() if row.retryable)
