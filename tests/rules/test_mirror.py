"""Every source module has a test file of the same name in the mirrored folder, or a reason here why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.project import PACKAGES, ROOT, source_modules

if TYPE_CHECKING:
    from pathlib import Path

# Module (as its path below the import folder) to the reason why no test file mirrors it. This list only shrinks.
WITHOUT = {
    "egressd/__main__.py": "one call of cli.main, run by every system test",
    "egressd/worker/__main__.py": "arguments and signals around service.run; every system test runs it",
    "oz0_web/__main__.py": "one call of cli.main, run by every system test",
    "egressd/limits.py": "numbers without code; test_limits.py in tests/rules holds their form",
    "oz0_web/limits.py": "numbers without code; test_limits.py in tests/rules holds their form",
}


def mirror(module: Path) -> Path:
    """The test file that belongs to a source module."""
    for folder, _, tests in PACKAGES:
        if module.is_relative_to(folder):
            inside = module.relative_to(folder)
            name = inside.parent.name if inside.name == "__main__.py" else inside.stem
            return tests / inside.parent / f"test_{name}.py"
    raise AssertionError(module)


def label(module: Path) -> str:
    """The module as people write it: `egressd/worker/pool.py`."""
    return next(f"{name}/{module.relative_to(folder)}" for folder, name, _ in PACKAGES if module.is_relative_to(folder))


@pytest.mark.parametrize("module", source_modules(), ids=label)
def test_the_module_has_a_test_file(module: Path) -> None:
    expected = mirror(module)

    assert expected.is_file() or label(module) in WITHOUT, f"no {expected.relative_to(ROOT)}"


def test_every_exception_is_still_needed() -> None:
    modules = {label(module): module for module in source_modules()}

    assert [name for name in WITHOUT if name not in modules or mirror(modules[name]).is_file()] == []
