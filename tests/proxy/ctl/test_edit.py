"""Edits of a list's text: the rule asked for, and not a byte of anything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress_policy.rules import Problem, Rule
from egressd.ctl.edit import add, read_lines, read_rule, remove, rules_of

LIST = """\
# Tenant default
methods = ["GET", "HEAD"]

docs.python.org  # the manual
  *.wikipedia.org:443\t# indented
! upload.wikimedia.org
pypi.org until=2026-12-01T10:00:00Z # while we build
not a rule at all
"""
HOUR = 1_800_003_600.0
HOUR_TEXT = "2027-01-15T09:00:00Z"


def rule(text: str, *, deny: bool = False) -> Rule:
    found = read_rule(text, deny=deny)
    assert isinstance(found, Rule), found
    return found


def added(text: str, *rules: str, until: float | None = None, deny: bool = False) -> str:
    return add(text, [rule(each, deny=deny) for each in rules], until=until).text


def outcomes(text: str, *rules: str, until: float | None = None) -> list[str]:
    return [change.outcome for change in add(text, [rule(each) for each in rules], until=until).changes]


def test_lines_make_the_text_up_again() -> None:
    assert "\n".join(line.text for line in read_lines(LIST)) == LIST
    bodies = [line.body for line in read_lines(LIST)]
    assert bodies[3:5] == ["docs.python.org", "*.wikipedia.org:443"]
    assert [line.number for line, _ in rules_of(LIST)] == [4, 5, 6, 7]


@given(st.text(alphabet=st.sampled_from('a.*!#=: \t\r\n"[]é\x00'), max_size=60))
def test_any_text_is_cut_into_lines_that_make_it_up_again(text: str) -> None:
    assert "\n".join(line.text for line in read_lines(text)) == text


@given(st.text(alphabet=st.sampled_from("a.*!#=: \t\r\n"), max_size=60))
def test_removing_what_is_not_there_and_adding_what_is_change_nothing(text: str) -> None:
    assert remove(text, ["docs.python.org"]).text == text
    once = added(text, "docs.python.org")
    assert added(once, "docs.python.org") == once


@given(st.text(alphabet=st.sampled_from("ab.*!#=: \t\n"), max_size=60))
def test_adding_keeps_every_line_that_was_there(text: str) -> None:
    before = [line for line in text.split("\n") if line]
    after = [line for line in added(text, "docs.python.org").split("\n") if line]
    assert after == [*before, "docs.python.org"]


def test_a_rule_goes_to_the_end() -> None:
    assert added(LIST, "arxiv.org") == LIST + "arxiv.org\n"
    assert added("", "arxiv.org", "pypi.org") == "arxiv.org\npypi.org\n"
    assert added("a.example", "arxiv.org") == "a.example\narxiv.org\n"
    assert added(LIST, "arxiv.org", deny=True) == LIST + "! arxiv.org\n"


def test_line_ends_stay_as_they_are() -> None:
    assert added("a.example\r\nb.example\r\n", "arxiv.org") == "a.example\r\nb.example\r\narxiv.org\r\n"
    assert added("a.example\r\nb.example", "arxiv.org") == "a.example\r\nb.example\r\narxiv.org\r\n"
    assert remove("a.example\r\nb.example\r\n", ["a.example"]).text == "b.example\r\n"


@pytest.mark.parametrize("spelling", ["docs.python.org", "Docs.Python.ORG", "docs.python.org.", "docs.python.org:443"])
def test_a_rule_that_is_there_is_not_added_again(spelling: str) -> None:
    expected = ["present"] if ":" not in spelling else ["added"]
    assert outcomes(LIST, spelling) == expected


def test_an_end_is_written_and_renewed_and_taken_away() -> None:
    assert added("", "arxiv.org", until=HOUR) == f"arxiv.org until={HOUR_TEXT}\n"
    renewed = LIST.replace("2026-12-01T10:00:00Z", HOUR_TEXT)
    assert added(LIST, "pypi.org", until=HOUR) == renewed
    assert outcomes(LIST, "pypi.org", until=HOUR) == ["renewed"]
    assert added(LIST, "pypi.org") == LIST.replace(" until=2026-12-01T10:00:00Z", "")
    assert added(LIST, f"pypi.org until={HOUR_TEXT}") == renewed


def test_a_rule_without_an_end_never_gets_one() -> None:
    assert added(LIST, "docs.python.org", until=HOUR) == LIST
    assert outcomes(LIST, "docs.python.org", until=HOUR) == ["present"]


def test_an_exception_of_a_rule_is_written_to_the_rule_that_is_there() -> None:
    assert added("ssh.github.com:443 # git\n", "ssh.github.com:443 sni=off") == "ssh.github.com:443 sni=off # git\n"
    assert added("ssh.github.com:443 sni=off\n", "ssh.github.com:443") == "ssh.github.com:443 sni=off\n"


def test_removing_a_rule_leaves_its_comment() -> None:
    assert remove(LIST, ["docs.python.org"]).text == LIST.replace("docs.python.org  # the manual", "# the manual")
    assert remove(LIST, ["*.wikipedia.org:443"]).text == LIST.replace("*.wikipedia.org:443\t# indented", "# indented")
    assert remove("a.example\nb.example\n", ["a.example"]).text == "b.example\n"


def test_every_copy_of_a_rule_is_removed_in_any_spelling_and_with_any_end() -> None:
    text = "A.example\nb.example\na.example. until=2026-12-01T10:00:00Z\n"
    edited = remove(text, ["a.example"])
    assert edited.text == "b.example\n"
    assert [change.outcome for change in edited.changes] == ["removed", "removed"]


def test_removing_an_allow_never_removes_a_deny() -> None:
    edited = remove(LIST, ["upload.wikimedia.org"])
    assert edited.text == LIST
    assert [(change.outcome, change.line) for change in edited.changes] == [("denied", 6)]
    assert remove(LIST, ["!upload.wikimedia.org"]).text == LIST.replace("! upload.wikimedia.org\n", "")


def test_a_line_that_is_no_rule_is_removed_by_its_very_text() -> None:
    assert remove(LIST, ["not a  rule at all"]).text == LIST.replace("not a rule at all\n", "")


def test_what_is_not_there_is_told() -> None:
    assert [change.outcome for change in remove(LIST, ["nowhere.example", "x y z"]).changes] == ["absent", "absent"]


@pytest.mark.parametrize(
    ("text", "deny", "written"),
    [
        ("docs.python.org", False, "docs.python.org"),
        (" docs.python.org  sni=off ", False, "docs.python.org sni=off"),
        ("docs.python.org", True, "! docs.python.org"),
        ("! docs.python.org", True, "! docs.python.org"),
        ("!docs.python.org", True, "! docs.python.org"),
    ],
)
def test_rules_of_the_command_line(text: str, deny: bool, written: str) -> None:
    assert rule(text, deny=deny).text == written


@pytest.mark.case("D7")
@pytest.mark.parametrize("text", ["", "*.", "*.*", "foo.*.com", "ex*mple.com", "http://a/", "a/b", "a:0", "::1%a"])
def test_rules_that_mean_nothing_are_refused_with_what_to_write(text: str) -> None:
    found = read_rule(text, deny=False)
    assert isinstance(found, Problem)
    assert found.severity == "error"
    assert found.write_instead


@pytest.mark.parametrize("text", ["a.example\nb.example", "a.example # why", "#", "a.example\r", "a\x00b", "a\x1b[31m"])
def test_one_rule_is_one_line(text: str) -> None:
    assert isinstance(read_rule(text, deny=False), Problem)


def test_a_deny_is_not_allowed_by_mistake() -> None:
    found = read_rule("! docs.python.org", deny=False)
    assert isinstance(found, Problem)
    assert found.write_instead == "deny 'docs.python.org'"
