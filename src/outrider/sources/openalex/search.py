"""OpenAlex: works of all fields and kinds, from Crossref, PubMed, arXiv, repositories and publishers.

Follows https://developers.openalex.org of October 2026: "Search", "Page through results", "Get singleton", "Authentication & pricing",
and the Works part of its reference. `GET /works?search=` costs 0.001 USD a page of a daily budget (0.10 USD without a key, 1 USD with
a free one), `GET /works/{id}` nothing; what is left stands in the headers `x-ratelimit-*`. A contact address is of no use there since
February 2026. A work that was merged into another answers 301.
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

from outrider.linkage.identifiers import normal_arxiv, normal_doi, normal_pmid
from outrider.settings.sources import OpenalexSettings
from outrider.sources.adapter import ServiceSource, answer_with_works, content_words, ends_at, read_works, said_by, year_filters
from outrider.sources.http.client import Caller
from outrider.sources.http.service import MOVED, Reply, Service, is_whole
from outrider.sources.json_fields import code
from outrider.sources.openalex import parse as records
from outrider.sources.openalex.parse import NAME, work_id
from outrider.state.errors import Malformed, SourceError
from outrider.state.intent import Constraints
from outrider.state.ports import Capabilities, SourceAnswer, SourceQuery
from outrider.state.records import Paper

PER_PAGE = 100
"""At most, since October 2026 (200 before); also of the values that a filter takes ("Filter", "Addition (OR)")."""
CAPABILITIES = Capabilities(frozenset({"paper"}), frozenset({"doi", "pmid", "openalex", "arxiv"}), most=1_000, batch=PER_PAGE)
WITHOUT_KEY = replace(CAPABILITIES, most=200, queries=2)
"""A hundred pages a day are all that there is."""
MOST_WORDS = 6
"""Every word must occur ("words not separated by boolean operators are treated as AND"): of more, hardly any work has all."""
WORD = re.compile(r"[^\s!\"#$%&'()*+,/:;<=>?@\[\\\]^`{|}~‘’“”]+")
"""Without what a search there reads as an operator or refuses: quotes, apostrophes, brackets, `*`, `?`, `~`."""
AROUND = "-._–—"
MOVED_TO = re.compile(r"/([Ww]\d+)/?(?:[?#].*)?\Z")
NORMAL: Mapping[str, Callable[[str], str | None]] = MappingProxyType({"doi": normal_doi, "pmid": normal_pmid, "openalex": work_id})
FILTERS_OWN = re.compile(r"[,|+!<>\"\s]")
LITTLE = 0.1
"""Part of the day's budget, below which the answer says so."""


