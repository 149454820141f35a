"""The ranking index against bm25s with the same stemmer.

`make bench` measures all four collections.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from outrider.library.library import Library
from outrider.state.records import Paper


def read(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@pytest.mark.parametrize("name", ["cranfield", "cacm"])
async def test_ranks_as_well_as_bm25s(library: Library, ir_data: Path, name: str) -> None:
    """nDCG@10 is at most .01 below."""
    ir_measures = pytest.importorskip("ir_measures")
    corpus, queries = read(ir_data / name / "corpus.jsonl.gz"), read(ir_data / name / "queries.jsonl.gz")
    judged = [line.split("\t") for line in (ir_data / name / "qrels.tsv").read_text().splitlines()[1:]]
    qrels = [ir_measures.Qrel(query, doc, int(relevance)) for query, doc, relevance in judged]

    await library.upsert([Paper(doc_id=doc["id"], title=doc["title"] or "", abstract=doc["text"] or "") for doc in corpus])
    await library.optimize(force=True)
    ours = [(query["id"], hit.record.doc_id, hit.score) for query in queries for hit in await library.search(query["text"], limit=10)]
    assert ndcg(qrels, ours) >= ndcg(qrels, peer(corpus, queries)) - 0.01


def peer(corpus: list[dict[str, str]], queries: list[dict[str, str]]) -> list[tuple[str, str, float]]:
    bm25s, stemmer = pytest.importorskip("bm25s"), pytest.importorskip("Stemmer").Stemmer("english")
    tokens = [
        bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)
        for texts in ([f"{doc['title']} {doc['text']}" for doc in corpus], [query["text"] for query in queries])
    ]
    index = bm25s.BM25()
    index.index(tokens[0], show_progress=False)
    ranked, scores = index.retrieve(tokens[1], k=10, show_progress=False)
    return [
        (query["id"], corpus[doc]["id"], float(score))
        for query, docs, row in zip(queries, ranked, scores, strict=True)
        for doc, score in zip(docs, row, strict=True)
    ]


def ndcg(qrels: list[object], run: list[tuple[str, str, float]]) -> float:
    import ir_measures

    scored = [ir_measures.ScoredDoc(*row) for row in run]
    return float(ir_measures.calc_aggregate([ir_measures.nDCG @ 10], qrels, scored)[ir_measures.nDCG @ 10])
