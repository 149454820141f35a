"""`python -m bench.identity.fitting`: fits the weights of evidence on the labelled sets.

It writes `linkage/evidence_weights.py`: a logistic model over the levels of `linkage/evidence.py`, fitted on the labelled sets by Newton's
method with a ridge. Each pair of candidates is an example, and every set has equal weight. The pairs of a work with n records are no n²
independent examples: they together count as the square root of their number, so about n, and so do the pairs between two works. Each pair
also occurs with fields removed, as in responses of services that lack them, so that no weight relies on fields that may be missing.
Tafenoquine is left out: it only marks records with a duplicate, and so serves as a test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING

from bench.identity.sets import LabelledSet, labelled
from outrider.linkage.blocking import block_pairs
from outrider.linkage.evidence import FieldLevel, compare_keys
from outrider.linkage.judge_pair import MANUAL_WEIGHTS
from outrider.linkage.normalized_record import Keys, make_keys

FITTED_ON = ("asysd", "dblp_acm", "cora")
WEIGHTS = Path(__file__).parents[2] / "src" / "outrider" / "linkage" / "evidence_weights.py"
RIDGE = 0.5
"""Ridge: strength of the shrinkage to 0, in examples."""
STEPS = 30
SETS_WEIGHT = 4_000
"""Examples that each set counts as."""
TAKEN_AWAY = (("abstract",), ("doi", "pages", "volume", "issue"), ("authors",), ("year", "venue"), ("doi", "abstract"))
TAKEN_WEIGHT = 0.2
PRIOR = -4.0
"""Log-odds of a pair without evidence. Set by hand, not fitted: pairs that were never candidates are not counted anywhere."""
PRECISE = 1e-4
AGREES = frozenset({"equal", "first equal", "nearly equal", "same words", "all", "both", "the only one"})
DIFFERS = frozenset({"differ", "one has more", "other", "none", "some", "1 apart", "2 apart", "far apart"})
LIMIT = 8.0
"""Maximum absolute weight of a level, since few examples can suggest more."""

if TYPE_CHECKING:
    import numpy as np

Weights = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Example:
    levels: tuple[FieldLevel, ...]
    same: bool
    weight: float
    works: tuple[int, int]
    whole: bool = True
    """Whether no field was removed."""


def examples(source: LabelledSet) -> list[Example]:
    """The candidate pairs among its distinct records, weighted so that the set has `SETS_WEIGHT`."""
    assert source.works is not None
    places: dict[Keys, int] = {}
    for at, record in enumerate(source.records):
        places.setdefault(make_keys(record), at)
    keys = sorted(places)
    works = [source.works[places[key]] for key in keys]
    pairs = [(one, other) for one, other in block_pairs(keys).tolist() if source.judged(places[keys[one]], places[keys[other]])]
    between = [(min(works[one], works[other]), max(works[one], works[other])) for one, other in pairs]
    sizes = Counter(between)
    weight = SETS_WEIGHT / max(1.0, sum(map(sqrt, sizes.values())))
    pairs_compared = (
        Example(compare_keys(keys[one], keys[other], all_fields=True), len({*both}) == 1, weight / sqrt(sizes[both]), both)
        for (one, other), both in zip(pairs, between, strict=True)
    )
    return [variant for example in pairs_compared for variant in _variants(example)]


def _variants(example: Example) -> Iterator[Example]:
    yield example
    for removed in TAKEN_AWAY:
        levels = tuple(one for one in example.levels if one[0] not in removed)
        if len(levels) < len(example.levels):
            yield Example(levels, example.same, example.weight * TAKEN_WEIGHT, example.works, whole=False)


def without(every: Sequence[Example], works: Collection[int]) -> list[Example]:
    """The examples without a record of these works."""
    return [example for example in every if not (example.works[0] in works or example.works[1] in works)]


def fitted(every: Sequence[Example]) -> Weights:
    """Field -> level -> log-odds; under "" the prior, the log-odds of a pair of which nothing is known.

    What is set by hand (`MANUAL_WEIGHTS`) counts as it is. Agreement must not count against, nor difference for: a level that would is
    held at 0, and the others are fitted again.
    """
    at_zero = set[FieldLevel]()
    while True:
        table = _fitted(every, at_zero)
        wrong = {(field, level) for field, levels in table.items() for level, weight in levels.items() if weight * _sign(field, level) < 0}
        if not wrong:
            return table
        at_zero |= wrong


def _sign(field: str, level: str) -> int:
    """1 for a level that may only count for one work, -1 for one that may only count against, 0 if the examples decide."""
    bare = level.partition(",")[0]
    return 0 if not field else 1 if bare in AGREES else -1 if bare in DIFFERS else 0


def _fitted(every: Sequence[Example], at_zero: Collection[FieldLevel]) -> dict[str, dict[str, float]]:
    import numpy as np

    by_hand = {(field, level): weight for field, levels in MANUAL_WEIGHTS.items() for level, weight in levels.items()}
    levels = sorted({level for example in every for level in example.levels} - set(at_zero) - set(by_hand))
    place = {level: at for at, level in enumerate(levels)}
    merged: dict[tuple[tuple[FieldLevel, ...], bool], float] = {}
    for example in every:
        merged[example.levels, example.same] = merged.get((example.levels, example.same), 0.0) + example.weight
    features = np.zeros((len(merged), len(levels)))
    for row, (own_levels, _) in enumerate(merged):
        features[row, [place[one] for one in own_levels if one in place]] = 1
    start = np.array([PRIOR + sum(by_hand.get(one, 0.0) for one in own_levels) for own_levels, _ in merged])
    same = np.array([same for _, same in merged], float)
    weights = _newton(features, start, same, np.array(list(merged.values())))
    table: dict[str, dict[str, float]] = {"": {"": PRIOR}}
    for field, level in sorted({*levels, *at_zero}):
        at = place.get((field, level))
        table.setdefault(field, {})[level] = 0.0 if at is None else round(float(np.clip(weights[at], -LIMIT, LIMIT)), 2)
    return table


def _newton(features: np.ndarray, start: np.ndarray, same: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Weights of shape (columns,) that minimise the log loss of `counts` examples with a ridge, on top of `start`, of shape (rows,)."""
    import numpy as np

    def loss(weights: np.ndarray) -> float:
        margins = (2 * same - 1) * (start + features @ weights)
        return float(counts @ np.logaddexp(0, -margins) + RIDGE / 2 * weights @ weights)

    weights = np.zeros(features.shape[1])
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-np.clip(start + features @ weights, -30, 30)))
        slope = features.T @ (counts * (chance - same)) + RIDGE * weights
        curve = (features * (counts * chance * (1 - chance))[:, None]).T @ features + RIDGE * np.eye(len(weights))
        step, before = np.linalg.solve(curve, slope), loss(weights)
        while loss(weights - step) > before and abs(step).max() > PRECISE:
            step /= 2
        weights -= step
        if abs(step).max() < PRECISE:
            break
    return weights


