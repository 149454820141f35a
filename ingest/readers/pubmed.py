"""PubMed XML (`PubmedArticleSet`, NLM's pubmed DTD): many articles a file, read as a stream.

`mesh` holds the descriptors; qualifiers stand in `metadata["mesh_qualified"]`. References are edges `cites`, retractions
and corrections edges named after PubMed's own RefType in snake case (`retraction_in`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element  # the type only; defusedxml parses

from pydantic import JsonValue

from outrider.identity.identifiers import normal_doi, normal_pmcid, normal_pmid
from outrider.ingest.entry import BadEntry, Entry, Parsed, ReadOptions
from outrider.ingest.fields import cites, year_of
from outrider.ingest.readers.safe_xml import flat, translated
from outrider.state.errors import UnreadableFile
from outrider.state.records import Edge, Identifiers, Paper

ARTICLES = ("PubmedArticle", "PubmedBookArticle")
NOTICES = (
    "RetractionIn",
    "RetractionOf",
    "ExpressionOfConcernIn",
    "ErratumIn",
    "ErratumFor",
    "RepublishedIn",
    "RepublishedFrom",
    "UpdateIn",
    "UpdateOf",
)
TWO_LETTERS = {
    "eng": "en", "fre": "fr", "ger": "de", "spa": "es", "ita": "it", "por": "pt", "rus": "ru", "jpn": "ja", "chi": "zh", "pol": "pl",
    "dut": "nl", "kor": "ko", "tur": "tr", "dan": "da", "nor": "no", "swe": "sv", "hun": "hu", "cze": "cs", "ara": "ar", "heb": "he",
}  # fmt: skip


def read(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    from defusedxml.ElementTree import iterparse

    seen = 0
    with path.open("rb") as file, translated(path):
        root: Element | None = None
        for event, element in iterparse(file, events=("start", "end")):
            if root is None:
                root = element
            if event == "end" and element.tag in ARTICLES:
                seen += 1
                yield _entry(element, seen)
                element.clear()
                if root is not element:
                    root.clear()  # what was yielded is not needed again: memory does not grow with the file
    if not seen:
        raise UnreadableFile(f"{path}: holds no PubMed article")


def _entry(item: Element, place: int) -> Parsed:
    cited = next((part for part in item if part.tag in ("MedlineCitation", "BookDocument")), None)
    if cited is None:
        return BadEntry(f"article {place}", "has neither MedlineCitation nor BookDocument")
    article = cited.find("Article")
    body = article if article is not None else cited
    title = flat(body.find("ArticleTitle")) or flat(body.find("VernacularTitle")) or flat(body.find("Book/BookTitle"))
    identifiers = _identifiers(item, cited, body)
    if not title and not any(identifiers.pairs()):
        return BadEntry(f"article {place}", "has neither a title nor an identifier")
    record = Paper(
        doc_id="",
        title=title,
        abstract=_abstract(body),
        identifiers=identifiers,
        authors=tuple(_authors(body)),
        year=_year(body),
        venue=flat(body.find("Journal/Title")) or flat(body.find("Journal/ISOAbbreviation")) or flat(body.find("Book/BookTitle")) or None,
        language=_language(body),
        tags=tuple(dict.fromkeys(filter(None, (flat(word) for word in cited.iterfind("KeywordList/Keyword"))))),
        edges=tuple(dict.fromkeys((*_references(item), *_notices(cited)))),
        metadata=_metadata(cited, body),
        volume=flat(body.find("Journal/JournalIssue/Volume")) or None,
        issue=flat(body.find("Journal/JournalIssue/Issue")) or None,
        pages=flat(body.find("Pagination/MedlinePgn")) or None,
        mesh=tuple(dict.fromkeys(flat(name) for name in cited.iterfind("MeshHeadingList/MeshHeading/DescriptorName"))),
    )
    return Entry(record, own_id=identifiers.pmid)


def _identifiers(item: Element, cited: Element, body: Element) -> Identifiers:
    """The article's own: `ArticleIdList` also stands inside every reference."""
    said = {element.get("EIdType", ""): flat(element) for element in body.iterfind("ELocationID") if element.get("ValidYN", "Y") == "Y"}
    for path in ("PubmedData/ArticleIdList/ArticleId", "PubmedBookData/ArticleIdList/ArticleId"):
        said |= {element.get("IdType", ""): flat(element) for element in item.iterfind(path)}
    return Identifiers(
        doi=normal_doi(said.get("doi", "")), pmid=normal_pmid(flat(cited.find("PMID"))), pmcid=normal_pmcid(said.get("pmc", ""))
    )


def _abstract(body: Element) -> str:
    """Sections on a line each, labelled as the journal did: `METHODS: ...`."""
    sections = ((part.get("Label", ""), flat(part)) for part in body.iterfind("Abstract/AbstractText"))
    return "\n".join(f"{label}: {text}" if label else text for label, text in sections if text)


def _authors(body: Element) -> Iterator[str]:
    """`Surname, Given`; the editors of a book are not its chapters' authors."""
    lists = [people for people in body.iterfind("AuthorList") if people.get("Type", "authors") == "authors"]
    for author in (author for people in lists for author in people.iterfind("Author")):
        parts = (flat(author.find("LastName")), flat(author.find("ForeName")) or flat(author.find("Initials")))
        name = ", ".join(filter(None, parts)) or flat(author.find("CollectiveName"))
        if name:
            yield name


def _year(body: Element) -> int | None:
    """Of the issue, else of the electronic article; `1998 Dec-1999 Jan` counts as its first year."""
    paths = (
        "Journal/JournalIssue/PubDate/Year",
        "Journal/JournalIssue/PubDate/MedlineDate",
        "ArticleDate/Year",
        "Book/PubDate/Year",
        "ContributionDate/Year",
    )
    found = (year_of(flat(body.find(path)))[0] for path in paths)
    return next(filter(None, found), None)


def _language(body: Element) -> str | None:
    """ISO 639-1 where there is one for NLM's three letters (ISO 639-2/B), else those."""
    code = flat(body.find("Language")).lower()
    return TWO_LETTERS.get(code, code) or None


def _references(item: Element) -> Iterator[Edge]:
    for reference in item.iterfind("PubmedData/ReferenceList//Reference"):
        said = {element.get("IdType", ""): flat(element) for element in reference.iterfind("ArticleIdList/ArticleId")}
        edge = cites(normal_doi(said.get("doi", "")), normal_pmid(said.get("pubmed", "")))
        if edge:
            yield edge


def _notices(cited: Element) -> Iterator[Edge]:
    for notice in cited.iterfind("CommentsCorrectionsList/CommentsCorrections"):
        kind, pmid = notice.get("RefType", ""), normal_pmid(flat(notice.find("PMID")))
        if kind in NOTICES and pmid:
            yield Edge(relation=re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower(), target=f"pmid:{pmid}")


def _metadata(cited: Element, body: Element) -> dict[str, JsonValue]:
    qualified: list[JsonValue] = [
        f"{flat(heading.find('DescriptorName'))}/{flat(qualifier)}"
        for heading in cited.iterfind("MeshHeadingList/MeshHeading")
        for qualifier in heading.iterfind("QualifierName")
    ]
    kinds: list[JsonValue] = [flat(kind) for kind in body.iterfind("PublicationTypeList/PublicationType")]
    said: dict[str, JsonValue] = {
        "mesh_qualified": qualified,
        "publication_types": kinds,
        "issn": flat(body.find("Journal/ISSN")),
        "journal_abbreviation": flat(body.find("Journal/ISOAbbreviation")),
    }
    return {name: value for name, value in said.items() if value}
