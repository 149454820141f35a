"""Training set of a reranker: questions with texts to rank, and the quality of their order.

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
from outrider.state.reranking import blend_scores
from outrider.text.words import stems
from outrider.training import questions as gather
from outrider.training.measures import ndcg
from outrider.training.questions import Question, QuestionKind, is_same_text, make_generator, make_passage

if TYPE_CHECKING:
    from outrider.library.library import Library


Retrieve = Callable[[str, int], Awaitable[list[Scored]]]
"""The first stage: takes a query and a limit, returns hits, best first."""
Fetch = Callable[[Sequence[str]], Awaitable[list[Record]]]

HARD_RANKS = slice(4, 50)
"""Ranks (from 0) that wrong answers come from: the first few may be relevant although unlabelled."""
HARD = 3
RANDOM = 1
GROUP = 1 + HARD + RANDOM
CANDIDATES = 10
Result = TypeVar("Result")
CITED_SHARE = 0.3
"""Maximum share of citation questions, unless there are too few known items."""
HELD_OUT_SHARE = 1 / 8
HELD_OUT = (10, 100)
"""Minimum and maximum number of held-out questions."""
FEWEST = 20
"""Minimum number of groups to train on; this is enough to run, not to learn much."""
OnPair = Callable[[int, int], None]
"""Called with the number of finished questions and the total."""


@dataclass(frozen=True, slots=True)
class Group:
    """Texts of one question, at least one of them relevant; in training exactly the first."""

    query: str
    kind: QuestionKind
    source: str
    doc_ids: tuple[str, ...]
    texts: tuple[str, ...]
    relevance: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GroupMaker:
    """Makes groups, the same for the same seed, library and question. Random wrong answers come from `spare`."""

    retrieve: Retrieve
    fetch: Fetch
    spare: Sequence[Record]
    seed: int

    async def make_training_groups(self, question: Question) -> list[Group]:
        """A group for each right answer. Wrong ones: records judged so, then lower ranks of the search, then any record."""
        right = await self.fetch(_relevant(question))
        irrelevant = await self.fetch(sorted(doc_id for doc_id, value in question.relevance.items() if not value))
        hits = [scored.record for scored in (await self.retrieve(question.query, HARD_RANKS.stop))[HARD_RANKS]]
        groups = []
        for answer in right:
            rng = make_generator(self.seed, "wrong answers", question.kind, question.source, question.query, answer.doc_id)
            hard = rng.sample(hits, len(hits))
            wrong = _wrong(question, right, [*irrelevant, *hard], HARD)
            wrong += _wrong(question, [*right, *wrong], rng.sample(self.spare, min(len(self.spare), 3 * GROUP)), GROUP - 1 - len(wrong))
            if wrong:
                groups.append(_group(question, [answer, *wrong], self.seed))
        return groups

    async def make_checking_group(self, question: Question) -> Group | None:
        """About `CANDIDATES` texts: all right answers and the first other hits of the search. None if either is missing."""
        right = await self.fetch(_relevant(question))
        hits = [scored.record for scored in await self.retrieve(question.query, 2 * CANDIDATES)]
        wrong = _wrong(question, right, hits, max(CANDIDATES // 2, CANDIDATES - len(right)))
        if not right or not wrong:
            return None
        listed = sorted([*right, *wrong], key=lambda record: record.doc_id)  # an order independent of relevance
        return _group(question, listed, self.seed)


def count_kinds(groups: Sequence[Group]) -> dict[str, int]:
    """Number of pairs by the kind of their question."""
    counts = Counter({group.kind: 0 for group in groups})
    for group in groups:
        counts[group.kind] += len(group.texts)
    return {str(kind): counts[kind] for kind in sorted(counts)}


def _relevant(question: Question) -> list[str]:
    return sorted(doc_id for doc_id, value in question.relevance.items() if value)


def _wrong(question: Question, right: Sequence[Record], offered: Sequence[Record], count: int) -> list[Record]:
    wrong: list[Record] = []
    excluded = {*question.excluded, *_relevant(question)}
    for record in offered:
        if len(wrong) >= count:
            break
        if record.doc_id not in excluded and not any(is_same_text(record, other) for other in right):
            excluded.add(record.doc_id)
            wrong.append(record)
    return wrong


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
    """Judged ids that the library does not have."""

    @property
    def pairs(self) -> int:
        return sum(len(group.texts) for group in self.train)

    @property
    def trained_on(self) -> frozenset[str]:
        """Sources and answers of training questions. An evaluation excludes them, because they would overrate the reranker."""
        right = {doc_id for group in self.train for doc_id, value in zip(group.doc_ids, group.relevance, strict=True) if value}
        return frozenset(right | {group.source for group in self.train if group.kind != "judgement"})


async def build_training_set(
    library: Library, pairs: int, seed: int, judgements: Mapping[str, Mapping[str, int]], on_pair: OnPair | None = None
) -> TrainingSet:
    """About `pairs` training pairs, and held-out questions, an eighth as many; the same for the same library and seed.

    Runs one search per question. Raises `BadRequest` if the library yields too few.
    """
    group_count = max(1, pairs // GROUP)
    held_out = min(max(int(group_count * HELD_OUT_SHARE), HELD_OUT[0]), HELD_OUT[1])
    drawn = await gather.sample_records(library, group_count + held_out, seed)
    judged, unknown = await gather.make_judged_questions(library, judgements)
    cited = await gather.make_citation_questions(library, drawn.citing, seed)
    known = await asyncio.to_thread(lambda: list(gather.make_known_item_questions(drawn.records, seed)))
    sides = gather.split_by_source([*judged, *cited, *known], held_out / (group_count + held_out), seed)
    train_questions, held_out_questions = _mix_kinds(sides.train, group_count), _mix_kinds(sides.held_out, held_out)
    _refuse_too_few(library, len(drawn.records), len(train_questions), len(held_out_questions))
    maker = GroupMaker(lambda query, limit: library.search(query, limit=limit), library.fetch, drawn.records, seed)
    count = _Counter(len(train_questions) + len(held_out_questions), on_pair)
    train = [group for question in train_questions for group in count(await maker.make_training_groups(question))]
    lists = [group for question in held_out_questions for group in count([await maker.make_checking_group(question)]) if group is not None]
    _refuse_too_few(library, len(drawn.records), len(train), len(lists))
    return TrainingSet(tuple(train[:group_count]), tuple(lists), tuple(unknown))


def _mix_kinds(questions: Sequence[Question], count: int) -> list[Question]:
    """Judgements first, then citations up to their share, then known items, then further citations."""
    judged = [one for one in questions if one.kind == "judgement"][:count]
    cited = [one for one in questions if one.kind == "citation"]
    known = [one for one in questions if one.kind in ("title", "sentence")]
    share = int((count - len(judged)) * CITED_SHARE)
    return [*judged, *cited[:share], *known, *cited[share:]][:count] if count > len(judged) else judged


def _refuse_too_few(library: Library, records: int, train: int, held_out: int) -> None:
    if not records:
        raise BadRequest(f"no record of the library at {library.shown} has text to learn from; ingest abstracts or full texts")
    if train < FEWEST or held_out < HELD_OUT[0] // 2:
        raise BadRequest(
            f"the library at {library.shown} yields {train:,} training questions and {held_out:,} held-out questions, fewer than "
            f"{FEWEST} and {HELD_OUT[0] // 2}; ingest more records with titles and abstracts, add --judgements, or raise --pairs"
        )


class _Counter:
    def __init__(self, of: int, on_pair: OnPair | None) -> None:
        self._done, self._of, self._on_pair = 0, of, on_pair

    def __call__(self, result: Result) -> Result:
        self._done += 1
        if self._on_pair is not None:
            self._on_pair(self._done, self._of)
        return result


def mean_ndcg(groups: Sequence[Group], scores: Sequence[Sequence[float]]) -> float:
    return sum(ordered_ndcg(group.relevance, row) for group, row in zip(groups, scores, strict=True)) / len(groups)


def ordered_ndcg(relevance: Sequence[int], scores: Sequence[float]) -> float:
    """nDCG@10 of the order by score; ties are put in the worse order."""
    order = sorted(range(len(scores)), key=lambda at: (-scores[at], relevance[at], at))
    return ndcg((relevance[at] for at in order), relevance)


def score_by_words(groups: Sequence[Group]) -> list[list[float]]:
    """BM25 scores of the texts that the model reads; term weights come from all texts of all lists.

    The library's own index is not used, because it contains the part that the query was taken from.
    """
    from rank_bm25 import BM25Okapi

    engine = BM25Okapi([stems(text) or [""] for group in groups for text in group.texts])
    scores: list[list[float]] = []
    start = 0
    for group in groups:
        end = start + len(group.texts)
        scores.append([float(score) for score in engine.get_batch_scores(stems(group.query), list(range(start, end)))])
        start = end
    return scores


def blend_equally(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> list[list[float]]:
    """Blend two score lists with weight 0.5, as a search does by default (`reranker.weight`)."""
    return [blend_scores(one, other, 0.5) for one, other in zip(first, second, strict=True)]
