"""Ingestion with vectors compared with the model alone, a very long document, and memory.

Both embed the same texts in one process, in turns. The model alone is sentence-transformers' own `encode` with its defaults. Ingestion is
that of `outrider ingest`: reading a JSON Lines file, embedding, writing records, edges and vectors, all indexes.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.data import Absent, collection
from bench.model import NAME, model, model_folder
from bench.process import peak_mib, run_isolated
from bench.report import Cell, Report, progress
from outrider.ingest.pipeline import ingest
from outrider.library.library import Library
from outrider.library.vectors.write import document_text
from outrider.models.embed.embedder import Embedder
from outrider.state.records import Record

RECORDS = 600
ROUNDS = 3
LONG_CHARS = 2_000_000
BOUND = 0.9
ALONE, INGESTED, LONG = "the model alone", "ingestion with vectors", "one document of {:,} characters"
COLUMNS = ("what", "documents", "seconds", "documents a second", "to the model alone", "most memory MiB")


@dataclass(frozen=True, slots=True)
class Long:
    took_s: float
    peak_mib: float
    read: str


def run(records: int = RECORDS, rounds: int = ROUNDS) -> Report:
    try:
        model_folder()
        documents = collection("scifact").documents[:records]
    except Absent as absent:
        return Report("embedding", COLUMNS, (), (f"skipped: {absent}",))
    pairs = run_isolated(in_turns, documents, rounds)
    ratio = median(alone / ingested for alone, ingested in pairs)
    alone_s, ingested_s = (median(pair[at] for pair in pairs) for at in (0, 1))
    long = run_isolated(long_document, " ".join(document_text(record) for record in collection("scifact").documents), LONG_CHARS)
    rows: tuple[tuple[Cell, ...], ...] = (
        (ALONE, len(documents), alone_s, len(documents) / alone_s, 1.0, run_isolated(alone_peak_mib, documents)),
        (INGESTED, len(documents), ingested_s, len(documents) / ingested_s, ratio, run_isolated(ingested_peak_mib, documents)),
        (LONG.format(LONG_CHARS), 1, long.took_s, 1 / long.took_s, None, long.peak_mib),
    )
    verdict = "holds" if ratio >= BOUND else "does not hold"
    notes = (
        f"{NAME}; medians of {rounds} rounds of each, taking turns; peak memory of a process of its own, including imports.",
        f"ingestion at {BOUND} of the model's own rate or more {verdict} ({ratio:.2f})",
        f"Of the long document {long.read} tokens were read.",
    )
    return Report("embedding", COLUMNS, rows, notes)


def in_turns(documents: Sequence[Record], rounds: int) -> list[tuple[float, float]]:
    """Seconds of the model alone and of ingestion, one pair a round."""
    from sentence_transformers import SentenceTransformer

    theirs, ours = SentenceTransformer(model_folder(), device="cpu"), model()
    texts = [document_text(record) for record in documents]
    theirs.encode(texts[:1], show_progress_bar=False)
    ours.embed(texts[:1])
    pairs = []
    for number in range(rounds):
        progress(f"embedding: round {number + 1} of {rounds}")
        started = time.perf_counter()
        theirs.encode(texts, show_progress_bar=False)
        between = time.perf_counter()
        _ingest(documents, ours)
        pairs.append((between - started, time.perf_counter() - between))
    return pairs


def alone_peak_mib(documents: Sequence[Record]) -> float:
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(model_folder(), device="cpu")
    theirs.encode([document_text(record) for record in documents], show_progress_bar=False)
    return peak_mib()


def ingested_peak_mib(documents: Sequence[Record]) -> float:
    _ingest(documents, model())
    return peak_mib()


def long_document(text: str, chars: int) -> Long:
    """Embeds the text, repeated to this length, into one vector."""
    document = (text * (chars // len(text) + 1))[:chars]
    ours = model()
    ours.embed("warm up")
    started = time.perf_counter()
    (answer,) = ours.embed_each([document])
    return Long(time.perf_counter() - started, peak_mib(), f"{answer.read.tokens or 0:,} of {answer.read.of or 0:,}")


def _ingest(documents: Sequence[Record], embedder: Embedder) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "records.jsonl"
        lines = (json.dumps({"id": one.doc_id, "title": one.title, "abstract": one.abstract}) + "\n" for one in documents)
        file.write_text("".join(lines), encoding="utf-8")
        asyncio.run(_ingested(file, Path(folder) / "library", embedder))


async def _ingested(file: Path, folder: Path, embedder: Embedder) -> None:
    library = await Library.open(folder, create=True)
    try:
        report = await ingest(library, [file], embedder=embedder)
    finally:
        library.close()
    if report.failed or report.vectors.without or not report.vectors.embedded:
        raise RuntimeError(f"not all records were embedded: {report.vectors}")
