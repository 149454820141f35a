from __future__ import annotations

import pytest

from outrider.distiller.structure.read_structure import read_structure
from outrider.distiller.units import find_units

PLAIN = """Q. My system says "sid".
Is this ok?

A. Yes. It is a file of yours.

It stays so.

* Other questions

Q: Why?"""
ONE_BY_ONE = "Q. Is it free?\n\nQ. Is it fast?\n\nA. It is both."
MARKDOWN = (
    "# FAQ\n\n**Q: Is it `free`?**\n\n**A:** It is.\n\nQuestion 2: Is it fast?\nAnswer 2: It is **very** fast.\n\n## Licence\n\nFree."
)
HTML = "<h1>FAQ</h1><p>Q: Is it free?</p><p>A: It is.</p><h2>Licence</h2><p>Free.</p>"


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        (PLAIN, [("Yes.", 'My system says "sid". Is this ok?'), ("It is a file of yours.", 'My system says "sid". Is this ok?'),
                 ("It stays so.", 'My system says "sid". Is this ok?'), ("Other questions", ""), ("Q: Why?", "")]),
        (f"FAQ of it\n=========\n\n{ONE_BY_ONE}", [("It is both.", "Is it free? Is it fast?")]),
        (MARKDOWN, [("It is.", "Is it `free`?"), ("It is **very** fast.", "Is it fast?"), ("Free.", "")]),
        (HTML, [("It is.", "Is it free?"), ("Free.", "")]),
    ],
    ids=["plain", "restructured", "markdown", "html"],
)  # fmt: skip
def test_a_question_introduces_its_answer(text: str, answers: list[tuple[str, str]]) -> None:
    assert [(text[unit.start : unit.end], unit.introduced_by) for unit in find_units(text)] == answers


@pytest.mark.parametrize(
    "text", ["Q. Is it free?\n\nIt is.", "A. First of a list.\n\nB. Second.", "# Q\n\nQ: Is it free?\n\n## A\n\nA: It **is**."]
)
def test_a_question_without_an_answer_stays_prose(text: str) -> None:
    assert not any(block.kind == "term" or block.introduced_by for block in read_structure(text))
