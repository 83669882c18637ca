"""The benchmark measures what it says: ten tenants, a thousand rules, the whole data path, the targets as written."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from bench import run
from egress_policy.rules import ListKind, parse_list
from support.project import ROOT

if TYPE_CHECKING:
    from pathlib import Path

BENCH = ROOT / "bench"
RULES = ("localhost:18080", "localhost:18081")


def test_the_policy_is_ten_tenants_and_a_thousand_rules_without_a_problem(tmp_path: Path) -> None:
    subprocess.run([sys.executable, BENCH / "policy.py", tmp_path / "lists", *RULES], check=True)
    lists = sorted((tmp_path / "lists" / "tenants").iterdir())
    parsed = [parse_list(path.read_text(), kind=ListKind.TENANT, source=path.name) for path in lists]

    assert len(parsed) == 10
    assert sum(len(rules.rules) for rules, _ in parsed) == 1_000
    # Without unsafe_reach the two rules for localhost could never take effect, which is a warning here.
    assert [problem.found for _, problems in parsed for problem in problems] == list(RULES)


def test_the_extra_configuration_has_both_entries_and_only_the_records_differ() -> None:
    table = tomllib.loads((BENCH / "egressd.toml").read_text(encoding="utf-8"))

    assert set(table["peer"]) == {"egressd", "egressd+log"}
    assert table["peer"]["egressd+log"] == {"extends": "egressd", "vars": {"RECORDS": "@DIR@/records.jsonl"}}
    assert 'unsafe_reach = ["127.0.0.1/32"]' in table["peer"]["egressd"]["files"]["egressd.toml"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_the_measured_daemon_is_nobody_and_has_no_right_that_speeds_it_up() -> None:
    told = subprocess.run(
        [
            BENCH / "unprivileged",
            sys.executable,
            "-c",
            "import os; print(os.getuid(), open('/proc/self/status').read())",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    effective = int(told.split("CapEff:")[1].split()[0], 16)

    assert told.startswith("65534 ")
    assert effective & ~0b100 == 0  # at most DAC_READ_SEARCH, where Python is closed to others


def rows(**figures: tuple[float, float]) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Results of two rounds: the baseline's figure is 100 in both."""
    keys = {"connect_c16": ("connect-c16", "cpu_us_op"), "idle_5000": ("idle-5000", "pss_kib_tunnel")}
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for name, values in figures.items():
        scenario, key = keys[name]
        found[scenario] = {
            "squid": [{"round": number, key: 100.0} for number in range(2)],
            "egressd+log": [{"round": number, key: value} for number, value in enumerate(values)],
        }
    return found


@pytest.mark.parametrize(
    ("figures", "good"),
    [
        ({"connect_c16": (90.0, 90.0)}, True),
        ({"connect_c16": (91.0, 91.0)}, False),
        ({"idle_5000": (4.0, 4.0)}, True),
        ({"idle_5000": (4.1, 4.1)}, False),
        ({"connect_c16": (50.0, 60.0), "idle_5000": (9.0, 9.0)}, False),
    ],
)
def test_a_target_is_met_at_its_bound_and_missed_above_it(
    figures: dict[str, tuple[float, float]], *, good: bool
) -> None:
    assert run.report(rows(**figures), ["squid", "egressd+log"])[1] is good


def test_a_scenario_without_a_figure_is_no_success() -> None:
    found = rows(connect_c16=(50.0, 50.0))
    found["connect-c16"]["egressd+log"] = []

    assert run.report(found, ["squid", "egressd+log"])[1] is False
