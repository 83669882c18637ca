"""Payloads that get other guards to reach inside: here each is refused, floor, or exactly the host that it names."""

from __future__ import annotations

from collections import Counter

import pytest

from egress_policy.addresses import AddressClass, classify
from egress_policy.names import HostName, is_floor_name, needs_exact_rule
from egress_policy.targets import AbsoluteForm, parse_absolute
from egress_policy.urls import BadUrl, Url, parse_url
from support.corpora import corpus_json, corpus_lines

# Names of the payload lists that belong to no metadata service; what they resolve to is judged by their addresses.
HARMLESS = {
    "example.com",
    "307.r3dir.me",
    "62epax5fhvj3zzmzigyoe5ipkbn7fysllvges3a.302.r3dir.me",
    "www.googleapis.com",
    "nicob.net",
    "169.254.169.254.nip.io",
}


def kind(found: Url | BadUrl) -> str:
    if isinstance(found, BadUrl):
        return "refused"
    if not isinstance(found.host, HostName):
        return classify(found.host).value
    if is_floor_name(found.host):
        return "floor"
    return "needs an exact rule" if needs_exact_rule(found.host) else found.host.text


@pytest.mark.case("A3", "A6", "A13", "B1", "B4", "B6", "B7", "D14", "D16", "D18")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ssrf_urls", {"refused": 27, "floor": 23, "needs an exact rule": 3}),
        ("cloud_metadata_urls", {"refused": 11, "floor": 62, "needs an exact rule": 3}),
    ],
)
def test_no_payload_reaches_inside(name: str, expected: dict[str, int]) -> None:
    kinds = Counter(kind(parse_url(row["url"])) for row in corpus_json(f"payloads-ssrf/{name}.json"))

    assert set(kinds) - {"refused", "floor", "needs an exact rule"} <= HARMLESS
    assert {key: count for key, count in kinds.items() if key not in HARMLESS} == expected


def test_the_proxys_own_parser_lets_no_payload_through_either() -> None:
    for name in ("ssrf_urls", "cloud_metadata_urls"):
        for row in corpus_json(f"payloads-ssrf/{name}.json"):
            found = parse_absolute(row["url"].encode())
            if isinstance(found, AbsoluteForm):
                host = found.target.host
                if isinstance(host, HostName):
                    assert is_floor_name(host) or needs_exact_rule(host) or host.text in HARMLESS, row
                else:
                    assert classify(host) is AddressClass.FLOOR, row


BASE = "https://whitelisted.example/x"
# Where the payloads of redirects lead, by host; whatever is none of these is refused or stays on the base.
REDIRECTED = {
    "open_redirect_payloads": {
        "refused": 177,
        "whitelisted.example": 40,
        "google.com": 10,
        "www.google.com": 4,
        "needs an exact rule": 5,
        "www.whitelisteddomain.tld": 1,
        "www.whitelisteddomain.tld.google.com": 1,
        "floor": 1,
        "public": 1,
    },
    "open_redirect_2": {"refused": 27, "whitelisted.example": 30, "example.com": 7, "needs an exact rule": 3},
    "crlf_injection": {"whitelisted.example": 17},
}


@pytest.mark.requirement("OZ-31")
@pytest.mark.parametrize("name", REDIRECTED)
def test_a_redirect_payload_leads_where_it_says_or_nowhere(name: str) -> None:
    base = parse_url(BASE)
    assert isinstance(base, Url)
    found = [parse_url(line, base) for line in corpus_lines(f"payloads-ssrf/{name}.txt")]

    assert Counter(map(kind, found)) == REDIRECTED[name]
    for each in found:
        if isinstance(each, Url):
            # What goes into a request line has no blank, no control character and nothing beyond ASCII.
            assert each.text.isascii()
            assert each.text.isprintable()
            assert " " not in each.text


@pytest.mark.case("D18")
def test_crlf_payloads_stay_escaped_in_the_path() -> None:
    base = parse_url(BASE)
    assert isinstance(base, Url)
    for line in corpus_lines("payloads-ssrf/crlf_injection.txt"):
        found = parse_url(line, base)
        assert isinstance(found, Url)
        assert not set(found.request_path) & {"\r", "\n", "\t", " "}
        assert isinstance(parse_absolute(f"http://h{found.request_path}".encode()), AbsoluteForm)
