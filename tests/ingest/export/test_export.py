"""Records written and read again are the same records, as far as a format carries them."""

from __future__ import annotations

import csv
import io
import json
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

import bibtexparser
import pytest
import rispy
from bibtexparser.middlewares import LatexDecodingMiddleware
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from outrider.ingest.entry import Entry, ReadOptions
from outrider.ingest.export import FORMATS, make_writer
from outrider.ingest.field_values import is_absent
from outrider.ingest.readers import bibtex, json_lines, tables
from outrider.ingest.readers.tagged import read_endnote_refer, read_ris
from outrider.state.errors import BadRequest
from outrider.state.records import RECORD, BaseRecord, Document, Edge, Identifiers, Page, Paper, Record, Repository

READERS = {
    "bibtex": (bibtex.read, "x.bib"),
    "ris": (read_ris, "x.ris"),
    "refer": (read_endnote_refer, "x.enw"),
    "csl": (json_lines.read, "x.csljson"),
    "csv": (tables.read, "x.csv"),
    "json": (json_lines.read, "x.json"),
    "jsonl": (json_lines.read, "x.jsonl"),
}
CARRIED = ("title", "authors", "abstract", "year", "venue", "volume", "issue", "pages", "url", "tags", "language")
FEW = settings(max_examples=50, deadline=None)

characters = st.characters(exclude_categories=("Cs",), exclude_characters="\x00")
awkward = st.sampled_from([*"{}\\%&$#_~^[\"'\né中", "--", "``", "''", "?`", "; ", ", ", "=1+1", "@a{", "TY  - ", " and "])
texts = st.lists(awkward | st.text(characters, max_size=6), max_size=6).map("".join)
somes = texts.filter(lambda text: bool(text.split()))
ranges = st.from_regex(r"[A-Za-z]?[0-9]{1,4}(-[0-9]{1,4})?", fullmatch=True) | st.none()
identifiers = st.builds(
    Identifiers,
    doi=st.none()
    | st.from_regex(r"10\.[0-9]{4}/[a-z0-9._()-]{0,8}[a-z0-9]", fullmatch=True).filter(lambda doi: "(" not in doi and ")" not in doi),
    pmid=st.none() | st.integers(1, 10**8).map(str),
)
urls = st.none() | st.from_regex(r"https://example\.org/[a-z0-9_%;&=?#~.-]{0,10}", fullmatch=True)
# readers take `None`, `nan` and the like for a missing value
words = texts.filter(lambda text: not text.strip() or not is_absent(text))
some_words = words.filter(lambda text: bool(text.split()))
papers = st.builds(
    Paper, doc_id=st.just("d"), title=some_words, authors=st.lists(words, max_size=3).map(tuple), abstract=words,
    venue=some_words | st.none(),
    year=st.integers(1000, 2199) | st.none(),
    volume=some_words | st.none(), issue=some_words | st.none(), pages=ranges, url=urls, identifiers=identifiers,
    tags=st.lists(words, max_size=3).map(tuple), language=some_words | st.none(),
)  # fmt: skip
metadata = st.dictionaries(
    texts,
    st.recursive(st.none() | st.booleans() | st.integers() | texts, lambda inner: st.lists(inner, max_size=2), max_leaves=3),
    max_size=2,
)
common = {
    "doc_id": st.text("abc0", min_size=1), "title": texts, "description": texts, "abstract": texts, "text": texts,
    "authors": st.lists(texts).map(tuple),
    "tags": st.lists(texts, max_size=3).map(tuple), "year": st.none() | st.integers(), "stars": st.none() | st.integers(0),
    "metadata": metadata,
    "identifiers": st.builds(Identifiers, doi=somes | st.none(), openalex=somes | st.none(), pypi=somes | st.none()),
    "edges": st.lists(st.builds(Edge, relation=texts, target=texts), max_size=2).map(tuple), "origin": somes | st.none(),
    "venue": somes | st.none(),
}  # fmt: skip
records = st.one_of(
    st.builds(Paper, volume=somes | st.none(), mesh=st.lists(texts, max_size=2).map(tuple), **common),
    st.builds(Repository, licence=somes | st.none(), archived=st.none() | st.booleans(), updated_at=somes | st.none(), **common),
    st.builds(Page, **common),
    st.builds(Document, **common),
)


