"""Writes decision and close records as lines of JSON: what was asked, what was decided and why, and how it ended.

A record names host and port and never a path, a query or a field of the request: those hold secrets. Every string is
ASCII, escaped and bounded, so a line is one line whatever a job sends, and at most `LINE_MAX_BYTES` long. What does not
change from request to request is written once: `source_fragment` for a grant on a channel, `request_fragment` for a
target under it.

Writes nothing anywhere and sees no clock. Called by the worker's reporter; the lines go to its journal.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from typing import NamedTuple

# A pipe takes so much whole or not at all (PIPE_BUF on Linux), so that the lines of several workers do not mix.
LINE_MAX_BYTES = 4_096

_HOST_MAX_CHARS = 255
_RULE_MAX_CHARS = 300
_NAME_MAX_CHARS = 128
_METHOD_MAX_CHARS = 32
_TOKEN_MAX_CHARS = 64


class Traffic(NamedTuple):
    """What went through and how it ended: bytes from the client and to it, seconds from first to last, an end token."""

    up: int
    down: int
    seconds: float
    end: str


def source_fragment(*, version: int, job: str | None, tenant: str, plugin: str | None, channel: str) -> str:
    """Write who asks under which policy version; the same for every request of a grant on a channel."""
    return (
        f'"version":{version},"job":{_text(job, _NAME_MAX_CHARS)},"tenant":{_text(tenant, _NAME_MAX_CHARS)},'
        f'"plugin":{_text(plugin, _NAME_MAX_CHARS)},"channel":{_text(channel, _NAME_MAX_CHARS)}'
    )


def request_fragment(source: str, *, method: str | None, host: str | None, port: int | None, rule: str | None) -> str:
    """Write what is asked, behind `source`; the same for every request to a target that one rule decides.

    Args:
        source: From `source_fragment`.
        method: None where the head could not be read.
        host: A name or an address without brackets; None where no target could be read.
        rule: The rule that decided, as its list has it.
    """
    return (
        f'{source},"method":{_text(method, _METHOD_MAX_CHARS)},"host":{_text(host, _HOST_MAX_CHARS)},'
        f'"port":{"null" if port is None else port},"rule":{_text(rule, _RULE_MAX_CHARS)}'
    )


def decision_line(
    unix_now: float,
    request: str,
    *,
    decision: str,
    reason: str | None,
    address: str | None,
    dns_seconds: float,
    connect_seconds: float,
    traffic: Traffic | None = None,
) -> str:
    """Write the one record of a request.

    Args:
        unix_now: Unix seconds.
        request: From `request_fragment`.
        decision: `allowed` or `refused`.
        reason: The token of a refusal.
        address: What was connected to.
        dns_seconds: The look-up; 0 where nothing was looked up.
        connect_seconds: The dial; 0 where nothing was dialed.
        traffic: For an exchange, which has no close record.
    """
    tail = "}\n" if traffic is None else f",{_traffic(traffic)}}}\n"
    return (
        f'{{"time":"{_time(int(unix_now * 1000))}","record":"decision",{request},{_verdict(decision, reason, address)},'
        f'"dns_ms":{_milliseconds(dns_seconds)},"connect_ms":{_milliseconds(connect_seconds)}{tail}'
    )


def close_line(unix_now: float, request: str, *, address: str | None, traffic: Traffic) -> str:
    """Write the record of a tunnel's end; its decision record came before."""
    return (
        f'{{"time":"{_time(int(unix_now * 1000))}","record":"close",{request},'
        f'"address":{_token(address)},{_traffic(traffic)}}}\n'
    )


def _traffic(traffic: Traffic) -> str:
    return (
        f'"bytes_up":{traffic.up},"bytes_down":{traffic.down},"duration_ms":{_milliseconds(traffic.seconds)},'
        f'"end":{_token(traffic.end)}'
    )


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f}" if seconds else "0"


# Under load many records fall into one millisecond, and few differ in what follows; both are on every request's path.
@lru_cache(maxsize=8)
def _time(unix_milliseconds: int) -> str:
    seconds, milliseconds = divmod(unix_milliseconds, 1000)
    return f"{_second(seconds)}.{milliseconds:03}Z"


@lru_cache(maxsize=8)
def _second(unix_second: int) -> str:
    return datetime.fromtimestamp(unix_second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


@lru_cache(maxsize=1024)
def _verdict(decision: str, reason: str | None, address: str | None) -> str:
    return f'"decision":{_token(decision)},"reason":{_token(reason)},"address":{_token(address)}'


@lru_cache(maxsize=1024)
def _token(value: str | None) -> str:
    return _text(value, _TOKEN_MAX_CHARS)


def _text(value: str | None, max_chars: int) -> str:
    """Write a JSON string of at most twice `max_chars` and its quotes."""
    if value is None:
        return "null"
    quoted = encode_basestring_ascii(value)
    return quoted if len(quoted) <= max_chars + 2 and "\x7f" not in quoted else _bounded(value[:max_chars], max_chars)


def _bounded(value: str, max_chars: int) -> str:
    """The rare ones: a text whose escapes would make it longer loses what is not printable ASCII."""
    quoted = encode_basestring_ascii(value).replace("\x7f", "\\u007f")
    if len(quoted) > 2 * max_chars + 2:
        quoted = encode_basestring_ascii("".join(each if " " <= each <= "~" else "?" for each in value))
    return quoted
