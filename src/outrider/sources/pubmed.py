"""PubMed by the E-utilities: ESearch and ELink return PMIDs, EFetch articles as XML

Documentation: Sayers E, "The E-utilities In-Depth", https://www.ncbi.nlm.nih.gov/books/NBK25499/, and on limits (3 requests a second,
10 with a key) https://www.ncbi.nlm.nih.gov/books/NBK25497/. ESearch maps bare words to MeSH terms, journals and authors by itself, and
joins the mapped terms with AND: https://pubmed.ncbi.nlm.nih.gov/help/#automatic-term-mapping. Its failures come with status 200.
Up to 200 PMIDs fit into the URL of a GET.

DTD of the XML (`PubmedArticleSet`), parsed one article to one record: https://dtd.nlm.nih.gov/ncbi/pubmed/doc/out/250101/. Both ingested
files and EFetch return it. `mesh` holds the descriptors; qualifiers are in `metadata["mesh_qualified"]`. References are edges `cites`;
retractions and corrections are edges named after PubMed's RefType in snake case (`retraction_in`), and are in `metadata["notices"]` in
PubMed's words. A retracted article has `metadata["retracted"]`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any, NamedTuple, Self
from xml.etree.ElementTree import Element, ParseError  # the types only; defusedxml parses

from pydantic import JsonValue

from outrider.linkage.identifiers import normal_doi, normal_isbn, normal_pmcid, normal_pmid
from outrider.runtime.threads_and_loops import run_in_thread
from outrider.settings.sections import PubmedSettings
from outrider.sources.adapter import (
    ServiceSource,
    build_answer,
    content_words,
    deadline_after,
    half_way,
    match_then_rank,
    query_terms,
    score_results,
)
from outrider.sources.http.client import Caller
from outrider.sources.http.service import Reply, Service
from outrider.sources.json_fields import mapping, text, whole
from outrider.state.citations import BOTH_DIRECTIONS, Direction
from outrider.state.errors import Malformed, RateLimited, SourceError, SourceUnavailable, Unauthorized
from outrider.state.intent import NumberRange
from outrider.state.ports import BooleanQuery, Capabilities, SourceAnswer, SourceQuery
from outrider.state.records import Edge, Identifiers, Paper
from outrider.text.languages_and_work_types import normal_language
from outrider.text.sanitize import element_text, redact

NAME = "pubmed"
WITH_KEY = 10
"""Requests a second with a key, if the settings have the default limit."""
MOST = 200
SPARE = 4
"""PMIDs requested for each identifier: it may match in other fields, too."""
BATCH = 50
"""DOIs that fit into the URL of a GET."""
MOST_WORDS, FEW_WORDS = 6, 3
"""Every word must occur, so many words match nothing. Only the first are used, and fewer if these match nothing."""
FIRST_YEAR, LAST_YEAR = 1500, 3000
"""For a range that is open on one side: ESearch needs both."""
COUNT = re.compile(r"[0-9]{1,12}")
WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")
NORMAL: Mapping[str, Callable[[str], str | None]] = {"pmid": normal_pmid, "doi": normal_doi, "pmcid": normal_pmcid}
WARNINGS = {
    "phrasesnotfound": "knows no",
    "quotedphrasesnotfound": "knows no",
    "fieldsnotfound": "has no field",
    "phrasesignored": "left out",
    "outputmessages": "says",
}
NOTHING = "No items found."
LINKS: Mapping[Direction, str] = {"references": "pubmed_pubmed_refs", "citations": "pubmed_pubmed_citedin"}
"""ELink's names (https://eutils.ncbi.nlm.nih.gov/entrez/query/static/entrezlinks.html)."""
MOST_WARNED = 5
SETS = ("PubmedArticleSet", "PubmedBookArticleSet")
CAPABILITIES = Capabilities(frozenset({"paper"}), frozenset(NORMAL), most=MOST, boolean=True, batch=BATCH)


class PmidList(NamedTuple):
    """The result of ESearch."""

    ids: tuple[str, ...]
    total: int | None
    warned: str
    reply: Reply


class FetchedArticles(NamedTuple):
    """The result of EFetch."""

    papers: Mapping[str, Paper]
    """By PMID."""
    whole: bool
    """Whether the response was complete."""
    reply: Reply


