"""HTML to Markdown and text: what is left out, what stays, what is mended."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oz0_web.html_page import convert_html

BASE = "https://example.org/docs/page.html"


def markdown(html: str) -> str:
    return convert_html(html, BASE, "markdown").content


@pytest.mark.requirement("OZ-36")
def test_scripts_styles_navigation_header_footer_and_hidden_parts_are_left_out() -> None:
    page = convert_html(
        """<!DOCTYPE html><title> The  title </title><style>css{}</style><body><header>Site name</header><nav>Menu</nav>
        <script>code()</script><template>tpl</template><main><h1>Heading</h1><p>Words <b>bold</b>.</p>
        <p hidden>one</p><div style="display:none">two</div></main><footer>Imprint</footer>""",
        BASE,
        "markdown",
    )

    assert page.content == "# Heading\n\nWords **bold**."
    assert (page.title, page.hidden, page.kept_hidden) == ("The title", 2, False)


@pytest.mark.requirement("OZ-36")
def test_text_is_the_same_content_without_marks() -> None:
    html = "<title>t</title><nav>Menu</nav><h1>Heading</h1><p>Words <b>bold</b>.<ul><li>one<li>two</ul>"

    page = convert_html(html, BASE, "text")

    assert page.content.split() == ["Heading", "Words", "bold.", "-", "one", "-", "two"]


@pytest.mark.case("E4", "O19")
def test_a_header_or_footer_inside_an_article_belongs_to_it() -> None:
    article = "<article><header><h1>T</h1>by A</header><p>x</p><footer>source B</footer></article>"
    html = f"<header>site</header>{article}<footer>imprint</footer>"

    assert markdown(html) == "# T\n\nby A\n\nx\n\nsource B"


@pytest.mark.case("E4")
def test_the_only_level_1_heading_survives_its_header_and_footnotes_their_footer() -> None:
    html = "<header>site <h1>Only</h1></header><p>x</p><footer>imprint<div class=footnotes>note</div></footer>"

    assert markdown(html) == "# Only\n\nx\n\nnote"
    assert markdown("<header><h1>Site</h1></header><h1>Page</h1>") == "# Page"


def test_the_title_is_the_title_element_or_the_first_heading_or_empty() -> None:
    assert convert_html("<svg><title>no</title></svg><h1>Yes</h1>", BASE, "text").title == "Yes"
    assert convert_html("<title>  </title><h1>Yes</h1>", BASE, "text").title == "Yes"
    assert convert_html("<p>x", BASE, "text").title == ""


@pytest.mark.case("K7")
def test_links_are_absolute_from_the_final_url_or_the_pages_base() -> None:
    assert markdown('<a href="../a?b=1#c">x</a>') == "[x](https://example.org/a?b=1#c)"
    assert markdown('<base href="/other/"><a href="a">x</a>') == "[x](https://example.org/other/a)"
    assert markdown('<a href="//cdn.example/a">x</a>') == "[x](https://cdn.example/a)"


@pytest.mark.case("K14", "K16")
def test_links_that_lead_nowhere_become_text_and_inline_images_a_mark() -> None:
    assert markdown('<a href="javascript:x()">x</a> <a href="">y</a>') == "x y"
    assert "base64" not in markdown('<img alt="a" src="data:image/png;base64,AAAA">')
    assert markdown(f'<a href="https://e.org/{"x" * 3000}">x</a>') == "x"


@pytest.mark.case("O15")
def test_an_embedded_page_becomes_a_link() -> None:
    assert (
        markdown('<p><iframe src="https://video.example/1" title="A film">no</iframe></p>')
        == "[A film](https://video.example/1)"
    )
    assert markdown('<p>x<iframe srcdoc="<p>inside"></iframe></p>') == "x"


def test_leaving_out_what_is_hidden_is_undone_when_it_would_empty_the_page() -> None:
    page = convert_html('<body><div class="hidden">All there is</div>', BASE, "markdown")

    assert (page.content, page.hidden, page.kept_hidden) == ("All there is", 0, True)


@pytest.mark.case("E17")
def test_invisible_characters_are_taken_out() -> None:
    assert markdown("<p>a\u200bb\u202ec\U000e0041d\u00ade") == "abcde"


@pytest.mark.case("O20")
@pytest.mark.parametrize(
    "html",
    [
        *("<div>" * 60_000, "<option>" * 60_000, "<b><a>" * 30_000, "<table>" * 30_000, "<ul><li>" * 30_000),
        *("<svg><p>" * 30_000, "<header>" * 30_000, "<h1>" * 30_000, "<a href=x>" * 30_000, "<p style='/* " * 30_000),
    ],
    ids=lambda html: html[:8],
)
def test_deep_and_unclosed_markup_ends_in_time(html: str) -> None:
    began = time.process_time()
    page = convert_html(f"{html}end", BASE, "markdown")

    assert time.process_time() - began < 2
    assert len(page.content) <= 4 * len(html) + 65_536


@settings(max_examples=200)
@given(
    st.lists(
        st.sampled_from(
            [
                "<p>",
                "</p>",
                "<table><tr>",
                "<td>",
                "x",
                "<header>",
                "<h1>",
                "<a href=",
                '"y">',
                "<iframe src=//z>",
                "&amp",
                "<!--",
                "\0",
                "<svg>",
                "<base href=:>",
                " hidden>",
            ]
        ),
        max_size=30,
    ).map("".join)
)
def test_any_markup_gives_a_page(html: str) -> None:
    assert isinstance(markdown(html), str)
