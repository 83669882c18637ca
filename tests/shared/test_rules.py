"""List files: everything that is wrong is told at once, and what can never take effect too."""

from __future__ import annotations

import pytest

from egress_policy.rules import (
    BadRule,
    ListKind,
    Problem,
    Rule,
    RuleForm,
    RuleList,
    SuffixKind,
    parse_endpoint,
    parse_list,
)

SUFFIXES = {"com": SuffixKind.ICANN, "co.uk": SuffixKind.ICANN, "github.io": SuffixKind.PRIVATE}


def read(text: str, kind: ListKind = ListKind.TENANT) -> tuple[RuleList, tuple[Problem, ...]]:
    return parse_list(text, kind=kind, source="tenants/default.list", is_public_suffix=SUFFIXES.get)


def severities(text: str, kind: ListKind = ListKind.TENANT) -> list[str]:
    return [problem.severity for problem in read(text, kind)[1]]


def test_a_list_is_one_rule_a_line_with_comments() -> None:
    made, problems = read(
        "# what the agents read\n"
        "\n"
        "docs.python.org\n"
        "*.wikipedia.org   # any language\n"
        "\t10.0.0.7:8080\t#searx\r\n"
        "! ads.example.com\n"
        "   # indented\n"
        "#docs.example.com"
    )

    assert problems == ()
    assert [rule.text for rule in made.rules] == [
        "docs.python.org",
        "*.wikipedia.org",
        "10.0.0.7:8080",
        "! ads.example.com",
    ]
    assert (made.kind, made.source, made.methods, made.sni) == (
        ListKind.TENANT,
        "tenants/default.list",
        None,
        "enforce",
    )


@pytest.mark.requirement("OZ-26")
@pytest.mark.case("D2")
@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", " \t\r\n"])
def test_an_empty_list_is_a_list_without_rules(text: str) -> None:
    made, problems = read(text)

    assert (made.rules, problems) == ((), ())


def test_settings_of_a_list_may_stand_anywhere_in_it() -> None:
    made, problems = read('a.example\nmethods = ["GET", "HEAD"]  # read only\nsni="count"\n')

    assert problems == ()
    assert made.methods == frozenset({"GET", "HEAD"})
    assert made.sni == "count"
    assert read("methods = []\n")[0].methods == frozenset()
    assert read('methods=[ "GET" , ]\n')[0].methods == frozenset({"GET"})
    assert read('methods = ["M-SEARCH"]')[0].methods == frozenset({"M-SEARCH"})


@pytest.mark.case("H8")
@pytest.mark.parametrize(
    "line",
    [
        'methods = "GET"',
        "methods = GET",
        'methods = ["get"]',
        'methods = ["GET" "HEAD"]',
        'methods = ["GET", "HEAD"',
        'methods = ["CONNECT"]',
        'methods = [""]',
        'methods = ["G T"]',
        "methods = [,]",
        'methods = ["GET"] x',
        'sni = "maybe"',
        "sni = count",
        "sni =",
        'method = ["GET"]',
        'ech = "refuse"',
        "x=1",
    ],
)
def test_an_odd_setting_is_an_error_and_not_passed_over(line: str) -> None:
    assert severities(f"a.example\n{line}\n") == ["error"]


def test_a_setting_given_twice_is_an_error() -> None:
    assert severities('methods = ["GET"]\nmethods = ["GET", "POST"]\n') == ["error"]
    assert severities('sni = "off"\nsni = "count"\n') == ["error"]


def test_all_problems_come_at_once_with_line_column_found_and_what_to_write() -> None:
    made, problems = read("good.example\n  a*.b.example\nhttps://docs.python.org/3\ngood.example\n10.0.0.7/24 # x\n")

    assert [(each.line, each.column, each.found, each.write_instead, each.severity) for each in problems] == [
        (2, 3, "a*.b.example", "*.b.example", "error"),
        (3, 1, "https://docs.python.org/3", "docs.python.org", "error"),
        (4, 1, "good.example", "one of the two", "warning"),
        (5, 1, "10.0.0.7/24", "10.0.0.0/24", "error"),
    ]
    assert all(each.source == "tenants/default.list" and each.problem for each in problems)
    assert [rule.text for rule in made.rules] == ["good.example", "good.example"]


def test_the_column_points_at_the_part_that_is_wrong() -> None:
    assert read("h.example:8O80")[1][0].column == 11
    assert read("h.example until=soon")[1][0].column == 11