@dataclass(frozen=True, slots=True)
class Pubmed(ServiceSource):
    """A `Source`."""

    capabilities: Capabilities = CAPABILITIES
    name: str = NAME

    @classmethod
    def of(cls, settings: PubmedSettings, caller: Caller) -> Self:
        key = settings.api_key.get_secret_value()
        email = caller.contact if re.fullmatch(r"[^@\s/]+@[^@\s/]+", caller.contact) else ""
        unchanged = settings.requests == PubmedSettings.model_fields["requests"].default
        params = {name: value for name, value in (("api_key", key), ("email", email)) if value}
        service = Service.of(NAME, settings, params=params, keeps=is_cacheable)
        return cls(caller, replace(service, requests=WITH_KEY) if key and unchanged else service, settings.timeout_s)

    async def search(self, query: SourceQuery) -> SourceAnswer:
        until = deadline_after(query.within_s)
        return await match_then_rank(query, lambda boolean: self._match(boolean, query, half_way(until)), lambda: self._rank(query, until))

    async def _match(self, boolean: BooleanQuery, query: SourceQuery, until: float) -> SourceAnswer:
        pmids = await self._find_pmids(boolean.expression, query, until)
        fetched = await self._fetch_articles(pmids.ids, until) if pmids.ids else None
        return build_search_answer(pmids, fetched, min(query.limit, MOST), "")

    async def _rank(self, query: SourceQuery, until: float) -> SourceAnswer:
        every = search_words(query)
        if not every:
            return SourceAnswer(())
        words = every[:MOST_WORDS]
        pmids = await self._find_pmids(" ".join(words), query, until)
        if not pmids.ids and len(words) > FEW_WORDS:
            words = every[:FEW_WORDS]
            pmids = await self._find_pmids(" ".join(words), query, until)
        fewer = f"searched for {' '.join(words)} alone, because every word must occur" if len(words) < len(every) else ""
        return build_search_answer(
            pmids, await self._fetch_articles(pmids.ids, until) if pmids.ids else None, min(query.limit, MOST), fewer
        )

    async def get(self, scheme: str, value: str, within_s: float) -> Paper | None:
        return (await self.get_many(scheme, (value,), within_s)).get(value)

    async def get_many(self, scheme: str, values: Sequence[str], within_s: float) -> Mapping[str, Paper]:
        until = deadline_after(within_s)
        named = {value: own for value in values if scheme in NORMAL and (own := NORMAL[scheme](value))}
        if not named:
            return {}
        ids: Iterable[str] = dict.fromkeys(named.values())
        if scheme != "pmid":
            term = " OR ".join(f'"{own}"[{scheme}]' for own in ids)
            ids = (await self._search_pmids({"term": term, "retmax": SPARE * len(named)}, until)).ids
        papers = (await self._fetch_articles(ids, until)).papers if ids else {}
        # Checked again: ESearch searches all fields for an identifier that it does not find in its own.
        by_own = {getattr(paper.identifiers, scheme): paper for paper in papers.values()}
        return {value: by_own[own] for value, own in named.items() if own in by_own}

    @property
    def directions(self) -> frozenset[Direction]:
        return BOTH_DIRECTIONS

    @property
    def schemes(self) -> tuple[str, ...]:
        return ("pmid",)

    async def references(self, scheme: str, value: str, within_s: float, limit: int) -> SourceAnswer:
        """The PMIDs that it cites, as far as the reference list is in PubMed Central or of its publisher."""
        return await self._find_links(LINKS["references"], scheme, value, within_s, limit)

    async def citations(self, scheme: str, value: str, within_s: float, limit: int) -> SourceAnswer:
        """The PMIDs that cite it, of articles in PubMed Central."""
        return await self._find_links(LINKS["citations"], scheme, value, within_s, limit)

    async def _find_links(self, link: str, scheme: str, value: str, within_s: float, limit: int) -> SourceAnswer:
        pmid = normal_pmid(value) if scheme == "pmid" else None
        if pmid is None:
            return SourceAnswer(())
        params = {"dbfrom": "pubmed", "db": "pubmed", "linkname": link, "cmd": "neighbor", "tool": "outrider", "id": pmid}
        reply = await self._request("elink", params, deadline_after(within_s))
        pmids, complete = await run_in_thread(lambda: parse_links(reply, link))
        works = [Paper(doc_id=f"{NAME}:{own}", source=NAME, identifiers=Identifiers(pmid=own)) for own in pmids[:limit] if own != pmid]
        broken = "" if complete else "its response was cut short"
        return build_answer(score_results([(work, None) for work in works]), len(pmids), [reply], missing=broken)

    async def _find_pmids(self, term: str, query: SourceQuery, until: float) -> PmidList:
        params = {"term": term, "retmax": min(query.limit, MOST), **date_params(query.constraints.years)}
        pmids = await self._search_pmids(params, until)
        return pmids._replace(ids=pmids.ids[: min(query.limit, MOST)])

    async def _search_pmids(self, params: Mapping[str, str | int], until: float) -> PmidList:
        payload = {"db": "pubmed", "retmode": "json", "sort": "relevance", "tool": "outrider", **params}
        reply, most = await self._request("esearch", payload, until), int(params["retmax"])
        await reply.decode(most)
        return parse_search(reply, most)

    async def _fetch_articles(self, ids: Iterable[str], until: float) -> FetchedArticles:
        named = list(ids)
        payload = {"db": "pubmed", "retmode": "xml", "tool": "outrider", "id": ",".join(named)}
        reply = await self._request("efetch", payload, until)
        return await run_in_thread(lambda: parse_articles(reply, len(named)))  # megabytes of XML

    async def _request(self, tool: str, params: Mapping[str, str | int], until: float) -> Reply:
        """Accepts status 400, the answer to an unknown key and to the number of no article."""
        path, left_s = f"/entrez/eutils/{tool}.fcgi", until - time.monotonic()
        return await self.caller.get(self.service, path, params, within_s=left_s, accept=frozenset({200, 400}))


