"""MEDLINE, Web of Science, Ovid, EndNote (Refer) and RefWorks: fields and irregularities."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.ingest.entry import BadEntry, Entry, Parsed, ReadOptions
from outrider.ingest.readers import tagged
from outrider.ingest.readers.select_reader import FileReader, select_reader
from outrider.ingest.readers.tagged import RecordSplitter
from outrider.state.records import Edge, Paper
from support.shared_data import DATA

MEDLINE = """
PMID- 12345678
OWN - NLM
STAT- MEDLINE
IS  - 1471-2105 (Electronic)
IS  - 1471-2105 (Linking)
VI  - 93
IP  - 14
DP  - 1996 Jul 9
TI  - A title that is long enough to continue on a
      second line.
PG  - 6913-7
LID - 10.1000/x.1 [doi]
LID - S0033-3506(15)00037-2 [pii]
AB  - BACKGROUND: Words - and a dash.
      RESULTS: More words.
FAU - van Berg, Ada M
AU  - van Berg AM
AD  - A place; another.
FAU - Kim, Sun-Hee
AU  - Kim SH
CN  - The Study Group
LA  - eng
PT  - Journal Article
PT  - Randomized Controlled Trial
RIN - J Foo. 2000;1(2):3. PMID: 999
TA  - J Test
JT  - Journal of testing
MH  - *Aspirin/adverse effects/*therapeutic use
MH  - Humans
OT  - *pain; relief
OT  - headache
PMC - PMC38908
AID - S0033-3506(15)00037-2 [pii]
AID - 10.1000/x.1 [doi]
SO  - J Test. 1996 Jul 9;93(14):6913-7. doi: 10.1000/x.1.
"""
WEB_OF_SCIENCE = """\ufeffFN Clarivate Analytics Web of Science
VR 1.0
PT J
AU van Berg, AM
   Kim, SH
AF van Berg, Ada M.
   Kim, Sun-Hee
CA The Study Group
TI A title that is long enough to continue on a
   second line
SO JOURNAL OF TESTING
LA English
DT Article; Proceedings Paper
DE pain (acute; chronic); headache
ID NSAID USE;
   RELIEF
AB Background
   Words.
CR Smith J, 2010, NATURE, V1, P2, DOI 10.1000/cited
   Anonymous, 1999, NO DOI
SN 1471-2105
EI 0027-8424
JI J. Test.
PD JUL 9
PY 1996
VL 93
IS 14
BP 6913
EP 6917
DI 10.1000/x.1
UT WOS:000001
PM 12345678
ER

EF
"""
OVID = """<1. >
VN  - Ovid Technologies
DB  - Ovid MEDLINE(R) ALL
UI  - 12345678
ST  - MEDLINE
AU  - van Berg AM
AU  - Kim SH
FA  - van Berg, Ada M
FA  - Kim, Sun-Hee
IN  - A place
      Another place
TI  - A title that is long enough to continue on a second line. [Review]
SO  - Journal of Testing. 93(14):6913-7, 1996 Jul 09.
AS  - J Test
MH  - *Aspirin/ae [Adverse Effects]
MH  - Humans
KW  - pain; headache
AB  - BACKGROUND: Words.
RESULTS: More words.
LG  - English
PT  - Journal Article
PT  - Randomized Controlled Trial
IS  - 1471-2105
DO  - https://dx.doi.org/10.1000/x.1
YR  - 1996

<2. >
VN  - Ovid Technologies
DB  - Embase
UI  - 621381829
TI  - Another title
AU  - Behan L.
SO  - BMC Proceedings. Conference: 2nd Meeting 2016: Part 2. Spain. 12 (Supplement 3) (pp 7-9), 2018. Date of Publication: 2018.
MH  - *Kartagener syndrome
PM  - 28102899 [https://pubmed.example]
"""
OVID_LABELS = """<1>
Unique Identifier
  12345678
Database
  Ovid MEDLINE(R)
Authors
  van Berg AM. Kim SH.
Title
  A title that is long enough to continue on a
  second line.
Source
  Journal of Testing. 93(14):6913-7, 1996 Jul 09.
MeSH Subject Headings
    *Aspirin / ae [Adverse Effects]
    Humans
Language
  English
Publication Type
  Journal Article.
Year of Publication
  1996
<2>
Unique Identifier
  2
Title
  Another title
"""
REFER = """%0 Journal Article
%A van Berg, Ada M.
%A Kim, Sun-Hee
%Q The Study Group
%T A title that is long enough
%J Journal of Testing
%D 1996
%8 July 9, 1996
%V 93
%N 14
%P 6913-6917
%@ 1471-2105
%G eng
%K pain
headache
%X Words.

More words, after a blank line.
%R 10.1000/x.1
%M 12345678
%W NLM
%2 PMC38908
%U https://example.org/a;b

%0 Book
%A Calvino, Italo
%T Another title
%B A series
%@ 978-3-0346-0479-6
"""
REFWORKS = """RT Journal Article
SR Electronic(1)
ID 77
A1 van Berg,Ada M.
A1 Kim,Sun-Hee
T1 A title
JF Journal of Testing
JO J Test
YR 1996
FD Jul 9
VO 93
IS 14
SP 6913
OP 6917
K1 pain (acute; chronic);headache
AB Words.
US adults are no tag.
SN 1471-2105
DO 10.1000/x.1
LA English
DS PubMed
AN 12345678
RT Book, Whole
A1 Calvino,Italo
T1 Another title
"""
SAMPLES = {
    "medline": MEDLINE, "web_of_science": WEB_OF_SCIENCE, "ovid": OVID, "endnote_refer": REFER, "refworks": REFWORKS,
}  # fmt: skip


def read(tmp_path: Path, text: str, name: str = "some.txt") -> list[Parsed]:
    """The entries of a file, by the reader that its content chooses."""
    path = tmp_path / name
    path.write_bytes(text.encode())
    reader = select_reader(path)
    assert isinstance(reader, FileReader), reader
    return list(reader.read(path, ReadOptions()))


def papers(parsed: list[Parsed]) -> list[Paper]:
    records = [one.record for one in parsed if isinstance(one, Entry)]
    assert len(records) == len(parsed), parsed
    return [record for record in records if isinstance(record, Paper)]


@pytest.mark.parametrize("dialect", SAMPLES)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_common_fields(tmp_path: Path, dialect: str, newline: str) -> None:
    """Whatever the dialect: title, year, volume, issue, venue, language, DOI, PMID, ISSN, and a type."""
    first = papers(read(tmp_path, SAMPLES[dialect].replace("\n", newline)))[0]
    assert first.title.startswith("A title")
    assert (first.year, first.volume, first.issue, first.language) == (1996, "93", "14", "en")
    assert (first.venue or "").lower() == "journal of testing"
    assert (first.pages or "").startswith("6913-")
    assert (first.identifiers.doi, first.identifiers.pmid) == ("10.1000/x.1", "12345678")
    assert first.metadata["issn"] == "1471-2105"
    assert first.abstract.endswith(("ords.", "a blank line.", "no tag."))
    assert first.metadata["publication_types"]


def test_medline(tmp_path: Path) -> None:
    (entry,) = read(tmp_path, MEDLINE)
    assert isinstance(entry, Entry)
    (paper,) = papers([entry])
    assert entry.own_id == "12345678"
    assert paper.title == "A title that is long enough to continue on a second line."
    assert paper.authors == ("van Berg, Ada M", "Kim, Sun-Hee", "The Study Group")
    assert paper.abstract == "BACKGROUND: Words - and a dash. RESULTS: More words."
    assert paper.mesh == ("Aspirin", "Humans")
    assert paper.tags == ("pain; relief", "headache")
    assert paper.identifiers.pmcid == "PMC38908"
    assert paper.edges == (Edge(relation="retraction_in", target="pmid:999"),)
    expected = {
        "mesh_qualified": ["Aspirin/adverse effects", "Aspirin/therapeutic use"], "mesh_major": ["Aspirin"], "retracted": True,
        "publication_types": ["Journal Article", "Randomized Controlled Trial"], "journal_abbreviation": "J Test",
        "notices": [{"kind": "retraction_in", "pmid": "999", "source": "J Foo. 2000;1(2):3. PMID: 999"}],
    }  # fmt: skip
    assert {name: paper.metadata[name] for name in expected} == expected


def test_medline_and_xml_of_one_article(tmp_path: Path) -> None:
    """PubMed's two formats give the same record, but for what only one of them states."""
    xml = (
        "<PubmedArticleSet><PubmedArticle><MedlineCitation><PMID>7</PMID><Article><Journal><ISSN>1471-2105</ISSN><JournalIssue><Volume>3"
        "</Volume><Issue>4</Issue><PubDate><Year>1999</Year></PubDate></JournalIssue><Title>Journal of phages</Title>"
        "<ISOAbbreviation>J Phag"
        "</ISOAbbreviation></Journal><ArticleTitle>Lysis.</ArticleTitle><Pagination><MedlinePgn>10-9</MedlinePgn></Pagination><Abstract>"
        "<AbstractText>We saw.</AbstractText></Abstract><AuthorList><Author><LastName>Smith</LastName><ForeName>Ann</ForeName></Author>"
        "<Author><CollectiveName>Phage Group</CollectiveName></Author></AuthorList><Language>ger</Language><PublicationTypeList>"
        "<PublicationType>Review</PublicationType></PublicationTypeList></Article><CommentsCorrectionsList><CommentsCorrections "
        'RefType="RetractionIn"><RefSource>J Foo. 2000</RefSource><PMID>99</PMID></CommentsCorrections></CommentsCorrectionsList>'
        "<MeshHeadingList><MeshHeading><DescriptorName>Bacteriophages</DescriptorName><QualifierName>genetics</QualifierName></MeshHeading>"
        "</MeshHeadingList>"
        "<KeywordList><Keyword>lysis</Keyword></KeywordList></MedlineCitation><PubmedData><ArticleIdList>"
        '<ArticleId IdType="doi">10.1000/x</ArticleId><ArticleId IdType="pmc">PMC5</ArticleId></ArticleIdList></PubmedData>'
        "</PubmedArticle></PubmedArticleSet>"
    )
    medline = (
        "PMID- 7\nIS  - 1471-2105 (Electronic)\nVI  - 3\nIP  - 4\nDP  - 1999\nTI  - Lysis.\nPG  - 10-9\nAB  - We saw.\nFAU - Smith, Ann\n"
        "AU  - Smith A\n"
        "CN  - Phage Group\nLA  - ger\nPT  - Review\nRIN - J Foo. 2000. PMID: 99\nTA  - J Phag\nJT  - Journal of phages\n"
        "MH  - Bacteriophages/genetics\n"
        "OT  - lysis\nPMC - PMC5\nAID - 10.1000/x [doi]\n"
    )
    (one,), (two,) = (papers(read(tmp_path, text, name)) for text, name in ((xml, "a.xml"), (medline, "a.nbib")))
    assert one.metadata.pop("notices") == [{"kind": "retraction_in", "pmid": "99", "source": "J Foo. 2000"}]
    assert two.metadata.pop("notices") == [{"kind": "retraction_in", "pmid": "99", "source": "J Foo. 2000. PMID: 99"}]
    assert one == two


def test_every_language_of_a_record(tmp_path: Path) -> None:
    """Tags that are repeated and names in one value are all languages of the record; none is left in the metadata."""
    medline = "PMID- 7\nTI  - One\nLA  - eng\nLA  - ger\n"
    ris = "TY  - JOUR\nTI  - One\nLA  - {}\nER  - \n"
    for text, name, language in (
        (medline, "a.nbib", "en; de"),
        (ris.format("English; German"), "a.ris", "English; German"),
        (ris.format("English\nLA  - German"), "b.ris", "English; German"),
    ):
        (one,) = papers(read(tmp_path, text, name))
        assert (one.language, one.metadata.get("LA")) == (language, None)


def test_medline_of_other_databases(tmp_path: Path) -> None:
    """ERIC's records have no PMID: the owner begins them. A DOI may be a link, an ISSN carry a prefix."""
    text = (
        "\nOWN - ERIC\nTI  - One\nAU  - Groen, M. M.\nOT  - Tests\nJT  - A Journal\n"
        "AID - http://dx.doi.org/10.1000/eric\n"
        "LID - http://eric.ed.gov/?id=EJ1\nOID - EJ1\nDP  - Article 10 2019\nISSN - EISSN-1471-2105\n"
        "LA  - English\nPT  - Journal Articles\n"
        "\nOWN - ERIC\nTI  - Two\nOID - EJ2\n"
    )
    entries = read(tmp_path, text, "eric.nbib")
    one, two = papers(entries)
    assert [entry.own_id for entry in entries if isinstance(entry, Entry)] == ["EJ1", "EJ2"]
    assert (one.identifiers.doi, one.url, one.year, one.metadata["issn"]) == (
        "10.1000/eric",
        "http://eric.ed.gov/?id=EJ1",
        2019,
        "1471-2105",
    )
    assert (one.authors, two.title) == (("Groen, M. M.",), "Two")


@pytest.mark.parametrize("gap", ["\n", "\n\n", "\n\n\n"])
def test_medline_records_without_blank_lines(tmp_path: Path, gap: str) -> None:
    """The PMID begins a record; blank lines inside one do not end it."""
    records = [f"PMID- {number}{gap}TI  - Title {number}{gap}AB  - Text{gap}      goes on" for number in (1, 2, 3)]
    read_papers = papers(read(tmp_path, "\n".join(records)))
    assert [(paper.identifiers.pmid, paper.title) for paper in read_papers] == [(str(n), f"Title {n}") for n in (1, 2, 3)]
    assert {paper.abstract for paper in read_papers} == {"Text goes on"}


def test_a_title_that_medline_lacks_is_the_own_one(tmp_path: Path) -> None:
    (paper,) = papers(read(tmp_path, "PMID- 1\nTI  - [Not Available].\nTT  - Ein Titel\nAU  - A B\n"))
    assert paper.title == "Ein Titel"


def test_web_of_science(tmp_path: Path) -> None:
    (entry,) = read(tmp_path, WEB_OF_SCIENCE, "savedrecs.ciw")
    assert isinstance(entry, Entry)
    (paper,) = papers([entry])
    assert entry.own_id == "WOS:000001"
    assert paper.authors == ("van Berg, Ada M.", "Kim, Sun-Hee", "The Study Group")
    assert paper.tags == ("pain (acute; chronic)", "headache", "NSAID USE", "RELIEF")
    assert paper.pages == "6913-6917"
    assert paper.edges == (Edge(relation="cites", target="doi:10.1000/cited"),)
    assert paper.metadata["publication_types"] == ["Article", "Proceedings Paper"]
    assert paper.metadata["other_issns"] == ["0027-8424"]
    assert paper.metadata["journal_abbreviation"] == "J. Test."


def test_web_of_science_without_end_and_indentation(tmp_path: Path) -> None:
    """A missing `EF` or `ER` loses nothing; in a text without indentation, only tags of Web of Science are tags. Pages may be a number."""
    text = (
        "FN Thomson Reuters Web of Knowledge\nVR 1.0\nPT J\nTI One title\nin two lines\n"
        "AU Medvedeff, Cassandra A. (a@b.org)\nHershey, Anne E.\n"
        "AB A text of\nQQ adults\nAR e123\nPT S\nTI Two\nER\nPT J\nTI Three\n"
    )
    one, two, three = papers(read(tmp_path, text))
    assert (one.title, one.pages, one.abstract) == ("One title in two lines", "e123", "A text of\nQQ adults")
    assert one.authors == ("Medvedeff, Cassandra A.", "Hershey, Anne E.")
    assert (two.title, three.title) == ("Two", "Three")


def test_ovid(tmp_path: Path) -> None:
    entries = read(tmp_path, OVID)
    first, second = papers(entries)
    assert [entry.own_id for entry in entries if isinstance(entry, Entry)] == ["12345678", "621381829"]
    assert first.title == "A title that is long enough to continue on a second line."
    assert first.authors == ("van Berg, Ada M", "Kim, Sun-Hee")
    assert (first.mesh, first.tags) == (("Aspirin", "Humans"), ("pain", "headache"))
    assert first.metadata["mesh_qualified"] == ["Aspirin/adverse effects"]
    assert first.metadata["publication_types"] == ["Journal Article", "Randomized Controlled Trial"]
    assert first.abstract == "BACKGROUND: Words.\nRESULTS: More words."
    assert (second.venue, second.volume, second.issue, second.pages, second.year) == ("BMC Proceedings", "12", "Supplement 3", "7-9", 2018)
    assert (second.authors, second.mesh, second.identifiers.pmid) == (("Behan L.",), ("Kartagener syndrome",), "28102899")


def test_a_text_that_is_indented_as_a_whole(tmp_path: Path) -> None:
    """Blanks before every line are the file's; PsycINFO separates its identifiers by commas."""
    first_text = " <7. >\n VN  - Ovid Technologies\n DB  - PsycINFO\n TI  - A title\n       goes on. [References].\n ID  - a, b (c, d)\n \n"
    text = first_text + " <8. >\n VN  - Ovid Technologies\n TI  - Two\n"
    first, second = papers(read(tmp_path, text))
    assert (first.title, first.tags, second.title) == ("A title goes on.", ("a", "b (c, d)"), "Two")
    (medline,) = papers(read(tmp_path, "".join(f"  {line}" for line in MEDLINE.splitlines(keepends=True))))
    assert medline.title == "A title that is long enough to continue on a second line."


def test_ovid_with_names_of_fields(tmp_path: Path) -> None:
    """The older form writes each field's name on a line of its own."""
    first, second = papers(read(tmp_path, OVID_LABELS))
    assert first.title == "A title that is long enough to continue on a second line."
    assert first.authors == ("van Berg AM", "Kim SH")
    assert (first.mesh, first.metadata["mesh_qualified"]) == (("Aspirin", "Humans"), ["Aspirin/adverse effects"])
    assert (first.venue, first.volume, first.issue, first.pages, first.year) == ("Journal of Testing", "93", "14", "6913-7", 1996)
    assert (first.identifiers.pmid, first.language, first.metadata["publication_types"]) == ("12345678", "en", ["Journal Article"])
    assert second.title == "Another title"
    more = OVID_LABELS.replace("AM. Kim SH.", "AM; Kim SH").replace("Journal Article.", "Journal Article. Research Support, U.S. Gov't.")
    more = more.replace("Year of", "Clinical Area\n  Liver\nDOI\n  10.1000/a\nYear of")
    paper = papers(read(tmp_path, more))[0]
    assert (paper.authors, paper.identifiers.doi, paper.metadata["Clinical Area"]) == (first.authors, "10.1000/a", "Liver")
    assert paper.metadata["publication_types"] == ["Journal Article", "Research Support, U.S. Gov't"]
    lines = OVID_LABELS.replace("  van Berg AM. Kim SH.", "  van Berg, Ada\n  Kim, Sun-Hee")
    assert papers(read(tmp_path, lines))[0].authors == ("van Berg, Ada", "Kim, Sun-Hee")


@pytest.mark.parametrize(
    ("written", "author"),
    [
        ("Walsdorf, Neill B. [Inventor, Reprint Author]", "Walsdorf, Neill B."),
        ("He, Zhimin 1,2,*", "He, Zhimin"),
        ("Gazic, Barbara MD, PhD *", "Gazic, Barbara"),
        ("Kumar, MS", "Kumar, MS"),
        ("Kumar MS", "Kumar MS"),
        ("AHMED, Mughees.", "AHMED, Mughees"),
        ("Behan L.", "Behan L."),
    ],
)
def test_names_in_ovid(tmp_path: Path, written: str, author: str) -> None:
    """Roles, degrees and marks of footnotes are no part of a name; initials are."""
    (paper,) = papers(read(tmp_path, f"<1. >\nVN  - Ovid Technologies\nTI  - T\nAU  - {written}\n"))
    assert paper.authors == (author,)


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("A trial.  [Article]", "A trial."),
        ("A trial. [Review] [83 refs]", "A trial."),
        ("Eine Studie. [German]", "Eine Studie."),
        ("[A trial in Brazil].", "[A trial in Brazil]."),
        ("Effects of [11C]-labelled [18F]", "Effects of [11C]-labelled [18F]"),
    ],
)
def test_titles_in_ovid(tmp_path: Path, written: str, title: str) -> None:
    """The section of the journal and the language behind a title are no part of it."""
    (paper,) = papers(read(tmp_path, f"<1. >\nVN  - Ovid Technologies\nTI  - {written}\n"))
    assert paper.title == title


def test_refer(tmp_path: Path) -> None:
    first, second = papers(read(tmp_path, REFER, "citations.enw"))
    assert first.authors == ("van Berg, Ada M.", "Kim, Sun-Hee", "The Study Group")
    assert first.abstract == "Words.\nMore words, after a blank line."
    assert (first.tags, first.url, first.identifiers.pmcid) == (("pain", "headache"), "https://example.org/a;b", "PMC38908")
    assert (second.title, second.venue, second.identifiers.isbn) == ("Another title", "A series", "9783034604796")


def test_refer_in_another_order(tmp_path: Path) -> None:
    """The type need not come first, and may come twice; records may follow each other without a blank line."""
    later = papers(read(tmp_path, "%T One\n%0 Journal Article\n%A A, B\n\n\n%T Two\n%A C, D\n\n%T Three\n"))
    assert [(paper.title, paper.authors) for paper in later] == [("One", ("A, B",)), ("Two", ("C, D",)), ("Three", ())]
    close = papers(read(tmp_path, "%0 Serial\n%0 Audio\n%T One\n%0 Book\n%T Two\n"))
    assert [paper.title for paper in close] == ["One", "Two"]


def test_refworks(tmp_path: Path) -> None:
    first, second = papers(read(tmp_path, REFWORKS))
    assert first.authors == ("van Berg, Ada M.", "Kim, Sun-Hee")
    assert first.tags == ("pain (acute; chronic)", "headache")
    assert first.abstract == "Words.\nUS adults are no tag."
    assert (second.title, second.authors) == ("Another title", ("Calvino, Italo",))


@pytest.mark.parametrize("word", ["nan", "NaN", "None", "null", "<NA>", "N/A"])
def test_words_for_nothing(tmp_path: Path, word: str) -> None:
    """What pandas or R writes for a missing value is no value, in any dialect."""
    ris = f"TY  - JOUR\nTI  - T\nSP  - 12\nEP  - {word}\nVL  - {word}\nDO  - {word}\nAU  - {word}\nPY  - {word}\nER  - \n"
    (paper,) = papers(read(tmp_path, ris))
    assert (paper.pages, paper.volume, paper.authors, paper.year, paper.metadata) == ("12", None, (), None, {"TY": "JOUR"})
    (other,) = papers(read(tmp_path, f"PMID- 1\nTI  - T\nVI  - {word}\nPG  - {word}-{word}\n"))
    assert (other.volume, other.pages) == (None, None)


def test_a_file_without_records_is_reported(tmp_path: Path) -> None:
    (only,) = read(tmp_path, "PMID- nan\nOWN - NLM\n", "empty.nbib")
    assert isinstance(only, BadEntry)
    assert only.empty


VALUES = st.text("abcdefghij .,;-", min_size=1, max_size=30).map(lambda text: " ".join(f"x{text}x".split()))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(VALUES, st.lists(VALUES, max_size=3)), min_size=1, max_size=5), st.sampled_from(sorted(SAMPLES)))
def test_as_many_records_as_were_written(works: list[tuple[str, list[str]]], name: str) -> None:
    """Any values, wrapped or not: each record is found, with its title and the lines that continue it."""
    forms = {
        "medline": ("PMID- 1\n", "TI  - ", "\n      ", "\n\n"),
        "web_of_science": ("PT J\n", "TI ", "\n   ", "\nER\n\n"),
        "ovid": ("<1. >\nVN  - Ovid Technologies\n", "TI  - ", "\n      ", "\n\n"),
        "endnote_refer": ("%0 Book\n", "%T ", "\n", "\n\n"),
        "refworks": ("RT Book\n", "T1 ", "\n", "\n"),
    }
    first, tag, wrap, last = forms[name]
    text = "".join(first + tag + wrap.join([title, *more]) + last for title, more in works)
    dialect = next(one for one in tagged.DIALECTS if one.name == name)
    splitter = RecordSplitter(dialect)
    records = [record for number, line in enumerate(text.splitlines(), 1) if (record := splitter.feed(number, line))]
    assert splitter.record is not None
    titles = [" ".join(record.tags()[0][tag.rstrip(" -")][0].split()) for record in [*records, splitter.record]]
    assert titles == [" ".join([title, *more]) for title, more in works]


RECORDED = DATA / "recorded" / "pubmed_biopython" / "Medline"


@pytest.mark.skipif(not RECORDED.is_dir(), reason=f"no shared data at {RECORDED}")
def test_recorded_medline_files() -> None:
    """All records of Biopython's files, with what the text itself says of them."""
    for path in sorted(RECORDED.glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        records = papers(list(tagged.read_medline(path, ReadOptions())))
        assert [f"PMID- {paper.identifiers.pmid}" in text for paper in records] == [True] * text.count("PMID- ")
        assert all(paper.title and paper.authors and paper.year and paper.venue and paper.volume and paper.pages for paper in records)
        assert sum(len(paper.mesh) for paper in records) == len({(block, line) for block in text.split("\n\n") for line in block.split("\n")
                                                               if line.startswith("MH  -")})  # fmt: skip
