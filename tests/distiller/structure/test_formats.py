"""Blocks of each format, from one small text each, and of any text."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.distiller.structure.block import Block
from outrider.distiller.structure.html import read_html
from outrider.distiller.structure.markdown import read_markdown
from outrider.distiller.structure.plain_text import read_plain_text
from outrider.distiller.structure.read_structure import detect_format, find_header, read_structure
from outrider.distiller.structure.references import mark_references
from outrider.distiller.structure.restructured_text import read_restructured_text
from outrider.distiller.units import find_units
from support.distiller_fakes import ODD, texts

Read = Callable[[str], list[Block]]

MARKDOWN = """[![Build](https://ci.example.org/b.svg)](https://ci.example.org) ![](x.png)

# Title #

One paragraph
of two lines. See [the docs][d].

* first
* [Docs](https://docs.example.org)
* [x] done
    1. nested

> [!NOTE]
> Quoted.

```sh
pip install it
```

| name | meaning |
|------|---------|
| a    | the first |

<p align="center"><img src="logo.png"><strong>Fast</strong> tool</p>

Setext
------
    indented = code

[d]: https://docs.example.org "Documentation"
"""
RST = """|ci| |docs|

Title
=====

One paragraph
of two lines, see `the docs`_::

    pip install it

- first
- `Docs <https://docs.example.org>`_

:License: MIT
:Author: Ann Person

term
    its meaning

.. note:: Mind the gap.

.. tab:: Linux

   Content of a directive of another package.

.. comment that nobody sees

====  =======
name  meaning
====  =======
a     the first
====  =======

.. |ci| image:: https://ci.example.org/b.svg
.. _the docs: https://docs.example.org
"""
HTML = """<!doctype html><html><head><title>T</title><script>var x = 1;</script></head><body>
<nav><a href="/">Home</a></nav>
<h2>Title</h2><p>One &amp; <b>two</b>.</p>
<ul><li>first<li><a href="d">Docs</a></ul>
<pre>pip install it</pre>
<table><tr><th>name</th><th>meaning</th></tr><tr><td>a</td><td>the first</td></tr></table>
<figure><img src="a.png"><figcaption>A picture</figcaption></figure></body></html>"""
PAPER = """Journal of Things 12 (2020)

A Study of Things

Ann Author1, Bob Writer2, Cy Scribe1
ann@example.org

1 Introduction

Things are common [1]. We
studied them.

Figure 1. Things over time.

Journal of Things 12 (2021)

- one
- two

Journal of Things 12 (2022)

17

# References

[1] Writer B. Things. 2001.

# Appendix

More of it."""


def shown(text: str, read: Read) -> list[tuple[str, str]]:
    return [(block.kind, text[block.start : block.end]) for block in read(text)]


def test_markdown() -> None:
    assert shown(MARKDOWN, read_markdown) == [
        ("badge", "[![Build](https://ci.example.org/b.svg)](https://ci.example.org) ![](x.png)"),
        ("heading", "# Title #"),
        ("paragraph", "One paragraph\nof two lines. See [the docs][d]."),
        ("item", "first"),
        ("links", "* [Docs](https://docs.example.org)"),
        ("item", "done"),
        ("item", "nested"),
        ("paragraph", "Quoted."),
        ("code", "pip install it"),
        ("row", "| a    | the first |"),
        ("paragraph", "Fast</strong> tool"),
        ("heading", "Setext\n------"),
        ("code", "indented = code"),
    ]


def test_links_between_notes_citations_and_tags_alone_are_no_sentences() -> None:
    text = """# Wax

#wax #novgorod/trade
The abbot bought wax. #wax #abbot ^bought

See [[Wax trade]] and ![[map.png]].

- [[Hanse]], [[Peterhof|the kontor]]
- @rybina2001
- [@rybina2001, pp. 12-14; -@smith1999]
- [[The abbot of the house bought three hundred candles in one year.]]
- see @rybina2001
- #1 of three
- https://example.org/wax

Write to ann@example.org
"""
    assert [text[unit.start : unit.end] for unit in find_units(text)] == [
        "The abbot bought wax.",
        "See [[Wax trade]] and ![[map.png]].",
        "[[The abbot of the house bought three hundred candles in one year.]]",
        "see @rybina2001",
        "#1 of three",
        "https://example.org/wax",
        "Write to ann@example.org",
    ]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("The list of members is in\n[the README](./README.md).", ["The list of members is in\n[the README](./README.md)."]),
        ("You can use\n[ide-configs](https://a.b)\nto debug.", ["You can use\n[ide-configs](https://a.b)\nto debug."]),
        ("It waits.\n[Ruff](https://a.b)\nis fast.", ["It waits.", "[Ruff](https://a.b)\nis fast."]),
        ("* A member opens an issue and mentions\n  @nodejs/tsc.", ["A member opens an issue and mentions\n  @nodejs/tsc."]),
        ("See [a](b)\nand [c](d),\n[e](f),\n([g](h))\nor ask.", ["See [a](b)\nand [c](d),\n[e](f),\n([g](h))\nor ask."]),
        ("It is fixed.\n[#1509](https://a.b)", ["It is fixed."]),
        ("It is fixed by it\n([#1509](https://a.b))", ["It is fixed by it"]),
        ("It is fixed by it  \n[Docs](https://a.b)", ["It is fixed by it"]),
        ("The abbot bought **wax**\n#wax #abbot", ["The abbot bought **wax**"]),
        ("[Docs](https://a.b)\n[Chat](https://a.b)\nThe tool is fast.", ["The tool is fast."]),
    ],
)
def test_a_line_of_links_within_a_sentence_belongs_to_it(text: str, sentences: list[str]) -> None:
    assert [text[unit.start : unit.end] for unit in find_units(text)] == sentences


def test_code_that_draws_a_picture_is_none() -> None:
    text = "# T\n\n```mermaid\nflowchart LR\n  a --> b\n```\n\n```sh\nrun it\n```\n"
    assert shown(text, read_markdown) == [("heading", "# T"), ("furniture", "flowchart LR\n  a --> b"), ("code", "run it")]


def test_restructured_text() -> None:
    assert shown(RST, read_restructured_text) == [
        ("badge", "|ci| |docs|"),
        ("heading", "Title"),
        ("paragraph", "One paragraph\nof two lines, see `the docs`_::"),
        ("code", "pip install it"),
        ("item", "first"),
        ("links", "`Docs <https://docs.example.org>`_"),
        ("item", ":License: MIT"),
        ("item", ":Author: Ann Person"),
        ("item", "its meaning"),
        ("paragraph", "Mind the gap."),
        ("paragraph", "Content of a directive of another package."),
        ("row", "a     the first"),
    ]


def test_a_summary_of_details_is_a_heading() -> None:
    text = "## Parts\n\n<details>\n<summary>Progress Bars</summary>\n\nRich draws bars.\n\n</details>\n"
    assert [(block.kind, text[block.start : block.end]) for block in read_markdown(text)][1:] == [
        ("heading", "Progress Bars"),
        ("paragraph", "Rich draws bars."),
    ]
    (unit,) = find_units(text)
    assert unit.section == ("Parts", "Progress Bars")


def test_html() -> None:
    assert shown(HTML, read_html) == [
        ("heading", "Title"),
        ("paragraph", "One &amp; <b>two</b>."),
        ("item", "first"),
        ("links", "Docs"),
        ("code", "pip install it"),
        ("row", "name</th><th>meaning"),
        ("row", "a</td><td>the first"),
        ("caption", "A picture"),
    ]


def test_plain_text_of_a_paper() -> None:
    assert shown(PAPER, lambda text: mark_references(text, read_plain_text(text))) == [
        ("furniture", "Journal of Things 12 (2020)"),
        ("heading", "A Study of Things"),
        ("furniture", "Ann Author1, Bob Writer2, Cy Scribe1\nann@example.org"),
        ("heading", "1 Introduction"),
        ("paragraph", "Things are common [1]. We\nstudied them."),
        ("caption", "Figure 1. Things over time."),
        ("furniture", "Journal of Things 12 (2021)"),
        ("item", "one"),
        ("item", "two"),
        ("furniture", "Journal of Things 12 (2022)"),
        ("furniture", "17"),
        ("heading", "# References"),
        ("furniture", "[1] Writer B. Things. 2001."),
        ("heading", "# Appendix"),
        ("paragraph", "More of it."),
    ]


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (MARKDOWN, "markdown"),
        (RST, "rst"),
        (HTML, "html"),
        ("Background: mice sleep (p < 0.05). We gave 5 mg/kg * 3.", "plain"),
        ("Use `x` and **never** `y`.", "markdown"),
        ("Use ``x``, see :ref:`y`.", "rst"),
        ("Title\n=====\n\nText.", "rst"),
        ("", "plain"),
    ],
)
def test_the_format_is_the_one_whose_marks_are_there(text: str, form: str) -> None:
    assert detect_format(text) == form


def test_a_text_that_docutils_cannot_read_is_read_as_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> list[Block]:
        raise AttributeError

    monkeypatch.setattr("outrider.distiller.structure.restructured_text.read_restructured_text", fail)
    text = "One ``literal``.\n\n- an item"
    assert shown(text, read_structure) == [("paragraph", "One ``literal``."), ("item", "an item")]


@pytest.mark.parametrize("read", [read_markdown, read_restructured_text, read_html, read_plain_text, read_structure])
@given(
    text=texts
    | st.text(alphabet="ab .\n#*-`|=<>[]()!:_\\\t1", max_size=300)
    | st.lists(st.sampled_from([*MARKDOWN.split("\n"), *RST.split("\n"), *HTML.split("\n")]), max_size=20).map("\n".join)
)
def test_blocks_are_in_order_trimmed_and_within_any_text(read: Read, text: str) -> None:
    blocks = read(text)
    assert all(0 <= block.start < block.end <= len(text) for block in blocks)
    assert all(first.end <= second.start for first, second in itertools.pairwise(blocks))
    assert all(text[block.start : block.end] == text[block.start : block.end].strip() for block in blocks)
    assert all((block.level > 0) == (block.kind == "heading") for block in blocks)


@given(st.lists(st.text(alphabet="abc d.é😀", min_size=1), max_size=8).map("\n\n".join))
def test_plain_prose_loses_no_word(text: str) -> None:
    kept = "".join(text[block.start : block.end] for block in read_plain_text(text))
    assert "".join(kept.split()) == "".join(text.split())


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_odd_expectedare_read(text: str) -> None:
    assert read_structure(text) == read_structure(text)


MARKED = "Title\n=====\n\nA ``literal``.\n\n"
"""Beginning of a text that is read as reStructuredText."""


@pytest.mark.parametrize(
    "text",
    [
        "# A\n\n" + "[" * 100_000,
        "# A\n\n" + "[a](" * 25_000,
        "# A\n\n| a |\n|---|\n| " + "[a](" * 25_000 + " |\n",
        "# A\n\n```\n" + "x\n\n" * 33_000 + "```\n",
        "# A\n\n" + "[[" * 140 + "a" * 100_000,
        "# A\n\n" + "-@a" * 33_000 + " #b" * 33_000 + " word",
        "<p>One.</p>" + "<li>x " * 20_000,
        "<p>One.</p>" + "<!--" * 25_000,
        "<p>One.</p>" + "<?" * 50_000,
        MARKED + "*a " * 33_000,
        MARKED + "[a " * 33_000,
        MARKED + "=== ===\na   b\n=== ===\n" + "x   y\n" * 16_000 + "=== ===\n",
        MARKED + "".join(f".. other::\n\n   Text number {number}.\n\n" for number in range(2_000)),
        MARKED + "Code::\n\n" + "   a b c\n" * 12_000,
    ],
    ids=range(14),
)
def test_texts_of_marks_without_end_take_linear_time(text: str) -> None:
    began = time.process_time()
    find_units(text)
    assert time.process_time() - began < 10  # about .5; what is not linear takes a minute or more


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<p>One.</p><![foo<p>Two.</p>", ["One.", "Two."]),
        ("<p>One.</p><![CDATA[ x ]]><p>Two.</p>", ["One.", "Two."]),
        ("<p>One.</p><p>A&#B.</p><p>Two.</p>", ["One.", "A&#B.", "Two."]),
        ("<p>One.</p><p>Two.<!-- never ended <p>Three.</p>", ["One.", "Two."]),
        ("<p>One.</p><p>1 < 2", ["One.", "1 < 2"]),
    ],
)
def test_html_that_breaks_the_rules_is_read(text: str, expected: list[str]) -> None:
    assert [words for _, words in shown(text, read_html)] == expected


def test_what_docutils_changes_in_a_text_is_found_in_it() -> None:
    text = "Title\n=====\n\nOne\twith a tab.\n\nTwo with a\x0cfeed.\n\nThree\u2028breaks.\n\n"
    text += "Code::\n\n    >>> x\n\n    >>> y\n\n| Line\n| block\n"
    assert [words for _, words in shown(text, read_restructured_text)] == [
        "Title",
        "One\twith a tab.",
        "Two with a\x0cfeed.",
        "Three\u2028breaks.",
        "Code::",
        ">>> x\n\n    >>> y",
        "Line\n| block",
    ]


def test_a_table_of_contents_names_no_section() -> None:
    text = "Title\n=====\n\n.. contents:: Table of contents\n   :local:\n\nInstall\n-------\n\nRun ``pip install it`` first.\n"
    assert [(unit.section, text[unit.start : unit.end]) for unit in find_units(text)] == [
        (("Title", "Install"), "Run ``pip install it`` first.")
    ]


def test_a_title_that_docutils_writes_is_not_looked_up() -> None:
    text = "Title\n=====\n\n.. contents::\n\nFirst\n-----\n\nOne ``x`` here.\n\nSecond\n------\n\nThe word Contents, and two.\n"
    assert [unit.section for unit in find_units(text)] == [("Title", "First"), ("Title", "Second")]


def test_the_headers_of_several_rows_take_one_reading() -> None:
    text = "| year | price |\n|---|---|\n" + "| 1391 | 22 |\n" * 5_000 + "\nSome *prose* with `code`.\n" * 500
    places = [text.index("| 1391") + 14 * number for number in range(40)]
    started = time.process_time()
    assert {find_header(text, place) for place in places} == {"| year | price |"}
    assert time.process_time() - started < 3
    assert not find_header(text, 0)


GRID_TABLE = """The options are as follows:

+-----------+------------------------------+
| Option    | Meaning                      |
{header}
| "'<'"     | Forces the field to be left  |
|           | (this is the default).       |
+-----------+------------------------------+
| space     | Indicates a leading space on |
|           | positive numbers.            |
+-----------+------------------------------+

The width is at least a *minimum*.

Meaning
=======

A space stands here. "'<'" does too.
"""


@pytest.mark.parametrize("header", ["+===========+==============================+", "|===========|==============================|"])
def test_rows_of_several_lines_stand_where_their_table_is(header: str) -> None:
    """Sphinx writes the line below the header with other corners, which docutils does not read."""
    text = GRID_TABLE.format(header=header)
    blocks = read_restructured_text(text)
    assert [(block.kind, " ".join(text[block.start : block.end].split())) for block in blocks] == [
        ("paragraph", "The options are as follows:"),
        ("row", "\"'<'\" | Forces the field to be left | | | (this is the default)."),
        ("row", "space | Indicates a leading space on | | | positive numbers."),
        ("paragraph", "The width is at least a *minimum*."),
        ("heading", "Meaning"),
        ("paragraph", "A space stands here. \"'<'\" does too."),
    ]
    assert [block.introduced_by for block in blocks if block.kind == "row"] == ["Option | Meaning"] * 2


def test_a_row_of_a_simple_table_has_its_further_lines() -> None:
    table = "=====  =========\nName   Meaning\n=====  =========\na      the first\n       of all\nb      c\n=====  ========="
    text = f"Title\n=====\n\n{table}\n\nAll b here.\n"
    assert [" ".join(text[block.start : block.end].split()) for block in read_restructured_text(text)] == [
        "Title",
        "a the first of all",
        "b c",
        "All b here.",
    ]


def test_a_row_of_a_list_table_ends_before_the_directive_below() -> None:
    table = ".. list-table::\n\n    * - package\n      - a version\n        of it\n"
    text = table + ".. |docs| image:: https://example.org/badge\n    :alt: Docs\n"
    assert [text[block.start : block.end] for block in read_restructured_text(text)] == ["package\n      - a version\n        of it"]


def test_a_table_in_code_stays_code() -> None:
    text = "A table::\n\n    | a | b |\n    |===|===|\n    | c | d |\n"
    assert [block.kind for block in read_restructured_text(text)] == ["paragraph", "code"]


def test_a_term_that_says_something_is_a_block() -> None:
    text = "You can also do what follows here:\n    Type help.\n\nhelp\n    It shows help.\n"
    assert [(block.kind, text[block.start : block.end]) for block in read_restructured_text(text)] == [
        ("paragraph", "You can also do what follows here:"),
        ("item", "Type help."),
        ("item", "It shows help."),
    ]


WORDS = st.lists(st.sampled_from(["space", "a", "'<'", "the", "width", "x1", "é", "meaning"]), min_size=1, max_size=8).map(" ".join)
CELLS = st.lists(WORDS, min_size=1, max_size=3)
ROWS = st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=3)


def _draw_grid_table(rows: list[tuple[list[str], list[str]]]) -> str:
    left, right = (max(len(line) for row in rows for line in row[column]) for column in (0, 1))
    border = f"+-{'-' * left}-+-{'-' * right}-+"
    lines = [border]
    for first, second in rows:
        lines += [f"| {one:{left}} | {other:{right}} |" for one, other in itertools.zip_longest(first, second, fillvalue="")]
        lines.append(border)
    return "\n".join(lines)


def _draw_simple_table(rows: list[tuple[list[str], list[str]]]) -> str:
    left, right = (max(len(line) for row in rows for line in row[column]) for column in (0, 1))
    border = f"{'=' * (left + 1)}  {'=' * (right + 1)}"
    lines = [f"{one:{left}}    {other}" for first, second in rows for one, other in itertools.zip_longest(first[:1], second, fillvalue="")]
    return "\n".join([border, "Name".ljust(left + 3) + "Meaning", border, *lines, border])


@given(st.lists(st.one_of(WORDS, ROWS.map(_draw_grid_table), ROWS.map(_draw_simple_table)), min_size=1, max_size=8))
def test_no_word_of_prose_between_tables_is_lost(parts: list[str]) -> None:
    text = "``Text``\n\n" + "\n\n".join(parts)
    blocks = read_restructured_text(text)
    assert all(first.end <= second.start for first, second in itertools.pairwise(blocks))
    start = len("``Text``\n\n")
    for part in parts:
        if part[0] not in "+=":
            assert any(block.start <= start and start + len(part) <= block.end for block in blocks), part
        start += len(part) + 2


@pytest.mark.parametrize(
    ("paragraph", "level"),
    [
        ("3. Distribution Obligations.", 1),
        ("     3.2. Availability of Source Code.\n     Any Modification must be made available.", 2),
        ("7. DISCLAIMER OF WARRANTY.", 1),
        ("     DELETING A LINE", 7),
        ("WHAT IS THE MODE?", 7),
    ],
)
def test_numbered_titles_and_lines_in_capitals_are_headings(paragraph: str, level: int) -> None:
    first, *_ = (block for block in read_plain_text(f"A sentence.\n\n{paragraph}\n\n3.3. Notices.\nMore of it.") if block.start > 5)
    assert (first.kind, first.level) == ("heading", level)


@pytest.mark.parametrize(
    "paragraph",
    [
        "3. Weigh the crystals.",
        "3.2. Any Modification must be made available.\nMore of it.",
        '1.8. "License" means this document.',
        "3.2. Yes. No.\nMore of it.",
        "1. Install Python.\n2. Open Visual Studio.",
        "IT WORKS.",
        "DO NOT USE IT!",
        "זה טקסט?",
        "Does it work?",
        "To delete a line, use this command: >",
    ],
)
def test_short_sentences_and_items_are_no_headings(paragraph: str) -> None:
    blocks = read_plain_text(f"A sentence.\n\n{paragraph}\n\nAll of it, see 3.2.")
    assert all(block.kind in ("paragraph", "item") for block in blocks)


@pytest.mark.parametrize("text", ["Start with i_. Help is there.", "Copyright (C) ______ ______. All rights."])
def test_a_gap_and_a_letter_with_a_line_are_no_restructured_text(text: str) -> None:
    assert detect_format(text) == "plain"
    assert detect_format("See the manual_ for it.") == "rst"
    assert detect_format("See the `manual\n<https://example.org>`__ for it.") == "rst"
