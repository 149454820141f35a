"""The Python door: `search` and `asearch` run the whole graph, `execute` and `aexecute` the engine alone,
`translate`, `score` and `organize` single steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Any

from outrider.graph.pipeline import build
from outrider.nodes.fine_scorer import Scored
from outrider.nodes.translator import Translation
from outrider.services import Services
from outrider.services.execution import HYBRID, executed
from outrider.services.steps import Organized, organized_hits, scored, translated
from outrider.state.background import run_in_background
from outrider.state.errors import BadRequest, NotBuilt
from outrider.state.hits import Candidate, Hit
from outrider.state.pipeline import RunContext
from outrider.state.records import Record
from outrider.state.request import MAX_TOP_K, SYNONYMS, RetrieverType, checked
from outrider.state.response import SearchResponse

BOOLEAN_WORD = re.compile(r"\b(?:AND|OR|NOT)\b")
PUBMED_TAG = re.compile(
    r"""\[\s*(?:title|ti|tiab|title/abstract|abstract|ab|mesh(?:\s+(?:terms|major\ topic|subheading))?|mh|majr|sh|nm|au|author|1au|lastau
    |ta|jour|journal|dp|date\s*-\s*publication|pdat|edat|crdt|la|language|lang|pt|publication\s+type|ptyp|pmid|uid|doi|aid
    |all(?:\s+fields)?|tw|text\s+word|ot|other\s+term|ad|affiliation|vi|ip|pg|is|si|sb|filter)\s*(?::\s*~?\s*\w+)?\s*\]""",
    re.IGNORECASE | re.VERBOSE,
)
OVID_FIELD = re.compile(
    r"\.(?:ti|ab|tw|kw|kf|mp|sh|hw|au|jn|pt|yr|ot|nm|rs)(?:,(?:ti|ab|tw|kw|kf|mp|sh|hw|au|jn|pt|yr|ot|nm|rs))*\.|\bexp [A-Z][\w ,-]+/"
)


KNOWN_STRATEGIES = ("hybrid", *SYNONYMS, *RetrieverType)


async def asearch(
    query: str | dict[str, str],
    *,
    library: str | PathLike[str] | None = None,
    services: Services | None = None,
    context: RunContext | None = None,
    **request: Any,
) -> SearchResponse:
    """The answer to a request, whose other fields (`top_k`, `filters`, ...) are those of `SearchRequest`.

    Raises `BadRequest` for what cannot be understood; a run that could search nothing returns an answer without hits and the
    reason in `failures`.
    """
    asked = checked({"query": query, **request})
    with _services(services, library) as made:
        await made.warm()
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

    Scores are divided by the best. SPARSE ranks by words and refuses Boolean syntax, which it would run wrongly. HYBRID gives one
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
    strategies = [kind.value for kind in HYBRID] if str(strategy).lower() == "hybrid" else [strategy]
    asked = checked({"query": dict(query) if isinstance(query, Mapping) else query, "strategies": strategies, "filters": filters})
    if asked.strategies == (RetrieverType.LANCE_FTS,):
        refuse_boolean(str(asked.query))
    with _services(services, library) as made:
        return await executed(made, asked, top_k, rerank=rerank)


def execute(strategy: str, query: str | Mapping[str, str], **given: Any) -> list[Hit]:
    """`aexecute` for callers without an event loop."""
    return run_in_background(aexecute(strategy, query, **given))


async def translate(query: str, *, services: Services | None = None, **request: Any) -> Translation:
    """What a request means and the searches to run for it, without running them: `.intent`, `.strategy`, `.failures`, `.bypassed`,
    `.usage`.

    `request` are fields of `SearchRequest`, such as `search_mode`, `previous_strategies`, `user_feedback`. Raises `BadRequest`,
    `NothingSearchable`, `KeyRejected`.
    """
    asked = checked({"query": query, **request})
    with _services(services, None) as made:
        await made.warm()
        return await translated(made, asked)


async def score(query: str, records: Sequence[Record], *, top_k: int = 10, services: Services | None = None) -> Scored:
    """Records by how well they answer, best first: `.candidates`, each with `score` and `scored_by`, `.scoring`, `.failures`, `.usage`.

    By the model where one is configured, read until the first `top_k` are settled (`llm.max_risk`); else by rules, and `.bypassed` says
    why. Raises `BadRequest`, `KeyRejected`.
    """
    asked = checked({"query": query, "top_k": top_k})
    with _services(services, None) as made:
        await made.warm()
        return await scored(made, str(asked.query), records, top_k)


async def organize(
    candidates: Iterable[Candidate], *, top_k: int = 10, threshold: float | None = None, services: Services | None = None
) -> Organized:
    """Scored works as hits: threshold, one total order, facets. `.hits`, `.facets`, `.total_found`."""
    with _services(services, None) as made:
        return organized_hits(made, candidates, top_k, threshold)


def refuse_boolean(query: str) -> None:
    """Raise `NotBuilt` where words alone would run a Boolean query wrongly. Parentheses, quotes, `*` and `?` only rank."""
    for what, pattern in (("operator", BOOLEAN_WORD), ("field tag", PUBMED_TAG), ("field suffix", OVID_FIELD)):
        if found := pattern.search(query):
            raise NotBuilt(
                f"the query holds the Boolean {what} {found.group()!r}, and exact Boolean search is not built yet; "
                "give plain words, or write and, or, not in lower case if they are meant as words"
            )


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
