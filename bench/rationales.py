"""SciFact's rationales as cases: a claim, one abstract, and its units that people marked.

Our own segmentation cuts the abstract, as it cuts a user's texts. A unit is right if it overlaps a marked sentence by at
least half of the shorter of the two.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.data import corpus_file
from outrider.distiller.calibration import LabelledText, find_answering_units
from outrider.distiller.units import SegmentedText, segment_text
from outrider.state.distilling import Reading


@dataclass(frozen=True, slots=True)
class Case:
    claim: str
    labelled: LabelledText
    its: SegmentedText
    right: frozenset[int]
    """Units that answer."""

    @property
    def half(self) -> int:
        return -(-len(self.its.units) // 2)


def cases() -> list[Case]:
    """`Absent` where the collection is not there."""
    folder = corpus_file("scifact").parent
    rows = {name: read_rows(folder / f"{name}.jsonl.gz") for name in ("corpus", "queries", "rationales")}
    documents = {row["id"]: row for row in rows["corpus"]}
    claims = {row["id"]: row["text"] for row in rows["queries"]}
    marked: dict[tuple[str, str], set[int]] = defaultdict(set)
    for row in rows["rationales"]:
        marked[row["query"], row["doc"]] |= set(row["sentences"])
    return [_case(claim, claims[claim], documents[document], sentences) for (claim, document), sentences in sorted(marked.items())]


def _case(claim: str, query: str, document: dict[str, Any], marked: set[int]) -> Case:
    text, spans = _placed(document["sentences"])
    labelled = LabelledText(query, Reading(document["id"], text, document["title"]), tuple(spans[at] for at in sorted(marked)))
    its = segment_text(labelled.reading)
    return Case(claim, labelled, its, frozenset(find_answering_units(its, labelled)))


def _placed(sentences: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """The sentences joined to one text, since a fifth of the texts differ in white space, and the span of each."""
    text, spans = "", []
    for sentence in sentences:
        text += " " if text else ""
        spans.append((len(text), len(text) + len(sentence)))
        text += sentence
    return text, spans


def halves(every: Sequence[Case]) -> tuple[list[Case], list[Case]]:
    """Training and held-out cases, by claim."""
    drawn = [int(hashlib.sha256(f"split:{case.claim}".encode()).hexdigest(), 16) % 4 < 2 for case in every]
    return [case for case, first in zip(every, drawn, strict=True) if first], [
        c for c, first in zip(every, drawn, strict=True) if not first
    ]


def read_rows(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
