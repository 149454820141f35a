"""The distiller on SciFact's rationales: sentences that people marked as answers to a claim.

Half of the claims were used to fit engines (`bench.train_distiller`), and the figures are of the other half. Only for the splits, threshold
and test are drawn from all claims; still, no case is scored by a classifier that was trained on it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from rank_bm25 import BM25Okapi

from bench.data import Absent
from bench.distil_speed import REPEATS, Speed, megabyte, speed, together
from bench.model import CACHE, NAME, Remembering, model, model_folder
from bench.rationales import Case, cases, halves
from bench.report import Cell, Report, progress
from outrider.distiller.calibration import FAR_BELOW, KEEP_RATE, conformal_threshold, removed_share
from outrider.distiller.engines.classifier import Classifier
from outrider.distiller.engines.embedding import Embedding
from outrider.distiller.engines.ensemble import Engine, EnsembleWeights, Scores, fit_weights, logit
from outrider.distiller.engines.lexical import Lexical, Rhetoric
from outrider.distiller.engines.select import ENSEMBLE_WEIGHTS, HALVES, WORDS_WEIGHTS, EngineName, make_engine
from outrider.distiller.selection import CLOSE, SelectionSettings, lift_context_scores, select_units
from outrider.text.words import stems
from outrider.training.rerank_evaluation import sign_flip_p

SPLITS, MANY, FOLDS = 20, 1_000, 5
"""The mean of few splits varies by a third of a point and more; that of many does not."""
THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
TRAINED = CACHE / "distiller"
"""Where `python -m bench.train_distiller` puts the classifier."""
TRAINED_ON_OTHERS = CACHE / "distiller-on-others"
"""The same, trained on the held-out claims: it scores the claims that the first one was trained on."""
BY_WORDS: tuple[EngineName, ...] = ("lexical", "words")
RANDOM, FIRST, LAST, BM25 = "random", "first sentences", "last sentences", "BM25"
FEW = 3
COLUMNS = (
    "engine", "rationale sentences kept at half", "p against random", "p against first", "text removed, best threshold at 95 %",
    "the same with referenced units", "claims whole at 20 splits, mean", "least", "cases a split", "text removed there",
    f"claims whole at {MANY:,} splits, mean", "share of them below 91 %", "seconds for five", "tokens a second", "to the model alone",
)  # fmt: skip

FEW_COLUMNS = ("engine", "claims with a whole rationale kept", "sentences kept", "p against first", "p against last", "p against BM25")
ON_THE_CURVE = ("engine", "threshold", "claims whole", "rationale sentences kept", "text removed")


def run() -> Report:
    try:
        every = cases()
        model_folder()
    except Absent as absent:
        return Report("distil", COLUMNS, (), (f"skipped: {absent}",))
    train, held_out = halves(every)
    speeds: dict[str, Speed] = {}
    of: dict[str, dict[int, list[float]]] = {}
    for engine in engines():
        progress(f"distil: {engine.name}")
        of[engine.name] = scored(engine, dict(enumerate(every)))
        speeds[engine.name] = speed(engine, every)
    place = {id(case): at for at, case in enumerate(every)}
    tested = [place[id(case)] for case in held_out]
    if (name := classifier(TRAINED).name) in of:
        of[name] |= scored(classifier(TRAINED_ON_OTHERS), {place[id(case)]: case for case in train})
    ensembles(of, every)
    speeds |= of_ensembles(list(speeds.values()))
    baselines = {RANDOM: _random(every), FIRST: _first(every), LAST: _last(every), BM25: _bm25(every)}
    rows = [_row(name, values, every, tested, baselines, speeds.get(name)) for name, values in {**baselines, **of}.items()]
    curves = [row for name, values in {**baselines, **of}.items() for row in _curve(name, [values[at] for at in tested], held_out)]
    curve_table = Report("thresholds, held-out claims", ON_THE_CURVE, tuple(curves))
    few_table = Report("three sentences, held-out claims", FEW_COLUMNS, tuple(_few_rows({**baselines, **of}, every, tested)))
    return Report("distil", COLUMNS, tuple(rows), (*_notes(every, train, held_out), _megabyte(every)), (curve_table, few_table))


def engines() -> Iterator[Engine]:
    """Vectors of units are cached in `build/bench` between runs, and computed again where speed is measured."""
    yield Lexical()
    yield Rhetoric()
    yield Embedding(Remembering(model(), CACHE / "scifact-units.npz"))
    if all((folder / "config.json").is_file() for folder in (TRAINED, TRAINED_ON_OTHERS)):
        yield classifier(TRAINED)


def classifier(folder: Path) -> Classifier:
    return Classifier(str(folder), "cpu", downloads=False)


def scored(engine: Engine, some: Mapping[int, Case]) -> dict[int, list[float]]:
    return {at: engine.scores(case.labelled.query, [case.its])[0] for at, case in some.items()}


def ensembles(of: dict[str, dict[int, list[float]]], every: Sequence[Case]) -> None:
    """Adds them, with the weights that are shipped; those beside a classifier are fitted."""
    lexical, rhetoric, embedding, *others = list(of)
    of["words"] = weighted([lexical, rhetoric], WORDS_WEIGHTS, of)
    of["ensemble"] = weighted([lexical, rhetoric, embedding], ENSEMBLE_WEIGHTS, of)
    if others:
        of["classifier, half and half"] = weighted(["ensemble", *others], HALVES, of)
        of["classifier+"] = cross_fitted([lexical, rhetoric, embedding, *others], every, of)


def of_ensembles(speeds: Sequence[Speed]) -> dict[str, Speed]:
    """From those of lexical, rhetoric, embedding and, where there is one, the classifier."""
    known = {"words": together(speeds[:2]), "ensemble": together(speeds[:3])}
    return known | {name: together(speeds) for name in ("classifier, half and half", "classifier+") if len(speeds) > 3}


def weighted(members: Sequence[str], weights: EnsembleWeights, of: Mapping[str, Mapping[int, list[float]]]) -> dict[int, list[float]]:
    return {at: weights.probabilities([of[name][at] for name in members]) for at in of[members[0]]}


def cross_fitted(members: Sequence[str], every: Sequence[Case], of: Mapping[str, Mapping[int, list[float]]]) -> dict[int, list[float]]:
    """The claims in `FOLDS` parts, each with weights that were fitted on the others."""
    claims = sorted({case.claim for case in every})
    fold = {claim: number % FOLDS for number, claim in enumerate(random.Random(0).sample(claims, len(claims)))}
    probabilities: dict[int, list[float]] = {}
    for number in range(FOLDS):
        own = [at for at, case in enumerate(every) if fold[case.claim] == number]
        others = [at for at, case in enumerate(every) if fold[case.claim] != number]
        weights = stacked([([of[name][at] for name in members], every[at].right) for at in others])
        probabilities |= {at: weights.probabilities([of[name][at] for name in members]) for at in own}
    return probabilities


def stacked(cases: Sequence[tuple[Sequence[Sequence[float]], frozenset[int]]]) -> EnsembleWeights:
    """Weights of each engine's logit, and of the distance of the last one's to the best of its text: the others' scores include that."""
    rows = [(one, unit in right) for scores, right in cases for unit, one in enumerate(_features(scores))]
    weights = fit_weights([one for one, _ in rows], [answers for _, answers in rows], ridge=0.1)
    *each, behind = weights.each
    return EnsembleWeights(tuple(each), weights.intercept, (*(0.0,) * (len(each) - 1), behind))


