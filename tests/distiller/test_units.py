from __future__ import annotations

import itertools

import pytest
from hypothesis import given

from outrider.distiller.units import find_units, segment_text
from outrider.state.distilling import Reading, UnitKind
from support.distiller_fakes import ODD, texts

PAGE = """# Title

An introduction. This is it.

1. Methods
We gave 5 mg.

| a | b |
| 1 | 2 |

```py
x = 1. Y

z = 2
```
- item one
- item two. More of it.

RESULTS

It worked (p < 0.05). Not bad!"""


def test_the_units_of_a_page() -> None:
    units = [(unit.kind, PAGE[unit.start : unit.end]) for unit in find_units(PAGE)]
    assert units == [
        ("heading", "# Title"),
        ("sentence", "An introduction."),
        ("sentence", "This is it."),
        ("heading", "1. Methods"),
        ("sentence", "We gave 5 mg."),
        ("row", "| a | b |"),
        ("row", "| 1 | 2 |"),
        ("code", "```py\nx = 1. Y\n\nz = 2\n```"),
        ("item", "- item one"),
        ("item", "- item two."),
        ("sentence", "More of it."),
        ("heading", "RESULTS"),
        ("sentence", "It worked (p < 0.05)."),
        ("sentence", "Not bad!"),
    ]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("<h2>Results</h2>\nIt worked.", "heading"),
        ("A short line without an end\n\nIt worked.", "heading"),
        ("A short line that goes\non in the next. It worked.", "sentence"),
        ("1. First of a list.\nIt worked.", "item"),
        ("a\tb\tc\nIt worked.", "row"),
        ("\n    indented = code\nIt worked.", "code"),
        ("The last line without an end", "sentence"),
    ],
)
def test_the_kind_of_a_first_unit(text: str, kind: UnitKind) -> None:
    assert find_units(text)[0].kind == kind


@given(texts)
def test_units_are_in_order_do_not_overlap_and_lose_nothing(text: str) -> None:
    its = segment_text(Reading("a", text))
    assert all(unit.start < unit.end for unit in its.units)
    assert all(first.end <= second.start and first.block <= second.block for first, second in itertools.pairwise(its.units))
    assert its.texts() == [text[unit.start : unit.end] for unit in its.units]
    assert "".join("".join(its.texts()).split()) == "".join(text.split())
    assert all((unit.level > 0) == (unit.kind == "heading") for unit in its.units)


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_odd_texts_are_segmented(text: str) -> None:
    units = find_units(text)
    assert bool(units) == bool(text.strip())
    assert find_units(text) == units


def test_blank_lines_separate_paragraphs() -> None:
    assert [unit.block for unit in find_units("One. Two.\nThree.\n\nFour.")] == [0, 0, 0, 1]
