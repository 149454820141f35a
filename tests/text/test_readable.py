"""Markdown, reStructuredText and HTML as text for reading."""

from __future__ import annotations

import pytest

from outrider.text.readable import name_cells, read_plainly, split_inline


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("## Install **this** in [the guide](docs/a.md), *now* &amp; then", "Install this in the guide, now & then"),
        ("[![CI](https://a.org/b.svg)](https://a.org/ci) A tool.", "A tool."),
        ("<p align='center'>One<br/>two</p> <!-- hidden --> three", "One two three"),
        ("- a*b*c, 2 * 3, snake__case__x and p<0.05", "a*b*c, 2 * 3, snake__case__x and p<0.05"),
        ("See <https://a.org> and `the API <https://a.org/x>`_.", "See https://a.org and the API."),
        ("Array<T> in [text](chapter 2), f(x) [30] and \\_x", "Array<T> in [text](chapter 2), f(x) [30] and _x"),
        ("The ``wait`` option\\ s, and :class:`~a.b.Retrying` of :doc:`the API <api>`", "The wait options, and Retrying of the API"),
        ("An implementation of :rfc:`6455`: see :pep:`8`", "An implementation of RFC 6455: see PEP 8"),
        ("use :py:func:`!a.run` with ``--flag", "use a.run with --flag"),
        ("``Attention'' and ``memory'' in TeX", "“Attention” and “memory” in TeX"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
    ],
)
def test_marks_go_and_words_stay(text: str, shown: str) -> None:
    assert read_plainly(text) == shown


@pytest.mark.parametrize(
    ("header", "row", "shown"),
    [
        ("| year | price |", "| 1391 | 22 |", "year 1391 · price 22"),
        ("year | price", "1391 | ", "year 1391"),
        ("| | price |", "| Riga | 22 |", "Riga · price 22"),
        ("| year |", "| 1391 | 22 |", "1391 · 22"),
        ("", "| 1391 | 22 |", "1391 · 22"),
        ("| a | b |", "| x \\| y | z |", "a x \\| y · b z"),
    ],
)
def test_a_row_has_the_names_of_its_columns(header: str, row: str, shown: str) -> None:
    assert name_cells(header, row) == shown


def test_code_is_told_from_text() -> None:
    runs = split_inline("Call `retry(a, *b)` or ``x`` or :func:`wait`, **then** stop.")
    assert [run.text for run in runs if run.is_code] == ["retry(a, *b)", "x", "wait"]
    assert "".join(run.text for run in runs) == "Call retry(a, *b) or x or wait, then stop."
