"""Where the project is and what belongs to it, for the tests that read it as a whole.

Reads files only. Called by `tests/rules` and by whoever needs a path of the source tree.
"""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Folder of the sources, import name, folder of the tests that mirror it.
PACKAGES = (
    (ROOT / "shared" / "src" / "egress_policy", "egress_policy", ROOT / "tests" / "shared"),
    (ROOT / "proxy" / "src" / "egressd", "egressd", ROOT / "tests" / "proxy"),
    (ROOT / "toolclient" / "src" / "oz0_web", "oz0_web", ROOT / "tests" / "toolclient"),
)
DISTRIBUTIONS = ("shared", "proxy", "toolclient")


@cache
def project_files() -> tuple[Path, ...]:
    """Every file that git tracks or would track, so that what is ignored (environments, caches) is not judged."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.decode()
    return tuple(path for name in listed.split("\0") if name and (path := ROOT / name).is_file())


def source_modules() -> tuple[Path, ...]:
    """Every module of the three distributions, package files left out."""
    return tuple(
        path for folder, _, _ in PACKAGES for path in sorted(folder.rglob("*.py")) if path.name != "__init__.py"
    )
