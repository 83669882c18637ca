"""URLs and names against the web platform's tests: deviations by kind, each with its exact count, none of them milder.

A count that changes says that the grammar has changed; then the kind is looked at, and the number here with it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from egress_policy.addresses import parse_address
from egress_policy.names import BadName, HostName, to_name
from egress_policy.urls import BadUrl, Url, parse_url
from egress_policy.vocabulary import Reason
from support.corpora import corpus_json


def rows(name: str) -> list[dict[str, Any]]:
    return [row for row in corpus_json(f"wpt-url/{name}.json") if isinstance(row, dict)]


def url_kind(row: dict[str, Any]) -> str | None:
    """Say how a row and this project agree, or what makes them differ; None for a base that is not http at all."""
    base = parse_url(row["base"]) if row["base"] else None
    if isinstance(base, BadUrl):
        return None
    found = parse_url(row["input"], base)
    if isinstance(found, Url):
        if row.get("failure"):
            return "milder than the standard"
        return "same" if found.text == row["href"] else "another URL than the standard's"
    if row.get("failure"):
        return "both refuse"
    if row["protocol"] not in {"http:", "https:"}:
        return "another scheme"
    return why_refused(row["input"], found)


def why_refused(text: str, found: BadUrl) -> str:
    if found.reason is Reason.MALFORMED_PORT:
        return "port 0 or more than five digits"
    for words, kind in (
        ("user info", "user info"),
        ("two slashes", "not two slashes after the scheme"),
        ("backslash or control", "backslash or control character before the path"),
        ("is a number", "an odd form of an IPv4 address"),
    ):
        if words in found.detail:
            return kind
    if text.startswith("///"):
        return "not two slashes after the scheme"
    if "%" in text:
        return "a percent escape in the host"
    if "\\" in text:
        return "backslash or control character before the path"
    return "a host that is no host name"


def test_urls_are_read_as_the_standard_says_or_refused() -> None:
    kinds = Counter(url_kind(row) for row in rows("urltestdata"))

    assert kinds == {
        "same": 149,
        "both refuse": 257,
        "another scheme": 253,
        None: 137,  # relative to a base that is not http, which nothing here ever is
        # Deviations, all of them refusals:
        "user info": 25,
        "not two slashes after the scheme": 27,
        "backslash or control character before the path": 16,
        "an odd form of an IPv4 address": 16,
        "port 0 or more than five digits": 3,
        "a percent escape in the host": 4,
        "a host that is no host name": 4,
    }


def test_what_the_standard_reads_as_an_address_is_that_address_or_refused() -> None:
    same, refused = 0, 0
    for row in rows("urltestdata"):
        if row.get("failure") or row["protocol"] not in {"http:", "https:"}:
            continue
        expected = parse_address(row["hostname"].strip("[]"))
        base = parse_url(row["base"]) if row["base"] else None
        if expected is None or isinstance(base, BadUrl):
            continue
        found = parse_url(row["input"], base)
        if isinstance(found, Url):
            same += 1
            assert found.host == expected, row
        else:
            refused += 1

    assert (same, refused) == (9, 16)


def name_kind(row: dict[str, Any]) -> str:
    found, expected = to_name(row["input"]), row["output"]
    if isinstance(found, HostName):
        if expected is None:
            return "milder than the standard"
        if found.text == expected:
            return "same"
        return "final dot dropped" if f"{found.text}." == expected else "another name than the standard's"
    return "both refuse" if expected is None else why_no_name(expected)


def why_no_name(expected: str) -> str:
    """Say which rule of host names the standard's output breaks; URLs there may have hosts that DNS cannot have."""
    labels = expected.removesuffix(".").split(".")
    if any(len(label) > 63 for label in labels) or len(expected.removesuffix(".")) > 253:
        return "too long for DNS"
    if "" in labels:
        return "an empty label"
    if expected.startswith("-"):
        return "begins with a hyphen"
    assert not all(character.isalnum() or character in "-_." for character in expected), expected
    return "a character that no host name has"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "toascii",
            {
                "same": 54,
                "both refuse": 19,
                "too long for DNS": 7,
                "an empty label": 2,
                "begins with a hyphen": 4,
                "a character that no host name has": 1,
            },
        ),
        (
            "IdnaTestV2",
            {
                "same": 1233,
                "both refuse": 1117,
                "final dot dropped": 107,
                "too long for DNS": 46,
                "an empty label": 120,
                "begins with a hyphen": 25,
                "a character that no host name has": 23,
            },
        ),
        ("IdnaTestV2-removed", {"both refuse": 20}),
    ],
)
def test_names_are_converted_as_the_standard_says_or_refused(name: str, expected: dict[str, int]) -> None:
    assert Counter(name_kind(row) for row in rows(name)) == expected


def test_no_row_of_any_kind_raises() -> None:
    for row in rows("IdnaTestV2") + rows("toascii"):
        for text in (row["input"], row["input"] * 3, f"{row['input']}.xn--{row['input']}"):
            assert isinstance(to_name(text), (HostName, BadName))
