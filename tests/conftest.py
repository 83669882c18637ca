"""What holds for every test: namespaces, reproducible properties, and no descriptor left open.

Decides when a skip is a failure and what a leak is; has no fixture that a test would ask for by name (those stand in
`tests/support`). Loaded by pytest.
"""

from __future__ import annotations

import contextlib
import gc
import os
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUIRE_NAMESPACES = os.environ.get("OZ0_REQUIRE_NAMESPACES") == "1"
# What libraries open once and keep for the whole process; it is nobody's leak.
KEPT_OPEN = ("/dev/urandom", "/dev/null", "/dev/random")

# A loaded machine makes deadlines a matter of chance. In CI the examples are the same on every run, so that a red run
# is red again at the next try; the blob it prints gives the failing example back anywhere.
hypothesis.settings.register_profile("dev", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker that only this file reads."""
    config.addinivalue_line("markers", "keeps_descriptors(reason): may leave descriptors open, and says why")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a namespace test where none can be made, with the kernel's or the tool's own words."""
    if item.get_closest_marker("namespace") is None:
        return
    from support.lab import why_no_namespaces  # noqa: PLC0415 - asked once a run, and only where such a test runs

    if (why := why_no_namespaces()) is not None:
        pytest.skip(f"no network namespaces here: {why}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Make a failure of a skipped namespace test where they are required (`OZ0_REQUIRE_NAMESPACES=1`, as in CI)."""
    report: pytest.TestReport = yield  # type: ignore[assignment]  # a hook's wrapper is sent the report
    if REQUIRE_NAMESPACES and report.skipped and item.get_closest_marker("namespace") is not None:
        report.outcome = "failed"
        report.longrepr = f"skipped, where namespaces are required: {report.longrepr}"
    return report  # type: ignore[return-value]  # and returns it


def open_descriptors() -> dict[int, str]:
    """This process's descriptors and what each one is; the one that reads the folder is gone by then."""
    found = {}
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found[int(entry.name)] = str(entry.readlink())
    return found


@pytest.fixture(autouse=True)
def no_descriptor_is_left_open(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test that opened a descriptor and did not close it: a proxy that leaks one a request ends in an hour."""
    if request.node.get_closest_marker("keeps_descriptors") is not None or not Path("/proc/self/fd").is_dir():
        yield
        return
    before = open_descriptors()
    yield
    left = new_since(before)
    if left:
        gc.collect()
        left = new_since(before)
    assert not left, f"descriptors left open: {left}"


def new_since(before: dict[int, str]) -> dict[int, str]:
    """The descriptors that were not there before, or are something else now."""
    return {
        number: what
        for number, what in open_descriptors().items()
        if before.get(number) != what and not what.startswith(KEPT_OPEN)
    }
