from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.ingest.entry import Entry, ReadOptions
from outrider.ingest.readers.front_matter import Title, choose_authors, choose_title, find_abstract, find_title, join_lines, letters
from outrider.ingest.readers.pdf import read
from outrider.ingest.readers.pdfium import Line
from outrider.state.records import Record
from support.minimal_pdf import Run, typeset

TITLE = ("Drift of sand ripples under", "oscillating shallow flows")
ABSTRACT = (
    "Ripples on a bed of sand move with the waves above them. We meas-",
    "ured their drift in a flume over four weeks and compare it with three",
    "models. The best of them explains 80 % of the variance.",
)
WHOLE = (
    "Ripples on a bed of sand move with the waves above them. We measured their drift in a flume over four weeks and compare it with "
    "three models. The best of them explains 80 % of the variance."
)
BODY = tuple(f"Paragraph {number} tells more about the sand, the flume and the waves of the sea." for number in range(12))


def lines(texts: Sequence[str], y: float, size: float = 10, *, x: float = 72, bold: bool = False, width: float = 5.0) -> list[Line]:
    return [Line(text, size, bold, x, x + width * len(text), y - 1.2 * size * place) for place, text in enumerate(texts)]


def stack(*parts: tuple[Sequence[str], float, bool], y: float = 740, x: float = 72) -> list[Run]:
    """Parts below each other, each (lines, size, bold), with half a line between them."""
    runs = []
    for texts, size, bold in parts:
        for text in texts:
            y -= 1.2 * size
            runs.append(Run(x, y, text, size, bold))
        y -= 0.6 * size
    return runs


def record(tmp_path: Path, *pages: Sequence[Run], **information: str) -> Record:
    (tmp_path / "file.pdf").write_bytes(typeset(*pages, information=information))
    (entry,) = read(tmp_path / "file.pdf", ReadOptions())
    assert isinstance(entry, Entry)
    return entry.record


HEADERS: dict[str, list[Run]] = {
    "heading of its own": stack(
        (TITLE, 17, False),
        (("Ann Smith",), 11, False),
        (("Abstract",), 10, True),
        (ABSTRACT, 9, False),
        (("1 Introduction",), 12, True),
        (BODY, 10, False),
    ),
    "run in": stack(
        (TITLE, 17, False),
        ((f"Abstract\u2014{ABSTRACT[0]}", *ABSTRACT[1:]), 9, True),
        (("Index Terms\u2014sand, waves",), 9, True),
        (BODY, 10, False),
    ),
    "letters set wide": stack(
        (TITLE, 14, True), (("A B S T R A C T",), 8, False), (ABSTRACT, 9, False), (("Keywords: sand, waves",), 9, False), (BODY, 10, False)
    ),
    "before a first section without introduction": stack(
        (TITLE, 17, False), (("Summary",), 11, True), (ABSTRACT, 10, False), (("1. Sand and waves",), 11, True), (BODY, 10, False)
    ),
    "below a journal in larger type": stack(
        (("Journal of Moving Sands",), 24, False),
        (("Vol. 12, No. 3",), 9, False),
        (TITLE, 16, True),
        (("ABSTRACT:",), 10, True),
        (ABSTRACT, 9, False),
        (("\u00a9 2020 The Authors",), 7, False),
        (BODY, 10, False),
    ),
    "in German": stack(
        (TITLE, 17, False),
        (("Zusammenfassung",), 10, True),
        (ABSTRACT, 9, False),
        (("Schl\u00fcsselw\u00f6rter: Sand",), 9, False),
        (BODY, 10, False),
    ),
    "beside a column of notes": [
        *stack((TITLE, 17, False)),
        *stack((("ARTICLE INFO",), 8, False), (("Keywords:", "sand", "waves"), 8, False), y=680, x=40),
        *stack((("ABSTRACT",), 8, False), (ABSTRACT, 9, False), y=680, x=200),
        *stack((("1. Introduction",), 11, True), (BODY, 10, False), y=560),
    ],
    "beside a figure in large type": [
        *stack((TITLE, 17, False)),
        *stack((("Abstract",), 10, True), (ABSTRACT, 9, False), (("1 Introduction",), 12, True), (BODY, 10, False), y=680),
        *stack((("ENCODER",), 30, True), (("DECODER STAGE",), 28, True), (("Figure 1: The model",), 9, False), y=420, x=320),
    ],
    "with a stamp in the margin": [
        Run(30, 200, "arXiv:2101.00001v1 [physics.flu-dyn] 1 Jan 2021", 20, upwards=True),
        *stack((TITLE, 17, False), (("Abstract",), 10, True), (ABSTRACT, 9, False), (("1 Introduction",), 12, True), (BODY, 10, False)),
    ],
}