def write(records: Iterable[BaseRecord], form: str, stream: TextIO) -> None:
    out = make_writer(form, stream)
    out.begin()
    for record in records:
        out.record(record)
    out.end()


def write_records(form: str, records: Iterable[BaseRecord]) -> str:
    stream = io.StringIO(newline="")
    write(records, form, stream)
    return stream.getvalue()


def read_again(form: str, text: str) -> list[Record]:
    read, name = READERS[form]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_text(text, encoding="utf-8", newline="")
        parsed = list(read(path, ReadOptions()))
    assert all(isinstance(one, Entry) for one in parsed), parsed
    return [one.record for one in parsed if isinstance(one, Entry)]


def line(text: str | None) -> str | None:
    return " ".join(text.split()) or None if text is not None else None


def normal(record: BaseRecord, **changed: object) -> dict[str, object]:
    """What a format of one-line fields can say of a record."""
    values = {name: getattr(record, name) for name in CARRIED}
    for name in ("title", "abstract", "venue", "volume", "issue", "language"):
        values[name] = line(values[name])
    for name in ("authors", "tags"):
        values[name] = tuple(one for text in values[name] if (one := line(text)))
    return values | {"doi": record.identifiers.doi, "pmid": record.identifiers.pmid} | changed


@FEW
@given(st.lists(records, min_size=1, max_size=3))
@pytest.mark.parametrize("form", ["json", "jsonl", "csv"])
def test_our_own_formats_lose_nothing(form: str, originals: list[Record]) -> None:
    """JSON, JSON Lines and CSV give back every record whole, `doc_id` and metadata included."""
    assert read_again(form, write_records(form, originals)) == originals


@FEW
@given(papers)
def test_ris_gives_back_what_it_carries(paper: Paper) -> None:
    """Any text survives RIS but for its line ends; rispy reads the same title, authors and keywords."""
    text = write_records("ris", [paper, paper])
    assert [normal(read) for read in read_again("ris", text)] == [normal(paper)] * 2
    first, _ = rispy.loads(text)
    assert first["title"] == normal(paper)["title"]
    assert tuple(first.get("authors", [])) == normal(paper)["authors"]
    assert tuple(first.get("keywords", [])) == normal(paper)["tags"]
    assert first.get("doi") == paper.identifiers.doi


@FEW
@given(papers)
def test_bibtex_gives_back_what_it_carries(paper: Paper) -> None:
    """Any text survives BibTeX but for line ends and semicolons in keywords; bibtexparser finds the same fields, nothing failed."""
    text = write_records("bibtex", [paper, paper])
    tags = tuple(re.sub(" +", " ", tag.replace(";", ",")) for tag in normal(paper)["tags"])  # type: ignore[attr-defined]
    read = [normal(one) for one in read_again("bibtex", text)]
    assert [one | {"tags": ()} for one in read] == [normal(paper, tags=())] * 2
    assert read[0]["tags"] == tags
    library = bibtexparser.parse_string(text, append_middleware=[LatexDecodingMiddleware()])
    assert not library.failed_blocks
    assert len(library.entries) == 2
    assert text.count("{") == text.count("}")


@FEW
@given(papers)
def test_csl_json_gives_back_what_it_carries(paper: Paper) -> None:
    """Any text survives CSL-JSON but for semicolons in keywords; every item has an id of its own and a type."""
    text = write_records("csl", [paper, paper])
    items = json.loads(text)
    assert len({item["id"] for item in items}) == 2
    assert {item["type"] for item in items} == {"article-journal"}
    tags = tuple(re.sub(" +", " ", tag.replace(";", ",")) for tag in normal(paper)["tags"])  # type: ignore[attr-defined]
    assert [normal(read) for read in read_again("csl", text)] == [normal(paper, tags=tags)] * 2


