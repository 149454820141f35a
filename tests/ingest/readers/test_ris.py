"""RIS in its dialects."""

from __future__ import annotations

from pathlib import Path

import pytest
import rispy

from outrider.ingest.entry import BadEntry, Entry, Parsed, ReadOptions
from outrider.ingest.readers.tagged import read_ris
from outrider.state.errors import UnreadableFile
from outrider.state.records import Paper
from support.shared_data import DATA

SAVED = DATA / "bibliographies" / "asreview_demo"
BASIC = """TY  - JOUR
ID  - 7
TI  - A title
AU  - Curie, Marie
AU  - Müller, J.
PY  - 2019//
T2  - Nature
JO  - Nature
SP  - 10
EP  - 20
KW  - one
two; still two
AB  - First
second line
SN  - 0893-8512
UR  - https://example.org/a;b
UR  - https://example.org/c
AN  - 31366609
DP  - NLM
C2  - PMC6750137
DO  - https://doi.org/10.1000/ABC
N1  - a
N1  - b
ER  -
"""


def entries(tmp_path: Path, text: str | bytes) -> list[Parsed]:
    path = tmp_path / "some.ris"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(read_ris(path, ReadOptions()))


def paper(parsed: Parsed) -> Paper:
    assert isinstance(parsed, Entry)
    assert isinstance(parsed.record, Paper)
    return parsed.record


def test_a_record_with_everything(tmp_path: Path) -> None:
    """Every tag goes to its place; what has none stays under its tag, a list where it came twice."""
    (only,) = entries(tmp_path, BASIC)
    read = paper(only)
    assert isinstance(only, Entry)
    assert only.own_id == "7"
    assert (read.title, read.year, read.venue, read.pages) == ("A title", 2019, "Nature", "10-20")
    assert read.authors == ("Curie, Marie", "Müller, J.")
    assert read.tags == ("one", "two; still two")
    assert read.abstract == "First\nsecond line"
    assert read.url == "https://example.org/a;b"
    assert read.identifiers.model_dump(exclude_none=True) == {"doi": "10.1000/abc", "pmid": "31366609", "pmcid": "PMC6750137"}
    assert read.metadata == {"TY": "JOUR", "ID": "7", "issn": "0893-8512", "UR": "https://example.org/c", "DP": "NLM", "N1": ["a", "b"]}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252", "latin-1"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_encodings_and_line_ends(tmp_path: Path, encoding: str, newline: str) -> None:
    """Latin-1, Windows-1252, UTF-16 and marked UTF-8 give the same record, whatever ends the lines."""
    (only,) = entries(tmp_path, BASIC.replace("\n", newline).encode(encoding))
    assert paper(only).authors == ("Curie, Marie", "Müller, J.")
    assert paper(only).tags == ("one", "two; still two")


def test_tabs_and_single_blanks(tmp_path: Path) -> None:
    """`A1<tab>- x` and `TY - JOUR` count as tags; a line of prose that looks like one does not."""
    (only,) = entries(tmp_path, "TY - JOUR\nTI\t- T\nA1 \t- A\nN1  - in the\nUK - and elsewhere\nER - \n")
    assert (paper(only).title, paper(only).authors) == ("T", ("A",))
    assert paper(only).metadata["N1"] == "in the\nUK - and elsewhere"


def test_missing_ends_and_starts(tmp_path: Path) -> None:
    """A missing ER loses nothing; a record without TY is reported; stray lines between records are no record."""
    text = (
        "1.\nTY  - JOUR\nTI  - One\nTY  - JOUR\nTI  - Two\nER  - \nNL  - behind\n\n2.\n"
        "TY  - JOUR\nTI  - Three\nER  -\nTI  - lost\nER  -\nTY  - JOUR\nTI  - Four"
    )
    read = entries(tmp_path, text)
    assert [paper(parsed).title for parsed in read if isinstance(parsed, Entry)] == ["One", "Two", "Three", "Four"]
    assert [parsed.why for parsed in read if isinstance(parsed, BadEntry)] == ["a record without its TY line"]
    assert paper(read[1]).metadata["NL"] == "behind"


def test_records_are_indented_each_for_itself(tmp_path: Path) -> None:
    """Edited and merged files hold indented records between others; within a value, blanks are no part of it."""
    plain = "TY  - JOUR\nTI  - %s\nAB  - One\n  two\nER  - \n\n"
    indented = "".join("  " + line for line in (plain % "B").splitlines(keepends=True))
    read = entries(tmp_path, plain % "A" + indented + plain % "C")
    assert [(paper(parsed).title, paper(parsed).abstract) for parsed in read] == [(title, "One\ntwo") for title in "ABC"]


