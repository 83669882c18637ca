"""What `egressctl` came to, as text for a person or as one JSON object. Pure; `cli` prints it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from egress_policy.rules import Problem, Rule
from egressd.ctl.durations import write_moment
from egressd.ctl.edit import Change, Line
from egressd.list_files import show_problem

RED, YELLOW, GREEN, PLAIN = "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[0m"
_COLOURS = {"error": RED, "warning": YELLOW, "note": YELLOW, "good": GREEN}
_OUTCOMES = {
    "added": "added",
    "renewed": "changed",
    "present": "already there",
    "removed": "removed",
    "absent": "not in the list",
    "denied": "not allowed, but denied",
}


@dataclass(slots=True)
class Outcome:
    """Everything that a command has to tell.

    `reload` is None where no daemon was asked, and `notes` say why, among other things. `code` is the exit code.
    """

    tenant: str
    verb: str
    file: str
    code: int = 0
    changed: bool = False
    changes: tuple[Change, ...] = ()
    rules: tuple[tuple[Line, Rule], ...] = ()
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    version: int | None = None


def as_json(outcome: Outcome) -> str:
    """Write the outcome as one line of JSON."""
    row: dict[str, object] = {
        "tenant": outcome.tenant,
        "verb": outcome.verb,
        "file": outcome.file,
        "changed": outcome.changed,
        "version": outcome.version,
        "problems": [
            {
                "severity": problem.severity,
                "line": problem.line or None,
                "problem": problem.problem,
                "found": problem.found,
                "write_instead": problem.write_instead,
            }
            for problem in outcome.problems
        ],
        "errors": outcome.errors,
        "notes": outcome.notes,
    }
    if outcome.verb == "list":
        row["rules"] = [_rule_row(line, rule) for line, rule in outcome.rules]
    if outcome.verb in {"allow", "deny", "remove"}:
        row["rules"] = [
            {"rule": change.rule, "outcome": change.outcome, "line": change.line} for change in outcome.changes
        ]
    return json.dumps(row)


def _rule_row(line: Line, rule: Rule) -> dict[str, object]:
    return {
        "rule": line.body,
        "deny": rule.deny,
        "line": line.number,
        "until": None if rule.expires is None else write_moment(rule.expires),
        "comment": line.comment.lstrip(" \t#").rstrip() or None,
    }


def as_text(outcome: Outcome, *, colours: bool) -> tuple[str, str]:
    """Write the outcome for a person: what belongs to standard output, and what to standard error."""
    lines = [line.body + line.comment for line, _ in outcome.rules] if outcome.verb == "list" else []
    lines += [
        _paint(_tell(change, outcome.file), "good" if outcome.changed else "", colours) for change in outcome.changes
    ]
    if outcome.version is not None:
        lines.append(f"in force: policy version {outcome.version}")
    if outcome.verb == "lint" and not outcome.problems:
        lines.append(_paint(f"{outcome.file}: no problem found", "good", colours))
    told = [_paint(f"error: {text}", "error", colours) for text in outcome.errors]
    told += [
        _paint(f"error: {show_problem(row)}" if row.severity == "error" else show_problem(row), row.severity, colours)
        for row in outcome.problems
    ]
    told += [_paint(f"note: {text}", "note", colours) for text in outcome.notes]
    return _joined(lines), _joined(told)


def _tell(change: Change, file: str) -> str:
    place = f" ({file}:{change.line})" if change.line is not None else f" ({file})"
    return f"{_OUTCOMES[change.outcome]}: {change.rule}{place}"


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _paint(text: str, kind: str, colours: bool) -> str:  # noqa: FBT001 - passed on
    colour = _COLOURS.get(kind)
    return f"{colour}{text}{PLAIN}" if colours and colour is not None else text
