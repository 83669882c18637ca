"""Sizes and room: all three bounds hold at once."""

from __future__ import annotations

import json

import pytest

from oz0_web.measures import NOTHING, Meter, Size
from oz0_web.tokens import ESTIMATORS


@pytest.mark.requirement("X33")
@pytest.mark.parametrize(
    ("size", "fits"),
    [
        (Size(10, 10, 10), True),
        (Size(10.1, 10, 10), False),
        (Size(10, 11, 10), False),
        (Size(10, 10, 11), False),
    ],
)
def test_the_tightest_bound_wins(size: Size, *, fits: bool) -> None:
    assert size.fits(Size(10, 10, 10)) is fits


def test_sizes_add_and_subtract() -> None:
    assert Size(1, 2, 3).plus(Size(1, 1, 1)).minus(Size(2, 3, 4)) == NOTHING


def test_a_meter_measures_content_as_it_is_sent() -> None:
    meter = Meter(ESTIMATORS["generic"], lambda text: json.dumps(text)[1:-1])
    size = meter.size('"\n')

    assert (size.characters, size.points) == (4, 2)
    assert size.tokens == ESTIMATORS["generic"].weigh('\\"\\n')
    assert meter.fits('"\n', size)
    assert not meter.fits('"\n', Size(100, 3, 3))
    assert not meter.fits("x" * 10, Size(100, 9, 100))
