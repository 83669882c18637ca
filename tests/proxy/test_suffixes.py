"""Public suffixes: the two divisions, and that the list is read only when asked."""

from __future__ import annotations

import subprocess
import sys

import pytest

from egress_policy.rules import SuffixKind
from egressd.suffixes import suffix_kind


@pytest.mark.case("D7")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("com", SuffixKind.ICANN),
        ("co.uk", SuffixKind.ICANN),
        ("github.io", SuffixKind.PRIVATE),
        ("example.com", None),
        ("octocat.github.io", None),
        ("xn--p1ai", SuffixKind.ICANN),
    ],
)
def test_registries_are_told_from_names(name: str, kind: SuffixKind | None) -> None:
    assert suffix_kind(name) is kind


@pytest.mark.slow
def test_the_list_is_not_read_before_it_is_asked_for() -> None:
    script = "import sys, egressd.suffixes; print('publicsuffixlist' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"
