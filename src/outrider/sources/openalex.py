"""OpenAlex: works of all fields, from Crossref, PubMed, arXiv, repositories and publishers

Follows https://developers.openalex.org of October 2026: "Search", "Page through results", "Get singleton", "Authentication & pricing",
and the Works part of its reference. `GET /works?search=` costs 0.001 USD a page of a daily budget (0.10 USD without a key, 1 USD with
a free one), `GET /works/{id}` nothing; the headers `x-ratelimit-*` report the rest. A single work has the ids of its references;
`filter=cites:` lists what cites a work, and is read with a key only. A contact address has no effect there since February 2026. A work
that was merged into another answers 301.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple, Self
from urllib.parse import quote

from pydantic import JsonValue

from outrider.linkage.identifiers import normal_arxiv, normal_doi, normal_pmcid, normal_pmid
from outrider.settings.sections import OpenalexSettings
from outrider.sources.adapter import (
    ServiceSource,
    WorkFormat,
    build_answer,
    build_works_answer,
    content_words,
    deadline_after,
    half_way,
    match_then_rank,
    query_terms,
    read_works,
    score_results,
    year_filters,
)
from outrider.sources.http.client import Caller
from outrider.sources.http.service import MOVED, Reply, Service, is_complete, parse_in_thread
from outrider.sources.json_fields import code, items, link, mapping, number, plain, text, title, whole, year
from outrider.sources.unpaywall import parse_locations
from outrider.state.citations import BOTH_DIRECTIONS, Direction
from outrider.state.errors import Malformed, SourceError
from outrider.state.full_text import LOCATIONS
from outrider.state.intent import Constraints
from outrider.state.ports import BooleanQuery, Capabilities, SourceAnswer, SourceQuery
from outrider.state.records import Identifiers, Paper

NAME = "openalex"
FIELDS = (
    "id,doi,ids,title,display_name,publication_year,publication_date,language,type,primary_location,best_oa_location,locations,open_access,"
    "authorships,"
    "cited_by_count,biblio,is_retracted,topics,keywords,mesh,abstract_inverted_index"
)
"""Not `concepts`: they are no longer maintained and will be removed, and selecting a removed field returns nothing."""
LINKED_FIELDS = f"{FIELDS},referenced_works"
"""Of a single work whose citations are read."""
WORK = re.compile(r"(?:https?://(?:api\.)?openalex\.org/(?:works/)?)?(W\d+)/?", re.IGNORECASE)
PMC_NUMBER = re.compile(r"/pmc/articles/(\d+)/?\Z", re.IGNORECASE)
ARXIV_DOI = "10.48550/arxiv."
MOST_TAGS = 12
MOST_OPEN_LOCATIONS = 6
MOST_POSITIONS = 100_000
"""Words of an abstract."""
PER_PAGE = 100
"""At most, since October 2026 (200 before); also of the values that a filter takes ("Filter", "Addition (OR)")."""
CAPABILITIES = Capabilities(frozenset({"paper"}), frozenset({"doi", "pmid", "openalex", "arxiv"}), most=1_000, boolean=True, batch=PER_PAGE)
WITHOUT_KEY = replace(CAPABILITIES, most=200, queries=2)
"""The budget without a key is a hundred pages a day."""
MOST_WORDS = 6
"""Every word must occur ("words not separated by boolean operators are treated as AND"): few works contain more."""
WORD = re.compile(r"[^\s!\"#$%&'()*+,/:;<=>?@\[\\\]^`{|}~‘’“”]+")
"""Without characters that a search there reads as operators or refuses: quotes, apostrophes, brackets, `*`, `?`, `~`."""
AROUND = "-._–—"
MOVED_TO = re.compile(r"/([Ww]\d+)/?(?:[?#].*)?\Z")
FILTERS_OWN = re.compile(r"[,|+!<>\"\s]")
LITTLE = 0.1
"""Part of the day's budget, below which the answer reports the rest."""


class WorksPage(NamedTuple):
    works: Sequence[Any]
    total: int | None
    reply: Reply


