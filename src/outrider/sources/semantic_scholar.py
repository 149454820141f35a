"""Semantic Scholar: papers of all fields with abstracts, citation counts and citation links

Follows the Academic Graph API 1.0, https://api.semanticscholar.org/api-docs/graph, under `/graph/v1/paper`: `search` by relevance
(100 a page, 1,000 in all), `search/bulk` by a Boolean expression (1,000 a page, continued with a token), `batch` (500 ids), `{id}`,
`{id}/references` and `{id}/citations` (1,000 a page, 9,999 in all). One request a second with a key; without one all anonymous
users share one pool, which is often used up (429).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from pydantic import JsonValue

from outrider.linkage.identifiers import normal_arxiv, normal_doi, normal_pmcid, normal_pmid
from outrider.runtime.threads_and_loops import unless_abandoned
from outrider.sources import json_fields as fields
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
from outrider.sources.http.service import Reply, Service, parse_in_thread
from outrider.state.citations import BOTH_DIRECTIONS, Direction
from outrider.state.errors import Forbidden, Malformed, SourceError, SourceTimeout, Unauthorized
from outrider.state.intent import NumberRange
from outrider.state.ports import BooleanQuery, Capabilities, SourceAnswer, SourceQuery
from outrider.state.records import Identifiers, Paper, Record
from outrider.text.sanitize import redact
from outrider.text.words import stems

if TYPE_CHECKING:
    from outrider.settings.sections import SemanticScholarSettings
    from outrider.sources.http.client import Caller, Params

NAME = "semantic_scholar"
FIELDS = (
    "title,abstract,year,publicationDate,venue,publicationVenue,journal,authors,externalIds,url,citationCount,openAccessPdf,"
    "publicationTypes,fieldsOfStudy"
)
"""Fields that are requested; `paperId` is always returned."""
DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
ID = re.compile(r"[\w:.-]{1,100}", re.ASCII)
PAPERS = "/graph/v1/paper"
RELEVANCE = "relevance"
PAGE, MOST = 100, 999
LINKS_PAGE, MOST_LINKS = 1_000, 9_999
BATCH = 500
MOST_WORDS = 8
"""Every word must be found ("by default all terms in the query must be present"): few papers contain more."""
WORD = re.compile(r"[^\s\u2010-\u2015-]+")
"""The documentation: "hyphenated query terms yield no matches (replace it with space to find matches)"."""
AROUND = ".,;:!?()[]{}'\"\u2018\u2019\u201c\u201d"
OWN_ID = re.compile(r"[0-9a-f]{40}|corpusid:\d{1,18}", re.IGNORECASE)
ID_PREFIXES: Mapping[str, tuple[str, Callable[[str], str | None]]] = MappingProxyType(
    {"doi": ("DOI:", normal_doi), "arxiv": ("ARXIV:", normal_arxiv), "pmid": ("PMID:", normal_pmid), "pmcid": ("PMCID:", normal_pmcid)}
)
SCHEMES = frozenset({*ID_PREFIXES, "s2"})
CAPABILITIES = Capabilities(frozenset({"paper"}), SCHEMES, MOST, queries=1, batch=BATCH, boolean=True)
"""One query, which is a request for its Boolean form and one for its words: at one request a second, a third would be too late."""


@dataclass(frozen=True, slots=True)
class SemanticScholar(ServiceSource):
    """A `Source`, with the service's bulk search, batches and citation links."""

    name: str = NAME

    @classmethod
    def of(cls, settings: SemanticScholarSettings, caller: Caller) -> Self:
        key = settings.api_key.get_secret_value()
        service = Service.of(NAME, settings, headers={"x-api-key": key} if key else {})
        return cls(caller, service, settings.timeout_s, CAPABILITIES)

    async def search(self, query: SourceQuery) -> SourceAnswer:
        until = deadline_after(query.within_s)
        return await match_then_rank(query, lambda boolean: self._match(boolean, query, half_way(until)), lambda: self._rank(query, until))

    async def _match(self, boolean: BooleanQuery, query: SourceQuery, until: float) -> SourceAnswer:
        """Of the first page of the bulk search, which has the most cited matches, the best by their words."""
        years = year_range(query.constraints.years)
        params = {"query": boolean.expression, "fields": FIELDS, "sort": "citationCount:desc", **years}
        reply = await self._get(f"{PAPERS}/search/bulk", params, _left_s(until))
        page = await _read_page(reply)
        best = await parse_in_thread([reply], lambda: rank_by_words(page.papers, query.text)[: query.limit])
        return build_answer(score_results([(paper, None) for paper in best]), page.total, [reply], page.entries - len(page.papers))

    async def _rank(self, query: SourceQuery, until: float) -> SourceAnswer:
        words = search_words(query)
        if not words:
            return SourceAnswer(())
        params = {"query": words, "fields": f"{FIELDS},tldr", **year_range(query.constraints.years)}
        return await self._pages(_ListRequest(f"{PAPERS}/search", params, PAGE, min(query.limit, MOST)), until)

    async def get(self, scheme: str, value: str, within_s: float) -> Record | None:
        paper = paper_id(scheme, value)
        if paper is None:
            return None
        path = f"{PAPERS}/{quote(paper, safe='')}"
        reply = await self._get(path, {"fields": f"{FIELDS},tldr"}, within_s, frozenset({200, 404}))
        if reply.status == 404:
            return None
        payload = reply.json()
        if not isinstance(payload, dict):
            raise Malformed(f"{reply.url} did not answer with a paper")
        return parse_paper(payload)

    async def get_many(self, scheme: str, values: Sequence[str], within_s: float) -> Mapping[str, Record]:
        papers = await self.batch([(scheme, value) for value in values], within_s)
        return {value: paper for value, paper in zip(values, papers, strict=True) if paper}

    async def batch(self, ids: Sequence[tuple[str, str]], within_s: float) -> tuple[Paper | None, ...]:
        """The papers with these (scheme, value), in their order; None for papers that the service does not have."""
        until = deadline_after(within_s)
        paper_ids = [paper_id(scheme, value) for scheme, value in ids]
        unique_ids = list(dict.fromkeys(filter(None, paper_ids)))
        known: dict[str, Paper | None] = {}
        for at in range(0, len(unique_ids), BATCH):
            part = unique_ids[at : at + BATCH]
            params = {"fields": f"{FIELDS},tldr"}
            try:
                reply = await self.caller.post(self.service, f"{PAPERS}/batch", {"ids": part}, params, within_s=_left_s(until))
            except Forbidden as error:
                raise self._explain_refusal(error) from error
            payload = await reply.decode(BATCH)
            if not isinstance(payload, list) or len(payload) != len(part):
                raise Malformed(f"{reply.url} did not answer with one paper for each of {len(part)} ids")
            known |= zip(part, map(parse_paper, payload), strict=True)
        return tuple(known[own] if own else None for own in paper_ids)

    @property
    def directions(self) -> frozenset[Direction]:
        return BOTH_DIRECTIONS

    @property
    def schemes(self) -> tuple[str, ...]:
        return ("s2", *ID_PREFIXES)

    async def references(self, scheme: str, value: str, within_s: float, limit: int = MOST_LINKS) -> SourceAnswer:
        """The papers that it cites, in the service's order. Entries without an id, which match no paper, are skipped."""
        return await self._links("references", "citedPaper", paper_id(scheme, value), limit, within_s)

    async def citations(self, scheme: str, value: str, within_s: float, limit: int = MOST_LINKS) -> SourceAnswer:
        """The papers that cite it, in the service's order."""
        return await self._links("citations", "citingPaper", paper_id(scheme, value), limit, within_s)

    async def bulk(self, expression: str, within_s: float, token: str = "", years: NumberRange | None = None) -> PapersPage:
        """One page of all matches, sorted by the service's id. The page's `token` requests the next one.

        The expression is the service's: `+` and, `|` or, `-` not, `"phrase"`, `prefix*`, `word~2`, parentheses. `total` is an estimate.
        """
        params = {"query": expression, "fields": FIELDS, "sort": "paperId:asc", **year_range(years or NumberRange())}
        reply = await self._get(f"{PAPERS}/search/bulk", {**params, "token": token} if token else params, within_s)
        return await _read_page(reply)

    async def _links(self, kind: str, within: str, paper: str | None, limit: int, within_s: float) -> SourceAnswer:
        if paper is None:
            return SourceAnswer(())
        path = f"{PAPERS}/{quote(paper, safe='')}/{kind}"
        links = _ListRequest(path, {"fields": FIELDS}, LINKS_PAGE, min(limit, MOST_LINKS), within, frozenset({200, 404}))
        return await self._pages(links, deadline_after(within_s))

    async def _pages(self, listed: _ListRequest, until: float) -> SourceAnswer:
        """One page after another: the service's limit allows no two at a time. Pages before a failure are used."""
        results, offset = _Results(listed.limit), 0
        while offset < listed.limit:
            window = {"offset": offset, "limit": min(listed.page, listed.limit - offset)}
            try:
                reply = await self._get(listed.path, {**listed.params, **window}, _left_s(until), listed.accept)
                page = await _read_page(reply, listed.within, window["limit"]) if reply.status == 200 else NO_PAPERS
            except SourceError as error:
                if not results.papers:
                    raise
                return results.answer(error)
            results.add(reply, page)
            if not page.entries or page.following is None or page.following <= offset:
                break
            offset = page.following
        return results.answer()

    async def _get(self, path: str, params: Params, within_s: float, accept: frozenset[int] = frozenset({200})) -> Reply:
        try:
            return await self.caller.get(self.service, path, params, within_s=within_s, accept=accept)
        except Forbidden as error:
            raise self._explain_refusal(error) from error

    def _explain_refusal(self, error: Forbidden) -> SourceError:
        """An unknown key is answered with 403."""
        return Unauthorized(f"{error}; check the key of {NAME}, or remove it to search without one") if self.service.headers else error


