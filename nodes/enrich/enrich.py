"""The node that fetches missing abstracts, pages and repository details, and saves them.

All parts run at once, each within budgets: works looked up by identifier, pages fetched, seconds, seconds without news. The rows in the
response's `sources` report what each budget left out.

A saved record keeps the id and the `source` of the service that returned it, so that it is never taken for the user's own, and holds
nothing that a page said. Later answers of a service win over saved values; what they leave out stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from outrider.linkage.merge import fill_missing, strip_page_values
from outrider.nodes.coarse_filter import Rules
from outrider.nodes.dedup.cluster import offload_clustering
from outrider.nodes.enrich.missing_abstracts import MissingAbstracts, ParseLink
from outrider.nodes.run_settings import format_time, select_sources, time_left
from outrider.runtime.tape import read_monotonic
from outrider.runtime.workers import Workers
from outrider.settings.model import CoarseFilterSettings, EnrichSettings, IdentitySettings, RunSettings
from outrider.state.duplicate_decisions import NO_DECISIONS, DecisionsProvider, load_no_decisions
from outrider.state.errors import LibraryBusy, LibraryReadOnly, SearchError
from outrider.state.hits import Candidate
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.ports import Clock, Detailer, PageReader, ResultStore, Source
from outrider.state.records import LIBRARY, Record, Repository
from outrider.state.response import SourceReport, SourceStatus

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

TIME_SHARE = 0.4
"""Share of the run's remaining time that may be spent here: scoring comes after."""
STRATEGY = "keep"
KINDS = ("paper", "page")
ORIGIN = "search"
"""The `origin` of saved records, for filters."""
WAIT_S = 1.0
"""Longest wait for the outcome of saving; on a slow machine saving continues in the background."""
STILL_SAVING = "being kept: it takes more than {:.3g} s, and the answer does not wait for it"
STATUS: dict[type[SearchError], SourceStatus] = {LibraryBusy: "timeout", LibraryReadOnly: "forbidden"}

Renew = Callable[[Record, Record | None], Record]
"""Makes the record to save of a record and the stored one."""
Fetched = tuple[Mapping[int, Record], tuple[SourceReport, ...]]
"""Changed records by the position of their candidates, and the rows that report the outcome."""


@dataclass(frozen=True, slots=True)
class Enrich:
    """Reads candidates, strategy, sources, top_k; writes candidates, sources, total_candidates. Does nothing in a library-only search."""

    sources: tuple[Source, ...]
    """All configured sources; the library is never queried here."""
    detailers: Mapping[str, Detailer]
    """By the source of the repositories that they know."""
    pages: PageReader | None
    parse_link: ParseLink
    saver: ResultStore | None
    settings: EnrichSettings
    coarse: CoarseFilterSettings
    run: RunSettings
    clock: Clock
    identity: IdentitySettings = field(default_factory=IdentitySettings)
    load_decisions: DecisionsProvider = load_no_decisions
    workers: Workers | None = None

    async def __call__(self, state: PipelineState, runtime: Runtime[RunContext]) -> Update:
        assert state.strategy is not None  # noqa: S101  (the edge to this node is taken only with a strategy)
        sources = select_sources(state.strategy, self.sources)
        remote = [source for source in sources if source.name != LIBRARY]
        if not (self.settings.enabled and remote and state.candidates):
            return {}
        saver = self.saver if self.settings.keep and len(remote) < len(sources) else None
        candidates, rows = await self._enrich(remote, state, self._share_s(state, runtime))
        if saver and (records := select_records_to_save(candidates)):
            rows = (*rows, await save_records(saver, records, self._share_s(state, runtime)))
        before = tuple(row for row in state.sources or () if isinstance(row, SourceReport))
        return {"candidates": candidates, "total_candidates": len(candidates), "sources": (*before, *rows)}

    def _share_s(self, state: PipelineState, runtime: Runtime[RunContext]) -> float:
        return min(self.settings.time_s, TIME_SHARE * time_left(runtime, self.run, self.clock, state))

    async def _enrich(
        self, remote: Sequence[Source], state: PipelineState, within_s: float
    ) -> tuple[tuple[Candidate, ...], tuple[SourceReport, ...]]:
        """The enriched candidates in their order, deduplicated again if new identifiers came."""
        parts = (self._fetch_abstracts(remote, state.candidates, within_s), *self._fetch_details(remote, state, within_s))
        tasks = [asyncio.create_task(part) for part in parts]
        try:
            fetched = await asyncio.gather(*tasks)
        finally:  # after a bug in one, or a cancellation, no task is left behind
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        records = {at: record for part, _ in fetched for at, record in part.items()}
        rows = tuple(row for _, part_rows in fetched for row in part_rows)
        candidates = tuple(
            replace(candidate, record=records[at]) if at in records else candidate for at, candidate in enumerate(state.candidates)
        )
        if any(record.identifiers != state.candidates[at].record.identifiers for at, record in records.items()):
            decisions = NO_DECISIONS
            with suppress(SearchError):  # the dedup node has reported it
                decisions = await self.load_decisions()
            candidates = (await offload_clustering(self.workers, candidates, decisions, fold_versions=self.identity.fold_versions)).works
        return candidates, rows

    async def _fetch_abstracts(self, remote: Sequence[Source], candidates: Sequence[Candidate], within_s: float) -> Fetched:
        started = read_monotonic("abstracts")
        works = MissingAbstracts(remote, self.pages, self.parse_link, self.settings, started + within_s)
        await works.run(candidates)
        budget = f"in {within_s:.3g} s, {self.settings.idle_s:.3g} s without news"
        rows = (
            works.lookups.make_row("identifiers", f"at most {self.settings.lookups} works {budget}", "lookups", works.stopped_by, started),
            works.visits.make_row("pages", f"at most {self.settings.pages} pages {budget}", "pages", works.stopped_by, started),
        )
        return works.records, tuple(row for row in rows if row)

    def _fetch_details(self, remote: Sequence[Source], state: PipelineState, within_s: float) -> Iterator[Coroutine[Any, Any, Fetched]]:
        """One coroutine for each service that has details of its repositories."""
        detailers = [self.detailers[source.name] for source in remote if source.name in self.detailers]
        if not detailers or state.strategy is None:
            return
        rules = Rules(state.strategy.constraints, self.coarse, datetime.fromtimestamp(self.clock(), UTC))
        first = select_repositories(state.candidates, rules, max(self.coarse.most_repositories, state.top_k))
        for detailer in detailers:
            if theirs := {at: record for at, record in first.items() if record.source == detailer.name}:
                yield _fetch_from(detailer, theirs, within_s)


