"""The order in which records are screened: a linear model that learns from the labels so far

Features are TF-IDF of the words of title and abstract and of pairs of neighbours (`features.py`), fitted once a review.
The model is a linear support vector machine with a squared hinge loss. Inclusions weigh as much as in ELAS u4 of ASReview 3 (`RATIO`
times all exclusions together). To that come records that nobody screened, drawn anew for each model: they count as exclusions of little
weight, since most of them are (as in AutoTAR, Cormack and Grossman 2015). ADR 50 tells how the settings were chosen.

Before both classes are known, records come in the order of their fit to the review's question (BM25+), or in a random one without it.
Everything follows from the seed, the records and the set of labels; scores that are equal are ordered by number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from outrider.reviews.features import Features, make_features
from outrider.runtime.task_map import TaskMap, map_here
from outrider.state.reviews import Order
from outrider.text.strip_markup import fold_text
from outrider.text.words import STOP_WORDS, stem, words

EXTRA = "review"
NO_MODEL = "the order does not learn from decisions: scikit-learn is not installed; to install it: {}"


@dataclass(frozen=True, slots=True)
class RankerSettings:
    c: float = 0.11
    ratio: float = 9.8
    unscreened: int = 500
    """Unscreened records that count as exclusions in a model."""
    unscreened_weight: float = 0.5
    """Weight of one of them, in weights of an exclusion."""
    max_df: float = 0.95


SETTINGS = RankerSettings()
MODEL = "svm"
TERMS = 12
"""Words that speak most for inclusion, to highlight."""


class Ranking(NamedTuple):
    """Records that are left, best first."""

    numbers: tuple[int, ...]
    order: Order
    model: str = ""
    terms: tuple[str, ...] = ()
    """Words that speak most for inclusion, in lower case."""


class Ranker:
    """Ranks the records of one review, which are numbered from 1. Blocking; not safe between threads."""

    def __init__(self, texts: Sequence[str], question: str = "", seed: int = 0, settings: RankerSettings = SETTINGS) -> None:
        self._texts = texts
        self._question = question
        self._seed = seed
        self._settings = settings

    @property
    def size(self) -> int:
        return len(self._texts)

    def rank(self, labels: Mapping[int, bool], pool: Sequence[int], order: Order = "model") -> Ranking:
        """The records of the pool, by the model where both classes are labelled."""
        numbers = np.asarray(sorted(pool), np.int64)
        if not len(numbers):  # of a review without records the question fits nothing
            return Ranking((), "shuffled")
        if order == "model" and len({*labels.values()}) == 2 and self.learns:
            ranking = self._rank_by_model(labels, numbers)
            if ranking is not None:
                return ranking
        if self._question.strip():
            scores = self._fits[numbers - 1]
            return Ranking(tuple(map(int, numbers[np.argsort(-scores, kind="stable")])), "question")
        places = np.random.default_rng(self._seed).permutation(len(self._texts))  # one order for all steps
        return Ranking(tuple(map(int, numbers[np.argsort(places[numbers - 1], kind="stable")])), "shuffled")

    def reseed(self, seed: int) -> Ranker:
        """The same ranker with another seed; the features are shared."""
        other = Ranker(self._texts, self._question, seed, self._settings)
        other.__dict__ |= {name: value for name, value in self.__dict__.items() if name in ("_features", "_fits")}
        return other

    @cached_property
    def learns(self) -> bool:
        """Whether the library of the model is installed."""
        from importlib.util import find_spec

        return find_spec("sklearn") is not None

    def fit_features(self, tasks: TaskMap = map_here) -> None:
        """Compute the features now, which `tasks` count: seconds for tens of thousands of records."""
        if self.learns and "_features" not in self.__dict__:
            self.__dict__["_features"] = make_features(self._texts, self._settings.max_df, tasks)

    @cached_property
    def _features(self) -> Features | None:
        return make_features(self._texts, self._settings.max_df)

    @cached_property
    def _fits(self) -> Any:
        """Fit of each record to the question."""
        from rank_bm25 import BM25Plus

        lists = [[stem(word) for word in words(fold_text(text))] or [""] for text in self._texts]
        query = [stem(word) for word in words(fold_text(self._question)) if word not in STOP_WORDS]
        return np.asarray(BM25Plus(lists).get_scores(query))

    def _rank_by_model(self, labels: Mapping[int, bool], pool: Any) -> Ranking | None:
        """None where the labelled records have no terms."""
        from sklearn.svm import LinearSVC

        settings = self._settings
        if self._features is None:
            return None
        features = self._features.matrix
        labelled = np.asarray(sorted(labels), np.int64)
        included = np.asarray([labels[int(number)] for number in labelled])
        chance = np.random.default_rng((self._seed, len(labelled), int(labelled.sum())))
        drawn = chance.choice(pool, min(settings.unscreened, len(pool)), replace=False)
        positive, negative = int(included.sum()), int((~included).sum())
        unit = positive / settings.ratio / (negative + settings.unscreened_weight * len(drawn))
        weights = np.concatenate([np.where(included, 1.0, unit), np.full(len(drawn), unit * settings.unscreened_weight)])
        rows = features[np.concatenate([labelled, drawn]) - 1]
        is_used = np.zeros(features.shape[1], np.bool_)
        is_used[rows.indices] = True
        used = np.flatnonzero(is_used)  # the others have no weight; fewer columns make the model several times as fast
        if not len(used):
            return None
        model = LinearSVC(C=settings.c, random_state=self._seed)
        targets = np.concatenate([included, np.zeros(len(drawn), np.bool_)])
        model.fit(rows[:, used], targets, sample_weight=weights * len(weights) / weights.sum())
        coefficients = np.zeros(features.shape[1])
        coefficients[used] = model.coef_[0]
        scores = (features @ coefficients)[pool - 1]
        best = pool[np.argsort(-scores, kind="stable")]
        return Ranking(tuple(best.tolist()), "model", f"{MODEL} {len(labelled)}", _find_terms(self._features, coefficients))


def _find_terms(features: Features, coefficients: Any) -> tuple[str, ...]:
    most = min(4 * TERMS, len(coefficients))
    top = np.argpartition(-coefficients, most - 1)[:most]  # sorting hundreds of thousands would take longer than the model
    names = [features.name(at) for at in top[np.lexsort((top, -coefficients[top]))].tolist() if coefficients[at] > 0]
    return tuple(name for name in names if " " not in name and name not in STOP_WORDS)[:TERMS]
