"""The retrieval collections and screened reviews, read from `$OUTRIDER_DATA` or `../shared/data`.

They are not part of the repository. A collection is a folder under `ir/` with `corpus.jsonl.gz` (`id`, `title`, `text`, in CACM also
`linked`), `queries.jsonl.gz` (`id`, `text`) and `qrels.tsv` (header `query doc relevance`).
"""

from __future__ import annotations

import csv
import gzip
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from outrider.state.records import Edge, Paper

ROOT = Path(__file__).parents[1]
COLLECTIONS = ("scifact", "cranfield", "cisi", "cacm")
REVIEWS = ("ADHD", "Antihistamines", "Kitchenham_2010", "NSAIDS", "Triptans")
SYNERGY = ("Donners_2021", "Sep_2021", "van_der_Valk_2021", "Jeyaraman_2020", "Nelson_2002")


class Absent(Exception):
    """Data or a package that a benchmark needs is missing on this machine."""


@dataclass(frozen=True, slots=True)
class Collection:
    name: str
    documents: tuple[Paper, ...]
    queries: Mapping[str, str]
    qrels: Mapping[str, Mapping[str, int]]
    """Relevance by query id and document id."""


def data_folder() -> Path:
    return Path(os.environ.get("OUTRIDER_DATA") or ROOT.parent / "shared" / "data")


def corpus_file(name: str) -> Path:
    """The file of documents; `Absent` if it is missing."""
    file = data_folder() / "ir" / name / "corpus.jsonl.gz"
    if not file.is_file():
        raise Absent(f"{file} is not there; set OUTRIDER_DATA to a folder that holds ir/{name}")
    return file


def collection(name: str) -> Collection:
    folder = corpus_file(name).parent
    documents = tuple(map(_paper, _rows(folder / "corpus.jsonl.gz")))
    queries = {row["id"]: row["text"] for row in _rows(folder / "queries.jsonl.gz")}
    qrels: dict[str, dict[str, int]] = {}
    with (folder / "qrels.tsv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            qrels.setdefault(row["query"], {})[row["doc"]] = int(row["relevance"])
    return Collection(name, documents, {key: text for key, text in queries.items() if key in qrels}, qrels)


def read_review(name: str) -> list[dict[str, Any]]:
    """The rows of one of `REVIEWS`, or of `SYNERGY`, where works also have references. Raises `Absent`."""
    group, suffix = ("synergy", "jsonl.gz") if name in SYNERGY else ("reviews", "csv")
    file = data_folder() / group / f"{name}.{suffix}"
    if not file.is_file():
        raise Absent(f"{file} is not there; set OUTRIDER_DATA to a folder that holds {group}")
    if name in SYNERGY:
        return [*_rows(file)]
    with file.open(encoding="utf-8-sig", newline="") as lines:
        return [*csv.DictReader(lines)]


def thinned(source: Collection, queries: int) -> Collection:
    """The collection with at most this many queries, evenly spread."""
    step = -(-len(source.queries) // queries)
    chosen = dict(list(source.queries.items())[::step])
    return replace(source, queries=chosen, qrels={key: source.qrels[key] for key in chosen})


def _paper(row: dict[str, Any]) -> Paper:
    """CACM lists documents linked by citation without a direction: the later is assumed to cite the earlier."""
    cited = [other for other in row.get("linked", ()) if int(other) < int(row["id"])]
    edges = tuple(Edge(relation="cites", target=f"doc:{other}") for other in cited)
    return Paper(doc_id=row["id"], title=row.get("title", ""), abstract=row.get("text", ""), edges=edges)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)
