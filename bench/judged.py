"""Recorded judgements of candidates in rule order, by judges with several levels of noise.

A judge is made from the qrels: 1.0 for a relevant document and 0.0 for any other, plus noise that depends on collection, query and document
alone. The candidates are the first 100 documents of the library's own search by words, in the order of the rules.
"""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

from bench.data import Collection
from bench.library import library_of
from bench.report import progress
from outrider.library.fusion import build_fusion
from outrider.nodes.fine_scorer.adaptive_stopping import ANCHORS, RELEVANT, to_grade
from outrider.nodes.rule_ranker import rank_by_rules
from outrider.nodes.scout import make_candidates, make_ranked_list
from outrider.settings.model import OrganizerSettings, RankingSettings
from outrider.state.request import RetrieverType

TOP_K = 10
CANDIDATES = 100

Judge = Callable[[float, float], float]
"""A score from a true grade and a random number, uniform in (0, 1)."""


def noisy(deviation: float) -> Judge:
    """Off by so much: normal noise, clamped to [0, 1], two decimals."""
    errs = NormalDist()
    return lambda truth, chance: round(min(1.0, max(0.0, truth + deviation * errs.inv_cdf(chance))), 2)


def slipping(often: float) -> Judge:
    """Off by an anchor so often, by another as often again; only anchors are said."""
    return lambda truth, chance: ANCHORS[_slipped(ANCHORS.index(truth), math.floor(math.log(chance, often)))]


def _slipped(at: int, steps: int) -> int:
    last = len(ANCHORS) - 1
    return min(last, at + steps) if at == 0 else max(0, at - steps)


JUDGES: Mapping[str, Judge] = {
    "no noise": noisy(0.0),
    "noise 0.1": noisy(0.1),
    "noise 0.2": noisy(0.2),
    "noise 0.3": noisy(0.3),
    "one in ten slips": slipping(0.1),
}


@dataclass(frozen=True, slots=True)
class Query:
    """One query's candidates in rule order, and each judge's scores of all of them."""

    key: str
    doc_ids: tuple[str, ...]
    rules: tuple[float, ...]
    judged: Mapping[str, tuple[float, ...]]

    def rank_passing(self, judge: str, read: int) -> list[int]:
        """The works read that pass the threshold, best first, ties in rule order, as places from 0."""
        scores = self.judged[judge][:read]
        passed = [at for at, score in enumerate(scores) if score >= OrganizerSettings().relevance_threshold]
        return sorted(passed, key=lambda at: (-scores[at], at))

    def best_grades(self, judge: str, read: int) -> list[float]:
        """The grades of the relevant works among the top k, to which the estimated risk refers."""
        grades = (to_grade(score) for score in self.judged[judge][:read])
        return sorted((one for one in grades if one >= RELEVANT), reverse=True)[:TOP_K]


@dataclass(frozen=True, slots=True)
class Recorded:
    source: Collection
    queries: tuple[Query, ...]


async def record(source: Collection) -> Recorded:
    """The library's results by words, in the order of the rules, and the judges' scores."""
    weights = RankingSettings()
    fuse, strategy = build_fusion(weights), RetrieverType.LANCE_FTS
    queries: list[Query] = []
    with tempfile.TemporaryDirectory() as folder:
        library = await library_of(source, Path(folder) / "library")
        try:
            for key, text in source.queries.items():
                results = await library.search(text, limit=CANDIDATES)
                lists = [make_ranked_list("library", strategy, text, results)]
                candidates = make_candidates(fuse(lists), lists, {one.record.doc_id: one.record for one in results})
                in_order = rank_by_rules(candidates, text, weights, this_year=0)  # the collections have no years
                queries.append(query(source, key, {one.record.doc_id: one.score for one in in_order}))
        finally:
            library.close()
    progress(f"{source.name}: {len(queries)} queries")
    return Recorded(source, tuple(queries))


def query(source: Collection, key: str, rules: Mapping[str, float]) -> Query:
    truths = [max(ANCHORS) if source.qrels[key].get(doc_id, 0) > 0 else min(ANCHORS) for doc_id in rules]
    chances = [_chance(source.name, key, doc_id) for doc_id in rules]
    judged = {name: tuple(map(judge, truths, chances)) for name, judge in JUDGES.items()}
    return Query(key, tuple(rules), tuple(rules.values()), judged)


def _chance(*of: str) -> float:
    """Uniform in (0, 1), deterministic."""
    drawn = int.from_bytes(hashlib.sha256("/".join(of).encode()).digest()[:6], "big")
    return (drawn + 0.5) / 256**6
