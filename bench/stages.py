"""Contribution of each stage of the search by words: index, widening, the whole graph.

These figures chose the weights of added terms (`library.text_search.OWN_WEIGHT`), of phrases (`PHRASE_WEIGHT`) and of the rule ranker.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

from bench.data import COLLECTIONS, Absent, Collection, collection, thinned
from bench.library import library_of
from bench.quality import DEPTH, scores
from bench.report import Cell, Report
from outrider.graph.pipeline import build
from outrider.library.library import Library
from outrider.nodes.rule_ranker import bm25_plus, count_terms
from outrider.nodes.translator.common_boolean_syntax import conjunction, list_phrases
from outrider.nodes.translator.rule_plan import extract_concepts
from outrider.services import Services
from outrider.settings.load import load
from outrider.state.request import SearchMode
from outrider.text.strip_markup import fold_text
from outrider.text.words import stem, stems, words

MAX_QUERIES = 200
COMPARED = 50
COLUMNS = ("stage", *(f"{name} {measure}" for name in COLLECTIONS for measure in ("nDCG@10", "R@100")), "mean nDCG@10")
Stage = Callable[[str], Awaitable[list[str]]]


def run() -> Report:
    by_stage: dict[str, list[float]] = {}
    notes = [
        f"At most {MAX_QUERIES} queries a collection, evenly spread; the graph is asked for {DEPTH} hits, all compared by their texts."
    ]
    for name in COLLECTIONS:
        try:
            source = thinned(collection(name), MAX_QUERIES)
        except Absent as absent:
            return Report("stages", COLUMNS, (), (f"skipped: {absent}",))
        if name == COLLECTIONS[0]:
            notes.append(_compare_with_rank_bm25(source))
        for stage, figures in asyncio.run(_measured(source)).items():
            by_stage.setdefault(stage, []).extend(figures)
    return Report("stages", COLUMNS, tuple(_row(stage, figures) for stage, figures in by_stage.items()), tuple(notes))


async def _measured(source: Collection) -> dict[str, tuple[float, float]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "library"
        library = await library_of(source, path)
        try:
            return {
                name: scores(source, {key: await stage(text) for key, text in source.queries.items()})
                for name, stage in _stages(library, path)
            }
        finally:
            library.close()


def _stages(library: Library, path: Path) -> list[tuple[str, Stage]]:
    graph = build(Services(load({"library.uri": str(path)}).settings))

    def widened(terms: int) -> Stage:
        async def search(text: str) -> list[str]:
            added = await library.related_terms(text, terms) if terms else ()
            return [hit.record.doc_id for hit in await library.search(text, None, DEPTH, added)]

        return search

    async def with_phrases(text: str) -> list[str]:
        """The Boolean query of rules: phrases joined with AND, which rank records instead of requiring them."""
        added = await library.related_terms(text, 3)
        phrases = list_phrases(conjunction(extract_concepts(text)))
        return [hit.record.doc_id for hit in await library.search(text, None, DEPTH, added, phrases)]

    def whole_graph(mode: SearchMode) -> Stage:
        async def search(text: str) -> list[str]:
            request = {"query": text, "strategies": ["sparse"], "search_mode": mode, "top_k": DEPTH, "distill_enabled": False}
            answer = await graph.ainvoke(request)
            return [hit.doc_id for hit in answer["hits"]]

        return search

    return [
        ("ranking index", widened(0)),
        ("index, 3 terms added", widened(3)),
        ("index, 8 terms added", widened(8)),
        ("index, 3 terms and the plan's phrases", with_phrases),
        *((f"whole graph, {mode}", whole_graph(mode)) for mode in SearchMode),
    ]


def _compare_with_rank_bm25(source: Collection) -> str:
    """Median times of BM25+ over the texts of 50 works, by the rule ranker and by rank-bm25, and the largest difference in score."""
    from rank_bm25 import BM25Plus

    texts = [f"{document.title} {document.abstract}" for document in source.documents[:COMPARED]]
    took_s: dict[str, list[float]] = {"rule ranker": [], "rank-bm25": []}
    worst = 0.0
    for query in source.queries.values():
        terms = list(dict.fromkeys(stems(query)))
        began = time.perf_counter()
        counts = count_terms(texts, terms)
        own = bm25_plus(terms, counts)
        took_s["rule ranker"].append(time.perf_counter() - began)
        began = time.perf_counter()
        scores = BM25Plus([[stem(word) for word in words(fold_text(text))] for text in texts]).get_scores(terms)
        took_s["rank-bm25"].append(time.perf_counter() - began)
        best = max(*scores, 1e-9)
        pairs = zip(own, scores, counts, strict=True)
        worst = max([worst, *(abs(one - other / best) for one, other, count in pairs if any(own) and count.counts)])
    times = ", ".join(f"{name} {median(values) * 1000:.1f} ms" for name, values in took_s.items())
    return f"BM25+ over {len(texts)} works of {source.name}: {times}; scores differ by at most {worst:.0e}."


def _row(stage: str, figures: list[float]) -> tuple[Cell, ...]:
    return (stage, *figures, sum(figures[::2]) / len(figures[::2]))
