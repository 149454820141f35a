"""Screening: work saved at 95 % recall beside ASReview's default model (ELAS u4), in one run

**WSS@95**: the share of the records that need not be read once 95 % of the included ones were found, less the 5 % that a random
order saves. Labels are `label_included` (`included` of SYNERGY). One inclusion and one exclusion, drawn by the seed and the same for both
systems, are known at the start and count neither as records nor as inclusions. One record is read a step. Texts are title and abstract.

ASReview is in the extra group `bench` of pyproject.toml. Where it has an environment of its own, name it:
`PYTHONPATH=src:VENV/lib/python3.11/site-packages python -m bench screening`, with the versions of NumPy and scikit-learn that are in both.
"""

from __future__ import annotations

import math
import random
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.data import REVIEWS, SYNERGY, Absent, read_review
from bench.report import Cell, Report, progress
from outrider.reviews.asreview import write_project
from outrider.reviews.ranker import Ranker
from outrider.reviews.review import NewBatch, NewDecision, Review
from outrider.state.records import Paper

SEEDS = 10
RECALL = 0.95
LARGE, LABELLED, STEPS = 5_000, 1_000, 20
"""Records and labels of the review in which a step is timed, and the number of steps."""


@dataclass(frozen=True, slots=True)
class LabelledReview:
    titles: Sequence[str]
    abstracts: Sequence[str]
    included: Sequence[bool]


Choose = Callable[[Sequence[int], Sequence[int]], int]
"""From the places that are labelled, in their order, and those that are not: the place to read next."""


def run() -> Report:
    reviews = {name: load_review(name) for name in (*REVIEWS, *SYNERGY)}
    rows: list[tuple[Cell, ...]] = []
    differences: dict[str, list[float]] = {}
    saved: dict[str, tuple[list[float], list[float]]] = {}
    for name, review in reviews.items():
        make = {"u4": make_u4(review), "ours": make_ours(review)}
        took: dict[str, float] = {}
        results: dict[str, list[float]] = {}
        for system, choose in make.items():
            began = time.process_time()
            pairs = [simulate(review, seed, choose(seed)) for seed in range(SEEDS)]
            took[system] = (time.process_time() - began) / sum(steps for _, steps in pairs) * 1_000
            results[system] = [value for value, _ in pairs]
        saved[name] = results["u4"], results["ours"]
        differences[name] = [ours - theirs for theirs, ours in zip(results["u4"], results["ours"], strict=True)]
        error = statistics.stdev(differences[name]) / SEEDS**0.5
        difference = statistics.mean(differences[name])
        rows.append((
            name, len(review.included), sum(review.included), statistics.mean(results["u4"]), statistics.mean(results["ours"]), difference,
            error, "no" if difference < -2 * error else "yes", took["u4"], took["ours"],
        ))  # fmt: skip
        progress(f"{name}: {rows[-1]}")
    for title, names in (("mean of the five reviews", REVIEWS), ("mean of the five of SYNERGY", SYNERGY)):
        by_seed = [statistics.mean(differences[name][seed] for name in names) for seed in range(SEEDS)]
        error = statistics.stdev(by_seed) / SEEDS**0.5
        theirs, ours = (statistics.mean(statistics.mean(saved[name][system]) for name in names) for system in (0, 1))
        difference = statistics.mean(by_seed)
        rows.append((title, "", "", theirs, ours, difference, error, "no" if difference < -2 * error else "yes", "", ""))
    columns = (
        "review", "records", "included", "u4: WSS@95", "ours: WSS@95", "difference", "paired standard error", "not worse by two",
        "u4: CPU ms a step", "ours: CPU ms a step",
    )  # fmt: skip
    notes = (f"Seeds 0 to {SEEDS - 1}; a bound of 95 % is {find_t():.2f} standard errors from the difference.", check_project())
    return Report("screening", columns, tuple(rows), notes, (time_steps(reviews),))


def find_t() -> float:
    """The two-sided 95 % quantile of Student's distribution for the seeds."""
    from scipy.stats import t

    return float(t.ppf(0.975, SEEDS - 1))


def load_review(name: str) -> LabelledReview:
    rows = read_review(name)
    included = [bool(int(float(row["label_included"] or 0) if name in REVIEWS else row["included"])) for row in rows]
    return LabelledReview([row["title"] or "" for row in rows], [row["abstract"] or "" for row in rows], included)


def draw_priors(review: LabelledReview, seed: int) -> list[int]:
    """The place of an inclusion and of an exclusion."""
    chance = random.Random(seed)
    classes = [[place for place, included in enumerate(review.included) if included is wanted] for wanted in (True, False)]
    return [chance.choice(one) for one in classes]


