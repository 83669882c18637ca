"""Writes the lists that the benchmark runs with: ten tenants, a hundred rules each, of every form that a list may have.

Called by the harness before it starts egressd: `python policy.py FOLDER RULE...`; the given rules go to `tenant-0`, the
tenant of the measured listener. The names are reserved ones, so none of them can be anything's address.
"""

from __future__ import annotations

import sys
from pathlib import Path

TENANTS = 10
RULES = 100
# Every tenth rule is of another form, so that the match walks through all of its indexes.
FORMS = (
    "host-{}.tenant-{}.example",
    "*.below-{}.tenant-{}.example",
    ".suffix-{}.tenant-{}.example",
    "port-{}.tenant-{}.example:8443",
    "! denied-{}.tenant-{}.example",
)


def rules(tenant: int) -> list[str]:
    """A hundred rules that differ between tenants."""
    return [FORMS[number % len(FORMS)].format(number, tenant) for number in range(RULES)]


def main(folder: Path, measured: list[str]) -> None:
    """Write `FOLDER/tenants/tenant-N.list`."""
    (folder / "tenants").mkdir(parents=True)
    (folder / "plugins").mkdir()
    for tenant in range(TENANTS):
        # The measured rules take the place of as many others: a thousand in all.
        lines = [*measured, *rules(tenant)[len(measured) :]] if tenant == 0 else rules(tenant)
        (folder / "tenants" / f"tenant-{tenant}.list").write_text("\n".join(lines) + "\n", encoding="ascii")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
