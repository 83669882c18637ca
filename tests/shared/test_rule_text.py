"""One rule: every form, every option, and what is said of a text that is none."""

from __future__ import annotations

from datetime import UTC, datetime
from ipaddress import ip_network

import pytest

from egress_policy.rule_text import BadRule, Rule, RuleForm, parse_rule, shown


def rule(text: str) -> Rule:
    found = parse_rule(text)
    assert isinstance(found, Rule), found
    return found


@pytest.mark.requirement("OZ-27")
@pytest.mark.parametrize(
    ("text", "form", "name"),
    [
        ("docs.python.org", RuleForm.NAME, "docs.python.org"),
        ("Docs.Python.ORG.", RuleForm.NAME, "docs.python.org"),
        ("localhost", RuleForm.NAME, "localhost"),
        ("*.wikipedia.org", RuleForm.BELOW, "wikipedia.org"),
        ("*.Wikipedia.org.", RuleForm.BELOW, "wikipedia.org"),
        (".example.com", RuleForm.SUFFIX, "example.com"),
        ("*", RuleForm.ANY, None),
        ("bücher.de", RuleForm.NAME, "xn--bcher-kva.de"),
        ("*.faß.de", RuleForm.BELOW, "xn--fa-hia.de"),
    ],
)
def test_a_rule_names_a_host_or_those_below(text: str, form: RuleForm, name: str | None) -> None:
    found = rule(text)

    assert (found.form, found.name, found.network, found.deny) == (form, name, None, False)
    assert found.is_exact is (form is RuleForm.NAME)


@pytest.mark.requirement("OZ-27")
@pytest.mark.parametrize(
    ("text", "form", "network"),
    [
        ("10.0.0.7", RuleForm.ADDRESS, "10.0.0.7/32"),
        ("10.0.0.0/24", RuleForm.NETWORK, "10.0.0.0/24"),
        ("10.0.0.7/32", RuleForm.NETWORK, "10.0.0.7/32"),
        ("0.0.0.0/0", RuleForm.NETWORK, "0.0.0.0/0"),
        ("[2606:4700::1]", RuleForm.ADDRESS, "2606:4700::1/128"),
        ("[2606:4700::]/32", RuleForm.NETWORK, "2606:4700::/32"),
        ("[2606:4700::/32]", RuleForm.NETWORK, "2606:4700::/32"),
        ("2606:4700::/32", RuleForm.NETWORK, "2606:4700::/32"),
        ("::/0", RuleForm.NETWORK, "::/0"),
        ("[::ffff:10.0.0.7]", RuleForm.ADDRESS, "10.0.0.7/32"),
        ("[::ffff:10.0.0.0/120]", RuleForm.NETWORK, "10.0.0.0/24"),
    ],
)
def test_a_rule_names_an_address_or_a_network_and_mapped_ones_fold(text: str, form: RuleForm, network: str) -> None:
    found = rule(text)

    assert (found.form, found.name, found.network) == (form, None, ip_network(network))


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("h.example", ((80, 80), (443, 443))),
        ("! h.example", ((1, 65535),)),
        ("h.example:8080", ((8080, 8080),)),
        ("h.example:8000-8099", ((8000, 8099),)),
        ("h.example:*", ((1, 65535),)),
        ("! h.example:8080", ((8080, 8080),)),
        ("*:8080", ((8080, 8080),)),
        ("*.h.example:1-65535", ((1, 65535),)),
        ("10.0.0.7:8080", ((8080, 8080),)),
        ("10.0.0.0/24:8080", ((8080, 8080),)),
        ("[::1]:8080", ((8080, 8080),)),
        ("[2606:4700::/32]:8080", ((8080, 8080),)),
        ("[2606:4700::]/32:8080-8081", ((8080, 8081),)),
        ("2606:4700::/32:443", ((443, 443),)),
    ],
)
def test_ports_follow_the_place_and_have_a_default_of_their_own(text: str, spans: tuple[tuple[int, int], ...]) -> None:
    found = rule(text)

    assert found.spans == spans
    for first, last in spans:
        assert found.covers_port(first)
        assert found.covers_port(last)
        assert not found.covers_port(first - 1)
    if spans[-1][1] < 65535:
        assert not found.covers_port(spans[-1][1] + 1)


@pytest.mark.parametrize("text", ["!bad.example", "! bad.example", "  !\t bad.example  "])
def test_a_bang_makes_a_deny_rule(text: str) -> None:
    found = rule(text)

    assert (found.deny, found.name, found.text) == (True, "bad.example", "! bad.example")


def test_options_follow_the_rule() -> None:
    found = rule("ssh.github.com:443 sni=off   until=2026-12-01T10:00:00Z")

    assert found.sni == "off"
    assert found.expires == datetime(2026, 12, 1, 10, tzinfo=UTC).timestamp()
    assert found.text == "ssh.github.com:443 sni=off until=2026-12-01T10:00:00Z"
    assert found.is_in_force(found.expires - 0.001)
    assert not found.is_in_force(found.expires)
    assert rule("h.example").is_in_force(1e18)


@pytest.mark.parametrize(
    "text",
    [
        "h.example",
        "! *.h.example:8000-8099",
        "[2606:4700::]/32:443",
        "*:*",
        "bücher.de sni=count",
        ".h.example until=2026-01-01T00:00:00Z",
    ],
)
def test_the_text_of_a_rule_gives_the_rule_again(text: str) -> None:
    found = rule(text)

    assert rule(found.text) == found


