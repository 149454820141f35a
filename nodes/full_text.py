"""The node that reads open full texts of the first hits

It runs only where the request or `enrich.full_text` asks for it, after the hits are chosen: no text of a work that is not shown is fetched.
What was read is kept in the library, with its licence and place.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from outrider.nodes.enrich.enrich import ORIGIN, save_records
from outrider.nodes.organizer import to_hit
from outrider.nodes.run_settings import time_left
from outrider.runtime.tape import read_monotonic
from outrider.settings.model import EnrichSettings, RunSettings
from outrider.state.full_text import NAMES, TextFetcher, WorkText, carry_text, read_origin
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.ports import Clock, ResultStore
from outrider.state.records import Record
from outrider.state.response import Bypass, SourceReport

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

STEP = "full_text"
SOURCE = "full text"
SHARE_OF_TIME = 0.5
"""Of the run's remaining time: distilling long texts comes after."""
GRACE_S = 0.5
"""For a reader that is late to notice that its time is over."""
MOST_REASONS = 3


@dataclass(frozen=True, slots=True)
class FullTextNode:
    """Reads hits, candidates, sources; writes hits, sources, provenance_hash, bypassed."""

    fetcher: TextFetcher | None
    why_not: str
    """Why there is no fetcher."""
    saver: ResultStore | None
    settings: EnrichSettings
    run: RunSettings
    clock: Clock

    async def __call__(self, state: PipelineState, runtime: Runtime[RunContext]) -> Update:
        if self.fetcher is None:
            return {"bypassed": (*state.bypassed, Bypass(step=STEP, why=self.why_not))}
        by_id = {candidate.record.doc_id: candidate for candidate in state.candidates}
        first = [hit for hit in state.hits[: self.settings.full_text_first] if hit.kind == "paper" and hit.doc_id in by_id]
        # a hit holds all of its text, its candidate perhaps the beginning
        records = [by_id[hit.doc_id].record for hit in first if hit.original_text == hit.content]
        if not records:
            return {}
        within_s = min(self.settings.full_text_s, SHARE_OF_TIME * time_left(runtime, self.run, self.clock, state))
        started = read_monotonic("full_text")
        try:
            async with asyncio.timeout(within_s + GRACE_S):
                fetched = await self.fetcher.fetch(records, within_s)
        except TimeoutError:
            fetched = []
        took_ms = round((read_monotonic("full_text") - started) * 1000, 1)
        rows: tuple[SourceReport, ...] = (make_row(len(records), [report for _, report in fetched], took_ms, within_s),)
        read = [record for record, _ in fetched if read_origin(record)]
        if self.saver is not None and read:
            rows = (*rows, await save_records(self.saver, read, within_s, renew_text))
        texts = {record.doc_id: record for record in read}
        hits = tuple(
            to_hit(replace(by_id[hit.doc_id], record=texts[hit.doc_id]), hit.rank) if hit.doc_id in texts else hit for hit in state.hits
        )
        before = tuple(row for row in state.sources or () if isinstance(row, SourceReport))
        return {"hits": hits, "sources": (*before, *rows), "provenance_hash": extend_hash(state.provenance_hash, read)}


def renew_text(record: Record, stored: Record | None) -> Record:
    """The record to save: a stored one, the user's own included, gets the text and nothing else."""
    return record.model_copy(update={"origin": ORIGIN}) if stored is None else carry_text(stored, record)


def make_row(requested: int, reports: Sequence[WorkText], took_ms: float, within_s: float) -> SourceReport:
    """How many texts were read, in which forms, and why others were not."""
    forms = Counter(NAMES[report.full_text.form] for report in reports if report.status == "fetched" and report.full_text)
    others = Counter(report.status for report in reports if report.status not in ("fetched", "kept", "own text"))
    reasons = dict.fromkeys(report.reason for report in reports if report.status in ("refused", "failed"))
    notes = dict.fromkeys(note for report in reports for note in report.notes)
    returned, unread = forms.total(), requested - len(reports)
    parts = [f"{count} {name}" for name, count in forms.items()] + [f"{count} {status}" for status, count in others.items()]
    parts += [f"{unread} not read within {within_s:.3g} s (enrich.full_text_s)"] if unread else []
    message = "; ".join(filter(None, (", ".join(parts), *list(reasons)[:MOST_REASONS], *list(notes)[:MOST_REASONS])))
    return SourceReport(
        source=SOURCE,
        strategy="open",
        asked=requested,
        returned=returned,
        status="timeout" if unread and not returned else "ok" if returned == requested else "partial" if returned else "empty",
        message=message,
        took_ms=took_ms,
    )


def extend_hash(before: str, read: Sequence[Record]) -> str:
    """The provenance hash of a run whose hits got these texts."""
    contents = [[record.doc_id, record.content_hash()] for record in read]
    return hashlib.sha256(json.dumps([before, contents]).encode()).hexdigest() if read else before
