from __future__ import annotations

import inspect
import time
from pathlib import Path

import pytest

from outrider.ingest.entry import ReadOptions
from outrider.ingest.readers.select_reader import BY_CONTENT, BY_ROOT, BY_SUFFIX, TAGGED, FileReader, NoReader, select_reader
from outrider.state.errors import UnreadableFile


def choose_reader(path: Path, content: bytes = b"") -> str:
    path.write_bytes(content)
    reader = select_reader(path)
    return reader.name if isinstance(reader, FileReader) else reader.reason


@pytest.mark.parametrize(
    ("name", "reader"),
    [
        ("a.pdf", "pdf"), ("A.PDF", "pdf"), ("a.bib", "bibtex"), ("a.ris", "ris"), ("a.csv", "tables"), ("a.tab", "tables"),
        ("a.xlsx", "tables"), ("a.json", "json_lines"), ("a.v2.jsonl.gz", "json_lines"), ("a.JSON.GZ", "json_lines"), ("a.md", "markdown"),
        ("a.docx", "docx"), ("A.EPUB", "epub"), ("a.ipynb", "notebook"), ("a.odt", "no reader for .odt; save it as .docx or PDF"),
        ("a.mobi", "no reader for .mobi; convert it to EPUB or PDF"),
        ("a.htm", "html"), ("a.rst", "plain_text"), ("a.txt", "plain_text"),
        ("a.vec", "no reader for .vec"), ("a.png", "no reader for .png"), ("README", "no reader for a file without a suffix"),
        ("a.csv.gz", "no reader for .gz; unpack it first"), ("a.nbib", "medline"), ("a.ciw", "web_of_science"),
        ("a.isi", "web_of_science"), ("a.enw", "endnote_refer"), ("a.ovd", "ovid"),
        ("a.mods", "mods"), ("CITATION.cff", "citation_file"), ("a.enl", "no reader for .enl; export it from EndNote as XML"),
    ],
)  # fmt: skip
def test_a_suffix_chooses_the_reader(tmp_path: Path, name: str, reader: str) -> None:
    """Case does not matter; what no reader takes is passed over, with what to do where that is known."""
    assert choose_reader(tmp_path / name) == reader


@pytest.mark.parametrize(
    ("xml", "reader"),
    [
        (b"<article/>", "jats"),
        (b'<?xml version="1.0"?><!DOCTYPE article PUBLIC "-//NLM//DTD" "a.dtd"><!-- <x> --><article/>', "jats"),
        (b'<j:article xmlns:j="http://jats.nlm.nih.gov"/>', "jats"),
        (b"<PubmedArticleSet></PubmedArticleSet>", "pubmed"),
        (b"<xml><records/></xml>", "endnote"),
        (b"<PubmedBookArticle/>", "pubmed"),
        (b"<modsCollection xmlns='http://www.loc.gov/mods/v3'/>", "mods"),
        (b"<collection/>", "no reader for XML with the root element <collection>: MARCXML; export MODS or RIS"),
        (b"<TEI/>", "no reader for XML with the root element <TEI>"),
        ('<?xml version="1.0" encoding="utf-16"?><article/>'.encode("utf-16"), "jats"),
    ],
)
def test_xml_is_known_by_its_root(tmp_path: Path, xml: bytes, reader: str) -> None:
    """The suffix does not matter; comments, the document type and prefixes do not mislead."""
    assert choose_reader(tmp_path / "a.xml", xml) == reader


