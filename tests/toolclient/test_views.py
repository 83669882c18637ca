"""Views other than summary and stub."""

from __future__ import annotations

import pytest

from oz0_web.lookup import find_text
from oz0_web.measures import Meter, Size
from oz0_web.outline import span
from oz0_web.tokens import ESTIMATORS
from oz0_web.views import Subject, find, full, passage, read_subject

GENERIC = ESTIMATORS["generic"]
METER = Meter(GENERIC, str)
ROOM = Size(1e9, 10**9, 10**9)


def page(text: str) -> Subject:
    return read_subject(text, url="https://a.example/", title="T", is_markdown=True, estimator=GENERIC)


@pytest.mark.requirement("OZ-42")
def test_full_is_the_whole_markdown() -> None:
    view = full(page("# A\n\ntext"))

    assert (view.name, view.content, view.left_out, view.rest, view.is_cut) == ("full", "# A\n\ntext", (), None, False)


@pytest.mark.requirement("OZ-43", "OZ-46")
def test_a_passage_tells_what_stands_around_it() -> None:
    text = "a\n\nb\n\nc\n\nd"

    whole = passage(page(text), "section", span(3, 5), ROOM, METER)
    cut = passage(page(text), "lines", span(3, 7), Size(1e9, 3, 3), METER)
    last = passage(page(text), "lines", span(5, 7), Size(1e9, 3, 3), METER)

    assert (whole.content, [str(each) for each in whole.left_out], whole.is_cut) == ("b\n\nc", ["1-2", "6-7"], False)
    assert (cut.content, [str(each) for each in cut.left_out], str(cut.rest)) == ("b", ["1-2", "5-7"], "5-7")
    assert (last.content, [str(each) for each in last.left_out], str(last.rest)) == ("c", ["1-4", "7"], "7")


def found(text: str, needle: str, room: Size = ROOM) -> str:
    subject = page(text)
    return find(subject, needle, find_text(subject.outline, needle), room, METER).content


def test_found_lines_are_numbered_marked_and_have_the_lines_around() -> None:
    text = "\n".join(f"l{each}" for each in range(1, 10))

    assert found(text, "L5") == "1 line with 'L5'\n\n3: l3\n4: l4\n5> l5\n6: l6\n7: l7"
    assert found(text, "x") == "0 lines with 'x'"


def test_lines_around_two_matches_are_shown_once() -> None:
    text = "n\na\nb\nn\nc\nn\nd\ne\nf\ng\nh\nn"

    assert found(text, "n") == (
        "4 lines with 'n'\n\n1> n\n2: a\n3: b\n4> n\n5: c\n6> n\n7: d\n8: e\n\n10: g\n11: h\n12> n"
    )


def test_a_match_in_a_long_line_is_an_excerpt_with_its_address() -> None:
    content = found("x" * 5_000 + " needle " + "y" * 5_000, "needle")

    assert content.startswith("1 line with 'needle'\n\n1.2> …xxx")
    assert " needle " in content
    assert len(content) < 320


def test_matches_that_have_no_room_are_counted_and_led_to() -> None:
    subject = page("\n".join("needle" if each % 10 == 0 else "hay" for each in range(1, 100)))
    view = find(subject, "needle", find_text(subject.outline, "needle"), Size(1e9, 130, 130), METER)

    assert view.content.startswith("9 lines")
    assert (view.is_cut, str(view.rest)) == (True, "30")
