"""Reads the list files of tenants and plugins, and keeps the last good text of each.

A file that does not parse is not loaded: the text before it stays in force and the problems are told. Where there was
none before, everything that uses the list is unavailable. An absent file is an empty list, which allows nothing; a
folder that cannot be read is not the same as one with no files in it, and makes its lists unavailable. Which rules mean
what is `egress_policy.rules`' business. `policy` calls this at start and at every reload.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from egress_policy.rules import ListKind, Problem, SuffixKind, parse_list
from egressd.list_files import ListFault, list_source, look_into, read_list
from egressd.suffixes import suffix_kind

Key = tuple[ListKind, str]


@dataclass(frozen=True, slots=True)
class LoadedList:
    """What is in force for one list after a load.

    `text` is None when nothing is: `unavailable` then says why. `stale` is True when `text` is an older one than the
    file's, because of the errors in `problems` (which holds warnings also).
    """

    kind: ListKind
    name: str
    text: str | None
    problems: tuple[Problem, ...] = ()
    unavailable: str | None = None
    stale: bool = False

    @property
    def source(self) -> str:
        """The name by which people, records and grants know the list."""
        return list_source(self.kind, self.name)


def errors_of(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Give the problems that keep a list from being loaded."""
    return tuple(problem for problem in problems if problem.severity == "error")


@dataclass(slots=True)
class ListStore:
    """The lists in force, and the last good text of each.

    `is_public_suffix` is what `parse_list` takes; tests give their own.
    """

    is_public_suffix: Callable[[str], SuffixKind | None] = suffix_kind
    _good: dict[Key, str] = field(default_factory=dict)

    def load(self, folder: Path, keys: Iterable[Key]) -> dict[Key, LoadedList]:
        """Read these lists anew; lists that are no longer asked for are forgotten.

        Returns:
            One entry a key, each with the new text, the one before it, or none.
        """
        loaded = {key: self._load(folder, *key) for key in dict.fromkeys(keys)}
        kept = {key: self._good[key] for key in loaded if key in self._good}
        self._good = kept | {key: found.text for key, found in loaded.items() if found.text is not None}
        return loaded

    def _load(self, folder: Path, kind: ListKind, name: str) -> LoadedList:
        source, before = list_source(kind, name), self._good.get((kind, name))
        try:
            look_into(folder, kind)
        except ListFault as fault:
            # not a broken list but a lost policy (a mount that is away): keeping the old rules would hide it
            return LoadedList(kind, name, None, unavailable=str(fault))
        try:
            text = read_list(folder, kind, name)
        except ListFault as fault:
            problem = Problem(
                source=source,
                line=0,
                column=None,
                found=str(fault),
                problem="a list that cannot be read",
                write_instead="a text file in UTF-8 that the daemon may read",
                severity="error",
            )
            return self._keep(kind, name, before, (problem,))
        _, problems = parse_list(text, kind=kind, source=source, is_public_suffix=self.is_public_suffix)
        if errors_of(problems):
            return self._keep(kind, name, before, problems)
        return LoadedList(kind, name, text, problems)

    @staticmethod
    def _keep(kind: ListKind, name: str, before: str | None, problems: tuple[Problem, ...]) -> LoadedList:
        if before is None:
            why = f"{list_source(kind, name)} is broken and there is no earlier one"
            return LoadedList(kind, name, None, problems, unavailable=why)
        return LoadedList(kind, name, before, problems, stale=True)
