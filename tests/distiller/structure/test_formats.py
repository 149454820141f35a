"""Blocks of each format, from one small text each, and of any text."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.distiller.structure.block import Block
from outrider.distiller.structure.html import read_html
from outrider.distiller.structure.markdown import read_markdown
from outrider.distiller.structure.plain_text import read_plain_text
from outrider.distiller.structure.read_structure import detect_format, read_structure
from outrider.distiller.structure.restructured_text import read_restructured_text
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
    assert shown(PAPER, read_plain_text) == [
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
    def fail(_: str, depth: int = 0) -> list[Block]:
        raise AttributeError(depth)

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
def test_odd_texts_are_read(text: str) -> None:
    assert read_structure(text) == read_structure(text)
