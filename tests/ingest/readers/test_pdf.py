from __future__ import annotations

import gc
import json
import time
import tracemalloc
from pathlib import Path

import pytest

from outrider.distiller.units import find_units
from outrider.ingest.entry import Entry, FileNote, ReadOptions
from outrider.ingest.readers.front_matter import Title, choose_title
from outrider.ingest.readers.pdf import clean, is_garbled, read
from outrider.state.errors import UnreadableFile
from outrider.state.records import Document, Paper, Record
from support.minimal_pdf import Run, pdf, typeset
from support.shared_data import DATA


def record(path: Path, options: ReadOptions | None = None) -> Record:
    entry, *notes = read(path, options or ReadOptions())
    assert isinstance(entry, Entry)
    assert all(isinstance(note, FileNote) for note in notes)
    return entry.record


def write_pdf(path: Path, *pages: str, **information: str) -> Path:
    path.write_bytes(pdf(list(pages), information))
    return path


def encrypt_pdf(path: Path, password: str) -> Path:
    path.write_bytes(pdf(["secret"], password=password))
    return path


def test_text_title_and_authors(tmp_path: Path) -> None:
    """All pages are one text; the document information names title and authors."""
    paper = record(
        write_pdf(tmp_path / "a.pdf", "First page.", "Second page.", Title="Lysis", Author="Ann Smith and Bo Lee", Keywords="phage; lysis")
    )
    assert (paper.title, paper.authors, paper.tags) == ("Lysis", ("Ann Smith", "Bo Lee"), ("phage", "lysis"))
    assert paper.text == "First page.\n\nSecond page."
    assert isinstance(paper, Document)
    assert paper.metadata == {"pages_read": 2, "pages_total": 2}


@pytest.mark.parametrize(
    ("author", "names"),
    [
        ("Smith, Ann", ("Smith, Ann",)),
        ("Ann Smith, Bo Lee, and Cy Day", ("Ann Smith", "Bo Lee", "Cy Day")),
        ("Smith, Ann; Lee, Bo", ("Smith, Ann", "Lee, Bo")),
        ("Ann Smith, Bo Lee", ("Ann Smith", "Bo Lee")),
    ],
)
def test_authors_are_distinguished(tmp_path: Path, author: str, names: tuple[str, ...]) -> None:
    assert record(write_pdf(tmp_path / "a.pdf", "x", Author=author)).authors == names


@pytest.mark.parametrize("title", ["", "untitled", "Microsoft Word - draft3.doc", "draft.dvi", "1234"])
def test_a_title_that_is_none_is_replaced_by_the_file_name(tmp_path: Path, title: str) -> None:
    assert record(write_pdf(tmp_path / "phage lysis.pdf", "x", Title=title)).title == "phage lysis"


def test_a_labelled_doi_makes_a_paper(tmp_path: Path) -> None:
    """Printed as the document's own on the first pages; a bare one in the text, or a later one, is someone else's."""
    own = record(write_pdf(tmp_path / "a.pdf", "Intro", "https://doi.org/10.1000/ABC.1, 2020"))
    assert isinstance(own, Paper)
    assert own.identifiers.doi == "10.1000/abc.1"
    other = record(write_pdf(tmp_path / "b.pdf", "see 10.1000/other", "two", "doi: 10.1000/cited"))
    assert other.identifiers.doi is None
    assert record(write_pdf(tmp_path / "c.pdf", "arXiv:2101.00001v2 [cs.CL]")).identifiers.arxiv == "2101.00001"


def test_an_image_only_document_asks_for_ocr(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match=r"no text layer \(scanned\); OCR it first"):
        record(write_pdf(tmp_path / "a.pdf", "", ""))


