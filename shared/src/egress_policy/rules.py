"""Reads list files, and tells everything that is wrong with one at once.

Decides what a list may hold: one rule a line, `#` comments, the lines `methods = [...]` and `sni = "..."`, and which
rules are mistakes although they can be read: whole registries, and what can never take effect. One rule is read by
`rule_text`, several are matched by `matching`, and both are handed on here. Reads no file and no clock; whether a name
is a public suffix is a function that comes in. Called by the supervisor, by each worker, by `egressctl` and by the
client.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from egress_policy.addresses import is_floor_network, is_private_network
from egress_policy.matching import ListKind, Match, MatchOutcome, RuleList, RuleSet
from egress_policy.names import HostName, is_floor_name, needs_exact_rule
from egress_policy.rule_text import SNI_MODES, BadRule, Rule, RuleForm, parse_rule, shown

__all__ = [
    "BadRule",
    "ListKind",
    "Match",
    "MatchOutcome",
    "Problem",
    "Rule",
    "RuleForm",
    "RuleList",
    "RuleSet",
    "SuffixKind",
    "parse_endpoint",
    "parse_list",
    "parse_rule",
]

_COMMENT = re.compile(r"(?:^|(?<=[ \t]))#.*")
# A line that a terminal or an editor would break or hide differently than it is read here.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_DIRECTIVE = re.compile(r"([A-Za-z_-]+)[ \t]*=[ \t]*(.*)")
_STRING = r'"([^"\\]*)"'
_ONE_STRING = re.compile(_STRING)
_STRINGS = re.compile(rf"\[[ \t]*(?:{_STRING}[ \t]*(?:,[ \t]*{_STRING}[ \t]*)*+,?[ \t]*)?\]")
_METHOD = re.compile(r"[A-Z][A-Z-]*")


class SuffixKind(StrEnum):
    """Which division of the public suffix list a name is in."""

    ICANN = "icann"
    PRIVATE = "private"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a list.

    Attributes:
        source: The list.
        line: From 1; 0 for the whole of it.
        column: From 1; None for the whole line.
        found: What stands there, in a harmless form.
        problem: What is wrong with it.
        write_instead: What would be right.
        severity: `error` keeps the list from being loaded, `warning` does not.
    """

    source: str
    line: int
    column: int | None
    found: str
    problem: str
    write_instead: str
    severity: str


def parse_endpoint(text: str) -> Rule | BadRule:
    """Read an endpoint: one exact host and one port, such as `searx.internal:8080`."""
    rule = parse_rule(text)
    if isinstance(rule, BadRule):
        return rule
    is_one_port = rule.ports is not None and rule.ports[0][0] == rule.ports[0][1]
    if rule.deny or not rule.is_exact or not is_one_port or rule.expires is not None or rule.sni is not None:
        return BadRule(shown(text), "an endpoint is one host and one port", "searx.internal:8080")
    return rule


def parse_list(
    text: str,
    *,
    kind: ListKind,
    source: str,
    is_public_suffix: Callable[[str], SuffixKind | None] | None = None,
) -> tuple[RuleList, tuple[Problem, ...]]:
    """Read a list file.

    Args:
        text: The whole file.
        kind: Whose list it is.
        source: How problems and matches name it.
        is_public_suffix: Tells what kind of public suffix a name (A-labels) is; without it only single labels are
            taken for one.

    Returns:
        The list with every rule that could be read, and all problems by line. One error among them means that the
        list must not be used.
    """
    reader = _Reader(kind, source, is_public_suffix)
    for number, line in enumerate(text.split("\n"), 1):
        reader.read(number, line.removesuffix("\r"))
    return reader.finish()


