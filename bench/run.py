"""Runs the benchmark harness against egressd and says how the result stands to the targets.

Copies the harness (`OZ0_BENCH`, default `../shared/bench`) to a temporary folder that other users can read, builds it,
starts the DNS server that egressd asks (outside the measured process tree), passes its own arguments through to
`bench.py`, and prints the ratios. Called by `scripts/bench`; ends with 1 when a target was measured and missed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[1]
DEFAULTS = {
    "--peers": "squid,tinyproxy,egressd,egressd+log",
    "--scenarios": "connect-c16,deny-c16,http-1k-c32,down-8,idle-5000",
    "--rounds": "5",
}
MEASURED = "egressd+log"
BASELINE = "squid"
DENIED = "denied.invalid"


@dataclass(frozen=True, slots=True)
class Target:
    """What one scenario may cost.

    Attributes:
        key: The field of the harness's result.
        at_most: As a ratio to the baseline in the same round, or in the field's own unit.
        ratio: Which of the two.
    """

    key: str
    at_most: float
    ratio: bool = True


TARGETS = {
    "connect-c16": Target("cpu_us_op", 0.90),
    "deny-c16": Target("cpu_us_op", 0.50),
    "http-1k-c32": Target("cpu_us_op", 0.55),
    "down-8": Target("cpu_s_gib", 0.55),
    "idle-5000": Target("pss_kib_tunnel", 4.0, ratio=False),
}


def harness() -> Path:
    """The folder that the harness is copied from."""
    folder = Path(os.environ.get("OZ0_BENCH", ROOT.parent / "shared" / "bench"))
    if not (folder / "bench.py").is_file():
        raise SystemExit(f"no benchmark harness in {folder}: name its folder in OZ0_BENCH")
    return folder


def build(into: Path) -> Path:
    """Copy the harness and build its load generator and origin; returns the copy."""
    copy = into / "harness"
    shutil.copytree(harness(), copy)
    for path in (copy, *copy.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200 | (0o055 if path.is_dir() else 0o044))
    for tool in ("make", "cc"):
        if shutil.which(tool) is None:
            raise SystemExit(f"{tool} is missing (Debian, Ubuntu: apt-get install make gcc libc6-dev)")
    subprocess.run(["make", "-s", "-C", copy], check=True)
    return copy


@contextmanager
def name_server(folder: Path) -> Iterator[tuple[str, Path]]:
    """A DNS server that knows `localhost` alone.

    Yields:
        Its `address:port`, and the file that it writes every question to.
    """
    zone, log = folder / "zone.json", folder / "questions.jsonl"
    zone.write_text(json.dumps({"localhost": {"A": [{"values": ["127.0.0.1"], "ttl": 300}]}}), encoding="utf-8")
    command = [sys.executable, "-m", "support.dns_server", "--listen", "127.0.0.1:0"]
    server = subprocess.Popen(
        [*command, "--zone", str(zone), "--log", str(log)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "tests")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    with server:
        try:
            assert server.stdout is not None  # noqa: S101 - it was asked for
            yield server.stdout.readline().strip(), log
        finally:
            server.terminate()


def arguments(given: Sequence[str]) -> list[str]:
    """The arguments for bench.py: those given, and our defaults for what they leave out."""
    missing = {
        option: value
        for option, value in DEFAULTS.items()
        if not any(each == option or each.startswith(option + "=") for each in given)
    }
    return [*(word for pair in missing.items() for word in pair), *given]


def absent(peers: str) -> list[str]:
    """Advice about the programs to compare with that are not here."""
    programs = {peer.partition("+")[0] for peer in peers.split(",")} & {"squid", "tinyproxy"}
    paths = os.environ.get("PATH", "") + ":/usr/sbin"
    return [
        f"{program} is not installed (Debian, Ubuntu: apt-get install {program}); left out"
        for program in sorted(programs)
        if shutil.which(program, path=paths) is None
    ]


def read_results(path: Path) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """The harness's lines by scenario and peer, failed runs left out."""
    rows: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "error" not in row:
            rows.setdefault(row["scenario"], {}).setdefault(row["peer"], []).append(row)
    return rows


def measured(target: Target, peers: dict[str, list[dict[str, Any]]]) -> float | None:
    """The figure that the target is about: the median over the rounds, of ratios within a round where it is a ratio."""
    runs = peers.get(MEASURED, [])
    if not target.ratio:
        return statistics.median(run[target.key] for run in runs) if runs else None
    base = {run["round"]: run[target.key] for run in peers.get(BASELINE, []) if run[target.key]}
    pairs = [run[target.key] / base[run["round"]] for run in runs if run["round"] in base]
    return statistics.median(pairs) if pairs else None


def report(rows: dict[str, dict[str, list[dict[str, Any]]]], peers: Sequence[str]) -> tuple[str, bool]:
    """A table of the targets, and whether every one is met; one that these peers cannot give a figure for is."""
    lines = [f"| scenario | {MEASURED} | target | |", "|---|---|---|---|"]
    good = True
    for scenario, target in TARGETS.items():
        if scenario not in rows:
            continue
        figure = measured(target, rows[scenario])
        unit = f"× {BASELINE}" if target.ratio else "KiB PSS a tunnel"
        bound = f"at most {target.at_most:.2f} {unit}"
        if figure is None:
            lines.append(f"| {scenario} | not measured | {bound} | |")
            good &= not {MEASURED, BASELINE} <= set(peers)
            continue
        met = figure <= target.at_most
        good &= met
        lines.append(f"| {scenario} | {figure:.2f} {unit} | {bound} | {'met' if met else 'missed'} |")
    return "\n".join(lines), good


def main(given: Sequence[str]) -> int:
    """Run everything and return the exit status."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--peers", default=DEFAULTS["--peers"])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench" / "results.jsonl")
    own, _ = parser.parse_known_args(given)
    for advice in absent(own.peers):
        print(advice, file=sys.stderr)
    out = own.out.resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    out.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="oz0-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        copy = build(folder)
        with name_server(folder) as (resolver, questions):
            environment = os.environ | {
                "PATH": os.environ.get("PATH", "") + ":/usr/sbin",
                "BENCH_PROJECT": str(ROOT),
                "BENCH_EGRESSD_PYTHON": sys.executable,
                "BENCH_RESOLVER": resolver,
            }
            command = [sys.executable, str(copy / "bench.py"), "--extra-config", str(ROOT / "bench" / "egressd.toml")]
            ended = subprocess.run(
                [*command, *arguments(given), "--out", str(out)], env=environment, cwd=copy, check=False
            ).returncode
        if ended or not out.exists():  # it failed, or was only asked for its list of peers
            return ended
        if questions.exists() and DENIED in questions.read_text(encoding="utf-8"):
            print(f"{DENIED} was asked of the DNS server: a name that no rule allows was looked up", file=sys.stderr)
            return 1
    table, good = report(read_results(out), own.peers.split(","))
    print(f"\nTargets ({out}):\n\n{table}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
