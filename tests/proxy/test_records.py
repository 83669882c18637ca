"""Records are one line of bounded ASCII JSON each, whatever a job sends, and cheap."""

from __future__ import annotations

import json
import timeit
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egressd.records import LINE_MAX_BYTES, Traffic, close_line, decision_line, request_fragment, source_fragment

UNIX_NOW = 1_796_083_200.1239
SOURCE = source_fragment(version=7, job="job-1", tenant="default", plugin=None, channel="default")
REQUEST = request_fragment(SOURCE, method="CONNECT", host="docs.python.org", port=443, rule="*.python.org")

# What a job or an operator may put in: everything that str can hold, lone surrogates as well.
TEXT = st.text(st.characters(), max_size=700)


def read(line: str) -> dict[str, Any]:
    """One record; it must be one line."""
    assert line.endswith("}\n")
    assert line.isascii()
    assert line[:-1].isprintable()
    assert len(line) <= LINE_MAX_BYTES
    record: dict[str, Any] = json.loads(line)
    return record


def allowed(request: str, traffic: Traffic | None = None) -> str:
    return decision_line(
        UNIX_NOW,
        request,
        decision="allowed",
        reason=None,
        address="192.0.2.1",
        dns_seconds=0.01234,
        connect_seconds=0.2,
        traffic=traffic,
    )


def test_a_decision_record_says_who_asked_what_and_what_became_of_it() -> None:
    assert read(allowed(REQUEST)) == {
        "time": "2026-12-01T00:00:00.123Z",
        "record": "decision",
        "version": 7,
        "job": "job-1",
        "tenant": "default",
        "plugin": None,
        "channel": "default",
        "method": "CONNECT",
        "host": "docs.python.org",
        "port": 443,
        "rule": "*.python.org",
        "decision": "allowed",
        "reason": None,
        "address": "192.0.2.1",
        "dns_ms": 12.3,
        "connect_ms": 200.0,
    }


def test_the_record_of_an_exchange_says_how_it_ended_as_well() -> None:
    record = read(allowed(REQUEST, Traffic(12, 345, 1.5, "complete")))

    assert list(record.items())[-4:] == [
        ("bytes_up", 12),
        ("bytes_down", 345),
        ("duration_ms", 1500.0),
        ("end", "complete"),
    ]


def test_a_refusal_before_there_is_a_target_has_a_record_without_one() -> None:
    request = request_fragment(SOURCE, method=None, host=None, port=None, rule=None)
    line = decision_line(
        UNIX_NOW,
        request,
        decision="refused",
        reason="malformed-request-line",
        address=None,
        dns_seconds=0.0,
        connect_seconds=0.0,
    )

    record = read(line)

    assert [record[key] for key in ("method", "host", "port", "rule", "address")] == [None] * 5
    assert (record["decision"], record["reason"]) == ("refused", "malformed-request-line")
    assert (record["dns_ms"], record["connect_ms"]) == (0, 0)


def test_a_close_record_says_what_went_through_and_how_it_ended() -> None:
    record = read(close_line(UNIX_NOW, REQUEST, address="2001:db8::1", traffic=Traffic(5, 0, 3600.25, "idle")))

    assert record["record"] == "close"
    assert record["host"] == "docs.python.org"
    assert record["address"] == "2001:db8::1"
    assert (record["bytes_up"], record["bytes_down"], record["duration_ms"], record["end"]) == (5, 0, 3600250.0, "idle")


@pytest.mark.parametrize(
    ("unix_now", "text"),
    [
        (0.0, "1970-01-01T00:00:00.000Z"),
        (1_796_083_199.9996, "2026-11-30T23:59:59.999Z"),
        (1_796_083_200.0, "2026-12-01T00:00:00.000Z"),
        (1_709_164_800.5, "2024-02-29T00:00:00.500Z"),
    ],
)
def test_times_are_utc_with_milliseconds(unix_now: float, text: str) -> None:
    line = close_line(unix_now, REQUEST, address=None, traffic=Traffic(0, 0, 0.0, "idle"))

    assert read(line)["time"] == text


@pytest.mark.parametrize(
    "host",
    [
        'a"b',
        "a\\",
        "a\nb",
        "a\r\nb",
        "a\x00b",
        "a\x1b[31m",
        "a\x7fb",
        "a\u2028b",
        "a\u202eb",
        "\ud800",
        "\U0001f600",
        "é",
    ],
)
def test_what_could_break_a_line_or_a_terminal_is_escaped(host: str) -> None:
    line = allowed(request_fragment(SOURCE, method="GET", host=host, port=80, rule=None))

    assert read(line)["host"] == host


@pytest.mark.parametrize(("length", "kept"), [(255, 255), (256, 255), (100_000, 255)])
def test_a_long_text_is_cut(length: int, kept: int) -> None:
    line = allowed(request_fragment(SOURCE, method="GET", host="a" * length, port=80, rule=None))

    assert read(line)["host"] == "a" * kept


def test_a_long_text_of_escapes_loses_them() -> None:
    line = allowed(request_fragment(SOURCE, method="GET", host="é\n" * 1000 + "a", port=80, rule=None))

    assert read(line)["host"] == "??" * 127 + "?"


@given(TEXT, TEXT, TEXT, TEXT, TEXT, TEXT)
def test_any_texts_give_one_bounded_line_of_ascii(
    tenant: str, job: str, method: str, host: str, rule: str, token: str
) -> None:
    source = source_fragment(version=2**63, job=job, tenant=tenant, plugin=tenant, channel=job)
    request = request_fragment(source, method=method, host=host, port=65_535, rule=rule)
    traffic = Traffic(2**63, 2**63, 1e9, token)

    record = read(allowed(request, traffic))

    assert record["port"] == 65_535
    assert read(close_line(UNIX_NOW, request, address=host, traffic=traffic))["bytes_up"] == 2**63


@pytest.mark.parametrize("character", ['"', "\\", "\x00", "\x7f", "é", "\U0001f600", "a"])
def test_the_longest_record_fits_into_what_a_pipe_takes_whole(character: str) -> None:
    text = character * 1000
    source = source_fragment(version=2**63, job=text, tenant=text, plugin=text, channel=text)
    request = request_fragment(source, method=text, host=text, port=65_535, rule=text)
    line = decision_line(
        UNIX_NOW,
        request,
        decision=text,
        reason=text,
        address=text,
        dns_seconds=1e9,
        connect_seconds=1e9,
        traffic=Traffic(2**63, 2**63, 1e9, text),
    )

    assert len(read(line)) == 20


@pytest.mark.slow
def test_a_record_of_a_known_target_costs_a_few_microseconds() -> None:
    # The best of many short runs is what the code costs; three times the goal allows for a slow machine.
    best = min(timeit.repeat(lambda: allowed(REQUEST), number=500, repeat=40)) / 500

    assert best < 3 * 3e-6
