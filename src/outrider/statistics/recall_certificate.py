"""Certificate of recall: proof by random draws that screening missed few

Two rules, both exact for finite populations, valid at each of any number of looks, and for any order of reading: a model's, a random one,
one that hides relevant records.

**Sealed sample.** All records have a random order of drawing, fixed by a seed. Some are drawn and labelled, others are read as a model
ranks them, in any mixture; the label of a drawn record stays sealed to the model until the ranking reaches that record. The order of
ranking then does not depend on the drawing. Let a review with `R` relevant records miss its target as soon as `c` of them are missed. The
proof is there when no drawn relevant record lies ahead of the ranking, and so many are drawn that a sample of this size misses `c` given
records with a probability of at most 1 - confidence. Failure would need the last `c` relevant records of the ranking to be all undrawn:
one event, whatever decides when to draw, to read and to stop, so repeated looks need no correction. The idea of a target set is that of
Cormack and Grossman (2016, SIGIR, "Engineering quality and reliability in technology-assisted review"; and Lewis, Yang and Frieder 2021,
CIKM, "Certifying one-phase technology-assisted reviews").

**Open sample.** Where the model learns from drawn labels at once, a test martingale for sampling without replacement (Waudby-Smith and
Ramdas 2020, NeurIPS, "Confidence sequences for sampling without replacement") tests each total `R`: each draw multiplies its evidence by
the likelihood ratio of two hypotheses about the unscreened rest, of `U` records: that it holds `K = R - found` relevant ones, and that it
holds `K - c`, just few enough (at most `K / 2`). Records that are read by rank between draws only change `K` and `U`. A total is rejected
when its evidence reaches 1 / (1 - confidence) (Ville's inequality). It proves less with the same number of records, and it gives the
lower bound of recall.

Both assume that labels are right, that each draw gets its label, and that the seed was chosen without regard to the ranking.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
from pydantic import Field

from outrider.state.model import Model
from outrider.statistics.ranked_stop import count_least_total, log_factorials

ProofState = Literal["proven", "in progress", "not provable yet", "no sample"]
ROUNDING = 1e-9
"""Of sums of logarithms: 19 of 20 records are drawn where exactly 95 % are needed, not 20."""
Method = Literal["sealed sample", "open sample", "all records screened"]


class SealedSample(Model):
    """The records drawn under the rule of the sealed sample."""

    drawn: int = Field(ge=0, description="Records at the beginning of the order of drawing that are labelled, by a draw or by rank.")
    ahead: int = Field(0, ge=0, description="Relevant ones among them that the ranking has not reached.")


class DrawnSample(Model):
    """Which labels come from random draws."""

    positions: tuple[int, ...] = Field((), description="Places of the drawn records in the order of screening, from 0.")
    sealed: SealedSample | None = Field(None, description="None where a model may have learnt a drawn label before it reached the record.")


class Proof(Model):
    """What the sample proves about the target, and how many more records it takes."""

    state: ProofState
    method: Method
    drawn: int = Field(ge=0)
    more_if_none_relevant: int = Field(
        ge=0, description="Records to draw and label, on average, if no relevant one is among them; 0 where reading by rank is next."
    )
    more_at_most: int = Field(ge=0, description="All records that are not screened; with them any target is proven.")
    sentence: str


class RecallBound(Model):
    """A lower bound of the recall of screening: never a number alone."""

    lower: float = Field(ge=0, le=1)
    confidence: float = Field(gt=0, lt=1)
    method: Method
    sentence: str


def order_draws(ids: Collection[str], seed: str) -> tuple[str, ...]:
    """The records in a random order of drawing, the same in each process. Records that are added later fall between the others."""
    return tuple(sorted(set(ids), key=lambda one: (hashlib.sha256(f"{seed}\0{one}".encode()).digest(), one)))


def make_sample(labels: Mapping[str, bool], drawn: Collection[str], reached: Collection[str], draws: Sequence[str]) -> DrawnSample:
    """A sealed sample from the labels in the order of screening.

    `drawn` are the records that were screened because they were drawn, `reached` those that the ranking has reached (drawn ones among
    them), `draws` all records in the order of drawing. Draws after one that has no label yet do not count.
    """
    known, passed = frozenset(drawn), frozenset(reached)
    count = next((at for at, one in enumerate(draws) if one not in labels), len(draws))
    counted = frozenset(draws[:count])
    positions = tuple(at for at, one in enumerate(labels) if one in known and one in counted)
    return DrawnSample(
        positions=positions, sealed=SealedSample(drawn=count, ahead=sum(labels[one] for one in counted if one not in passed))
    )


def count_tolerated(included: int, target_recall: float) -> int:
    """Relevant records that may be missed beside so many included ones while recall is at the target or above."""
    return count_least_total(included, target_recall) - included - 1


@lru_cache(maxsize=1024)
def size_sealed_sample(total: int, missed: int, confidence: float) -> int:
    """The least number of draws that miss all of so many given records with a probability of at most 1 - confidence."""
    logs = log_factorials(total)
    drawn = np.arange(total - missed + 1)
    chance = logs[total - drawn] - logs[total - drawn - missed] - logs[total] + logs[total - missed]
    enough = chance <= math.log1p(-confidence) + ROUNDING
    return int(np.argmax(enough)) if enough.any() else total - missed + 1


def is_proven(sample: SealedSample, included: int, total: int, target_recall: float, confidence: float) -> bool:
    """Whether a sealed sample proves the target."""
    missed = count_tolerated(included, target_recall) + 1
    return missed > total - included or (not sample.ahead and sample.drawn >= size_sealed_sample(total, missed, confidence))


class OpenSample:
    """The evidence of draws whose labels may steer the ranking; the rule of the open sample."""

    def __init__(self, labels_in_order: Sequence[bool], positions: Sequence[int], total: int, target_recall: float) -> None:
        labels = np.asarray(labels_in_order, dtype=bool)
        places = np.asarray(positions, dtype=np.int64)
        found = np.concatenate([[0], np.cumsum(labels)])
        self.found = int(found[-1])
        self.left = total - len(labels)
        self.target_recall = target_recall
        self._relevant = labels[places]
        self._found = found[places]
        self._rest = total - places
        tolerated = np.array([count_tolerated(number, target_recall) for number in range(self.found + 1)])
        self._enough = tolerated[self._found] + 1

    def measure(self, total_relevant: int) -> tuple[float, float]:
        """Logarithms of the present and of the largest evidence against this total."""
        hidden = total_relevant - self._found
        if total_relevant > self.found + self.left or np.any((hidden > self._rest) | ((hidden == self._rest) & ~self._relevant)):
            return math.inf, math.inf  # the labels exclude it
        # the bet against totals far above the target is bolder, for the sake of the lower bound; the evidence still grows with the total
        less = np.minimum(np.maximum(0, hidden - self._enough), hidden / 2)
        with np.errstate(divide="ignore", invalid="ignore"):  # both branches are computed; the one that is taken is defined
            steps = np.where(self._relevant, np.log(less) - np.log(hidden), np.log(self._rest - less) - np.log(self._rest - hidden))
        evidence = np.concatenate([[0.0], np.cumsum(steps)])
        return float(evidence[-1]), float(evidence.max())

    def bound_total(self, confidence: float) -> int:
        """The largest number of relevant records that is not rejected. The evidence grows with the number."""
        needed, low, high = -math.log1p(-confidence), self.found, self.found + self.left + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.measure(middle)[1] >= needed else (middle, high)
        return low

    def count_draws(self, confidence: float) -> int:
        """Draws that prove the target if none of them is relevant."""
        least = count_least_total(self.found, self.target_recall)
        present, largest = self.measure(least)
        needed = -math.log1p(-confidence)
        if largest >= needed:
            return 0
        hidden = least - self.found
        rest = self.left - np.arange(self.left - hidden)
        enough = present + np.cumsum(np.log(rest) - np.log(rest - hidden)) >= needed
        return int(np.argmax(enough)) + 1 if enough.any() else self.left - hidden + 1
