"""The model's part of dedup: it proposes groups of titles; pair by pair, evidence decides what it may join: nothing that contradicts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue

from outrider.prompts import Prompt, fence
from outrider.state.chat import Budget, Chat, ChatRequest
from outrider.state.errors import ChatError, KeyRejected
from outrider.state.model import Model
from outrider.state.records import Record
from outrider.state.response import Bypass, Failure
from outrider.text.sanitize import without_control

if TYPE_CHECKING:
    from outrider.linkage.judge import Judgement

Pair = tuple[int, int]
STEP = "dedup.model"
MAX_CALLS, MAX_TITLES = 3, 60
"""Calls of a run at most, and titles of a call at most."""
TITLE_FIELD_PREFIX = "title's "
"""How the fields of evidence begin that say where titles differ: numbers, words, telling words."""
MAX_BLOCK = 10
"""Titles of a block at most, so that one block fits into one look."""
TITLE_CHARS = 200
TOKENS_A_TITLE = 12
"""An id with its quotes and comma, with room for white space."""

log = logging.getLogger(__name__)

ID_CHARS = 12
Id = Annotated[str, Field(max_length=ID_CHARS)]


def _usable(value: object) -> object:
    """The entries that may be ids, since one that goes on and on has still said something; all as they are where there are none."""
    if not isinstance(value, list | tuple):
        return value
    groups = [[one for one in group[:MAX_TITLES] if _short(one)] for group in value[:MAX_TITLES] if isinstance(group, list | tuple)]
    return groups if any(groups) or not value else value


def _short(one: object) -> bool:
    return isinstance(one, str) and len(one) <= ID_CHARS


class DuplicateGroups(Model):
    """What the model answers. An id that was not asked about means nothing."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    groups: Annotated[tuple[tuple[Id, ...], ...], BeforeValidator(_usable), Field(max_length=MAX_TITLES)]


@dataclass(frozen=True, slots=True)
class TitleQuestion:
    """Blocks of places that go to the model in one call; it knows them as r1, r2, ..."""

    blocks: tuple[tuple[int, ...], ...]

    def ids(self) -> dict[str, int]:
        return {f"r{number}": at for number, at in enumerate(chain.from_iterable(self.blocks), start=1)}

    def to_json(self, records: Sequence[Record]) -> JsonValue:
        names = {at: name for name, at in self.ids().items()}
        return {"blocks": [[_shown(names[at], records[at]) for at in block] for block in self.blocks]}

    def pairs(self, answer: DuplicateGroups) -> Iterator[Pair]:
        """The pairs within one block that the answer holds for one work, each once."""
        ids = self.ids()
        block_of = {at: number for number, block in enumerate(self.blocks) for at in block}
        groups = (sorted({ids[name] for name in group if name in ids}) for group in answer.groups)
        pairs = sorted({pair for group in groups for pair in combinations(group, 2)})
        return (pair for pair in pairs if block_of[pair[0]] == block_of[pair[1]])


@dataclass(frozen=True, slots=True)
class Proposal:
    """What came of asking: the pairs that evidence bears out, each with what agreed, and how many it does not."""

    accepted: Mapping[Pair, str]
    refused: int
    failures: tuple[Failure, ...]
    bypassed: tuple[Bypass, ...]


def make_questions(blocks: Sequence[Sequence[int]]) -> list[TitleQuestion]:
    """The blocks, whole and in order, in calls of at most `TITLES` titles."""
    calls: list[list[tuple[int, ...]]] = []
    for block in map(tuple, blocks):
        if calls and sum(map(len, calls[-1])) + len(block) <= MAX_TITLES:
            calls[-1].append(block)
        else:
            calls.append([block])
    return [TitleQuestion(tuple(call)) for call in calls]


async def propose_pairs(
    chat: Chat, prompt: Prompt, records: Sequence[Record], blocks: Sequence[Sequence[int]], budget: Budget, limit_s: float
) -> Proposal:
    """Asks all at once. A call that fails costs its own blocks; `KeyRejected` is raised."""
    every = make_questions(blocks)
    asked = every[:MAX_CALLS]
    said = await asyncio.gather(*(_said(chat, prompt, records, one, budget, limit_s) for one in asked))
    for answer in said:
        if isinstance(answer, KeyRejected):
            raise answer
    failures = tuple(dict.fromkeys(answer for answer in said if isinstance(answer, Failure)))
    bypassed: tuple[Bypass, ...] = ()
    if left := sum(len(block) for one in every[MAX_CALLS:] for block in one.blocks):
        bypassed = (Bypass(step=STEP, why=f"{left} titles that look like others were not compared: more than {MAX_CALLS} calls' worth"),)
    pairs = [pair for one, answer in zip(asked, said, strict=True) if isinstance(answer, DuplicateGroups) for pair in one.pairs(answer)]
    return _judged(pairs, records, failures, bypassed)


def _judged(pairs: Sequence[Pair], records: Sequence[Record], failures: tuple[Failure, ...], bypassed: tuple[Bypass, ...]) -> Proposal:
    """What is accepted stands from the surest down, as it is joined."""
    from outrider.linkage.judge import judge

    judged = {(one, other): judge(records[one], records[other]) for one, other in pairs}
    for (one, other), judgement in judged.items():
        if not model_may_join(judgement):
            log.debug("the model takes %s and %s for one work; nothing bears it out", records[one].doc_id, records[other].doc_id)
    borne_out = sorted((pair for pair in pairs if model_may_join(judged[pair])), key=lambda pair: (-round(judged[pair].score, 6), pair))
    accepted = {pair: f"a model proposed it: {judged[pair].why() or 'nothing speaks against it'}" for pair in borne_out}
    return Proposal(accepted, len(pairs) - len(accepted), failures, bypassed)


def model_may_join(judgement: Judgement) -> bool:
    """Whether a model's word may make them one: evidence leaves it open, and no word or number of the titles says that they are two."""
    if judgement.verdict == "different" or judgement.contradicts:
        return False
    return not any(evidence.field.startswith(TITLE_FIELD_PREFIX) and evidence.what == "differ" for evidence in judgement.evidence)


async def _said(
    chat: Chat, prompt: Prompt, records: Sequence[Record], question: TitleQuestion, budget: Budget, limit_s: float
) -> DuplicateGroups | Failure | KeyRejected:
    """What the model answers, or what became of the call; a rejected key too, so that no call is left behind unawaited."""
    asked = ChatRequest(
        node="dedup",
        system=prompt.text,
        user=fence(question.to_json(records)),
        max_output_tokens=100 + TOKENS_A_TITLE * len(question.ids()),
    )
    try:
        async with asyncio.timeout(limit_s):
            return await chat.answer(asked, DuplicateGroups, budget)
    except KeyRejected as error:
        return error
    except ChatError as error:
        return Failure(node=STEP, error=type(error).__name__, message=str(error))
    except TimeoutError:
        message = f"{chat.name} had not said within {limit_s:.3g} s which titles are one work; only equal identifiers joined works"
        return Failure(node=STEP, error=TimeoutError.__name__, message=message)


def _shown(name: str, record: Record) -> dict[str, JsonValue]:
    return {"id": name, "title": without_control(record.title)[:TITLE_CHARS], "year": record.year}