def test_types_of_publication_are_separated(tmp_path: Path) -> None:
    """The Cochrane Library writes them on one line, with semicolons; a DOI under the same tag is one."""
    (only,) = entries(tmp_path, "TY  - JOUR\nTI  - T\nM3  - Journal article; Randomized controlled trial\nM3  - 10.1000/x\nER  -\n")
    assert paper(only).metadata["publication_types"] == ["Journal article", "Randomized controlled trial"]
    assert paper(only).identifiers.doi == "10.1000/x"


@pytest.mark.parametrize(
    ("lines", "pmid"),
    [
        ("C5  - 30396417\nDB  - Embase", "30396417"),
        ("C5  - 30396417\nUR  - https://www.embase.com/search/results?id=L1", "30396417"),
        ("C2  - 31421429\nDB  - Scopus", "31421429"),
        ("C2  - 31421429\nUR  - https://www.scopus.com/inward/record.uri?eid=2-s2.0-1", "31421429"),
        ("AN  - CN-01\nXR  - EMBASE 611111111\nXR  - PUBMED 28000000", "28000000"),
        ("AN  - CN-01\nC3  - PubMed 28000000", "28000000"),
        ("AN  - MEDLINE:28000000\nDB  - Web of Science", "28000000"),
        ("C2  - 30396417\nDB  - Embase", None),
        ("C5  - 31421429\nDB  - Scopus", None),
        ("C5  - 30396417\nC2  - 31421429", None),
        ("C5  - 30396417\nUR  - https://example.org/embase.com/x", None),
        ("C2  - 2019\nDB  - Scopus", None),
        ("C2  - 104501 of 3\nDB  - Scopus", None),
        ("AN  - CN-01\nXR  - EMBASE 611111111", None),
    ],
)
def test_pubmed_numbers_of_other_databases(tmp_path: Path, lines: str, pmid: str | None) -> None:
    """Embase, Scopus and others have tags of their own for them, which count only in the exports of these databases."""
    (only,) = entries(tmp_path, f"TY  - JOUR\nTI  - T\n{lines}\nER  -\n")
    assert paper(only).identifiers.pmid == pmid
    if pmid is None and "C2" in lines:
        assert "C2" in paper(only).metadata


def test_faulty_years_stay(tmp_path: Path) -> None:
    """A year that is none is kept as it was; a date behind it may still give one."""
    (faulty,), (dated,) = (entries(tmp_path, f"TY  - JOUR\nTI  - T\nPY  - 10 15\n{more}ER  -\n") for more in ("", "DA  - 2012/07/03\n"))
    assert (paper(faulty).year, paper(faulty).metadata["PY"]) == (None, "10 15")
    assert (paper(dated).year, paper(dated).metadata["PY"], paper(dated).metadata["DA"]) == (2012, "10 15", "2012/07/03")


def test_a_record_without_values_is_reported(tmp_path: Path) -> None:
    """TY and ER alone are no record; notes alone are."""
    nothing, notes = entries(tmp_path, "TY  - GEN\nTI  -\nER  -\n\nTY  - GEN\nN1  - note\nER  -\n")
    assert isinstance(nothing, BadEntry)
    assert nothing.where == "line 1"
    assert paper(notes).metadata["N1"] == "note"


def test_null_characters_are_dropped(tmp_path: Path) -> None:
    """One stray null byte in a text file is noise."""
    assert paper(entries(tmp_path, "TY  - JOUR\nTI  - a\x00b\nER  -\n")[0]).title == "ab"


@pytest.mark.parametrize("content", [b"", b" \n", b"no tags here", b"PK\x03\x04\x00\x00\x00\xff" * 40])
def test_no_ris_in_it(tmp_path: Path, content: bytes) -> None:
    """A file without a TY line is refused, whatever it is."""
    with pytest.raises(UnreadableFile):
        entries(tmp_path, content)


def test_a_file_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    """The limit holds for plain files too."""
    path = tmp_path / "big.ris"
    path.write_text(BASIC * 10)
    with pytest.raises(UnreadableFile, match="more than the limit"):
        list(read_ris(path, ReadOptions(max_bytes=100)))


@pytest.mark.skipif(not SAVED.is_dir(), reason=f"no shared data at {SAVED}")
def test_real_exports_hold_as_many_records_as_rispy_reads() -> None:
    """EndNote, Zotero, Ovid, Embase, Scopus, Web of Science: rispy counts the same records, and titles agree."""
    for path in sorted([*SAVED.glob("*.ris"), *SAVED.glob("*.txt")]):
        read = list(read_ris(path, ReadOptions()))
        expected = rispy.load(path, encoding="utf-8-sig", enforce_list_tags=False, list_tags=list(rispy.config.TAG_KEY_MAPPING))
        assert len(read) == len(expected), path.name
        titles = [parsed.record.title for parsed in read if isinstance(parsed, Entry) and parsed.record.title]
        expected_titles = [" ".join((one.get("title") or one.get("primary_title") or [""])[0].split()) for one in expected]
        if path.name != "baseline_tag_and_field_definitions.ris":  # its tabs are beyond rispy
            assert titles == [title for title in expected_titles if title], path.name