def test_csl_json_for_other_programs() -> None:
    """Names in parts, dates as parts, types of the specification."""
    paper = Paper(
        doc_id="d", title="T", authors=("van Gogh, Vincent", "The Group", "A, B, Jr."), year=1890, venue="J", volume="1", pages="2-3",
        metadata={"publication_types": ["Journal Article", "Book Chapter"], "issn": "1471-2105", "key": "gogh"},
    )  # fmt: skip
    (item,) = json.loads(write_records("csl", [paper]))
    assert item == {
        "id": "gogh", "type": "chapter", "title": "T", "issued": {"date-parts": [[1890]]}, "container-title": "J", "volume": "1",
        "page": "2-3",
        "author": [{"family": "van Gogh", "given": "Vincent"}, {"literal": "The Group"}, {"literal": "A, B, Jr."}], "ISSN": "1471-2105",
    }  # fmt: skip
    assert json.loads(write_records("csl", [])) == []


@pytest.mark.parametrize("form", ["bibtex", "csl", "ris", "csv"])
@pytest.mark.parametrize(
    "tags", [("[", "]"), ("[]",), ('["a"]',), ("a (b", "c) d"), ("a, b",), ("a, b", "c"), ("(a, b)", "c"), ("1", "2"), ("a", "b")]
)
def test_keywords_that_look_like_lists_survive(form: str, tags: tuple[str, ...]) -> None:
    """Brackets that one keyword opens and another closes, and a keyword that looks like a list of a program."""
    (read,) = read_again(form, write_records(form, [Paper(doc_id="d", title="T", tags=tags)]))
    assert read.tags == tags


def test_issn_and_types_survive_ris() -> None:
    """`SN` holds ISBN and ISSN, `M3` the types."""
    metadata = {
        "TY": "JOUR",
        "ID": "d",
        "issn": "1471-2105",
        "other_issns": ["0027-8424"],
        "publication_types": ["Journal Article", "Review"],
    }
    paper = Paper(doc_id="d", title="T", venue="J", identifiers=Identifiers(isbn="9783034604796"), metadata=metadata)
    text = write_records("ris", [paper])
    assert re.findall(r"^SN  - (.*)$", text, re.MULTILINE) == ["9783034604796", "1471-2105", "0027-8424"]
    (read,) = read_again("ris", text)
    assert read.identifiers == paper.identifiers
    assert read.metadata == metadata
    assert write_records("ris", [read]) == text


def test_numbers_that_are_no_issn_survive_ris() -> None:
    """What `SN` holds besides stays, and does not multiply."""
    text = "TY  - JOUR\nID  - d\nTI  - T\nSN  - 1471-2105\nSN  - 1471-2105 in print, see 7\nSN  - X12\nER  - \n\n"
    (read,) = read_again("ris", text)
    assert (read.metadata["issn"], read.metadata["SN"]) == ("1471-2105", ["1471-2105 in print, see 7", "X12"])
    again = write_records("ris", [read])
    assert sorted(again.splitlines()) == sorted(text.splitlines())


