"""What `egressctl` tells: for people, for programs, with colours and without."""

from __future__ import annotations

import json

from egress_policy.rules import Problem
from egressd.ctl.edit import Change, rules_of
from egressd.ctl.output import Outcome, as_json, as_text

PROBLEM = Problem("tenants/default.list", 2, 1, "*.*", "too wide", "*.example.com", "error")
WARNING = Problem("tenants/default.list", 3, 1, "a.example", "twice", "one of the two", "warning")


def edited() -> Outcome:
    return Outcome(
        "default",
        "allow",
        "tenants/default.list",
        changed=True,
        changes=(Change("a.example", "added", 4), Change("b.example", "present", 1), Change("c.example", "absent")),
        problems=[WARNING],
        notes=["a note"],
        version=2,
    )


def test_a_person_reads_results_on_one_stream_and_trouble_on_the_other() -> None:
    out, err = as_text(edited(), colours=False)
    assert out.splitlines() == [
        "added: a.example (tenants/default.list:4)",
        "already there: b.example (tenants/default.list:1)",
        "not in the list: c.example (tenants/default.list)",
        "in force: policy version 2",
    ]
    assert err.splitlines() == [
        "tenants/default.list:3:1: warning: twice, found 'a.example'; write one of the two",
        "note: a note",
    ]


def test_colours_are_only_there_when_asked_for() -> None:
    assert "\x1b" not in "".join(as_text(edited(), colours=False))
    out, err = as_text(edited(), colours=True)
    assert out.startswith("\x1b[32m")
    assert err.startswith("\x1b[33m")
    assert "\x1b[31merror" in as_text(Outcome("d", "allow", "f", errors=["bad"]), colours=True)[1]


def test_a_program_reads_one_object() -> None:
    row = json.loads(as_json(edited()))
    assert row["rules"][0] == {"rule": "a.example", "outcome": "added", "line": 4}
    assert (row["tenant"], row["verb"], row["changed"], row["version"]) == ("default", "allow", True, 2)
    assert row["problems"] == [
        {
            "severity": "warning",
            "line": 3,
            "problem": "twice",
            "found": "a.example",
            "write_instead": "one of the two",
        }
    ]


def test_a_list_is_shown_with_comments_and_ends() -> None:
    text = "a.example  # why\n! b.example\nc.example until=2026-12-01T10:00:00Z\n"
    outcome = Outcome("default", "list", "tenants/default.list", rules=tuple(rules_of(text)))
    assert as_text(outcome, colours=False) == (text, "")
    assert json.loads(as_json(outcome))["rules"] == [
        {"rule": "a.example", "deny": False, "line": 1, "until": None, "comment": "why"},
        {"rule": "! b.example", "deny": True, "line": 2, "until": None, "comment": None},
        {
            "rule": "c.example until=2026-12-01T10:00:00Z",
            "deny": False,
            "line": 3,
            "until": "2026-12-01T10:00:00Z",
            "comment": None,
        },
    ]


def test_lint_says_that_nothing_is_wrong_or_what() -> None:
    outcome = Outcome("default", "lint", "tenants/default.list")
    assert as_text(outcome, colours=False) == ("tenants/default.list: no problem found\n", "")
    outcome.problems = [PROBLEM]
    assert as_text(outcome, colours=False) == (
        "",
        "error: tenants/default.list:2:1: too wide, found '*.*'; write *.example.com\n",
    )
