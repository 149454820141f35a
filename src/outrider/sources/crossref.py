"""Crossref: works that publishers registered with a DOI, with retraction notices

Follows https://api.crossref.org/swagger-ui ("Works") and https://www.crossref.org/documentation/retrieve-metadata/rest-api/ as of
October 2026: `GET /works?query.bibliographic=`, at most 1,000 rows, and `GET /works/{doi}`. Limits of lists since December 2025: 1 request
a second and 1 at a time, 3 with an e-mail address in the user agent; more with a key of Metadata Plus.

`metadata["update_to"]` of a notice lists the articles that it corrects or retracts, `metadata["updated_by"]` of an article lists such
notices: `[{"type": "retraction", "doi": ..., "date": ..., "source": "publisher" or "retraction-watch"}, ...]`.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self
from urllib.parse import quote

from pydantic import JsonValue

from outrider.linkage.identifiers import normal_doi, normal_isbn
from outrider.settings.sections import CrossrefSettings
from outrider.sources.adapter import (
    ServiceSource,
    WorkFormat,
    build_answer,
    build_works_answer,
    deadline_after,
    read_works,
    score_results,
    usable_seconds,
    year_filters,
)
from outrider.sources.http.client import Caller
from outrider.sources.http.service import MOVED, Reply, Service, parse_in_thread
from outrider.sources.json_fields import code, first, items, link, mapping, number, plain, text, title, whole
from outrider.state.citations import Direction
from outrider.state.errors import Malformed
from outrider.state.intent import Constraints
from outrider.state.ports import Capabilities, SourceAnswer, SourceQuery
from outrider.state.records import Identifiers, Paper

NAME = "crossref"
FIELDS = (
    "DOI", "URL", "title", "original-title", "subtitle", "abstract", "author", "issued", "published", "posted", "container-title",
    "group-title", "publisher", "type", "volume", "issue", "page", "article-number", "is-referenced-by-count", "subject", "ISBN", "license",
    "update-to", "updated-by", "score",
)  # fmt: skip
"""Fields that lists can return; `language`, `institution` and `subtype` come with single works only."""
BOOKS = frozenset({"book", "monograph", "edited-book", "reference-book"})
"""Types that an ISBN identifies; a chapter has the ISBN of its book."""
MOST_TAGS = 12
MOST_REFERENCE_CHARS = 1_000
YEAR = re.compile(r"(?:1[4-9]|20)\d\d", re.ASCII)
CAPABILITIES = Capabilities(frozenset({"paper"}), frozenset({"doi"}), most=1_000, queries=3)
MOST_CHARS = 500
"""Maximum length of a query, which is part of a URL. Ranking needs no more."""
POLITE = 3
"""Factor of the limit with an e-mail address (api.crossref.org, "polite pool"; lists, as of December 2025)."""


@dataclass(frozen=True, slots=True)
class Crossref(ServiceSource):
    """A `Source`."""

    capabilities: Capabilities = CAPABILITIES
    name: str = NAME

    @classmethod
    def of(cls, settings: CrossrefSettings, caller: Caller) -> Self:
        key = settings.api_key.get_secret_value()
        more = POLITE if "@" in caller.contact else 1
        service = Service.of(NAME, settings, headers={"Crossref-Plus-API-Token": f"Bearer {key}"} if key else {})
        service = replace(service, requests=settings.requests * more, at_once=settings.at_once * more)
        return cls(caller, service, settings.timeout_s)

    async def search(self, query: SourceQuery) -> SourceAnswer:
        words, limit = " ".join(query.text.split())[:MOST_CHARS], min(query.limit, self.capabilities.most)
        if not words or limit < 1:
            return SourceAnswer(())
        params = search_params(words, query.constraints, limit)
        reply = await self.caller.get(self.service, "/works", params, within_s=usable_seconds(query.within_s))
        works, total = read_works(await reply.decode(limit), WORKS, self.service)
        return await parse_in_thread([reply], lambda: build_works_answer(works, WORKS, total, limit, [reply]))

    async def get(self, scheme: str, value: str, within_s: float) -> Paper | None:
        """A DOI that is an alias is followed to the DOI of the work."""
        reply = await self._fetch_work(scheme, value, deadline_after(within_s))
        return None if reply is None else parse_work(reply.json())

    @property
    def directions(self) -> frozenset[Direction]:
        """What cites a work is given to Crossref's members only."""
        return frozenset({"references"})

    @property
    def schemes(self) -> tuple[str, ...]:
        return ("doi",)

    async def references(self, scheme: str, value: str, within_s: float, limit: int) -> SourceAnswer:
        """The references that its publisher deposited, also those without a DOI: `metadata["unstructured"]` has their text."""
        reply = await self._fetch_work(scheme, value, deadline_after(within_s))
        if reply is None:
            return SourceAnswer(())
        listed = items(mapping(mapping(reply.json()).get("message")).get("reference"))
        papers = [parse_reference(one) for one in listed[:limit]]
        works = [(paper, None) for paper in papers if paper is not None]
        answer = build_answer(score_results(works), len(listed), [reply], notes=_count_unusable(len(papers) - len(works)))
        return replace(answer, subject=parse_work(reply.json()))

    async def citations(self, scheme: str, value: str, within_s: float, limit: int) -> SourceAnswer:
        return SourceAnswer(())

    async def _fetch_work(self, scheme: str, value: str, until: float) -> Reply | None:
        doi = normal_doi(value) if scheme == "doi" else None
        if doi is None:
            return None
        for _ in range(2):
            path = f"/works/{quote(doi, safe='')}"
            reply = await self.caller.get(self.service, path, within_s=until - time.monotonic(), accept=MOVED | {200, 404})
            if reply.status not in MOVED:
                return None if reply.status == 404 else reply
            doi = normal_doi(reply.headers.get("location", ""))
            if doi is None:
                break
        raise Malformed(f"{NAME} redirects twice and returns no work: {reply.url}")

    async def get_many(self, scheme: str, values: Sequence[str], within_s: float) -> Mapping[str, Paper]:
        """Filters of one name are alternatives. A DOI with a comma cannot stand in a filter, and is looked up by itself."""
        until = deadline_after(within_s)
        own = {value: doi for value in values if scheme == "doi" and (doi := normal_doi(value))}
        alone = {value: await self.get(scheme, doi, until - time.monotonic()) for value, doi in own.items() if "," in doi}
        papers = await self._list_by_doi([doi for doi in dict.fromkeys(own.values()) if "," not in doi], until)
        many = {value: papers[doi] for value, doi in own.items() if doi in papers}
        return many | {value: paper for value, paper in alone.items() if paper}

    async def _list_by_doi(self, dois: Sequence[str], until: float) -> Mapping[str, Paper]:
        if not dois:
            return {}
        params: dict[str, str | int] = {"filter": ",".join(f"doi:{doi}" for doi in dois), "rows": len(dois), "select": ",".join(FIELDS)}
        reply = await self.caller.get(self.service, "/works", params, within_s=until - time.monotonic())
        works, _ = read_works(await reply.decode(len(dois)), WORKS, self.service)
        return {paper.identifiers.doi: paper for paper in map(parse_paper, works) if paper and paper.identifiers.doi}