BOOKS = {
    "bibtex": (
        "@incollection{a, author={Dyer, C.}, title={Peasants}, booktitle={Campagnes}, editor={Mornet, E. and Second, Ed}, "
        "publisher={Sorbonne}, address={Paris}, year=1995, edition={2}, series={Studies}}\n"
        "@phdthesis{b, author={Kind, A.}, title={Wax}, school={Tartu}, year=2019}\n"
    ),
    "ris": (
        "TY  - CHAP\nAU  - Dyer, C.\nTI  - Peasants\nT2  - Campagnes\nA2  - Mornet, E.\nA2  - Second, Ed\nPB  - Sorbonne\nCY  - Paris\n"
        "PY  - 1995\nET  - 2\nT3  - Studies\nER  - \n\nTY  - THES\nAU  - Kind, A.\nTI  - Wax\nPB  - Tartu\nPY  - 2019\nER  - \n"
    ),
    "refer": (
        "%0 Book Section\n%A Dyer, C.\n%T Peasants\n%B Campagnes\n%E Mornet, E.\n%E Second, Ed\n%I Sorbonne\n%C Paris\n%D 1995\n%7 2\n"
        "%S Studies\n\n%0 Thesis\n%A Kind, A.\n%T Wax\n%I Tartu\n%D 2019\n"
    ),
    "csl": (
        '[{"type": "chapter", "title": "Peasants", "container-title": "Campagnes", "author": [{"family": "Dyer", "given": "C."}], '
        '"editor": [{"family": "Mornet", "given": "E."}, {"family": "Second", "given": "Ed"}], "publisher": "Sorbonne", '
        '"publisher-place": "Paris", "issued": {"date-parts": [[1995]]}, "edition": "2", "collection-title": "Studies"},\n'
        '{"type": "thesis", "title": "Wax", "author": [{"family": "Kind", "given": "A."}], "publisher": "Tartu", '
        '"issued": {"date-parts": [[2019]]}}]'
    ),
    "csv": (
        '"Item Type","Publication Year","Author","Title","Publication Title","Publisher","Place","Editor","Edition","Series"\n'
        '"bookSection","1995","Dyer, C.","Peasants","Campagnes","Sorbonne","Paris","Mornet, E.; Second, Ed","2","Studies"\n'
        '"thesis","2019","Kind, A.","Wax","","Tartu","","","",""\n'
    ),
}
"""A chapter and a thesis as each format has them; the table is Zotero's."""


@pytest.mark.parametrize("form", BOOKS)
def test_books_keep_type_publisher_and_editors_in_every_bibliography(form: str) -> None:
    chapter, thesis = read_again(form, BOOKS[form])
    bibtex = {one.entry_type: one.fields_dict for one in bibtexparser.parse_string(write_records("bibtex", [chapter, thesis])).entries}
    wanted = {"booktitle": "Campagnes", "editor": "Mornet, E. and Second, Ed", "publisher": "Sorbonne", "edition": "2", "series": "Studies"}
    assert {name: bibtex["incollection"][name].value for name in wanted} == wanted
    assert (bibtex["incollection"]["address"].value, bibtex["phdthesis"]["school"].value) == ("Paris", "Tartu")
    first, second = (block.splitlines() for block in write_records("ris", [chapter, thesis]).strip().split("\n\n"))
    expected = ["A2  - Mornet, E.", "A2  - Second, Ed", "CY  - Paris", "ET  - 2", "PB  - Sorbonne", "T3  - Studies", "TY  - CHAP"]
    assert sorted(line for line in first if line[:2] in ("A2", "CY", "ET", "PB", "T3", "TY")) == expected
    assert {"TY  - THES", "PB  - Tartu"} < set(second)
    items = json.loads(write_records("csl", [chapter, thesis]))
    assert [(item["type"], item["publisher"]) for item in items] == [("chapter", "Sorbonne"), ("thesis", "Tartu")]
    assert [name["family"] for name in items[0]["editor"]] == ["Mornet", "Second"]
    assert (items[0]["publisher-place"], items[0]["edition"], items[0]["collection-title"]) == ("Paris", "2", "Studies")


def test_an_article_of_proceedings_stays_an_article_in_bibtex_and_ris() -> None:
    paper = Paper(doc_id="d", title="T", venue="J", metadata={"publication_types": ["Article", "Proceedings Paper"]})
    assert write_records("bibtex", [paper]).startswith("@article{")
    assert write_records("ris", [paper]).startswith("TY  - JOUR")


@pytest.mark.parametrize(
    ("metadata", "ris", "bib", "csl"),
    [
        ({"type": "article-newspaper"}, "NEWS", "article", "article-newspaper"),
        ({"publication_types": ["Journal Article", "Editorial"]}, "JOUR", "article", "article-journal"),
        ({"TY": "EDBOOK"}, "EDBOOK", "book", "book"),
        ({"TY": "ECHAP"}, "ECHAP", "incollection", "chapter"),
    ],
)
def test_types_are_those_of_the_format(metadata: dict[str, JsonValue], ris: str, bib: str, csl: str) -> None:
    paper = Paper(doc_id="d", title="T", venue="V", metadata=metadata)
    assert write_records("ris", [paper]).startswith(f"TY  - {ris}\n")
    assert write_records("bibtex", [paper]).startswith(f"@{bib}{{")
    assert json.loads(write_records("csl", [paper]))[0]["type"] == csl