@pytest.mark.parametrize(
    "xml",
    [b"", b"no xml", b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>'],
)
def test_xml_that_cannot_be_looked_into_is_unreadable(tmp_path: Path, xml: bytes) -> None:
    """Broken or hostile before the root: the file fails, with its name."""
    with pytest.raises(UnreadableFile, match=r"a\.xml"):
        choose_reader(tmp_path / "a.xml", xml)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
def test_tagged_text_is_ris(tmp_path: Path, encoding: str) -> None:
    """A `.txt` that opens with RIS tags goes to that reader, whatever its encoding; a text about RIS does not."""
    assert choose_reader(tmp_path / "a.txt", "\nTY  - JOUR\nAU  - Müller, A.\nER  - \n".encode(encoding)) == "ris"
    assert choose_reader(tmp_path / "b.txt", "A record starts with TY  - JOUR.".encode(encoding)) == "plain_text"


TEXTS = {
    "medline": "\nPMID- 1\nOWN - NLM\n",
    "web_of_science": "FN Clarivate Analytics Web of Science\nVR 1.0\nPT J\nAU A, B\n",
    "ovid": "<1. >\nVN  - Ovid Technologies\n",
    "endnote_refer": "%0 Journal Article\n%T A title\n",
    "refworks": "RT Journal Article\nSR Electronic(1)\nA1 A,B\n",
    "ris": "1.\nTY  - JOUR\n",
    "bibtex": "@article{key,\n  title = {A}\n}\n",
    "jats": '<?xml version="1.0"?><article/>',
    "tables": "Title\tAuthors\tYear\nOne\tBerg, A\t2001\n",
}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("reader", [name for name in TEXTS if name != "jats"])
def test_exports_are_known_by_their_first_lines(tmp_path: Path, reader: str, newline: str, encoding: str) -> None:
    """Whatever their suffix, encoding and line ends."""
    for suffix in (".txt", ".ris", ".nbib", ".ciw", ".enw"):
        assert choose_reader(tmp_path / f"a{suffix}", TEXTS[reader].replace("\n", newline).encode(encoding)) == reader


@pytest.mark.parametrize(
    "start",
    [
        "@string{jt = {J Test}}", '@preamble{"x"}', "@Comment{x}", "% Encoding: UTF-8\n\n@STRING(jt = {J Test})",
        "Automatically generated by Mendeley Desktop 1.19.8\nAny changes to this file will be lost if it is regenerated by Mendeley.\n",
        "This file was created with JabRef 2.10.\nEncoding: UTF8\n",
    ],
)  # fmt: skip
def test_bibtex_is_known_behind_its_definitions(tmp_path: Path, start: str) -> None:
    """Strings, comments and the notes of programs may come before the first entry."""
    assert choose_reader(tmp_path / "a.txt", f"{start}\n{TEXTS['bibtex']}".encode()) == "bibtex"


@pytest.mark.parametrize(
    "text",
    [
        '"Title","Authors","Year"\n"One","Berg, A","2001"\n', "PMID;Title;Abstract\n1;One;Two\n", "Title\tYear\nOne\t2\n",
        "Título\tAño\nOne\t2\n", "タイトル,著者,年\nOne,Berg,2\n",
    ],
)  # fmt: skip
def test_a_table_is_known_by_its_header(tmp_path: Path, text: str) -> None:
    """Excel saves tables as text."""
    assert choose_reader(tmp_path / "a.txt", text.encode()) == "tables"
    if text.isascii() or "ñ" in text:
        assert choose_reader(tmp_path / "b.txt", text.encode("latin-1")) == "tables"


def test_xml_in_a_text_file_is_xml(tmp_path: Path) -> None:
    assert choose_reader(tmp_path / "a.txt", TEXTS["jats"].encode()) == "jats"


@pytest.mark.parametrize(
    "text",
    [
        "An export of MEDLINE begins with\nPMID- 1\n", "100% of them\n%A a\n", "RT is short for response time.\n",
        "PT is a tag.\nAU is one too.\n",
        "1. Introduction\n\nIn 2019 we searched.\nSee PMID 12345678.\n", "<1. > is a marker\n",
        "% A comment\n% Another\n", "@home {a text}\n",
        "12345\nwords\n", "", "Title, abstract\nand, then, text\n", "Title\tYear\nwords\n", "Title, authors, year\nwords\n",
        "@string theory\n",
        "| Title | Authors | Year |\n| One | Two | 3 |\n",
    ],
)  # fmt: skip
def test_texts_about_formats_are_texts(tmp_path: Path, text: str) -> None:
    """A tag in prose, or behind other lines, makes no export."""
    assert choose_reader(tmp_path / "a.txt", text.encode()) == "plain_text"


@pytest.mark.parametrize(
    ("name", "text", "format_", "instead"),
    [
        ("a.txt", "____________________________________________________________\n\nDocument 1 of 20\n\nTitle\n", "ProQuest text", "RIS"),
        ("a.txt", "Record #1 of 12\nID: CN-01\nAU: Berg A\n", "Cochrane Library text", "RIS"),
        ("a.txt", "Scopus\nEXPORT DATE: 12 May 2022\n", "Scopus text", "CSV or RIS"),
        ("a.txt", "PT\tAU\tBA\nJ\tBerg, A\t\n", "Web of Science's tab-delimited text", "plain text (tagged) or RIS"),
        ("a.txt", "1. J Test. 2019 Jul;93(14):6913-7. doi: 10.1000/x.\n\nA title.\n\nBerg A.\n\nPMID: 12345678 [Indexed for MEDLINE]\n",
         "PubMed's abstracts or summaries", "the format PubMed (MEDLINE)"),
        ("a.txt", "1: Berg A, Kim S. A title. J Test. 2019 Jul;93(14):6913-7. doi:\n10.1000/x. PMID: 12345678.\n",
         "PubMed's abstracts or summaries", "the format PubMed (MEDLINE)"),
        ("pmid-set.txt", "12345678\n23456789\n34567890\n", "a list of PMIDs", "the format PubMed (MEDLINE)"),
        ("a.txt", "{Reference Type}: Journal Article\n{Title}: T\n", "NoteExpress text", "RIS or EndNote"),
        ("a.txt", "SrcDatabase-x: y\n", "CNKI text", "EndNote or RefWorks"),
        ("a.csv", '"TITLE","A title"\n"AUTHOR NAMES","Berg A."\n', "Embase's list of fields", "CSV with one record a row, or RIS"),
        ("a.txt", "01142cam  2200301 a 4500001001300000\x1e", "MARC 21", "MODS or RIS"),
    ],
)  # fmt: skip
def test_other_exports_are_refused_by_name(tmp_path: Path, name: str, text: str, format_: str, instead: str) -> None:
    """They would be one document, or rows of nonsense."""
    assert choose_reader(tmp_path / name, text.encode()) == f"no reader for {format_}; export {instead}"


@pytest.mark.parametrize(
    "text",
    [
        "@a{k," + " " * 60_000, "1. " + "2019 " * 12_000, "_" * 30 + "\n" * 60_000, "1. 2019 x\n" + "a. " * 20_000, "%A a" + "\n" * 60_000,
        "12345678\n\n" * 6_000 + "x", "RT A\n" * 12_000, "Record: 1" + " " * 60_000, "\n" * 64_000,
    ],
    ids=lambda text: str(text)[:12],
)  # fmt: skip
def test_no_text_takes_long_to_recognise(tmp_path: Path, text: str) -> None:
    """A folder may hold any text: none makes a pattern search for seconds."""
    started = time.perf_counter()
    choose_reader(tmp_path / "a.txt", text.encode())
    assert time.perf_counter() - started < 5


def test_every_reader_can_be_loaded() -> None:
    """Each is a function of path and options."""
    for reader in dict.fromkeys((*BY_SUFFIX.values(), *BY_CONTENT.values(), *BY_ROOT.values(), *TAGGED)):
        assert list(inspect.signature(reader.load()).parameters) == ["path", "options"]


def test_no_reader_gives_the_reason(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    assert select_reader(tmp_path / "a") == NoReader("no reader for a file without a suffix")


def read_all(path: Path) -> None:
    reader = select_reader(path)
    assert isinstance(reader, FileReader)
    list(reader.read(path, ReadOptions()))


@pytest.mark.parametrize("suffix", sorted({*BY_SUFFIX, *BY_CONTENT, ".xml"}))
@pytest.mark.parametrize("content", [b"", b" \r\n\t\n", b"\xef\xbb\xbf", b"\xff\xfe \x00\n\x00"])
def test_a_file_with_nothing_in_it_is_unreadable_whatever_its_format(tmp_path: Path, suffix: str, content: bytes) -> None:
    """A valid file without records, such as [], is skipped instead."""
    path = tmp_path / f"a{suffix}"
    path.write_bytes(content)
    with pytest.raises(UnreadableFile, match="is empty"):
        read_all(path)