@pytest.mark.parametrize("header", HEADERS)
def test_title_and_abstract_of_a_typeset_page(tmp_path: Path, header: str) -> None:
    """The abstract ends before keywords, notices or the first section, and other columns stay out."""
    paper = record(tmp_path, HEADERS[header], Title="paper_final.dvi", Author="ibm")
    assert (paper.title, paper.abstract, paper.authors) == (" ".join(TITLE), WHOLE, ())
    assert paper.metadata["declared_author"] == "ibm"


def test_an_abstract_goes_on_in_the_next_column(tmp_path: Path) -> None:
    """An open sentence continues past a footnote, at the top of the other column."""
    page = [
        *stack((TITLE, 17, False)),
        *stack((("Abstract",), 10, True), (ABSTRACT[:2], 9, False), y=140),
        *stack((("* Work done at the coast.",), 7, False), y=70),
        *stack((ABSTRACT[2:], 9, False), (("1 Introduction",), 11, True), (BODY, 9, False), y=660, x=330),
    ]
    assert record(tmp_path, page).abstract == WHOLE


@pytest.mark.parametrize("word", ["received", "accepted", "abstract", "contents", "highlights"])
def test_a_line_that_begins_like_a_notice_goes_on(word: str) -> None:
    """In the middle of a sentence, with a small letter."""
    text = [
        "Half of the patients in this study of a new drug for the heart",
        f"{word} what they had been told. The others did not.",
        "Received 3 May",
    ]
    page = [*lines(["Abstract"], 700, 10, bold=True), *lines(text, 680, 9)]
    assert find_abstract(page) == " ".join(text[:2])


@pytest.mark.parametrize(
    ("heading", "after"),
    [
        ("Abstract (245/250 words)", "Significance statement:"),
        ("ABSTRACT", "Contact: ann@example.org"),
        ("Abstract", "Plain Language Summary"),
    ],
)
def test_what_stands_around_an_abstract(heading: str, after: str) -> None:
    page = [*lines([heading], 700, 12, bold=True), *lines(ABSTRACT, 680, 9), *lines([after], 640, 12, bold=True), *lines(BODY, 620, 9)]
    assert find_abstract(page) == WHOLE


def test_an_abstract_on_a_later_page(tmp_path: Path) -> None:
    cover = stack((TITLE, 24, True), (("A thesis by Ann Smith",), 14, False))
    dedication = stack((("For the sea",), 12, False))
    abstract = stack((("Abstract",), 18, True), (ABSTRACT, 11, False))
    thesis = record(tmp_path, cover, dedication, abstract, stack((("Contents",), 18, True), (("Abstract . . . . . iii",), 11, False)))
    assert (thesis.title, thesis.abstract) == (" ".join(TITLE), WHOLE)


@pytest.mark.parametrize(
    "page",
    [
        stack((TITLE, 17, False), (("1 Introduction",), 12, True), (BODY, 10, False)),
        stack(
            (TITLE, 17, False),
            (("Abstract interpretation is a theory of the semantics of programs that this text explains at length.", *BODY), 10, False),
        ),
        stack(
            (("Contents",), 18, True),
            (("Abstract . . . . . . . . 3", "Summary of results 5", "1 Introduction 7"), 11, False),
            (BODY, 10, False),
        ),
        stack(
            (TITLE, 17, False), (("Abstract",), 10, True), (("See below.",), 9, False), (("1 Introduction",), 12, True), (BODY, 10, False)
        ),
    ],
)
def test_without_an_abstract_there_is_none(tmp_path: Path, page: list[Run]) -> None:
    assert record(tmp_path, page).abstract == ""


@pytest.mark.parametrize(
    ("declared", "chosen"),
    [
        ("Drift of Sand Ripples under Oscillating Shallow Flows", "Drift of Sand Ripples under Oscillating Shallow Flows"),
        ("Drift of sand ripples", "Drift of sand ripples"),
        ("2305.03393v1-pg9", "Drift of sand ripples under oscillating shallow flows"),
        ("ripples_final_v2", "Drift of sand ripples under oscillating shallow flows"),
        ("C:\\papers\\ripples", "Drift of sand ripples under oscillating shallow flows"),
        ("Microsoft Word - ripples.doc", "Drift of sand ripples under oscillating shallow flows"),
        ("Proceedings Template - WORD", "Drift of sand ripples under oscillating shallow flows"),
        ("PII: S0304-3975(96)00072-2", "Drift of sand ripples under oscillating shallow flows"),
        ("jms1234 17..29", "Drift of sand ripples under oscillating shallow flows"),
        ("Sedimentology 10 (2024) e27580", "Drift of sand ripples under oscillating shallow flows"),
        ("J. Sand 32 (2011) 1007\u20131018", "Drift of sand ripples under oscillating shallow flows"),
        ("Figure 1", "Drift of sand ripples under oscillating shallow flows"),
        ("Annual Meeting of 2019", "Drift of sand ripples under oscillating shallow flows"),
        ("", "Drift of sand ripples under oscillating shallow flows"),
    ],
)
def test_a_declared_title_counts_if_it_is_printed(declared: str, chosen: str) -> None:
    printed = Title("Drift of sand ripples under oscillating shallow flows", 1.7)
    assert choose_title(declared, printed, "Drift of sand rip-\nples under oscillating\nshallow flows\nAnn Smith") == chosen


