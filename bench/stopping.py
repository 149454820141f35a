"""Stopping of screening: validity and work saved of the sealed and the open sample, beside the ranked test

Orders: a model's (TF-IDF and logistic regression, one relevant and one irrelevant record as priors, trained again after each 5 % more
labels), a random one, and two that hide relevant records at the end of the model's order: just enough to miss the target, and a tenth and
one more. Work saved: records that nobody read. The ranked test looks after each record. Its stops are confirmed with `buscarpy` where that
is installed.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bench.data import REVIEWS, SYNERGY, read_review
from bench.report import Cell, Report, progress
from outrider.statistics.assess_screening import START_OF_DRAWING, assess_screening
from outrider.statistics.ranked_stop import compute_ranked_p_value
from outrider.statistics.recall_certificate import OpenSample, count_tolerated, size_sealed_sample

ABSTRACTS = ("ADHD", "Antihistamines", "NSAIDS", "Triptans")
TARGET, CONFIDENCE = 0.95, 0.95
SEEDS, DRAWS, OPEN_DRAWS = 4, 300, 25
"""Orders of a review, and drawings of each order."""


@dataclass(frozen=True, slots=True)
class Run:
    screened: int
    found: int


def run() -> Report:
    rows: list[tuple[Cell, ...]] = []
    saved: dict[str, list[tuple[float, ...]]] = {}
    disagreements = 0
    for group, names in (("reviews", REVIEWS), ("synergy", SYNERGY), ("reviews, labels of abstract screening", ABSTRACTS)):
        for name in names:
            texts, relevant = load_review(name, group)
            orders = [rank(texts, relevant, seed) for seed in range(SEEDS)]
            for kind, change in ORDERS.items():
                if group not in ("reviews", "synergy") and kind != "model":
                    continue
                row, disagreed = _measure(name, kind, [change(order, seed) for seed, order in enumerate(orders)])
                disagreements += disagreed
                rows.append(row)
                progress(" ".join(map(str, row)))
                if kind == "model":
                    saved.setdefault(group, []).append((float(row[6] or 0), float(row[8] or 0), float(row[10] or 0)))
    summary = [
        (group, len(values), *(statistics.mean(column) for column in zip(*values, strict=True)))
        for group, values in (*saved.items(), ("reviews and synergy", [*saved["reviews"], *saved["synergy"]]))
    ]
    columns = (
        "review", "order", "records", "relevant", "sealed: runs", "runs at the target", "work saved", "open: runs at the target",
        "work saved", "ranked test: least recall", "work saved", "at its stop the proof is",
    )  # fmt: skip
    notes = (
        f"Target recall {TARGET}, confidence {CONFIDENCE}; {SEEDS} orders, each with {DRAWS} sealed samples and {OPEN_DRAWS} open ones.",
        _describe_peer(disagreements),
    )
    means = Report(
        "mean work saved, model's order", ("group", "reviews", "sealed sample", "open sample", "ranked test"), tuple(summary)
    )  # fmt: skip
    return Report("stopping", columns, tuple(rows), notes, (means,))


def load_review(name: str, group: str) -> tuple[list[str], list[bool]]:
    """Texts and labels. Raises `Absent`."""
    records = read_review(name)
    column = "included" if group == "synergy" else "label_included" if group == "reviews" else "label_abstract_screening"
    texts = [f"{record['title'] or ''} {record['abstract'] or ''}" for record in records]
    return texts, [record[column] in ("1", True) for record in records]


def rank(texts: Sequence[str], relevant: Sequence[bool], seed: int) -> list[bool]:
    """Labels in the order of an actively learning model."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # type: ignore[import-untyped]
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

    features = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True, stop_words="english").fit_transform(texts)
    labels = np.array(relevant)
    chance = random.Random(seed)
    order = [chance.choice(np.flatnonzero(labels).tolist()), chance.choice(np.flatnonzero(~labels).tolist())]
    left = np.ones(len(labels), dtype=bool)
    left[order] = False
    model = LogisticRegression(C=10, class_weight="balanced", solver="liblinear", random_state=0)
    while left.any():
        model.fit(features[order], labels[order])
        unread = np.flatnonzero(left)
        best = np.lexsort((unread, -model.decision_function(features[unread])))[: max(1, len(order) // 20)]
        order += unread[best].tolist()
        left[unread[best]] = False
    return [bool(label) for label in labels[order]]


def _shuffle(order: list[bool], seed: int) -> list[bool]:
    return random.Random(seed).sample(order, len(order))


def _hide(order: list[bool], count: int) -> list[bool]:
    """The order with its last relevant records at its end."""
    places = {at for at, label in enumerate(order) if label}
    hidden = set(sorted(places)[-count:])
    return [label for at, label in enumerate(order) if at not in hidden] + [True] * len(hidden)


def _count_just_enough(order: list[bool]) -> int:
    return next(missed for missed in range(1, sum(order) + 1) if sum(order) - missed < TARGET * sum(order) - 1e-9)


ORDERS: dict[str, Callable[[list[bool], int], list[bool]]] = {
    "model": lambda order, _: order,
    "random": _shuffle,
    "just enough hidden": lambda order, _: _hide(order, _count_just_enough(order)),
    "a tenth hidden": lambda order, _: _hide(order, sum(order) // 10 + 1),
}


def _measure(name: str, kind: str, orders: list[list[bool]]) -> tuple[tuple[Cell, ...], int]:
    total, relevant = len(orders[0]), sum(orders[0])
    sealed, opened, ranked, states, disagreements = [], [], [], [], 0
    for seed, order in enumerate(orders):
        starts, stop = read_to_stop(order)
        disagreements += _disagrees(order, stop)
        ranked.append(Run(stop, sum(order[:stop])))
        states.append(assess_screening(order[:stop], total, None, TARGET, CONFIDENCE).proof.state)
        chance = np.random.default_rng([seed, total])
        sealed += [run_sealed(order, starts[True], chance) for _ in range(DRAWS)]
        opened += [run_open(order, starts[False], chance) for _ in range(OPEN_DRAWS if kind == "model" else 0)]

    def save(runs: list[Run]) -> float | None:
        return statistics.mean(1 - run.screened / total for run in runs) if runs else None

    def reach(runs: list[Run]) -> float | None:
        return statistics.mean(run.found >= TARGET * relevant - 1e-9 for run in runs) if runs else None

    least = min(run.found / relevant for run in ranked)
    row = (
        name, kind, total, relevant, len(sealed), reach(sealed), save(sealed), reach(opened), save(opened), least, save(ranked),
        ", ".join(sorted(set(states))),
    )  # fmt: skip
    return row, disagreements


def read_to_stop(order: Sequence[bool]) -> tuple[dict[bool, int], int]:
    """Records after which drawing starts, sealed or not, and after which the ranked test suggests to stop."""
    starts = dict.fromkeys(START_OF_DRAWING, len(order))
    for read in range(1, len(order)):
        p_value = compute_ranked_p_value(order[:read], len(order), TARGET)
        for sealed, limit in START_OF_DRAWING.items():
            if p_value <= limit:
                starts[sealed] = min(starts[sealed], read)
        if p_value < 1 - CONFIDENCE:
            return starts, read
    return starts, len(order)


def run_sealed(order: Sequence[bool], start: int, chance: np.random.Generator) -> Run:
    """A review with a sealed sample: read by rank while a drawn relevant record lies ahead, else draw, until the target is proven."""
    total = len(order)
    places = np.flatnonzero(order)
    turns = chance.permutation(total)  # of each place in the ranking
    depth, drawn = start, 0
    while depth < total:
        found = int(np.searchsorted(places, depth))
        needed = size_sealed_sample(total, count_tolerated(found, TARGET) + 1, CONFIDENCE)
        ahead = turns[places[found:]]
        first = int(ahead.min()) + 1 if len(ahead) else total + 1
        if drawn >= needed or first > needed:
            drawn = max(drawn, min(needed, total))
            break
        drawn = max(drawn, first)
        depth = int(places[found:][ahead < drawn].max()) + 1
    return Run(depth + int((turns[depth:] < drawn).sum()), int(np.searchsorted(places, depth)))


def run_open(order: Sequence[bool], start: int, chance: np.random.Generator) -> Run:
    """A review that reads to the start by rank and then draws from the rest until the target is proven."""
    total = len(order)
    rest = np.asarray(order[start:])[chance.permutation(total - start)]
    labels = [*order[:start], *rest.tolist()]
    drawn = 0
    while start + drawn < total:
        state = OpenSample(labels[: start + drawn], range(start, start + drawn), total, TARGET)
        needed = state.count_draws(CONFIDENCE)
        following = np.flatnonzero(rest[drawn:])
        if not needed or not len(following) or following[0] >= needed:
            drawn = min(drawn + needed, total - start)
            break
        drawn += int(following[0]) + 1
    return Run(start + drawn, sum(labels[: start + drawn]))


def _disagrees(order: Sequence[bool], stop: int) -> bool:
    """Whether buscarpy, where it is installed, would not stop here, or would have stopped a record earlier."""
    try:
        from buscarpy import calculate_h0  # type: ignore[import-not-found]
    except ImportError:
        return False
    before, here = (calculate_h0([int(label) for label in order[:read]], len(order), TARGET) for read in (stop - 1, stop))
    return not (before >= 1 - CONFIDENCE and (here < 1 - CONFIDENCE or stop == len(order)))


def _describe_peer(disagreements: int) -> str:
    try:
        from importlib.metadata import version

        return f"buscarpy {version('buscarpy')} in the same run: it stops elsewhere on {disagreements} orders."
    except ImportError:
        return "buscarpy is not installed: the ranked test is ours alone."
