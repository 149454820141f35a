"""What a judge will want to read is fetched first: missing abstracts, pages, and what repositories say of themselves.

All at once, within budgets of their own: works asked for by identifier, pages fetched, seconds, seconds in which nothing came. What was
left out by which of them stands in the answer's `sources`. Then abstracts and texts are kept in the library.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
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
from outrider.runtime.workers import Workers
from outrider.settings.model import CoarseFilterSettings, EnrichSettings, IdentitySettings, RunSettings
from outrider.state.decisions import NO_DECISIONS, DecisionsProvider, load_no_decisions
from outrider.state.errors import LibraryBusy, LibraryReadOnly, SearchError
from outrider.state.hits import Candidate
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.ports import Clock, Detailer, PageReader, ResultStore, Source
from outrider.state.records import LIBRARY, Record, Repository
from outrider.state.response import SourceReport, SourceStatus

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

TIME_SHARE = 0.4
"""Of the time that is left to the run, what may be spent here: scoring comes after."""

Fetched = tuple[Mapping[int, Record], tuple[SourceReport, ...]]
"""What candidates have become, by place, and the rows that say so."""


@dataclass(frozen=True, slots=True)
class Enrich:
    """Reads candidates, strategy, sources, top_k; writes candidates, sources, total_candidates. Nothing where only the library is asked."""

    sources: tuple[Source, ...]
    """All that are configured; the library is never asked here."""
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
        named = select_sources(state.strategy, self.sources)
        world = [source for source in named if source.name != LIBRARY]
        if not (self.settings.enabled and world and state.candidates):
            return {}
        keeper = self.saver if self.settings.keep and len(world) < len(named) else None
        candidates, rows = await self._fetched(world, state, self._share_s(state, runtime))
        if keeper and (records := select_records_to_save(candidates)):
            rows = (*rows, await save_records(keeper, records, self._share_s(state, runtime)))
        before = tuple(row for row in state.sources or () if isinstance(row, SourceReport))
        return {"candidates": candidates, "total_candidates": len(candidates), "sources": (*before, *rows)}

    def _share_s(self, state: PipelineState, runtime: Runtime[RunContext]) -> float:
        return min(self.settings.time_s, TIME_SHARE * time_left(runtime, self.run, self.clock, state))

    async def _fetched(
        self, world: Sequence[Source], state: PipelineState, within_s: float
    ) -> tuple[tuple[Candidate, ...], tuple[SourceReport, ...]]:
        """The candidates with what came, in their order; deduplicated again where an identifier that came shows that two are one."""
        parts = await _together([self._works(world, state.candidates, within_s), *self._details(world, state, within_s)])
        found = {at: record for part, _ in parts for at, record in part.items()}
        rows = tuple(row for _, said in parts for row in said)
        named = any(record.identifiers != state.candidates[at].record.identifiers for at, record in found.items())
        now = tuple(replace(one, record=found[at]) if at in found else one for at, one in enumerate(state.candidates))
        return (await self._deduplicated(now) if named else now), rows

    async def _deduplicated(self, candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
        decisions = NO_DECISIONS
        with suppress(SearchError):  # the node before has said so
            decisions = await self.load_decisions()
        return (await offload_clustering(self.workers, candidates, decisions, fold_versions=self.identity.fold_versions)).works

    async def _works(self, world: Sequence[Source], candidates: Sequence[Candidate], within_s: float) -> Fetched:
        started = time.monotonic()
        works = MissingAbstracts(world, self.pages, self.parse_link, self.settings, started + within_s)
        await works.run(candidates)
        budget = f"in {within_s:.3g} s, {self.settings.idle_s:.3g} s without news"
        lookups, pages = f"at most {self.settings.lookups} works {budget}", f"at most {self.settings.pages} pages {budget}"
        asked = works.lookups.make_row("identifiers", lookups, "lookups", works.stopped_by, started)
        read = works.visits.make_row("pages", pages, "pages", works.stopped_by, started)
        return works.records, tuple(row for row in (asked, read) if row)

    def _details(self, world: Sequence[Source], state: PipelineState, within_s: float) -> Iterator[Coroutine[Any, Any, Fetched]]:
        """One for each service that tells more of its repositories."""
        detailers = [self.detailers[source.name] for source in world if source.name in self.detailers]
        if not detailers or state.strategy is None:
            return
        rules = Rules(state.strategy.constraints, self.coarse, datetime.fromtimestamp(self.clock(), UTC))
        first = select_repositories(state.candidates, rules, max(self.coarse.most_repositories, state.top_k))
        for detailer in detailers:
            if theirs := {at: record for at, record in first.items() if record.source == detailer.name}:
                yield _detailed(detailer, theirs, within_s)


def select_repositories(candidates: Sequence[Candidate], rules: Rules, most: int) -> Mapping[int, Repository]:
    """By place: those that will be scored, as far as is known before more is known of them."""
    repositories = ((at, one.record) for at, one in enumerate(candidates) if isinstance(one.record, Repository))
    fitting = ((at, record) for at, record in repositories if not any(breaks for _, breaks, _ in rules.check(record)))
    return dict(islice(fitting, most))


async def _detailed(detailer: Detailer, records: Mapping[int, Repository], within_s: float) -> Fetched:
    started = time.monotonic()
    asked = {"source": detailer.name, "strategy": "details"}
    try:
        async with asyncio.timeout(within_s):
            said = await detailer.details(list(records.values()), within_s)
    except TimeoutError:
        message = f"{detailer.name} did not answer within {within_s:.3g} s (enrich.time_s)"
        late = SourceReport(**asked, asked=len(records), status="timeout", message=message, took_ms=_ms(started))
        return {}, (late,)
    came = {record.doc_id: record for record in said.records}
    told = {"message": said.message, "retry_at": format_time(said.retry_at), "took_ms": _ms(started)}
    row = SourceReport(**asked, asked=said.asked, returned=said.returned, status=said.status, **told)
    return {at: came[record.doc_id] for at, record in records.items() if record.doc_id in came}, (row,)


async def _together(parts: Sequence[Coroutine[Any, Any, Fetched]]) -> list[Fetched]:
    """All at once; where one ends with a bug, or all are cancelled, none is left behind."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _ms(started: float) -> float:
    return round((time.monotonic() - started) * 1000, 1)


