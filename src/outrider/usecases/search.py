"""The Python door: `search` and `asearch` run the whole graph, `execute` and `aexecute` the engine alone,
`translate`, `score` and `organize` single steps; `add_to_library` and `aadd_to_library` ingest; `merge` and `split` say which records are
one work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any

from outrider.boolean.parser import uses_boolean_syntax
from outrider.graph.pipeline import build
from outrider.ingest.report import IngestReport
from outrider.nodes.fine_scorer.fine_scorer import ScoringResult
from outrider.nodes.translator.translator import Translation
from outrider.runtime.background_loop import run_in_background
from outrider.runtime.tracing import run_named
from outrider.services import Services
from outrider.state.errors import BadRequest
from outrider.state.hits import Candidate, Hit
from outrider.state.pipeline import RunContext
from outrider.state.records import Record
from outrider.state.request import MAX_TOP_K, SYNONYMS, RetrieverType, check_request
from outrider.state.response import SearchResponse
from outrider.usecases.deduplicate import Decided, decided
from outrider.usecases.execute import HYBRID, Organized, executed, matched, organized_hits, scored, translated
from outrider.usecases.ingest import ingested
from outrider.usecases.threads import final, threads_of

if TYPE_CHECKING:
    from outrider.usecases.deduplicate import FilesDeduplicated

KNOWN_STRATEGIES = ("hybrid", *SYNONYMS, *RetrieverType)


async def asearch(
    query: str | dict[str, str],
    *,
    library: str | PathLike[str] | None = None,
    services: Services | None = None,
    context: RunContext | None = None,
    thread: str | None = None,
    **request: Any,
) -> SearchResponse:
    """The answer to a request, whose other fields (`top_k`, `filters`, ...) are those of `SearchRequest`.

    On a `thread` each step is kept (`threads.uri`), so that the next search of that name knows this one, and one that was killed can be
    resumed (`outrider threads resume`).

    Raises `BadRequest` for what cannot be understood; a run that could search nothing returns an answer without hits and the
    reason in `failures`.
    """
    asked = check_request({"query": query, **request})
    with _services(services, library) as made, run_named():
        await made.warm()
        if thread is not None:
            async with threads_of(made) as threads:
                return await final(threads.search(thread, asked, context))
        state = await build(made).ainvoke(asked, context=context or RunContext())
    return SearchResponse.model_validate(state)


def search(query: str | dict[str, str], **given: Any) -> SearchResponse:
    """`asearch` for callers without an event loop, or inside one that they do not want to wait on."""
    return run_in_background(asearch(query, **given))


async def aexecute(
    strategy: str,
    query: str | Mapping[str, str],
    *,
    filters: Mapping[str, Any] | None = None,
    top_k: int = 10,
    rerank: bool = False,
    library: str | PathLike[str] | None = None,
    services: Services | None = None,
) -> list[Hit]:
    """The library's engine without the graph: the first `top_k` hits of "SPARSE", "DENSE", "GRAPH" or, all fused, "HYBRID".

    Scores are divided by the best. SPARSE ranks by words; a query with AND, OR, NOT, field tags or
    as a mapping of fields to texts is run exactly: only what it matches, best words first (`systematic` gives all of it). HYBRID gives one
    work once and goes on without vectors where the library has none or no model can be loaded, which it logs as a warning. With
    `rerank` the settings' reranker reorders the first works; the rest follows as it was. Of a very long query the first
    `MAX_QUERY_TERMS` different words are searched.

    Raises `BadRequest` for what cannot be understood, `LibraryError` where there is no library, `NoVectors`,
    `EmbeddingSpaceMismatch` or `ModelError` where vectors or a reranker are asked for and cannot be had.
    """
    if isinstance(top_k, bool) or not isinstance(top_k, int) or not 1 <= top_k <= MAX_TOP_K:
        raise BadRequest(f"top_k takes a whole number from 1 to {MAX_TOP_K:,}, not {top_k!r}")
    if str(strategy).lower() not in KNOWN_STRATEGIES:
        raise BadRequest(f"strategy takes SPARSE, DENSE, GRAPH or HYBRID, not {strategy!r}")
    by_words = SYNONYMS.get(str(strategy).lower(), str(strategy).lower()) == RetrieverType.LANCE_FTS
    if by_words and (isinstance(query, Mapping) or (isinstance(query, str) and uses_boolean_syntax(query))):
        check_request({"query": query, "mode": "systematic"})
        with _services(services, library) as made:
            return await matched(made, query, filters, top_k, rerank=rerank)
    strategies = [kind.value for kind in HYBRID] if str(strategy).lower() == "hybrid" else [strategy]
    asked = check_request({"query": dict(query) if isinstance(query, Mapping) else query, "strategies": strategies, "filters": filters})
    with _services(services, library) as made:
        return await executed(made, asked, top_k, rerank=rerank)


def execute(strategy: str, query: str | Mapping[str, str], **given: Any) -> list[Hit]:
    """`aexecute` for callers without an event loop."""
    return run_in_background(aexecute(strategy, query, **given))


async def aadd_to_library(
    *targets: str | PathLike[str],
    columns: Mapping[str, str] | None = None,
    installed: bool = False,
    library: str | PathLike[str] | None = None,
    services: Services | None = None,
) -> IngestReport:
    """What `outrider ingest` does: files, folders, `doi:...`, `arxiv:...`, `pmid:...`, `pmcid:...`, `github:owner/name` and links.

    A path that exists is a path, whatever it looks like. What cannot be read, fetched or found stands in the report's `files`. Raises
    `BadRequest` for what cannot be a target, for a path that is not there, and for a target that nobody may be asked for offline.
    """
    with _services(services, library) as made:
        return await ingested(made, targets, columns=columns, installed=installed)


def add_to_library(*targets: str | PathLike[str], **given: Any) -> IngestReport:
    """`aadd_to_library` for callers without an event loop; Ctrl-C keeps what is done."""
    return run_in_background(aadd_to_library(*targets, **given))


async def asplit(
    doc_id: str,
    *others: str,
    why: str = "",
    by: str | None = None,
    library: str | PathLike[str] | None = None,
    services: Services | None = None,
) -> Decided:
    """What `outrider library split` does: keeps a record apart from `others`, or, without them, from every other record.

    Remembered in the library with who (`by`, the user's name by default) and when; records stay as they are. Raises `BadRequest`,
    `LibraryMissing`.
    """
    with _services(services, library) as made:
        return await decided(made, "split", [doc_id, *others], by, why)


def split(doc_id: str, *others: str, **given: Any) -> Decided:
    """`asplit` for callers without an event loop."""
    return run_in_background(asplit(doc_id, *others, **given))


async def amerge(
    *doc_ids: str,
    why: str = "",
    by: str | None = None,
    library: str | PathLike[str] | None = None,
    services: Services | None = None,
) -> Decided:
    """What `outrider library merge` does: takes records for one work from now on, whatever evidence says; `asplit` undoes it.

    Raises `BadRequest`, also where it would bring together what was split, and `LibraryMissing`.
    """
    with _services(services, library) as made:
        return await decided(made, "merge", doc_ids, by, why)


def merge(*doc_ids: str, **given: Any) -> Decided:
    """`amerge` for callers without an event loop."""
    return run_in_background(amerge(*doc_ids, **given))


def dedup(*files: str | PathLike[str], columns: Mapping[str, str] | None = None) -> FilesDeduplicated:
    """What `outrider dedup FILE...` finds: groups of the records' own ids, every record in exactly one. No library is needed.

    Raises `BadRequest` for a file that is not there, cannot be read or holds no record, and for unknown `columns`.
    """
    from outrider.usecases.deduplicate import files_deduplicated

    return files_deduplicated(files, columns or {})


async def translate(query: str, *, services: Services | None = None, **request: Any) -> Translation:
    """What a request means and the searches to run for it, without running them: `.intent`, `.strategy`, `.failures`, `.bypassed`,
    `.usage`.

    `request` are fields of `SearchRequest`, such as `search_mode`, `previous_strategies`, `user_feedback`. Raises `BadRequest`,
    `NothingSearchable`, `KeyRejected`.
    """
    asked = check_request({"query": query, **request})
    with _services(services, None) as made:
        await made.warm(searches=False)
        return await translated(made, asked)


async def score(query: str, records: Sequence[Record], *, top_k: int = 10, services: Services | None = None) -> ScoringResult:
    """Records by how well they answer, best first: `.candidates`, each with `score` and `scored_by`, `.scoring`, `.failures`, `.usage`.

    By the model where one is configured, read until the first `top_k` are settled (`llm.max_risk`); else by rules, and `.bypassed` says
    why. Raises `BadRequest`, `KeyRejected`.
    """
    asked = check_request({"query": query, "top_k": top_k})
    with _services(services, None) as made:
        await made.warm(searches=False)
        return await scored(made, str(asked.query), records, top_k)


async def organize(
    candidates: Iterable[Candidate], *, top_k: int = 10, threshold: float | None = None, services: Services | None = None
) -> Organized:
    """Scored works as hits: threshold, one total order, facets. `.hits`, `.facets`, `.total_found`."""
    with _services(services, None) as made:
        return organized_hits(made, candidates, top_k, threshold)


def services_for(library: str | PathLike[str] | None) -> Services:
    """Services from the settings, with another library where one is named."""
    return Services.from_file({"library.uri": None if library is None else str(library)})


@contextmanager
def _services(given: Services | None, library: str | PathLike[str] | None) -> Iterator[Services]:
    """The caller's own services, which stay open, or new ones for this call."""
    if given is not None:
        yield given
        return
    made = services_for(library)
    try:
        yield made
    finally:
        made.close()