@dataclass(frozen=True, slots=True)
class _ListRequest:
    """A list that is read page by page."""

    path: str
    params: Mapping[str, str]
    page: int
    limit: int
    within: str = ""
    """The key under which each paper is nested."""
    accept: frozenset[int] = frozenset({200})


@dataclass(slots=True)
class _Results:
    """The pages so far."""

    limit: int
    papers: list[Paper] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    entries: int = 0
    total: int | None = None

    def add(self, reply: Reply, page: PapersPage) -> None:
        self.papers += page.papers
        self.replies.append(reply)
        self.entries += page.entries
        self.total = page.total if page.total is not None else self.total

    def answer(self, failed: SourceError | None = None) -> SourceAnswer:
        if not self.replies:
            return SourceAnswer(())
        missing, retry_at = "", None
        if failed:
            missing, retry_at = f"only the first {self.entries} were received: {failed}", failed.retry_at
        elif self.total is not None and self.entries < min(self.total, self.limit):
            missing = f"it reports {self.total} and returned {self.entries}"
        results = score_results([(paper, None) for paper in self.papers])[: self.limit]
        return build_answer(results, self.total, self.replies, self.entries - len(self.papers), missing=missing, retry_at=retry_at)


@dataclass(frozen=True, slots=True)
class PapersPage:
    """One page of a list. `entries` counts them, `papers` holds the usable ones."""

    papers: tuple[Paper, ...]
    entries: int
    total: int | None
    following: int | None
    """The offset of the next page."""
    token: str
    """Of the next page in a bulk search."""