def _count_unusable(count: int) -> tuple[str, ...]:
    return (f"{count:,} references say neither which work nor what it is called",) if count else ()


def search_params(words: str, constraints: Constraints, rows: int) -> Mapping[str, str | int]:
    filters = year_filters(constraints, "from-pub-date", "until-pub-date")
    return {
        "query.bibliographic": words,
        "sort": "relevance",
        "order": "desc",
        "rows": rows,
        "select": ",".join(FIELDS),
        **({"filter": ",".join(filters)} if filters else {}),
    }


def list_works(payload: Any) -> tuple[list[Any], int | None]:
    """The works and how many there are, from `{"message-type": "work-list", "message": {"total-results": ..., "items": [...]}}`."""
    message = mapping(mapping(payload).get("message"))
    if not isinstance(message.get("items"), list):
        raise Malformed(f"{NAME} did not answer the search with a list of works")
    return message["items"], whole(message.get("total-results"))


def parse_work(payload: Any) -> Paper:
    """From `{"message-type": "work", "message": {...}}`."""
    envelope = mapping(payload)
    paper = parse_paper(envelope.get("message")) if envelope.get("message-type") == "work" else None
    if paper is None:
        raise Malformed(f"{NAME} did not answer with a work")
    return paper


def find_refusal(payload: Any) -> str:
    """The messages of `{"status": "failed", "message": [{"message": ...}]}`; empty for an answer."""
    return "; ".join(filter(None, (text(mapping(one).get("message")) for one in items(mapping(payload).get("message")))))


def parse_paper(payload: Any) -> Paper | None:
    """None without a DOI."""
    work = mapping(payload)
    doi, kind = normal_doi(code(work.get("DOI"))), text(work.get("type"))
    if doi is None:
        return None
    return Paper(
        doc_id=f"{NAME}:{doi}",
        title=title(first(work.get("title"))) or title(first(work.get("original-title"))),
        abstract=parse_abstract(work.get("abstract")),
        url=link(work.get("URL")),
        identifiers=Identifiers(doi=doi, isbn=find_isbn(work) if kind in BOOKS else None),
        authors=tuple(filter(None, map(parse_author, items(work.get("author"))))),
        year=next((date[0] for date in publication_dates(work)), None),
        venue=find_venue(work),
        citations=whole(work.get("is-referenced-by-count")),
        language=text(work.get("language")) or None,
        tags=tuple(dict.fromkeys(filter(None, map(title, items(work.get("subject"))))))[:MOST_TAGS],
        source=NAME,
        metadata=collect_metadata(work),
        volume=text(work.get("volume")) or None,
        issue=text(work.get("issue")) or None,
        pages=text(work.get("page")) or text(work.get("article-number")) or None,
    )


