from __future__ import annotations

import pytest

from outrider.distiller.units import find_units
from outrider.sources.web.html_page import parse_page
from support.shared_data import DATA

LONG = "The treatment is repeated after three weeks, when the brood has hatched and the mites have left the cells of the hive."
BLOCKS = (
    "<h1>Varroa <i>guide</i></h1><p>Treated colonies lost <b>8%</b>,\nuntreated ones 31%.<br>A second line</p><h2>Dose</h2>"
    "<ul><li>Weigh the crystals<li>Dissolve them<ul><li>in syrup</li></ul></ul>"
    "<table><thead><tr><th>Year</th><th>Loss</th></tr></thead><tbody><tr><td>2001</td><td>12%</td></tr></tbody></table>"
    "<pre><code>import bees\n\nbees.fly(3)</code></pre>"
)
RENDERED = """# Varroa guide

Treated colonies lost 8%, untreated ones 31%.
A second line

## Dose

- Weigh the crystals
- Dissolve them
  - in syrup

| Year | Loss |
|---|---|
| 2001 | 12% |

```
import bees

bees.fly(3)
```"""


def page_text(body: str) -> str:
    return parse_page(f"<html><head><title>T</title><script>var x</script></head><body>{body}</body></html>").text


def test_the_blocks_of_a_small_page_stand_apart() -> None:
    assert page_text(BLOCKS) == RENDERED


def test_the_blocks_of_a_main_text_stand_apart() -> None:
    paragraphs = "".join(f"<p>{number}: {LONG}</p>" for number in range(3))
    expected = RENDERED + "".join(f"\n\n{number}: {LONG}" for number in range(3))
    assert page_text(f"<nav><a href=/>Home</a></nav><article>{BLOCKS}{paragraphs}</article><footer>Imprint</footer>") == expected


def test_no_sentence_of_a_page_begins_with_the_heading_above() -> None:
    text = page_text(f"<h1>Varroa guide</h1><p>{LONG}</p><h2>Repeat it</h2><p>{LONG}</p>")
    assert [text[unit.start : unit.end] for unit in find_units(text)] == [LONG, LONG]


def test_a_table_without_a_head_keeps_its_first_row() -> None:
    text = page_text("<p>Losses</p><table><tr><td>2001</td><td>a|b</td></tr><tr><td>2002</td><td>19%</td></tr></table>")
    assert [text[unit.start : unit.end] for unit in find_units(text) if unit.kind == "row"] == ["| 2001 | a\\|b |", "| 2002 | 19% |"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("words <b>bold</b>,<i> it</i><!-- no -->after", "words bold, itafter"),
        ("<p>a&#27;[31mb&#1; c</p>", "a[31mb c"),
        ("<div>one<div>two</div>three</div>", "one\n\ntwo\n\nthree"),
        ("<p>use <code>x</code> now</p>", "use x now"),
        ("<pre>x = '```'</pre>", "````\nx = '```'\n````"),
        (
            f"<article><p>{LONG}</p><pre>a poem\nof two lines</pre><p>Second: {LONG}</p></article>",
            f"{LONG}\n\na poem\nof two lines\n\nSecond: {LONG}",
        ),
        ("<pre></pre><h1></h1><p>x</p>", "x"),
        ("<pre><code>one()<br>two()<!-- no --></code></pre>", "```\none()\ntwo()\n```"),
        ("<pre><div>one()</div><div>two()\n</div>three()</pre>", "```\none()\ntwo()\nthree()\n```"),
        (
            f"<article><p>{LONG}</p><ul><li><p>one</p></li><li><p>two</p></li></ul><p>Second: {LONG}</p></article>",
            f"{LONG}\n\n- one\n- two\n\nSecond: {LONG}",
        ),
        ("<select><option>one</option><option>two</option></select>", "one\n\ntwo"),
        (
            "<p>x</p><table><tr><th>H<sub>2</sub>O<script>no()</script></th><th><p>one</p><p>two<br>three</p></th></tr></table>",
            "x\n\n| H2O | one two three |\n|---|---|",
        ),
    ],
)
def test_odd_pages_are_rendered(body: str, expected: str) -> None:
    assert page_text(body) == expected


def test_deep_pages_are_rendered() -> None:
    assert page_text("<ul><li>x" * 3_000).count("x") >= 100


def test_line_breaks_in_code_of_a_main_text_are_kept() -> None:
    text = page_text(f"<article><p>{LONG}</p><pre><code>one()<br>two()</code></pre><p>Second: {LONG}</p></article>")
    assert text == f"{LONG}\n\n```\none()\ntwo()\n```\n\nSecond: {LONG}"


@pytest.mark.skipif(not DATA.exists(), reason=f"no data at {DATA}; set OUTRIDER_DATA")
def test_no_word_of_the_extracted_text_is_lost() -> None:
    from trafilatura import bare_extraction

    from outrider.sources.web.page_text import render_blocks

    for source in sorted((DATA / "web/readability").glob("*/source.html"))[::3]:
        extracted = bare_extraction(source.read_text(encoding="utf-8"), fast=True)
        if extracted:
            rendered = render_blocks(extracted.body)
            assert list(filter(str.isalnum, rendered)) == list(filter(str.isalnum, extracted.text)), source


def test_a_term_stands_above_its_definition() -> None:
    text = page_text(
        f"<h1>Terms</h1><p>{LONG}</p><dl><dt>White-box</dt><dd><p>By metrics that the system exposes.</p></dd>"
        f"<dt>Page</dt><dt>Alert</dt><dd>A notification.<dd>It asks for a human.</dd><dt>Alone</dt></dl><p>{LONG}</p>"
    )
    terms = "White-box\n: By metrics that the system exposes.\n\nPage\nAlert\n: A notification.\n: It asks for a human.\n\n- Alone"
    assert text == f"# Terms\n\n{LONG}\n\n{terms}\n\n{LONG}"
    introduced = [(text[unit.start : unit.end], unit.introduced_by) for unit in find_units(text) if unit.introduced_by]
    assert introduced[0] == ("By metrics that the system exposes.", "White-box")
