from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from outrider.ingest.readers.select_reader import BY_ROOT, BY_SUFFIX, FileReader, NoReader, select_reader
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
        ("a.htm", "html"), ("a.rst", "plain_text"), ("a.txt", "plain_text"),
        ("a.vec", "no reader for .vec"), ("a.png", "no reader for .png"), ("README", "no reader for a file without a suffix"),
        ("a.csv.gz", "no reader for .gz; unpack it first"), ("a.nbib", "no reader for .nbib; export it as PubMed XML"),
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


def test_every_reader_can_be_loaded() -> None:
    """Each is a function of path and options."""
    for reader in dict.fromkeys((*BY_SUFFIX.values(), *BY_ROOT.values())):
        assert list(inspect.signature(reader.load()).parameters) == ["path", "options"]


def test_no_reader_gives_the_reason(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    assert select_reader(tmp_path / "a") == NoReader("no reader for a file without a suffix")