@pytest.mark.case("D7")
@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("*.", None),
        (".", None),
        ("*.*", None),
        ("**", None),
        ("*com", None),
        ("foo.*.com", "*.com"),
        ("ex*mple.com", "*.com"),
        ("a*.b.example", "*.b.example"),
        ("*bob.example.com", "*.example.com"),
        ("bob.ex*ample.com", "*.com"),
        ("*.*.example.com", "*.example.com"),
        ("*..example.com", None),
        (".*.example.com", "*.example.com"),
        ("..example.com", None),
    ],
)
def test_case_d7_a_star_stands_only_as_the_whole_first_label(text: str, instead: str | None) -> None:
    found = parse_rule(text)

    assert isinstance(found, BadRule)
    if instead is not None:
        assert found.write_instead == instead


@pytest.mark.case("D3")
@pytest.mark.parametrize("text", ["h.example..", "*.h.example..", ".h.example..", "h..example"])
def test_two_dots_make_no_rule(text: str) -> None:
    assert isinstance(parse_rule(text), BadRule)


@pytest.mark.case("D14", "A3", "D10", "D12")
@pytest.mark.parametrize(
    "text",
    [
        *("", "   ", "!", "! ", "!!h.example", "! !h.example", "! ! h.example"),
        *("127.1", "0x7f000001", "2130706433", "0177.0.0.1", "１２７.0.0.1", "10.0.0.256", "10.0.0.7."),
        *(
            "10.0.0.7/24",
            "10.0.0.0/33",
            "10.0.0.0/24:0",
            "10.0.0.0/-1",
            "10.0.0.0/",
            "10.0.0.0/255.0.0.0",
            "10.0.0.0/ 24",
            "10.0.0.0/٢٤",
        ),
        *("::1", "2606:4700::1:443", "[::1", "::1]", "[[::1]]", "[::1]:", "[10.0.0.7]", "[h.example]", "[::1]x", "[]"),
        *("[fe80::1%eth0]", "[::1/64]", "[::1]/129", "[::/0]/0", "[2606:4700::/32]/32"),
        *(
            "h.example:",
            "h.example:0",
            "h.example:65536",
            "h.example:+80",
            "h.example:8_0",
            "h.example:٨٠",
            "h.example:a",
        ),
        *(
            "h.example:80-",
            "h.example:-80",
            "h.example:90-80",
            "h.example:80-90-100",
            "h.example:80,443",
            "h.example:80:90",
        ),
        *("h.example :80", "h.example: 80", "h.example 80", "h.example,other.example", "h.example;other.example"),
        *(
            "h.example/path",
            "h.example/",
            "/etc/passwd",
            "h%65.example",
            "h.example?",
            "user@h.example",
            "h\\e",
            "-x.com",
        ),
        *("https://h.example", "http://h.example:80/x", "//h.example", "ftp://h", "://", "h.example#x"),
        *("h.example sni", "h.example sni=", "h.example sni=maybe", "h.example sni=off sni=off", "! h.example sni=off"),
        *("h.example until=", "h.example until=tomorrow", "h.example until=2026-13-01T00:00:00Z", "h.example foo=bar"),
        *("h.example until=2026-02-30T00:00:00Z", "h.example until=2026-12-01T10:00:00", "h.example until=2026-12-01"),
        *("h.example until=0000-01-01T00:00:00Z", "h.example until=2026-12-01T10:00:60Z"),
        *("h.example until=٢٠٢٦-12-01T10:00:00Z", "h.example\u00a0sni=off", "h.example\u2003x", "x" * 100_000),
    ],
)
def test_everything_else_is_no_rule_and_says_what_to_write(text: str) -> None:
    found = parse_rule(text)

    assert isinstance(found, BadRule)
    assert found.problem
    assert found.write_instead
    assert (found.found + found.problem + found.write_instead).isprintable()


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("https://docs.python.org/3/library", "docs.python.org"),
        ("https://user:pass@docs.python.org:8443/x", "docs.python.org:8443"),
        ("docs.python.org/3/", "docs.python.org"),
        ("user@docs.python.org", "docs.python.org"),
        ("10.0.0.7/24", "10.0.0.0/24"),
        ("2606:4700::1/32", "2606:4700::/32"),
        ("2606:4700::1", "[2606:4700::1]"),
        ("h.example:90-80", ":80-90"),
        ("10.0.0.0/40", "10.0.0.0/32"),
    ],
)
def test_a_common_slip_is_answered_with_the_right_rule(text: str, instead: str) -> None:
    found = parse_rule(text)

    assert isinstance(found, BadRule)
    assert found.write_instead == instead


def test_what_is_shown_is_bounded_and_harmless() -> None:
    assert shown("\x1b[31mred\u202e") == "\\x1b[31mred\\u202e"
    assert len(shown("x" * 10_000)) < 100
    assert shown("bücher.de") == "bücher.de"


def test_the_same_place_is_known_whatever_its_spelling() -> None:
    assert rule("Bücher.de.").place == rule("xn--bcher-kva.DE").place
    assert rule("[::ffff:10.0.0.7]").place == rule("10.0.0.7").place
    assert rule("10.0.0.7").place != rule("10.0.0.7/32").place
    assert rule("! h.example").place != rule("h.example:*").place
