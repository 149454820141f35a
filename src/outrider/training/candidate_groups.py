"""Candidate groups: questions with texts to rank, for training and for held-out checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from outrider.state.hits import Scored
from outrider.state.records import Record
from outrider.training.questions import Question, QuestionKind, is_same_text, make_generator, make_passage

Retrieve = Callable[[str, int], Awaitable[list[Scored]]]
"""The first stage: a query and how many, best first."""
Fetch = Callable[[Sequence[str]], Awaitable[list[Record]]]

HARD_RANKS = slice(4, 50)
"""Places (from 0) that wrong answers come from: the first few may be right though nobody said so."""
HARD = 3
RANDOM = 1
GROUP = 1 + HARD + RANDOM
CANDIDATES = 10


@dataclass(frozen=True, slots=True)
class Group:
    """Texts of one question, at least one of them relevant; in training the first and only the first."""

    query: str
    kind: QuestionKind
    source: str
    doc_ids: tuple[str, ...]
    texts: tuple[str, ...]
    relevance: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GroupMaker:
    """Makes groups; the same seed, library and question give the same group. `spare` is what random wrong answers come from."""

    retrieve: Retrieve
    fetch: Fetch
    spare: Sequence[Record]
    seed: int

    async def make_training_groups(self, question: Question) -> list[Group]:
        """A group for each right answer: people's wrong ones first, then lower places of the search, then any record."""
        right = await self.fetch(_relevant(question))
        refused = await self.fetch(sorted(doc_id for doc_id, value in question.relevance.items() if not value))
        found = [scored.record for scored in (await self.retrieve(question.query, HARD_RANKS.stop))[HARD_RANKS]]
        groups = []
        for answer in right:
            rng = make_generator(self.seed, "wrong answers", question.kind, question.source, question.query, answer.doc_id)
            hard = rng.sample(found, len(found))
            wrong = _wrong(question, right, [*refused, *hard], HARD)
            wrong += _wrong(question, [*right, *wrong], rng.sample(self.spare, min(len(self.spare), 3 * GROUP)), GROUP - 1 - len(wrong))
            if wrong:
                groups.append(_group(question, [answer, *wrong], self.seed))
        return groups

    async def make_checking_group(self, question: Question) -> Group | None:
        """The first that the search gives, `LISTED` with the right answers, which are put in where it missed them."""
        right = await self.fetch(_relevant(question))
        found = [scored.record for scored in await self.retrieve(question.query, 2 * CANDIDATES)]
        wrong = _wrong(question, right, found, max(CANDIDATES // 2, CANDIDATES - len(right)))
        if not right or not wrong:
            return None
        listed = sorted([*right, *wrong], key=lambda record: record.doc_id)  # the order gives nothing away
        return _group(question, listed, self.seed)


def count_kinds(groups: Sequence[Group]) -> dict[str, int]:
    """Pairs by the kind of their question."""
    counts = Counter({group.kind: 0 for group in groups})
    for group in groups:
        counts[group.kind] += len(group.texts)
    return {str(kind): counts[kind] for kind in sorted(counts)}


def _relevant(question: Question) -> list[str]:
    return sorted(doc_id for doc_id, value in question.relevance.items() if value)


def _wrong(question: Question, right: Sequence[Record], offered: Sequence[Record], count: int) -> list[Record]:
    kept: list[Record] = []
    barred = {*question.excluded, *_relevant(question)}
    for record in offered:
        if len(kept) >= count:
            break
        if record.doc_id not in barred and not any(is_same_text(record, other) for other in right):
            barred.add(record.doc_id)
            kept.append(record)
    return kept


def _group(question: Question, records: Sequence[Record], seed: int) -> Group:
    rngs = [make_generator(seed, "passage", question.query, record.doc_id) for record in records]
    return Group(
        query=question.query,
        kind=question.kind,
        source=question.source,
        doc_ids=tuple(record.doc_id for record in records),
        texts=tuple(make_passage(record, question, rng) for record, rng in zip(records, rngs, strict=True)),
        relevance=tuple(question.relevance.get(record.doc_id, 0) for record in records),
    )
