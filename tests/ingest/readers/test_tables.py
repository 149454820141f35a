"""CSV, TSV and XLSX."""

from __future__ import annotations

import csv
import datetime as dt
import io
import re
import unicodedata
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl import Workbook

from outrider.ingest.column_mapping import FIELD_OF, NAMES
from outrider.ingest.entry import BadEntry, Entry, Parsed, ReadOptions
from outrider.ingest.export.csv_json import CsvWriter
from outrider.ingest.readers import tables
from outrider.ingest.readers.damaged_quotes import Lines, iterate_rows
from outrider.ingest.translated_columns import TRANSLATIONS, fold_accents, translate_columns
from outrider.state.errors import UnreadableFile
from outrider.state.records import Paper, Repository
from support.shared_data import DATA

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"no shared data at {DATA}")


def entries(tmp_path: Path, text: str | bytes, name: str = "some.csv", **columns: str) -> list[Parsed]:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(tables.read(path, ReadOptions(columns=columns)))


def paper(parsed: Parsed) -> Paper:
    assert isinstance(parsed, Entry)
    assert isinstance(parsed.record, Paper)
    return parsed.record


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", "%"])
@pytest.mark.parametrize(
    ("encoding", "encoding_note"), [("utf-8", None), ("utf-8-sig", None), ("utf-16", "utf-16"), ("cp1252", "cp1252 (guessed)")]
)
def test_separators_and_encodings(tmp_path: Path, separator: str, encoding: str, encoding_note: str | None) -> None:
    """The separator and the encoding are found; quoted cells may hold both separators and line ends."""
    text = 'id;Title ;AUTHORS;Publication Year;some column\n1;"Köln; a, b\n%|";"Müller, J; Curie, M";2019/08/01;x\n'
    lines = re.sub(r";(?! )", separator, text)
    (only,) = entries(tmp_path, lines.encode(encoding))
    assert paper(only).title.startswith("Köln")
    assert paper(only).authors == ("Müller, J", "Curie, M")
    expected = {"id": "1", "Publication Year": "2019/08/01", "some column": "x"} | ({"encoding": encoding_note} if encoding_note else {})
    assert (paper(only).year, paper(only).metadata) == (2019, expected)
    assert isinstance(only, Entry)
    assert only.own_id == "1"


def test_every_known_name(tmp_path: Path) -> None:
    """The names of the documentation, each into its field; an `NA` of R's is nothing."""
    header = "id,title,abstract,text,authors,journal,year,volume,issue,pages,doi,pmid,url,keywords,mesh,language"
    (only,) = entries(tmp_path, f'{header}\n7,T,A,B,"X, Y; Z",J,2019,1,2,3-4,10.1000/x,12,https://e.org,"a; b","Pain, Acute; Child",en\n')
    read = paper(only)
    assert (read.title, read.abstract, read.text, read.authors, read.venue, read.year) == ("T", "A", "B", ("X, Y", "Z"), "J", 2019)
    assert (read.volume, read.issue, read.pages, read.url, read.language) == ("1", "2", "3-4", "https://e.org", "en")
    assert (read.tags, read.mesh) == (("a", "b"), ("Pain, Acute", "Child"))
    assert (read.identifiers.doi, read.identifiers.pmid, read.metadata) == ("10.1000/x", "12", {"id": "7"})
    (missing,) = entries(tmp_path, "title,volume,note\nT,NA,NA\n")
    assert (paper(missing).volume, paper(missing).metadata) == (None, {"note": "NA"})


TRANSLATED = {
    "German": "Titel;Zusammenfassung;Autoren;Jahr;Zeitschrift;Band;Heft;Seiten;Schlagwörter",
    "French": "Titre;Résumé;Auteurs;Année;Revue;Volume;Numéro;Pages;Mots-clés",
    "Spanish": "Título;Resumen;Autores;Año;Revista;Volumen;Número;Páginas;Palabras clave",
    "Portuguese": "Título;Resumo;Autores;Ano;Revista;Volume;Número;Páginas;Palavras-chave",
    "Italian": "Titolo;Riassunto;Autori;Anno;Rivista;Volume;Numero;Pagine;Parole chiave",
    "Chinese": "题名;摘要;作者;年份;期刊;卷;期;页码;关键词",
    "Japanese": "タイトル;要旨;著者;年;雑誌;巻;号;ページ;キーワード",
}