def _features(scores: Sequence[Sequence[float]]) -> list[tuple[float, ...]]:
    logits = [[logit(one) for one in many] for many in scores]
    best = max(logits[-1], default=0.0)
    return [(*unit, unit[-1] - best) for unit in zip(*logits, strict=True)]


def _row(
    name: str,
    values: Mapping[int, list[float]],
    every: Sequence[Case],
    tested: Sequence[int],
    baselines: Mapping[str, Mapping[int, list[float]]],
    fast: Speed | None,
) -> tuple[Cell, ...]:
    shares = [_kept_at_half(every[at], values[at]) for at in tested]
    against = [
        None if name in baselines else _p(shares, [_kept_at_half(every[at], one[at]) for at in tested]) for one in baselines.values()
    ]
    cuts, own = [every[at].its for at in tested], [values[at] for at in tested]
    worth = worth_of(every, values)
    with_others = [worth[at] for at in tested]
    splits = [split(every, worth, seed) for seed in range(MANY)]
    few, rates = splits[:SPLITS], [one.whole for one in splits]
    return (
        name,
        share_at_half(every, values, tested),
        *against,
        removed_share(cuts, own, best_threshold([every[at] for at in tested], own)),
        removed_share(cuts, with_others, best_threshold([every[at] for at in tested], with_others)),
        mean(rates[:SPLITS]),
        min(rates[:SPLITS]),
        len(few[0].tested),
        mean(one.removed(every, worth) for one in few),
        mean(rates),
        mean(rate < KEEP_RATE - FAR_BELOW for rate in rates),
        *((fast.took, fast.tokens_a_second, fast.to_the_model_alone) if fast else (None, None, None)),
    )


