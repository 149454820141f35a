"""Model calls in waves, and scores for the works that the model did not score.

A failed call costs only its own works.

Repositories and all other works are two queues, each read in rule order until its own first works are settled. In one queue, works that
several services returned, papers above all, would come before all repositories, and be settled before a repository is read. Waves of both
queues run together, so that the choice of what to read next does not depend on which model call is faster.

A work without a score is not irrelevant, so it keeps its place by the rules: it gets the score that the model would probably give there.
That is the antitonic fit of the scores to the rule order (pool adjacent violators; Ayer et al. 1955, "An empirical distribution function
for sampling with incomplete information"): the falling step function with the least squared distance, on which a single outlier has
little effect. Between two scored places the value falls evenly from one fit to the other, and after the last one towards 0.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol

from outrider.nodes.fine_scorer import adaptive_stopping as adaptive
from outrider.nodes.fine_scorer.judgement import CallResult, Judgement, Question
from outrider.nodes.fine_scorer.papers import PaperScorer, make_batches
from outrider.nodes.fine_scorer.repositories import RepositoryScorer
from outrider.state.chat import Budget
from outrider.state.errors import BadAnswer, BudgetSpent, KeyRejected
from outrider.state.records import Record, Repository

STEP = 1e-6
"""Difference between neighbouring unscored works, so that a later tie-break cannot change their order."""
MAX_FAILED_CALLS = 2
"""After so many calls in a row without a score the rest is not read: the model is down, or cannot do it.

