"""Works before the model, in waves: the calls of a wave go out together, and each costs only its own works when it fails.

Repositories and all other works are two lines, each read in rule order until its own first works are settled. In one line those that
several services found, papers above all, would stand before all repositories, and be settled before one of them is read. Waves of both
go out together, so that who is asked next does not hang on who answers first.
"""

from __future__ import annotations

import asyncio
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

MAX_FAILED_CALLS = 2
"""So many calls without one score, in waves one after another, and the rest is not asked: the model is down, or cannot do it.

Of a line the rest of that line, of both together the rest of both: one that is down is not asked in vain by each of them.
"""
FIRST_REPOSITORIES = 17
"""Repositories that are read at first, a call each: with the three calls of the other works two turns of ten (`llm.concurrency`), which
thirteen calls would take as well.
"""


class Stopping(Protocol):
    """Decides how far works of one line are read. `rules` are the rule scores of all of them, best first, `judged` the model's of the
    first so many that were read, None for one that it did not score.
    """

    @property
    def max_risk(self) -> float: ...

    def wave(self, rules: Sequence[float], judged: Sequence[float | None], top_k: int, first: int) -> int:
        """How many works to read next, `first` or `top_k` where none was read; 0 to stop."""
        ...

    def risk(self, rules: Sequence[float], judged: Sequence[float | None], top_k: int) -> float:
        """The chance that the first `top_k` would change if the rest were read."""
        ...


@dataclass(frozen=True, slots=True)
class StopWhenSettled:
    """Stops where the first works are settled but for a risk; see `adaptive`."""

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
    """Works that are read one after another: their places in rule order among all works, whatever stands between them."""

    places: Sequence[int]
    first: int
    """How many are read at first."""
    read: int = 0
    """The first so many were asked for."""
    wave: Sequence[int] = ()
    """Of these the last ones."""
    failed_calls: int = 0
    """Calls of the last waves that brought no score at all."""
    closed: bool = False
    """Nothing more of it is asked."""

    def take(self, count: int) -> Sequence[int]:
        """The next so many, which count as asked for; where there is none, it is closed."""
        self.wave = self.places[self.read : self.read + count]
        self.read += len(self.wave)
        self.closed = not self.wave
        return self.wave


@dataclass(slots=True)
class ReadingState:
    """What is known so far of each work, by its place in rule order."""

    queues: Sequence[ReadingQueue] = ()
    judged: dict[int, Judgement] = field(default_factory=dict)
    lost: dict[int, Loss] = field(default_factory=dict)
    failed_calls: int = 0
    """Calls of the last waves that brought no score in any line."""

    @classmethod
    def from_works(cls, works: Sequence[Record]) -> ReadingState:
        """Nothing is read yet of works that are given in rule order."""
        repositories = [place for place, work in enumerate(works) if isinstance(work, Repository)]
        others = [place for place, work in enumerate(works) if not isinstance(work, Repository)]
        return cls([ReadingQueue(others, adaptive.WAVE), ReadingQueue(repositories, FIRST_REPOSITORIES)])

    def next_wave(self, rules: Sequence[float], stopping: Stopping | None, top_k: int) -> list[int]:
        """What each line reads next, in rule order; without `stopping` all. `rules` are the rule scores of all works."""
        for line in self._open():
            count = len(line.places) - line.read
            if stopping and count:
                count = stopping.wave([rules[place] for place in line.places], self.scores(line.places[: line.read]), top_k, line.first)
            line.take(count)
        return sorted(place for line in self._open() for place in line.wave)

    def record_call(self, places: Sequence[int], said: CallResult, name: str) -> None:
        """One call's works. `name` is the model's, for what it left out."""
        error = said.error or BadAnswer(f"{name} gave no usable score for them, also when asked again")
        lost = Loss(type(error).__name__, str(error))
        for place, one in zip(places, said.works, strict=True):
            if one is None:
                self.lost[place] = lost
            else:
                self.judged[place] = one

    def end_wave(self, calls: Sequence[Sequence[int]]) -> None:
        """After the calls of a wave, each with its places: closes the lines that there is no use in asking further."""
        for line in self._open():
            asked = sum(places[0] in line.wave for places in calls)
            line.failed_calls = 0 if any(place in self.judged for place in line.wave) else line.failed_calls + asked
        self.failed_calls = 0 if any(not line.failed_calls for line in self._open()) else self.failed_calls + len(calls)
        spent = next((lost for _, lost in sorted(self.lost.items()) if lost.error == BudgetSpent.__name__), None)
        for line in self._open():
            if spent or max(line.failed_calls, self.failed_calls) >= MAX_FAILED_CALLS:
                self._lose(line, spent or self.lost[line.wave[-1]])

    def lose(self, lost: Loss) -> None:
        """The works of which nothing is known yet, but for those that were left unread on purpose."""
        for line in self._open():
            self._lose(line, lost)

    def _lose(self, line: ReadingQueue, lost: Loss) -> None:
        self.lost |= {place: lost for place in line.places if place not in self.judged and place not in self.lost}
        line.closed = True

    def scores(self, places: Iterable[int]) -> list[float | None]:
        return [self.judged[place].score if place in self.judged else None for place in places]

    def partly_read(self) -> list[ReadingQueue]:
        """Lines of which works are left that nothing kept from being read."""
        return [line for line in self.queues if any(place not in self.lost for place in line.places[line.read :])]

    def unread(self) -> Set[int]:
        """Those works."""
        return {place for line in self.partly_read() for place in line.places[line.read :]}

    def losses(self) -> Iterator[tuple[int, Loss]]:
        """Each kind of error once: how many works it cost, and its first message. The costliest comes first."""
        counts = Counter(lost.error for lost in self.lost.values())
        first: Mapping[str, Loss] = {lost.error: lost for _, lost in sorted(self.lost.items(), reverse=True)}
        for error in sorted(counts, key=lambda error: (-counts[error], error)):
            yield counts[error], first[error]

    def _open(self) -> list[ReadingQueue]:
        return [line for line in self.queues if not line.closed]


@dataclass(frozen=True, slots=True)
class Judges:
    """Who judges a work, by its kind."""

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
        into: ReadingState,
    ) -> None:
        """Reads each line in rule order until `stopping` wants no more of it; without it all at once. `KeyRejected` is raised."""
        while places := into.next_wave(rules, stopping, top_k):
            into.end_wave(await self._wave(works, make_batches(works, places), question, budget, into))

    async def _wave(
        self, works: Sequence[Record], parts: Iterable[list[int]], question: Question, budget: Budget, into: ReadingState
    ) -> list[list[int]]:
        """Those that were asked. A call is on its way before the next one is made up, which takes a few milliseconds."""
        asked: list[list[int]] = []
        try:
            async with asyncio.TaskGroup() as group:
                for places in parts:
                    asked.append(places)
                    group.create_task(self._call([works[at] for at in places], places, question, budget, into))
                    await asyncio.sleep(0)
        except ExceptionGroup as raised:  # the first one ended the other calls
            raise next((error for error in raised.exceptions if isinstance(error, KeyRejected)), raised.exceptions[0]) from None
        return asked

    async def _call(self, records: Sequence[Record], places: Sequence[int], question: Question, budget: Budget, into: ReadingState) -> None:
        alone = records[0]
        if isinstance(alone, Repository):
            said = await self.repositories.judge(alone, question, budget)
        else:
            said = await self.papers.judge(records, question, budget)
        into.record_call(places, said, self.papers.chat.name)