def test_a_declared_title_is_used_where_the_page_shows_none() -> None:
    assert choose_title("Sand and sea", Title(), "scanned cover") == "Sand and sea"
    assert choose_title("scan0001.tif", Title(), "page 1") == ""


@pytest.mark.parametrize(
    ("declared", "text", "authors"),
    [
        (["ibm"], "IBM Research, Zurich. Ann Smith", ()),
        (["Toshiba"], "Toshiba Research Europe", ()),
        (["user1"], "", ()),
        (["Windows User"], "Ann Smith", ()),
        (["Administrator"], "The administrator of the system", ()),
        (["ACER Aspire"], "Ann Smith", ()),
        (["ann.smith@example.org"], "Ann Smith", ()),
        (["https://example.org"], "Ann Smith", ()),
        (["Acrobat Distiller 9.0"], "Ann Smith", ()),
        (["asmith"], "Ann Smith", ()),
        (["Ann Smith", "Bo Lee"], "", ("Ann Smith", "Bo Lee")),
        (["Smith, Ann"], "", ("Smith, Ann",)),
        (["Siemens, Ann"], "Ann Siemens", ("Siemens, Ann",)),
        (["IBM Corporation"], "\u00a9 IBM Corporation", ("IBM Corporation",)),
        (["IBM Corporation"], "Ann Smith", ()),
        (["Smith", "Lee"], "Smith and Lee", ("Smith", "Lee")),
        (["\u738b\u5c0f\u660e"], "\u738b\u5c0f\u660e", ("\u738b\u5c0f\u660e",)),
        (["\u5fae\u8f6f\u7528\u6237"], "\u738b\u5c0f\u660e", ()),
        (["World Health Organization"], "", ("World Health Organization",)),
        (["\u00c9milie du Ch\u00e2telet"], "", ("\u00c9milie du Ch\u00e2telet",)),
    ],
)
def test_names_of_accounts_and_machines_are_no_authors(declared: list[str], text: str, authors: tuple[str, ...]) -> None:
    assert choose_authors(declared, text) == authors


def test_the_title_is_not_a_label_of_a_figure() -> None:
    page = [*lines(TITLE, 740, 16), *lines(BODY, 650), *lines(["Loss"], 300, 40), *lines(["Encoder Decoder"], 250, 36, bold=True)]
    assert find_title(page).text == " ".join(TITLE)


def test_a_page_in_one_size_of_type_shows_no_title() -> None:
    assert find_title(lines(BODY, 700)) == Title()
    assert find_title([]) == Title()


LINES = st.lists(
    st.builds(
        Line,
        text=st.text(min_size=1, max_size=60)
        | st.sampled_from([*TITLE, *ABSTRACT, "Abstract", "Abstract. We show", "Keywords: a", "1 Introduction", "-"]),
        size=st.floats(1, 40),
        bold=st.booleans(),
        left=st.floats(0, 300),
        right=st.floats(300, 600),
        y=st.floats(0, 800),
        page=st.integers(0, 2),
    ),
    max_size=30,
)


@given(LINES)
def test_title_and_abstract_are_words_of_the_page(page: list[Line]) -> None:
    """Whatever the lines, nothing is raised and nothing is made up."""
    for text in (find_title(page).text, find_abstract(page)):
        printed = iter(letters("".join(line.text for line in page)))
        assert all(char in printed for char in letters(text))


@given(st.lists(st.text(max_size=20), max_size=5), st.text(max_size=50))
def test_authors_are_declared_names(declared: list[str], text: str) -> None:
    assert set(choose_authors(declared, text)) <= {" ".join(name.split()) for name in declared}


def test_lines_are_joined_where_a_word_is_divided() -> None:
    assert join_lines(["a multi-", "layer net of X-", "Ray \u6c34\u6676", "\u4f53"]) == "a multilayer net of X- Ray \u6c34\u6676\u4f53"