def parse_links(reply: Reply, link: str) -> tuple[tuple[str, ...], bool]:
    """The PMIDs of one kind of link, up to a truncation, and whether the response was complete.

    From `<eLinkResult><LinkSet><LinkSetDb><LinkName>...<Link><Id>`; an unknown PMID has a `LinkSet` without links, or an `ERROR`.
    """
    from defusedxml.ElementTree import iterparse

    if reply.body.startswith(b"{") and (problem := text(mapping(reply.json()).get("error"))):
        raise classify_refusal(problem)
    ids: dict[str, None] = {}
    root: Element | None = None
    name, error, complete = "", "", True
    try:
        for event, element in iterparse(BytesIO(reply.body), events=("start", "end")):
            root = element if root is None else root
            if event == "end" and element.tag == "LinkName":
                name = element_text(element)
            elif event == "end" and element.tag == "Link" and name == link and (pmid := normal_pmid(element_text(element))):
                ids[pmid] = None
            elif event == "end" and element.tag == "ERROR":
                error = element_text(element)
    except (ParseError, LookupError, ValueError):  # cut short, an unknown encoding, or declared entities
        complete = False
    if root is None or root.tag != "eLinkResult":
        raise Malformed(f"{NAME} did not answer with a list of links; the response begins {reply.body[:40].decode(errors='replace')!r}")
    if error and not ids and "invalid" not in error.lower():
        raise SourceUnavailable(f"{NAME} could not list links: {redact(error, '')}")
    return tuple(ids), complete


def is_cacheable(reply: Reply) -> bool:
    """False for a failure with status 200, and for an incomplete response."""
    if b"<eLinkResult" in reply.body[:1_000]:
        return reply.body.rstrip().endswith(b"</eLinkResult>") and b"<ERROR>" not in reply.body
    if not reply.body.lstrip().startswith(b"{"):
        return reply.body.rstrip().endswith(tuple(f"</{name}>".encode() for name in SETS))
    try:
        parse_search(reply)
    except SourceError:
        return False
    return True


def search_words(query: SourceQuery) -> list[str]:
    """Search words in lower case and without punctuation, so that none is an operator, tag or wildcard."""
    return content_words(query_terms(query), WORD)


def date_params(years: NumberRange) -> dict[str, str | int]:
    """Parameters for a range of publication years."""
    if years.min is None and years.max is None:
        return {}
    low, high = years.min if years.min is not None else FIRST_YEAR, years.max if years.max is not None else LAST_YEAR
    return {"datetype": "pdat", "mindate": f"{low:04d}", "maxdate": f"{high:04d}"}


def parse_search(reply: Reply, most: int | None = None) -> PmidList:
    """The first `most` PMIDs, or all.

    From `{"esearchresult": {"count": "2", "idlist": ["1", "2"], "errorlist": ..., "warninglist": ...}}`, or an `ERROR` in its place.
    """
    payload = mapping(reply.json())
    result = mapping(payload.get("esearchresult"))
    if problem := text(payload.get("error")):
        raise classify_refusal(problem)
    if result.get("ERROR"):
        raise SourceUnavailable(f"{NAME} could not search: {redact(result['ERROR'], '')}")
    if not isinstance(result.get("idlist"), list):
        raise Malformed(f"{NAME} answered without a list of PMIDs")
    ids = dict.fromkeys(pmid for one in clean_texts(result["idlist"][:most]) if (pmid := normal_pmid(one)))
    count = next(iter(clean_texts(result.get("count"))), "")
    return PmidList(tuple(ids), int(count) if COUNT.fullmatch(count) else None, format_warnings(result), reply)


