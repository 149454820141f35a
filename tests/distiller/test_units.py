from __future__ import annotations

import itertools

import pytest
from hypothesis import given

from outrider.distiller.engines.answering import Answering
from outrider.distiller.units import find_units, segment_text
from outrider.state.distilling import Reading, UnitKind
from support.distiller_fakes import ODD, texts

PAGE = """# Tool

[![ci](https://ci.example.org/b.svg)](https://ci.example.org)

An introduction. This is it.

## 1. Usage

Run this:

```py
x = 1. Y

z = 2
```

- item one
- item two. More of it.

### Options

| name | meaning |
|------|---------|
| `a`  | the first |

## Contributors

Ann, Bob and 20 others.

## License

MIT."""


def test_the_units_of_a_page() -> None:
    units = [(unit.kind, PAGE[unit.start : unit.end], " > ".join(unit.section)) for unit in find_units(PAGE)]
    assert units == [
        ("sentence", "An introduction.", "Tool"),
        ("sentence", "This is it.", "Tool"),
        ("sentence", "Run this:", "Tool > 1. Usage"),
        ("code", "x = 1. Y\n\nz = 2", "Tool > 1. Usage"),
        ("item", "item one", "Tool > 1. Usage"),
        ("item", "item two.", "Tool > 1. Usage"),
        ("item", "More of it.", "Tool > 1. Usage"),
        ("row", "| `a`  | the first |", "Tool > 1. Usage > Options"),
        ("sentence", "MIT.", "Tool > License"),
    ]


@pytest.mark.parametrize(
    "title", ["Authors' contributions", "Authors\u2019 contributions", "Author information", "Pre-publication history"]
)
def test_what_a_paper_says_of_its_authors_answers_nothing(title: str) -> None:
    text = f"Results\n\nIt worked.\n\n{title}\n\nMJ initiated the study.\n\nFunding\n\nA fund paid."
    its = segment_text(Reading("a", text))
    assert [its.text(at) for at in range(len(its.units)) if its.may_answer(at)] == ["It worked.", "A fund paid."]
    assert Answering().scores("who initiated the study?", [its])[0][1] == 0


def test_one_word_before_the_sentences_of_a_paragraph_answers_nothing() -> None:
    text = "Model. We train a network. It links spans.\n\nDatasets.\n\n模型。我们训练。\n\n## License\n\nMIT."
    its = segment_text(Reading("a", text))
    assert [its.text(at) for at in range(len(its.units)) if not its.may_answer(at)] == ["Model."]


def test_a_drawn_table_answers_nothing_and_a_tree_of_files_does() -> None:
    table = "┏━━━━━━┳━━━━━━┓\n┃ name ┃ time ┃\n┡━━━━━━╇━━━━━━┩\n│ sum  │ 3 ns │\n└──────┴──────┘"
    tree = "project\n├── settings.toml\n└── sources\n    └── main_module.py"
    text = f"# Tool\n\n```\n{table}\n```\n\n```\n{tree}\n```\n"
    assert [text[unit.start : unit.end] for unit in find_units(text)] == [tree]


def test_a_lead_in_a_table_header_and_a_term_introduce_their_units() -> None:
    introduced = {PAGE[unit.start : unit.end]: unit.introduced_by for unit in find_units(PAGE)}
    assert introduced["x = 1. Y\n\nz = 2"] == "Run this:"
    assert introduced["item one"] == "Run this:"
    assert introduced["| `a`  | the first |"] == "| name | meaning |"
    assert introduced["An introduction."] == ""
    text = "Terms\n=====\n\nspace\n    What is ``empty``.\n"
    assert [(text[unit.start : unit.end], unit.introduced_by) for unit in find_units(text)] == [("What is ``empty``.", "space")]


@pytest.mark.parametrize(
    ("text", "kind", "first"),
    [
        ("<h2>Results</h2>\n<p>It worked.", "sentence", "It worked."),
        ("A short line without an end\n\nIt worked.", "sentence", "It worked."),
        ("A short line that goes\non in the next. It worked.", "sentence", "A short line that goes\non in the next."),
        ("1. First of a list.\nIt worked.", "item", "First of a list."),
        ("a\tb\tc\nIt worked.", "row", "a\tb\tc"),
        ("It works so:\n\n    indented = code\n\nIt worked.", "sentence", "It works so:"),
        ("Figure 2. Things over time.\n\nIt worked.", "sentence", "Figure 2."),
    ],
)
def test_the_kind_of_a_first_unit(text: str, kind: UnitKind, first: str) -> None:
    unit = find_units(text)[0]
    assert (unit.kind, text[unit.start : unit.end]) == (kind, first)


@given(texts)
def test_units_are_in_order_and_do_not_overlap(text: str) -> None:
    its = segment_text(Reading("a", text))
    assert all(unit.start < unit.end for unit in its.units)
    assert all(first.end <= second.start and first.block <= second.block for first, second in itertools.pairwise(its.units))
    assert its.texts() == [text[unit.start : unit.end] for unit in its.units]
    assert all(unit.kind != "heading" for unit in its.units)


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_odd_texts_are_segmented(text: str) -> None:
    units = find_units(text)
    assert find_units(text) == units
    if any(word.isalpha() and len(word) >= 3 for word in text.split()):
        assert units


def test_blank_lines_separate_paragraphs() -> None:
    assert [unit.block for unit in find_units("One is. Two is.\nThree is.\n\nFour is.")] == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (
            "# A\n\n> We accept fixes, but we\n> will accept no features. It\n>  ends.",
            ["We accept fixes, but we\n> will accept no features.", "It\n>  ends."],
        ),
        ("# A\n\n- > [!NOTE]\n  > It is so\n  > here.", ["It is so\n  > here."]),
        ("> We accept fixes, but we\n> will accept no features.", ["> We accept fixes, but we\n> will accept no features."]),
        ("Ann wrote\n> It is so.", ["Ann wrote", "> It is so."]),
    ],
)
def test_a_quoted_sentence_has_all_its_lines(text: str, sentences: list[str]) -> None:
    assert [text[unit.start : unit.end] for unit in find_units(text)] == sentences


DEFINED = """# Terms

White-box monitoring
: Monitoring based on **metrics**.

Page
Alert
: A notification.
: It asks for a human.

The end.
"""
DEFINED_IN_HTML = """<h1>Terms</h1><dl><dt>White-box <i>monitoring</i></dt><dd>Monitoring based on **metrics**.</dd>
<dt>Page</dt><dt>Alert</dt><dd><p>A notification.</p><p>It asks for a human.</p></dd></dl><p>The end.</p>"""


@pytest.mark.parametrize("text", [DEFINED, DEFINED_IN_HTML])
def test_a_term_introduces_its_definitions(text: str) -> None:
    assert [(unit.kind, text[unit.start : unit.end], unit.introduced_by) for unit in find_units(text)] == [
        ("item", "Monitoring based on **metrics**.", "White-box monitoring"),
        ("item", "A notification.", "Page, Alert"),
        ("item", "It asks for a human.", "Page, Alert"),
        ("sentence", "The end.", ""),
    ]