def _curve(name: str, scores: Scores, some: Sequence[Case]) -> Iterator[tuple[Cell, ...]]:
    """What each threshold keeps by the scores alone, without referenced units."""
    cuts, answers = [case.its for case in some], sum(len(case.right) for case in some)
    for threshold in THRESHOLDS:
        whole = mean(weakest(case, one) >= threshold for case, one in zip(some, scores, strict=True))
        passing = sum(one[at] >= threshold for case, one in zip(some, scores, strict=True) for at in case.right)
        yield name, threshold, whole, passing / answers, removed_share(cuts, scores, threshold)


def share_at_half(every: Sequence[Case], values: Mapping[int, list[float]], tested: Sequence[int]) -> float:
    """The share of all rationale sentences that are in the better half of their text's units."""
    return sum(len(_better_half(every[at], values[at]) & every[at].right) for at in tested) / sum(len(every[at].right) for at in tested)


def _kept_at_half(case: Case, scores: Sequence[float]) -> float:
    return len(_better_half(case, scores) & case.right) / len(case.right)


def _better_half(case: Case, scores: Sequence[float]) -> set[int]:
    return set(sorted(range(len(scores)), key=lambda at: (-scores[at], at))[: case.half])


def _p(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return sign_flip_p([one - other for one, other in zip(ours, theirs, strict=True)])


def weakest(case: Case, scores: Sequence[float]) -> float:
    return min(scores[at] for at in case.right)


def best_threshold(some: Sequence[Case], scores: Scores) -> float:
    """The highest that keeps 95 % of exactly these cases whole; it is not known in advance."""
    ordered = sorted(weakest(case, one) for case, one in zip(some, scores, strict=True))
    return ordered[int(len(ordered) * (1 - KEEP_RATE) + 1e-9)]


def worth_of(every: Sequence[Case], values: Mapping[int, list[float]]) -> dict[int, list[float]]:
    """What each unit of a case counts with those that refer to it, by the case's place."""
    return {at: lift_context_scores(case.its, values[at])[0] for at, case in enumerate(every)}


class Split(NamedTuple):
    """A threshold from one random half of the claims, the cases of the other half by their places, and the share of these kept whole."""

    threshold: float
    tested: Sequence[int]
    whole: float

    def removed(self, every: Sequence[Case], worth: Mapping[int, list[float]]) -> float:
        """The share of the tested cases' text."""
        return removed_share([every[at].its for at in self.tested], [worth[at] for at in self.tested], self.threshold)


def split(every: Sequence[Case], worth: Mapping[int, list[float]], seed: int) -> Split:
    claims = sorted({case.claim for case in every})
    first = set(random.Random(seed).sample(claims, len(claims) // 2))
    threshold = conformal_threshold([weakest(case, worth[at]) for at, case in enumerate(every) if case.claim in first], KEEP_RATE)
    tested = [at for at, case in enumerate(every) if case.claim not in first]
    return Split(threshold, tested, mean(weakest(every[at], worth[at]) >= threshold for at in tested))


def _random(every: Sequence[Case]) -> dict[int, list[float]]:
    rng = random.Random(0)
    return {at: [rng.random() for _ in case.its.units] for at, case in enumerate(every)}


def _first(every: Sequence[Case]) -> dict[int, list[float]]:
    return {at: [1 - unit / len(case.its.units) for unit in range(len(case.its.units))] for at, case in enumerate(every)}


def _last(every: Sequence[Case]) -> dict[int, list[float]]:
    return {at: [(unit + 1) / len(case.its.units) for unit in range(len(case.its.units))] for at, case in enumerate(every)}


def _bm25(every: Sequence[Case]) -> dict[int, list[float]]:
    """BM25 of each unit among those of its text, relative to the best one."""
    scores = {}
    for at, case in enumerate(every):
        own = BM25Okapi([words or [""] for words in case.its.stems()], k1=1.2, b=0.75).get_scores(stems(case.labelled.query))
        scores[at] = [max(0.0, float(one)) / max(1e-9, *map(float, own)) for one in own]
    return scores


def _few_rows(of: Mapping[str, Mapping[int, list[float]]], every: Sequence[Case], tested: Sequence[int]) -> Iterator[tuple[Cell, ...]]:
    """With the default of three sentences; an engine may keep fewer, the baselines keep three."""
    whole: dict[str, list[float]] = {}
    for name, values in of.items():
        close = 0.0 if name in (RANDOM, FIRST, LAST, BM25) else CLOSE
        few = SelectionSettings(noise=0.0, max_units=FEW, max_units_first=FEW, close=close)
        kept = [{(unit.start, unit.end) for unit in select_units([every[at].its], [values[at]], few).units} for at in tested]
        right = [{(every[at].its.units[unit].start, every[at].its.units[unit].end) for unit in every[at].right} for at in tested]
        whole[name] = [float(one <= own) for one, own in zip(right, kept, strict=True)]
        against = [None if name in (RANDOM, FIRST, LAST, BM25) else _p(whole[name], whole[other]) for other in (FIRST, LAST, BM25)]
        yield name, mean(whole[name]), mean(map(len, kept)), *against


def _notes(every: Sequence[Case], train: Sequence[Case], held_out: Sequence[Case]) -> tuple[str, ...]:
    documents = [{case.labelled.reading.doc_id for case in some} for some in (train, held_out)]
    both = len(documents[0] & documents[1])
    return (
        f"{len(every)} cases, {len(train)} to fit engines on, {len(held_out)} held out; {both} abstracts are in both halves.",
        "Half: the better half of each abstract's units, rounded up. Text removed: share of characters. p: two-sided, paired by case.",
        f"Best threshold: the highest that keeps {KEEP_RATE:.0%} of the tested cases whole, which is not known in advance.",
        f"Splits: threshold by split conformal prediction on a random half of the claims, promise {KEEP_RATE:.0%}.",
        f"classifier+: its weights are fitted on the claims in {FOLDS} parts, each part scored with those of the others.",
        "The splits score each half of the claims with a classifier that was trained on the other.",
        f"The embedding model is {NAME}; the classifier was fine-tuned from it by `python -m bench.train_distiller`.",
        "No LLMLingua-2 weights were available here: its path is tested with random weights only.",
    )


def _megabyte(every: Sequence[Case]) -> str:
    took = {name: megabyte(make_engine(name), every) for name in BY_WORDS}
    times = ", ".join(f"{name} {seconds:.2g} s" for name, seconds in took.items())
    return f"A megabyte of abstracts as one text, cut, scored, chosen from and counted, median of {REPEATS}: {times}."
