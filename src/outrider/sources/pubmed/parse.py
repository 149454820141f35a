"""PubMed's XML (`PubmedArticleSet`): one article to one record

DTD: https://dtd.nlm.nih.gov/ncbi/pubmed/doc/out/250101/. Both ingested files and EFetch return it. `mesh` holds the descriptors;
qualifiers are in `metadata["mesh_qualified"]`. References are edges `cites`; retractions and corrections are edges named after PubMed's
RefType in snake case (`retraction_in`), and are in `metadata["notices"]` in PubMed's words. A retracted article has
`metadata["retracted"]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from xml.etree.ElementTree import Element  # the type only; defusedxml parses

from pydantic import JsonValue

from outrider.linkage.identifiers import normal_doi, normal_isbn, normal_pmcid, normal_pmid
from outrider.state.records import Edge, Identifiers, Paper
from outrider.text.languages_and_work_types import normal_language
from outrider.text.sanitize import element_text

ARTICLES = ("PubmedArticle", "PubmedBookArticle")
NOTICES = (
    "RetractionIn",
    "RetractionOf",
    "ExpressionOfConcernIn",
    "ExpressionOfConcernFor",
    "ErratumIn",
    "ErratumFor",
    "CorrectedandRepublishedIn",
    "CorrectedandRepublishedFrom",
    "RetractedandRepublishedIn",
    "RetractedandRepublishedFrom",
    "RepublishedIn",
    "RepublishedFrom",
    "UpdateIn",
    "UpdateOf",
)
RETRACTED_BY = frozenset({"retraction_in", "retracted_and_republished_in"})
NO_TITLE = re.compile(r"\[?not available\]?\.?", re.IGNORECASE)
"""PubMed's text for a title without a translation."""
YEAR = re.compile(r"(?<!\d)(1\d{3}|20\d{2}|21\d{2})(?!\d)")
YEARS = (
    "Journal/JournalIssue/PubDate/Year",
    "Journal/JournalIssue/PubDate/MedlineDate",
    "ArticleDate/Year",
    "Book/PubDate/Year",
    "Book/PubDate/MedlineDate",
    "ContributionDate/Year",
)
"""By preference: of the issue, else of the electronic article; of `1998 Dec-1999 Jan` the first year."""
BOOK = "Book/BookTitle"


def parse_paper(item: Element) -> Paper | None:
    """The record of an element of `ARTICLES`, its `doc_id` empty; None for one with neither a title nor an identifier."""
    cited = next((part for part in item if part.tag in ("MedlineCitation", "BookDocument")), None)
    if cited is None:
        return None
    article = cited.find("Article")
    body = article if article is not None else cited
    title, identifiers = _title(body), _identifiers(item, cited, body)
    if not title and not any(identifiers.pairs()):
        return None
    notices = (Edge(relation=kind, target=f"pmid:{pmid}") for kind, pmid, _ in _notices(cited) if pmid)
    return Paper(
        doc_id="",
        title=title,
        abstract=_abstract(body.iterfind("Abstract")) or _abstract(cited.iterfind("OtherAbstract")),
        identifiers=identifiers,
        authors=tuple(dict.fromkeys(_authors(body))),
        year=next((int(match.group()) for path in YEARS if (match := YEAR.search(element_text(body.find(path))))), None),
        venue=element_text(body.find("Journal/Title"))
        or element_text(body.find("Journal/ISOAbbreviation"))
        or element_text(body.find(BOOK))
        or None,
        language=normal_language(element_text(body.find("Language"))),
        tags=_unique_texts(cited.iterfind("KeywordList/Keyword")),
        edges=tuple(dict.fromkeys((*_references(item), *notices))),
        metadata=_metadata(cited, body),
        volume=element_text(body.find("Journal/JournalIssue/Volume")) or None,
        issue=element_text(body.find("Journal/JournalIssue/Issue")) or None,
        pages=element_text(body.find("Pagination/MedlinePgn")) or None,
        mesh=_unique_texts(cited.iterfind("MeshHeadingList/MeshHeading/DescriptorName")),
    )


def _unique_texts(elements: Iterable[Element]) -> tuple[str, ...]:
    """Texts without duplicates."""
    return tuple(dict.fromkeys(filter(None, map(element_text, elements))))


def _title(body: Element) -> str:
    """PubMed's title (a translation in brackets if the article's is not English), else the article's own, else the book's."""
    title = element_text(body.find("ArticleTitle"))
    return ("" if NO_TITLE.fullmatch(title) else title) or element_text(body.find("VernacularTitle")) or element_text(body.find(BOOK))