@pytest.mark.parametrize("form", ["NFC", "NFD", "upper"])
@pytest.mark.parametrize("language", TRANSLATED)
def test_headers_in_other_languages(tmp_path: Path, language: str, form: str) -> None:
    header = TRANSLATED[language]
    header = header.upper() if form == "upper" else unicodedata.normalize(form, header)  # type: ignore[arg-type]
    (only,) = entries(tmp_path, f'{header}\nOtters;They swim.;"Müller, J; Curie, M";2019;Fauna;3;4;5-9;"sea; fur"\n')
    read = paper(only)
    assert (read.title, read.abstract, read.authors, read.year, read.venue) == (
        "Otters",
        "They swim.",
        ("Müller, J", "Curie, M"),
        2019,
        "Fauna",
    )
    assert (read.volume, read.issue, read.pages, read.tags, read.metadata) == ("3", "4", "5-9", ("sea", "fur"), {})


def test_headers_in_other_languages_in_a_workbook_and_in_text_files(tmp_path: Path) -> None:
    book = Workbook()
    for row in (["Ausfuhr vom 3.1.2026"], ["Titel", "Autoren", "Jahr", "Seiten"], ["Otters", "Müller, J", 2019, "NA"]):
        book.active.append(row)
    book.save(tmp_path / "some.xlsx")
    (only,) = tables.read(tmp_path / "some.xlsx", ReadOptions())
    assert (paper(only).title, paper(only).year, paper(only).pages) == ("Otters", 2019, None)
    assert tables.is_table("Titel;Autoren;Jahr\nOtters;Müller, J;2019\n")
    assert not tables.is_table("Titel;Band;Heft\n")


@pytest.mark.parametrize("order", [1, -1])
def test_an_english_header_wins_over_another_one_also_where_it_is_empty(tmp_path: Path, order: int) -> None:
    rows = (
        ("Title", "Journal", "Revue", "Auteur", "Année"),
        ("Otters", "Fauna", "by AB", "Curie, M", "2019"),
        ("Seals", "", "by CD", "", ""),
    )
    first, second = map(paper, entries(tmp_path, "\n".join(";".join(row[::order]) for row in rows)))
    assert (first.venue, first.authors, first.year, first.metadata) == ("Fauna", ("Curie, M",), 2019, {"Revue": "by AB"})
    assert (second.venue, second.metadata) == (None, {"Revue": "by CD"})


def test_the_header_decides_what_a_column_is_and_no_row(tmp_path: Path) -> None:
    """A row without other values keeps its title; one without an English title or with one author's column has no other."""
    (only,) = entries(tmp_path, "Titre;DOI;Année\nLoutres;;\n")
    assert (paper(only).title, paper(only).metadata) == ("Loutres", {})
    (only,) = entries(tmp_path, "Title;Titel;Year;Jahr;Autoren\n;Otter;;2019;Curie, M\n")
    assert (paper(only).title, paper(only).year, paper(only).metadata) == ("", None, {"Titel": "Otter", "Jahr": "2019"})


def test_mapped_names_are_found_without_accents(tmp_path: Path) -> None:
    for header, name in (("Título;Nota", "titulo"), (unicodedata.normalize("NFD", "Título;Nota"), "Título")):
        (only,) = entries(tmp_path, f"{header}\nNutrias;N\n", abstract=name)
        assert paper(only).abstract == "Nutrias"


def test_long_cells_are_no_names() -> None:
    """The first lines of a damaged file: nothing of them is kept in memory."""
    before = fold_accents.cache_info().misses
    assert not translate_columns(["é" * 1_000_000, "Titel" + " " * 100])
    assert fold_accents.cache_info().misses == before


def test_names_with_other_meanings_count_only_beside_their_language(tmp_path: Path) -> None:
    """A titre of antibodies, a frequency band; a person's resume."""
    (only,) = entries(tmp_path, "title;titre;band;anno\nOtters;1:64;UHF;x\n")
    assert paper(only).metadata == {"titre": "1:64", "band": "UHF", "anno": "x"}
    (only,) = entries(tmp_path, "title;resume;year\nOtters;CV;2019\n")
    assert (paper(only).abstract, paper(only).metadata) == ("", {"resume": "CV"})
    with pytest.raises(UnreadableFile, match="none of its columns is known"):
        entries(tmp_path, "sample;titre\n1;1:64\n")