def parse_reference(payload: Any) -> Paper | None:
    """A deposited reference ("reference" of a work in the REST API); None without a DOI, a title and a text.

    Publishers deposit parts: a DOI alone, journal, volume and page without a title, or one line of text.
    """
    part = mapping(payload)
    doi, line = normal_doi(code(part.get("DOI"))), plain(part.get("unstructured"))
    name = title(part.get("article-title")) or title(part.get("volume-title"))
    venue = title(part.get("journal-title")) or title(part.get("series-title"))
    pages = text(part.get("first-page"))
    if not (doi or name or line or (venue and pages)):
        return None
    author, year = title(part.get("author")), YEAR.match(text(part.get("year")))
    metadata: dict[str, JsonValue] = {"unstructured": line[:MOST_REFERENCE_CHARS]} if line else {}
    fields = (name, author, year.group() if year else "", venue, text(part.get("volume")), pages, line)
    own = doi or f"reference:{hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:16]}"
    return Paper(
        doc_id=f"{NAME}:{own}",
        source=NAME,
        title=name,
        identifiers=Identifiers(doi=doi),
        authors=(author,) if author else (),
        year=int(year.group()) if year else None,
        venue=venue or None,
        volume=text(part.get("volume")) or None,
        pages=pages or None,
        metadata=metadata,
    )


def parse_score(payload: Any) -> float | None:
    return number(mapping(payload).get("score"))


def parse_abstract(payload: Any) -> str:
    """The abstract without its heading "Abstract"."""
    words = plain(payload)
    heading, _, rest = words.partition("\n")
    return rest if rest and heading.casefold().rstrip(":.") in {"abstract", "summary"} else words


def parse_author(payload: Any) -> str:
    """Given and family name of a person, or the name of a group."""
    names = (text(mapping(payload).get(part)) for part in ("given", "family"))
    return title(" ".join(filter(None, names)) or mapping(payload).get("name"))


def find_venue(work: Mapping[str, Any]) -> str | None:
    """A preprint has no container but a server, which single works call an institution."""
    server = next((title(mapping(one).get("name")) for one in items(work.get("institution"))), "")
    return title(first(work.get("container-title"))) or (server if text(work.get("type")) == "posted-content" else "") or None


def find_isbn(work: Mapping[str, Any]) -> str | None:
    return next(filter(None, (normal_isbn(code(one)) for one in items(work.get("ISBN")))), None)


def publication_dates(work: Mapping[str, Any]) -> Iterator[tuple[int, ...]]:
    """Dates of publication by preference; not the date of registration."""
    return filter(None, (parse_date(work.get(name)) for name in ("issued", "published", "posted")))


def parse_date(payload: Any) -> tuple[int, ...]:
    """Year, month and day as far as known, from `{"date-parts": [[2020, 1, 31]]}`; `[[null]]` means unknown."""
    parts = items(mapping(payload).get("date-parts"))
    parts = items(parts[0]) if parts and isinstance(parts[0], list) else parts
    known: list[int] = []
    for part, most in zip(parts, (9999, 12, 31), strict=False):
        value = whole(int(part) if isinstance(part, str) and part.isascii() and part.isdigit() and len(part) < 5 else part, 1, most)
        if value is None:
            break
        known.append(value)
    return tuple(known)


def format_date(date: tuple[int, ...]) -> str:
    """ISO 8601, as far as known."""
    return "-".join(f"{part:0{width}d}" for part, width in zip(date, (4, 2, 2), strict=False))


def collect_metadata(work: Mapping[str, Any]) -> dict[str, JsonValue]:
    licences = (link(mapping(one).get("URL")) for one in items(work.get("license")))
    metadata: dict[str, JsonValue] = {
        "type": text(work.get("type")),
        "subtype": text(work.get("subtype")),
        "subtitle": title(first(work.get("subtitle"))),
        "published": format_date(next(publication_dates(work), ())),
        "publisher": title(work.get("publisher")),
        "group": title(work.get("group-title")),
        "licence": next(filter(None, licences), ""),
        "update_to": parse_updates(work.get("update-to")),
        "updated_by": parse_updates(work.get("updated-by")),
    }
    return {name: value for name, value in metadata.items() if value}


def parse_updates(payload: Any) -> list[JsonValue]:
    """Notices with a type and the DOI of the other work."""
    every = (parse_update(mapping(one)) for one in items(payload))
    return [update for update in every if update["type"] and update["doi"]]


def parse_update(payload: Mapping[str, Any]) -> dict[str, JsonValue]:
    update: dict[str, JsonValue] = {
        "type": text(payload.get("type")) or text(payload.get("label")),
        "doi": normal_doi(code(payload.get("DOI"))),
    }
    known = {"date": format_date(parse_date(payload.get("updated"))), "source": text(payload.get("source"))}
    return {**update, **{name: value for name, value in known.items() if value}}


WORKS = WorkFormat(NAME, find_refusal, list_works, parse_paper, parse_score)
