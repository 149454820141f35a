"""SerpApi: Google Scholar and Google, two sources that need a key

Documentation: https://serpapi.com/google-scholar-api (at most 20 results a page), https://serpapi.com/search-api (10 a page; Google has
ended `num` in September 2025), failures https://serpapi.com/api-status-and-error-codes: a search without results has an `error` and
the status Success. Totals are estimates that change from call to call. Neither engine returns scores or abstracts, nor identifiers
except those that are part of a link.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from pydantic import JsonValue

from outrider.runtime.threads_and_loops import unless_abandoned
from outrider.settings.sections import SerpapiSettings
from outrider.sources.adapter import ServiceSource, build_answer, deadline_after, score_results
from outrider.sources.http.client import Caller
from outrider.sources.http.service import Reply, Service, parse_in_thread
from outrider.sources.json_fields import items, link, mapping, text, whole
from outrider.sources.web.link_identifiers import find_identifiers
from outrider.state.errors import Malformed, RateLimited, SettingsError, SourceError, SourceUnavailable, Unauthorized
from outrider.state.ports import Capabilities, SourceAnswer, SourceQuery
from outrider.state.records import Page, Paper, Record
from outrider.text.sanitize import redact

SCHOLAR, GOOGLE = "serpapi_scholar", "serpapi_google"
SCHOLAR_PAGE, GOOGLE_PAGE, MOST_PAGES = 20, 10, 2
OF_PAPERS = Capabilities(frozenset({"paper"}), most=SCHOLAR_PAGE * MOST_PAGES, queries=1)
OF_PAGES = Capabilities(frozenset({"page"}), most=GOOGLE_PAGE * MOST_PAGES, queries=1)
MOST_WORDS = 32
"""Google ignores further words."""
NOTHING = "hasn't returned any results"
YEAR_LAST = re.compile(r"(?:.*, )?((?:1[5-9]|20)\d\d)")
"""`Thorax, 2005` or `2005`: the middle part of a summary."""


class ResultsPage(NamedTuple):
    """One page of results; `entries` counts them."""

    records: tuple[Record, ...]
    entries: int
    total: int | None
    reply: Reply


@dataclass(frozen=True, slots=True)
class _Engine(ServiceSource):
    """Searches of both engines."""

    async def fetch_pages(self, query: SourceQuery, params: Mapping[str, str | int], page: int, parse: ToRecord) -> SourceAnswer:
        """As many pages as the limit needs, concurrently. If some fail, the others are used."""
        words = " ".join(query.text.split()[:MOST_WORDS])
        if not words:
            return SourceAnswer(())
        until = deadline_after(query.within_s)
        starts = range(0, min(query.limit, page * MOST_PAGES), page)
        outcomes = await asyncio.gather(*(self._try_page({**params, "q": words, "start": start}, parse, page, until) for start in starts))
        failed = [outcome for outcome in outcomes if isinstance(outcome, SourceError)]
        pages = [outcome for outcome in outcomes if not isinstance(outcome, SourceError)]
        if not pages:
            raise failed[0]
        return build_search_answer(pages, failed, query.limit)

    async def _try_page(self, params: Mapping[str, str | int], parse: ToRecord, page: int, until: float) -> ResultsPage | SourceError:
        try:
            reply = await self.caller.get(self.service, "/search.json", params, within_s=until - time.monotonic())
            await reply.decode(page)
            return await parse_in_thread([reply], lambda: parse_page(reply, parse, page))
        except SourceError as error:
            return error

    async def get(self, scheme: str, value: str, within_s: float) -> Record | None:
        return None


@dataclass(frozen=True, slots=True)
class SerpapiScholar(_Engine):
    capabilities: Capabilities = OF_PAPERS
    name: str = SCHOLAR

    @classmethod
    def of(cls, settings: SerpapiSettings, caller: Caller) -> Self:
        return cls(caller, build_service(settings, SCHOLAR), settings.timeout_s)

    async def search(self, query: SourceQuery) -> SourceAnswer:
        years = query.constraints.years
        bounds: dict[str, str | int] = {name: year for name, year in (("as_ylo", years.min), ("as_yhi", years.max)) if year is not None}
        params: dict[str, str | int] = {"engine": "google_scholar", "num": min(query.limit, SCHOLAR_PAGE), **bounds}
        return await self.fetch_pages(query, params, SCHOLAR_PAGE, parse_paper)


@dataclass(frozen=True, slots=True)
class SerpapiGoogle(_Engine):
    capabilities: Capabilities = OF_PAGES
    name: str = GOOGLE

    @classmethod
    def of(cls, settings: SerpapiSettings, caller: Caller) -> Self:
        return cls(caller, build_service(settings, GOOGLE), settings.timeout_s)

    async def search(self, query: SourceQuery) -> SourceAnswer:
        return await self.fetch_pages(query, {"engine": "google"}, GOOGLE_PAGE, parse_web_page)


def build_service(settings: SerpapiSettings, name: str) -> Service:
    """One name for both, so that they share the limit of their account. Raises `SettingsError` without a key."""
    key = settings.api_key.get_secret_value()
    if not key:
        raise SettingsError(f"{name} needs a key; set sources.{name}.api_key or SERPAPI_API_KEY, or sources.{name}.enabled to false")
    return Service.of("serpapi", settings, params={"api_key": key}, keeps=is_cacheable)


def is_cacheable(reply: Reply) -> bool:
    """False for a failure with status 200."""
    try:
        parse_page(reply, parse_paper, most=1)
    except SourceError:
        return False
    return True


def parse_page(reply: Reply, parse: ToRecord, most: int | None = None) -> ResultsPage:
    """The first `most` results, or all.

    From `{"search_metadata": {"status"}, "search_information": {"total_results"}, "organic_results": [...], "error"}`.
    """
    payload = mapping(reply.json())
    results, problem = payload.get("organic_results"), text(payload.get("error"))
    if problem and not items(results) and NOTHING not in problem:
        raise classify_refusal(problem)
    state = text(mapping(payload.get("search_metadata")).get("status"))
    if state in ("Processing", "Queued", "Error"):
        raise SourceUnavailable(f"serpapi did not search: its status is {state}")
    if not isinstance(results, list) and not (problem or "search_information" in payload):
        raise Malformed(f"serpapi answered without results: {redact(text(reply.body[:100].decode(errors='replace')), '')}")
    first = items(results)[:most]
    records = tuple(record for one in unless_abandoned(first) if (record := parse(mapping(one))))
    return ResultsPage(records, len(first), whole(mapping(payload.get("search_information")).get("total_results")), reply)


def classify_refusal(problem: str) -> SourceError:
    """Classify a failure by its text, because the status does not."""
    words, what = problem.lower(), f"serpapi answered: {redact(problem, '')}"
    if "api key" in words:
        return Unauthorized(what)
    if "run out of searches" in words or "credit" in words or "throughput" in words:
        return RateLimited(what)
    return SourceUnavailable(what)


def build_search_answer(pages: Sequence[ResultsPage], failed: Sequence[SourceError], limit: int) -> SourceAnswer:
    """Pages in order; a result on two of them counts once."""
    total = next((page.total for page in pages if page.total is not None), None)
    return build_answer(
        score_results([(record, None) for page in pages for record in page.records])[:limit],
        total,
        [page.reply for page in pages],
        sum(page.entries - len(page.records) for page in pages),
        ("its total is an estimate that changes from call to call",) if total is not None else (),
        f"{len(failed)} of {len(failed) + len(pages)} pages failed: {failed[0]}" if failed else "",
        next((error.retry_at for error in failed if error.retry_at is not None), None),
    )


def parse_paper(result: Mapping[str, Any]) -> Paper | None:
    """A result of Google Scholar; None without a title or an id."""
    title, address = text(result.get("title")), link(result.get("link"))
    own = text(result.get("result_id")) or address
    if not title or not own:
        return None
    published, inline = mapping(result.get("publication_info")), mapping(result.get("inline_links"))
    summary = text(published.get("summary"))
    pdfs = (link(one.get("link")) for one in map(mapping, items(result.get("resources"))) if one.get("file_format") == "PDF")
    metadata: dict[str, JsonValue] = {
        "published_in": summary,
        "type": text(result.get("type")),
        "pdf_url": next(filter(None, pdfs), None),
        "cluster_id": text(mapping(inline.get("versions")).get("cluster_id")),
    }
    return Paper(
        doc_id=f"{SCHOLAR}:{own}",
        source=SCHOLAR,
        title=title,
        description=text(result.get("snippet")),
        url=address,
        identifiers=find_identifiers(address or ""),
        authors=parse_authors(published, summary),
        year=parse_year(summary),
        citations=whole(mapping(inline.get("cited_by")).get("total")),
        metadata={name: value for name, value in metadata.items() if value},
    )


def parse_authors(published: Mapping[str, Any], summary: str) -> tuple[str, ...]:
    """The authors of the summary if they include all that have a profile, else those with a profile."""
    profiled = tuple(filter(None, (text(mapping(one).get("name")) for one in items(published.get("authors")))))
    every = tuple(name for part in summary.partition(" - ")[0].split(", ") if (name := part.strip("… ")))
    return every if profiled and set(profiled) <= set(every) else profiled


def parse_year(summary: str) -> int | None:
    """The year at its usual place in the summary: `GL Larsen - New England Journal of Medicine, 1992 - Mass Medical Soc`."""
    years = [match.group(1) for part in summary.split(" - ")[1:] if (match := YEAR_LAST.fullmatch(part.strip()))]
    return int(years[0]) if len(years) == 1 else None


def parse_web_page(result: Mapping[str, Any]) -> Page | None:
    """A result of Google; its address is its id. None without a title or an address."""
    title, address = text(result.get("title")), link(result.get("link"))
    if not title or not address:
        return None
    metadata: dict[str, JsonValue] = {name: value for name in ("date", "source", "displayed_link") if (value := text(result.get(name)))}
    return Page(
        doc_id=f"{GOOGLE}:{address}",
        source=GOOGLE,
        title=title,
        description=text(result.get("snippet")),
        url=address,
        identifiers=find_identifiers(address),
        metadata=metadata,
    )


ToRecord = Callable[[Mapping[str, Any]], Record | None]