def test_no_name_in_another_language_changes_an_english_one() -> None:
    names = {fold_accents(name): field for fields in TRANSLATIONS.values() for field, names in fields.items() for name in names}
    assert not names.keys() & FIELD_OF.keys()
    assert {*names.values()} <= NAMES.keys()
    fields_of = {(fold_accents(name), field) for fields in TRANSLATIONS.values() for field, some in fields.items() for name in some}
    assert len(fields_of) == len(names)  # no name is two fields


def test_a_mapped_column_wins_over_a_translated_one(tmp_path: Path) -> None:
    (only,) = entries(tmp_path, "Titel;Thema;Jahr\nDr.;Otters;2019\n", title="Thema")
    assert (paper(only).title, paper(only).metadata) == ("Otters", {"Titel": "Dr."})


def test_mapped_columns(tmp_path: Path) -> None:
    """`--map title=Heading` goes before what has the name itself, which then stays in the metadata."""
    (only,) = entries(tmp_path, "Heading,title,Nr\nH,T,5\n", title="Heading", id="nr")
    assert (paper(only).title, paper(only).metadata) == ("H", {"id": "5", "title": "T"})
    assert isinstance(only, Entry)
    assert only.own_id == "5"


def test_a_mapped_column_that_is_not_there(tmp_path: Path) -> None:
    """The message names the requested column and the existing ones."""
    with pytest.raises(UnreadableFile, match=r"no column 'Heading' \(for title\); the columns are: title, b"):
        entries(tmp_path, "title,b\nT,5\n", title="Heading")


def test_a_table_without_a_known_column_is_refused(tmp_path: Path) -> None:
    """A table of judgements is no bibliography; the message explains how to name its columns."""
    with pytest.raises(UnreadableFile, match=r"none of its columns is known \(query, doc, relevance\); name them with --map"):
        entries(tmp_path, "query\tdoc\trelevance\n1\t2\t3\n", "qrels.tsv")


def test_ragged_rows(tmp_path: Path) -> None:
    """Cells beyond the header are kept by their place, missing ones are missing, blank rows are nothing."""
    long, short, last = entries(tmp_path, "title,abstract,,abstract\nA,B,C,D,E,\n\n  \nF\n,,,\n , ,\n,x,,\n")
    assert paper(long).metadata == {"column_3": "C", "abstract_4": "D", "column_5": "E"}
    assert (paper(short).title, paper(short).abstract) == ("F", "")
    assert paper(last).abstract == "x"


def test_an_empty_row_is_reported_with_its_line(tmp_path: Path) -> None:
    """Neither title nor text nor anything else: no record, and the line is named."""
    first, empty = entries(tmp_path, 'id,title,abstract\n1,"a\nb",\n2,,\n')
    assert paper(first).title == "a b"
    assert isinstance(empty, BadEntry)
    assert empty.where == "line 4"


def test_a_quote_that_is_never_closed(tmp_path: Path) -> None:
    """It costs its row, which is reported by its line; the rows before and after it are read."""
    assert outline(entries(tmp_path, 'title,abstract\nA,B\nC,"D\nE,F\nG,H\n')) == ["A", "line 3", "E", "G"]


def outline(read: list[Parsed]) -> list[str]:
    """Titles of records, and places of what was not read."""
    return [parsed.where if isinstance(parsed, BadEntry) else parsed.record.title for parsed in read]


ROWS = ['1,First,"Smith, J",2019,10.1000/a', '2,"Second, of two",Ng,2020,10.1000/b', "3,Third,Lee,2021,10.1000/c",
        '4,"Fourth",Kim,2018,10.1000/d', '5,"Fifth","Abe, K",2017,10.1000/e']  # fmt: skip
