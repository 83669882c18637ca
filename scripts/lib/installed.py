"""Checks what the wheels installed, from the user's side, in an environment that has nothing of the source tree.

Called by `scripts/check` with the import names that must be there. Every module imports, the packages are typed and
carry the licence, the commands answer `--help`; without egressd nothing that could resolve a name is importable. Runs
with the standard library alone.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

DISTRIBUTIONS = {"egress_policy": "oz0-egress-policy", "egressd": "oz0-egressd", "oz0_web": "oz0-web"}
COMMANDS = {"egress_policy": (), "egressd": ("egressd", "egressctl"), "oz0_web": ("oz0-web",)}
# Every library that asks a name server by itself, and every one that would bring one along.
RESOLVERS = ("aiodns", "pycares", "dns", "dnslib", "async_dns", "aiohttp", "egressd")


def problems_of(package: str) -> list[str]:
    """What is wrong with one installed package; empty when nothing is.

    Args:
        package: An import name of `DISTRIBUTIONS`.
    """
    found: list[str] = []
    module = importlib.import_module(package)
    folder = Path(str(module.__file__)).parent
    if not folder.is_relative_to(sysconfig.get_path("purelib")):
        found.append(f"{package} was imported from {folder}, not from the wheel")
    if not (folder / "py.typed").is_file():
        found.append(f"{package} has no py.typed: its types are lost to users")
    for each in pkgutil.walk_packages([str(folder)], prefix=f"{package}."):
        if each.name.rpartition(".")[2] == "__main__":
            continue
        try:
            importlib.import_module(each.name)
        except Exception as fault:  # noqa: BLE001 - whatever an import raises is what is reported
            found.append(f"{each.name} does not import: {fault!r}")
    files = metadata.files(DISTRIBUTIONS[package]) or []
    if not any(file.name == "LICENSE" for file in files):
        found.append(f"{DISTRIBUTIONS[package]} carries no LICENSE")
    for command in COMMANDS[package]:
        program = Path(sysconfig.get_path("scripts")) / command
        ran = subprocess.run([program, "--help"], capture_output=True, text=True, check=False)  # noqa: S603 - our own
        if ran.returncode or not ran.stdout:
            found.append(f"{command} --help ended with {ran.returncode}: {ran.stderr[-200:]}")
    return found


def main(packages: list[str]) -> int:
    """Report on the named packages and return the exit status."""
    found = [problem for package in packages for problem in problems_of(package)]
    if "egressd" not in packages:
        found += [
            f"{name} is importable beside the client"
            for name in RESOLVERS
            if importlib.util.find_spec(name) is not None
        ]
    for problem in found:
        print(problem, file=sys.stderr)  # noqa: T201 - a command that speaks to a person
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
