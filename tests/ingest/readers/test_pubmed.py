from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from outrider.ingest.entry import BadEntry, Entry, Parsed, ReadOptions
from outrider.ingest.readers.pubmed import read
from outrider.state.errors import UnreadableFile
from outrider.state.records import Edge, Paper
from support.shared_data import DATA

ARTICLE = """<PubmedArticle><MedlineCitation><PMID Version="1">{pmid}</PMID>
<Article><Journal><ISSN>1</ISSN><JournalIssue><Volume>3</Volume>
<Issue>4</Issue><PubDate><MedlineDate>1998 Dec-1999 Jan</MedlineDate></PubDate></JournalIssue>
<Title>Journal of Phages</Title></Journal><ArticleTitle>Lysis of <i>E. coli</i>.</ArticleTitle>
<Pagination><MedlinePgn>10-9</MedlinePgn></Pagination>
<ELocationID EIdType="doi" ValidYN="Y">10.1000/Own</ELocationID>
<Abstract><AbstractText Label="METHODS">We <b>looked</b>.</AbstractText><AbstractText>We saw.</AbstractText></Abstract>
<AuthorList><Author><LastName>Smith</LastName><ForeName>Ann</ForeName>
</Author><Author><CollectiveName>Phage Group</CollectiveName></Author></AuthorList>
<Language>ger</Language><PublicationTypeList><PublicationType>Journal Article</PublicationType></PublicationTypeList></Article>
<CommentsCorrectionsList><CommentsCorrections RefType="RetractionIn"><PMID>99</PMID></CommentsCorrections>
<CommentsCorrections RefType="CommentIn"><PMID>98</PMID></CommentsCorrections></CommentsCorrectionsList>
<MeshHeadingList><MeshHeading><DescriptorName>Bacteriophages</DescriptorName>
<QualifierName>genetics</QualifierName></MeshHeading></MeshHeadingList>
<KeywordList><Keyword>lysis</Keyword></KeywordList></MedlineCitation>
<PubmedData><ReferenceList><Reference><ArticleIdList><ArticleId IdType="doi">10.1000/Cited</ArticleId>
<ArticleId IdType="pubmed">7</ArticleId></ArticleIdList></Reference>
<Reference><ArticleIdList><ArticleId IdType="pubmed">8</ArticleId></ArticleIdList></Reference></ReferenceList>
<ArticleIdList><ArticleId IdType="pubmed">{pmid}</ArticleId><ArticleId IdType="pmc">PMC5</ArticleId>
</ArticleIdList></PubmedData></PubmedArticle>"""


BOOK = """<PubmedBookArticle><BookDocument><PMID>21249755</PMID>
<ArticleIdList><ArticleId IdType="doi">10.1000/Book</ArticleId></ArticleIdList>
<Book><Publisher><PublisherName>NCBI</PublisherName></Publisher><BookTitle>Cancer Syndromes</BookTitle><PubDate><Year>2009</Year></PubDate>
<AuthorList Type="editors"><Author><LastName>Ed</LastName></Author></AuthorList></Book><ArticleTitle>A Syndrome</ArticleTitle>
<Language>eng</Language><AuthorList Type="authors"><Author><LastName>Berg</LastName><ForeName>Ada</ForeName></Author></AuthorList>
<PublicationType>Review</PublicationType><Abstract><AbstractText>Words.</AbstractText></Abstract></BookDocument></PubmedBookArticle>"""


def test_a_single_chapter(tmp_path: Path) -> None:
    """The article of a book may be the root of a file."""
    path = tmp_path / "a.xml"
    path.write_text(BOOK, encoding="utf-8")
    (only,) = read(path, ReadOptions())
    assert isinstance(only, Entry)
    chapter = only.record
    assert (chapter.title, chapter.venue, chapter.year, chapter.language) == ("A Syndrome", "Cancer Syndromes", 2009, "en")
    assert (chapter.authors, chapter.abstract, chapter.metadata["publication_types"]) == (("Berg, Ada",), "Words.", ["Review"])
    assert (chapter.identifiers.doi, chapter.identifiers.pmid) == ("10.1000/book", "21249755")