HEADER = "id,title,authors,year,doi"


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        # the quote swallows rows up to the next one, and the row has as many cells as the header all the same
        ((1, '2,"Second of two,Ng,2020,10.1000/b'), ["First", "line 3", "Third", "Fourth", "Fifth"]),
        ((2, '3,"Third,Lee,2021,10.1000/c'), ["First", "Second, of two", "line 4", "Fourth", "Fifth"]),
        ((2, '3,Third,"Lee,2021,10.1000/c'), ["First", "Second, of two", "line 4", "Fourth", "Fifth"]),
        ((2, '3,Third,Lee,2021,"10.1000/c'), ["First", "Second, of two", "line 4", "Fourth", "Fifth"]),
        # to the end of the file
        ((4, '5,"Fifth,Abe,2017,10.1000/e'), ["First", "Second, of two", "Third", "Fourth", "line 6"]),
        # the cell had two lines
        ((2, '3,"Third\nin two lines,Lee,2021,10.1000/c'), ["First", "Second, of two", "lines 4-5", "Fourth", "Fifth"]),
        # a quote of the next row closes it as if it were meant
        ((2, '3,"Third,Lee,2021,10.1000/c\n9,Of 5",Ito,2011,10.1000/f'),
         ["First", "Second, of two", "line 4", "Of 5\"", "Fourth", "Fifth"]),
        # the quote that closes stands alone
        ((2, '3,Third", of some,Lee,2021,10.1000/c'), ["First", "Second, of two", "line 4", "Fourth", "Fifth"]),
        # two in a row
        ((2, '3,"Third,Lee,2021,10.1000/c\n6,"Sixth,Ito,2011,10.1000/f'),
         ["First", "Second, of two", "line 4", "line 5", "Fourth", "Fifth"]),
        # nothing is damaged
        ((2, '3,"Third ""of"" two",Lee,2021,10.1000/c'), ["First", "Second, of two", 'Third "of" two', "Fourth", "Fifth"]),
        ((2, '3,"Third\n1,2,3,2019,10.1000/x\nin lines",Lee,2021,10.1000/c'),
         ["First", "Second, of two", "Third 1,2,3,2019,10.1000/x in lines", "Fourth", "Fifth"]),
        ((2, '3,"Third of 5" disk",Lee,2021,10.1000/c'), ["First", "Second, of two", 'Third of 5 disk"', "Fourth", "Fifth"]),
        ((2, '3,"Third" of a series,Lee,2021,10.1000/c'), ["First", "Second, of two", "Third of a series", "Fourth", "Fifth"]),
        ((2, '3,"Third \\"of\\", five",Lee,2021,10.1000/c'), ["First", "Second, of two", 'Third "of", five', "Fourth", "Fifth"]),
        ((2, '3,5" disks,Lee,2021,10.1000/c'), ["First", "Second, of two", '5" disks', "Fourth", "Fifth"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_damaged_quote_costs_its_row_only(tmp_path: Path, damage: tuple[int, str], expected: list[str], end: str) -> None:
    place, row = damage
    text = "\n".join([HEADER, *ROWS[:place], row, *ROWS[place + 1 :], ""])
    assert outline(entries(tmp_path, text.replace("\n", end))) == expected


def test_every_cell_quoted_and_one_quote_missing(tmp_path: Path) -> None:
    """Whichever of the quotes is missing: no other row is lost, and the row is read or reported."""
    rows = [f'"{n}","Title {n}, a study","Author {n}","{2000 + n}"' for n in range(1, 6)]
    for place in [match.start() for match in re.finditer('"', rows[2])]:
        text = "\n".join(['"id","title","authors","year"', *rows[:2], rows[2][:place] + rows[2][place + 1 :], *rows[3:], ""])
        read = outline(entries(tmp_path, text))
        assert [*read[:2], *read[-2:]] == [f"Title {n}, a study" for n in (1, 2, 4, 5)], text
        assert read[2:-2] in (["line 4"], ["Title 3, a study"]), text


def test_many_rows_swallowed_to_the_end_are_read(tmp_path: Path) -> None:
    """Without any other quote in the file."""
    rows = [f"{n},Title {n},{2000 + n % 20}" for n in range(1, 2_001)]
    rows[10] = '11,"Title 11,2011'
    read = outline(entries(tmp_path, "\n".join(["id,title,year", *rows, ""])))
    assert (len(read), read[10]) == (2_000, "line 12")


@given(st.lists(st.lists(st.text('ab,"\n 1', max_size=8), min_size=3, max_size=3), min_size=1, max_size=6))
def test_what_a_writer_quotes_is_never_called_damaged(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]) -> None:
    """Any cells, as Python's writer writes them, come out whole, unless a row's lines are rows themselves."""
    stream = io.StringIO(newline="")
    csv.writer(stream, lineterminator="\n").writerows([["id", "title", "abstract"], *rows])
    lines = Lines(io.StringIO(stream.getvalue(), newline=""))
    header = next(csv.reader(lines))
    read = list(iterate_rows(lines, header, ","))
    assert [row[1] for row in read if isinstance(row, tuple)] == rows


def test_our_own_export_with_an_open_quote(tmp_path: Path) -> None:
    text = export([Paper(doc_id=f"d{n}", title=f"Title, {n}", year=2000 + n, abstract="one\ntwo") for n in range(5)])
    whole = entries(tmp_path, text)
    assert outline(whole) == [f"Title, {n}" for n in range(5)]
    damaged = entries(tmp_path, text.replace('"Title, 2"', '"Title, 2'))
    assert [*outline(damaged)[:2], *outline(damaged)[-2:]] == ["Title, 0", "Title, 1", "Title, 3", "Title, 4"]
    assert all(isinstance(parsed, BadEntry) for parsed in damaged[2:-2])


def export(records: list[Paper]) -> str:
    stream = io.StringIO(newline="")
    writer = CsvWriter(stream)
    writer.begin()
    for record in records:
        writer.record(record)
    return stream.getvalue()


def test_huge_fields_and_null_bytes(tmp_path: Path) -> None:
    """A cell beyond the csv module's usual limit is read; a stray null byte is dropped."""
    (only,) = entries(tmp_path, f"title,text\na\x00b,{'x' * 300_000}\n")
    assert (paper(only).title, len(paper(only).text)) == ("ab", 300_000)


def test_a_repository_row(tmp_path: Path) -> None:
    """`kind` picks the class; its own fields are filled, others stay."""
    (only,) = entries(tmp_path, "kind,title,stars,archived,license,volume\nRepository,httpx,1200,True,BSD,3\n")
    assert isinstance(only, Entry)
    assert isinstance(only.record, Repository)
    assert (only.record.stars, only.record.archived, only.record.licence, only.record.metadata) == (1200, True, "BSD", {"volume": "3"})


def test_an_unknown_kind_stays(tmp_path: Path) -> None:
    """It selects no record class and stays in the metadata."""
    assert paper(entries(tmp_path, "kind,title\nthesis,T\n")[0]).metadata == {"kind": "thesis"}


def test_the_issue_number_of_reference_managers(tmp_path: Path) -> None:
    """`number` is the issue if there is a journal or volume, else a number."""
    assert paper(entries(tmp_path, "title,journal,number\nT,J,4\n")[0]).issue == "4"
    assert paper(entries(tmp_path, "title,number\nT,4\n")[0]).metadata == {"number": "4"}


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("sep=;\r\nTitle;Abstract\r\nA, b;c\r\n", "A, b"),
        ("sep=\t\nTitle, short\tTitle\tYear\nx\tA, b\t3\n", "A, b"),
        ("\"About the data: Exported on May 4. Criteria: 'x' in title, text\"\nRank,DOI,Title\n1,10.1000/x,A\n", "A"),
        ("Session results\nNo. 3\n\nTitle,Author Names\nA,Berg A.\n", "A"),
        ("id,title\nYear,Title\n", "Title"),
    ],
)
def test_lines_above_the_header(tmp_path: Path, text: str, title: str) -> None:
    """Excel writes the separator there, databases say when and what they exported; a header with a known column is at the top."""
    (only,) = entries(tmp_path, text)
    assert paper(only).title == title


