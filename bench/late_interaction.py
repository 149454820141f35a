"""Late interaction over stored token vectors: its ranking beside that of whole ones, its time beside that of the dense search.

The first 50 works of the default fusion are reordered by MaxSim, over the token vectors as the model gives them and over compressed ones as
`outrider library index --late-interaction` stores them. Token vectors of documents are kept in `build/bench` for the next run. CPU time
is that of the whole process, so that other work on the machine counts little; searches and rerankings alternate.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING

from bench.data import COLLECTIONS, Absent, Collection, collection, thinned
from bench.library import library_of
from bench.model import CACHE, NAME, Remembering, cache_key, model
from bench.quality import DEPTH, each_score
from bench.report import Cell, Report, progress
from bench.retrieval import NDCG, works
from outrider.library.fusion import build_fusion
from outrider.library.graph_neighbours import LibraryGraph
from outrider.library.library import Library
from outrider.library.search_engine import Engine
from outrider.library.vectors.write import text_hash
from outrider.models.embed.embedder import Embedder
from outrider.models.rerank.late_interaction import LateInteraction
from outrider.nodes.reranker import rerank_candidates
from outrider.settings.model import RankingSettings, RerankerSettings
from outrider.state.embedding import EmbeddingSpace, TextRole
from outrider.state.hits import Candidate
from outrider.state.ports import Reranker, SourceQuery
from outrider.state.request import RetrieverType
from outrider.state.reranking import make_reranker_text
from outrider.training.rerank_evaluation import sign_flip_p

if TYPE_CHECKING:
    import numpy as np

MOST_QUERIES = 203
"""Of a collection, evenly spread: embedding the tokens of 50 works for each takes seconds. Only SciFact has more."""
AT_ONCE = 64
"""Texts embedded together."""
COLUMNS = (
    "collection", "queries", "fusion nDCG@10", "whole vectors", "compressed", "compressed to whole", "compressed to fusion", "p",
    "KiB a record", "CPU ms for 50", "CPU ms, dense search", "median ms for 50",
)  # fmt: skip
BOUND_BYTES, BOUND_MS, BOUND_LOSS, BOUND_GAIN = 12 * 2**10, 150, 0.005, 0.015


@dataclass(slots=True)
class StoredTokens:
    """A model with a file of token vectors of documents, in half precision; missing ones are embedded and added by `complete`."""

    model: Embedder
    file: Path
    vectors: dict[str, np.ndarray] = field(default_factory=dict)
    """By hash of the text."""

    @property
    def space(self) -> EmbeddingSpace:
        return self.model.space

    def token_vectors(self, texts: Sequence[str], role: TextRole) -> list[np.ndarray]:
        import numpy as np

        if role == "query":
            return self.model.token_vectors(texts, role)
        return [self.vectors[text_hash(text)].astype(np.float32) for text in texts]

    def complete(self, texts: Sequence[str]) -> None:
        import numpy as np

        if not self.vectors and self.file.is_file():
            with np.load(self.file, allow_pickle=False) as arrays:
                parts = np.split(arrays["vectors"], np.cumsum(arrays["lengths"])[:-1])
                self.vectors = dict(zip(arrays["hashes"].tolist(), parts, strict=True))
        missing = sorted({text for text in texts if text_hash(text) not in self.vectors}, key=len)
        for start in range(0, len(missing), AT_ONCE):
            progress(f"token vectors of {start:,} of {len(missing):,} texts")
            part = missing[start : start + AT_ONCE]
            new = [one.astype(np.float16) for one in self.model.token_vectors(part, "document")]
            self.vectors |= zip(map(text_hash, part), new, strict=True)
        if missing:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            lengths = [len(one) for one in self.vectors.values()]
            np.savez(self.file, hashes=[*self.vectors], lengths=lengths, vectors=np.concatenate([*self.vectors.values()]))


@dataclass(slots=True)
class Measured:
    """nDCG@10 by way and query, and the seconds of each query."""

    collection: str
    scores: dict[str, list[float]]
    cpu_s: dict[str, list[float]]
    wall_s: list[float]
    mean_bytes: float

    def gain(self, over: str) -> list[float]:
        return [new - old for new, old in zip(self.scores["compressed"], self.scores[over], strict=True)]


def run() -> Report:
    results: list[Measured] = []
    notes: list[str] = []
    for name in COLLECTIONS:
        try:
            source, embedder = thinned(collection(name), MOST_QUERIES), model()
            quick = Embedder(model_name=embedder.space.model_name, space=embedder.space)
            results.append(asyncio.run(measure(source, embedder, quick)))
        except Absent as absent:
            notes.append(f"{name} was skipped: {absent}")
    return Report("late_interaction", COLUMNS, tuple(map(make_row, results)), (*notes, *(check(results) if results else ())))


def make_row(result: Measured) -> tuple[Cell, ...]:
    to_fusion = result.gain("fusion")
    return (
        result.collection,
        len(to_fusion),
        *(mean(result.scores[way]) for way in ("fusion", "whole", "compressed")),
        mean(result.gain("whole")),
        mean(to_fusion),
        sign_flip_p(to_fusion),
        result.mean_bytes / 1024,
        *(1_000 * median(result.cpu_s[way]) for way in ("compressed", "dense")),
        1_000 * median(result.wall_s),
    )


def check(results: Sequence[Measured]) -> list[str]:
    """The targets, and whether they hold; all queries count alike."""
    loss = mean([-one for result in results for one in result.gain("whole")])
    gain = mean([one for result in results for one in result.gain("fusion")])
    cpu = 1_000 * median([one for result in results for one in result.cpu_s["compressed"]])
    dense = 1_000 * median([one for result in results for one in result.cpu_s["dense"]])
    return [
        f"Token vectors by {NAME}.",
        f"At most {BOUND_LOSS} below whole vectors {_verdict(loss <= BOUND_LOSS)}: {-loss:+.4f} over all queries.",
        f"At least {BOUND_GAIN} above the fusion {_verdict(gain >= BOUND_GAIN)}: {gain:+.4f} over all queries.",
        f"At most {BOUND_MS} ms {_verdict(cpu <= BOUND_MS)}: {cpu:.0f} ms of CPU time, {cpu / dense:.2f} times that of a dense search.",
        f"At most {BOUND_BYTES / 1024:.0f} KiB a record {_verdict(max(one.mean_bytes for one in results) <= BOUND_BYTES)}.",
    ]


def _verdict(holds: bool) -> str:
    return "holds" if holds else "does not hold"


async def measure(source: Collection, embedder: Embedder, quick: Embedder, cache: Path = CACHE) -> Measured:
    """`embedder` embeds documents, `quick` queries."""
    vectors = Remembering.of(embedder, source, cache)
    tokens = StoredTokens(embedder, cache / f"tokens-{cache_key(embedder.space, source)}.npz")
    with tempfile.TemporaryDirectory() as folder:
        library = await library_of(source, Path(folder) / "all", vectors)
        first: dict[str, Sequence[Candidate]] = {}
        engine = Engine(library, lambda _: quick, LibraryGraph(library))
        for key, text in source.queries.items():
            first[key] = await works(engine, text, build_fusion(RankingSettings()))
        depth = RerankerSettings().depth
        read = {candidate.record.doc_id: candidate.record for works in first.values() for candidate in works[:depth]}
        tokens.complete([make_reranker_text(record) for record in read.values()])
        part = replace(source, documents=tuple(one for one in source.documents if one.doc_id in read))
        indexed = await library_of(part, Path(folder) / "read", vectors)
        try:
            report = await indexed.index_tokens(tokens, lambda done, total: progress(f"{source.name}: {done:,} of {total:,} indexed"))
            return await compare(source, first, engine, (tokens, quick, indexed), report.mean_bytes)
        finally:
            library.close()
            indexed.close()


async def compare(
    source: Collection,
    first: dict[str, Sequence[Candidate]],
    engine: Engine,
    parts: tuple[StoredTokens, Embedder, Library],
    mean_bytes: float,
) -> Measured:
    tokens, quick, indexed = parts
    stored = LateInteraction(quick, stored=partial(indexed.read_tokens, quick.space), most_missing=0)
    rankings: dict[str, dict[str, list[str]]] = {"fusion": {}, "whole": {}, "compressed": {}}
    cpu_s: dict[str, list[float]] = {"compressed": [], "dense": []}
    wall_s: list[float] = []
    await asyncio.to_thread(rerank, first[next(iter(first))], "warm up", stored)
    for key, text in source.queries.items():
        rankings["fusion"][key] = [one.record.doc_id for one in first[key]][:DEPTH]
        rankings["whole"][key] = await asyncio.to_thread(rerank, first[key], text, LateInteraction(tokens))
        began, cpu = time.perf_counter(), time.process_time()
        rankings["compressed"][key] = await asyncio.to_thread(rerank, first[key], text, stored)
        cpu_s["compressed"].append(time.process_time() - cpu)
        wall_s.append(time.perf_counter() - began)
        cpu = time.process_time()
        await engine.search(SourceQuery(text, RetrieverType.LANCE_DENSE, None, DEPTH))
        cpu_s["dense"].append(time.process_time() - cpu)
    scores = {way: [score[NDCG] for score in each_score(source, ranking).values()] for way, ranking in rankings.items()}
    return Measured(source.name, scores, cpu_s, wall_s, mean_bytes)


def rerank(candidates: Sequence[Candidate], text: str, reranker: Reranker) -> list[str]:
    settings = RerankerSettings()
    return [one.record.doc_id for one in rerank_candidates(candidates, text, reranker, settings.depth, settings.weight)][:DEPTH]
