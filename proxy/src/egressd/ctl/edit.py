"""Changes the text of a list file: adds, renews and removes rules, and touches nothing else.

Pure: text in, text out. Comments, blank lines, directives, order and line ends stay as a person wrote them; a comment
beside a rule that is removed stays as a line of its own. Two spellings of one rule (`Docs.Python.org`,
`docs.python.org.`) are one rule. What a rule means, and which are refused, is `egress_policy.rules`' business. `cli`
calls it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from egress_policy.rules import BadRule, Problem, Rule, parse_rule
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


def read_rule(text: str, *, deny: bool) -> Rule | Problem:
    """Read a rule from the command line.

    Args:
        text: As given, with options such as `sni=off`.
        deny: True for the verb `deny`; a `!` before the rule is then not needed.

    Returns:
        The rule, whose text goes into the file, or the problem with found and write instead.
    """
    body = text.strip()
    if not text.isprintable() or "#" in text:
        return _problem(text, "a comment or a control character", "the rule alone; write the comment into the file")
    if body.startswith("!") and not deny:
        return _problem(text, "a deny rule where an allow is asked for", f"deny {body[1:].strip()!r}")
    return _one_rule(f"! {body.removeprefix('!')}" if deny else body)


def _one_rule(body: str) -> Rule | Problem:
    found = parse_rule(body)
    return _problem(found.found, found.problem, found.write_instead) if isinstance(found, BadRule) else found


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


def add(text: str, rules: Sequence[Rule], *, until: float | None) -> Edited:
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
    for rule in rules:
        expires = rule.expires if until is None else until
        place = next((at for at, line in enumerate(lines) if line.rule and line.rule.place == rule.place), None)
        if place is None:
            lines, change = _appended(lines, _with_options(rule.text, rule.sni, expires), rule, end)
        else:
            lines[place], change = _renewed(lines[place], rule, expires)
        changes.append(change)
    return Edited("\n".join(line.text for line in lines), tuple(changes))


def _appended(lines: Sequence[Line], body: str, rule: Rule, end: str) -> tuple[list[Line], Change]:
    kept = list(lines)
    if kept[-1].text == "":
        kept.pop()
    elif end:
        kept[-1] = replace(kept[-1], end=end)
    number = len(kept) + 1
    kept += [Line(number, "", body, "", end, rule), Line(number + 1, "", "", "", "", None)]
    return kept, Change(body, "added", number)


def _renewed(line: Line, rule: Rule, expires: float | None) -> tuple[Line, Change]:
    """Give a rule that is there the end and the exception that are asked for now."""
    before = rule if line.rule is None else line.rule
    sni = before.sni if rule.sni is None else rule.sni
    end = None if before.expires is None else expires
    if (sni, end) == (before.sni, before.expires):
        return line, Change(line.body, "present", line.number)
    body = _with_options(line.body, sni, end)
    return replace(line, body=body), Change(body, "renewed", line.number)


def _with_options(body: str, sni: str | None, expires: float | None) -> str:
    words = [word for word in body.split() if not word.startswith(("until=", "sni="))]
    words += [] if sni is None else [f"sni={sni}"]
    words += [] if expires is None else [f"until={write_moment(expires)}"]
    return " ".join(words)


def remove(text: str, rules: Sequence[str]) -> Edited:
    """Take rules out, wherever and however often they stand.

    A rule is named as it means (any spelling) or, where it is broken, by its very text. An allow is not a deny: to
    remove `! x`, name `! x`, because doing so allows more.
    """
    lines = list(read_lines(text))
    changes = []
    for given in rules:
        body = " ".join(given.split())
        found = _one_rule(body)
        gone = [line for line in lines if _is_meant(line, body, found)]
        if not gone:
            changes.append(_absent(lines, body, found))
            continue
        changes += [Change(line.body, "removed", line.number) for line in gone]
        lines = [kept for line in lines if (kept := _without_rule(line) if line in gone else line) is not None]
    return Edited("\n".join(line.text for line in lines), tuple(changes))


def _is_meant(line: Line, body: str, found: Rule | Problem) -> bool:
    if line.rule is not None:
        return isinstance(found, Rule) and line.rule.place == found.place
    return bool(line.body) and " ".join(line.body.split()) == body


def _absent(lines: Sequence[Line], body: str, found: Rule | Problem) -> Change:
    if isinstance(found, Rule) and not found.deny:
        for line in lines:
            rule = line.rule
            if rule is not None and rule.deny and (rule.form, rule.name, rule.network) == found.place[1:4]:
                return Change(body, "denied", line.number)
    return Change(body, "absent")


def _without_rule(line: Line) -> Line | None:
    """Leave the comment of a removed rule, or nothing."""
    if not line.comment:
        return None
    return replace(line, body="", comment=line.comment.lstrip(), rule=None)


def rules_of(text: str) -> Iterator[tuple[Line, Rule]]:
    """Give the lines that hold a rule, with it."""
    for line in read_lines(text):
        if line.rule is not None:
            yield line, line.rule