def test_lines_above_the_header_of_a_sheet(tmp_path: Path) -> None:
    path = workbook(tmp_path, {"one": [["About the data: exported on May 4"], [], ["Rank", "Title", "DOI"], [1, "A", "10.1000/x"]]})
    (only,) = tables.read(path, ReadOptions())
    assert (paper(only).title, paper(only).identifiers.doi) == ("A", "10.1000/x")


def test_repeated_and_nameless_columns(tmp_path: Path) -> None:
    """Each column keeps its values."""
    assert paper(entries(tmp_path, "title,note,note,\nT,a,b,c\n")[0]).metadata == {"note": "a", "note_3": "b", "column_4": "c"}


@pytest.mark.parametrize("content", [b"", b"\n\n", b"title\n", b"PK\x03\x04\x00\x00\x00\xff" * 40])
def test_no_table_in_it(tmp_path: Path, content: bytes) -> None:
    """An empty file, a header alone and a binary file are refused."""
    with pytest.raises(UnreadableFile):
        entries(tmp_path, content)


def workbook(tmp_path: Path, sheets: dict[str, list[list[object]]]) -> Path:
    book = Workbook()
    book.remove(book.active)  # type: ignore[arg-type]
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    path = tmp_path / "some.xlsx"
    book.save(path)
    return path