def select_repositories(candidates: Sequence[Candidate], rules: Rules, most: int) -> Mapping[int, Repository]:
    """The first repositories that break no rule so far, by position: the ones that will be scored."""
    repositories = ((at, candidate.record) for at, candidate in enumerate(candidates) if isinstance(candidate.record, Repository))
    fitting = ((at, record) for at, record in repositories if not any(breaks for _, breaks, _ in rules.check(record)))
    return dict(islice(fitting, most))


async def _fetch_from(detailer: Detailer, records: Mapping[int, Repository], within_s: float) -> Fetched:
    started = read_monotonic(f"details {detailer.name}")
    row: dict[str, Any] = {"source": detailer.name, "strategy": "details"}
    came: dict[str, Repository] = {}
    try:
        async with asyncio.timeout(within_s):
            details = await detailer.details(list(records.values()), within_s)
    except TimeoutError:
        message = f"{detailer.name} did not answer within {within_s:.3g} s (enrich.time_s)"
        row |= {"asked": len(records), "status": "timeout", "message": message}
    else:
        came = {record.doc_id: record for record in details.records}
        row |= {"asked": details.asked, "returned": details.returned, "status": details.status}
        row |= {"message": details.message, "retry_at": format_time(details.retry_at)}
    report = SourceReport(**row, took_ms=round((read_monotonic(f"details {detailer.name}") - started) * 1000, 1))
    return {at: came[record.doc_id] for at, record in records.items() if record.doc_id in came}, (report,)


def select_records_to_save(candidates: Sequence[Candidate]) -> list[Record]:
    """Papers and pages whose abstract or text a service returned in this search; figures of repositories age too fast.

    Never the user's own records, and without the values that came from another page.
    """
    records = [
        strip_page_values(candidate.record)
        for candidate in candidates
        if candidate.record.kind in KINDS
        and candidate.record.source != LIBRARY
        and any(found_by.source != LIBRARY for found_by in candidate.found_by)
    ]
    return [record for record in records if record.abstract or record.text]


async def save_records(saver: ResultStore, records: Sequence[Record], within_s: float, renew: Renew | None = None) -> SourceReport:
    """The outcome of saving, as a row of the response. Raises no error of the library."""
    started = read_monotonic("save")
    wait_s, returned = min(within_s, WAIT_S), 0
    status: SourceStatus = "ok"
    try:
        async with asyncio.timeout(wait_s):
            new, changed = await saver.keep(records, renew or update_stored_record)
        returned = len(records)
        counts = ((new, "new"), (changed, "changed"), (returned - new - changed, "unchanged"))
        message = "; ".join(f"{count} {what}" for count, what in counts if count)
    except TimeoutError:
        status, message = "partial", STILL_SAVING.format(wait_s)
    except SearchError as error:
        status, message = STATUS.get(type(error), "unavailable"), f"not kept: {error}"
    row = {"source": LIBRARY, "strategy": STRATEGY, "asked": len(records), "returned": returned, "status": status, "message": message}
    return SourceReport.model_validate({**row, "took_ms": round((read_monotonic("save") - started) * 1000, 1)})


def update_stored_record(record: Record, stored: Record | None) -> Record:
    """The record to save; `stored` itself if the new one adds nothing. Searches return bodies cut and edges left out."""
    if stored is None:
        return record.model_copy(update={"origin": ORIGIN})
    if stored.source == LIBRARY:
        return stored
    before = strip_page_values(stored)
    whole = fill_missing(record, [before])
    text = before.text if before.text.startswith(whole.text) else whole.text
    whole = whole.model_copy(update={"text": text, "edges": whole.edges or before.edges, "origin": before.origin})
    return stored if whole == stored else whole