NO_PAPERS = PapersPage((), 0, 0, None, "")


async def _read_page(reply: Reply, within: str = "", most: int | None = None) -> PapersPage:
    payload = await reply.decode(most)
    return await parse_in_thread([reply], lambda: parse_page(payload, within, most))


def _left_s(until: float) -> float:
    left_s = until - time.monotonic()
    if left_s <= 0:
        raise SourceTimeout(f"the time limit for {NAME} was reached before all requests were sent")
    return left_s


def rank_by_words(papers: Sequence[Paper], text: str) -> list[Paper]:
    """Best first by BM25+ over title and abstract; ties keep their order."""
    from rank_bm25 import BM25Plus

    documents = [stems(f"{paper.title} {paper.abstract}") for paper in papers]
    if not any(documents):
        return list(papers)
    scores = BM25Plus(documents).get_scores(list(dict.fromkeys(stems(text))))
    return [papers[place] for place in sorted(range(len(papers)), key=lambda place: (-scores[place], place))]


def search_words(query: SourceQuery) -> str:
    """The first content words as written, split at hyphens."""
    return " ".join(content_words(query_terms(query), WORD, AROUND, lower=False)[:MOST_WORDS])


def year_range(years: NumberRange) -> dict[str, str]:
    """`2019`, `2016-2020`, `2010-` or `-2015`, both ends included."""
    if years.min is None and years.max is None:
        return {}
    low, high = ("" if bound is None else str(bound) for bound in (years.min, years.max))
    return {"year": low if low == high else f"{low}-{high}"}


