"""Contribution of each stage of the search: by words the index, widening, the whole graph; with vectors the plain reciprocal rank fusion of
bm25s and the vectors, the engine's fusion, widening, the order of the rules, the whole graph.

These figures chose the weights of added terms (`library.text_search.OWN_WEIGHT`), of phrases (`PHRASE_WEIGHT`) and of the rule ranker.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean, median

from bench.data import COLLECTIONS, Absent, Collection, collection, thinned
from bench.library import library_of
from bench.model import Remembering, model, model_folder
from bench.quality import DEPTH, bm25s_search, scores
from bench.report import Cell, Report
from bench.retrieval import PLAIN_DEPTH, fuse_plainly, works
from outrider.graph.pipeline import build
from outrider.library.fusion import build_fusion
from outrider.library.graph_neighbours import LibraryGraph
from outrider.library.library import Library
from outrider.library.search_engine import Engine
from outrider.nodes.rule_ranker import bm25_plus, count_terms, rank_by_rules, weigh_wishes
from outrider.nodes.translator.rule_plan import list_concept_phrases
from outrider.services import Services
from outrider.settings.load import load
from outrider.settings.model import RankingSettings
from outrider.state.ports import SourceQuery, TextEmbedder
from outrider.state.request import RetrieverType, SearchMode
from outrider.text.strip_markup import fold_text
from outrider.text.words import stem, stems, words

MAX_QUERIES = 200
COMPARED = 50
COLUMNS = ("stage", *(f"{name} {measure}" for name in COLLECTIONS for measure in ("nDCG@10", "R@100")), "mean nDCG@10", "mean R@100")
ENGINE, GRAPH = "with vectors: the engine's fusion", "with vectors: whole graph"
NEVER_BELOW = 0.002
"""How far the whole graph may fall below the engine on a collection."""
Stage = Callable[[str], Awaitable[list[str]]]


def run() -> Report:
    by_stage: dict[str, list[float]] = {}
    notes = [
        f"At most {MAX_QUERIES} queries a collection, evenly spread; the graph is asked for {DEPTH} hits, all compared by their texts."
    ]
    embedder = None
    try:
        embedder = model()
    except Absent as absent:
        notes.append(f"without vectors: {absent}")
    for name in COLLECTIONS:
        try:
            whole = collection(name)
            source = thinned(whole, MAX_QUERIES)
        except Absent as absent:
            return Report("stages", COLUMNS, (), (f"skipped: {absent}",))
        if name == COLLECTIONS[0]:
            notes.append(_compare_with_rank_bm25(source))
        vectors = Remembering.of(embedder, whole) if embedder else None
        for stage, figures in asyncio.run(_measured(source, vectors)).items():
            by_stage.setdefault(stage, []).extend(figures)
    if embedder:
        notes.append(compare_with_engine(by_stage))
    return Report("stages", COLUMNS, tuple(_row(stage, figures) for stage, figures in by_stage.items()), tuple(notes))


async def _measured(source: Collection, vectors: TextEmbedder | None) -> dict[str, tuple[float, float]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "library"
        library = await library_of(source, path, vectors)
        flags = {"library.uri": str(path), "sources.offline": True, "embedding.model_name": model_folder() if vectors else "none"}
        services = Services(load(flags).settings)
        try:
            stages = _stages(library, services)
            if vectors is not None:
                engine = Engine(library, lambda _: vectors, LibraryGraph(library))
                stages += _stages_with_vectors(source, engine, services)
            return {name: scores(source, {key: await stage(text) for key, text in source.queries.items()}) for name, stage in stages}
        finally:
            services.close()
            library.close()


def _stages(library: Library, services: Services) -> list[tuple[str, Stage]]:
    graph = build(services)

    def widened(terms: int) -> Stage:
        async def search(text: str) -> list[str]:
            added = await library.related_terms(text, terms) if terms else ()
            return [hit.record.doc_id for hit in await library.search(text, None, DEPTH, added)]

        return search

    async def with_phrases(text: str) -> list[str]:
        """The Boolean query of rules: phrases joined with AND, which rank records instead of requiring them."""
        added = await library.related_terms(text, 3)
        phrases = list_concept_phrases(text)
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


def _stages_with_vectors(source: Collection, engine: Engine, services: Services) -> list[tuple[str, Stage]]:
    graph = build(services)
    by_words, ranking = bm25s_search(source, PLAIN_DEPTH), RankingSettings()
    fuse = build_fusion(ranking)

    async def plain(text: str) -> list[str]:
        near = (await engine.search(SourceQuery(text, RetrieverType.LANCE_DENSE, None, PLAIN_DEPTH))).results
        return fuse_plainly(by_words(text), [hit.record.doc_id for hit in near])[:DEPTH]

    def hybrid(*, added: bool = False, phrased: bool = False, ruled: bool = False) -> Stage:
        async def search(text: str) -> list[str]:
            terms = await engine.related_terms(text, 3) if added else ()
            phrases = list_concept_phrases(text) if phrased else ()
            candidates = await works(engine, text, fuse, terms, phrases)
            if ruled:
                candidates = rank_by_rules(candidates, text, weigh_wishes(ranking, text), this_year=0)  # the collections have no years
            return [candidate.record.doc_id for candidate in candidates][:DEPTH]

        return search

    async def whole_graph(text: str) -> list[str]:
        answer = await graph.ainvoke({"query": text, "top_k": DEPTH, "distill_enabled": False})
        return [hit.doc_id for hit in answer["hits"]]

    return [
        ("with vectors: plain RRF", plain),
        (ENGINE, hybrid()),
        ("with vectors: 3 terms added", hybrid(added=True)),
        ("with vectors: 3 terms and phrases", hybrid(added=True, phrased=True)),
        ("with vectors: 3 terms, phrases and rules", hybrid(added=True, phrased=True, ruled=True)),
        (GRAPH, whole_graph),
    ]


def compare_with_engine(by_stage: Mapping[str, Sequence[float]]) -> str:
    """Whether the whole graph keeps up with its engine on each collection."""
    names = zip(COLLECTIONS, by_stage[GRAPH][::2], by_stage[ENGINE][::2], strict=True)
    gains = {name: own - engine for name, own, engine in names}
    verdict = "holds" if min(gains.values()) >= -NEVER_BELOW else "does not hold"
    each = ", ".join(f"{name} {gain:+.3f}" for name, gain in gains.items())
    return f"whole graph with vectors beside the engine: at least -{NEVER_BELOW} on each {verdict} ({each})"


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
    return (stage, *figures, mean(figures[::2]), mean(figures[1::2]))
