"""Whether what came is the work that was asked for, by its title. Pages add the name of their site, engines cut titles off.

What works without an abstract get: from services that know one of their identifiers, and from the pages that their links lead to.

Nothing is believed that does not fit: what a service or a page says of a work is taken only where the titles agree, or the link is the
page of that identifier at those who give it; an identifier that a page declares, only where a service says the same. A link that holds
a DOI is never fetched: the work is asked for by that DOI.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from outrider.linkage.confirm_work import identifiers_contradict, same_work, titles_agree
from outrider.linkage.merge import fill_missing, strip_page_values
from outrider.linkage.titles import normal_title
from outrider.nodes.enrich.identifier_lookup import Lookup, LookupBatcher, plan_lookups, run_lookups
from outrider.nodes.enrich.report_rows import OTHER_REASON, REASONS, Progress, read_status
from outrider.settings.model import EnrichSettings
from outrider.state.errors import RateLimited, SearchError
from outrider.state.hits import Candidate
from outrider.state.ports import PageReader, ReadPage, Source
from outrider.state.records import Identifiers, Paper, Record
from outrider.state.records import Page as PageRecord

FEWEST_WORDS = 4
"""Of a title that tells a work though another goes on after it."""
CUT_OFF = ("...", "…")
"""How a title ends that is not whole."""
SITE = re.compile(r"\s+[-|–—·:»]\s+|\s*\|\s*")
"""What stands before the name of a site."""


def is_same_work(work: Record, said: Record) -> bool:
    """Whether what came for an identifier of a work is that work. The title of a page may end early or go on with the site's name."""
    if same_work(work, said):
        return True
    shared = set(work.identifiers.pairs()) & set(said.identifiers.pairs())
    return bool(shared) and work.kind == "page" and not identifiers_contradict(work, said) and matches_work_title(work.title, said.title)


def matches_work_title(page: str, title: str) -> bool:
    """Whether a page's title is that of the work: alike, or it goes on after it, or the end is cut off."""
    return titles_agree(page, title) or _goes_on(title, page) or (_is_cut(page) and _goes_on(page, title))


def matches_result_title(page: str, find: str) -> bool:
    """Whether a page's title is that under which an engine showed it: either may go on after the other, short ones with a site's name."""
    if titles_agree(page, find) or _goes_on(find, page) or _goes_on(page, find):
        return True
    return any(titles_agree(SITE.split(long.strip(), maxsplit=1)[0], short) for short, long in ((page, find), (find, page)))


def _is_cut(title: str) -> bool:
    return title.rstrip().endswith(CUT_OFF)


def _goes_on(short: str, long: str) -> bool:
    said = normal_title(short)
    return len(said.split()) >= FEWEST_WORDS and f"{normal_title(long)} ".startswith(f"{said} ")


PATIENCE = 0.9
"""Of `idle_s`, what one service may take: it is given up, and the next one asked, before all is. Neither does a lookup wait longer for
its turn, where the searches of others want theirs."""
ROBOTS = "robots.txt"
UNCONFIRMED = "with an identifier that nobody confirmed"
DECLARED = "declared"
"""Metadata: identifiers that stood on a page, and that nobody confirmed."""
MOST_CHARS = 100_000
"""Of a page's text, a long chapter: more would hold up every step that reads it."""
CATALOGUES = frozenset({"openalex.org", "semanticscholar.org"})
"""Whose pages say no more than the service's own answer did."""

ParseLink = Callable[[str], Identifiers]
"""The identifiers that a link names by its form."""


def find_works_without_text(candidates: Sequence[Candidate]) -> list[int]:
    """Places, in their order, of papers and pages with neither abstract nor text; what a paper has from a page does not count."""
    return [
        at
        for at, one in enumerate(candidates)
        if isinstance(one.record, Paper | PageRecord) and not _has_text(strip_page_values(one.record))
    ]


def _has_text(record: Record) -> bool:
    return bool(record.abstract or record.text)


class IncompleteWork(NamedTuple):
    """One that lacks an abstract."""

    at: int
    """Its place among the candidates."""
    record: Record
    link: Identifiers
    """By the form of its link."""
    known: Identifiers
    found_by: frozenset[str]
    """Who has said already what they know."""


