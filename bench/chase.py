"""Citation chasing: how soon the ranking finds what exhaustive chasing finds, on SYNERGY and CACM.

`python -m bench.chase` chooses the weights with each review left out, and times the ranking of 100,000 works.

**Read**: a record on which a simulated person decides, once each; the three works at the start do not count. **Recall**: the other included
works that were read. The exhaustive chase reads all works that cite, or are cited by, the start and each included work, until nothing new
comes. Works outside a review's own records have no label: they connect works, and are never read.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from bench.data import SYNERGY, collection, read_review
from bench.report import Cell, Report, progress, table
from outrider.citations.chase import PATIENCE, ROUND, find_stop, list_candidates, record_round, start_chase
from outrider.citations.citation_matrices import CitationMatrices
from outrider.citations.rank_candidates import DEFAULT_WEIGHTS, CandidateRanker, Weights, fit_labels
from outrider.state.citations import CitationNetwork
from outrider.state.records import Paper

PUBLISHED = {"Donners_2021": 1.00, "Sep_2021": 0.95, "van_der_Valk_2021": 0.89, "Jeyaraman_2020": 0.93, "Nelson_2002": 0.37}
"""Recall of the exhaustive chase in the README of the data."""
DRAWS, START, SHARE, FOLDS = 20, 3, 0.6, 10
HALVES, FIRST, LEAST_RELEVANT = 10, 50, 2
DAMPING, STEPS = 0.5, 20


@dataclass(frozen=True, slots=True)
class Review:
    network: CitationNetwork
    included: frozenset[str]
    linked: Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Draw:
    exhaustive_read: int
    exhaustive_recall: float
    recall: float
    """After `SHARE` of the exhaustive chase's reading."""
    needed: float | None
    """Share of the exhaustive chase's reading after which its recall is reached; None if it never is."""
    stop_recall: float
    stop_read: int
    """Recall and records read where the chase itself suggests to stop."""


def run() -> Report:
    tables = [_run_reviews(hops) for hops in (1, 2)]
    return Report("chase", tables[0].columns, tables[0].rows, tables[0].notes, (*tables[1:], measure_bound(), run_cacm()))


def _run_reviews(hops: int) -> Report:
    rows: list[tuple[Cell, ...]] = []
    for name in SYNERGY:
        review = load_review(name)
        draws = [chase_review(review, seed, hops) for seed in range(DRAWS)]
        needed = [draw.needed if draw.needed is not None else float("inf") for draw in draws]
        exhaustive = statistics.mean(draw.exhaustive_recall for draw in draws)
        recall = statistics.mean(draw.recall for draw in draws)
        shares = [draw.stop_read / max(1, draw.exhaustive_read) for draw in draws]
        rows.append((
            name, len(review.network.works), statistics.mean(draw.exhaustive_read for draw in draws), exhaustive, PUBLISHED[name], recall,
            statistics.stdev(draw.recall for draw in draws), "yes" if recall >= min(exhaustive, PUBLISHED[name]) - 0.005 else "no",
            statistics.median(needed), sum(share <= SHARE for share in needed), statistics.mean(draw.stop_recall for draw in draws),
            statistics.mean(shares),
        ))  # fmt: skip
        progress(f"{name}, {hops} hops: {rows[-1]}")
    columns = (
        "review", "records", "exhaustive: read", "recall", "published", f"recall at {SHARE:.0%} of it", "sd", "met",
        "share read for its recall (median)", f"draws of {DRAWS} within {SHARE:.0%}", "at its own stop: recall", "share read",
    )  # fmt: skip
    note = (
        f"From {START} random included works, {DRAWS} draws with seeds 0 to {DRAWS - 1}, rounds of {ROUND} records; it suggests to stop "
        f"after {PATIENCE} rounds without an inclusion."
    )
    return Report(f"candidates at most {hops} links away", columns, tuple(rows), (note,))