@pytest.mark.case("D7")
@pytest.mark.parametrize(
    "line", ["*.", "*.*", "*.com", "foo.*.com", "ex*mple.com", ".com", "*.co.uk", ".co.uk", "*.dev"]
)
def test_case_d7_over_broad_and_odd_stars_are_errors_at_load(line: str) -> None:
    assert severities(line) == ["error"]


def test_a_star_alone_is_written_out_and_taken() -> None:
    made, problems = read("*")

    assert problems == ()
    assert made.rules[0].form is RuleForm.ANY


def test_everybody_under_a_private_suffix_is_a_warning() -> None:
    assert severities("*.github.io") == ["warning"]
    assert severities(".github.io:8080") == ["warning"]
    assert severities("me.github.io") == []
    assert severities("*.me.github.io") == []


def test_a_deny_may_be_as_broad_as_it_likes() -> None:
    assert severities("! *.com\n! .github.io\n! *\n! .internal\n! 127.0.0.1\n! 0.0.0.0/0") == []


def test_without_the_suffix_function_single_labels_are_still_refused() -> None:
    _, problems = parse_list("*.com\n*.co.uk\n", kind=ListKind.PLUGIN, source="p")

    assert [(each.line, each.severity) for each in problems] == [(1, "error")]


@pytest.mark.parametrize(
    "line",
    [
        "127.0.0.1",
        "169.254.169.254:80",
        "168.63.129.16",
        "127.0.0.0/8",
        "[::1]",
        "[fe80::/10]",
        "[::ffff:127.0.0.1]",
        "localhost",
        "a.localhost:8080",
        "*.localhost",
        "metadata.google.internal",
        "host.docker.internal",
        "*.docker.internal",
        "*.internal",
        ".svc",
        "*.cluster.local",
        ".home.arpa",
    ],
)
def test_an_allow_that_can_never_take_effect_is_a_warning(line: str) -> None:
    _, problems = read(line)

    assert [problem.severity for problem in problems] == ["warning"]
    assert "never take effect" in problems[0].problem


@pytest.mark.parametrize(
    "line", ["10.0.0.7", "10.0.0.0/8", "0.0.0.0/0", "::/0", "searx.internal", "printer", "nas.home.arpa", "[fd00::1]"]
)
def test_what_a_tenant_may_allow_is_no_problem_and_for_a_plugin_it_may_be(line: str) -> None:
    assert severities(line) == []
    if line not in {"0.0.0.0/0", "::/0"}:
        assert severities(line, ListKind.PLUGIN) == ["warning"]


def test_an_allow_in_the_shadow_of_a_deny_is_a_warning() -> None:
    _, problems = read("a.example\nb.example:8080\n! *.example\nc.other\n")

    assert [(each.line, each.severity) for each in problems] == [(1, "warning"), (2, "warning")]
    assert "! *.example" in problems[0].problem


@pytest.mark.parametrize(
    "line",
    [
        "good.example\rbad.example",
        "good.example\x0bbad.example",
        "good.example\x0cbad.example",
        "good.example\x85bad.example",
        "good.example\u2028bad.example",
        "good.example \x1b[1A# hidden",
        "good.example\x00",
        "# a comment\x1b[2K",
    ],
)
def test_a_control_character_anywhere_is_an_error(line: str) -> None:
    made, problems = read(line)

    assert [problem.severity for problem in problems] == ["error"]
    assert made.rules == ()
    assert problems[0].found.isprintable()


def test_a_number_sign_inside_a_word_is_no_comment() -> None:
    assert severities("h.example#fragment") == ["error"]
    assert severities("h.example #fragment") == []


def test_a_big_list_is_read_in_one_pass() -> None:
    made, problems = read("".join(f"h{number}.t{number % 100}.example\n" for number in range(20_000)))

    assert len(made.rules) == 20_000
    assert problems == ()


@pytest.mark.parametrize("text", ["searx.internal:8080", "10.0.0.7:443", "[fd00::7]:8080"])
def test_an_endpoint_is_one_host_and_one_port(text: str) -> None:
    assert isinstance(parse_endpoint(text), Rule)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "searx.internal",
            "*.internal:80",
            ".internal:80",
            "*:80",
            "10.0.0.0/24:80",
            "! searx.internal:80",
            "x:80-90",
        ),
        *("searx.internal:*", "searx.internal:80 sni=off", "searx.internal:80 until=2026-01-01T00:00:00Z", "", "a b"),
    ],
)
def test_everything_else_is_no_endpoint(text: str) -> None:
    assert isinstance(parse_endpoint(text), BadRule)