def test_bibtex_keys(tmp_path: Path) -> None:
    """The record's own key is kept, a generated one has author, year and title; no key comes twice."""
    own = Paper(doc_id="", title="T", metadata={"key": "Own:2019", "entry_type": "book", "publisher": "P & Sons"})
    record = Paper(doc_id="", title="The Größe of things", authors=("van Müller, J.",), year=2020)
    text = write_records("bibtex", [own, own, record, Paper(doc_id="")])
    assert re.findall(r"@(\w+)\{([^,\s]*)", text) == [
        ("book", "Own:2019"),
        ("book", "Own:2019-2"),
        ("misc", "muller2020groe"),
        ("misc", "record"),
    ]
    (tmp_path / "x.bib").write_text(text)
    first = next(bibtex.read(tmp_path / "x.bib", ReadOptions()))
    assert isinstance(first, Entry)
    assert first.record.metadata == own.metadata


def test_metadata_that_ris_has_tags_for_survives() -> None:
    """Notes and other tags read from RIS are written back; the rest of the metadata is not."""
    paper = Paper(doc_id="d", title="T", metadata={"TY": "CHAP", "ID": "7", "N1": ["a", "b"], "PB": "P", "other": "x"})
    (read,) = read_again("ris", write_records("ris", [paper]))
    assert read.metadata == {"TY": "CHAP", "ID": "7", "N1": ["a", "b"], "PB": "P"}


@pytest.mark.parametrize(
    ("metadata", "lines"),
    [
        ({"included": "1"}, ["ASReview_relevant"]),
        ({"Label Included": 0, "notes": "by KT"}, ["ASReview_irrelevant", "by KT"]),
        ({"included": "1", "N1": ["mine", "ASReview_relevant"]}, ["mine", "ASReview_relevant"]),
        ({"included": "1", "N1": "ASReview_irrelevant"}, ["ASReview_relevant", "ASReview_irrelevant"]),
        ({"label": "liver"}, []),
    ],
)
def test_the_label_of_a_table_and_its_notes_are_notes_in_ris(metadata: dict[str, JsonValue], lines: list[str]) -> None:
    text = write_records("ris", [Paper(doc_id="d", title="T", metadata=metadata)])
    assert re.findall(r"^N1  - (.*)$", text, re.MULTILINE) == lines


@pytest.mark.parametrize("form", ["bibtex", "csl"])
def test_notes_of_ris_are_notes_elsewhere(form: str) -> None:
    (read,) = read_again(form, write_records(form, [Paper(doc_id="d", title="T", metadata={"N1": ["ASReview_relevant", "mine"]})]))
    assert read.metadata["note"] == "ASReview_relevant; mine"


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@x", "\tx", "'=x", "''=x", "'x", "= "])
def test_cells_are_no_formulas(cell: str) -> None:
    """A cell that a spreadsheet would run gets an apostrophe, and reading takes it off again, also without our header."""
    text = write_records("csv", [Paper(doc_id="d", title=cell)])
    row = next(csv.DictReader(io.StringIO(text)))
    assert row["title"][0] not in "=+-@\t"
    assert [read.title for read in read_again("csv", text)] == [cell]


def test_an_edited_csv_still_reads() -> None:
    """With its columns in another order the file is anyone's: known names fill fields."""
    paper = Paper(doc_id="d", title="-T", authors=("A, B", "C"), tags=("x, y",), venue="J", year=2019, mesh=("M, N",))
    rows = list(csv.reader(io.StringIO(write_records("csv", [paper]))))
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows([row[::-1] for row in rows])
    (read,) = read_again("csv", stream.getvalue())
    assert (read.doc_id, read.title, read.authors, read.tags, read.venue) == ("", "-T", ("A, B", "C"), ("x, y",), "J")
    assert isinstance(read, Paper)
    assert read.mesh == ("M, N",)


