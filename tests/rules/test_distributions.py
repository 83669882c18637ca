"""The three distributions agree with each other and with the pins; each wheel holds its package and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from typing import TYPE_CHECKING, Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.project import DISTRIBUTIONS, ROOT

if TYPE_CHECKING:
    from pathlib import Path

SHARED = "oz0-egress-policy"
IMPORT_NAMES = {"shared": "egress_policy", "proxy": "egressd", "toolclient": "oz0_web"}
COMMANDS = {"shared": set(), "proxy": {"egressd", "egressctl"}, "toolclient": {"oz0-web"}}
# They come with the environment itself, so nothing pins them.
UNPINNED = {"pip", "setuptools", "wheel"}


def project(folder: str) -> dict[str, Any]:
    """The project table of one distribution."""
    table: dict[str, Any] = tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


def pins(name: str = "constraints.txt") -> dict[str, str]:
    """Package to version, as pinned."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    wanted = [line.partition("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(package): version for package, _, version in wanted}


def test_the_three_carry_one_version() -> None:
    assert len({project(folder)["version"] for folder in DISTRIBUTIONS}) == 1


@pytest.mark.parametrize("folder", ["proxy", "toolclient"])
def test_each_program_asks_for_the_contract_of_its_own_version(folder: str) -> None:
    table = project(folder)

    assert f"{SHARED}=={table['version']}" in table["dependencies"]


@pytest.mark.parametrize("folder", DISTRIBUTIONS)
def test_each_names_licence_and_python(folder: str) -> None:
    table = project(folder)

    assert (table["license"], table["requires-python"]) == ("Apache-2.0", ">=3.11")
    assert (ROOT / folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.mark.parametrize("folder", DISTRIBUTIONS)
def test_what_it_asks_for_is_pinned_to_a_version_that_it_accepts(folder: str) -> None:
    table, pinned = project(folder), pins()
    extras = table.get("optional-dependencies", {}).values()
    asked = [Requirement(text) for text in [*table["dependencies"], *(text for extra in extras for text in extra)]]

    for requirement in asked:
        if requirement.name != SHARED:
            assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), requirement


@pytest.mark.parametrize("name", ["constraints.txt", "constraints-peers.txt"])
def test_the_pins_name_one_exact_version_each_and_no_index(name: str) -> None:
    lines = [line for line in (ROOT / name).read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]

    assert [line for line in lines if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*==[0-9][0-9A-Za-z.+]*", line)] == []
    assert len(lines) == len(pins(name))


def test_the_environment_is_the_pinned_one() -> None:
    ours = {project(folder)["name"] for folder in DISTRIBUTIONS}
    installed = {canonicalize_name(each.metadata["Name"]): each.version for each in metadata.distributions()}

    assert {name: at for name, at in installed.items() if name not in ours | UNPINNED} == pins()


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The three wheels, built by the pinned backend."""
    built = {}
    for folder in DISTRIBUTIONS:
        into = tmp_path_factory.mktemp(folder)
        command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(into), folder]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        (built[folder],) = into.glob("*.whl")
    return built


@pytest.mark.slow
@pytest.mark.parametrize("folder", DISTRIBUTIONS)
def test_the_wheel_holds_its_package_typed_and_licensed_and_nothing_else(folder: str, wheels: dict[str, Path]) -> None:
    package = IMPORT_NAMES[folder]
    with zipfile.ZipFile(wheels[folder]) as wheel:
        names = set(wheel.namelist())
    tops = {name.split("/")[0] for name in names}
    sources = {f"{path.relative_to(ROOT / folder / 'src')}" for path in (ROOT / folder / "src").rglob("*.py")}

    assert {top for top in tops if not top.endswith(".dist-info")} == {package}
    assert sources | {f"{package}/py.typed"} == {name for name in names if name.startswith(f"{package}/")}
    assert any(name.endswith("/LICENSE") for name in names)


@pytest.mark.slow
@pytest.mark.parametrize("folder", DISTRIBUTIONS)
def test_the_wheel_brings_its_commands(folder: str, wheels: dict[str, Path]) -> None:
    with zipfile.ZipFile(wheels[folder]) as wheel:
        found = [wheel.read(name).decode() for name in wheel.namelist() if name.endswith("entry_points.txt")]
    commands = set(re.findall(r"^([\w-]+) = ", "".join(found), re.MULTILINE))

    assert commands == COMMANDS[folder]
