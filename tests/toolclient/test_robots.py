"""robots.txt by RFC 9309: groups, rules, octets, and what two big crawlers' own tests say of them."""

from __future__ import annotations

import codecs
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress_policy.targets import Url, parse_url
from oz0_web.limits import ROBOTS_MAX_BYTES
from oz0_web.robots import Decision, decide, normalise, parse_robots, product_token
from support.corpora import corpus_file, corpus_json

TOKEN = "oz0-web"

# Cases of the corpora that are not followed, by (test, text of the rules or file, agent, URL): each with why. All
# other cases of both must pass.
GOOGLE_NOT_FOLLOWED = {
    ("GoogleOnly_AcceptUserAgentUpToFirstSpace", "Foo Bar", "http://foo.bar/x/y"): "Google's own: it never obeys a "
    "token with a space; section 2.2.1 compares the product token alone",
    ("GoogleOnly_IndexHTMLisDirectory", "foobot", "http://foo.com/allowed-slash/"): "Google's own: index.html stands "
    "for its folder; section 2.2.2 knows no such thing",
    ("ID_Encoding", "FooBot", "http://foo.bar/foo/bar/ツ"): "section 2.2.2: octets of the URI outside ASCII are "
    "percent-encoded before they are compared",
    ("ID_Encoding", "FooBot", "http://foo.bar/foo/bar/baz"): "section 2.2.2, last row of its table: /foo/bar/%62%61%7A "
    "matches /foo/bar/baz",
}
COMMONS_NOT_FOLLOWED = {
    ("testHeritrixCases", "Mozilla allowbot2 99.9", "http://www.domain.com/foo"): "section 2.2.1: a product token, "
    "not a whole field in which one is looked for",
    ("testHeritrixCases", "Mozilla denybot 99.9", "http://www.domain.com/path"): "section 2.2.1, the same",
    ("testHeritrixCases", "Mozilla denybot 99.9", "http://www.domain.com/"): "section 2.2.1, the same",
    ("testBigCrawlDelay", "bixo", "http://www.domain.com/"): "its own: a delay over a setting of the crawler refuses "
    "the site; section 2.2.4: other records do not interfere with rules",
    ("testPrecedenceOfRules", "wget", "http://domain.com/"): "section 2.2.3: a star is zero characters too, so /* "
    "matches / and is the longer rule (section 2.2.2)",
}


def said(rules: str | bytes, path: str, token: str = TOKEN) -> bool:
    return decide(rules, token, path).is_allowed


def asked_path(url: str) -> str | None:
    parsed = parse_url(url)
    return parsed.request_path if isinstance(parsed, Url) else None


def wrong_cases(cases: list[dict[str, Any]], not_followed: dict[tuple[str, str, str], str]) -> tuple[list[Any], int]:
    """Give the cases that differ, and how many of the exceptions were met."""
    wrong, met = [], set()
    for case in cases:
        path = asked_path(case["url"])
        if path is None:
            # An empty URL is no URL; Google's own tests of its own function.
            assert case["google_specific"]
            assert not case["url"]
            continue
        rules = corpus_file(f"crawler-commons/{case['file']}").read_bytes() if "file" in case else case["robots"]
        if said(rules, path, case["agent"]) != case["allowed"]:
            key = (case["test"], case["agent"], case["url"])
            if key in not_followed:
                met.add(key)
            else:
                wrong.append(case)
    return wrong, len(met)


@pytest.mark.case("R16", "R21", "R23", "R25")
def test_all_of_googles_cases_pass_but_its_own_and_those_against_the_rfc() -> None:
    cases = corpus_json("google-robots/cases.json")

    assert wrong_cases(cases, GOOGLE_NOT_FOLLOWED) == ([], len(GOOGLE_NOT_FOLLOWED))
    assert len(cases) == 142


def test_googles_cases_of_paths_and_escapes_pass() -> None:
    rows = corpus_json("google-robots/path_and_escape.json")

    for row in rows["path_params_query"]:
        path = asked_path(row["url"])
        # Rows without a scheme are not URLs here.
        assert path is None or path == row["path"]
    for row in rows["escape_pattern"]:
        assert normalise(row["in"].encode(), is_pattern=True) == row["out"].encode()