def classify_refusal(problem: str) -> SourceError:
    """For `{"error": "API rate limit exceeded", "api-key": ..., "count": "4", "limit": "3"}`, which either tool answers."""
    if "api key" in problem.lower():
        return Unauthorized(f"{NAME} does not accept the key; check sources.{NAME}.api_key or NCBI_API_KEY, or remove it")
    return (RateLimited if "rate limit" in problem.lower() else SourceUnavailable)(f"{NAME} answered: {redact(problem, '')}")


def format_warnings(result: Mapping[str, Any]) -> str:
    """The parts of the query that ESearch could not use."""
    lists = [mapping(result.get(name)) for name in ("errorlist", "warninglist")]
    warned = []
    for name, verb in WARNINGS.items():
        named = [one for part in lists for one in clean_texts(part.get(name)) if one != NOTHING]
        if named:
            warned.append(f"it {verb} {redact(', '.join(dict.fromkeys(named[:MOST_WARNED])), '')}")
    return "; ".join(warned)


def clean_texts(value: Any) -> list[str]:
    """The texts and whole numbers in a list; a list of one may come as the one."""
    every = value if isinstance(value, list) else [value]
    cleaned = (text(one) if isinstance(one, str) else str(number) if (number := whole(one)) is not None else "" for one in every)
    return [one for one in cleaned if one]


def parse_articles(reply: Reply, most: int | None = None) -> FetchedArticles:
    """The first `most` articles of a `PubmedArticleSet`, or all, up to a truncation; none for an `eFetchResult` without such a PMID."""
    if reply.body.startswith(b"{") and (problem := text(mapping(reply.json()).get("error"))):
        raise classify_refusal(problem)
    root, articles, complete = read_article_elements(reply.body, most)
    if root is not None and root.tag == "eFetchResult":
        payload = element_text(root)
        if not complete or "ID list is empty" not in payload:
            raise SourceUnavailable(f"{NAME} could not fetch: {redact(payload, '')}")
    elif root is None or root.tag not in SETS or not (articles or complete):
        begins = reply.body[:40].decode(errors="replace")
        raise Malformed(f"{NAME} did not answer with PubMed XML that has a complete article; the response begins {begins!r}")
    papers = [parse_paper(item) for item in articles]
    named = {paper.identifiers.pmid: paper for paper in papers if paper is not None and paper.identifiers.pmid}
    return FetchedArticles(
        {pmid: paper.model_copy(update={"doc_id": f"{NAME}:{pmid}", "source": NAME}) for pmid, paper in named.items()}, complete, reply
    )


def read_article_elements(body: bytes, most: int | None = None) -> tuple[Element | None, list[Element], bool]:
    """The root, the elements of the first `most` whole articles, and whether these could be read."""
    from defusedxml.ElementTree import iterparse

    root: Element | None = None
    articles: list[Element] = []
    try:
        for event, element in iterparse(BytesIO(body), events=("start", "end")):
            root = element if root is None else root
            if event == "end" and element.tag in ARTICLES:
                articles.append(element)
                if len(articles) == most:
                    break
    except (ParseError, LookupError, ValueError):  # cut short, an unknown encoding, or declared entities
        return root, articles, False
    return root, articles, True


def build_search_answer(pmids: PmidList, fetched: FetchedArticles | None, limit: int, fewer: str) -> SourceAnswer:
    """The articles in the order of ESearch; PubMed gives no scores."""
    papers = [paper for pmid in pmids.ids if (paper := fetched.papers.get(pmid))] if fetched else []
    named, missing = len(pmids.ids), len(pmids.ids) - len(papers)
    notes = (
        fewer,
        pmids.warned,
        f"it counts {pmids.total:,} and returned {named:,} numbers" if pmids.total is not None and named != min(pmids.total, limit) else "",
        f"{missing:,} of the {named:,} numbers have no record" if missing else "",
    )
    broken = "its response was cut short" if fetched and not fetched.whole else ""
    replies = [pmids.reply, *([fetched.reply] if fetched else [])]
    return build_answer(score_results([(paper, None) for paper in papers]), pmids.total, replies, notes=notes, missing=broken)


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
        language="; ".join(filter(None, (normal_language(element_text(one)) for one in body.iterfind("Language")))) or None,
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