def entries(path: Path, *articles: str) -> list[Parsed]:
    path.write_text("<PubmedArticleSet>" + "".join(articles) + "</PubmedArticleSet>", encoding="utf-8")
    return list(read(path, ReadOptions()))


def test_one_article(tmp_path: Path) -> None:
    """Labels stay in the abstract, mark-up goes, references' identifiers are not the article's own."""
    (entry,) = entries(tmp_path / "a.xml", ARTICLE.format(pmid=12))
    assert isinstance(entry, Entry)
    record = entry.record
    assert isinstance(record, Paper)
    assert entry.own_id == "12"
    assert (record.title, record.abstract) == ("Lysis of E. coli.", "METHODS: We looked.\nWe saw.")
    assert record.identifiers.pairs() == (("doi", "10.1000/own"), ("pmid", "12"), ("pmcid", "PMC5"))
    assert (record.year, record.venue, record.volume, record.issue, record.pages) == (1998, "Journal of Phages", "3", "4", "10-9")
    assert (record.authors, record.language, record.mesh, record.tags) == (
        ("Smith, Ann", "Phage Group"),
        "de",
        ("Bacteriophages",),
        ("lysis",),
    )
    assert record.edges == (
        Edge(relation="cites", target="doi:10.1000/cited"),
        Edge(relation="cites", target="pmid:8"),
        Edge(relation="retraction_in", target="pmid:99"),
    )
    assert record.metadata["mesh_qualified"] == ["Bacteriophages/genetics"]


def test_a_bad_article_does_not_stop_the_others(tmp_path: Path) -> None:
    results = entries(
        tmp_path / "a.xml",
        ARTICLE.format(pmid=1),
        "<PubmedArticle/>",
        "<PubmedArticle><MedlineCitation/></PubmedArticle>",
        ARTICLE.format(pmid=2),
    )
    assert [type(entry) for entry in results] == [Entry, BadEntry, BadEntry, Entry]


def test_what_precedes_a_break_is_read(tmp_path: Path) -> None:
    """A truncated download gives its whole articles, then the error."""
    path = tmp_path / "a.xml"
    path.write_text("<PubmedArticleSet>" + ARTICLE.format(pmid=1) + ARTICLE.format(pmid=2)[:300], encoding="utf-8")
    reading = read(path, ReadOptions())
    assert isinstance(next(reading), Entry)
    with pytest.raises(UnreadableFile, match="not well-formed"):
        next(reading)


def test_a_set_without_articles_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="holds no PubMed article"):
        entries(tmp_path / "a.xml", "<DeleteCitation/>")


def test_entities_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text('<!DOCTYPE x [<!ENTITY a "b">]><PubmedArticleSet>&a;</PubmedArticleSet>')
    with pytest.raises(UnreadableFile, match="refused"):
        list(read(tmp_path / "a.xml", ReadOptions()))


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """Articles are let go of as they are read."""
    peaks = []
    for articles in (100, 700):
        (tmp_path / "a.xml").write_text(
            "<PubmedArticleSet>" + "\n".join(ARTICLE.format(pmid=n) for n in range(1, articles + 1)) + "</PubmedArticleSet>"
        )
        tracemalloc.start()
        assert sum(1 for _ in read(tmp_path / "a.xml", ReadOptions())) == articles
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 2**18


@pytest.mark.skipif(not DATA.exists(), reason=f"no data at {DATA}; set OUTRIDER_DATA")
def test_recorded_answers() -> None:
    """What PubMed itself sent: every article has a PMID and a title."""
    counts = {}
    for path in sorted((DATA / "recorded/pubmed_biopython/Entrez").glob("pubmed*.xml")):
        if b"<PubmedArticleSet" in path.read_bytes():
            results = list(read(path, ReadOptions()))
            counts[path.name] = len(results)
            assert all(isinstance(entry, Entry) and entry.own_id and entry.record.title for entry in results)
    assert sum(counts.values()) > 5
