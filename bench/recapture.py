"""Capture-recapture: whether the one-sided bound covers the true number of relevant works, and how wide it is

Routes are those of real searches: texts and titles like the request or like a few known works, links, shared references, Boolean forms.
Known works do not count. Each set of two to four routes of a topic is one case, so cases of one topic are not independent. CACM, CISI and
SYNERGY served to choose the prior; Cranfield and the simulated populations did not.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from bench.data import SYNERGY, collection, data_folder, read_review
from bench.report import Cell, Report, progress
from outrider.statistics.capture_recapture import MAX_ROUTES, bound_recall_of_routes

CONFIDENCE = 0.95
SYNERGY_DRAWS, DRAWS, LEAST_RELEVANT = 12, 4, 8
SIMULATED, POPULATION = 200, 150
Routes = dict[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Case:
    collection: str
    relevant: frozenset[str]
    routes: Routes


class Texts:
    """Texts by TF-IDF."""

    def __init__(self, keys: Sequence[str], texts: Sequence[str]) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer  # type: ignore[import-untyped]

        self.keys = list(keys)
        self.index = {key: at for at, key in enumerate(keys)}
        self.model = TfidfVectorizer(sublinear_tf=True, stop_words="english")
        self.vectors = self.model.fit_transform(texts)

    def find(self, request: str, limit: int) -> frozenset[str]:
        return self._take((self.vectors @ self.model.transform([request]).T).toarray().ravel(), limit)

    def find_like(self, works: Sequence[str], limit: int) -> frozenset[str]:
        return self._take((self.vectors @ self.vectors[[self.index[key] for key in works]].T).toarray().sum(axis=1), limit)

    def _take(self, scores: np.ndarray[tuple[int, ...], np.dtype[np.float64]], limit: int) -> frozenset[str]:
        best = np.lexsort((np.arange(len(scores)), -scores))[:limit]
        return frozenset(self.keys[at] for at in best if scores[at] > 0)


def run() -> Report:
    rows: list[tuple[Cell, ...]] = []
    totals: list[tuple[Cell, ...]] = []
    for name, read in (("SYNERGY", read_synergy), ("CACM", read_cacm), ("CISI", read_cisi), ("Cranfield (apart)", read_cranfield)):
        cases = [subset for case in read() for subset in choose_routes(case)]
        for number in range(2, MAX_ROUTES + 1):
            if some := [case for case in cases if len(case.routes) == number]:
                rows.append((name, number, *_measure(some)))
                progress(" ".join(map(str, rows[-1])))
        totals.append((name, "all", *_measure(cases)))
    columns = ("collection", "routes", "cases", "refused", "bound covers", "recall: true", "bound", "bound / true number (median)")
    notes = (
        f"One-sided, confidence {CONFIDENCE}. Means over the cases that are not refused; a bound at infinity covers, with a recall of 0.",
    )
    return Report("recapture", columns, (*rows, *totals), notes, (simulate(),))


def choose_routes(case: Case) -> Iterator[Case]:
    names = sorted(case.routes)
    for number in range(2, len(names) + 1):
        for chosen in combinations(names, number):
            yield Case(case.collection, case.relevant, {name: case.routes[name] & case.relevant for name in chosen})


def _measure(cases: Sequence[Case]) -> tuple[Cell, ...]:
    covered, true, bounds, widths, refused = [], [], [], [], 0
    for case in cases:
        bound = bound_recall_of_routes(case.routes, CONFIDENCE)
        if bound.refused and "overlap is too small" not in bound.refused:
            refused += 1
            continue
        covered.append(bound.most is None or bound.most >= len(case.relevant))
        true.append(bound.found / len(case.relevant))
        bounds.append(bound.recall or 0.0)
        widths.append((bound.most or float("inf")) / len(case.relevant))
    if not covered:
        return (len(cases), refused, None, None, None, None)
    means = (sum(covered) / len(covered), statistics.mean(true), statistics.mean(bounds))
    return (len(cases), refused, *means, statistics.median(widths))


def read_synergy() -> Iterator[Case]:
    """Three or five known works; abstracts and titles like theirs, works that they cite or that cite them, works that share references."""
    for name in SYNERGY:
        works = read_review(name)
        keys = [work["openalex"] for work in works]
        included = frozenset(work["openalex"] for work in works if work["included"])
        references = {work["openalex"]: frozenset(work["referenced_works"]) for work in works}
        abstracts, titles = (Texts(keys, [work[field] or "" for work in works]) for field in ("abstract", "title"))
        for seed in range(SYNERGY_DRAWS):
            known = random.Random(seed).sample(sorted(included), 3 if len(included) < 60 else 5)
            cited = frozenset[str]().union(*(references[key] for key in known))
            citing = frozenset(key for key in keys if references[key].intersection(known))
            shared = sorted(keys, key=lambda key: (-len(references[key] & cited), key))[: len(keys) // 5]
            routes = {
                "abstracts": abstracts.find_like(known, len(keys) // 5), "titles": titles.find_like(known, len(keys) // 5),
                "links": cited | citing, "shared references": frozenset(key for key in shared if references[key] & cited),
            }  # fmt: skip
            yield Case("SYNERGY", included - set(known), routes)


def read_cacm() -> Iterator[Case]:
    """A quarter of the relevant works is known; texts and titles by the request, titles like theirs, works that are linked with them."""
    source = collection("cacm")
    links: dict[str, set[str]] = {paper.doc_id: set() for paper in source.documents}
    for paper in source.documents:
        for edge in paper.edges:
            other = edge.target.removeprefix("doc:")
            links[paper.doc_id].add(other)
            links.setdefault(other, set()).add(paper.doc_id)
    keys = [paper.doc_id for paper in source.documents]
    texts, titles = Texts(keys, [paper.abstract for paper in source.documents]), Texts(keys, [paper.title for paper in source.documents])
    for query, relevant, known in _draw_known(source.qrels, 4, DRAWS):
        request = source.queries[query]
        routes = {
            "texts": texts.find(request, 100), "titles": titles.find(request, 100), "like": titles.find_like(known, 100),
            "links": frozenset[str]().union(*(links[key] for key in known)),
        }  # fmt: skip
        yield Case("CACM", relevant, routes)


def read_cisi() -> Iterator[Case]:
    """A sixth of the relevant works is known; the Boolean form, texts and titles by the request, texts like theirs."""
    source = collection("cisi")
    with gzip.open(data_folder() / "ir" / "cisi" / "boolean.jsonl.gz", "rt", encoding="utf-8") as lines:
        forms = {row["id"]: row["boolean"] for row in map(json.loads, lines)}
    keys = [paper.doc_id for paper in source.documents]
    words = {paper.doc_id: set(re.findall(r"[a-z\-]+", f"{paper.title} {paper.abstract}".lower())) for paper in source.documents}
    texts, titles = Texts(keys, [paper.abstract for paper in source.documents]), Texts(keys, [paper.title for paper in source.documents])
    for query, relevant, known in _draw_known({key: source.qrels[key] for key in forms if key in source.qrels}, 6, DRAWS):
        request = source.queries[query]
        routes = {
            "Boolean": frozenset(key for key in keys if _matches(forms[query], words[key])), "texts": texts.find(request, 150),
            "titles": titles.find(request, 150), "like": texts.find_like(known, 150),
        }  # fmt: skip
        yield Case("CISI", relevant, routes)


def read_cranfield() -> Iterator[Case]:
    """A quarter of the relevant works is known; texts and titles by the request, texts like theirs."""
    source = collection("cranfield")
    keys = [paper.doc_id for paper in source.documents]
    texts, titles = Texts(keys, [paper.abstract for paper in source.documents]), Texts(keys, [paper.title for paper in source.documents])
    for query, relevant, known in _draw_known(source.qrels, 4, DRAWS):
        request = source.queries[query]
        yield Case(
            "Cranfield", relevant,
            {"texts": texts.find(request, 50), "titles": titles.find(request, 50), "like": texts.find_like(known, 50)},
        )  # fmt: skip


def _draw_known(qrels: Mapping[str, Mapping[str, int]], share: int, draws: int) -> Iterator[tuple[str, frozenset[str], list[str]]]:
    """Queries with enough relevant works: those that a search must find, and those that are known before."""
    for query in sorted(qrels):
        relevant = sorted(key for key, grade in qrels[query].items() if grade > 0)
        if len(relevant) < LEAST_RELEVANT:
            continue
        for seed in range(draws):
            known = random.Random(f"{query} {seed}").sample(relevant, max(2, len(relevant) // share))
            yield query, frozenset(relevant) - set(known), known


def _matches(form: str, words: set[str]) -> bool:
    """A form like `#and ('a', #or ('b', 'c'))`."""
    tokens = iter(re.findall(r"#and|#or|\(|\)|'[^']*'", form))

    def evaluate(token: str) -> bool:
        if not token.startswith("#"):
            return token.strip("'") in words
        next(tokens)
        values = []
        while (inner := next(tokens)) != ")":
            values.append(evaluate(inner))
        return all(values) if token == "#and" else any(values)

    return evaluate(next(tokens))


def simulate() -> Report:
    """Populations of known dependence."""
    settings = (
        ("independent", 0.0, 0.0, 0.0), ("works differ in how easily they are found (log odds, sd 1)", 1.0, 0.0, 0.0),
        ("the same, sd 2", 2.0, 0.0, 0.0), ("route 2 copies half of route 1", 0.0, 0.5, 0.0), ("sd 1, and a copy of half", 1.0, 0.5, 0.0),
        ("a tenth can be found by no route", 0.0, 0.0, 0.1), ("sd 1, and a tenth can be found by no route", 1.0, 0.0, 0.1),
        ("a third can be found by no route", 0.0, 0.0, 0.33),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    for name, spread, copied, hidden in settings:
        for number in (2, 3, 4):
            cases = [_draw_population(seed, number, spread, copied, hidden) for seed in range(SIMULATED)]
            rows.append((name, number, *_measure(cases)))
    columns = ("population", "routes", "cases", "refused", "bound covers", "recall: true", "bound", "bound / true number (median)")
    note = f"{POPULATION} works; each route finds .2 to .6 of those that it can find."
    return Report("simulated populations", columns, tuple(rows), (note,))


def _draw_population(seed: int, number: int, spread: float, copied: float, hidden: float) -> Case:
    chance = np.random.default_rng([seed, number])
    odds = chance.uniform(0.2, 0.6, number)
    logit = np.log(odds / (1 - odds))[None, :] + spread * chance.standard_normal(POPULATION)[:, None]
    finds = chance.random((POPULATION, number)) < 1 / (1 + np.exp(-logit))
    finds[:, 1] |= finds[:, 0] & (chance.random(POPULATION) < copied)
    finds[: round(hidden * POPULATION)] = False
    routes = {f"route {at}": frozenset(f"work {work}" for work in np.flatnonzero(finds[:, at])) for at in range(number)}
    return Case("simulated", frozenset(f"work {work}" for work in range(POPULATION)), routes)
