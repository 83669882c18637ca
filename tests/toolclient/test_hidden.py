"""What counts as hidden by an element's own markup, and what only looks like it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oz0_web.hidden import HIDDEN_CLASSES, is_hidden

pytestmark = [pytest.mark.requirement("OZ-36"), pytest.mark.case("O16")]


@pytest.mark.parametrize(
    "style",
    [
        "display:none",
        "DISPLAY : None !important; display:block",
        "color:red;visibility:hidden",
        "visibility:collapse",
        "opacity:0",
        "opacity:0.0",
        "opacity: 0%",
        "font-size:0px",
        "text-indent:-9999px",
        "text-indent:-1000px",
        "text-indent:-100em",
        "color:transparent",
        "color:rgba(0, 0, 0, 0)",
        "color:rgb(0 0 0 / 0%)",
        "clip:rect(0,0,0,0)",
        "clip: rect(1px, 1px, 1px, 1px)",
        "clip:rect(0 0 0 0)",
        "clip-path:inset(50%)",
        "clip-path: inset(100% 0)",
        "transform:scale(0)",
        "transform: rotate(1deg) scale( 0 )",
        "transform:translateX(-9999px)",
        "transform:translate(0, -2000px)",
        "position:absolute;left:-9999px",
        "position:fixed;top:-5000px",
        "width:0;height:0;overflow:hidden",
        "height:1px;overflow:hidden",
        "display:/* x */none",
        "content-visibility:hidden",
    ],
)
def test_a_style_that_hides(style: str) -> None:
    assert is_hidden("div", {"style": style})


@pytest.mark.parametrize(
    "style",
    [
        "",
        "display:block",
        "display:none;display:block",
        "visibility:visible",
        "opacity:0.1",
        "opacity:.5",
        "font-size:10px",
        "text-indent:-999px",
        "text-indent:2em",
        "left:-9999px",
        "position:relative;left:-9999px",
        "position:absolute;left:-99px",
        "color:rgba(0,0,0,.5)",
        "color:rgb(0,0,0)",
        "clip:rect(0,10px,10px,0)",
        "clip-path:inset(10%)",
        "transform:scale(0.5)",
        "transform:translateX(-10px)",
        "width:0;height:0",
        "height:2px;overflow:hidden",
        "background:none",
        "x-display:none",
    ],
)
def test_a_style_that_hides_nothing(style: str) -> None:
    assert not is_hidden("div", {"style": style})


@pytest.mark.parametrize(
    ("tag", "attributes"),
    [
        ("p", {"hidden": None}),
        ("p", {"hidden": "until-found"}),
        ("p", {"aria-hidden": "true"}),
        ("p", {"aria-hidden": " TRUE "}),
        ("dialog", {}),
        ("input", {"type": "HIDDEN"}),
        *[("span", {"class": f"a {name} b"}) for name in sorted(HIDDEN_CLASSES)],
    ],
)
def test_an_attribute_or_class_that_hides(tag: str, attributes: dict[str, str | None]) -> None:
    assert is_hidden(tag, attributes)


@pytest.mark.case("O18", "O27")
@pytest.mark.parametrize(
    ("tag", "attributes"),
    [
        ("p", {}),
        ("p", {"aria-hidden": "false"}),
        ("p", {"class": "hidden-gem unhidden overhidden sm:hidden not-machine:hidden"}),
        ("p", {"class": "hidden md:block"}),
        ("p", {"class": "d-none d-md-inline-block"}),
        ("p", {"id": "hidden"}),
        ("p", {"title": "x hidden"}),
        ("details", {}),
        ("dialog", {"open": None}),
        ("input", {"type": "text"}),
        ("body", {"hidden": None}),
        ("html", {"style": "display:none"}),
        ("main", {"class": "hidden"}),
    ],
)
def test_what_only_looks_hidden(tag: str, attributes: dict[str, str | None]) -> None:
    assert not is_hidden(tag, attributes)


@given(st.text(max_size=200))
def test_any_style_gives_an_answer(style: str) -> None:
    assert is_hidden("div", {"style": style}) in {True, False}


@pytest.mark.parametrize(
    "style", ["/* " * 100_000, "a:b;" * 100_000, "transform:" + "scale(" * 60_000, "color:rgba(" + "0," * 90_000]
)
def test_a_long_style_costs_no_more_than_its_length(style: str) -> None:
    began = time.process_time()
    is_hidden("div", {"style": style})

    assert time.process_time() - began < 1