@dataclass(slots=True)
class MissingAbstracts:
    """One run over the works that lack an abstract; `found` holds what each has become so far, whenever it is stopped."""

    sources: Sequence[Source]
    pages: PageReader | None
    parse_link: ParseLink
    settings: EnrichSettings
    until: float
    """By `time.monotonic`."""
    records: dict[int, Record] = field(default_factory=dict)
    """By place among the candidates."""
    lookups: Progress = field(default_factory=Progress)
    visits: Progress = field(default_factory=Progress)
    stopped_by: str = ""
    """The setting that ended it, where one did."""
    _rate_limited: set[str] = field(default_factory=set)
    """Sources that have no turn for us: they are asked no more."""
    _batcher: LookupBatcher = field(default_factory=LookupBatcher)
    _visits: dict[str, asyncio.Task[ReadPage]] = field(default_factory=dict)
    _last_news: float = field(default_factory=time.monotonic)

    async def run(self, candidates: Sequence[Candidate]) -> None:
        """Until all is done, the time is over, or nothing came for too long. Leaves no task behind; a bug in one ends all."""
        services = [one.record for one in candidates if one.record.kind != "page"]
        tasks = [asyncio.create_task(self._one(work, ways, services)) for work, ways in self._planned(candidates)]
        pending = set(tasks)
        try:
            while pending and not self.stopped_by:
                now, idle_at = time.monotonic(), self._last_news + self.settings.idle_s
                if now >= min(self.until, idle_at):
                    self.stopped_by = "time_s" if now >= self.until else "idle_s"
                    break
                done, pending = await asyncio.wait(pending, timeout=min(self.until, idle_at) - now, return_when=asyncio.FIRST_EXCEPTION)
                for task in done:
                    task.result()
        finally:
            self.lookups.stop()
            self.visits.stop()
            left: list[asyncio.Task[Any]] = [*pending, *self._visits.values()]
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
            await self._batcher.stop()

    def _planned(self, candidates: Sequence[Candidate]) -> list[tuple[IncompleteWork, list[Lookup]]]:
        """As the budgets are given out: in their order, but of pages web finds first."""
        works = [self._work(at, candidates[at]) for at in find_works_without_text(candidates)]
        planned = [(work, plan_lookups(self.sources, work.known, work.found_by)) for work in works]
        return sorted(planned, key=lambda one: (not one[1], not one[1] and one[0].record.kind != "page"))

    def _work(self, at: int, candidate: Candidate) -> IncompleteWork:
        record = candidate.record
        link = self.parse_link(record.url) if record.url else Identifiers()
        known = Identifiers(**{**dict(link.pairs()), **dict(record.identifiers.pairs())})
        return IncompleteWork(at, record, link, known, frozenset(place.source for place in candidate.found_by))

    async def _one(self, work: IncompleteWork, ways: Sequence[Lookup], services: Sequence[Record]) -> None:
        record = work.record
        if work.known.github and record.kind == "page":
            return  # a repository is no page
        if ways:
            if self.lookups.begin(self.settings.lookups):
                await self._looked_up(work.at, record, work.known, ways)
        elif self.pages and _worth_reading(record, work.link) and self.visits.begin(self.settings.pages):
            page = await self._fetched(self.pages, work.at, record)
            if page:
                await self._declared(work, page, services)

    async def _looked_up(self, at: int, record: Record, known: Identifiers, ways: Sequence[Lookup]) -> bool | None:
        """Whether somebody said that the identifiers are this work's, False where somebody said that one is another's.

        A service is asked only where those before had no abstract.
        """
        confirmed: bool | None = None
        silent = {way.source.name for way in ways}
        failed = 0
        async with aclosing(run_lookups(ways, self.until, self._batcher, PATIENCE * self.settings.idle_s, self._rate_limited)) as answers:
            async for way, said, error in answers:
                self._last_news = time.monotonic()
                silent.remove(way.source.name)
                if isinstance(error, RateLimited):
                    self._rate_limited.add(way.source.name)
                if error is not None:
                    failed += 1
                    self.lookups.count_failure(way.source.name, read_status(error))
                if said is None:
                    continue
                if not is_same_work(record.model_copy(update={"identifiers": known}), said):
                    confirmed = False if confirmed is None else confirmed
                    self.lookups.why["of another title"] += 1
                    continue
                record, confirmed = fill_missing(record, [said]), True
                self.records[at] = record
                if record.abstract:
                    break
        for name in () if record.abstract else silent:
            self.lookups.count_failure(name, RateLimited.status)
        self.lookups.end(bool(record.abstract) and confirmed is True)
        if not (record.abstract or failed or silent or confirmed is False):
            self.lookups.why["without an abstract anywhere"] += 1
        return confirmed

    async def _fetched(self, pages: PageReader, at: int, record: Record) -> ReadPage | None:
        """What the link leads to, where it is the work's; its text fills the record."""
        got: ReadPage | None = None
        try:
            got = await self._visited(pages, record.url or "")
        except SearchError as error:
            status = read_status(error)
            self.visits.statuses.add(status)
            self.visits.why[f"not allowed by {ROBOTS}" if ROBOTS in str(error) else REASONS.get(status, OTHER_REASON)] += 1
        else:
            self._last_news = time.monotonic()
            if got.kind == "pdf":
                self.visits.why["a PDF, which is not read"] += 1
            elif got.kind == "doi":
                self.visits.why["with a DOI behind the link"] += 1
            elif not _is_of(got, record):
                self.visits.why["of another title"] += 1
                got = None
            else:
                self.records[at] = _with_page(record, got.page)
        self.visits.end(_has_text(self.records.get(at, record)))
        return got

    async def _visited(self, pages: PageReader, url: str) -> ReadPage:
        """Works of one link share a visit."""
        if url not in self._visits:
            self._visits[url] = asyncio.ensure_future(pages.fetch(url, max(0.0, self.until - time.monotonic())))
        return await asyncio.shield(self._visits[url])

    async def _declared(self, work: IncompleteWork, got: ReadPage, services: Sequence[Record]) -> None:
        """Identifiers that a page gave are taken where a find of this search has them, or a service that is asked says so."""
        page, record = got.page, self.records.get(work.at, work.record)
        new = Identifiers(**{scheme: value for scheme, value in page.identifiers.pairs() if not getattr(work.known, scheme)})
        if not new.pairs() or identifiers_contradict(record.model_copy(update={"identifiers": work.known}), page):
            return
        known = Identifiers(**{**dict(new.pairs()), **dict(work.known.pairs())})
        claimed = record.model_copy(update={"identifiers": known})
        same = [one for one in services if {*new.pairs()} & {*one.identifiers.pairs()} and is_same_work(claimed, one)]
        if same:
            shared = dict({*new.pairs()} & {*same[0].identifiers.pairs()})
            self.records[work.at] = fill_missing(
                record, [PageRecord(doc_id=page.doc_id, source=page.source, identifiers=Identifiers(**shared))]
            )
            return
        ways = plan_lookups(self.sources, new, work.found_by)
        confirmed = None
        if ways and self.lookups.begin(self.settings.lookups):
            confirmed = await self._looked_up(work.at, record, known, ways)
        if confirmed is None:
            self.visits.why[UNCONFIRMED] += 1
            metadata = {**record.metadata, DECLARED: dict(new.pairs())}
            self.records[work.at] = record.model_copy(update={"metadata": metadata})


def _is_of(got: ReadPage, record: Record) -> bool:
    """Whether a page is the one that was looked for: no login, no consent, no domain for sale. A plain text has no title to say so."""
    if record.kind != "page":
        return matches_work_title(got.page.title, record.title)
    return not record.title or (got.kind == "text" and not got.page.title) or matches_result_title(got.page.title, record.title)


def _worth_reading(record: Record, link: Identifiers) -> bool:
    """Not what leads to a DOI: that work is asked for by it. Nor what was read before."""
    try:
        host = urlsplit(record.url or "").hostname or ""
    except ValueError:
        return False
    return bool(record.url) and not (record.text or link.doi or link.github) and host.removeprefix("www.") not in CATALOGUES


def _with_page(record: Record, page: PageRecord) -> Record:
    """The record with what stands on the page, but for identifiers: those have to be looked at. A paper takes its abstract as text."""
    text = page.text if record.kind == "page" or page.abstract in page.text else "\n\n".join(filter(None, (page.abstract, page.text)))
    bare = page.model_copy(update={"identifiers": Identifiers(), "text": text[:MOST_CHARS]})
    named = record if record.title else record.model_copy(update={"title": page.title})
    return fill_missing(named, [bare])
