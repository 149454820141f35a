"""Single steps of the pipeline without the graph, by the same nodes: `translate`, `score`, `organize`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from outrider.nodes.fine_scorer import NODE, Scored
from outrider.nodes.judgement import Question
from outrider.nodes.organizer import facets, organized, to_hit
from outrider.nodes.rule_ranker import ranked
from outrider.nodes.runtime import run_budget
from outrider.nodes.translator import Translation
from outrider.services.nodes import scorer_of, translator_of
from outrider.state.chat import Budget
from outrider.state.hits import Candidate, Hit
from outrider.state.records import Record
from outrider.state.request import SearchRequest
from outrider.state.response import Bypass, Facets, Usage

if TYPE_CHECKING:
    from outrider.services import Services


@dataclass(frozen=True, slots=True)
class Organized:
    """The first hits in order, and what there is of all that passed the threshold."""

    hits: tuple[Hit, ...]
    facets: Facets
    total_found: int


async def translated(services: Services, asked: SearchRequest) -> Translation:
    """By the model where there is one, else by rules. Raises `NothingSearchable`, `KeyRejected`."""
    return await translator_of(services).translate(asked, _budget(services), services.settings.run.run_timeout_s)


async def scored(services: Services, query: str, records: Sequence[Record], top_k: int) -> Scored:
    """Works by how well they answer, best first; `scored_by` says who judged each. Raises `KeyRejected`."""
    this_year = datetime.fromtimestamp(services.clock(), UTC).year
    candidates = [Candidate(record=record) for record in records]
    ordered = await asyncio.to_thread(ranked, candidates, query, services.settings.ranking, this_year, max(len(candidates), 1))
    if not ordered:
        return Scored(())
    if services.chat is None:
        return Scored(ordered, bypassed=(Bypass(step=NODE, why=services.chat_says),))
    run_timeout_s = services.settings.run.run_timeout_s
    made = await scorer_of(services).score(ordered, Question(query), top_k, _budget(services), run_timeout_s)
    return made if made.candidates else replace(made, candidates=ordered)


def organized_hits(services: Services, candidates: Iterable[Candidate], top_k: int, threshold: float | None) -> Organized:
    """Threshold, total order and facets; `threshold` is the settings' where none is given."""
    settings = services.settings.organizer
    kept = organized(candidates, settings.relevance_threshold if threshold is None else threshold)
    hits = tuple(to_hit(one, rank) for rank, one in enumerate(kept[:top_k], start=1))
    return Organized(hits, facets(kept, settings), len(kept))


def _budget(services: Services) -> Budget:
    return run_budget(None, services.settings.llm, Usage())
