"""The few stand-ins that unit tests share: an in-memory library, a source that fails on demand, a still clock, records."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from outrider.services import Services
from outrider.settings.model import Settings
from outrider.settings.sections import SourcesSettings
from outrider.state.filters import Filter
from outrider.state.hits import Candidate, FoundBy, Scored
from outrider.state.ports import Capabilities, Reranker, SourceAnswer, SourceQuery
from outrider.state.records import Identifiers, Paper, Record
from outrider.state.request import RetrieverType
from outrider.text.words import stems

OFFLINE = SourcesSettings(offline=True)
NOON = 1_790_000_000.0  # 21 September 2026


def paper(doc_id: str, title: str = "", **fields: object) -> Paper:
    return Paper.model_validate({"doc_id": doc_id, "title": title, **fields})


def candidate(record: Record, **fields: Any) -> Candidate:
    return Candidate(record, **fields)


def doi(value: str) -> Identifiers:
    return Identifiers(doi=value)


@dataclass
class Shelf:
    """A library in memory: `search` counts shared stems, ties by id."""

    records: list[Record] = field(default_factory=list)
    name: str = "library"
    strategies: tuple[str, ...] = (RetrieverType.LANCE_FTS,)
    capabilities: Capabilities = field(default_factory=lambda: Capabilities(frozenset({"paper"}), filters=True))
    timeout_s: float = math.inf
    queries: list[SourceQuery] = field(default_factory=list)
    error: Exception | None = None
    delay_s: float = 0.0
    barrier: asyncio.Barrier | None = None
    shelf_error: Exception | None = None
    """Raised by everything but `search`."""

    async def search(self, query: SourceQuery) -> SourceAnswer:
        self.queries.append(query)
        await asyncio.sleep(self.delay_s)
        if self.barrier:
            await self.barrier.wait()
        if self.error:
            raise self.error
        query_stems = set(stems(query.text))
        scored = [(len(query_stems & set(stems(f"{one.title} {one.full_text()}"))), one) for one in self.records]
        best = sorted((pair for pair in scored if pair[0]), key=lambda pair: (-pair[0], pair[1].doc_id))
        return SourceAnswer(tuple(Scored(record=one, score=score) for score, one in best[: query.limit]))

    async def get(self, scheme: str, value: str, within_s: float) -> Record | None:
        return next((one for one in self.records if getattr(one.identifiers, scheme) == value), None)

    async def whole(self, records: Sequence[Record]) -> list[Record]:
        if self.shelf_error:
            raise self.shelf_error
        by_id = {one.doc_id: one for one in self.records}
        return [by_id.get(one.doc_id, one) for one in records]

    async def snapshot(self) -> str | None:
        if self.shelf_error:
            raise self.shelf_error
        return "shelf@1"

    async def related_terms(self, text: str, limit: int) -> tuple[str, ...]:
        return ("hepatic", "dose", "enzyme", "serum", "injury", "trial", "cohort", "liver")[:limit]

    async def explain_filter(self, where: Filter) -> tuple[str, ...]:
        return ()


async def no_reranker(*, asked: bool = False) -> tuple[Reranker | None, str]:
    return None, "there is none in this test"


def services(*records: Record, **fields: object) -> Services:
    shelf = Shelf(list(records), **fields)  # type: ignore[arg-type]
    return Services(Settings(), clock=lambda: NOON, shelf=shelf, sources=(shelf,), reranker=no_reranker)


def make_found_by(rank: int = 1, source: str = "library", strategy: str = "lance_fts", query: str = "q") -> FoundBy:
    return FoundBy(source=source, strategy=strategy, query=query, rank=rank)