Calls of one queue end that queue, calls of both together end both, so that each queue need not find out by itself.
"""
FIRST_REPOSITORIES = 17
"""Repositories in the first wave, one a call: with the three calls of the other works two rounds of ten (`llm.concurrency`), which
thirteen calls would take as well.
"""


def place_unscored(judged: Sequence[float | None], unread_from: int | None = None) -> list[float]:
    """Scores in [0, 1] for all works in rule order. `judged` are the model's scores, None for a work without one; one at least is given.

    Given scores do not change. The others fall strictly in rule order, and none reaches an earlier work whose score is as high as that
    of anything after it. Unread works, from the place `unread_from` on, score no higher than any work that was read.
    """
    likely = _interpolate(judged)
    scores: list[float] = []
    unscored = sum(score is None for score in judged[:unread_from])
    last = math.inf
    for score, guess in zip(judged[:unread_from], likely, strict=False):
        if score is None:
            last = max(min(guess, last - STEP), unscored * STEP)
            unscored -= 1
        scores.append(last if score is None else score)
    lowest = min(scores)
    return [*scores, *(min(guess, lowest) for guess in likely[len(scores) : len(judged)])]


def fit_antitonic(scores: Sequence[float]) -> list[float]:
    """The falling sequence with the least squared distance."""
    blocks: list[tuple[float, int]] = []
    for score in scores:
        total, count = score, 1
        while blocks and blocks[-1][0] / blocks[-1][1] < total / count:
            before, many = blocks.pop()
            total, count = total + before, count + many
        blocks.append((total, count))
    return [total / count for total, count in blocks for _ in range(count)]


def _interpolate(judged: Sequence[float | None]) -> list[float]:
    """The likely score of each place; before the first scored place, just above its fit."""
    fit = iter(fit_antitonic([score for score in judged if score is not None]))
    likely: list[float] = []
    before: float | None = None
    length = 0
    for score in (*judged, 0.0):  # the end counts as a scored place of 0
        if score is None:
            length += 1
            continue
        after = next(fit, 0.0)
        for at in range(1, length + 1):
            high = before - STEP if before is not None else min(1.0, after + length * STEP)
            likely.append(high - (high - min(high, after)) * at / (length + 1))
        likely.append(after)
        before, length = after, 0
    return likely


class Stopping(Protocol):
    """Decides how far the works of one queue are read. `rules` are the rule scores of all of them, best first; `judged` the model's scores
    of the works read so far, None for a work that it did not score.
    """

    @property
    def max_risk(self) -> float: ...

    def wave(self, rules: Sequence[float], judged: Sequence[float | None], top_k: int, first: int) -> int:
        """How many works to read next, `first` or `top_k` if none was read; 0 to stop."""
        ...

    def risk(self, rules: Sequence[float], judged: Sequence[float | None], top_k: int) -> float:
        """The chance that the first `top_k` would change if the rest were read."""
        ...


@dataclass(frozen=True, slots=True)
class StopWhenSettled:
    """Stops if the risk that the first works still change is at most `max_risk`; see `adaptive_stopping`."""

    max_risk: float

    def wave(self, rules: Sequence[float], judged: Sequence[float | None], top_k: int, first: int) -> int:
        return adaptive.choose_next_wave(rules, judged, top_k, self.max_risk, first=first)

    def risk(self, rules: Sequence[float], judged: Sequence[float | None], top_k: int) -> float:
        return adaptive.estimate_risk(rules, judged, top_k)


@dataclass(frozen=True, slots=True)
class Loss:
    """Why a work has no judgement."""

    error: str
    message: str


@dataclass(slots=True)
class ReadingQueue:
    """Works that are read one after another, by their places in the rule order of all works."""

    places: Sequence[int]
    first: int
    """Size of the first wave."""
    read: int = 0
    """Number of works sent to the model so far, from the front."""
    wave: Sequence[int] = ()
    """The places of the last wave."""
    failed_calls: int = 0
    """Calls without any score since the last score."""
    closed: bool = False
    """No more of it is read."""

    def take(self, count: int) -> Sequence[int]:
        """Take the next wave; an empty one closes the queue."""
        self.wave = self.places[self.read : self.read + count]
        self.read += len(self.wave)
        self.closed = not self.wave
        return self.wave


@dataclass(slots=True)
class ReadingState:
    """Judgements and losses so far, by place in rule order."""

    queues: Sequence[ReadingQueue] = ()
    judged: dict[int, Judgement] = field(default_factory=dict)
    lost: dict[int, Loss] = field(default_factory=dict)
    failed_calls: int = 0
    """Calls without any score since the last score in any queue."""

    @classmethod
    def from_works(cls, works: Sequence[Record]) -> ReadingState:
        """The state before reading, for works in rule order."""
        repositories = [place for place, work in enumerate(works) if isinstance(work, Repository)]
        others = [place for place, work in enumerate(works) if not isinstance(work, Repository)]
        return cls([ReadingQueue(others, adaptive.WAVE), ReadingQueue(repositories, FIRST_REPOSITORIES)])

    def next_wave(self, rules: Sequence[float], stopping: Stopping | None, top_k: int) -> list[int]:
        """The places that both queues read next, in rule order; without `stopping` all. `rules` are the rule scores of all works."""
        for queue in self._open():
            count = len(queue.places) - queue.read
            if stopping and count:
                scores = self.scores(queue.places[: queue.read])
                count = stopping.wave([rules[place] for place in queue.places], scores, top_k, queue.first)
            queue.take(count)
        return sorted(place for queue in self._open() for place in queue.wave)

    def record_call(self, places: Sequence[int], result: CallResult, name: str) -> None:
        """Record one call's works. `name` is the model's, for works that its answer left out."""
        error = result.error or BadAnswer(f"{name} gave no usable score for them, even when asked again")
        loss = Loss(type(error).__name__, str(error))
        for place, judgement in zip(places, result.works, strict=True):
            if judgement is None:
                self.lost[place] = loss
            else:
                self.judged[place] = judgement

    def end_wave(self, calls: Sequence[Sequence[int]]) -> None:
        """Close the queues whose calls keep failing, after a wave with the places of each call."""
        for queue in self._open():
            of_queue = sum(places[0] in queue.wave for places in calls)
            queue.failed_calls = 0 if any(place in self.judged for place in queue.wave) else queue.failed_calls + of_queue
        self.failed_calls = 0 if any(not queue.failed_calls for queue in self._open()) else self.failed_calls + len(calls)
        spent = next((loss for _, loss in sorted(self.lost.items()) if loss.error == BudgetSpent.__name__), None)
        for queue in self._open():
            if spent or max(queue.failed_calls, self.failed_calls) >= MAX_FAILED_CALLS:
                self._close(queue, spent or self.lost[queue.wave[-1]])

    def lose(self, loss: Loss) -> None:
        """Give up all works without a judgement, except those left unread on purpose."""
        for queue in self._open():
            self._close(queue, loss)

    def _close(self, queue: ReadingQueue, loss: Loss) -> None:
        self.lost |= {place: loss for place in queue.places if place not in self.judged and place not in self.lost}
        queue.closed = True

    def scores(self, places: Iterable[int]) -> list[float | None]:
        return [self.judged[place].score if place in self.judged else None for place in places]

    def partly_read(self) -> list[ReadingQueue]:
        """Queues with works that were left unread on purpose."""
        return [queue for queue in self.queues if any(place not in self.lost for place in queue.places[queue.read :])]

    def unread(self) -> Set[int]:
        """The places of works that were left unread on purpose."""
        return {place for queue in self.partly_read() for place in queue.places[queue.read :]}

    def losses(self) -> Iterator[tuple[int, Loss]]:
        """Each kind of error once: the number of works that it cost, and its first message; the most frequent first."""
        counts = Counter(loss.error for loss in self.lost.values())
        first: Mapping[str, Loss] = {loss.error: loss for _, loss in sorted(self.lost.items(), reverse=True)}
        for error in sorted(counts, key=lambda error: (-counts[error], error)):
            yield counts[error], first[error]

    def _open(self) -> list[ReadingQueue]:
        return [queue for queue in self.queues if not queue.closed]


@dataclass(frozen=True, slots=True)
class Judges:
    """The scorers by kind of work."""

    papers: PaperScorer
    repositories: RepositoryScorer

    async def read(
        self,
        works: Sequence[Record],
        rules: Sequence[float],
        question: Question,
        budget: Budget,
        stopping: Stopping | None,
        top_k: int,
        state: ReadingState,
    ) -> None:
        """Read each queue in rule order until `stopping` ends it; without `stopping` all at once. Raises `KeyRejected`."""

        async def call(places: Sequence[int]) -> None:
            records = [works[at] for at in places]
            if isinstance(first := records[0], Repository):
                result = await self.repositories.judge(first, question, budget)
            else:
                result = await self.papers.judge(records, question, budget)
            state.record_call(places, result, self.papers.chat.name)

        while wave := state.next_wave(rules, stopping, top_k):
            batches: list[list[int]] = []
            try:
                async with asyncio.TaskGroup() as group:
                    for places in make_batches(works, wave):
                        batches.append(places)
                        group.create_task(call(places))
                        await asyncio.sleep(0)  # the call is sent before the next batch is made, which takes a few milliseconds
            except ExceptionGroup as raised:  # the first one ended the other calls
                raise next((error for error in raised.exceptions if isinstance(error, KeyRejected)), raised.exceptions[0]) from None
            state.end_wave(batches)