def load_review(name: str) -> Review:
    rows = read_review(name)
    works = {
        row["openalex"]: Paper(doc_id=row["openalex"], title=row["title"] or "", abstract=row["abstract"] or "", year=row["year"])
        for row in rows
    }
    links = {(row["openalex"], cited): ("openalex",) for row in rows for cited in row["referenced_works"]}
    linked: dict[str, set[str]] = {key: set() for key in works}
    for citing, cited in links:
        if cited in works and cited != citing:
            linked[citing].add(cited)
            linked[cited].add(citing)
    included = frozenset(row["openalex"] for row in rows if row["included"])
    return Review(CitationNetwork(works, links), included, {key: frozenset(others) for key, others in linked.items()})


def draw_start(review: Review, seed: int) -> list[str]:
    return random.Random(seed).sample(sorted(review.included), START)


def chase_exhaustively(review: Review, start: Sequence[str]) -> list[str]:
    """The records read, in order."""
    read: dict[str, None] = {}
    queue = list(start)
    while queue:
        for key in sorted(review.linked[queue.pop(0)]):
            if key not in read and key not in start:
                read[key] = None
                if key in review.included:
                    queue.append(key)
    return list(read)


def chase_review(review: Review, seed: int, hops: int, weights: Weights = DEFAULT_WEIGHTS) -> Draw:
    start = draw_start(review, seed)
    others = len(review.included) - START
    exhaustive = chase_exhaustively(review, start)
    there = sum(key in review.included for key in exhaustive)
    ranker = CandidateRanker(review.network, weights=weights)
    chase = start_chase("review", start, hops=hops)
    order: list[str] = []
    stop: int | None = None
    while (len(order) < 1.5 * len(exhaustive) or stop is None) and (candidates := list_candidates(chase, ranker, limit=None)):
        batch = [one.key for one in candidates[:ROUND]]
        order += batch
        wanted = [key for key in batch if key in review.included]
        chase = record_round(chase, candidates, included=wanted, excluded=[key for key in batch if key not in review.included])
        if stop is None and find_stop(chase, len(candidates) - len(batch)) == "no inclusion in the last rounds":
            stop = len(order)
    totals = [0, *accumulate(key in review.included for key in order)]
    stop = len(order) if stop is None else stop
    needed = next((read / max(1, len(exhaustive)) for read, total in enumerate(totals) if total >= there), None)
    budget = min(int(SHARE * len(exhaustive)), len(order))
    return Draw(len(exhaustive), there / others, totals[budget] / others, needed, totals[stop] / others, stop)


def measure_bound() -> Report:
    """What the model could tell with the most labels: each tenth of a review is scored by a model of the labels of all others.

    No chase has so many labels before its end. The records of the exhaustive chase are read in the order of these scores.
    """
    rows: list[tuple[Cell, ...]] = []
    for name in SYNERGY:
        review = load_review(name)
        scores = _score_with_all_labels(review)
        recalls, exhaustive_recalls = [], []
        for seed in range(DRAWS):
            read = chase_exhaustively(review, draw_start(review, seed))
            order = _order(read, scores.__getitem__)[: int(SHARE * len(read))]
            others = len(review.included) - START
            recalls.append(len(review.included & set(order)) / others)
            exhaustive_recalls.append(len(review.included & set(read)) / others)
        rows.append((name, statistics.mean(exhaustive_recalls), statistics.mean(recalls)))
    columns = ("review", "exhaustive: recall", f"recall at {SHARE:.0%} of its reading")
    return Report("the model with the labels of nine tenths of the review", columns, tuple(rows))


def _score_with_all_labels(review: Review) -> Mapping[str, float]:
    matrices = CitationMatrices(review.network)
    keys = sorted(review.network.works)
    random.Random(0).shuffle(keys)
    scores: dict[str, float] = {}
    for fold in range(FOLDS):
        tested = keys[fold::FOLDS]
        rest = sorted(set(keys) - set(tested))
        labelled = [key for key in rest if key in review.included] + [key for key in rest if key not in review.included]
        labels = np.array([1.0 if key in review.included else -1.0 for key in labelled])
        features = matrices.make_features(np.array([matrices.index[key] for key in (*tested, *labelled)]))
        scores.update(zip(tested, fit_labels(features, labels, DEFAULT_WEIGHTS.ridge).tolist(), strict=True))
    return scores


