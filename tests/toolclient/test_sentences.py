"""The first sentence under a heading."""

from __future__ import annotations

import pytest

from oz0_web.outline import read_outline
from oz0_web.sentences import SENTENCE_MAX_CHARACTERS, cut_sentence, first_sentence


@pytest.mark.requirement("OZ-44")
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("One. Two.", "One."),
        ("One is 3.5 wide. Two.", "One is 3.5 wide."),
        ("Use a tool, e.g. this one. Then more.", "Use a tool, e.g. this one."),
        ("By J. Smith in 1999. More.", "By J. Smith in 1999."),
        ('He said "stop." And went.', 'He said "stop."'),
        ("Really? Yes.", "Really?"),
        ("no end here", "no end here"),
        ("これは文です。次の文です。", "これは文です。"),
        ("two\nlines. Next", "two lines."),
        ("- item one. More\n- two", "item one."),
        ("| a | b |\n|---|---|", "| a | b |"),
        ("```\ncode. x\n```\n\nText. More.", "Text."),
        ("---\n\nText.", "Text."),
        ("```\nonly code\n```", ""),
        ("", ""),
    ],
)
def test_it_is_the_first_of_the_first_paragraph(text: str, sentence: str) -> None:
    outline = read_outline(text, is_markdown=True)

    assert first_sentence(outline, outline.blocks) == sentence


def test_a_long_one_is_cut_at_a_word() -> None:
    cut = cut_sentence("word " * 1_000)

    assert len(cut) <= SENTENCE_MAX_CHARACTERS
    assert cut.endswith("word…")
    assert len(cut_sentence("x" * 1_000)) == SENTENCE_MAX_CHARACTERS
