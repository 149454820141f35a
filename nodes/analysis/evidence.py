"""The sentences of the work's own text that answer the question, verbatim."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from outrider.state.analysis import AnalysisState, AnalysisUpdate
from outrider.state.distilling import Reading
from outrider.state.response import DistilledContext

Distil = Callable[[str, Reading, int], Awaitable[DistilledContext]]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Reads record, question; writes context, notes."""

    distil: Distil

    async def __call__(self, state: AnalysisState, most_tokens: int) -> AnalysisUpdate:
        record = state.record
        assert record is not None  # noqa: S101 - the edge to this node is taken only with one
        if not record.full_text():
            return {"notes": (*state.notes, "there is no text of it to take sentences from")}
        found = await self.distil(state.question, Reading(record.doc_id, record.full_text(), record.title, "[1]"), most_tokens)
        return {"context": found}