def run_cacm() -> Report:
    """Recall of the other half of a query's relevant documents in the first 50, with means over halves and 95 % intervals over queries."""
    source = collection("cacm")
    links = {(paper.doc_id, edge.target.removeprefix("doc:")): ("cacm",) for paper in source.documents for edge in paper.edges}
    works = {paper.doc_id: paper for paper in source.documents}
    network = CitationNetwork(works, links)
    ranker, counts = CandidateRanker(network), Walks(network)
    recalls: dict[tuple[str, str], dict[str, list[float]]] = {}
    for seed in range(HALVES):
        for query, text in source.queries.items():
            relevant = sorted((key for key, grade in source.qrels[query].items() if grade > 0 and key in works), key=int)
            if len(relevant) < LEAST_RELEVANT:
                continue
            random.Random(f"{seed} {query}").shuffle(relevant)
            start, rest = relevant[: len(relevant) // 2], frozenset(relevant[len(relevant) // 2 :])
            for reach, hops in (("two links away", 2), ("all records", None)):
                ours = ranker.rank(start, request=text, hops=hops)
                pool = sorted(one.key for one in ours)
                fits = {one.key: one.fit or 0.0 for one in ours}
                walk, two = counts.walk(start), counts.count_two_steps(start)
                orders = {
                    "the ranking": [one.key for one in ours],
                    "the ranking without the request": [one.key for one in ranker.rank(start, hops=hops, limit=FIRST)],
                    "BM25": _order(pool, fits.__getitem__),
                    "two-step counting": _order(pool, two.__getitem__),
                    "PageRank": _order(pool, walk.__getitem__),
                    "PageRank and BM25": _order(pool, _add(pool, walk, fits).__getitem__),
                }
                for name, order in orders.items():
                    recall = len(rest & set(order[:FIRST])) / len(rest)
                    recalls.setdefault((reach, name), {}).setdefault(query, []).append(recall)
                recalls.setdefault((reach, "at most possible"), {}).setdefault(query, []).append(len(rest & set(pool)) / len(rest))
    rows: list[tuple[Cell, ...]] = []
    for (reach, name), by_query in recalls.items():
        means = [statistics.mean(values) for values in by_query.values()]
        halves = [statistics.mean(values[seed] for values in by_query.values()) for seed in range(HALVES)]
        interval = 1.96 * statistics.stdev(means) / len(means) ** 0.5
        rows.append((reach, name, statistics.mean(means), interval, min(halves), max(halves)))
    note = f"{len(means)} queries with at least {LEAST_RELEVANT} relevant documents; {HALVES} random halves."
    columns = ("candidates", "order", "recall", "95 % ±", "least half", "best half")
    return Report(f"CACM: recall in the first {FIRST}", columns, tuple(rows), (note,))


def _order(pool: Sequence[str], score: Callable[[str], float]) -> list[str]:
    return sorted(pool, key=lambda key: (-score(key), key))


def _add(pool: Sequence[str], *scores: Mapping[str, float]) -> Mapping[str, float]:
    """Sum of the scores as standard deviations within the pool."""
    total = np.zeros(len(pool))
    for one in scores:
        values = np.array([one[key] for key in pool])
        total += (values - values.mean()) / (values.std() or 1.0) if len(pool) else 0.0
    return dict(zip(pool, total.tolist(), strict=True))


class Walks:
    """Two-step counting and personalised PageRank over undirected links."""

    def __init__(self, network: CitationNetwork) -> None:
        self.keys = sorted(network.works)
        index = {key: at for at, key in enumerate(self.keys)}
        self.index = index
        self.links = np.zeros((len(index), len(index)), np.float32)
        for citing, cited in network.links:
            self.links[index[citing], index[cited]] = self.links[index[cited], index[citing]] = 1
        self.steps = self.links / np.maximum(1, self.links.sum(1))[:, None]

    def count_two_steps(self, start: Sequence[str]) -> Mapping[str, float]:
        """Paths of one or two links from the start."""
        one = self.links[[self.index[key] for key in start]].sum(0)
        return dict(zip(self.keys, (one + one @ self.links).tolist(), strict=True))

    def walk(self, start: Sequence[str]) -> Mapping[str, float]:
        origin = np.zeros(len(self.keys), np.float32)
        origin[[self.index[key] for key in start]] = 1 / len(start)
        rank = origin
        for _ in range(STEPS):
            rank = (1 - DAMPING) * origin + DAMPING * (rank @ self.steps)
        return dict(zip(self.keys, rank.tolist(), strict=True))


GRID = tuple(Weights(similarity, links, ridge=ridge) for ridge in (1.0, 3.0) for similarity in (0.0, 0.5, 1.0) for links in (0.0, 0.5, 1.0))
FIT_SEEDS = range(100, 104)
"""Draws apart from those that are reported."""


def choose_weights(hops: int = 1) -> Report:
    """For each review the weights that are best for the other four, and its own figures with them."""
    progress(f"{len(GRID)} settings")
    reviews = {name: load_review(name) for name in SYNERGY}
    shares = {
        name: [_mean_share([chase_review(review, seed, hops, weights) for seed in FIT_SEEDS]) for weights in GRID]
        for name, review in reviews.items()
    }
    rows: list[tuple[Cell, ...]] = []
    for name in SYNERGY:
        others = [statistics.mean(shares[other][at] for other in SYNERGY if other != name) for at in range(len(GRID))]
        best = max(range(len(GRID)), key=others.__getitem__)
        chosen = GRID[best]
        own = shares[name]
        rows.append((
            name, chosen.similarity, chosen.links, chosen.ridge, own[best], own[GRID.index(Weights(0.0, 0.0, ridge=1.0))],
            own[GRID.index(DEFAULT_WEIGHTS)], min(own), max(own),
        ))  # fmt: skip
    columns = (
        "review left out", "similarity", "links", "ridge", "share of the recall with them", "model alone, ridge 1", "defaults", "least",
        "best",
    )  # fmt: skip
    return Report(f"Share of the exhaustive chase's recall after {SHARE:.0%} of its reading", columns, tuple(rows))


def _mean_share(draws: Sequence[Draw]) -> float:
    return statistics.mean(draw.recall / draw.exhaustive_recall if draw.exhaustive_recall else 1.0 for draw in draws)


def time_ranking(works: int = 100_000, links: int = 1_000_000, start: int = 50) -> Report:
    """CPU seconds of rankings in a random network of which few works are cited much."""
    chance = random.Random(0)
    vocabulary = [f"word{number}" for number in range(20_000)]
    keys = [f"doi:10.1/{number}" for number in range(works)]
    papers = {
        key: Paper(doc_id=key, title=" ".join(chance.choices(vocabulary, k=10)), abstract=" ".join(chance.choices(vocabulary, k=150)))
        for key in keys
    }
    ends = {(keys[chance.randrange(works)], keys[int(works * chance.random() ** 3)]): ("a service",) for _ in range(links)}
    rows: list[tuple[Cell, ...]] = []
    for hops in (1, None):
        ranker = CandidateRanker(CitationNetwork(papers, ends))
        for name, excluded in (("first", ()), ("next, 200 works excluded", keys[-200:])):
            began = time.process_time()
            ranker.rank(keys[:start], excluded=excluded, hops=hops, limit=50, request="word1 word2 word3")
            seconds = time.process_time() - began
            count = len(ranker.rank(keys[:start], excluded=excluded, hops=hops))
            rows.append(("all works" if hops is None else "one link away", count, name, seconds))
    return Report(
        f"ranking in a network of {works:,} works and {len(ends):,} links", ("candidates", "number", "ranking", "CPU s"), tuple(rows)
    )


def main() -> None:
    print(table(choose_weights()))
    print(table(time_ranking()))


if __name__ == "__main__":
    main()
