"""Lookups and page visits for works that lack an abstract.

Nothing is taken over without a check: a service's or page's values only where the titles agree, or where the link is the page of that
identifier; an identifier that a page declares, only where a service confirms it. A link that holds a DOI is never fetched: the work is
looked up by that DOI.

`Progress` counts, and makes the rows of the response that report it.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from outrider.linkage.lookup_match import identifiers_contradict, same_work, titles_agree
from outrider.linkage.merge import fill_missing, strip_page_values
from outrider.linkage.names_and_titles import normal_title
from outrider.nodes.enrich.lookup_by_identifier import Lookup, LookupBatcher, plan_lookups, run_lookups
from outrider.runtime.tape import read_monotonic
from outrider.settings.model import EnrichSettings
from outrider.state.errors import RateLimited, SearchError, SourceError
from outrider.state.hits import Candidate
from outrider.state.ports import PageReader, ReadPage, Source
from outrider.state.records import Identifiers, Paper, Record
from outrider.state.records import Page as PageRecord
from outrider.state.response import SourceReport

NODE = "enrich"
REASONS = {
    "rate_limited": "rate-limited",
    "unauthorized": "refused",
    "forbidden": "refused",
    "timeout": "did not answer in time",
    "malformed": "could not be read",
}
"""A row's words for the status of an error; `OTHER_REASON` for all others."""
OTHER_REASON = "could not be reached"


@dataclass(slots=True)
class Progress:
    """Progress of one part: lookups by identifier, or visits of pages."""

    requests: int = 0
    returned: int = 0
    """Works that got an abstract or a text."""
    left_out: int = 0
    """Works beyond the budget."""
    under_way: int = 0
    """Works that were abandoned when the time was over."""
    why: Counter[str] = field(default_factory=Counter)
    """Works without a result, by reason: "3 not allowed by robots.txt"."""
    calls: Counter[str] = field(default_factory=Counter)
    """Failed calls by service and reason, if a work is looked up at several: "pubmed did not answer in time (2)"."""
    statuses: set[str] = field(default_factory=set)
    """Statuses of the failures."""
    ended: float = field(default_factory=partial(read_monotonic, "progress"))

    def begin(self, most: int) -> bool:
        """Count one more work; False if the budget has no room for it."""
        if self.requests >= most:
            self.left_out += 1
            return False
        self.requests += 1
        self.under_way += 1
        return True

    def end(self, returned: bool) -> None:
        self.under_way -= 1
        self.returned += returned
        self.ended = read_monotonic("progress")

    def stop(self) -> None:
        """The time is over; works under way used all of it."""
        if self.under_way:
            self.ended = read_monotonic("progress")

    def count_failure(self, source: str, status: str) -> None:
        self.statuses.add(status)
        self.calls[f"{source} {REASONS.get(status, OTHER_REASON)}"] += 1

    @property
    def status(self) -> str:
        if self.returned:
            return "partial" if self.left_out or self.under_way or self.statuses else "ok"
        if self.under_way:
            return "timeout"
        return min(self.statuses) if len(self.statuses) == 1 else "unavailable" if self.statuses else "empty"

    def make_row(self, strategy: str, budget: str, setting: str, stopped_by: str, started: float) -> SourceReport | None:
        """None if nothing was requested. `setting` names the budget, `stopped_by` the setting that ended the part."""
        if not self.requests:
            return None
        parts = [budget]
        parts += [f"{count} {reason}" for reason, count in _most_frequent_first(self.why)]
        parts += [f"{call} ({count})" for call, count in _most_frequent_first(self.calls)]
        parts += [f"{self.left_out} left out (enrich.{setting})"] if self.left_out else []
        parts += [f"{self.under_way} given up (enrich.{stopped_by})"] if self.under_way else []
        row = {"source": NODE, "strategy": strategy, "asked": self.requests, "returned": self.returned, "message": "; ".join(parts)}
        return SourceReport.model_validate({**row, "status": self.status, "took_ms": round((self.ended - started) * 1000, 1)})