@pytest.mark.case("R7", "R22")
def test_all_of_crawler_commons_cases_pass_but_its_own_and_those_against_the_rfc() -> None:
    cases = corpus_json("crawler-commons/robots_cases.json")

    assert wrong_cases(cases, COMMONS_NOT_FOLLOWED) == ([], len(COMMONS_NOT_FOLLOWED))
    assert len(cases) == 237


@pytest.mark.requirement("OZ-33")
def test_a_decision_names_its_rule_its_line_and_its_group() -> None:
    rules = (
        "# ours\nUser-agent: oz0-web\nDisallow: /private/ # keep out\nAllow: /private/open\n\n"
        "User-agent: *\nDisallow: /"
    )

    assert decide(rules, TOKEN, "/private/a") == Decision(
        is_allowed=False, rule="Disallow: /private/", line=3, agent="oz0-web"
    )
    assert decide(rules, TOKEN, "/private/open/a") == Decision(
        is_allowed=True, rule="Allow: /private/open", line=4, agent="oz0-web"
    )
    assert decide(rules, TOKEN, "/else") == Decision(is_allowed=True, agent="oz0-web")
    assert decide(rules, "other", "/else") == Decision(is_allowed=False, rule="Disallow: /", line=7, agent="*")
    assert decide("", TOKEN, "/") == Decision(is_allowed=True)


@pytest.mark.requirement("OZ-33")
@pytest.mark.parametrize(
    ("agents", "is_allowed"),
    [
        ("oz0-web", False),
        ("OZ0-WEB", False),
        ("oz0-web/1.0", False),
        ("oz0-web (agents)", False),
        ("*", False),
        ("* all of you", False),
        ("other\nUser-agent: oz0-web", False),
        ("oz0-webber", True),
        ("oz0", True),
        ("oz", True),
        ("web", True),
        ("", True),
    ],
)
def test_a_group_counts_by_its_whole_token_in_any_case(agents: str, is_allowed: bool) -> None:
    assert said(f"User-agent: {agents}\nDisallow: /", "/a") is is_allowed


@pytest.mark.case("R13", "R21", "R25")
def test_groups_of_one_token_are_one_and_the_star_counts_only_without_any() -> None:
    rules = (
        "Disallow: /first\nUser-agent: oz0-web\nDisallow: /a\nUser-agent: *\nDisallow: /b\n"
        "Sitemap: /s.xml\nUser-agent: oz0-web\nCrawl-delay: 5\nUser-agent: other\nDisallow: /c\n"
    )

    assert [said(rules, path) for path in ("/first", "/a", "/b", "/c")] == [True, False, True, False]
    assert [said(rules, path, "third") for path in ("/first", "/a", "/b", "/c")] == [True, True, False, True]


@pytest.mark.case("R8", "R10", "R11", "R12", "R14", "R15", "R16")
@pytest.mark.parametrize(
    ("rules", "path", "is_allowed"),
    [
        ("Disallow: /*s=", "/?s=asd", False),
        ("Allow: /*/filter/page=*/$\nDisallow: /", "/a/filter/page=2/", True),
        ("Disallow: /admin\nAllow: /admin/public", "/admin/public", True),
        ("Disallow: /page\nAllow: /page", "/page", True),
        ("Disallow: */test", "/a/test", False),
        ("Disallow: */test", "/a/tes", True),
        ("Disallow: /users/*/replies", "/users/7/replies", False),
        ("Disallow: /users/*/replies", "/users/7", True),
        ("Disallow: /*.php$", "/a.php", False),
        ("Disallow: /*.php$", "/a.php?x", True),
        ("Disallow: /a$", "/a", False),
        ("Disallow: /a$", "/ab", True),
        ("Disallow: /a*$", "/ab", False),
        ("Disallow: /ab*ba$", "/aba", True),
        ("Disallow: /a$b", "/a$b", False),
        ("Disallow: /file-%2A.html", "/file-*.html", False),
        ("Disallow: /file-%2A.html", "/file-1.html", True),
        ("Disallow: /a-%24", "/a-$", False),
        ("Disallow: /a%2Fb", "/a/b", True),
        ("Disallow: /a%2fb", "/a%2Fb", False),
        ("Disallow: /%7Ejoe", "/~joe", False),
        ("Disallow: /~joe", "/%7ejoe", False),
        ("Disallow: /foo/bar/ツ", "/foo/bar/%E3%83%84", False),
        ("Disallow: /foo?u=https://foo.bar", "/foo?u=https%3A%2F%2Ffoo.bar", False),
        ("Disallow: /%", "/%", False),
        ("Disallow:", "/a", True),
        ("Disallow: /\nAllow:", "/a", False),
        ("Disallow: /", "/robots.txt", True),
        ("Disallow: /", "/robots.txt?a", False),
        ("Disallow: /", "", False),
        ("Disallow: relative", "/relative", True),
        ("dissallow /a", "/a", False),
        ("DISALLOW : /a", "/a", False),
        ("Disallow: /a<br>", "/a", False),
        ("please disallow us", "/a", True),
    ],
)
def test_patterns_match_by_octets_with_stars_and_an_end(rules: str, path: str, is_allowed: bool) -> None:
    assert said(f"User-agent: *\n{rules}", path) is is_allowed