def _identifiers(item: Element, cited: Element, body: Element) -> Identifiers:
    """The article's own: `ArticleIdList` also occurs inside every reference, and a chapter does not have the ISBN of its book."""
    ids = {
        element.get("EIdType", ""): element_text(element) for element in body.iterfind("ELocationID") if element.get("ValidYN", "Y") == "Y"
    }
    for path in ("BookDocument/ArticleIdList/ArticleId", "PubmedData/ArticleIdList/ArticleId", "PubmedBookData/ArticleIdList/ArticleId"):
        ids |= {element.get("IdType", ""): element_text(element) for element in item.iterfind(path)}
    whole_book = body.find("ArticleTitle") is None
    return Identifiers(
        doi=normal_doi(ids.get("doi", "")),
        pmid=normal_pmid(element_text(cited.find("PMID"))) or normal_pmid(ids.get("pubmed", "")),
        pmcid=normal_pmcid(ids.get("pmc", "")),
        isbn=normal_isbn(element_text(body.find("Book/Isbn"))) if whole_book else None,
    )


def _abstract(abstracts: Iterator[Element]) -> str:
    """The first abstract, one section a line with the journal's label: `METHODS: ...`."""
    first = next(abstracts, None)
    sections = ((part.get("Label", ""), element_text(part)) for part in first.iterfind("AbstractText")) if first is not None else ()
    return "\n".join(f"{label}: {text}" if label else text for label, text in sections if text)


def _authors(body: Element) -> Iterator[str]:
    """`Surname, Given`; the editors of a book are not authors of its chapters."""
    lists = [*body.iterfind("AuthorList"), *(() if body.find("ArticleTitle") is not None else body.iterfind("Book/AuthorList"))]
    people = (author for one in lists if one.get("Type", "authors") == "authors" for author in one.iterfind("Author"))
    for author in people:
        parts = (element_text(author.find("LastName")), element_text(author.find("ForeName")) or element_text(author.find("Initials")))
        if name := ", ".join(filter(None, parts)) or element_text(author.find("CollectiveName")):
            yield name


def _references(item: Element) -> Iterator[Edge]:
    for path in ("PubmedData/ReferenceList//Reference", "BookDocument/ReferenceList//Reference"):
        for reference in item.iterfind(path):
            ids = {element.get("IdType", ""): element_text(element) for element in reference.iterfind("ArticleIdList/ArticleId")}
            doi, pmid = normal_doi(ids.get("doi", "")), normal_pmid(ids.get("pubmed", ""))
            if doi or pmid:
                yield Edge(relation="cites", target=f"doi:{doi}" if doi else f"pmid:{pmid}")


def _notices(cited: Element) -> Iterator[tuple[str, str | None, str]]:
    """Kind, PMID and wording of notices about this article, or of this article about another."""
    for notice in cited.iterfind("CommentsCorrectionsList/CommentsCorrections"):
        kind = notice.get("RefType", "")
        if kind in NOTICES:
            name = re.sub(r"(?<!^)(?=[A-Z])", "_", kind.replace("and", "And")).lower()
            yield name, normal_pmid(element_text(notice.find("PMID"))), element_text(notice.find("RefSource"))


def _metadata(cited: Element, body: Element) -> dict[str, JsonValue]:
    qualified = (
        f"{element_text(heading.find('DescriptorName'))}/{element_text(qualifier)}"
        for heading in cited.iterfind("MeshHeadingList/MeshHeading")
        for qualifier in heading.iterfind("QualifierName")
    )
    kinds = _unique_texts((*body.iterfind("PublicationTypeList/PublicationType"), *body.iterfind("PublicationType")))
    notices = list(_notices(cited))
    vernacular = element_text(body.find("VernacularTitle"))
    metadata: dict[str, JsonValue] = {
        "mesh_qualified": list(qualified),
        "publication_types": list(kinds),
        "retracted": "Retracted Publication" in kinds or any(kind in RETRACTED_BY for kind, *_ in notices),
        "notices": [{"kind": kind, "pmid": pmid, "source": source} for kind, pmid, source in notices],
        "vernacular_title": vernacular if vernacular != _title(body) else "",
        "issn": element_text(body.find("Journal/ISSN")),
        "journal_abbreviation": element_text(body.find("Journal/ISOAbbreviation")),
        "publisher": element_text(body.find("Book/Publisher/PublisherName")),
    }
    return {name: value for name, value in metadata.items() if value}
