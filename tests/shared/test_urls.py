"""URLs as people, pages and redirects write them."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from egress_policy.names import HostName
from egress_policy.urls import URL_MAX_LENGTH, BadUrl, Url, parse_url
from egress_policy.vocabulary import Reason


def url(text: str, base: Url | None = None) -> Url:
    found = parse_url(text, base)
    assert isinstance(found, Url), found
    return found


BASE = Url("https", HostName("example.org"), 443, "/a/b/c", "q=1", "frag")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://example.com", "http://example.com/"),
        ("HTTPS://Example.COM.:443/%7Efoo/../bar", "https://example.com/bar"),
        ("  https://example.com/ \n", "https://example.com/"),
        ("http://example.com:8080/?#", "http://example.com:8080/?#"),
        ("http://example.com:/", "http://example.com/"),
        ("http://example.com:00443/", "http://example.com:443/"),
        ("https://bücher.de/ü?ü#ü", "https://xn--bcher-kva.de/%C3%BC?%C3%BC#%C3%BC"),
        ("http://10.0.0.7/", "http://10.0.0.7/"),
        ("http://[2001:DB8:0::1]:80/", "http://[2001:db8::1]/"),
        ("http://h/a/./b/%2e%2E/c/.%2e/%2e", "http://h/a/"),
        ("http://h/../../x", "http://h/x"),
        ("http://h/a//../b", "http://h/a/b"),
        ("http://h/a/b/..", "http://h/a/"),
        ("http://h/a\\b\\..\\c", "http://h/a/c"),
        ("http://h/a b<c>\"d`e{f}g^h|i'j", "http://h/a%20b%3Cc%3E%22d%60e%7Bf%7Dg%5Eh|i'j"),
        ("http://h/?a b<c>\"d`e{f}g^h|i'j\\k", "http://h/?a%20b%3Cc%3E%22d`e{f}g^h|i%27j%5Ck"),
        ("http://h/#a b<c>\"d`e{f}'", "http://h/#a%20b%3Cc%3E%22d%60e{f}'"),
        ("http://h/x/a\tb\nc?d\re", "http://h/x/abc?de"),
        ("http://h/%zz%", "http://h/%zz%"),
        ("http://h/\ud800", "http://h/%EF%BF%BD"),
        ("http://h/x/\x00\x01\x7f", "http://h/x/%00%01%7F"),
        ("http://ex\u00adample.com/", "http://example.com/"),
    ],
)
def test_an_absolute_url_gets_one_form(text: str, expected: str) -> None:
    found = url(text)

    assert found.text == expected
    assert url(found.text) == found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "https://example.org/a/b/c?q=1"),
        ("#x", "https://example.org/a/b/c?q=1#x"),
        ("?x", "https://example.org/a/b/c?x"),
        ("?", "https://example.org/a/b/c?"),
        ("d", "https://example.org/a/b/d"),
        ("d/", "https://example.org/a/b/d/"),
        (".", "https://example.org/a/b/"),
        ("..", "https://example.org/a/"),
        ("../../../../x", "https://example.org/x"),
        ("/x", "https://example.org/x"),
        ("/x//y", "https://example.org/x//y"),
        ("//other.example/x", "https://other.example/x"),
        ("//other.example:8443", "https://other.example:8443/"),
        ("http://other.example/", "http://other.example/"),
        ("x:y/../z", "unsupported"),
        ("./x:y", "https://example.org/a/b/x:y"),
        ("d?x#y?z", "https://example.org/a/b/d?x#y?z"),
        ("d#y#z", "https://example.org/a/b/d#y#z"),
        ("images\\logo.png", "https://example.org/a/b/images/logo.png"),
    ],
)
def test_a_relative_url_is_resolved(text: str, expected: str) -> None:
    found = parse_url(text, BASE)

    if expected == "unsupported":
        assert isinstance(found, BadUrl)
        assert found.reason is Reason.UNSUPPORTED_SCHEME
    else:
        assert isinstance(found, Url)
        assert found.text == expected


@pytest.mark.requirement("OZ-31")
@pytest.mark.case("D18")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("http://good@127.0.0.1/", Reason.MALFORMED_TARGET),
        ("http://@h/", Reason.MALFORMED_TARGET),
        ("http://h\\@e/", Reason.MALFORMED_TARGET),
        ("http:\\\\h/", Reason.MALFORMED_TARGET),
        ("\\\\h/", Reason.MALFORMED_TARGET),
        ("/\\h/", Reason.MALFORMED_TARGET),
        ("///h/", Reason.MALFORMED_TARGET),
        ("http:///h/", Reason.MALFORMED_TARGET),
        ("http:/h/", Reason.MALFORMED_TARGET),
        ("http:h", Reason.MALFORMED_TARGET),
        ("https:h", Reason.MALFORMED_TARGET),
        ("http://", Reason.MALFORMED_TARGET),
        ("http://:80/", Reason.MALFORMED_TARGET),
        ("http://./", Reason.MALFORMED_TARGET),
        ("http://exa\tmple.com/", Reason.MALFORMED_TARGET),
        ("http://exa\nmple.com/", Reason.MALFORMED_TARGET),
        ("ht\ntp://example.com/", Reason.MALFORMED_TARGET),
        ("http:/\t/example.com/", Reason.MALFORMED_TARGET),
        ("/\t/example.com/", Reason.MALFORMED_TARGET),
        ("http://exam ple.com/", Reason.MALFORMED_TARGET),
        ("http://%65xample.com/", Reason.MALFORMED_TARGET),
        ("http://example.com%00/", Reason.MALFORMED_TARGET),
        ("http://example.com%2f@e/", Reason.MALFORMED_TARGET),
        ("http://[fe80::1%25eth0]/", Reason.SCOPED_IP),
        ("http://[fe80::1%eth0]/", Reason.SCOPED_IP),
        ("http://[127.0.0.1]/", Reason.MALFORMED_TARGET),
        ("http://[::1/", Reason.MALFORMED_TARGET),
        ("http://::1/", Reason.MALFORMED_TARGET),
        ("http://2130706433/", Reason.MALFORMED_TARGET),
        ("http://0177.0.0.1/", Reason.MALFORMED_TARGET),
        ("http://0x7f.0.0.1/", Reason.MALFORMED_TARGET),
        ("http://127.1/", Reason.MALFORMED_TARGET),
        ("http://0/", Reason.MALFORMED_TARGET),
        ("http://127.0.0.1./", Reason.MALFORMED_TARGET),
        ("http://１２７.0.0.1/", Reason.MALFORMED_TARGET),
        ("http://127。0。0。1/", Reason.MALFORMED_TARGET),
        ("http://①②⑦.0.0.1/", Reason.MALFORMED_TARGET),
        ("http://h:0/", Reason.MALFORMED_PORT),
        ("http://h:65536/", Reason.MALFORMED_PORT),
        ("http://h:000080/", Reason.MALFORMED_PORT),
        ("http://h:+80/", Reason.MALFORMED_PORT),
        ("http://h:８０/", Reason.MALFORMED_PORT),
        ("http://ü:٨٠/", Reason.MALFORMED_PORT),
        ("http://" + "a" * 64 + ".com/", Reason.MALFORMED_TARGET),
        ("http://" + "ü" * 1_000 + ".com/", Reason.MALFORMED_TARGET),
        ("http://good.com／@evil.com/", Reason.MALFORMED_TARGET),
        ("http://evil.com＃.good.com/", Reason.MALFORMED_TARGET),
        ("http://-x.com/", Reason.MALFORMED_TARGET),
    ],
)
def test_a_url_that_two_readers_could_read_differently_is_refused(text: str, reason: Reason) -> None:
    found = parse_url(text, BASE)

    assert isinstance(found, BadUrl)
    assert found.reason is reason
    assert found.detail.isascii()
    assert found.detail.isprintable()


@pytest.mark.case("D16")
@pytest.mark.parametrize(
    "text",
    ["ftp://h/", "file:///etc/passwd", "gopher://h/", "javascript:alert(1)", "data:,x", "unix:/x", "blob:http://h/"],
)
def test_only_http_and_https_are_fetched(text: str) -> None:
    found = parse_url(text, BASE)

    assert isinstance(found, BadUrl)
    assert found.reason is Reason.UNSUPPORTED_SCHEME


def test_a_relative_url_without_a_base_is_none() -> None:
    for text in ("", "x", "/x", "//h/", "?x", "#x", "example.com"):
        assert isinstance(parse_url(text), BadUrl)


def test_a_url_gives_what_is_dialled_and_what_is_asked() -> None:
    found = url("https://Example.com:8443/a?b#c")

    assert found.target.authority == "example.com:8443"
    assert found.target.scheme == "https"
    assert found.request_path == "/a?b"
    assert found.origin == "https://example.com:8443"
    assert url("http://[::1]/").host == ip_address("::1")
    assert url("http://h").request_path == "/"


def test_a_url_has_a_bound_before_and_after_its_escapes() -> None:
    assert isinstance(parse_url("http://h/" + "a" * (URL_MAX_LENGTH - 9)), Url)
    assert isinstance(parse_url("http://h/" + "a" * URL_MAX_LENGTH), BadUrl)
    assert isinstance(parse_url("http://h/" + "ü" * 20_000), BadUrl)
    assert isinstance(parse_url("x" * 40_000, url("http://h/" + "a" * 40_000 + "/")), BadUrl)


@pytest.mark.parametrize("unit", ["a", "/", "../", "\\", "?", "#", "@", ":", "[", "%2e/", "\t", "ü", ".", "a:", "//"])
def test_long_urls_of_one_kind_are_read_in_one_pass(unit: str) -> None:
    # Quadratic work over 64 KiB would take minutes here and hang the test.
    for text in (unit * (60_000 // len(unit)), "http://h/" + unit * (60_000 // len(unit)), "http://" + unit * 20_000):
        assert isinstance(parse_url(text, BASE), (Url, BadUrl))
