"""Rows of named values become records."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.ingest.column_mapping import NAMES, check_columns, check_fields, find_columns, parse_row
from outrider.ingest.entry import BadEntry, Entry
from outrider.ingest.record_ids import NamedRecord, Namer
from outrider.state.errors import BadRequest, UnreadableFile
from outrider.state.records import Paper, Repository
from outrider.text.words import fold_name


def entry(row: dict[str, object], columns: dict[str, str] | None = None) -> Entry:
    parsed = parse_row(row, columns or {}, "row 1")  # type: ignore[arg-type]
    assert isinstance(parsed, Entry)
    return parsed


def test_names_count_without_case_blanks_and_punctuation() -> None:
    read = entry({"Primary Title": "T", "ABSTRACT_text": "A", " Year": 2019})
    assert (read.record.title, read.record.abstract, read.record.year, read.record.metadata) == ("T", "A", 2019, {})


@given(st.sampled_from([name for names in NAMES.values() for name in names]), st.sampled_from([" ", "-", "_", "."]))
def test_every_known_name_is_found_in_any_dress(name: str, joint: str) -> None:
    assert name in find_columns([name.upper().replace("_", joint)], {}) or fold_name(name) != name


def test_a_number_is_an_issue_only_with_a_journal() -> None:
    with_journal, alone = entry({"title": "T", "journal": "J", "number": "3"}).record, entry({"title": "T", "number": "3"}).record
    assert isinstance(with_journal, Paper)
    assert isinstance(alone, Paper)
    assert (with_journal.issue, alone.issue, alone.metadata) == ("3", None, {"number": "3"})


def test_a_mapped_column_holds_its_field_and_no_other() -> None:
    """What has the field's own name then stays in the metadata."""
    read = entry({"Heading": "H", "title": "T"}, {"title": "heading"}).record
    assert (read.title, read.metadata) == ("H", {"title": "T"})


def test_a_kind_makes_another_record() -> None:
    """One that is no kind of ours stays in the metadata of a paper."""
    read = entry({"kind": "Repository", "title": "T", "stars": "12", "archived": "true"}).record
    assert isinstance(read, Repository)
    assert (read.stars, read.archived) == (12, True)
    assert entry({"kind": "thesis", "title": "T"}).record.metadata == {"kind": "thesis"}


def test_an_empty_row_is_no_record() -> None:
    """An own id alone is nothing to find a record by; a value of an unknown name is."""
    assert isinstance(parse_row({"id": "1", "title": ""}, {}, "row 1"), BadEntry)
    assert entry({"id": 1, "colour": "red"}).own_id == "1"


def test_own_ids_are_scoped() -> None:
    parsed = parse_row({"id": "1", "title": "T"}, {}, "row 1", scope="Sheet2!")
    assert isinstance(parsed, Entry)
    assert parsed.own_id == "Sheet2!1"


def test_wrong_maps_are_refused_with_what_there_is() -> None:
    """A field that is none of ours is the caller's mistake, a column that is not there the file's."""
    check_fields({"Title": "anything"})
    with pytest.raises(BadRequest, match="--map: unknown field 'abstrct'; did you mean 'abstract'\\?; known: id, "):
        check_fields({"abstrct": "x"})
    with pytest.raises(UnreadableFile, match=r"no column 'x' \(for title\); the columns are: a, b"):
        check_columns(Path("f.csv"), ["a", "b"], {"title": "x"})
    with pytest.raises(UnreadableFile, match="none of its columns is known"):
        check_columns(Path("f.csv"), ["a", "b"], {})


def test_entries_cite_each_other_by_their_own_ids() -> None:
    """Whichever comes first; ids of one part of a file are not those of another."""
    parsed = [
        parse_row({"id": own, "title": own, "references": cited}, {}, "row", scope=scope)
        for own, cited, scope in [("a", ["b"], ""), ("b", "10.1000/x", ""), ("a", ["b"], "sheet 2/")]
    ]
    first, second, other = (named.record for named in Namer("file.xlsx", single=False).name_all(parsed) if isinstance(named, NamedRecord))
    assert [edge.target for edge in first.edges] == [f"doc:{second.doc_id}"]
    assert [edge.target for edge in second.edges] == ["doi:10.1000/x"]
    assert other.edges != first.edges
    assert first.metadata["references"] == ["b"]


@pytest.mark.parametrize("column", ["openalex", "id"])
def test_works_of_openalex_are_known_and_cited_by_its_numbers(column: str) -> None:
    entry = parse_row({column: "https://openalex.org/W12", "title": "T", "referenced_works": "https://openalex.org/W345"}, {}, "row")
    assert isinstance(entry, Entry)
    assert (entry.record.identifiers.openalex, [edge.target for edge in entry.record.edges]) == ("W12", ["openalex:W345"])
    assert entry.record.metadata == ({"id": "https://openalex.org/W12"} if column == "id" else {})


def test_what_is_cited_is_part_of_the_content() -> None:
    """The hash that ingestion compares is that of the record as it is stored."""
    (named,) = Namer("a", single=False).name_all([parse_row({"id": "a", "title": "T", "references": ["b"]}, {}, "row")])
    assert isinstance(named, NamedRecord)
    assert named.content == named.record.content_hash()


