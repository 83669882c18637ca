"""The command `egressctl`: edits a tenant's list and has the daemon load it.

The list file is the truth and the daemon reads it: a command changes the file first and asks for the reload after it,
so that without a daemon the edit still stands (and the command says that nobody loaded it). Rules that do not parse
change nothing. Decides nothing about traffic.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from egressd.ctl.completion import SHELLS, VERBS, script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from egress_policy.rules import Problem, Rule
    from egressd.ctl.node import Description
    from egressd.ctl.output import Outcome

# 0 to 2 as commands do, the rest as in sysexits.h
EX_OK, EX_FAILED, EX_DATAERR, EX_NOINPUT, EX_UNAVAILABLE, EX_CANTCREAT = 0, 1, 65, 66, 69, 73
USUAL_LISTS = Path("/etc/egressd/lists")

_EXAMPLES = """\
examples:
  egressctl tenant default allow docs.python.org '*.wikipedia.org'
  egressctl tenant default allow pypi.org files.pythonhosted.org --for 1h
  egressctl tenant default allow 10.0.0.7:8080
  egressctl tenant default deny upload.wikimedia.org
  egressctl tenant default remove '*.wikipedia.org'
  egressctl tenant default list --json
  egressctl --lists ./lists tenant default lint

rules:
  docs.python.org     this name        *.wikipedia.org   the names below it, not itself
  .example.com        both             *                 any name, public addresses only
  10.0.0.7            this address     10.0.0.0/24       this network
  with :8080, :8000-8099 or :* for other ports than 80 and 443