@pytest.mark.parametrize("content", [b"", b"%PDF-1.4\n", b"not a pdf at all", b"\x00" * 5000, pdf(["one", "two"])[:200]])
def test_an_empty_or_truncated_file_is_unreadable(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.pdf").write_bytes(content)
    with pytest.raises(UnreadableFile, match=r"a\.pdf: (is empty|not a readable PDF|no text layer|has no pages)"):
        record(tmp_path / "a.pdf")


def test_an_encrypted_document_is_reported(tmp_path: Path) -> None:
    """One that opens without a password is read."""
    with pytest.raises(UnreadableFile, match="encrypted; save a copy without its password first"):
        record(encrypt_pdf(tmp_path / "a.pdf", "password"))
    assert record(encrypt_pdf(tmp_path / "b.pdf", "")).text == "secret"


def test_a_filled_form_is_part_of_the_text(tmp_path: Path) -> None:
    """The appearance of a field is drawn into the page. A page with nothing else is no scan."""
    appearance = b"BT /F1 12 Tf 2 4 Td (Ann Smith) Tj ET"
    form = (
        b"<< /Type /XObject /Subtype /Form /BBox [0 0 200 20] /Resources << /Font << /F1 3 0 R >> >> /Length %d >>\nstream\n%s\nendstream"
    )
    field = b"<< /Type /Annot /Subtype /Widget /FT /Tx /F 4 /T (name) /V (Ann Smith) /Rect [100 600 300 620] /AP << /N 7 0 R >> >>"
    content = typeset([Run(72, 605, "Name:")], extra=[field, form % (len(appearance), appearance)], page="/Annots [6 0 R]")
    (tmp_path / "a.pdf").write_bytes(content)
    assert record(tmp_path / "a.pdf").text.split() == ["Name:", "Ann", "Smith"]


def test_what_is_not_read_is_named(tmp_path: Path) -> None:
    """A scanned page among others, and a declared author that is none."""
    paper = record(write_pdf(tmp_path / "a.pdf", "text", "", "text", Author="user1"))
    assert paper.metadata == {"pages_read": 3, "pages_total": 3, "pages_without_text": [2], "declared_author": "user1"}


def lines_from(y: float, *texts: str, x: float = 72, size: float = 10, step: float = 12) -> list[Run]:
    return [Run(x, y - step * place, text, size) for place, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("runs", "text"),
    [
        (  # a title of two lines, a name, paragraphs with a gap, a heading in larger type without one
            [
                *lines_from(720, "The gardens of", "the duchess", size=20, step=24),
                Run(72, 670, "Magda Smith"),
                *lines_from(640, "She planted trees. It", "was hard."),
                Run(72, 608, "Goethe came."),
                Run(72, 592, "Results", 13),
                Run(72, 577, "All survived."),
            ],
            "The gardens of\nthe duchess\n\nMagda Smith\n\nShe planted trees. It\nwas hard.\n\nGoethe came.\n\nResults\n\nAll survived.",
        ),
        (  # a sentence that runs on below a formula, and into the next column; a superscript
            [
                *lines_from(700, "The rate is given by", "the formula"),
                Run(110, 664, "a = b + c"),
                Run(72, 640, "where b is known. The"),
                Run(300, 700, "Next line of it ends"),
                Run(300, 688, "here", 10),
                Run(322, 692, "1", 7),
                Run(300, 676, "And more."),
            ],
            "The rate is given by\nthe formula\na = b + c\nwhere b is known. The\nNext line of it ends\nhere\n1\nAnd more.",
        ),
        (  # a right column in smaller type
            [*lines_from(700, "One.", "Two."), *lines_from(700, "Three.", "Four.", x=300, size=8, step=10), Run(300, 670, "Five.", 8)],
            "One.\nTwo.\nThree.\nFour.\n\nFive.",
        ),
        (  # headings that are only bold, one of two lines; bold words within and at the beginning of a paragraph
            [
                Run(72, 700, "Results of the", bold=True),
                Run(72, 688, "survey", bold=True),
                Run(72, 676, "All trees survived. It was"),
                Run(72, 664, "a wonder.", bold=True),
                Run(72, 652, "Discussion", bold=True),
                Run(72, 640, "Frost.", bold=True),
                Run(110, 640, "None of them froze."),
            ],
            "Results of the\nsurvey\n\nAll trees survived. It was\na wonder.\n\nDiscussion\n\nFrost. None of them froze.",
        ),
        (lines_from(700, *("Double spaced line",) * 5, step=24), "\n".join(["Double spaced line"] * 5)),
    ],
    ids=["headings", "sentences", "columns", "bold", "spacing"],
)
def test_blank_lines_stand_where_a_page_has_gaps(tmp_path: Path, runs: list[Run], text: str) -> None:
    (tmp_path / "a.pdf").write_bytes(typeset(runs))
    assert record(tmp_path / "a.pdf").text == text


def test_no_sentence_of_a_pdf_begins_with_the_heading_above(tmp_path: Path) -> None:
    runs = [
        Run(72, 720, "The gardens of the duchess", 20),
        Run(72, 690, "Magda Smith"),
        *lines_from(660, "She planted 320", "trees in 1776."),
    ]
    (tmp_path / "a.pdf").write_bytes(typeset(runs))
    text = record(tmp_path / "a.pdf").text
    assert [text[unit.start : unit.end] for unit in find_units(text)] == ["She planted 320\ntrees in 1776."]


def test_pages_that_are_not_read_are_reported(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", "text", *[""] * 7, "text", "text")
    notes = [one.text for one in read(path, ReadOptions(max_pages=9)) if isinstance(one, FileNote)]
    assert notes == [
        "the last 1 of its 10 pages were not read",
        "7 of its 10 pages without text (OCR scanned pages first): 2, 3, 4, 5, 6, ...",
    ]
    assert not [one for one in read(write_pdf(path, "text"), ReadOptions()) if isinstance(one, FileNote)]


XMP = """<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
 xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:prism="http://prismstandard.org/namespaces/basic/2.0/">
<rdf:Description rdf:about="" prism:doi="10.1000/xyz.7"><dc:format>FORMAT</dc:format>
<dc:title><rdf:Alt><rdf:li>Drift of sand</rdf:li></rdf:Alt></dc:title>
<dc:creator><rdf:Seq><rdf:li>Ann Smith</rdf:li><rdf:li>Bo Lee</rdf:li></rdf:Seq></dc:creator></rdf:Description></rdf:RDF></x:xmpmeta>"""


def test_xmp_fills_what_the_document_information_lacks(tmp_path: Path) -> None:
    """The packet of a picture in the document, or a broken one, is passed over."""
    packets = [
        XMP.replace("FORMAT", "application/pdf"),
        XMP.replace("FORMAT", "image/jpeg").replace("sand", "a picture"),
        "<x:xmpmeta><a></x:xmpmeta>",
    ]
    (tmp_path / "a.pdf").write_bytes(pdf(["x"]) + "".join(packets).encode())
    paper = record(tmp_path / "a.pdf")
    assert (paper.title, paper.authors, paper.identifiers.doi) == ("Drift of sand", ("Ann Smith", "Bo Lee"), "10.1000/xyz.7")


HOSTILE = ["a" * 100_000, "1" * 100_000, "-\n" * 20_000, "a-" * 50_000, "a-\na" * 20_000, "abstract" + " " * 100_000, ". " * 50_000]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_takes_linear_time(tmp_path: Path, hostile: str) -> None:
    started = time.process_time()
    clean(hostile)
    choose_title(f"title {hostile}", Title(), hostile)
    record(write_pdf(tmp_path / "a.pdf", hostile, Title="abcde" + hostile[:1000]))
    assert time.process_time() - started < 10


def test_a_bold_line_of_dots_takes_linear_time(tmp_path: Path) -> None:
    """As those of a table of contents, between a title and the number of its page."""
    (tmp_path / "a.pdf").write_bytes(typeset([Run(72, 700, f"Dose {'.' * 30_000} 5", bold=True), *lines_from(676, "One.", "Two.")]))
    started = time.process_time()
    assert record(tmp_path / "a.pdf").text.endswith(" 5\n\nOne.\nTwo.")
    assert time.process_time() - started < 2


def test_glyphs_without_characters_are_no_text() -> None:
    """TeX's bitmap fonts came out as dingbats in one manual. A few symbols in a text, or a short one, are none of that."""
    assert is_garbled("P❡♥❛❧✐③❡❞ ❧❡❛st sq✉❛r❡s ✈❡rs✉s " * 20)
    assert not is_garbled("✓ done ✗ open ☎ call " * 20)
    assert not is_garbled("❡♥❛❧✐③❡❞")


def test_a_compound_keeps_its_hyphen_at_a_line_end() -> None:
    """If the text has it on one line, too; any other divided word is joined."""
    assert clean("a follow-up of re-\nsearch by follow-\nup") == "a follow-up of research by follow-up"


def test_pages_beyond_the_bound_are_counted_not_read(tmp_path: Path) -> None:
    paper = record(write_pdf(tmp_path / "a.pdf", *(f"page {number}" for number in range(9))), ReadOptions(max_pages=3))
    assert paper.text == "page 0\n\npage 1\n\npage 2"
    assert paper.metadata == {"pages_read": 3, "pages_total": 9}


def test_of_ten_thousand_pages_those_within_the_bound_are_read(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", *(f"page {number} of many" for number in range(10_000)))
    paper = record(path, ReadOptions(max_pages=1_500))
    assert paper.metadata == {"pages_read": 1_500, "pages_total": 10_000}
    assert paper.text.endswith("page 1499 of many")


def test_memory_does_not_grow_with_the_pages_read(tmp_path: Path) -> None:
    """200 more pages cost little more than their text."""
    path = write_pdf(tmp_path / "a.pdf", *(f"page {number} " + "words " * 50 for number in range(300)))
    peaks = []
    for pages in (100, 300):
        gc.collect()
        tracemalloc.start()
        record(path, ReadOptions(max_pages=pages))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 2**20


def test_text_is_made_fit_to_store() -> None:
    """Half characters and controls go, words hyphenated at a line's end are joined."""
    assert clean("re-\nsearch\ud835 a\x00b\u00adc\r\nA-\nB") == "research abc\nA-\nB"


@pytest.mark.skipif(not DATA.exists(), reason=f"no data at {DATA}; set OUTRIDER_DATA")
def test_a_real_paper() -> None:
    paper = record(DATA / "fulltext/acl_pdf/N18-3011.pdf")
    assert paper.title == "Construction of the Literature Graph in Semantic Scholar"
    assert paper.authors[:2] == ("Waleed Ammar", "Dirk Groeneveld")
    assert "heterogeneous graph" in paper.text
    assert "\n\n4.4 Entity Linking Models\n\nGiven a text span" in paper.text  # NimbusRomNo9L-Medi is bold


@pytest.mark.skipif(not DATA.exists(), reason=f"no data at {DATA}; set OUTRIDER_DATA")
def test_odd_real_files_are_read() -> None:
    """Right to left, rotated, forms, attachments, PDF/A, two columns."""
    texts = {path.name: record(path).text for path in sorted((DATA / "fulltext/pdf_pypdf_samples").rglob("*.pdf"))}
    assert len(texts) >= 15
    assert all(texts.values())
    assert "habibi" in texts["habibi-rotated.pdf"]
    assert texts["habibi.pdf"].startswith("\u062d\u064e\u0628\u064a\u0628\u064a habibi")


@pytest.mark.skipif(not DATA.exists(), reason=f"no data at {DATA}; set OUTRIDER_DATA")
def test_attachments_are_named() -> None:
    paper = record(DATA / "fulltext/pdf_pypdf_samples/025-attachment/with-attachment.pdf")
    assert paper.metadata["attachments_not_read"] == ["image.png"]


@pytest.mark.skipif(not DATA.exists(), reason=f"no data at {DATA}; set OUTRIDER_DATA")
def test_the_abstract_of_a_real_paper_is_its_twins() -> None:
    """The twin goes on with a footnote of the page."""
    twin = json.loads((DATA / "fulltext/acl_pdf/N18-3011.json").read_text(encoding="utf-8"))["abstract"]
    abstract = record(DATA / "fulltext/acl_pdf/N18-3011.pdf").abstract
    assert "".join(twin.split()).startswith("".join(abstract.split()))
    assert abstract.endswith("www.semanticscholar.org.")
