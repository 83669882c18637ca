"""Summary, filled summary and stub."""

from __future__ import annotations

import pytest

from oz0_web.measures import Meter, Size
from oz0_web.summaries import fill, stub, summary
from oz0_web.tokens import ESTIMATORS
from oz0_web.views import Subject, read_subject

GENERIC = ESTIMATORS["generic"]
METER = Meter(GENERIC, str)
PAGE = """\
Before all. More before.

# Guide

A guide. It guides.

Second block of the guide.

## Install

Run it. Then wait.

```
run
```

## Empty

### Deep

Deep words. More.
"""


def page(text: str = PAGE, *, is_markdown: bool = True) -> Subject:
    return read_subject(text, url="https://a.example/", title="T", is_markdown=is_markdown, estimator=GENERIC)


def room(characters: int) -> Size:
    return Size(1e9, characters, characters)


@pytest.mark.requirement("OZ-44")
def test_a_summary_is_address_title_and_each_heading_with_its_first_sentence() -> None:
    assert summary(page()).content == (
        "https://a.example/\nT\n\nBefore all.\n\n# Guide\nA guide.\n\n"
        "## Install\nRun it.\n\n## Empty\n\n### Deep\nDeep words."
    )


def test_a_page_without_a_title_has_only_its_address_above() -> None:
    subject = read_subject("# A", url="https://a.example/", title="", is_markdown=True, estimator=GENERIC)

    assert summary(subject).content == "https://a.example/\n\n# A"


@pytest.mark.requirement("OZ-48")
def test_a_summary_without_headings_names_ranges() -> None:
    content = summary(page("word. More\n" * 30, is_markdown=False)).content

    assert "Lines 1-10\nword.\n\nLines 11-20\nword." in content


def test_a_summary_that_fits_nowhere_is_not_written_to_its_end() -> None:
    assert len(summary(page("# Heading\n\nWords in it.\n\n" * 30_000)).content) < 250_000


def test_a_filled_summary_grows_round_by_round_in_document_order() -> None:
    least = fill(page(), room(135), METER)
    middle = fill(page(), room(210), METER)
    most = fill(page(), room(1_000), METER)

    assert least is not None
    assert "A guide.\n" in least.content
    assert middle is not None
    assert "Before all. More before." in middle.content
    assert most is not None
    assert (most.left_out, most.is_filled) == ((), True)
    assert "Second block of the guide.\n\n## Install\n\nRun it. Then wait.\n\n```\nrun\n```\n\n## Empty" in most.content


def test_a_section_that_is_filled_in_part_says_which_lines_are_missing() -> None:
    text = "# A\n\nOne. More of it.\n\n" + "Long words here. " * 200 + "\n\n# B\n\nTwo. More of that.\n"
    view = fill(page(text), room(200), METER)

    assert view is not None
    assert "One. More of it.\n\nLong words here." in view.content
    assert "Long words here. …\n\n[… 5-6]\n\n# B\n\nTwo. More of that." in view.content
    assert len(view.content) <= 200
    assert [str(each) for each in view.left_out] == ["5-6"]


def test_what_no_whole_block_fits_into_is_used_by_a_part_of_one() -> None:
    text = "# A\n\n" + "\n".join(f"- item {each} of the list" for each in range(100)) + "\n\n# B\n\nTwo.\n"
    view = fill(page(text), room(900), METER)

    assert view is not None
    assert "- item 30 of the list\n" in view.content
    assert "of the list\n\n[… " in view.content
    assert 800 < len(view.content) <= 900


def test_there_is_no_filled_summary_where_the_headings_have_no_room() -> None:
    assert fill(page("# Heading\n" * 100), room(300), METER) is None


@pytest.mark.requirement("OZ-45")
def test_a_stub_has_address_title_size_and_headings_with_their_lines() -> None:
    subject = page()

    assert stub(subject, room(1_000), METER).content == (
        f"https://a.example/\nT\n{subject.tokens} tokens, 21 lines\n"
        "- Guide (3-21)\n  - Install (9-16)\n  - Empty (17-21)\n    - Deep (19-21)"
    )


@pytest.mark.requirement("OZ-45")
def test_a_stub_leaves_out_the_deepest_headings_first_and_then_the_last() -> None:
    two = stub(page("# A\n## B\n### C\n### D\n## E\n" + "### F\n" * 20), room(140), METER)
    one = stub(page("# A\n" * 100), room(140), METER)

    assert "- B (" in two.content
    assert "- C (" not in two.content
    assert two.content.endswith("… and 22 more")
    assert two.is_cut
    assert one.content.endswith(f"… and {100 - one.content.count('- A')} more")


@pytest.mark.requirement("OZ-45", "OZ-48")
def test_a_stub_without_headings_names_ranges() -> None:
    assert "\n11-20: word." in stub(page("word. More\n" * 30, is_markdown=False), room(1_000), METER).content


def test_a_stub_with_hardly_any_room_has_the_beginning_of_the_size_and_nothing_else() -> None:
    assert len(stub(page(), room(3), METER).content) <= 3


def test_a_stub_of_very_many_headings_looks_at_some_only() -> None:
    content = stub(page("# A\n" + "## B\n" * 10_000), room(200_000), METER).content

    assert content.endswith("- A (1-10001)\n… and 10000 more")
