"""The node that runs a systematic search, whose matches go to a ledger on disk.

The state carries only the ledger's location.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outrider.boolean.diagnostics import iter_leaves, iter_words
from outrider.boolean.evaluator import Evaluator
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
from outrider.systematic_search.run import Run

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

NODE = "systematic"
GREY_LITERATURE = "grey_literature"
BYPASSED_STEPS = tuple(
    Bypass(step=step, why=f"systematic mode: {why}")
    for step, why in (
        ("vectors", "only what the query matches is a hit"),
        ("reranker", "hits are in a defined order"),
        ("distiller", "records stay unaltered"),
    )
)

BeginRun = Callable[[PipelineState], Awaitable[Run]]


@dataclass(frozen=True, slots=True)
class Systematic:
    """Reads query, sources; writes result_set, sources, bypassed, failures, snapshot, provenance_hash, total_found; hits only as grey
    literature.

    It has no time limit. If it is interrupted, `result_set` tells how far it got and where it resumes.
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
                        runtime.stream_writer(
                            {"node": NODE, "event": "page", "source": page.source, "hits": run.hits, "cursor": page.cursor}
                        )
            except SearchError as error:
                message = f"{error}; {run.hits:,} hits so far; continue with: outrider systematic --resume {run.folder}"
                failures.append(Failure(node=NODE, error=type(error).__name__, message=message))
        manifest = run.manifest
        assert manifest is not None  # noqa: S101 - a closed run has its manifest
        rows = tuple(
            SourceReport(
                source=result.source,
                strategy=NODE,
                query=result.query,
                asked=result.fetched if result.total is None else result.total,
                returned=result.hits,
                total=result.total,
                status=("ok" if result.fetched else "empty") if result.complete else "off" if result.refused else "partial",
                message=result.refused or "; ".join(result.remarks),
                took_ms=round(manifest.times.seconds.get(result.source, 0.0) * 1000, 3),
            )
            for result in manifest.sources
        )
        snapshot = manifest.asked.snapshot
        update: Update = {
            "result_set": run.result_set(),
            "sources": rows,
            "bypassed": (*state.bypassed, *(step for step in BYPASSED_STEPS if not (state.grey_literature and step.step == "vectors"))),
            "snapshot": f"{snapshot.library}@{snapshot.version}" if snapshot else None,
            "provenance_hash": manifest.provenance_hash,
            "total_candidates": manifest.total,
            "total_found": manifest.unique,
        }
        if state.grey_literature:
            update["hits"] = await self._find_grey_literature(run.parse_query().tree, state, failures)
        return {**update, "failures": tuple(failures)}

    async def _find_grey_literature(self, tree: Node, state: PipelineState, failures: list[Failure]) -> tuple[Hit, ...]:
        """Works near the query's words by vectors that the query does not match: for scoping only, not part of the run."""
        library = next((source for source in self.configured() if source.name == LIBRARY), None)
        texts = (leaf for leaf in iter_leaves(tree) if isinstance(leaf, Text))
        words = " ".join(dict.fromkeys(WILD.sub("", word) for leaf in texts for word in iter_words(leaf.pattern)))
        if library is None or not words:
            message = "there is no library, or no word in the query, to search by vectors"
            failures.append(Failure(node=GREY_LITERATURE, error="BadRequest", message=message))
            return ()
        try:
            answer = await library.search(SourceQuery(words, RetrieverType.LANCE_DENSE, None, 2 * state.top_k))
            records = await self.library.whole([result.record for result in answer.results])
        except SearchError as error:
            failures.append(Failure(node=GREY_LITERATURE, error=type(error).__name__, message=str(error)))
            return ()
        evaluator = Evaluator(tree)
        unmatched = [record for record in records if not evaluator.matches(record)][: state.top_k]
        return tuple(
            to_hit(Candidate(record, (FoundBy(LIBRARY, RetrieverType.LANCE_DENSE, words, rank),)), rank)
            for rank, record in enumerate(unmatched, start=1)
        )
