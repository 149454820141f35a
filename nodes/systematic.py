"""The systematic branch: every match of a Boolean query into a ledger on disk; the state carries only where it lies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outrider.boolean.evaluator import Evaluator
from outrider.boolean.lint import iter_leaves, iter_words
from outrider.boolean.occurrences import WILD
from outrider.nodes.organizer import to_hit
from outrider.state.boolean import Node, Text
from outrider.state.errors import SearchError
from outrider.state.hits import Candidate, FoundBy, Hit
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.ports import LibraryReader, Source, SourceQuery
from outrider.state.records import LIBRARY
from outrider.state.request import RetrieverType
from outrider.state.response import Bypass, Failure, SourceReport
from outrider.systematic_search.manifest import Manifest, SourceResult
from outrider.systematic_search.run import Run

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

NODE = "systematic"
GREY_LITERATURE = "grey_literature"
BYPASSED_STEPS = tuple(
    Bypass(step=step, why=f"systematic mode: {why}")
    for step, why in (
        ("vectors", "only what the query matches is a hit"),
        ("reranker", "hits stand in a stated order"),
        ("distiller", "records stay unaltered"),
    )
)

BeginRun = Callable[[PipelineState], Awaitable[Run]]


@dataclass(frozen=True, slots=True)
class Systematic:
    """Reads query, sources; writes result_set, sources, bypassed, failures, snapshot, provenance_hash, total_found; hits only as grey
    literature.

    It takes as long as it takes. Where it breaks off, `result_set` says how far it came and where it goes on.
    """

    begin: BeginRun
    library: LibraryReader
    configured: Callable[[], Sequence[Source]]

    async def __call__(self, state: PipelineState, runtime: Runtime[RunContext]) -> Update:
        failures = list(state.failures)
        run = await self.begin(state)
        async with aclosing(run):
            try:
                async with aclosing(run.pages()) as pages:
                    async for page in pages:
                        told = {"node": NODE, "event": "page", "source": page.source, "hits": run.hits, "cursor": page.cursor}
                        runtime.stream_writer(told)
            except SearchError as error:
                how = f"{error}; {run.hits:,} hits came; go on with: outrider systematic --resume {run.folder}"
                failures.append(Failure(node=NODE, error=type(error).__name__, message=how))
        assert run.manifest is not None  # noqa: S101 - a closed run has its manifest
        made = run.manifest
        update: Update = {
            "result_set": run.result_set(),
            "sources": tuple(_row(one, made) for one in made.sources),
            "bypassed": (*state.bypassed, *(one for one in BYPASSED_STEPS if not (state.grey_literature and one.step == "vectors"))),
            "snapshot": f"{made.asked.snapshot.library}@{made.asked.snapshot.version}" if made.asked.snapshot else None,
            "provenance_hash": made.provenance_hash,
            "total_candidates": made.total,
            "total_found": made.unique,
        }
        if state.grey_literature:
            update["hits"] = await self._grey(run.parse_tree(), state, failures)
        return {**update, "failures": tuple(failures)}

    async def _grey(self, tree: Node, state: PipelineState, failures: list[Failure]) -> tuple[Hit, ...]:
        """Works near the query's words by vectors that the query does not match: for scoping, and no part of the run."""
        library = next((one for one in self.configured() if one.name == LIBRARY), None)
        words = _words(tree)
        if library is None or not words:
            failures.append(
                Failure(node=GREY_LITERATURE, error="BadRequest", message="there is no library, or no word in the query, to look near")
            )
            return ()
        try:
            answer = await library.search(SourceQuery(words, RetrieverType.LANCE_DENSE, None, 2 * state.top_k))
            whole = await self.library.whole([one.record for one in answer.results])
        except SearchError as error:
            failures.append(Failure(node=GREY_LITERATURE, error=type(error).__name__, message=str(error)))
            return ()
        evaluator = Evaluator(tree)
        beside = [record for record in whole if not evaluator.matches(record)][: state.top_k]
        found = (Candidate(record, (FoundBy(LIBRARY, RetrieverType.LANCE_DENSE, words, rank),)) for rank, record in enumerate(beside, 1))
        return tuple(to_hit(one, rank) for rank, one in enumerate(found, 1))


def _words(tree: Node) -> str:
    """Those of the query's terms, each once, without signs of truncation."""
    texts = (leaf for leaf in iter_leaves(tree) if isinstance(leaf, Text))
    return " ".join(dict.fromkeys(WILD.sub("", word) for leaf in texts for word in iter_words(leaf.pattern)))


def _row(one: SourceResult, made: Manifest) -> SourceReport:
    complete = "ok" if one.fetched else "empty"
    return SourceReport(
        source=one.source,
        strategy=NODE,
        query=one.query,
        asked=one.fetched if one.total is None else one.total,
        returned=one.hits,
        total=one.total,
        status=complete if one.complete else "off" if one.refused else "partial",
        message=one.refused or "; ".join(one.remarks),
        took_ms=round(made.times.seconds.get(one.source, 0.0) * 1000, 3),
    )
