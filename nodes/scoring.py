"""Works before the model, in waves: the calls of a wave go out together, and each costs only its own works when it fails."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from outrider.nodes import adaptive
from outrider.nodes.judgement import Judged, Judgement, Question
from outrider.nodes.paper_scoring import PaperScorer, calls
from outrider.nodes.repository_scoring import RepositoryScorer
from outrider.state.chat import Budget
from outrider.state.errors import BadAnswer, BudgetSpent, KeyRejected
from outrider.state.records import Record, Repository

CALLS_IN_VAIN = 2
"""So many calls without one score, in waves one after another, and the rest is not asked: the model is down, or cannot do it."""


class Stopping(Protocol):
    """Decides how far works are read. `rules` are the rule scores of all works, best first, `judged` the model's of the first so many
    that were read, None for one that it did not score.
    """

    @property
    def max_risk(self) -> float: ...

    def wave(self, rules: Sequence[float], judged: Sequence[float | None], top_k: int) -> int:
        """How many works to read next; 0 to stop."""
        ...

    def risk(self, rules: Sequence[float], judged: Sequence[float | None], top_k: int) -> float:
        """The chance that the first `top_k` would change if the rest were read."""
        ...


@dataclass(frozen=True, slots=True)
class Settled:
    """Stops where the first works are settled but for a risk; see `adaptive`."""

    max_risk: float

    def wave(self, rules: Sequence[float], judged: Sequence[float | None], top_k: int) -> int:
        return adaptive.next_wave(rules, judged, top_k, self.max_risk)

    def risk(self, rules: Sequence[float], judged: Sequence[float | None], top_k: int) -> float:
        return adaptive.risk(rules, judged, top_k)


@dataclass(frozen=True, slots=True)
class Lost:
    """Why a work has no judgement."""

    error: str
    message: str


@dataclass(slots=True)
class Reading:
    """What is known so far of each work, by its place in rule order."""

    judged: dict[int, Judgement] = field(default_factory=dict)
    lost: dict[int, Lost] = field(default_factory=dict)
    read: int = 0
    """The first so many were asked for."""
    in_vain: int = 0
    """Calls of the last waves that brought no score at all."""

    def note(self, places: Sequence[int], said: Judged, name: str) -> None:
        """One call's works. `name` is the model's, for what it left out."""
        error = said.error or BadAnswer(f"{name} gave no usable score for them, also when asked again")
        lost = Lost(type(error).__name__, str(error))
        for place, one in zip(places, said.works, strict=True):
            if one is None:
                self.lost[place] = lost
            else:
                self.judged[place] = one

    def lose(self, places: Sequence[int], lost: Lost) -> None:
        """The works among these of which nothing is known yet."""
        self.lost |= {place: lost for place in places if place not in self.judged and place not in self.lost}

    def scores(self, count: int) -> list[float | None]:
        return [self.judged[place].score if place in self.judged else None for place in range(count)]

    def left_unread(self, count: int) -> bool:
        """Whether works are left that nothing kept from being read."""
        return any(place not in self.lost for place in range(self.read, count))

    def gives_up(self) -> Lost | None:
        """Why there is no use in asking further; None where there is."""
        spent = next((lost for _, lost in sorted(self.lost.items()) if lost.error == BudgetSpent.__name__), None)
        if spent or self.in_vain < CALLS_IN_VAIN:
            return spent
        return self.lost[max(self.lost)]

    def losses(self) -> Iterator[tuple[int, Lost]]:
        """Each kind of error once: how many works it cost, and its first message. The costliest comes first."""
        counts = Counter(lost.error for lost in self.lost.values())
        first: Mapping[str, Lost] = {lost.error: lost for _, lost in sorted(self.lost.items(), reverse=True)}
        for error in sorted(counts, key=lambda error: (-counts[error], error)):
            yield counts[error], first[error]


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
        into: Reading,
    ) -> None:
        """Reads works in rule order until `stopping` wants no more; without it all at once. `KeyRejected` is raised."""
        while into.read < len(works):
            more = stopping.wave(rules, into.scores(into.read), top_k) if stopping else len(works)
            if more <= 0:
                return
            places, before = range(into.read, min(into.read + more, len(works))), len(into.judged)
            into.read = places.stop
            asked = await self._wave(works, calls(works, places), question, budget, into)
            into.in_vain = into.in_vain + asked if len(into.judged) == before else 0
            if lost := into.gives_up():
                into.lose(range(len(works)), lost)
                return

    async def _wave(self, works: Sequence[Record], parts: Iterable[list[int]], question: Question, budget: Budget, into: Reading) -> int:
        """How many were asked. A call is on its way before the next one is made up, which takes a few milliseconds."""
        asked: list[asyncio.Task[None]] = []
        try:
            async with asyncio.TaskGroup() as group:
                for places in parts:
                    asked.append(group.create_task(self._call([works[at] for at in places], places, question, budget, into)))
                    await asyncio.sleep(0)
        except ExceptionGroup as raised:  # the first one ended the other calls
            raise next((error for error in raised.exceptions if isinstance(error, KeyRejected)), raised.exceptions[0]) from None
        return len(asked)

    async def _call(self, records: Sequence[Record], places: Sequence[int], question: Question, budget: Budget, into: Reading) -> None:
        alone = records[0]
        if isinstance(alone, Repository):
            said = await self.repositories.judge(alone, question, budget)
        else:
            said = await self.papers.judge(records, question, budget)
        into.note(places, said, self.papers.chat.name)
