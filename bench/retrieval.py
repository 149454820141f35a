"""Every stage of retrieval on the development collections, and LanceDB's hybrid search.

All get title and text of each document and the text of each query, and return 100 documents. The stages alternate, query by query. The time
of a stage that needs the query's vector includes embedding it. A stage is compared with the best single one on the same queries, where p is
that of the paired randomisation test; and with the plain reciprocal rank fusion of bm25s and the vectors, 200 documents of each and k = 60,
where the interval is that of the paired bootstrap over the queries.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

from bench.data import COLLECTIONS, Absent, Collection, collection, thinned
from bench.library import library_of
from bench.model import NAME, Remembering, model
from bench.quality import DEPTH, bm25s_search, each_score
from bench.report import Cell, Report, progress
from outrider.library.fusion import build_fusion
from outrider.library.graph_neighbours import LibraryGraph
from outrider.library.search_engine import Engine
from outrider.library.vectors.write import document_text
from outrider.models.rerank.late_interaction import LateInteraction
from outrider.nodes.reranker import rerank_candidates
from outrider.nodes.scout import TaskResult, find_depth, fuse_answers, make_candidates, make_ranked_list, read_records
from outrider.runtime.run_reads import share_reads
from outrider.settings.model import RankingSettings, RerankerSettings
from outrider.state.hits import Candidate
from outrider.state.ports import Fusion, SourceQuery, TextEmbedder
from outrider.state.request import RetrieverType
from outrider.training.rerank_evaluation import sign_flip_p

if TYPE_CHECKING:
    from outrider.models.embed.embedder import Embedder

MAX_RERANKED = 100
"""Queries a collection that are reranked, which takes a second or two each without a GPU."""
SINGLE = {"sparse": RetrieverType.LANCE_FTS, "dense": RetrieverType.LANCE_DENSE, "graph": RetrieverType.GRAPH_NEIGHBOR}
RERANKED, PEER, PLAIN = "fused and reranked", "LanceDB hybrid", "plain RRF"
PLAIN_DEPTH, PLAIN_K = 200, 60
SAMPLES = 10_000
FUSED = f"fused, {RankingSettings().fusion}"
"""By default; this one is reranked."""
NDCG, RECALL = 0, 1
MEASURES = ("nDCG@10", "R@100")
COLUMNS = (
    "collection", "queries", "stage", *MEASURES, "queries a second", "nDCG@10 to best single", "p", "R@100 to best single",
    "nDCG@10 to plain RRF", "95 % interval", "R@100 to plain RRF",
)  # fmt: skip
NEVER_WORSE = 0.01
"""How far a fused list may fall below the best single one on a collection."""
BETTER = {(FUSED, NDCG): 0.025, (FUSED, RECALL): 0.025, (RERANKED, NDCG): 0.04}
"""Gain that a stage must reach on average."""
BETTER_THAN_PLAIN = 0.012
"""Gain in nDCG@10 over the plain fusion that the fused list must reach on average; its R@100 must not be lower on average."""

Stage = Callable[[str], Awaitable[list[str]]]


@dataclass(frozen=True, slots=True)
class Measured:
    """The stages on one collection."""

    collection: str
    scores: Mapping[str, Mapping[str, tuple[float, float]]]
    """nDCG@10 and R@100 by stage and query; the reranked stage may have fewer queries than the others."""
    took_s: Mapping[str, Sequence[float]]

    def values(self, stage: str, measure: int, like: str = "") -> list[float]:
        """One value per query, of the queries that the stage `like` has."""
        return [self.scores[stage][key][measure] for key in self.scores[like or stage]]

    def best_single(self, measure: int, like: str) -> str:
        present = (stage for stage in SINGLE if stage in self.scores)
        return max(present, key=lambda stage: mean(self.values(stage, measure, like)))

    def differences(self, stage: str, measure: int) -> list[float]:
        """Differences to the best single stage, one per query."""
        return self.differences_to(self.best_single(measure, stage), stage, measure)

    def differences_to(self, base: str, stage: str, measure: int) -> list[float]:
        pairs = zip(self.values(stage, measure), self.values(base, measure, stage), strict=True)
        return [own - other for own, other in pairs]


def run(max_queries: int | None = None) -> Report:
    """On all queries, or on at most `max_queries` of each collection, evenly spread."""
    results: list[Measured] = []
    try:
        embedder = model()
        for name in COLLECTIONS:
            source = collection(name)
            results.append(asyncio.run(measured(thinned(source, max_queries or len(source.queries)), embedder)))
    except Absent as absent:
        return Report("retrieval", COLUMNS, tuple(row for one in results for row in rows(one)), (f"stopped: {absent}",))
    notes = [
        f"Vectors and late interaction by {NAME}. At most {MAX_RERANKED} queries a collection are reranked, evenly spread.",
        *(note for (stage, measure), better in BETTER.items() for note in checks(results, stage, measure, better)),
        *compare_with_plain(results),
    ]
    return Report("retrieval", COLUMNS, (*(row for one in results for row in rows(one)), *mean_rows(results)), tuple(notes))


def rows(result: Measured) -> list[tuple[Cell, ...]]:
    return [_row(result, stage) for stage in result.scores]


def _row(result: Measured, stage: str) -> tuple[Cell, ...]:
    best = stage == result.best_single(NDCG, stage)
    differences = result.differences(stage, NDCG)
    return (
        result.collection,
        len(differences),
        stage,
        mean(result.values(stage, NDCG)),
        mean(result.values(stage, RECALL)),
        len(result.took_s[stage]) / sum(result.took_s[stage]),
        mean(differences),
        None if best else sign_flip_p(differences),
        mean(result.differences(stage, RECALL)),
        *_compare_to_plain(result, stage),
    )


def _compare_to_plain(result: Measured, stage: str) -> tuple[Cell, ...]:
    if stage == PLAIN or PLAIN not in result.scores:
        return None, None, None
    ndcg, recall = (result.differences_to(PLAIN, stage, measure) for measure in (NDCG, RECALL))
    return mean(ndcg), "{:+.3f} to {:+.3f}".format(*bootstrap_interval(ndcg)), mean(recall)


def bootstrap_interval(differences: Sequence[float]) -> tuple[float, float]:
    """The middle 95 % of the means of samples of the queries."""
    import numpy as np

    values = np.asarray(differences)
    means = values[np.random.default_rng(0).integers(0, len(values), (SAMPLES, len(values)))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975)).tolist()
    return low, high


def mean_rows(results: Sequence[Measured]) -> list[tuple[Cell, ...]]:
    """Means of the stages that every collection has, with equal weight for each collection."""
    common = [stage for stage in results[0].scores if all(stage in one.scores for one in results)]
    return [_mean_row(results, stage) for stage in common]


def _mean_row(results: Sequence[Measured], stage: str) -> tuple[Cell, ...]:
    ndcg, recall = (mean(mean(one.values(stage, measure)) for one in results) for measure in (NDCG, RECALL))
    to_ndcg, to_recall = (mean(mean(one.differences(stage, measure)) for one in results) for measure in (NDCG, RECALL))
    queries = sum(len(one.scores[stage]) for one in results)
    is_compared = stage != PLAIN and all(PLAIN in one.scores for one in results)
    to_plain = [mean(mean(one.differences_to(PLAIN, stage, at)) for one in results) if is_compared else None for at in (NDCG, RECALL)]
    return "mean", queries, stage, ndcg, recall, None, to_ndcg, None, to_recall, to_plain[0], None, to_plain[1]


def checks(results: Sequence[Measured], stage: str, measure: int, better: float) -> tuple[str, str]:
    """The targets of a stage relative to the best single one, and whether they hold."""
    gains = {one.collection: mean(one.differences(stage, measure)) for one in results}
    each, average = ", ".join(f"{name} {gain:+.3f}" for name, gain in gains.items()), mean(gains.values())
    subject = f"{stage}, {MEASURES[measure]} beside the best single stage:"
    return (
        f"{subject} at least -{NEVER_WORSE} on each {_verdict(min(gains.values()), -NEVER_WORSE)} ({each})",
        f"{subject} at least +{better} on average {_verdict(average, better)} ({average:+.3f})",
    )


def compare_with_plain(results: Sequence[Measured]) -> tuple[str, ...]:
    """The targets of the fused list relative to the plain fusion, and whether they hold."""
    if not all(PLAIN in one.scores for one in results):
        return ()
    ndcg, recall = (mean(mean(one.differences_to(PLAIN, FUSED, measure)) for one in results) for measure in (NDCG, RECALL))
    subject = f"{FUSED} beside the plain fusion"
    highest = {one.collection: bootstrap_interval(one.differences_to(PLAIN, FUSED, NDCG))[1] for one in results}
    worse = ", ".join(name for name, high in highest.items() if high < 0)
    return (
        f"{subject}, nDCG@10: at least +{BETTER_THAN_PLAIN} on average {_verdict(ndcg, BETTER_THAN_PLAIN)} ({ndcg:+.3f})",
        f"{subject}, R@100: not lower on average {_verdict(recall, 0.0)} ({recall:+.3f})",
        f"{subject}, nDCG@10: no interval below 0 {f'does not hold ({worse})' if worse else 'holds'}",
    )


def _verdict(value: float, bound: float) -> str:
    return "holds" if value >= bound else "does not hold"


async def measured(source: Collection, embedder: Embedder) -> Measured:
    vectors = Remembering.of(embedder, source)
    with tempfile.TemporaryDirectory() as folder:
        progress(f"{source.name}: {len(source.documents):,} documents, of which {len(vectors.vectors):,} were embedded before")
        library = await library_of(source, Path(folder) / "library", vectors)
        try:
            engine = Engine(library, lambda _: vectors, LibraryGraph(library))
            stages = _stages(source, engine, embedder) | {PEER: await lancedb_hybrid(source, Path(folder) / "peer", vectors)}
            return await _run_queries(source, stages)
        finally:
            library.close()


async def _run_queries(source: Collection, stages: Mapping[str, Stage]) -> Measured:
    reranked = thinned(source, MAX_RERANKED).queries
    rankings: dict[str, dict[str, list[str]]] = {name: {} for name in stages}
    took_s: dict[str, list[float]] = {name: [] for name in stages}
    await asyncio.gather(*(stage("warm up") for stage in stages.values()))
    for place, (key, text) in enumerate(source.queries.items()):
        if place % 50 == 0:
            progress(f"{source.name}: query {place} of {len(source.queries)}")
        for name, stage in stages.items():
            if name != RERANKED or key in reranked:
                started = time.perf_counter()
                rankings[name][key] = await stage(text)
                took_s[name].append(time.perf_counter() - started)
    scores = {name: each_score(source, by_query) for name, by_query in rankings.items()}
    return Measured(source.name, scores, took_s)


def _stages(source: Collection, engine: Engine, embedder: Embedder) -> dict[str, Stage]:
    bm25s = bm25s_search(source)
    fusions = {f"fused, {name}": build_fusion(RankingSettings(fusion=name)) for name in ("rrf", "min_max")}
    edges = any(document.edges for document in source.documents)

    async def peer(text: str) -> list[str]:
        return bm25s(text)

    async def single(text: str, kind: RetrieverType) -> list[str]:
        return [one.record.doc_id for one in (await engine.search(SourceQuery(text, kind, None, DEPTH))).results]

    plain_words = bm25s_search(source, PLAIN_DEPTH)

    async def plain(text: str) -> list[str]:
        near = (await engine.search(SourceQuery(text, RetrieverType.LANCE_DENSE, None, PLAIN_DEPTH))).results
        return fuse_plainly(plain_words(text), [one.record.doc_id for one in near])[:DEPTH]

    async def fused(text: str, fuse: Fusion) -> list[str]:
        return [one.record.doc_id for one in await works(engine, text, fuse)][:DEPTH]

    async def reranked(text: str) -> list[str]:
        candidates = await works(engine, text, fusions[FUSED])
        settings = RerankerSettings()
        moved = await asyncio.to_thread(rerank_candidates, candidates, text, LateInteraction(embedder), settings.depth, settings.weight)
        return [one.record.doc_id for one in moved][:DEPTH]

    return {
        "bm25s": peer,
        **{name: partial(single, kind=kind) for name, kind in SINGLE.items() if name != "graph" or edges},
        PLAIN: plain,
        **{name: partial(fused, fuse=fuse) for name, fuse in fusions.items()},
        RERANKED: reranked,
    }


def fuse_plainly(*rankings: Sequence[str]) -> list[str]:
    """Reciprocal rank fusion written out without our code, ties by id."""
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, doc_id in enumerate(ranking, start=1):
            scores[doc_id] = scores.get(doc_id, 0.0) + 1 / (PLAIN_K + rank)
    return sorted(scores, key=lambda doc_id: (-scores[doc_id], doc_id))


async def works(engine: Engine, text: str, fuse: Fusion, added: tuple[str, ...] = (), phrases: tuple[str, ...] = ()) -> Sequence[Candidate]:
    """The results of all strategies, fused, with the scores that a reranker mixes with its own. The search by words may be widened."""

    async def search(kind: RetrieverType) -> TaskResult:
        query = SourceQuery(text, kind, None, DEPTH, added, phrases=phrases, depth=find_depth(kind, DEPTH), places_only=True)
        answer = await engine.search(query)
        places = make_ranked_list("library", kind, text, answer.places or answer.results)  # while others run, as the scout does
        return TaskResult(answer.results, places, answer.compare_again, answer.read)

    with share_reads():
        answers = await asyncio.gather(*map(search, RetrieverType))
        order = fuse_answers(answers, fuse, DEPTH)
        return make_candidates(order, [answer.ranking for answer in answers], await read_records(answers, order))


async def lancedb_hybrid(source: Collection, folder: Path, embedder: TextEmbedder) -> Stage:
    """LanceDB's hybrid search with its RRF reranker, over one table with the same texts and vectors and its own text index's defaults."""
    import lancedb
    import pyarrow as pa
    from lancedb.index import FTS
    from lancedb.query import MatchQuery
    from lancedb.rerankers import RRFReranker

    documents = [record for record in source.documents if document_text(record)]
    answers = embedder.embed_each([document_text(record) for record in documents])
    vectors = [answer.vector for answer in answers if answer.vector is not None]
    columns = {
        "doc_id": [record.doc_id for record in documents],
        "text": [f"{record.title}\n{record.abstract}" for record in documents],
        "vector": pa.array([vector.tolist() for vector in vectors], pa.list_(pa.float32(), embedder.space.dimension)),
    }
    table = await (await lancedb.connect_async(str(folder))).create_table("records", pa.table(columns))
    await table.create_index("text", config=FTS())

    async def search(text: str) -> list[str]:
        vector = await asyncio.to_thread(embedder.embed, text, "query")
        request = table.query().nearest_to(vector[0]).distance_type("cosine").nearest_to_text(MatchQuery(text, "text"))
        rows = await request.rerank(RRFReranker()).select(["doc_id"]).limit(DEPTH).to_arrow()
        return list(rows["doc_id"].to_pylist())

    return search