def test_scopus() -> None:
    """Names without commas, language, type, ISSN, both kinds of keywords, an article number instead of pages."""
    row = {
        "Authors": "Liu R., Adler D.G.", "Title": "T", "Year": "2014", "Source title": "J", "Volume": "3.0", "Issue": "nan",
        "Art. No.": "e12",
        "Page start": "", "Abstract": "[No abstract available]", "Author Keywords": "cyst (diagnosis; surgery); colon",
        "Index Keywords": "Colon; human; colon", "ISSN": "23039027", "PubMed ID": "24955339.0", "Language of Original Document": "English",
        "Document Type": "Article", "Abbreviated Source Title": "J.", "EID": "2-s2.0-1",
    }  # fmt: skip
    paper = entry(row).record
    assert isinstance(paper, Paper)
    assert paper.authors == ("Liu R.", "Adler D.G.")
    assert (paper.volume, paper.issue, paper.pages, paper.abstract, paper.language) == ("3", None, "e12", "", "English")
    assert paper.tags == ("cyst (diagnosis; surgery)", "colon", "Colon", "human")
    assert paper.identifiers.pmid == "24955339"
    assert paper.metadata == {"EID": "2-s2.0-1", "publication_types": ["Article"], "issn": "2303-9027", "journal_abbreviation": "J."}


def test_embase() -> None:
    """The column `Source` holds what other columns lack; terms keep their qualifiers in parentheses."""
    row = {
        "Title": "T", "Author Names": "Liu R., Adler D.G.",
        "Source": "Endoscopic Ultrasound (2014) 3:3 (152-160). Date of Publication: 2014",
        "Publication Type": "Article", "Article Language": "English", "Medline PMID": "24955339",
        "Emtree Drug Index Terms": "1,2 xylene (adverse drug reaction, drug toxicity), aspirin",
        "Emtree Medical Index Terms": "article, duodenal cyst (diagnosis, surgery)",
    }  # fmt: skip
    paper = entry(row).record
    assert isinstance(paper, Paper)
    assert (paper.venue, paper.year, paper.volume, paper.issue, paper.pages) == ("Endoscopic Ultrasound", 2014, "3", "3", "152-160")
    assert paper.authors == ("Liu R.", "Adler D.G.")
    assert paper.tags == ("1,2 xylene (adverse drug reaction, drug toxicity)", "aspirin", "article", "duodenal cyst (diagnosis, surgery)")
    assert (paper.language, paper.metadata["publication_types"], paper.identifiers.pmid) == ("English", ["Article"], "24955339")


def test_several_languages() -> None:
    """All of them are the record's, in one text."""
    for written in ("English; Spanish", ["English", "Spanish"]):
        read = entry({"title": "T", "language": written}).record
        assert (read.language, read.metadata) == ("English; Spanish", {})


def test_csl() -> None:
    """An item of CSL-JSON: particles of names, dates as text, a type."""
    item = {
        "id": "gogh1890", "type": "article-journal", "title": "T", "container-title": "J", "page": "1-9", "volume": 93, "DOI": "10.1000/x",
        "author": [{"family": "Gogh", "given": "Vincent", "non-dropping-particle": "van"}, {"literal": "The Group"}],
        "issued": {"raw": "1890-07-29"}, "ISSN": "1471-2105, 0027-8424", "keyword": "a, b",
    }  # fmt: skip
    read = entry(item)
    paper = read.record
    assert isinstance(paper, Paper)
    assert (read.own_id, paper.authors, paper.year, paper.venue) == ("gogh1890", ("van Gogh, Vincent", "The Group"), 1890, "J")
    assert (paper.pages, paper.volume, paper.identifiers.doi, paper.tags) == ("1-9", "93", "10.1000/x", ("a", "b"))
    assert (paper.metadata["type"], paper.metadata["issn"], paper.metadata["other_issns"]) == (
        "article-journal",
        "1471-2105",
        ["0027-8424"],
    )


@pytest.mark.parametrize("word", ["nan", "None", "NULL", "<NA>", "N/A", "[No author name available]"])
def test_words_for_nothing(word: str) -> None:
    """In a known column they are no value; in others they stay."""
    read = entry(
        {"title": "T", "authors": word, "year": word, "pages": f"{word}-{word}" if "[" not in word else word, "other": word}
    ).record
    assert isinstance(read, Paper)
    assert (read.authors, read.year, read.pages, read.metadata) == ((), None, None, {"other": word})


def test_identifiers_in_a_note() -> None:
    """Zotero's CSV and CSL-JSON carry PubMed's numbers in `Extra` and `note`, which stay; a column of their own comes first."""
    read = entry({"Title": "T", "Abstract Note": "A", "Manual Tags": "a; b", "Extra": "PMID: 24955339 PMCID: PMC4064168"}).record
    assert (read.identifiers.pmid, read.identifiers.pmcid, read.abstract, read.tags) == ("24955339", "PMC4064168", "A", ("a", "b"))
    assert read.metadata == {"Extra": "PMID: 24955339 PMCID: PMC4064168"}
    assert entry({"title": "T", "PMID": "7", "note": "PMID: 8"}).record.identifiers.pmid == "7"