@pytest.mark.case("R7")
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    ("mark", "codec"),
    [(codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")],
)
def test_marks_and_line_ends_of_every_kind_are_read(mark: bytes, codec: str, end: str) -> None:
    data = mark + end.join(["User-agent: *", "", "Disallow: /ä"]).encode(codec)

    assert decide(data, TOKEN, "/ä").line == 3


def test_bytes_that_are_not_utf_8_are_compared_as_they_are() -> None:
    data = b"User-agent: *\nDisallow: /m\xfcller"

    assert not decide(data, TOKEN, "/m%FCller").is_allowed
    assert decide(data, TOKEN, "/m%C3%BCller").is_allowed


@pytest.mark.case("R19")
def test_what_stands_after_the_first_500_kib_is_not_read() -> None:
    head = "User-agent: *\nDisallow: /a\n"
    filler = "#" * (ROBOTS_MAX_BYTES - len(head) - 1) + "\n"

    assert not said(head + filler + "Disallow: /b", "/a")
    assert said(head + filler + "Disallow: /b", "/b")


def test_site_maps_are_kept_and_belong_to_no_group() -> None:
    rules = "Sitemap: https://a.example/1.xml\nUser-agent: *\nsitemap : /2.xml # two\nDisallow: /"

    assert parse_robots(rules).sitemaps == ("https://a.example/1.xml", "/2.xml")
    assert not said(rules, "/a")


@pytest.mark.case("H25")
def test_a_page_in_place_of_rules_allows_everything() -> None:
    assert said("<!doctype html><html><head><title>Home</title></head><body>Hello: there</body></html>", "/a")


@pytest.mark.parametrize(
    "rules",
    [
        "User-agent: *\nDisallow: /" + "*a" * 200_000 + "$",
        "<" * 500_000,
        "User-agent: *\n" + "Disallow: /*a*b*c\n" * 20_000,
        "a " * 250_000,
        "User-agent: a\n" * 18_000 + "Disallow: /b\n" * 18_000,
        "%" * 500_000,
    ],
    ids=["stars", "tags", "rules", "words", "agents", "percents"],
)
@pytest.mark.slow
def test_no_file_takes_long(rules: str) -> None:
    began = time.process_time()
    said(rules, "/" + "ab" * 4_000)

    assert time.process_time() - began < 2


@given(st.binary(max_size=300), st.text(max_size=20), st.text(max_size=40))
def test_any_bytes_give_a_decision(data: bytes, token: str, path: str) -> None:
    found = decide(data, token, path)

    assert found.is_allowed or found.rule is not None


@given(st.text(alphabet="/ab%2A*$?=é", max_size=30))
def test_a_path_is_matched_by_its_own_normal_form(path: str) -> None:
    pattern = normalise(f"/{path}".encode()).decode("ascii")

    assert not said(f"User-agent: *\nDisallow: {pattern}$", f"/{path}")


@pytest.mark.parametrize(
    ("value", "token"), [(b"oz0-web/1", "oz0-web"), (b" Foo_Bar x", "foo_bar"), (b"*", ""), (b"", ""), (b"/x", "")]
)
def test_a_product_token_ends_at_the_first_other_character(value: bytes, token: str) -> None:
    assert product_token(value) == token
