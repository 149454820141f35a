"""nDCG@10 and recall at 100 of the ranking index and of bm25s with the same stemmer.

Both get title and text of each document and the text of each query, and return 100 documents. bm25s runs with its defaults (Lucene's BM25,
k1 1.5, b 0.75, English stop words) and PyStemmer's English stemmer, which the index uses, too.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.data import COLLECTIONS, Absent, Collection, collection
from bench.library import library_of
from bench.report import Cell, Report
from outrider.training.measures import DEPTH, mean_scores, score_ranking

COLUMNS = ("collection", "documents", "queries", "index nDCG@10", "bm25s nDCG@10", "difference", "index R@100", "bm25s R@100")
Rankings = Mapping[str, Sequence[str]]


def run() -> Report:
    rows: list[tuple[Cell, ...]] = []
    notes: list[str] = []
    for name in COLLECTIONS:
        try:
            rows.append(row(collection(name)))
        except Absent as absent:
            notes.append(f"{name} was skipped: {absent}")
    return Report("quality", COLUMNS, tuple(rows), tuple(notes))


def row(source: Collection) -> tuple[Cell, ...]:
    ours_ndcg, ours_recall = scores(source, asyncio.run(index_rankings(source)))
    theirs_ndcg, theirs_recall = scores(source, bm25s_rankings(source))
    difference = ours_ndcg - theirs_ndcg
    return source.name, len(source.documents), len(source.queries), ours_ndcg, theirs_ndcg, difference, ours_recall, theirs_recall


async def index_rankings(source: Collection) -> Rankings:
    with tempfile.TemporaryDirectory() as folder:
        library = await library_of(source, Path(folder) / "library")
        try:
            return {key: [hit.record.doc_id for hit in await library.search(text, limit=DEPTH)] for key, text in source.queries.items()}
        finally:
            library.close()


def bm25s_rankings(source: Collection) -> Rankings:
    search = bm25s_search(source)
    return {key: search(text) for key, text in source.queries.items()}


def bm25s_search(source: Collection, depth: int = DEPTH) -> Callable[[str], list[str]]:
    """A query to its first `depth` ids, over an index of the collection in memory."""
    import bm25s
    from Stemmer import Stemmer

    stemmer = Stemmer("english")
    texts = [f"{document.title}\n{document.abstract}" for document in source.documents]
    engine = bm25s.BM25()
    engine.index(bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False), show_progress=False)

    def search(text: str) -> list[str]:
        tokens = bm25s.tokenize([text], stopwords="en", stemmer=stemmer, show_progress=False)
        ranking, _ = engine.retrieve(tokens, k=min(depth, len(texts)), show_progress=False)
        return [source.documents[at].doc_id for at in ranking[0].tolist()]

    return search


def scores(source: Collection, rankings: Rankings) -> tuple[float, float]:
    """nDCG@10 and recall at 100, averaged over all judged queries; the order given counts, not the engine's scores."""
    means = mean_scores([score_ranking(rankings.get(key, ()), grades) for key, grades in source.qrels.items()])
    return means.ndcg, means.recall_100


def each_score(source: Collection, rankings: Rankings) -> dict[str, tuple[float, float]]:
    """The same for each query that was ranked, in the order of the rankings."""
    values = {key: score_ranking(ranked, source.qrels[key]) for key, ranked in rankings.items()}
    return {key: (one.ndcg, one.recall_100) for key, one in values.items()}
