"""What is said otherwise in the tree, so that its Markdown reads right."""

from __future__ import annotations

import time

import pytest

from oz0_web.html_page import convert_html


def markdown(html: str) -> str:
    return convert_html(html, "https://e.org/d/p.html", "markdown").content


@pytest.mark.case("C9")
@pytest.mark.parametrize(
    "html",
    [
        "<pre class=language-go>x</pre>",
        "<pre><code class=lang-go>x</code></pre>",
        "<div class='highlight highlight-source-go'><pre>x</pre></div>",
        "<pre class='brush: go; toolbar: false'>x</pre>",
        "<pre data-lang=go>x</pre>",
    ],
)
def test_a_code_blocks_language_is_found_wherever_it_is_named(html: str) -> None:
    assert markdown(html) == "```go\nx\n```"


def test_a_code_block_without_a_language_has_none() -> None:
    assert markdown("<pre class='brush'>x</pre>") == "```\nx\n```"


@pytest.mark.case("C17")
def test_a_button_is_no_part_of_the_code() -> None:
    assert markdown("<pre><button>Copy</button><code>x</code></pre>") == "```\nx\n```"


@pytest.mark.case("K8", "K9")
def test_a_link_round_a_heading_becomes_a_heading_with_a_link_in_it() -> None:
    assert markdown("<a href=u><h3>x</h3></a>") == "### [x](https://e.org/d/u)"
    assert markdown("<a href=u><h3>x</h3><p>words</p></a>") == "### [x](https://e.org/d/u)\n\nwords"


@pytest.mark.case("K18")
def test_a_lazy_image_has_the_address_it_would_load() -> None:
    real = "![a](https://e.org/d/r.png)"

    assert markdown('<img alt=a src="data:image/gif;base64,R" data-src=r.png>') == real
    assert markdown('<img alt=a srcset="r.png 1x, big.png 2x">') == real
    assert markdown('<img alt=a src=r.png srcset="big.png 2x">') == real


@pytest.mark.case("E11")
def test_bold_inside_bold_is_one_level() -> None:
    assert markdown("<strong>a <b>b</b></strong>") == "**a b**"


@pytest.mark.case("O1", "O2")
def test_terms_and_summaries_are_bold_above_what_belongs_to_them() -> None:
    assert markdown("<dl><dt>T<dd>d</dl>") == "**T**\n\nd"
    assert markdown("<details><summary>Q</summary><p>A</details>") == "**Q**\n\nA"


@pytest.mark.case("O11")
def test_a_ruby_reading_stands_in_brackets() -> None:
    assert markdown("<ruby>漢字<rp>(</rp><rt>かんじ</rt><rp>)</rp></ruby>") == "漢字(かんじ)"


@pytest.mark.case("O12")
def test_a_declarative_shadow_root_is_read() -> None:
    assert markdown("<x-a><template shadowrootmode=open><p>in</p></template><p>out</p></x-a>") == "in\n\nout"


@pytest.mark.parametrize(
    "unit", ["<pre><a href=x><h1>", "<b>", "<dl><dt>", "<dl><dt><i>", "<ruby><rt>", "<a href=x><h2>y</h2></a>"]
)
def test_many_and_unclosed_ones_end_in_time(unit: str) -> None:
    began = time.process_time()
    markdown(unit * 15_000 + "end")

    assert time.process_time() - began < 2