class _Reader:
    """The state of reading one list."""

    def __init__(
        self, kind: ListKind, source: str, is_public_suffix: Callable[[str], SuffixKind | None] | None
    ) -> None:
        self._kind = kind
        self._source = source
        self._is_public_suffix = is_public_suffix
        self._rules: list[tuple[int, int, Rule]] = []
        self._problems: list[Problem] = []
        self._methods: frozenset[str] | None = None
        self._sni: str | None = None

    def read(self, number: int, line: str) -> None:
        if (control := _CONTROL.search(line)) is not None:
            self._tell(number, control.start() + 1, BadRule(shown(line), "a control character", "plain text"))
            return
        content = (_COMMENT.sub("", line) if "#" in line else line).strip(" \t")
        if not content:
            return
        column = line.index(content) + 1
        directive = _DIRECTIVE.fullmatch(content) if "=" in content else None
        if directive is not None:
            bad = self._read_directive(directive.group(1), directive.group(2), content)
            if bad is not None:
                self._tell(number, column, bad)
            return
        rule = parse_rule(content)
        if isinstance(rule, BadRule):
            self._tell(number, line.find(rule.found) + 1 or column, rule)
        else:
            self._rules.append((number, column, rule))

    def _read_directive(self, key: str, value: str, content: str) -> BadRule | None:
        if key == "methods" and self._methods is None:
            if _STRINGS.fullmatch(value) is None:
                return BadRule(shown(content), "not a list of methods", 'methods = ["GET", "HEAD"]')
            methods = frozenset(_ONE_STRING.findall(value))
            odd = sorted(method for method in methods if _METHOD.fullmatch(method) is None or method == "CONNECT")
            if odd:
                instead = f'"{odd[0].upper()}"' if _METHOD.fullmatch(odd[0].upper()) else '"GET"'
                return BadRule(shown(odd[0]), "not a method of plain requests, in capitals", shown(instead))
            self._methods = methods
            return None
        if key == "sni" and self._sni is None:
            found = _ONE_STRING.fullmatch(value)
            if found is None or found.group(1) not in SNI_MODES:
                return BadRule(shown(content), "no such way to check server names", 'sni = "enforce", "count" or "off"')
            self._sni = found.group(1)
            return None
        problem = "given twice" if key in {"methods", "sni"} else "not a setting of a list"
        return BadRule(shown(content), problem, 'methods = ["GET", "HEAD"] or sni = "count", once')

    def finish(self) -> tuple[RuleList, tuple[Problem, ...]]:
        rules = tuple(rule for _, _, rule in self._rules)
        made = RuleList(self._kind, self._source, rules, self._methods, self._sni or "enforce")
        together = RuleSet([made])
        seen: dict[object, int] = {}
        for number, column, rule in self._rules:
            before = seen.setdefault((rule.place, rule.expires, rule.sni), number)
            if before != number:
                same = BadRule(shown(rule.text), f"the same rule as in line {before}", "one of the two")
                self._tell(number, column, same, severity="warning")
            if not rule.deny:
                self._check_allow(number, column, rule, together)
        return made, tuple(sorted(self._problems, key=lambda problem: problem.line))

    def _check_allow(self, number: int, column: int, rule: Rule, together: RuleSet) -> None:
        if (shadow := together.shadow_of(rule)) is not None:
            bad = BadRule(
                shown(rule.text), f"can never take effect: `{shown(shadow.text)}` denies all of it", "one of the two"
            )
            self._tell(number, column, bad, severity="warning")
        if (idle := self._why_idle(rule)) is not None:
            self._tell(number, column, BadRule(shown(rule.text), *idle), severity="warning")
        elif rule.form in {RuleForm.BELOW, RuleForm.SUFFIX} and rule.name is not None:
            self._check_suffix(number, column, rule, rule.name)

    def _why_idle(self, rule: Rule) -> tuple[str, str] | None:
        """Say why an allow rule can never take effect, and what to write instead."""
        if rule.network is not None:
            if is_floor_network(rule.network):
                return "can never take effect: the floor is closed to every rule", "nothing"
            if self._kind is ListKind.PLUGIN and is_private_network(rule.network):
                return "can never take effect: a plugin's list opens no private address", "it in the tenant's list"
            return None
        if rule.name is None:
            return None
        is_one = rule.form is RuleForm.NAME
        name = HostName(rule.name if is_one else f"x.{rule.name}")
        if is_floor_name(name):
            return "can never take effect: the floor is closed to every rule", "nothing"
        if needs_exact_rule(name):
            if not is_one:
                return "can never take effect: these names need a rule each", "the whole names, in the tenant's list"
            if self._kind is ListKind.PLUGIN:
                return "can never take effect: such a name needs a tenant's rule", "it in the tenant's list"
        return None

    def _check_suffix(self, number: int, column: int, rule: Rule, name: str) -> None:
        suffix = self._is_public_suffix(name) if self._is_public_suffix is not None else None
        if "." not in name or suffix is SuffixKind.ICANN:
            severity = "error"
        elif suffix is SuffixKind.PRIVATE:
            severity = "warning"
        else:
            return
        bad = BadRule(
            shown(rule.text),
            f"covers everybody under the public suffix {name}",
            f"a name below, such as *.example.{name}",
        )
        self._tell(number, column, bad, severity=severity)

    def _tell(self, line: int, column: int | None, bad: BadRule, *, severity: str = "error") -> None:
        self._problems.append(Problem(self._source, line, column, bad.found, bad.problem, bad.write_instead, severity))
