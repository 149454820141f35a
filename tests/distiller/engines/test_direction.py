from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.distiller.engines.direction import REVERSED, read_conversion


@pytest.mark.parametrize(
    ("question", "text", "way"),
    [
        ("convert html to markdown", "Converts HTML pages to Markdown.", 1),
        ("convert html to markdown", "Render markdown to HTML with it from the command-line:", -1),
        ("convert html to markdown", "Build static HTML files from Markdown files.", -1),
        ("convert html to markdown", "Get Markdown from any HTML.", 1),
        ("convert html to markdown", "It reads HTML and writes Markdown.", 0),
        ("how do I turn a PDF file into plain text?", "pdf2text turns each PDF into text.", 1),
        ("how do I turn a PDF file into plain text?", "Prints text to PDF.", -1),
        ("csv to json", "Turns JSON into CSV.", -1),
        ("csv to json", "Turns JSON into CSV and CSV into JSON.", 0),
        ("translate english to german", "A model from German to English.", -1),
    ],
)
def test_the_way_of_a_text(question: str, text: str, way: int) -> None:
    conversion = read_conversion(question)
    assert conversion is not None
    assert conversion.compare(text) == way


@pytest.mark.parametrize(
    "question", ["how to add users to groups", "a guide to html", "convert html", "from here to there and back", "", "to to to"]
)
def test_another_question_has_no_direction(question: str) -> None:
    assert read_conversion(question) is None


def test_one_sentence_of_this_way_is_enough_for_the_text() -> None:
    conversion = read_conversion("csv to json")
    assert conversion is not None
    assert conversion.weigh(["Turns JSON into CSV.", "Fast."]) == [REVERSED, REVERSED]
    assert conversion.weigh(["Turns JSON into CSV.", "Turns CSV into JSON.", "Fast."]) == [REVERSED, 1.0, 1.0]


@given(st.text(max_size=400), st.text(max_size=400))
def test_any_text_is_read(question: str, text: str) -> None:
    for asked in (question, f"convert {question}"):
        if (conversion := read_conversion(asked)) is not None:
            assert conversion.compare(text) in (-1, 0, 1)
