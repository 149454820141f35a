"""Training set of a reranker: questions split by source, grouped with texts to rank.

Wrong answers come from searches and from any record.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from outrider.state.errors import BadRequest
from outrider.state.hits import Scored
from outrider.state.records import Record
from outrider.training import collect_questions as gather
from outrider.training.questions import Question, QuestionKind, is_same_text, make_generator, make_passage

if TYPE_CHECKING:
    from outrider.library.library import Library


Retrieve = Callable[[str, int], Awaitable[list[Scored]]]
"""The first stage: a query and how many, best first."""
Fetch = Callable[[Sequence[str]], Awaitable[list[Record]]]

HARD_RANKS = slice(4, 50)
"""Places (from 0) that wrong answers come from: the first few may be right though nobody said so."""
HARD = 3
RANDOM = 1
GROUP = 1 + HARD + RANDOM
CANDIDATES = 10
Made = TypeVar("Made")
CITED_SHARE = 0.3
"""Most of the questions that citations make, where known items can make the others."""
HELD_OUT_SHARE = 1 / 8
HELD_OUT = (10, 100)
"""Fewest and most questions that are held out."""
FEWEST = 20
"""Groups below which nothing is trained; so few only show that it runs."""
OnPair = Callable[[int, int], None]
"""Called with questions done, of how many."""


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


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """Groups to train on and groups held out for checks, made from different records."""

    train: tuple[Group, ...]
    held_out: tuple[Group, ...]
    unknown_ids: tuple[str, ...] = ()
    """Judged ids that the library does not hold."""

    @property
    def pairs(self) -> int:
        return sum(len(group.texts) for group in self.train)

    @property
    def trained_on(self) -> frozenset[str]:
        """Records that a training question was made from or is answered by: to be asked about them would flatter the reranker."""
        right = {doc_id for group in self.train for doc_id, value in zip(group.doc_ids, group.relevance, strict=True) if value}
        return frozenset(right | {group.source for group in self.train if group.kind != "judgement"})


async def build_training_set(
    library: Library, pairs: int, seed: int, judgements: Mapping[str, Mapping[str, int]], on_pair: OnPair | None = None
) -> TrainingSet:
    """About `pairs` pairs to train on and an eighth as many questions held out; the same for the same library and seed.

    Searches once a question. `BadRequest` where the library makes too few.
    """
    wanted = max(1, pairs // GROUP)
    held_out = min(max(int(wanted * HELD_OUT_SHARE), HELD_OUT[0]), HELD_OUT[1])
    drawn = await gather.sample_records(library, wanted + held_out, seed)
    judged, unknown = await gather.make_judged_questions(library, judgements)
    cited = await gather.make_citation_questions(library, drawn.citing, seed)
    known = await asyncio.to_thread(lambda: list(gather.make_known_item_questions(drawn.records, seed)))
    sides = gather.split_by_source([*judged, *cited, *known], held_out / (wanted + held_out), seed)
    asked = [_mix_kinds(sides.train, wanted), _mix_kinds(sides.held_out, held_out)]
    _refuse_too_few(library, len(drawn.records), *map(len, asked))
    maker = GroupMaker(lambda query, limit: library.search(query, limit=limit), library.fetch, drawn.records, seed)
    count = _Counter(sum(map(len, asked)), on_pair)
    train = [group for question in asked[0] for group in count(await maker.make_training_groups(question))]
    lists = [group for question in asked[1] for group in count([await maker.make_checking_group(question)]) if group is not None]
    _refuse_too_few(library, len(drawn.records), len(train), len(lists))
    return TrainingSet(tuple(train[:wanted]), tuple(lists), tuple(unknown))


def _mix_kinds(questions: Sequence[Question], count: int) -> list[Question]:
    """What people judged first, then citations up to their share, then known items; more citations where those run out."""
    judged = [one for one in questions if one.kind == "judgement"][:count]
    cited = [one for one in questions if one.kind == "citation"]
    known = [one for one in questions if one.kind in ("title", "sentence")]
    share = int((count - len(judged)) * CITED_SHARE)
    return [*judged, *cited[:share], *known, *cited[share:]][:count] if count > len(judged) else judged


def _refuse_too_few(library: Library, records: int, train: int, held_out: int) -> None:
    if not records:
        raise BadRequest(f"no record of the library at {library.shown} holds a text to learn from; ingest abstracts or full texts")
    if train < FEWEST or held_out < HELD_OUT[0] // 2:
        raise BadRequest(
            f"the library at {library.shown} makes {train:,} questions to train on and {held_out:,} to check with, fewer than {FEWEST} and "
            f"{HELD_OUT[0] // 2}; ingest more records with titles and abstracts, give --judgements, or ask for more --pairs"
        )


class _Counter:
    def __init__(self, of: int, on_pair: OnPair | None) -> None:
        self._done, self._of, self._on_pair = 0, of, on_pair

    def __call__(self, result: Made) -> Made:
        self._done += 1
        if self._on_pair is not None:
            self._on_pair(self._done, self._of)
        return result