def paper_id(scheme: str, value: str) -> str | None:
    """An identifier in the service's notation, such as `DOI:10.1/x`, `PMCID:123`; None for an unknown scheme or an invalid value."""
    if scheme == "s2":
        return value if OWN_ID.fullmatch(value) else None
    prefix, normal = ID_PREFIXES.get(scheme, ("", str))
    plain = normal(value) if prefix else None
    return f"{prefix}{plain.removeprefix('PMC')}" if plain else None


def parse_page(answer: Any, within: str = "", most: int | None = None) -> PapersPage:
    """`{"total", "offset", "next" or "token", "data": [...]}`; each paper may be nested under a key such as `citedPaper`.

    `data` is absent if `total` is 0, and null if a publisher withholds a list. Papers after the first `most` were not requested.
    """
    listed = fields.mapping(answer).get("data")
    if listed is None and fields.mapping(answer).keys() & {"data", "total", "offset"}:
        listed = []
    if not isinstance(listed, list):
        raise Malformed(f"{NAME} did not answer with a list of papers: {redact(answer, '')}")
    listed = listed[:most]
    papers = [parse_paper(fields.mapping(one).get(within) if within else one) for one in unless_abandoned(listed)]
    total, following = fields.whole(answer.get("total")), fields.whole(answer.get("next"))
    return PapersPage(tuple(paper for paper in papers if paper), len(listed), total, following, fields.text(answer.get("token")))


def parse_paper(answer: Any) -> Paper | None:
    """None without an id of the service: it could neither be looked up again nor distinguished from others."""
    paper = fields.mapping(answer)
    identifiers, journal = parse_identifiers(paper), fields.mapping(paper.get("journal"))
    if identifiers.s2 is None:
        return None
    volume = fields.text(journal.get("volume"))
    venues = (fields.mapping(paper.get("publicationVenue")).get("name"), paper.get("venue"), journal.get("name"))
    return Paper(
        doc_id=f"{NAME}:{identifiers.s2}",
        source=NAME,
        title=fields.title(paper.get("title")),
        abstract=fields.plain(paper.get("abstract")),
        url=fields.link(paper.get("url")),
        identifiers=identifiers,
        authors=clean_texts(fields.mapping(one).get("name") for one in fields.items(paper.get("authors"))),
        year=fields.year(paper.get("year")),
        venue=next(filter(None, map(fields.title, venues)), None),
        citations=fields.whole(paper.get("citationCount")),
        tags=tuple(dict.fromkeys(clean_texts(fields.items(paper.get("fieldsOfStudy"))))),
        volume=None if volume.startswith("abs/") else volume or None,  # of a preprint on arXiv: its number there, no volume
        pages=fields.text(journal.get("pages")) or None,
        metadata=collect_metadata(paper),
    )


def parse_identifiers(paper: Mapping[str, Any]) -> Identifiers:
    names = fields.mapping(paper.get("externalIds"))
    own, corpus_id = fields.text(paper.get("paperId")), parse_digits(names.get("CorpusId"))
    return Identifiers(
        doi=normal_doi(fields.text(names.get("DOI"))),
        arxiv=normal_arxiv(fields.text(names.get("ArXiv"))),
        pmid=normal_pmid(parse_digits(names.get("PubMed"))),
        pmcid=normal_pmcid("PMC" + parse_digits(names.get("PubMedCentral"))),
        s2=own if ID.fullmatch(own) else f"CorpusId:{corpus_id}" if corpus_id else None,
    )


def collect_metadata(paper: Mapping[str, Any]) -> dict[str, JsonValue]:
    published = fields.text(paper.get("publicationDate"))
    known: dict[str, JsonValue] = {
        "published": published if DATE.fullmatch(published) else None,
        "tldr": fields.plain(fields.mapping(paper.get("tldr")).get("text")),
        "pdf_url": fields.link(fields.mapping(paper.get("openAccessPdf")).get("url")),
        "publication_types": list(clean_texts(fields.items(paper.get("publicationTypes")))),
        "corpus_id": parse_digits(fields.mapping(paper.get("externalIds")).get("CorpusId")),
    }
    return {name: value for name, value in known.items() if value}


def clean_texts(values: Iterable[Any]) -> tuple[str, ...]:
    return tuple(filter(None, map(fields.text, values)))


def parse_digits(value: Any) -> str:
    """A number that is given as a number, as text, or as text after `PMC`; empty for anything else."""
    text = str(fields.whole(value) or "") or fields.text(value).upper().removeprefix("PMC")
    return text if text.isascii() and text.isdigit() and len(text) < 16 else ""
