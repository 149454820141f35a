"""`python -m bench.fit_answering`: fits the weights of the engine `answering`, and prints figures of texts that a fit has not seen.

Cases: the development half of `answers` in the shared data, and those of `question_cases.jsonl`, which hold questions and places over
READMEs of packages that `constraints.txt` pins and over short texts of our own; its parts other than `dev` are never fitted on. The texts
`k01` to `k20` were written for their questions, each of another kind (a statute, a recipe, minutes, ...). Texts are divided into folds, so
that no text is in a fit and in its test. `--tokens` prints the figures for other budgets of tokens and fits nothing.

Whether a text answers at all is also fitted on hits: the first five packages for each request of `bench software`, except those of its set
kept apart. A package of grade 2 answers, one of grade 0 does not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from bench.data import data_folder
from bench.model import model, model_folder
from bench.questions import load_score
from bench.software import OWN as OWN_REQUESTS
from bench.software import read_requests, search_all
from outrider.distiller.engines.answering import (
    FEATURES,
    TEXT_FEATURES,
    TEXT_TOKENS,
    TOKEN_TEXT_FEATURES,
    WEIGHTS_FILE,
    ReadUnits,
    Weights,
    compute_features,
    compute_text_features,
    load_weights,
    score_units,
    shortlist,
)
from outrider.distiller.engines.by_kind_of_text import shift_by_rank
from outrider.distiller.engines.closeness import TOKEN_FEATURES, compute_closeness
from outrider.distiller.engines.embedding import Embedder
from outrider.distiller.engines.ensemble import logit
from outrider.distiller.selection import NOISE, THRESHOLD, SelectionSettings, select_units
from outrider.distiller.units import SegmentedText, segment_text
from outrider.ingest.entry import Entry
from outrider.ingest.installed_packages import read_installed_packages
from outrider.settings.model import DistillerSettings
from outrider.state.distilling import Reading
from outrider.state.embedding import EmbeddingSpace

OWN = Path(__file__).with_name("question_cases.jsonl")
FOLDS, SEEDS = 10, (0, 1, 2)
TYPICAL_UNITS, LEAST_UNITS = 40, 10
"""A text with hundreds of units counts as much as one with forty."""
USED = {
    "words": (
        "bm25", "context", "before", "code_for_how", "no_number", "place", "end", "question", "lead_in", "short", "address", "marks",
        "quantity", "defines",
    ),
    "tokens": (*(name for name in FEATURES if name != "bm25"), *(name for name in TOKEN_FEATURES if name != "cosine")),
}  # fmt: skip
"""Features with a weight: more of them were worse on texts of other folds."""
RIDGE = {"words": 20.0, "tokens": 50.0}
TEXT_RIDGE = 10.0
ANSWERING = 2
WRITTEN_WEIGHT = 0.5
"""Of a question over a text that was written for it."""
HITS, HIT_WEIGHT = 5, 0.15
"""Hits of a request, and their weight: there are more of them than questions, and most do not answer."""
NOTHING, CERTAIN = {"words": 0.50, "tokens": 0.46}, {"words": 0.76, "tokens": 0.78}
"""P(the text answers) that becomes `NOISE`, below which nothing is kept, and `THRESHOLD`, below which an answer is uncertain."""
BUDGETS = (100, 200, 400, 600, 800, 1_200, 2_000, 100_000)


@dataclass(frozen=True, eq=False)
class Case:
    question: str
    text: str
    of_answers: bool
    """Whether it is one of `answers`."""
    its: SegmentedText
    places: list[tuple[int, int]]
    rows: list[tuple[float, ...]]
    """`FEATURES` of each unit."""
    read: ReadUnits | None = None
    grade: int | None = None
    """Of a hit: 2 if the package answers the request, 0 if not."""
    written_for: bool = False
    """Whether the text was written for the questions, of which it then answers nearly all: no example of texts that do not."""

    @property
    def answered(self) -> bool:
        return bool(self.places) if self.grade is None else self.grade == ANSWERING

    @cached_property
    def values(self) -> np.ndarray:
        """All features of the units that are scored, shape (units, features)."""
        if self.read is None:
            return np.array(self.rows)
        return np.array([(*self.rows[at], *more) for at, more in zip(self.read.places, self.read.close, strict=True)])

    @cached_property
    def answers(self) -> np.ndarray:
        """1 for each of these units that answers, shape (units,)."""
        every = _find_answers(self.its, self.places)
        return every if self.read is None else every[self.read.places]


@dataclass(slots=True)
class TokenCache:
    """Token vectors by text, since budgets and folds share most units."""

    embedder: Embedder
    known: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def space(self) -> EmbeddingSpace:
        return self.embedder.space

    def read(self, case: Case, tokens: int) -> Case:
        """The case with the closeness of the units of its shortlist."""
        places, _ = shortlist(case.its, case.rows, tokens)
        (question,) = self.embedder.token_vectors([case.question], "query")
        close = compute_closeness(self, question, case.its, places)  # type: ignore[arg-type] # no other method is called
        return replace(case, read=ReadUnits(places, close))

    def token_vectors(self, texts: Sequence[str]) -> list[np.ndarray]:
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        self.known |= dict(zip(new, self.embedder.token_vectors(new), strict=True))
        return [self.known[text] for text in texts]


def main() -> None:
    """Print figures by cross-validation; fit and write the weights."""
    parser = argparse.ArgumentParser(prog="python -m bench.fit_answering", description="Fit the engine of texts with sections.")
    parser.add_argument("--tokens", action="store_true", help="print the figures for other budgets of tokens, fit nothing")
    arguments = parser.parse_args()
    cases, hits, cache = load_cases(), load_hits(), TokenCache(model())
    print(
        "kind | tokens | units a question, answered, precision, nothing kept: of `answers`; of the other cases;"
        " hits that answer: certain, kept; others: certain, kept"
    )
    if arguments.tokens:
        for tokens in BUDGETS:
            own, read = ([cache.read(case, tokens) for case in some] for some in (cases, hits))
            print(f"tokens | {tokens:,} | {cross_validate('tokens', own, read)}", flush=True)
        return
    print(f"words | 0 | {cross_validate('words', cases, hits)}", flush=True)
    weights = {**json.loads(WEIGHTS_FILE.read_text(encoding="utf-8")), "words": fit("words", cases, hits)}
    WEIGHTS_FILE.write_text(json.dumps(weights, indent=2) + "\n", encoding="utf-8")
    load_weights.cache_clear()
    cases, hits = ([cache.read(case, TEXT_TOKENS) for case in some] for some in (cases, hits))
    print(f"tokens | {TEXT_TOKENS} | {cross_validate('tokens', cases, hits)}", flush=True)
    weights["tokens"] = fit("tokens", cases, hits)
    WEIGHTS_FILE.write_text(json.dumps(weights, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(weights, indent=2))


def load_cases() -> list[Case]:
    """Raises `Absent` without the shared data."""
    score = load_score()
    rows = [json.loads(line) for line in (data_folder() / "answers" / "dev.jsonl").read_text("utf-8").splitlines()]
    own = [row for row in map(json.loads, OWN.read_text("utf-8").splitlines()) if row["split"] == "dev"]
    cases = []
    for row in (*rows, *own):
        text, places = read_case(row, score)
        its = segment_text(Reading("a", text))
        features = compute_features(row["question"], its)
        cases.append(Case(row["question"], text, "split" not in row, its, places, features, written_for=row["id"].startswith("k")))
    return cases


def load_hits() -> list[Case]:
    """The first packages for each request, those of grade 1 and those with a description alone left out."""
    requests = {**read_requests(data_folder() / "software" / "queries.tsv"), **read_requests(OWN_REQUESTS["used"])}
    records = [entry.record for entry in read_installed_packages() if isinstance(entry, Entry)]
    ranked = asyncio.run(search_all(records, list(requests), model_folder()))
    cases = []
    for question, hits in ranked.items():
        for hit in hits[:HITS]:
            grade = requests[question].get(hit.doc_id, 0)
            its = segment_text(Reading(hit.doc_id, hit.original_text, hit.title, rank=hit.rank, kind=hit.kind))
            if grade != 1 and its.units and not its.is_abstract():
                cases.append(Case(question, hit.original_text, False, its, [], compute_features(question, its), grade=grade))
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


def fit(kind: str, cases: Sequence[Case], hits: Sequence[Case], seed: int = 0) -> dict[str, dict[str, float]]:
    """The text's weights are fitted on units whose weights come from other folds, as those of a new text do."""
    names = FEATURES + (TOKEN_FEATURES if kind == "tokens" else ())
    fold = _divide(cases, seed)
    of_fold = [_fit_units(kind, [case for case in cases if fold[case.text] != number]) for number in range(FOLDS)]
    unit = _fit_units(kind, cases)
    text = _fit_text(kind, [*cases, *hits], [*(of_fold[fold[case.text]] for case in cases), *([unit] * len(hits))])
    text_names = TOKEN_TEXT_FEATURES if kind == "tokens" else TEXT_FEATURES
    return {"unit": _name(names, unit), "text": _name(text_names, text)}