@dataclass(frozen=True, slots=True)
class Openalex(ServiceSource):
    """A `Source`."""

    capabilities: Capabilities = CAPABILITIES
    name: str = NAME

    @classmethod
    def of(cls, settings: OpenalexSettings, caller: Caller) -> Self:
        key = settings.api_key.get_secret_value()
        service = Service.of(NAME, settings, params={"api_key": key} if key else {}, keeps=is_cacheable)
        return cls(caller, service, settings.timeout_s, CAPABILITIES if key else WITHOUT_KEY)

    async def search(self, query: SourceQuery) -> SourceAnswer:
        until = deadline_after(query.within_s)
        words = search_words(query)
        if not words or query.limit < 1:
            return SourceAnswer(())
        notes = [] if len(words) <= MOST_WORDS else [f"searched for the first {MOST_WORDS} of {len(words)} words, because each must occur"]

        async def match(boolean: BooleanQuery) -> SourceAnswer:
            return await self._read_pages(search_params((), query.constraints, boolean.expression), query.limit, half_way(until), ())

        async def rank() -> SourceAnswer:
            return await self._read_pages(search_params(words[:MOST_WORDS], query.constraints), query.limit, until, notes)

        return await match_then_rank(query, match, rank)

    async def _read_pages(self, params: Mapping[str, str | int], limit: int, until: float, notes: Sequence[str]) -> SourceAnswer:
        """Pages of equal size, the first before the others, because it says how many there are."""
        limit = min(limit, self.capabilities.most)
        count = -(-limit // PER_PAGE)
        per_page = -(-limit // count)
        params = {**params, "per_page": per_page}
        first = await self._fetch_page(params, 1, until)
        if first.total is not None:
            count = min(count, -(-first.total // per_page))
        more = range(2, count + 1) if len(first.works) >= per_page else ()
        rest = await asyncio.gather(*(self._try_page(params, number, until) for number in more))
        replies = [page.reply for page in (first, *rest) if isinstance(page, WorksPage)]
        return await parse_in_thread(replies, lambda: build_search_answer([first, *rest], limit, notes))

    async def get(self, scheme: str, value: str, within_s: float) -> Paper | None:
        """The record; its identifier differs from the requested one if the service merged two works."""
        reply = await self._fetch_work(scheme, value, FIELDS, deadline_after(within_s))
        return None if reply is None else parse_work(reply)

    async def _fetch_work(self, scheme: str, value: str, fields: str, until: float) -> Reply | None:
        place = lookup_path(scheme, value)
        if place is None:
            return None
        for _ in range(2):
            reply = await self.caller.get(
                self.service,
                f"/works/{place}",
                {"select": fields},
                within_s=until - time.monotonic(),
                accept=MOVED | {200, 404},
            )
            if reply.status not in MOVED:
                return None if reply.status == 404 else reply
            moved = MOVED_TO.search(reply.headers.get("location", ""))
            if moved is None:
                break
            place = moved[1].upper()
        raise Malformed(f"{NAME} redirects twice and returns no work: {reply.url}")

    async def get_many(self, scheme: str, values: Sequence[str], within_s: float) -> Mapping[str, Paper]:
        """One page of a filter costs 0.0001 USD; single works are free, but need one request each: with batches of one."""
        named = {value: own for value in values if (own := filter_value(scheme, value))}
        if not named:
            return {}
        if self.capabilities.batch == 1:
            value = next(iter(named))
            paper = await self.get(scheme, value, within_s)
            return {} if paper is None else {value: paper}
        scheme = "doi" if scheme == "arxiv" else scheme
        params: dict[str, str | int] = {
            "filter": f"{scheme}:{'|'.join(dict.fromkeys(named.values()))}",
            "per_page": PER_PAGE,
            "select": FIELDS,
        }
        page = await self._fetch_page(params, 1, deadline_after(within_s))
        papers = [paper for work in page.works if (paper := parse_paper(work)) is not None]
        by_own = {getattr(paper.identifiers, scheme): paper for paper in papers}
        return {value: by_own[own] for value, own in named.items() if own in by_own}

    @property
    def directions(self) -> frozenset[Direction]:
        """Without a key no lists of citing works are read: they would use up the day's budget."""
        return BOTH_DIRECTIONS if self.service.params else frozenset({"references"})

    @property
    def schemes(self) -> tuple[str, ...]:
        return ("openalex", "doi", "pmid", "arxiv")

    async def references(self, scheme: str, value: str, within_s: float, limit: int) -> SourceAnswer:
        """The works that it cites, by their ids alone: a single work is free, and `get_many` reads a hundred works a page."""
        reply = await self._fetch_work(scheme, value, LINKED_FIELDS, deadline_after(within_s))
        if reply is None:
            return SourceAnswer(())
        listed = items(mapping(reply.json()).get("referenced_works"))
        ids = list(dict.fromkeys(filter(None, (work_id(code(one)) for one in listed))))
        works = [Paper(doc_id=f"{NAME}:{own}", source=NAME, identifiers=Identifiers(openalex=own)) for own in ids[:limit]]
        answer = build_answer(score_results([(work, None) for work in works]), len(ids), [reply])
        return replace(answer, subject=parse_work(reply))

    async def citations(self, scheme: str, value: str, within_s: float, limit: int) -> SourceAnswer:
        """The works that cite it, page after page by cursor, which also reads beyond 10,000. Pages before a failure are used."""
        until = deadline_after(within_s)
        own, subject = work_id(value) if scheme == "openalex" else None, None
        if own is None:
            found = await self._fetch_work(scheme, value, LINKED_FIELDS, until)
            if found is None:
                return SourceAnswer(())
            subject = parse_work(found)
            own = subject.identifiers.openalex
        params: dict[str, str | int] = {"filter": f"cites:{own}", "per_page": PER_PAGE, "select": FIELDS}
        cursor, works, pages, failed = "*", list[Any](), list[WorksPage](), list[SourceError]()
        while cursor and len(works) < limit:
            try:
                reply = await self.caller.get(self.service, "/works", {**params, "cursor": cursor}, within_s=until - time.monotonic())
                listed, total = read_works(await reply.decode(PER_PAGE), WORKS, self.service)
            except SourceError as error:
                if not pages:
                    raise
                failed.append(error)
                break
            works += listed[:PER_PAGE]
            pages.append(WorksPage(listed, total, reply))
            cursor = text(mapping(mapping(reply.json()).get("meta")).get("next_cursor")) if listed else ""
        if not pages:
            return SourceAnswer((), subject=subject)
        replies = [page.reply for page in pages]
        answer = build_works_answer(works, WORKS, pages[0].total, limit, replies, budget_notes(replies[-1]), failed)
        return replace(answer, subject=subject)

    async def _fetch_page(self, params: Mapping[str, str | int], number: int, until: float) -> WorksPage:
        reply = await self.caller.get(self.service, "/works", {**params, "page": number}, within_s=until - time.monotonic())
        works, total = read_works(await reply.decode(PER_PAGE), WORKS, self.service)
        return WorksPage(works[: PER_PAGE + 1], total, reply)

    async def _try_page(self, params: Mapping[str, str | int], number: int, until: float) -> WorksPage | SourceError:
        try:
            return await self._fetch_page(params, number, until)
        except SourceError as error:
            return error


def is_cacheable(reply: Reply) -> bool:
    return is_complete(reply) and not find_refusal(reply.json())


def search_words(query: SourceQuery) -> list[str]:
    """In lower case, so that none is an operator (AND, OR, NOT)."""
    return content_words(query_terms(query), WORD, AROUND)


def search_params(words: Sequence[str], constraints: Constraints, expression: str = "") -> dict[str, Any]:
    """A search for words, or for a Boolean expression, which is a filter there and gives works a relevance as well."""
    filters = [*([expression] if expression else []), *year_filters(constraints, "from_publication_date", "to_publication_date")]
    return {
        **({"search": " ".join(words)} if words else {}),
        "sort": "relevance_score:desc",
        "select": f"{FIELDS},relevance_score",
        **({"filter": ",".join(filters)} if filters else {}),
    }


def lookup_path(scheme: str, value: str) -> str | None:
    """The path of a work below `/works`, by one of its identifiers."""
    named = normalize_identifier(scheme, value)
    if scheme == "openalex" or named is None:
        return named
    return f"{'pmid' if scheme == 'pmid' else 'doi'}:{quote(named, safe='')}"


def normalize_identifier(scheme: str, value: str) -> str | None:
    """An identifier in the form of the records; for an arXiv number its DOI at arXiv."""
    value = code(value)
    if scheme == "arxiv":
        number = normal_arxiv(value)
        return f"10.48550/arxiv.{number}" if number else None
    normal = NORMAL.get(scheme)
    return normal(value) if normal else None


def filter_value(scheme: str, value: str) -> str | None:
    """The value for a filter; None if it is invalid or has a character with a meaning in filters."""
    named = normalize_identifier(scheme, value)
    return named if named and not FILTERS_OWN.search(named) else None


def parse_work(reply: Reply) -> Paper:
    paper = parse_paper(reply.json())
    if paper is None:
        raise Malformed(f"{NAME} did not answer {reply.url} with a work")
    return paper


def build_search_answer(pages: Sequence[WorksPage | SourceError], limit: int, notes: Sequence[str]) -> SourceAnswer:
    """The answer from all pages; those after the first may have failed."""
    came = [page for page in pages if isinstance(page, WorksPage)]
    failed = [page for page in pages if isinstance(page, SourceError)]
    works = [work for page in came for work in page.works][:limit]
    replies = [page.reply for page in came]
    return build_works_answer(works, WORKS, came[0].total, limit, replies, [*notes, *budget_notes(replies[-1])], failed)


def budget_notes(reply: Reply) -> list[str]:
    """A note on the day's budget if it runs low."""
    try:
        remaining, limit = (float(reply.headers[f"x-ratelimit-{name}-usd"]) for name in ("remaining", "limit"))
    except (KeyError, ValueError):
        return []
    return [f"{remaining:.4f} USD of the day's {limit:g} USD are left at {NAME}"] if remaining < LITTLE * limit else []


def list_works(payload: Any) -> tuple[list[Any], int | None]:
    """The works and how many there are, from `{"meta": {"count": ...}, "results": [...]}`."""
    works = mapping(payload).get("results")
    if not isinstance(works, list):
        raise Malformed(f"{NAME} did not answer the search with a list of works")
    return works, whole(mapping(mapping(payload).get("meta")).get("count"))


def find_refusal(payload: Any) -> str:
    """The text of `{"error": ..., "message": ...}`, which may come with status 200; empty for an answer."""
    refusal = mapping(payload)
    return " ".join(filter(None, (text(refusal.get("error")), text(refusal.get("message")))))


def parse_paper(payload: Any) -> Paper | None:
    """None without an id of the service."""
    work = mapping(payload)
    identifiers = parse_identifiers(work)
    if identifiers.openalex is None:
        return None
    place, biblio = mapping(work.get("primary_location")), mapping(work.get("biblio"))
    return Paper(
        doc_id=f"{NAME}:{identifiers.openalex}",
        title=title(work.get("title")) or title(work.get("display_name")),
        abstract=parse_abstract(work.get("abstract_inverted_index")),
        url=link(place.get("landing_page_url")) or link(work.get("doi")) or link(work.get("id")),
        identifiers=identifiers,
        authors=tuple(filter(None, map(parse_author, items(work.get("authorships"))))),
        year=year(work.get("publication_year")),
        venue=title(mapping(place.get("source")).get("display_name")) or title(place.get("raw_source_name")) or None,
        citations=whole(work.get("cited_by_count")),
        language=text(work.get("language")) or None,
        tags=collect_tags(work),
        source=NAME,
        metadata=collect_metadata(work),
        volume=text(biblio.get("volume")) or None,
        issue=text(biblio.get("issue")) or None,
        pages=format_pages(biblio),
        mesh=list_names(work.get("mesh"), "descriptor_name"),
    )


def parse_score(payload: Any) -> float | None:
    return number(mapping(payload).get("relevance_score"))


def parse_identifiers(work: Mapping[str, Any]) -> Identifiers:
    ids = mapping(work.get("ids"))
    doi = normal_doi(code(work.get("doi"))) or normal_doi(code(ids.get("doi")))
    return Identifiers(
        openalex=work_id(code(work.get("id"))) or work_id(code(ids.get("openalex"))),
        doi=doi,
        pmid=normal_pmid(code(ids.get("pmid"))),
        pmcid=parse_pmcid(code(ids.get("pmcid"))),
        arxiv=find_arxiv(work, doi),
    )


def work_id(value: str) -> str | None:
    """`W123` from a work's id or URL; the letter distinguishes works from authors and others."""
    match = WORK.fullmatch(value.strip())
    return match[1].upper() if match else None


def parse_pmcid(address: str) -> str | None:
    """OpenAlex writes PubMed Central's URL with the bare number."""
    bare = PMC_NUMBER.search(address)
    return normal_pmcid(f"PMC{bare[1]}" if bare else address)


def find_arxiv(work: Mapping[str, Any], doi: str | None) -> str | None:
    """From arXiv's own DOI, else from the locations of the work."""
    if doi and doi.startswith(ARXIV_DOI):
        return normal_arxiv(doi.removeprefix(ARXIV_DOI))
    places = (mapping(place) for place in (work.get("primary_location"), *items(work.get("locations"))))
    links = (code(place.get(name)) for place in places for name in ("landing_page_url", "pdf_url"))
    return next(filter(None, (normal_arxiv(one) for one in links if "arxiv.org/" in one)), None)


def parse_author(payload: Any) -> str:
    return text(mapping(mapping(payload).get("author")).get("display_name")) or text(mapping(payload).get("raw_author_name"))


def parse_abstract(payload: Any) -> str:
    """The text of an inverted index: each word with its positions."""
    places = [(place, word) for word, at in mapping(payload).items() for place in map(whole, items(at)) if place is not None]
    return plain(" ".join(word for _, word in sorted(places)[:MOST_POSITIONS]))


def collect_tags(work: Mapping[str, Any]) -> tuple[str, ...]:
    """Keywords, then topics; OpenAlex derives both from the text, best first."""
    every = (*list_names(work.get("keywords"), "display_name"), *list_names(work.get("topics"), "display_name"))
    spelt: dict[str, str] = {}
    for tag in every:
        spelt.setdefault(tag.casefold(), tag)
    return tuple(spelt.values())[:MOST_TAGS]


def list_names(payload: Any, name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, (text(mapping(one).get(name)) for one in items(payload)))))


def format_pages(biblio: Mapping[str, Any]) -> str | None:
    ends = dict.fromkeys(filter(None, (text(biblio.get("first_page")), text(biblio.get("last_page")))))
    return "-".join(ends) or None


def collect_metadata(work: Mapping[str, Any]) -> dict[str, JsonValue]:
    access, retracted = mapping(work.get("open_access")), work.get("is_retracted")
    metadata: dict[str, JsonValue] = {
        "type": text(work.get("type")),
        "published": text(work.get("publication_date")),
        "retracted": retracted if isinstance(retracted, bool) else None,
        "open_access": text(access.get("oa_status")),
        "open_access_url": link(access.get("oa_url")),
        "licence": text(mapping(work.get("primary_location")).get("license")),
        LOCATIONS: collect_open_locations(work),
    }
    return {name: value for name, value in metadata.items() if value not in (None, "", [])}


def collect_open_locations(work: Mapping[str, Any]) -> list[JsonValue]:
    """The locations that OpenAlex calls open, the one first that it calls best."""
    places = [mapping(place) for place in (work.get("best_oa_location"), *items(work.get("locations")))]
    is_publisher = {"journal": "publisher", "conference": "publisher", "repository": "repository"}
    opened = [
        {**place, "host_type": is_publisher.get(text(mapping(place.get("source")).get("type")), "")}
        for place in places
        if place.get("is_oa") is True
    ]
    return [one.model_dump(mode="json", exclude_defaults=True) for one in parse_locations(opened, NAME)[:MOST_OPEN_LOCATIONS]]


NORMAL: Mapping[str, Callable[[str], str | None]] = MappingProxyType({"doi": normal_doi, "pmid": normal_pmid, "openalex": work_id})


WORKS = WorkFormat(NAME, find_refusal, list_works, parse_paper, parse_score)
