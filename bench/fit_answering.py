"""`python -m bench.fit_answering`: fits the weights of the engine `answering`, and prints figures of texts that a fit has not seen.

Cases: the development half of `answers` in the shared data, and those of `question_cases.jsonl`, which hold questions and places over
READMEs of packages that `constraints.txt` pins and over short texts of our own; its part `apart` is never fitted on. Texts are divided into
folds, so that no text is in a fit and in its test.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from bench.data import data_folder
from bench.model import model
from bench.questions import load_score
from outrider.distiller.engines.answering import (
    FEATURES,
    TEXT_FEATURES,
    TOKEN_FEATURES,
    TOKEN_TEXT_FEATURES,
    WEIGHTS_FILE,
    compute_closeness,
    compute_features,
    compute_text_features,
)
from outrider.distiller.engines.ensemble import logit
from outrider.distiller.selection import NOISE, THRESHOLD
from outrider.distiller.units import SegmentedText, segment_text
from outrider.state.distilling import Reading

OWN = Path(__file__).with_name("question_cases.jsonl")
FOLDS = 10
TYPICAL_UNITS, LEAST_UNITS = 40, 10
"""A text with hundreds of units counts as much as one with forty."""
USED = {
    "words": ("bm25", "context", "before", "code_for_how", "no_number", "place", "end", "question", "lead_in", "short", "address"),
    "tokens": (*(name for name in FEATURES if name != "bm25"), *TOKEN_FEATURES),
}
"""Features with a weight: more of them were worse on texts of other folds."""
RIDGE = {"words": 20.0, "tokens": 100.0}
TEXT_RIDGE = 10.0
NOTHING, CERTAIN = {"words": 0.55, "tokens": 0.62}, {"words": 0.78, "tokens": 0.80}
"""P(the text answers) that becomes `NOISE`, below which nothing is kept, and `THRESHOLD`, below which an answer is uncertain."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    question: str
    text: str
    its: SegmentedText
    answers: np.ndarray
    """1 for each unit that answers, shape (units,)."""
    rows: np.ndarray
    """Features, shape (units, features)."""
    close: list[tuple[float, ...]]


def main() -> None:
    """Print the weights of each kind and write them."""
    cases = {kind: load_cases(kind) for kind in ("words", "tokens")}
    weights = {kind: fit(kind, own) for kind, own in cases.items()}
    WEIGHTS_FILE.write_text(json.dumps(weights, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(weights, indent=2))


def load_cases(kind: str) -> list[Case]:
    """Raises `Absent` without the shared data or the model."""
    score = load_score()
    rows = [json.loads(line) for line in (data_folder() / "answers" / "dev.jsonl").read_text("utf-8").splitlines()]
    rows += [row for row in map(json.loads, OWN.read_text("utf-8").splitlines()) if row["split"] == "dev"]
    embedder = model() if kind == "tokens" else None
    cases = []
    for row in rows:
        text, places = read_case(row, score)
        its = segment_text(Reading("a", text))
        features = np.array(compute_features(row["question"], its))
        close = compute_closeness(embedder, row["question"], its) if embedder else []
        values = np.column_stack([features, np.array(close)]) if close else features
        cases.append(Case(row["question"], text, its, _find_answers(its, places), values, close))
    return cases


def read_case(row: Mapping[str, Any], score: ModuleType) -> tuple[str, list[tuple[int, int]]]:
    """The text and the places of its answers. Raises `ValueError` for another version of a README."""
    if "text" in row:
        return row["text"], [(start, end) for start, end in row["answers"]]
    text = score.check.load_text(row)
    if sha256(text.encode()).hexdigest() != row.get("sha256", row.get("text_sha256")):
        raise ValueError(f"{row['id']}: another version of {row.get('package')}; install the one of constraints.txt")
    own = row["answers"]
    places = score.check.spans(row, text) if not own or isinstance(own[0], dict) else own
    return text, [(start, end) for start, end in places]


def _find_answers(its: SegmentedText, places: Sequence[tuple[int, int]]) -> np.ndarray:
    """As in `calibration.find_answering_units`, but a question may have none."""
    return np.array(
        [
            any(
                2 * (min(unit.end, last) - max(unit.start, first)) >= min(unit.end - unit.start, last - first) > 0 for first, last in places
            )
            for unit in its.units
        ],
        float,
    )


def fit(kind: str, cases: Sequence[Case]) -> dict[str, dict[str, float]]:
    """The text's weights are fitted on units whose weights come from other folds, as those of a new text do."""
    names = FEATURES + (TOKEN_FEATURES if kind == "tokens" else ())
    used = [names.index(name) for name in USED[kind]]
    texts = sorted({case.text for case in cases})
    fold = {text: number % FOLDS for number, text in enumerate(random.Random(0).sample(texts, len(texts)))}
    answered = np.array([float(case.answers.any()) for case in cases])
    rows: list[tuple[float, ...]] = []
    of_fold = [_fit_units(kind, [case for case in cases if fold[case.text] != number], used) for number in range(FOLDS)]
    for case in cases:
        unit = of_fold[fold[case.text]]
        rows.append(compute_text_features(case.question, case.its, list(case.rows @ unit[:-1] + unit[-1]), case.close))
    text = fit_logistic(np.array(rows), answered, np.ones(len(rows)), TEXT_RIDGE, list(range(len(rows[0]))))
    slope = (logit(THRESHOLD) - logit(NOISE)) / (logit(CERTAIN[kind]) - logit(NOTHING[kind]))
    text = text * slope
    text[-1] += logit(NOISE) - slope * logit(NOTHING[kind])
    unit = _fit_units(kind, cases, used)
    text_names = TOKEN_TEXT_FEATURES if kind == "tokens" else TEXT_FEATURES
    return {"unit": _name(names, unit), "text": _name(text_names, text)}


def _name(names: Sequence[str], weights: np.ndarray) -> dict[str, float]:
    return {name: round(float(weight), 4) for name, weight in zip((*names, "intercept"), weights, strict=True)}


def _fit_units(kind: str, cases: Sequence[Case], used: Sequence[int]) -> np.ndarray:
    counts = np.concatenate([np.full(len(case.answers), TYPICAL_UNITS / max(LEAST_UNITS, len(case.answers))) for case in cases])
    return fit_logistic(
        np.vstack([case.rows for case in cases]), np.concatenate([case.answers for case in cases]), counts, RIDGE[kind], used
    )


def fit_logistic(rows: np.ndarray, right: np.ndarray, counts: np.ndarray, ridge: float, used: Sequence[int]) -> np.ndarray:
    """Weights of shape (features + 1,), the intercept last, by Newton's method; those of unused features are 0. `ridge` penalises the
    weights of the standardised features.
    """
    mean, deviation = rows.mean(axis=0), rows.std(axis=0) + 1e-6
    scaled = np.column_stack([((rows - mean) / deviation)[:, list(used)], np.ones(len(rows))])
    weights = np.zeros(scaled.shape[1])
    penalty = np.append(np.full(len(used), ridge), 1e-6)
    for _ in range(40):
        p = 1 / (1 + np.exp(-np.clip(scaled @ weights, -30, 30)))
        hessian = (scaled * (counts * p * (1 - p))[:, None]).T @ scaled + np.diag(penalty)
        weights -= np.linalg.solve(hessian, scaled.T @ (counts * (p - right)) + penalty * weights)
    whole = np.zeros(rows.shape[1] + 1)
    whole[list(used)] = weights[:-1] / deviation[list(used)]
    whole[-1] = weights[-1] - float(whole[:-1] @ mean)
    return whole


if __name__ == "__main__":
    main()
