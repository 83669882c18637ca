"""Pages that go elsewhere by themselves: what a refresh says, which one counts, and when it is followed."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress_policy.targets import Url, parse_url
from oz0_web.limits import REFRESH_MAX_SECONDS, REFRESH_PRESCAN_BYTES
from oz0_web.refresh import Refresh, next_refresh, parse_refresh
from oz0_web.stops import Code, Stop
from support.corpora import corpus_json

HERE = "https://a.example/dir/page"
HTML = "text/html; charset=utf-8"


def url_of(text: str) -> Url:
    url = parse_url(text)
    assert isinstance(url, Url)
    return url


def led(
    page: str | bytes, *, kind: str | None = HTML, field: str | None = None, chain: tuple[str, ...] = ()
) -> str | Code | None:
    data = page.encode() if isinstance(page, str) else page
    found = next_refresh(data, kind, field, url_of(HERE), chain)
    if isinstance(found, Stop):
        return found.code
    return found.text if found is not None else None


def meta(content: str, more: str = "") -> str:
    return f"<!doctype html><title>x</title>{more}<meta http-equiv=refresh content='{content}'><p>Redirecting…"


def test_all_contents_of_the_web_platform_tests_are_read_as_browsers_do() -> None:
    for case in corpus_json("wpt-meta-refresh/cases.json"):
        expected = case["refresh"]
        assert parse_refresh(case["content"]) == (Refresh(**expected) if expected else None), case


@pytest.mark.case("H17")
@pytest.mark.parametrize(
    ("page", "target"),
    [
        (meta("0;URL=en/index.html"), "https://a.example/dir/en/index.html"),
        (meta("0; url=https://b.example/x"), "https://b.example/x"),
        (meta(f"{REFRESH_MAX_SECONDS};url=/x"), "https://a.example/x"),
        (meta(f"{REFRESH_MAX_SECONDS + 1};url=/x"), None),
        (meta("99999999999999999999;url=/x"), None),
        (meta("0"), None),
        (meta("0;url=page#part"), None),
        (meta("0;url=intent://scan#Intent;end"), None),
        (meta("0;url=javascript:alert(1)"), None),
        (meta("0;url=https://user:pw@b.example/"), None),
        (meta("0;url=x", "<base href=/other/>"), "https://a.example/other/x"),
        (meta("0;url=x", "<base target=_top><base href=https://b.example/><base href=/z/>"), "https://b.example/x"),
        (meta("nonsense", "<meta http-equiv=Refresh content='0;url=first'>"), "https://a.example/dir/first"),
        ("<META HTTP-EQUIV=' REFRESH ' CONTENT='0;url=x'>", "https://a.example/dir/x"),
        ("<noscript><meta http-equiv=refresh content='0;url=x'></noscript>", None),
        ("<template><meta http-equiv=refresh content='0;url=x'></template>", None),
        ("<!-- <meta http-equiv=refresh content='0;url=x'> -->", None),
        ("<script>'<meta http-equiv=refresh content=0;url=x>'</script>", None),
        ("<textarea><meta http-equiv=refresh content='0;url=x'></textarea>", None),
        (meta("0;url=ü"), "https://a.example/dir/%C3%BC"),
        ("<p>about the refresh of things", None),
        (" " * REFRESH_PRESCAN_BYTES + meta("0;url=x"), None),
    ],
)
def test_the_first_refresh_of_a_page_is_followed_when_its_delay_is_small(page: str, target: str | None) -> None:
    assert led(page) == target


def test_a_page_in_another_encoding_is_read_in_it() -> None:
    assert led(meta("0;url=ü").encode("utf-16")) == "https://a.example/dir/%C3%BC"
    assert led(meta("0;url=ü").encode("cp1252"), kind="text/html; charset=latin1") == "https://a.example/dir/%C3%BC"


@pytest.mark.parametrize("kind", ["text/plain", "application/json", "application/pdf", None])
def test_only_html_refreshes_itself(kind: str | None) -> None:
    assert led(meta("0;url=x"), kind=kind) is None


def test_the_field_says_the_same_as_the_element_and_comes_first() -> None:
    assert led(b"", kind="text/plain", field="0; url=/x") == "https://a.example/x"
    assert led(meta("0;url=/element"), field="0;url=/field") == "https://a.example/field"
    assert led(meta("0;url=/element"), field="soon") == "https://a.example/element"


@pytest.mark.requirement("OZ-31")
def test_a_refresh_counts_as_a_redirect() -> None:
    chain = tuple(f"https://a.example/{number}" for number in range(5))

    assert led(meta("0;url=x"), chain=chain[:4]) == "https://a.example/dir/x"
    assert led(meta("0;url=x"), chain=chain) is Code.REDIRECT_LIMIT
    assert led(meta("0;url=/3"), chain=chain[:4]) is Code.REDIRECT_LOOP


@pytest.mark.slow
@pytest.mark.parametrize("content", ["0" * 1_000_000, "0." * 500_000, "0" + " " * 1_000_000, "0;url" + " " * 1_000_000])
def test_no_content_takes_long(content: str) -> None:
    began = time.process_time()
    parse_refresh(content)

    assert time.process_time() - began < 0.5


@given(st.text(alphabet="0123456789.;, \turlURL='\"ax", max_size=40))
def test_any_content_is_a_refresh_or_none(content: str) -> None:
    found = parse_refresh(content)

    assert found is None or found.seconds >= 0