exit codes:
  0 done, or nothing to do     1 the file is written but the daemon does not follow it; lint found an error
  2 wrong usage                65 a rule or the list is broken, nothing is changed
  66 the list cannot be read   69 no daemon and no --lists      73 the list cannot be written
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the lists are, and which daemon reads them; `notes` say what was found on the way."""

    lists: Path
    node: Description | None
    notes: tuple[str, ...] = ()


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_rest: object) -> None:
        from importlib.metadata import version

        print(f"{parser.prog} {version('oz0-egressd')}")
        parser.exit()


class _Completion(argparse.Action):
    def __call__(
        self, parser: argparse.ArgumentParser, _space: argparse.Namespace, shell: object, *_rest: object
    ) -> None:
        sys.stdout.write(script(str(shell)))
        parser.exit()


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="egressctl",
        description="Says what a tenant may reach through egressd.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("what", choices=["tenant"], help="whose list")
    parser.add_argument("name", metavar="NAME", help="the tenant's name")
    parser.add_argument("verb", choices=VERBS, help="what to do with it")
    parser.add_argument("rules", metavar="RULE", nargs="*", help="for allow, deny and remove: one or more rules")
    parser.add_argument(
        "--for", metavar="1h", dest="duration", help="allow and deny: for this long only (15m, 1h30m, 2d)"
    )
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    parser.add_argument("--lists", metavar="FOLDER", help="the folder of the list files (default: the daemon's)")
    parser.add_argument("--socket", metavar="FILE", help="the daemon's admin socket (default: the usual places)")
    parser.add_argument("--completion", choices=sorted(SHELLS), action=_Completion, help="write a completion script")
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    parser = make_parser()
    options = parser.parse_intermixed_args(sys.argv[1:] if arguments is None else arguments)
    _check_usage(parser, options)
    outcome = run(options, now=time.time())
    from egressd.ctl.output import as_json, as_text

    if options.json:
        print(as_json(outcome))
        return outcome.code
    out, err = as_text(outcome, colours=may_colour(sys.stdout) and may_colour(sys.stderr))
    sys.stdout.write(out)
    sys.stdout.flush()
    sys.stderr.write(err)
    return outcome.code


def may_colour(stream: TextIO) -> bool:
    """Say whether colours are welcome: on a terminal that has them, unless NO_COLOR is set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _check_usage(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    from egressd.ctl.durations import read_duration
    from egressd.list_files import NAME, NAME_FORM

    changes = options.verb in {"allow", "deny", "remove"}
    if NAME.fullmatch(options.name) is None:
        parser.error(f"{options.name!a} is no tenant's name; write {NAME_FORM}")
    if changes and not options.rules:
        parser.error(f"{options.verb} needs a rule, such as docs.python.org")
    if not changes and options.rules:
        parser.error(f"{options.verb} takes no rule")
    if options.duration is not None and options.verb not in {"allow", "deny"}:
        parser.error("--for goes with allow and deny")
    if options.duration is not None and read_duration(options.duration) is None:
        parser.error(f"--for {options.duration!a}: not a duration; write 15m, 1h, 1h30m or 2d (up to ten years)")


def run(options: argparse.Namespace, *, now: float) -> Outcome:
    """Do what the options say.

    Args:
        options: What the parser gave, usage checked.
        now: Unix seconds, for `--for`.
    """
    from egress_policy.rules import ListKind
    from egressd.ctl.output import Outcome
    from egressd.ctl.writing import WriteFault, locked
    from egressd.list_files import FOLDERS, ListFault, list_source

    outcome = Outcome(options.name, options.verb, list_source(ListKind.TENANT, options.name))
    place = find_place(options)
    if place is None:
        outcome.code = EX_UNAVAILABLE
        outcome.errors.append("no daemon answers, so the lists' folder is not known; name it with --lists FOLDER")
        return outcome
    outcome.notes += place.notes
    try:
        if options.verb in {"list", "lint"}:
            _look(place, outcome)
            return outcome
        with locked(place.lists / FOLDERS[ListKind.TENANT]):
            _change(options, place, outcome, now)
    except ListFault as fault:
        outcome.code = EX_NOINPUT
        outcome.errors.append(str(fault))
    except WriteFault as fault:
        outcome.code = EX_CANTCREAT
        outcome.errors.append(str(fault))
    if outcome.code == EX_OK and outcome.changed:
        _have_loaded(place, outcome)
    return outcome


def find_place(options: argparse.Namespace) -> Place | None:
    """Find the lists and their daemon: what was named, else who answers at a usual socket, else the usual folder."""
    from egressd.ctl import node

    found: Description | None = None
    notes: list[str] = []
    sockets = (Path(options.socket),) if options.socket is not None else node.usual_sockets()
    for path in sockets:
        try:
            found = node.describe(path)
            break
        except node.NoNode as fault:
            if options.socket is not None:
                notes.append(str(fault))
        except node.NodeFault as fault:
            notes.append(str(fault))
    if options.lists is None:
        if found is None:
            return Place(USUAL_LISTS, None, tuple(notes)) if USUAL_LISTS.is_dir() else None
        return Place(found.lists, found, tuple(notes))
    lists = Path(options.lists)
    if found is not None and os.path.realpath(found.lists) != os.path.realpath(lists):
        notes.append(f"the daemon at {found.socket} reads other lists ({found.lists})")
        found = None
    return Place(lists, found, tuple(notes))


def _look(place: Place, outcome: Outcome) -> None:
    """Read the list for `list` and `lint`."""
    from egress_policy.rules import ListKind
    from egressd.ctl.edit import rules_of
    from egressd.list_files import read_list

    text = read_list(place.lists, ListKind.TENANT, outcome.tenant)
    outcome.problems += _problems(text, outcome)
    if outcome.verb == "list":
        outcome.rules = tuple(rules_of(text))
        outcome.problems = [problem for problem in outcome.problems if problem.severity == "error"]
    if any(problem.severity == "error" for problem in outcome.problems):
        outcome.code = EX_FAILED


def _problems(text: str, outcome: Outcome) -> tuple[Problem, ...]:
    from egress_policy.rules import ListKind, parse_list
    from egressd.suffixes import suffix_kind

    return parse_list(text, kind=ListKind.TENANT, source=outcome.file, is_public_suffix=suffix_kind)[1]


def _change(options: argparse.Namespace, place: Place, outcome: Outcome, now: float) -> None:
    """Edit the list, unless the result would be refused."""
    from egress_policy.rules import ListKind
    from egressd.ctl import edit, writing
    from egressd.ctl.durations import read_duration
    from egressd.list_files import read_list

    text = read_list(place.lists, ListKind.TENANT, outcome.tenant)
    if outcome.verb == "remove":
        edited = edit.remove(text, options.rules)
        outcome.problems += [row for row in _problems(edited.text, outcome) if row.severity == "error"]
    else:
        rules = _read_rules(options, outcome)
        if outcome.problems:
            outcome.code = EX_DATAERR
            return
        seconds = read_duration(options.duration) if options.duration is not None else None
        edited = edit.add(text, rules, until=None if seconds is None else now + seconds)
        before = _problems(text, outcome)
        # what was wrong before is `lint`'s to tell, unless it keeps the list from being loaded
        found = _problems(edited.text, outcome)
        outcome.problems += [row for row in found if row.severity == "error" or row not in before]
        if any(row.severity == "error" for row in outcome.problems):
            # an error on one of our lines is a rule refused; one elsewhere would keep the whole list from being loaded
            outcome.code = EX_DATAERR
            return
    outcome.changes = edited.changes
    outcome.changed = edited.text != text
    if outcome.changed:
        writing.replace(place.lists / outcome.file, edited.text)


def _read_rules(options: argparse.Namespace, outcome: Outcome) -> list[Rule]:
    """Read the rules that were given; what is wrong with any of them is added to the problems."""
    from egress_policy.rules import Problem
    from egressd.ctl.edit import read_rule

    rules: list[Rule] = []
    for text in options.rules:
        found = read_rule(text, deny=outcome.verb == "deny")
        if isinstance(found, Problem):
            outcome.problems.append(found)
        else:
            rules.append(found)
    # some mistakes, a whole registry among them, are a list's and not a rule's
    for problem in _problems("\n".join(rule.text for rule in rules), outcome):
        if problem.severity == "error":
            outcome.problems.append(replace(problem, source="the rule", line=0, column=None))
    return rules


def _have_loaded(place: Place, outcome: Outcome) -> None:
    """Ask the daemon to load what was written."""
    from egressd.ctl import node

    if place.node is None:
        outcome.notes.append("no daemon was asked to load it; it reads the list when it starts, or at SIGHUP")
        return
    if outcome.tenant not in place.node.tenants:
        known = ", ".join(place.node.tenants)
        outcome.notes.append(f"no listener of this daemon belongs to tenant {outcome.tenant} (it has: {known})")
    try:
        reloaded = node.reload(place.node.socket)
    except node.NodeFault as fault:
        outcome.code = EX_FAILED
        outcome.errors.append(f"the list is written, but the daemon did not load it: {fault}")
        return
    outcome.version = reloaded.version
    ours = [row for row in reloaded.problems if row.startswith(f"{outcome.file}:") and ": warning: " not in row]
    if ours:
        outcome.code = EX_FAILED
        outcome.errors.append("the list is written, but it does not load, and the old one stays in force")
    outcome.notes += [row for row in reloaded.problems if row in ours or not row.startswith(f"{outcome.file}:")]


if __name__ == "__main__":
    sys.exit(main())