def _most_frequent_first(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def read_status(error: SearchError | TimeoutError) -> str:
    if isinstance(error, TimeoutError):
        return "timeout"
    return error.status if isinstance(error, SourceError) else "unavailable"


FEWEST_WORDS = 4
"""A title of so many words identifies a work even if another title continues it."""
CUT_OFF = ("...", "…")
"""Ends of a truncated title."""
SITE = re.compile(r"\s+[-|–—·:»]\s+|\s*\|\s*")
"""Separates a page's title from the name of the site."""
PATIENCE = 0.9
"""Share of `idle_s` that one service may take, so that the next service is asked before everything stops. A lookup waits no longer for its
turn at a rate limiter either."""
ROBOTS = "robots.txt"
UNCONFIRMED = "with an identifier that nobody confirmed"
DECLARED = "declared"
"""Key in the metadata: unconfirmed identifiers that stood on a page."""
MOST_CHARS = 100_000
"""Characters of a page's text, a long chapter: more would slow down every step that reads it."""
CATALOGUES = frozenset({"openalex.org", "semanticscholar.org"})
"""Sites whose pages say no more than the service's own response."""

ParseLink = Callable[[str], Identifiers]
"""The identifiers that the form of a link names."""


def is_same_work(work: Record, answer: Record) -> bool:
    """Whether the answer to an identifier of a work is that work. A page's title may be cut off, or end with the site's name."""
    if same_work(work, answer):
        return True
    shared = set(work.identifiers.pairs()) & set(answer.identifiers.pairs())
    return (
        bool(shared) and work.kind == "page" and not identifiers_contradict(work, answer) and matches_work_title(work.title, answer.title)
    )


def matches_work_title(page: str, title: str) -> bool:
    """Whether a page's title is that of the work: they agree, it continues the work's title, or it is cut off."""
    return titles_agree(page, title) or _continues(title, page) or (page.rstrip().endswith(CUT_OFF) and _continues(page, title))


def matches_result_title(page: str, result: str) -> bool:
    """Whether a page's title is that of a search result: one may continue the other, a short one by the site's name."""
    if titles_agree(page, result) or _continues(result, page) or _continues(page, result):
        return True
    return any(titles_agree(SITE.split(long.strip(), maxsplit=1)[0], short) for short, long in ((page, result), (result, page)))


def _continues(short: str, long: str) -> bool:
    title = normal_title(short)
    return len(title.split()) >= FEWEST_WORDS and f"{normal_title(long)} ".startswith(f"{title} ")


def find_works_without_text(candidates: Sequence[Candidate]) -> list[int]:
    """Positions of papers and pages with neither abstract nor text; values that a paper has from a page do not count."""
    return [
        at
        for at, candidate in enumerate(candidates)
        if isinstance(candidate.record, Paper | PageRecord) and not _has_text(strip_page_values(candidate.record))
    ]


def _has_text(record: Record) -> bool:
    return bool(record.abstract or record.text)


class IncompleteWork(NamedTuple):
    """A work that lacks an abstract."""

    at: int
    """Its position among the candidates."""
    record: Record
    link: Identifiers
    """Identifiers that the form of its link names."""
    known: Identifiers
    found_by: frozenset[str]
    """Sources that have returned it."""


@dataclass(slots=True)
class MissingAbstracts:
    """One run over the works that lack an abstract; `records` holds the results so far, whenever it is stopped."""

    sources: Sequence[Source]
    pages: PageReader | None
    parse_link: ParseLink
    settings: EnrichSettings
    until: float
    """In `time.monotonic`."""
    records: dict[int, Record] = field(default_factory=dict)
    """By position among the candidates."""
    lookups: Progress = field(default_factory=Progress)
    visits: Progress = field(default_factory=Progress)
    stopped_by: str = ""
    """The setting that ended the run, if one did."""
    _rate_limited: set[str] = field(default_factory=set)
    """Sources that refused a request for its rate; they get no more requests."""
    _batcher: LookupBatcher = field(default_factory=LookupBatcher)
    _visits: dict[str, asyncio.Task[ReadPage]] = field(default_factory=dict)
    _last_news: float = field(default_factory=partial(read_monotonic, "news"))

    async def run(self, candidates: Sequence[Candidate]) -> None:
        """Run until all is done, the time is over, or nothing came for `idle_s`. Leaves no task behind; a bug in one task ends all."""
        services = [candidate.record for candidate in candidates if candidate.record.kind != "page"]
        tasks = [asyncio.create_task(self._complete(work, lookups, services)) for work, lookups in self._plan(candidates)]
        pending = set(tasks)
        try:
            while pending and not self.stopped_by:
                now, idle_at = read_monotonic("wait"), self._last_news + self.settings.idle_s
                if now >= min(self.until, idle_at):
                    self.stopped_by = "time_s" if now >= self.until else "idle_s"
                    break
                done, pending = await asyncio.wait(pending, timeout=min(self.until, idle_at) - now, return_when=asyncio.FIRST_EXCEPTION)
                for task in done:
                    task.result()
        finally:
            self.lookups.stop()
            self.visits.stop()
            unfinished: list[asyncio.Task[Any]] = [*pending, *self._visits.values()]
            for task in unfinished:
                task.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)
            await self._batcher.stop()

    def _plan(self, candidates: Sequence[Candidate]) -> list[tuple[IncompleteWork, list[Lookup]]]:
        """The works with their lookups, in the order in which they use the budgets: those to look up, then pages, then the rest."""
        planned: list[tuple[IncompleteWork, list[Lookup]]] = []
        for at in find_works_without_text(candidates):
            record = candidates[at].record
            link = self.parse_link(record.url) if record.url else Identifiers()
            known = Identifiers(**{**dict(link.pairs()), **dict(record.identifiers.pairs())})
            work = IncompleteWork(at, record, link, known, frozenset(found_by.source for found_by in candidates[at].found_by))
            planned.append((work, plan_lookups(self.sources, known, work.found_by)))
        return sorted(planned, key=lambda pair: (not pair[1], not pair[1] and pair[0].record.kind != "page"))

    async def _complete(self, work: IncompleteWork, lookups: Sequence[Lookup], services: Sequence[Record]) -> None:
        record = work.record
        if work.known.github and record.kind == "page":
            return  # a repository is no page
        if lookups:
            if self.lookups.begin(self.settings.lookups):
                await self._look_up(work.at, record, work.known, lookups)
        elif self.pages and _is_worth_a_visit(record, work.link) and self.visits.begin(self.settings.pages):
            page = await self._read_page(self.pages, work.at, record)
            if page:
                await self._check_declared_identifiers(work, page, services)

    async def _look_up(self, at: int, record: Record, identifiers: Identifiers, lookups: Sequence[Lookup]) -> bool | None:
        """True if a service confirmed that the identifiers are this work's, False if one said that they are another's, else None.

        A service is asked only if those before it had no abstract.
        """
        confirmed: bool | None = None
        silent = {lookup.source.name for lookup in lookups}
        failed = 0
        patience_s = PATIENCE * self.settings.idle_s
        async with aclosing(run_lookups(lookups, self.until, self._batcher, patience_s, self._rate_limited)) as answers:
            async for lookup, answer, error in answers:
                self._last_news = read_monotonic("news")
                silent.remove(lookup.source.name)
                if isinstance(error, RateLimited):
                    self._rate_limited.add(lookup.source.name)
                if error is not None:
                    failed += 1
                    self.lookups.count_failure(lookup.source.name, read_status(error))
                if answer is None:
                    continue
                if not is_same_work(record.model_copy(update={"identifiers": identifiers}), answer):
                    confirmed = False if confirmed is None else confirmed
                    self.lookups.why["with another title"] += 1
                    continue
                record, confirmed = fill_missing(record, [answer]), True
                self.records[at] = record
                if record.abstract:
                    break
        for name in () if record.abstract else silent:
            self.lookups.count_failure(name, RateLimited.status)
        self.lookups.end(bool(record.abstract) and confirmed is True)
        if not (record.abstract or failed or silent or confirmed is False):
            self.lookups.why["without an abstract anywhere"] += 1
        return confirmed

    async def _read_page(self, pages: PageReader, at: int, record: Record) -> ReadPage | None:
        """The page behind the link if it is the work's; its text fills the record."""
        url = record.url or ""
        page: ReadPage | None = None
        try:
            if url not in self._visits:  # works with the same link share a visit
                self._visits[url] = asyncio.ensure_future(pages.fetch(url, max(0.0, self.until - read_monotonic("page"))))
            page = await asyncio.shield(self._visits[url])
        except SearchError as error:
            status = read_status(error)
            self.visits.statuses.add(status)
            self.visits.why[f"not allowed by {ROBOTS}" if ROBOTS in str(error) else REASONS.get(status, OTHER_REASON)] += 1
        else:
            self._last_news = read_monotonic("news")
            if page.kind == "pdf":
                self.visits.why["a PDF, which is not read"] += 1
            elif page.kind == "doi":
                self.visits.why["with a DOI behind the link"] += 1
            elif not _shows_work(page, record):
                self.visits.why["with another title"] += 1
                page = None
            else:
                # identifiers must be confirmed first; a paper takes the page's abstract as text
                own = page.page
                text = (
                    own.text if record.kind == "page" or own.abstract in own.text else "\n\n".join(filter(None, (own.abstract, own.text)))
                )
                bare = own.model_copy(update={"identifiers": Identifiers(), "text": text[:MOST_CHARS]})
                self.records[at] = fill_missing(record if record.title else record.model_copy(update={"title": own.title}), [bare])
        self.visits.end(_has_text(self.records.get(at, record)))
        return page

    async def _check_declared_identifiers(self, work: IncompleteWork, read: ReadPage, services: Sequence[Record]) -> None:
        """Take over identifiers that a page declares, if a result of this search has them or a service confirms them."""
        page, record = read.page, self.records.get(work.at, work.record)
        new = Identifiers(**{scheme: value for scheme, value in page.identifiers.pairs() if not getattr(work.known, scheme)})
        if not new.pairs() or identifiers_contradict(record.model_copy(update={"identifiers": work.known}), page):
            return
        known = Identifiers(**{**dict(new.pairs()), **dict(work.known.pairs())})
        claimed = record.model_copy(update={"identifiers": known})
        for other in services:
            if (shared := {*new.pairs()} & {*other.identifiers.pairs()}) and is_same_work(claimed, other):
                confirmed_page = PageRecord(doc_id=page.doc_id, source=page.source, identifiers=Identifiers(**dict(shared)))
                self.records[work.at] = fill_missing(record, [confirmed_page])
                return
        lookups = plan_lookups(self.sources, new, work.found_by)
        confirmed = None
        if lookups and self.lookups.begin(self.settings.lookups):
            confirmed = await self._look_up(work.at, record, known, lookups)
        if confirmed is None:
            self.visits.why[UNCONFIRMED] += 1
            metadata = {**record.metadata, DECLARED: dict(new.pairs())}
            self.records[work.at] = record.model_copy(update={"metadata": metadata})


def _shows_work(page: ReadPage, record: Record) -> bool:
    """Whether a page is the expected one, not a login, a consent form or a domain for sale. A plain text has no title to compare."""
    if record.kind != "page":
        return matches_work_title(page.page.title, record.title)
    return not record.title or (page.kind == "text" and not page.page.title) or matches_result_title(page.page.title, record.title)


def _is_worth_a_visit(record: Record, link: Identifiers) -> bool:
    """Not a link to a DOI, by which the work is looked up, nor a page that was read before."""
    try:
        host = urlsplit(record.url or "").hostname or ""
    except ValueError:
        return False
    return bool(record.url) and not (record.text or link.doi or link.github) and host.removeprefix("www.") not in CATALOGUES