def test_json_rows_name_their_schema() -> None:
    """Programs can rely on the schema's name, and an empty export is still JSON."""
    assert json.loads(write_records("json", [])) == []
    (row,) = json.loads(write_records("json", [Paper(doc_id="d", title="T", metadata={"x": float("nan")})]))
    assert (row["schema"], row["doc_id"], row["kind"], row["metadata"]) == ("outrider.record/1", "d", "paper", {"x": None})
    assert RECORD.validate_python({name: value for name, value in row.items() if name != "schema"}).title == "T"


@pytest.mark.parametrize(
    ("volume", "issue", "pages", "venue"),
    [
        (None, None, "101-109", "Gut, 2020, 101-109"),
        ("3", None, "101", "Gut, 2020, 3:101"),
        ("3", "2", None, "Gut, 2020, 3(2)"),
        (None, None, None, "Gut, 2020"),
    ],
)
def test_markdown_writes_no_colon_without_a_volume(volume: str | None, issue: str | None, pages: str | None, venue: str) -> None:
    paper = Paper(doc_id="1", title="T", venue="Gut", year=2020, volume=volume, issue=issue, pages=pages)
    assert venue in write_records("markdown", [paper]).split("\n")


def test_markdown_is_for_people() -> None:
    """Title, authors, place, links and abstract; nothing in them is markup."""
    paper = Paper(
        doc_id="d", title="A *b* <script>", authors=("X, Y",), venue="J", year=2019, volume="1", issue="2", pages="3-4",
        identifiers=Identifiers(doi="10.1000/x"), abstract="One\n# two", url="https://e.org",
    )  # fmt: skip
    assert write_records("markdown", [paper]) == (
        "## 1. A \\*b\\* \\<script\\>\n\nX, Y. J, 2019, 1(2):3-4\n\n<https://doi.org/10.1000/x> · <https://e.org>\n\nOne \\# two\n\n"
    )


def test_records_are_written_one_at_a_time() -> None:
    """Each record is on the stream before the next one is requested."""
    for form in FORMATS:
        stream = io.StringIO(newline="")
        out = make_writer(form, stream)
        out.begin()
        before = stream.tell()
        out.record(Paper(doc_id="d", title="T"))
        assert stream.tell() > before, form
        out.end()


def test_an_unknown_format_is_refused_by_name() -> None:
    """The message names the nearest known one."""
    with pytest.raises(BadRequest, match="did you mean 'bibtex'"):
        make_writer("bibtx", io.StringIO())


@pytest.mark.parametrize("form", ["ris", "bibtex", "csl"])
def test_a_record_without_title_and_abstract_can_be_read_again(form: str, tmp_path: Path) -> None:
    """What it has otherwise becomes a note; its fields are not what they were, but it is not lost."""
    suffix = {"ris": ".ris", "bibtex": ".bib", "csl": ".json"}[form]
    records = [Paper(doc_id="a", text="A body only."), Paper(doc_id="b", metadata={"odd col": 3.5, "N2x": "words"})]
    path = tmp_path / f"out{suffix}"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = make_writer(form, stream)
        writer.begin()
        for record in records:
            writer.record(record)
        writer.end()
    read = {"ris": read_ris, "bibtex": bibtex.read, "csl": json_lines.read}[form](path, ReadOptions())
    assert [isinstance(entry, Entry) for entry in read] == [True, True]


@pytest.mark.parametrize("form", ["ris", "bibtex", "csl"])
def test_a_work_that_is_known_by_a_number_alone_can_be_read_again(form: str) -> None:
    """As works of a citation chase are, of which only the links are known."""
    numbers = [Identifiers(openalex="W2020123164"), Identifiers(arxiv="2101.00001"), Identifiers(pmid="31452104")]
    metadata: dict[str, JsonValue] = {"record": 2}
    text = write_records(form, [Paper(doc_id=str(place), identifiers=ids, metadata=metadata) for place, ids in enumerate(numbers)])
    assert [record.identifiers for record in read_again(form, text)] == numbers
    assert "record: 2" not in text  # no note is needed, so there is none
