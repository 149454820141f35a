"""Search of software: graded requests over the packages of this environment, beside BM25 and MiniLM.

`software/queries.tsv` of the data folder has a request a line and its graded packages (2 answers it, 1 is related). Every method gets what
`outrider ingest --installed` reads. bm25s has a stemmer; MiniLM embeds the summary and the first 1,500 characters of the README; their
reciprocal rank fusion has k = 60. nDCG@10 has the gain 2^grade - 1.

Two more sets are of our own, in a newcomer's words: 22 requests that were used for the choice of ADR 32, and 28 that were graded before any
result was seen, and evaluated after it.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.data import Absent, data_folder
from bench.model import NAME, model_folder
from bench.report import Cell, Report
from bench.retrieval import fuse_plainly
from outrider.ingest.entry import Entry
from outrider.ingest.installed_packages import read_installed_packages
from outrider.library.library import Library
from outrider.linkage.identifiers import normal_distribution
from outrider.models.embed.embedder import Embedder
from outrider.services import Services
from outrider.state.hits import Hit
from outrider.state.records import Record
from outrider.training import measures
from outrider.usecases.search import asearch

COLUMNS = ("method", "set", "requests", "nDCG@10", "first hit answers")
OWN = {name: Path(__file__).with_name(f"software_requests_{name}.tsv") for name in ("used", "apart")}
TOP, FUSED, README_CHARS = 10, 100, 1_500
Rank = Callable[[str], Sequence[str]]


def run() -> Report:
    path = data_folder() / "software" / "queries.tsv"
    if not path.is_file():
        return Report("software", COLUMNS, (), (f"skipped: {path} is not there; set OUTRIDER_DATA",))
    sets = {name: read_requests(file) for name, file in {"shared": path, **OWN}.items()}
    texts = [text for requests in sets.values() for text in requests]
    records = [entry.record for entry in read_installed_packages() if isinstance(entry, Entry)]
    notes = [f"{len(records):,} packages; {sum(len(grades) for requests in sets.values() for grades in requests.values()):,} grades."]
    words, vectors = rank_by_words(records), None
    try:
        vectors = rank_by_meaning(records)
    except Absent as absent:
        notes.append(f"without vectors: {absent}")
    by_request = {"bm25s": words}
    if vectors is not None:
        by_request |= {NAME: vectors, "their reciprocal rank fusion": fuse(words, vectors)}
    ranked: dict[str, Mapping[str, Sequence[str]]] = {name: {text: rank(text) for text in texts} for name, rank in by_request.items()}
    for folder in ("none", *([model_folder()] if vectors is not None else [])):
        name = "Outrider" if folder == "none" else f"Outrider with {NAME}"
        ranked[name] = {text: [hit.doc_id for hit in hits] for text, hits in asyncio.run(search_all(records, texts, folder)).items()}
    rows = [make_row(name, own, hits, requests) for own, requests in sets.items() for name, hits in ranked.items()]
    return Report("software", COLUMNS, tuple(rows), tuple(notes))


def read_requests(path: Path) -> dict[str, dict[str, int]]:
    """Grades by doc_id and request."""
    lines = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    grades = {text: [grade.rpartition(":") for grade in graded.split()] for text, graded in lines}
    return {text: {f"pypi:{normal_distribution(name)}": int(grade) for name, _, grade in own} for text, own in grades.items()}


def rank_by_words(records: Sequence[Record]) -> Rank:
    import bm25s
    from Stemmer import Stemmer

    stemmer, engine = Stemmer("english"), bm25s.BM25()
    texts = [f"{record.title}\n{record.description}\n{record.text}" for record in records]
    engine.index(bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False), show_progress=False)

    def rank(text: str) -> list[str]:
        tokens = bm25s.tokenize([text], stopwords="en", stemmer=stemmer, show_progress=False)
        places, _ = engine.retrieve(tokens, k=min(FUSED, len(records)), show_progress=False)
        return [records[at].doc_id for at in places[0].tolist()]

    return rank


def rank_by_meaning(records: Sequence[Record]) -> Rank:
    """Raises `Absent` without the model."""
    embedder = Embedder(model_name=model_folder(), device="cpu")
    vectors = embedder.embed([f"{record.title}. {record.description}\n{record.text[:README_CHARS]}" for record in records], "document")

    def rank(text: str) -> list[str]:
        order = (-(vectors @ embedder.embed(text, "query")[0])).argsort(kind="stable")
        return [records[at].doc_id for at in order[:FUSED].tolist()]

    return rank


def fuse(*ranks: Rank) -> Rank:
    return lambda text: fuse_plainly(*(rank(text) for rank in ranks))


async def search_all(records: Sequence[Record], requests: Sequence[str], model: str) -> dict[str, Sequence[Hit]]:
    """The first hits of the whole graph over a new library; `model` is "none" for a library without vectors."""
    with tempfile.TemporaryDirectory() as folder:
        services = Services.from_file({"library.uri": folder, "embedding.model_name": model, "sources.offline": True})
        library = await Library.open(folder, create=True)
        if model != "none":
            await library.embed(records, services.embedder())
        await library.upsert(records)
        library.close()
        answers = [await asearch(text, top_k=TOP, distill_enabled=False, services=services) for text in requests]
        services.close()
    return {text: answer.hits for text, answer in zip(requests, answers, strict=True)}


def make_row(name: str, of: str, ranked: Mapping[str, Sequence[str]], requests: Mapping[str, Mapping[str, int]]) -> tuple[Cell, ...]:
    values = [ndcg(ranked[text], grades) for text, grades in requests.items()]
    first = [grades.get(next(iter(ranked[text]), ""), 0) == 2 for text, grades in requests.items()]
    return name, of, len(requests), sum(values) / len(values), sum(first) / len(first)


def ndcg(ranked: Sequence[str], grades: Mapping[str, int]) -> float:
    return measures.ndcg((2 ** grades.get(doc_id, 0) - 1 for doc_id in ranked), (2**grade - 1 for grade in grades.values()))