def cross_validate(kind: str, cases: Sequence[Case], hits: Sequence[Case]) -> str:
    """The figures of `measure`, means of several divisions: of the cases of `answers`, then of the others. Each text is scored with the
    weights of other folds. Last those of `judge_hits`.
    """
    figures: list[list[float]] = []
    for seed in SEEDS:
        fold, fold_of_hit = _divide(cases, seed), _divide(hits, seed)
        of_fold = [_fit_units(kind, [case for case in cases if fold[case.text] != number]) for number in range(FOLDS)]
        kept, best = [], []
        for number in range(FOLDS):
            others = [case for case in cases if fold[case.text] != number]
            other_hits = [case for case in hits if fold_of_hit[case.text] != number]
            units = [*(of_fold[fold[case.text]] for case in others), *([of_fold[number]] * len(other_hits))]
            weights = Weights(tuple(of_fold[number]), tuple(_fit_text(kind, [*others, *other_hits], units)))
            kept += [(case, keep(case, weights)) for case in cases if fold[case.text] == number]
            ranked = [case for case in hits if fold_of_hit[case.text] == number]
            best += [(case, max(shift_by_rank(case.its.reading.rank, score_case(case, weights)))) for case in ranked]
        own = [value for of in (True, False) for value in measure([pair for pair in kept if pair[0].of_answers is of])]
        figures.append([*own, *judge_hits(best)])
    return " ".join(f"{value:.3f}" for value in np.mean(figures, axis=0))