class Page(NamedTuple):
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
        service = Service.of(NAME, settings, params={"api_key": key} if key else {}, keeps=is_no_refusal)
        return cls(caller, service, settings.timeout_s, CAPABILITIES if key else WITHOUT_KEY)

    async def search(self, query: SourceQuery) -> SourceAnswer:
        until = ends_at(query.within_s)
        words = search_words(query)
        limit = min(query.limit, self.capabilities.most)
        if not words or limit < 1:
            return SourceAnswer(())
        count = -(-limit // PER_PAGE)
        asked = params_of(words[:MOST_WORDS], query.constraints, per_page=-(-limit // count))
        first = await self._page(asked, 1, until)
        if first.total is not None:
            count = min(count, -(-first.total // asked["per_page"]))
        more = range(2, count + 1) if len(first.works) >= asked["per_page"] else ()
        rest = await asyncio.gather(*(self._tried(asked, number, until) for number in more))
        notes = [] if len(words) <= MOST_WORDS else [f"asked for the first {MOST_WORDS} of {len(words)} words, as each must occur"]
        return answer_of([first, *rest], limit, notes)

    async def get(self, scheme: str, value: str, within_s: float) -> Paper | None:
        """A record may come back under another identifier than the one asked for, where the service has merged two."""
        until = ends_at(within_s)
        place = place_of(scheme, value)
        if place is None:
            return None
        for _ in range(2):
            reply = await self.caller.get(
                self.service,
                f"/works/{place}",
                {"select": records.FIELDS},
                within_s=until - time.monotonic(),
                accept=MOVED | {200, 404},
            )
            if reply.status not in MOVED:
                return None if reply.status == 404 else work_of(reply)
            moved = MOVED_TO.search(reply.headers.get("location", ""))
            if moved is None:
                break
            place = moved[1].upper()
        raise Malformed(f"{NAME} sends from one address to the next and gives no work: {reply.url}")

    async def get_many(self, scheme: str, values: Sequence[str], within_s: float) -> Mapping[str, Paper]:
        """One page of a filter: a ten-thousandth of a dollar, where each work by itself would cost nothing but a turn."""
        named = {value: own for value in values if (own := filtered_by(scheme, value))}
        if not named:
            return {}
        scheme = "doi" if scheme == "arxiv" else scheme
        params: dict[str, str | int] = {
            "filter": f"{scheme}:{'|'.join(dict.fromkeys(named.values()))}",
            "per_page": PER_PAGE,
            "select": records.FIELDS,
        }
        page = await self._page(params, 1, ends_at(within_s))
        papers = [paper for work in page.works if (paper := records.paper_of(work)) is not None]
        by_own = {getattr(paper.identifiers, scheme): paper for paper in papers}
        return {value: by_own[own] for value, own in named.items() if own in by_own}

    async def _page(self, asked: Mapping[str, str | int], number: int, until: float) -> Page:
        reply = await self.caller.get(self.service, "/works", {**asked, "page": number}, within_s=until - time.monotonic())
        works, total = read_works(reply.json(), records, self.service)
        return Page(works, total, reply)

    async def _tried(self, asked: Mapping[str, str | int], number: int, until: float) -> Page | SourceError:
        try:
            return await self._page(asked, number, until)
        except SourceError as error:
            return error


def is_no_refusal(reply: Reply) -> bool:
    return is_whole(reply) and not records.refusal_of(reply.json())


def search_words(query: SourceQuery) -> list[str]:
    """In lower case, so that none is an operator (AND, OR, NOT)."""
    return content_words(said_by(query), WORD, AROUND)


def params_of(words: Sequence[str], constraints: Constraints, per_page: int) -> dict[str, Any]:
    filters = year_filters(constraints, "from_publication_date", "to_publication_date")
    return {
        "search": " ".join(words),
        "sort": "relevance_score:desc",
        "per_page": per_page,
        "select": f"{records.FIELDS},relevance_score",
        **({"filter": ",".join(filters)} if filters else {}),
    }


def place_of(scheme: str, value: str) -> str | None:
    """Where a work is got by one of its identifiers."""
    named = named_by(scheme, value)
    if scheme == "openalex" or named is None:
        return named
    return f"{'pmid' if scheme == 'pmid' else 'doi'}:{quote(named, safe='')}"


def named_by(scheme: str, value: str) -> str | None:
    """An identifier in the form that records have; of an arXiv number it is the DOI that arXiv gives it."""
    value = code(value)
    if scheme == "arxiv":
        number = normal_arxiv(value)
        return f"10.48550/arxiv.{number}" if number else None
    normal = NORMAL.get(scheme)
    return normal(value) if normal else None


def filtered_by(scheme: str, value: str) -> str | None:
    """None also for one with a sign that a filter reads as its own."""
    named = named_by(scheme, value)
    return named if named and not FILTERS_OWN.search(named) else None


def work_of(reply: Reply) -> Paper:
    paper = records.paper_of(reply.json())
    if paper is None:
        raise Malformed(f"{NAME} answered {reply.url} with something else than a work")
    return paper


def answer_of(pages: Sequence[Page | SourceError], limit: int, notes: Sequence[str]) -> SourceAnswer:
    """Of the first page and those after it, some of which may have failed."""
    came = [page for page in pages if isinstance(page, Page)]
    failed = [page for page in pages if isinstance(page, SourceError)]
    works = [work for page in came for work in page.works][:limit]
    replies = [page.reply for page in came]
    return answer_with_works(works, records, came[0].total, limit, replies, [*notes, *little_left(replies[-1])], failed)


def little_left(reply: Reply) -> list[str]:
    """A word on the day's budget once it runs low."""
    try:
        left, limit = (float(reply.headers[f"x-ratelimit-{name}-usd"]) for name in ("remaining", "limit"))
    except (KeyError, ValueError):
        return []
    return [f"{left:.4f} USD of the day's {limit:g} USD are left at {NAME}"] if left < LITTLE * limit else []
