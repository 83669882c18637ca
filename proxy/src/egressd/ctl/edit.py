"""Changes the text of a list file: adds, renews and removes rules, and touches nothing else.

Pure: text in, text out. Comments, blank lines, directives, order and line ends stay as a person wrote them; a comment
beside a rule that is removed stays as a line of its own. Two spellings of one rule (`Docs.Python.org`,
`docs.python.org.`) are one rule. What a rule means, and which are refused, is `egress_policy.rules`' business. `cli`
calls it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from egress_policy.rules import ListKind, Problem, Rule, parse_list
from egressd.ctl.durations import write_moment

_LINE = re.compile(r"(?P<space>[ \t]*)(?P<body>.*?)(?P<comment>(?:(?:^|[ \t]+)#.*)?)(?P<end>[ \t]*\r?)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a list file in parts that make it up again; `rule` is None where it holds none."""

    number: int
    space: str
    body: str
    comment: str
    end: str
    rule: Rule | None

    @property
    def text(self) -> str:
        """The line as it stood."""
        return self.space + self.body + self.comment + self.end


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one rule that was asked for: added, renewed, present, removed, absent or denied."""

    rule: str
    outcome: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Edited:
    """The new text, and what became of each rule in the order asked."""

    text: str
    changes: tuple[Change, ...]


Identity = tuple[object, ...]


def identity(rule: Rule) -> Identity:
    """Give what makes a rule this one, whatever its spelling, expiry or options."""
    return (rule.deny, rule.form, rule.name, rule.network, rule.ports)


def read_rule(text: str, *, deny: bool) -> tuple[str, Rule] | Problem:
    """Read a rule from the command line.

    Args:
        text: As given, with options such as `sni=off`.
        deny: True for the verb `deny`; a `!` before the rule is then not needed.

    Returns:
        The text for the file and the rule, or the problem with found and write instead.
    """
    body = " ".join(text.split())
    if not text.isprintable() or "#" in text:
        return _problem(text, "a comment or a control character", "the rule alone; write the comment into the file")
    if body.startswith("!") and not deny:
        return _problem(text, "a deny rule where an allow is asked for", f"deny {body[1:].strip()!r}")
    body = f"! {body.removeprefix('!').strip()}" if deny else body
    found = _one_rule(body)
    if isinstance(found, Problem):
        return found
    return body, found


def _one_rule(body: str) -> Rule | Problem:
    parsed, problems = parse_list(body, kind=ListKind.TENANT, source="the rule")
    for problem in problems:
        if problem.severity == "error":
            return problem
    if len(parsed.rules) != 1:
        return _problem(body, "not a rule", "a host such as 'docs.python.org', with ':PORT' if it is not 80 or 443")
    return parsed.rules[0]


def _problem(found: str, problem: str, write_instead: str) -> Problem:
    return Problem(
        source="the rule",
        line=0,
        column=None,
        found=found,
        problem=problem,
        write_instead=write_instead,
        severity="error",
    )


def read_lines(text: str) -> tuple[Line, ...]:
    """Cut a list's text into lines. Joined by newlines, their texts make it up again."""
    return tuple(_line(number, row) for number, row in enumerate(text.split("\n"), start=1))


def _line(number: int, row: str) -> Line:
    found = _LINE.fullmatch(row)
    if found is None:  # cannot be: the expression takes every text
        return Line(number, "", row, "", "", None)
    body = found["body"]
    rule = _one_rule(body) if body else None
    return Line(number, found["space"], body, found["comment"], found["end"], rule if isinstance(rule, Rule) else None)


def add(text: str, rules: Sequence[tuple[str, Rule]], *, until: float | None) -> Edited:
    """Add rules at the end, or give the one that is there already its new end.

    A rule without an end stays without one: `--for` never takes away what was allowed for good.

    Args:
        text: Of the list file.
        rules: What `read_rule` gave.
        until: Unix seconds at which they end, or None.
    """
    lines = list(read_lines(text))
    end = "\r" if any(line.end.endswith("\r") for line in lines) else ""
    changes = []
    for body, rule in rules:
        wanted = body if until is None else f"{_without_until(body)} until={write_moment(until)}"
        place = next((at for at, line in enumerate(lines) if line.rule and identity(line.rule) == identity(rule)), None)
        if place is None:
            if lines[-1].text == "":
                lines.pop()
            elif end:
                lines[-1] = _replaced(lines[-1], lines[-1].body, end)
            number = len(lines) + 1
            lines += [Line(number, "", wanted, "", end, rule), Line(number + 1, "", "", "", "", None)]
            changes.append(Change(wanted, "added", number))
            continue
        line = lines[place]
        if line.rule is None or line.rule.expires is None or (rule.expires == line.rule.expires and until is None):
            changes.append(Change(line.body, "present", line.number))
            continue
        renewed = _without_until(line.body) + ("" if until is None else f" until={write_moment(until)}")
        if rule.expires is not None and until is None:
            renewed = wanted
        lines[place] = _replaced(line, renewed, line.end)
        changes.append(Change(renewed, "renewed", line.number))
    return Edited("\n".join(line.text for line in lines), tuple(changes))


def _replaced(line: Line, body: str, end: str) -> Line:
    return Line(line.number, line.space, body, line.comment, end, line.rule)


def _without_until(body: str) -> str:
    return " ".join(word for word in body.split() if not word.startswith("until="))


def remove(text: str, rules: Sequence[str]) -> Edited:
    """Take rules out, wherever and however often they stand.

    A rule is named as it means (any spelling) or, where it is broken, by its very text. An allow is not a deny: to
    remove `! x`, name `! x`, because doing so allows more.
    """
    lines = list(read_lines(text))
    changes = []
    for given in rules:
        body = " ".join(given.split())
        found = _one_rule(_spaced(body))
        wanted = identity(found) if isinstance(found, Rule) else None
        gone = [line for line in lines if _is_meant(line, body, wanted)]
        if not gone:
            changes.append(_absent(lines, body, found))
            continue
        changes += [Change(line.body, "removed", line.number) for line in gone]
        lines = [kept for line in lines if (kept := _without_rule(line) if line in gone else line) is not None]
    return Edited("\n".join(line.text for line in lines), tuple(changes))


def _spaced(body: str) -> str:
    return f"! {body[1:].strip()}" if body.startswith("!") else body


def _is_meant(line: Line, body: str, wanted: Identity | None) -> bool:
    if line.rule is not None:
        return wanted is not None and identity(line.rule) == wanted
    return bool(line.body) and " ".join(line.body.split()) == body


def _absent(lines: Sequence[Line], body: str, found: Rule | Problem) -> Change:
    if isinstance(found, Rule) and not found.deny:
        denied = (True, *identity(found)[1:])
        for line in lines:
            if line.rule is not None and identity(line.rule) == denied:
                return Change(body, "denied", line.number)
    return Change(body, "absent")


def _without_rule(line: Line) -> Line | None:
    """Leave the comment of a removed rule, or nothing."""
    if not line.comment:
        return None
    return Line(line.number, line.space, "", line.comment.lstrip(), line.end, None)


def rules_of(text: str) -> Iterator[tuple[Line, Rule]]:
    """Give the lines that hold a rule, with it."""
    for line in read_lines(text):
        if line.rule is not None:
            yield line, line.rule