def judge_hits(best: Sequence[tuple[Case, float]]) -> list[float]:
    """Shares of the packages that answer which are shown as certain, and for which anything is kept; then of those that do not."""
    return [
        sum(score >= bound for case, score in best if case.answered is answered) / sum(case.answered is answered for case, _ in best)
        for answered in (True, False)
        for bound in (THRESHOLD, NOISE)
    ]


def keep(case: Case, weights: Weights) -> list[tuple[int, int]]:
    """The spans that are kept with the limits of the settings."""
    few = DistillerSettings()
    limits = SelectionSettings(max_units=few.max_units, max_units_first=few.max_units_first, max_tokens=few.max_context_tokens)
    return [(unit.start, unit.end) for unit in select_units([case.its], [score_case(case, weights)], limits).units]


def score_case(case: Case, weights: Weights) -> list[float]:
    return score_units(case.question, case.its, case.rows, case.read, weights)


def measure(kept: Sequence[tuple[Case, list[tuple[int, int]]]]) -> tuple[float, float, float, float]:
    """Units a question, share answered, precision by characters, as `score.py` of `answers` counts, and how many of the unanswerable ones
    nothing is kept for.
    """
    answered, good, chars = 0, 0, 0
    some = [pair for pair in kept if pair[0].places]
    for case, spans in some:
        cut = [
            [(max(start, first), min(end, last)) for start, end in spans if min(end, last) > max(start, first)]
            for first, last in case.places
        ]
        pairs = zip(case.places, cut, strict=True)
        answered += any(2 * sum(end - start for start, end in parts) >= last - first for (first, last), parts in pairs)
        good += sum(_count_chars(case.text, parts) for parts in cut)
        chars += _count_chars(case.text, spans)
    nothing = [not spans for case, spans in kept if not case.places]
    return sum(len(spans) for _, spans in kept) / len(kept), answered / len(some), good / max(1, chars), sum(nothing) / max(1, len(nothing))


def _count_chars(text: str, spans: Sequence[tuple[int, int]]) -> int:
    return sum(len("".join(text[start:end].split())) for start, end in spans)


def _divide(cases: Sequence[Case], seed: int) -> dict[str, int]:
    texts = sorted({case.text for case in cases})
    return {text: number % FOLDS for number, text in enumerate(random.Random(seed).sample(texts, len(texts)))}


def _fit_text(kind: str, cases: Sequence[Case], units: Sequence[np.ndarray]) -> np.ndarray:
    """`units` are for each case the weights of its units."""
    rows = []
    pairs = [(case, unit) for case, unit in zip(cases, units, strict=True) if not case.written_for]
    for case, unit in pairs:
        logits = list(case.values @ unit[:-1] + unit[-1])
        rows.append(compute_text_features(case.question, case.its, logits, case.read.close if case.read else []))
    answered = np.array([float(case.answered) for case, _ in pairs])
    counts = np.array([1.0 if case.grade is None else HIT_WEIGHT for case, _ in pairs])
    text = fit_logistic(np.array(rows), answered, counts, TEXT_RIDGE, list(range(len(rows[0]))))
    slope = (logit(THRESHOLD) - logit(NOISE)) / (logit(CERTAIN[kind]) - logit(NOTHING[kind]))
    text = text * slope
    text[-1] += logit(NOISE) - slope * logit(NOTHING[kind])
    return text


def _name(names: Sequence[str], weights: np.ndarray) -> dict[str, float]:
    return {name: round(float(weight), 4) for name, weight in zip((*names, "intercept"), weights, strict=True)}


def _fit_units(kind: str, cases: Sequence[Case]) -> np.ndarray:
    names = FEATURES + (TOKEN_FEATURES if kind == "tokens" else ())
    answers = [case.answers for case in cases]
    weights = [WRITTEN_WEIGHT if case.written_for else 1.0 for case in cases]
    counts = np.concatenate(
        [np.full(len(own), weight * TYPICAL_UNITS / max(LEAST_UNITS, len(own))) for own, weight in zip(answers, weights, strict=True)]
    )
    used = [names.index(name) for name in USED[kind]]
    return fit_logistic(np.vstack([case.values for case in cases]), np.concatenate(answers), counts, RIDGE[kind], used)


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