TEMPLATE = '''"""Weights of the levels of evidence, in log-odds.

Written by `python -m bench.identity.fitting`; do not edit.
Fitted on {sets}: {pairs:,} pairs of candidates, of which {same:,} are one work.
The entry "" is the base weight of a pair.
"""

from __future__ import annotations

from collections.abc import Mapping

WEIGHTS: Mapping[str, Mapping[str, float]] = {{
{rows}
}}
'''


def written(table: Weights, pairs: int, same: int, sets: Sequence[str]) -> str:
    """The module that holds the table."""
    rows: list[str] = []
    for field, levels in table.items():
        rows += [f'    "{field}": {{', *(f'        "{level}": {weight},' for level, weight in levels.items()), "    },"]
    return TEMPLATE.format(sets=", ".join(sets), pairs=pairs, same=same, rows="\n".join(rows))


def main() -> None:
    sets = [labelled(name) for name in FITTED_ON]
    by_set = [examples(one) for one in sets]
    whole = [example for one in by_set for example in one if example.whole]
    table = fitted([example for one in by_set for example in one])
    WEIGHTS.write_text(written(table, len(whole), sum(example.same for example in whole), [one.name for one in sets]), encoding="utf-8")
    print(f"{len(whole):,} pairs -> {WEIGHTS}")


if __name__ == "__main__":
    main()
