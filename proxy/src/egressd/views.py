"""Writes what the proxy itself answers: refusals, the bare 200 of a tunnel, a job's own grant, an OPTIONS ended here.

A refusal says the same thing three times, because programs show different parts of it: in the phrase of the status
line, in exactly one Proxy-Status field, and, to plain requests, in a body for people or programs. Nothing of it comes
from the request's bytes (case H9): names and commands are built from the parsed target, and no resolved address, no
other tenant and nothing of the list is shown.

Decides nothing and sends nothing. Called by the worker's connection.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Final

from egress_policy.reasons import (
    DETAILS,
    RETRYABLE,
    STATUS,
    Advice,
    ErrorType,
    Reason,
    Refusal,
    Stage,
    command_to_allow,
    sentence,
)
from egress_policy.wire import PROXY_STATUS, PSEUDONYM, write_proxy_status

CONNECT_OK: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"

_PHRASES = {
    403: "Refused by egress policy",
    407: "Refused by egress policy",
    429: "Refused by egress policy",
    502: "Destination failed behind egress proxy",
    503: "Egress proxy unavailable",
    504: "Destination failed behind egress proxy",
}
_OTHER_PHRASE = "Refused by egress proxy"
# Seconds after which the same request may pass; another node may be less full; a list takes people.
_RETRY_AFTER = {
    Reason.BUSY: 1,
    Reason.DRAINING: 1,
    Reason.RATE_EXHAUSTED: 1,
    Reason.NAMES_EXHAUSTED: 60,
    Reason.POLICY_UNAVAILABLE: 10,
}
_CONNECT_END = b"Content-Length: 0\r\nConnection: close\r\n\r\n"
_JSON: Final = "application/json"
_TEXT: Final = "text/plain; charset=utf-8"
_JSON_RANGE = re.compile(rb"application/(?:json|[!#$&^_.+A-Za-z0-9-]+\+json)")
_TEXT_RANGE = re.compile(rb"text/(?:plain|html|\*)|\*/\*|application/xhtml\+xml")
_QUALITY = re.compile(rb"[ \t]*q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)[ \t]*")
# More members than any client sends; what follows is not read.
_ACCEPT_MAX_MEMBERS = 32


def closing_response(
    refusal: Refusal, *, method: str, accept: bytes | None, tenant: str, command_template: str
) -> bytes:
    """The whole answer to a refused request, after which the connection ends.

    Args:
        method: Of the request, empty where its head could not be read. To CONNECT the answer has no body, since what
            its client would read after the head belongs to a tunnel that there is none of.
        accept: Value of the Accept field. Text, unless JSON is named and not liked less.
        tenant: The tenant whose list was asked.
        command_template: Of the command that allows a host, with `{tenant}` and `{host}`.

    Source: RFC 9209 section 2 for Proxy-Status, RFC 9931 for the end of the connection.
    """
    start = _start(refusal.reason, refusal.error)
    if method == "CONNECT":
        return start + _CONNECT_END
    if accept is not None and prefers_json(accept):
        kind, body = _JSON, _json_body(refusal, tenant, command_template)
    else:
        said = sentence(refusal, tenant=tenant, command_template=command_template)
        kind, body = _TEXT, f"{PSEUDONYM}: {_phrase(refusal.reason)}\n{said}\n"
    payload = body.encode("utf-8")
    head = (
        f"Content-Type: {kind}\r\nContent-Length: {len(payload)}\r\nX-Content-Type-Options: nosniff\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    ).encode("ascii")
    return start + head if method == "HEAD" else start + head + payload


def grant_response(document: bytes, *, keep_alive: bool = False) -> bytes:
    """The answer to a job that asks what it may reach; `document` is its grant as JSON."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\nCache-Control: no-store\r\n%b\r\n%b" % (
        _JSON.encode("ascii"),
        len(document),
        b"" if keep_alive else b"Connection: close\r\n",
        document,
    )


def options_response(*, keep_alive: bool = False) -> bytes:
    """The answer to an OPTIONS request whose Max-Forwards ends here.

    Source: RFC 9110 sections 7.6.2 and 9.3.7.
    """
    end = b"\r\n" if keep_alive else b"Connection: close\r\n\r\n"
    return b"HTTP/1.1 200 OK\r\nAllow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\nContent-Length: 0\r\n" + end


def prefers_json(accept: bytes) -> bool:
    """Whether an Accept value names JSON and likes nothing textual better; `*/*` alone asks for text.

    Source: RFC 9110 section 12.5.1.
    """
    json_quality = text_quality = 0.0
    for member in accept.split(b",", _ACCEPT_MAX_MEMBERS):
        media_range, _, parameters = member.lower().partition(b";")
        media_range = media_range.strip()
        quality = 1.0
        for parameter in parameters.split(b";"):
            if (weight := _QUALITY.fullmatch(parameter)) is not None:
                quality = float(weight[1])
        if _JSON_RANGE.fullmatch(media_range) is not None:
            json_quality = max(json_quality, quality)
        elif _TEXT_RANGE.fullmatch(media_range) is not None:
            text_quality = max(text_quality, quality)
    return json_quality > 0 and json_quality >= text_quality


@cache
def _start(reason: Reason, error: ErrorType | None) -> bytes:
    """Status line and the fields that hang on the reason alone; as many values as the vocabulary has pairs."""
    lines = [
        f"HTTP/1.1 {STATUS[reason]} {_phrase(reason)}",
        f"{PROXY_STATUS}: {write_proxy_status(Refusal(reason, Stage.PARSE, error=error))}",
    ]
    if reason in _RETRY_AFTER:
        lines.append(f"Retry-After: {_RETRY_AFTER[reason]}")
    if reason is Reason.CREDENTIALS_REQUIRED:
        lines.append(f'Proxy-Authenticate: Basic realm="{PSEUDONYM}"')
    return "".join([f"{line}\r\n" for line in lines]).encode("ascii")


def _phrase(reason: Reason) -> str:
    return f"{_PHRASES.get(STATUS[reason], _OTHER_PHRASE)} ({reason.value})"


def _json_body(refusal: Refusal, tenant: str, command_template: str) -> str:
    target = refusal.target
    said: dict[str, object] = {
        "status": refusal.status,
        "reason": refusal.reason.value,
        "error": refusal.error_type.value,
        "details": DETAILS[refusal.reason],
        "target": target.authority if target is not None else None,
        "message": sentence(refusal, tenant=tenant, command_template=command_template),
        "advice": refusal.advice.value,
        "try_again": refusal.reason in RETRYABLE,
    }
    if target is not None and refusal.advice is Advice.RULE:
        said["command"] = command_to_allow(target, tenant=tenant, command_template=command_template)
    return json.dumps(said, ensure_ascii=True) + "\n"
