from __future__ import annotations

import re
from pathlib import Path

import pytest

from outrider.ingest.entry import Entry, ReadOptions
from outrider.ingest.readers.text_documents import read_html
from outrider.sources.web.html_page import declared_charset
from outrider.state.errors import UnreadableFile
from outrider.state.records import Page
from support.shared_data import DATA

BODY = (
    "<article><h1>Heading</h1>"
    + "".join(
        f"<p>Sentence {number} about the lysis of bacteria is long enough to be part of the main text of a page.</p>" for number in range(5)
    )
    + "</article>"
)
HEAD = """<title>Own title</title><meta name="citation_title" content="Lysis   time"><meta name="citation_author" content="Smith, Ann">
<meta name="citation_author" content="Lee, Bo"><meta name="citation_doi" content="doi:10.1000/ABC">
<meta name="citation_publication_date" content="2019/05/02">
<meta name="description" content="What phages do."><meta name="keywords" content="phage, lysis">
<link rel="canonical" href="https://example.org/lysis">"""


def page(path: Path, html: str | bytes) -> Page:
    path.write_bytes(html if isinstance(html, bytes) else html.encode())
    (entry,) = read_html(path, ReadOptions())
    assert isinstance(entry, Entry)
    assert isinstance(entry.record, Page)
    return entry.record


def test_what_a_page_declares(tmp_path: Path) -> None:
    """Highwire's elements before the title element; the DOI normalised; the language's primary tag."""
    record = page(tmp_path / "a.html", f'<html lang="en-GB"><head>{HEAD}</head><body>{BODY}</body></html>')
    assert (record.title, record.authors, record.year, record.language) == ("Lysis time", ("Smith, Ann", "Lee, Bo"), 2019, "en")
    assert (record.url, record.identifiers.doi) == ("https://example.org/lysis", "10.1000/abc")
    assert (record.description, record.tags) == ("What phages do.", ("phage", "lysis"))
    assert record.text.count("lysis of bacteria") == 5


def test_what_a_page_does_not_declare_is_missing(tmp_path: Path) -> None:
    """A DOI, a name or a relative link in the body is no metadata of the page."""
    body = BODY + '<p>By <b>Ann Smith</b>, see https://doi.org/10.1000/other</p><a href="/x">x</a>'
    record = page(tmp_path / "a.html", f'<html><head><title>T</title><link rel="canonical" href="/x"></head><body>{body}</body></html>')
    assert (record.authors, record.identifiers.doi, record.url, record.year) == ((), None, None, None)


def test_works_that_a_page_links_to_are_edges(tmp_path: Path) -> None:
    """Its own identifiers are what it declares, also as a link that names the page itself (RFC 8574)."""
    head = '<title>T</title><link rel="cite-as" href="https://doi.org/10.1000/own"><meta name="citation_pmid" content="77">'
    body = '<a href="https://doi.org/10.1000/OWN">itself</a><a href="https://doi.org/10.1000/other">x</a><a href="/10.1000/y">y</a>'
    record = page(tmp_path / "a.html", f"<html><head>{head}</head><body>{BODY}{body}</body></html>")
    assert (record.identifiers.doi, record.identifiers.pmid) == ("10.1000/own", "77")
    assert [(edge.relation, edge.target) for edge in record.edges] == [("links_to", "doi:10.1000/other"), ("links_to", "doi:10.1000/y")]


def test_json_ld_names_authors_and_date(tmp_path: Path) -> None:
    """Also inside a graph; an additional broken script changes nothing."""
    linked = '{"@graph": [{"@type": "Article", "author": [{"name": "Ann Smith"}, "Bo Lee"], "datePublished": "2021-03-04"}]}'
    scripts = f'<script type="application/ld+json">{linked}</script><script type="application/ld+json">{{broken</script>'
    record = page(tmp_path / "a.html", f"<html><head><title>T</title>{scripts}</head><body>{BODY}</body></html>")
    assert (record.authors, record.year) == (("Ann Smith", "Bo Lee"), 2021)


@pytest.mark.parametrize(
    "html", ["<p>Only a fragment, but of text.</p>", "just words", "<html><body><div>short</div>", "<p>" * 3_000 + "deep"]
)
def test_fragments_and_untidy_pages_are_read(tmp_path: Path, html: str) -> None:
    """Whatever holds a text gives it, titled by the file where nothing else does."""
    record = page(tmp_path / "note.html", html)
    assert record.title == "note"
    assert record.text


@pytest.mark.parametrize("html", [b"", b"   ", b"<html></html>", b"<html><body><img src=x></body></html>", b"\x00\x01\x02" * 100])
def test_a_page_without_text_is_unreadable(tmp_path: Path, html: bytes) -> None:
    with pytest.raises(UnreadableFile, match=r"a\.html"):
        page(tmp_path / "a.html", html)


def test_the_declared_encoding_is_believed(tmp_path: Path) -> None:
    """Where the bytes are not UTF-8; and the record names the encoding."""
    html = f'<html><head><meta charset="gb2312"><title>噬菌体裂解</title></head><body>{BODY}</body></html>'
    record = page(tmp_path / "a.html", html.encode("gb18030"))
    assert (record.title, record.metadata["encoding"]) == ("噬菌体裂解", "gb18030")
    assert declared_charset(b'<meta http-equiv="Content-Type" content="text/html; charset=ISO-8859-1">') == "cp1252"
    assert declared_charset(b"<p>none</p>") is None


@pytest.mark.skipif(not DATA.exists(), reason=f"no data at {DATA}; set OUTRIDER_DATA")
def test_saved_pages_give_their_main_text() -> None:
    """At least nine tenths of the words that a reader should get, at the median page."""
    shares = []
    for source in sorted((DATA / "web/readability").glob("*/source.html"))[::2]:
        (entry,) = read_html(source, ReadOptions())
        assert isinstance(entry, Entry)
        expected = set(re.findall(r"\w{3,}", re.sub(r"<[^>]+>", " ", source.with_name("expected.html").read_text(encoding="utf-8"))))
        got = set(re.findall(r"\w{3,}", entry.record.text))
        shares.append(len(expected & got) / max(len(expected), 1))
    assert sorted(shares)[len(shares) // 2] > 0.9