def simulate(review: LabelledReview, seed: int, choose: Choose) -> tuple[float, int]:
    """WSS@95 and the number of steps to it."""
    labelled = draw_priors(review, seed)
    rest = [place for place in range(len(review.included)) if place not in labelled]
    records, needed, found = len(rest), math.ceil(RECALL * (sum(review.included) - 1)), 0
    steps = 0
    while found < needed:
        place = choose(labelled, rest)
        labelled.append(place)
        rest.remove(place)
        found += review.included[place]
        steps += 1
    return (records - steps) / records - (1 - RECALL), steps


def make_ours(review: LabelledReview) -> Callable[[int], Choose]:
    texts = [f"{title} {abstract}" for title, abstract in zip(review.titles, review.abstracts, strict=True)]
    features = Ranker(texts)
    features.fit_features()

    def begin(seed: int) -> Choose:
        ranker = features.reseed(seed)

        def choose(labelled: Sequence[int], rest: Sequence[int]) -> int:
            labels = {place + 1: review.included[place] for place in labelled}
            return ranker.rank(labels, [place + 1 for place in rest]).numbers[0] - 1

        return choose

    return begin


def make_u4(review: LabelledReview) -> Callable[[int], Choose]:
    """ASReview's own cycle of feature extraction, balancing, classifier and querier, without the frame of its simulation."""
    try:
        import numpy as np
        import pandas as pd
        from asreview.learner import ActiveLearningCycle
        from asreview.models.models import get_ai_config
    except ImportError as error:
        raise Absent(f"the peer is not installed ({error}): pip install --group bench") from error
    warnings.filterwarnings("ignore", module="sklearn")
    included = np.asarray(review.included, np.int64)
    frame = pd.DataFrame({"title": review.titles, "abstract": review.abstracts})
    cycle = ActiveLearningCycle.from_meta(get_ai_config("elas_u4")["value"])
    features = cycle.transform(frame)

    def begin(seed: int) -> Choose:
        cycle.classifier.set_params(random_state=seed)

        def choose(labelled: Sequence[int], rest: Sequence[int]) -> int:
            cycle.fit(features[labelled], included[list(labelled)])
            return rest[int(cycle.rank(features[list(rest)])[0])]

        return choose

    return begin


def time_steps(reviews: dict[str, LabelledReview]) -> Report:
    """A step in a review of 5,000 records, which are those of all reviews together."""
    every = [list(zip(one.titles, one.abstracts, one.included, strict=True)) for one in reviews.values()]
    mixed = [row for rows in every for row in rows]
    random.Random(0).shuffle(mixed)
    review = LabelledReview(*map(list, zip(*mixed[:LARGE], strict=True)))
    rows: list[tuple[Cell, ...]] = []
    for system, make in (("u4", make_u4), ("ours", make_ours)):
        began = time.process_time()
        choose = make(review)(0)
        prepared = time.process_time() - began
        labelled = [*range(LABELLED)]
        rest = [*range(LABELLED, len(review.included))]
        took = []
        for _ in range(STEPS):
            began = time.process_time()
            place = choose(labelled, rest)
            took.append((time.process_time() - began) * 1_000)
            labelled.append(place)
            rest.remove(place)
        rows.append((system, prepared, statistics.median(took), max(took)))
    return Report(
        f"A step in a review of {len(review.included):,} records with {LABELLED:,} labels",
        ("system", "features: CPU s", "CPU ms a step (median)", "most"), tuple(rows),
    )  # fmt: skip


def check_project() -> str:
    """Whether ASReview opens a project that we write, with its records and labels."""
    from asreview.project.api import Project

    at = "2026-11-26T12:00:00+00:00"
    with tempfile.TemporaryDirectory() as folder:
        review = Review.create(Path(folder) / "otters", {"name": "otters", "created": at, "reviewers": 1})
        papers = [Paper(doc_id=f"p{number}", title=f"Study {number}", abstract="Otters eat fish.") for number in range(6)]
        review.import_batch(NewBatch("a file", papers, {5: 1}), [], "ann", at, 0)
        review.decide([NewDecision(1, "include", "ann"), NewDecision(2, "exclude", "ann", "wrong animal")], at)
        path = Path(folder) / "x.asreview"
        path.write_bytes(write_project("otters", [review.view(number, "") for number in range(1, 7)], at))
        with Project.load(path, Path(folder) / "opened") as project, project.db as database:
            titles = [record.title for record in sorted(project.db.input.get_records(), key=lambda record: record.record_id)]
            results = database.get_results_table(groups=True)
            labels = dict(zip(results["record_id"], results["label"], strict=True))
            groups = len(project.db.input.get_groups())
    is_whole = titles == [paper.title for paper in papers] and labels == {0: 1, 1: 0, 5: 1} and groups == 6
    return f"ASReview {'opens' if is_whole else 'does NOT open'} a project that Outrider writes, with its records, labels and groups."
