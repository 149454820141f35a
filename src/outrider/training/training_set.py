"""Training set of a reranker: questions split by source, with wrong answers from searches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from outrider.state.errors import BadRequest
from outrider.training import collect_questions as gather
from outrider.training.candidate_groups import GROUP, Group, GroupMaker
from outrider.training.questions import Question

if TYPE_CHECKING:
    from outrider.library.library import Library

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
class TrainingSet:
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