STRATEGY = "keep"
KINDS = ("paper", "page")
ORIGIN = "search"
"""The `origin` of what is kept, where a filter finds it."""
WAIT_S = 1.0
"""How long the answer waits to say what became of it; on a slow machine the keeping goes on beside it."""
STILL_SAVING = "being kept: it takes more than {:.3g} s, and the answer does not wait for it"
STATUS: dict[type[SearchError], SourceStatus] = {LibraryBusy: "timeout", LibraryReadOnly: "forbidden"}


def select_records_to_save(candidates: Sequence[Candidate]) -> list[Record]:
    """Papers and pages with an abstract or a text that a service gave in this search; figures of repositories age too fast.

    Those of the user's own are never written, and of none what it has from a page of another.
    """
    found = [
        strip_page_values(one.record)
        for one in candidates
        if one.record.kind in KINDS and one.record.source != LIBRARY and any(place.source != LIBRARY for place in one.found_by)
    ]
    return [record for record in found if record.abstract or record.text]


async def save_records(keeper: ResultStore, records: Sequence[Record], within_s: float) -> SourceReport:
    """What became of it, as a row of the answer. Raises nothing that the library may cause."""
    started = time.perf_counter()
    wait_s, returned = min(within_s, WAIT_S), 0
    status: SourceStatus = "ok"
    try:
        async with asyncio.timeout(wait_s):
            new, changed = await keeper.keep(records, update_stored_record)
        returned, known = len(records), len(records) - new - changed
        message = "; ".join(f"{count} {what}" for count, what in ((new, "new"), (changed, "changed"), (known, "as they were")) if count)
    except TimeoutError:
        status, message = "partial", STILL_SAVING.format(wait_s)
    except SearchError as error:
        status, message = STATUS.get(type(error), "unavailable"), f"not kept: {error}"
    took_ms = round((time.perf_counter() - started) * 1000, 1)
    asked = len(records)
    return SourceReport(source=LIBRARY, strategy=STRATEGY, asked=asked, returned=returned, status=status, message=message, took_ms=took_ms)


def update_stored_record(record: Record, held: Record | None) -> Record:
    """What to keep of a record: the held one itself where that is all it says. A search gives bodies cut and edges left out."""
    if held is None:
        return record.model_copy(update={"origin": ORIGIN})
    if held.source == LIBRARY:
        return held
    before = strip_page_values(held)
    whole = fill_missing(record, [before])
    text = before.text if before.text.startswith(whole.text) else whole.text
    whole = whole.model_copy(update={"text": text, "edges": whole.edges or before.edges, "origin": before.origin})
    return held if whole == held else whole
