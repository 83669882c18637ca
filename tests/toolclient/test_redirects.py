"""What a reply says about going elsewhere (OZ-31)."""

from __future__ import annotations

import pytest

from egress_policy.targets import Url, parse_url
from oz0_web.limits import REDIRECTS_MAX
from oz0_web.redirects import next_hop
from oz0_web.replies import ReplyHead
from oz0_web.stops import Code, Stop

pytestmark = pytest.mark.requirement("OZ-31")


def url_of(text: str) -> Url:
    url = parse_url(text)
    assert isinstance(url, Url)
    return url


HERE = url_of("https://site.example/a/b?q#f")


def head(status: int, *locations: str) -> ReplyHead:
    return ReplyHead(status, "", tuple((b"location", location.encode()) for location in locations))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_leads_to_its_location(status: int) -> None:
    assert next_hop(head(status, "/c"), HERE, ()) == url_of("https://site.example/c")


@pytest.mark.case("H18")
@pytest.mark.parametrize("status", [200, 201, 300, 304, 305, 306, 404, 503])
def test_other_statuses_lead_nowhere(status: int) -> None:
    assert next_hop(head(status, "/c"), HERE, ()) is None


def test_a_redirect_without_a_location_is_the_answer() -> None:
    assert next_hop(head(302), HERE, ()) is None


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("c", "https://site.example/a/c"),
        ("?x", "https://site.example/a/b?x"),
        ("//other.example/", "https://other.example/"),
        ("http://other.example:8080/x", "http://other.example:8080/x"),
        ("/é", "https://site.example/%C3%A9"),
        (" /c ", "https://site.example/c"),
    ],
)
def test_a_location_is_read_relative_to_the_url(location: str, expected: str) -> None:
    assert next_hop(head(302, location), HERE, ()) == url_of(expected)


@pytest.mark.parametrize(
    ("location", "code"),
    [
        ("https://good@evil.example/", Code.BAD_URL),
        ("ftp://site.example/", Code.SCHEME_REFUSED),
        ("javascript:alert(1)", Code.SCHEME_REFUSED),
        ("file:///etc/passwd", Code.SCHEME_REFUSED),
        ("https://2130706433/", Code.BAD_URL),
        ("https://exa mple/", Code.BAD_URL),
        ("https://site.example:0/", Code.BAD_URL),
        ("/" + "x" * 9_000, Code.BAD_URL),
    ],
)
def test_a_location_that_cannot_be_fetched_ends_the_chain(location: str, code: Code) -> None:
    stop = next_hop(head(302, location), HERE, ("https://first.example/",))

    assert isinstance(stop, Stop)
    assert (stop.code, stop.chain) == (code, ("https://first.example/", HERE.text))
    assert "good" not in stop.url


def test_two_different_locations_are_broken_and_two_equal_ones_are_one() -> None:
    broken = next_hop(head(302, "/c", "/d"), HERE, ())

    assert isinstance(broken, Stop)
    assert broken.code is Code.SITE_BROKE_HTTP
    assert next_hop(head(302, "/c", "/c"), HERE, ()) == url_of("https://site.example/c")


@pytest.mark.case("H16")
@pytest.mark.parametrize("location", ["/a/b?q", "/a/b?q#other", "https://first.example/"])
def test_a_url_that_was_asked_before_is_a_loop(location: str) -> None:
    stop = next_hop(head(302, location), HERE, ("https://first.example/",))

    assert isinstance(stop, Stop)
    assert (stop.code, stop.chain) == (Code.REDIRECT_LOOP, ("https://first.example/", HERE.text))


def test_five_redirects_are_followed_and_the_sixth_is_not() -> None:
    asked = [f"https://site.example/{number}" for number in range(REDIRECTS_MAX)]

    assert next_hop(head(302, "/end"), HERE, asked[:-1]) == url_of("https://site.example/end")
    stop = next_hop(head(302, "/end"), HERE, asked)
    assert isinstance(stop, Stop)
    assert (REDIRECTS_MAX, stop.code, len(stop.chain)) == (5, Code.REDIRECT_LIMIT, 6)