def test_a_workbook(tmp_path: Path) -> None:
    """Cells of any type; each sheet has its own header; ids of different sheets stay separate; others are reported."""
    rows = [["id", "Title", "Year", "Seen", "Authors"], [1, "T", 2019.0, dt.datetime(2020, 1, 2, tzinfo=None), "A; B"], [], [2, None, "NA"]]
    path = workbook(tmp_path, {"one": rows, "two": [[], ["id", "title"], [1, "U"]], "three": [["x"], ["y"]], "four": []})
    first, empty, second, unknown = tables.read(path, ReadOptions())
    assert (paper(first).title, paper(first).year, paper(first).authors) == ("T", 2019, ("A", "B"))
    assert paper(first).metadata == {"id": 1, "Seen": "2020-01-02"}
    assert isinstance(empty, BadEntry)
    assert empty.where == "sheet 'one', row 4"
    assert isinstance(first, Entry)
    assert isinstance(second, Entry)
    assert (first.own_id, second.own_id) == ("1", "two!1")
    assert isinstance(unknown, BadEntry)
    assert "three" in unknown.why


def test_an_archive_bomb_is_refused(tmp_path: Path) -> None:
    """The sizes in the archive's directory are summed before anything is unpacked."""
    path = workbook(tmp_path, {"one": [["title"], ["T"]]})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/media/bomb", b"\0" * 5_000_000)
    with pytest.raises(UnreadableFile, match="when unpacked, more than the limit"):
        list(tables.read(path, ReadOptions(max_bytes=1_000_000)))


def test_entities_in_a_workbook_are_not_expanded(tmp_path: Path) -> None:
    """A sheet that declares entities is refused."""
    path = workbook(tmp_path, {"one": [["title"], ["T"]]})
    packed = io.BytesIO(path.read_bytes())
    with zipfile.ZipFile(packed) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "xl/worksheets/sheet1.xml":
                data = b'<!DOCTYPE x [<!ENTITY a "aaaa">]>' + data.replace(b"</sheetData>", b"&a;</sheetData>")
            new.writestr(name, data)
    with pytest.raises(UnreadableFile):
        list(tables.read(path, ReadOptions()))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 broken", b"\xd0\xcf\x11\xe0old", b"title\nT\n"])
def test_no_workbook(tmp_path: Path, content: bytes) -> None:
    """An old .xls, a broken archive, a CSV with the wrong name: refused, each with its reason."""
    with pytest.raises(UnreadableFile):
        entries(tmp_path, content, "some.xlsx")


@needs_data
@pytest.mark.parametrize(
    ("name", "records"),
    [
        ("dedup/asysd_diabetes.csv", 1845), ("dedup/dblp_acm/acm.csv", 2294), ("dedup/cora/cora.csv", 1295),
        ("reviews/ADHD.csv", 851), ("reviews/Antihistamines.csv", 310), ("reviews/Kitchenham_2010.csv", 1704),
        ("reviews/NSAIDS.csv", 393), ("reviews/Triptans.csv", 671),
        ("bibliographies/asreview_demo/embase_newpage.csv", 6), ("bibliographies/asreview_demo/generic_tab.tab", 2),
        ("bibliographies/asreview_demo/generic_semicolon.csv", 2), ("bibliographies/asreview_demo/record_id.csv", 10),
    ],
)  # fmt: skip
def test_real_tables_give_all_their_rows(name: str, records: int) -> None:
    """Every row of a real export is a record with a title."""
    read = list(tables.read(DATA / name, ReadOptions()))
    assert len(read) == records
    assert all(isinstance(parsed, Entry) and parsed.record.title for parsed in read)


@needs_data
def test_every_table_of_a_reference_tool_has_records() -> None:
    """All CSV, TSV and TAB files in their dialects: no row is lost, and only rows without them in the file lack title and abstract."""
    for path in sorted(path for path in (DATA / "bibliographies").rglob("*.[ct]*") if path.suffix in (".csv", ".tsv", ".tab")):
        read = list(tables.read(path, ReadOptions()))
        assert read, path.name
        assert all(isinstance(parsed, Entry) for parsed in read), path.name
