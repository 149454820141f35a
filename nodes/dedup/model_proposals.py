"""Pairs of works that a model proposes to merge by their titles."""

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
    from outrider.linkage.judge_pair import Judgement

Pair = tuple[int, int]
STEP = "dedup.model"
MAX_CALLS, MAX_TITLES = 3, 60
"""Calls per run, and titles per call."""
TITLE_FIELD_PREFIX = "title's "
"""Prefix of evidence fields about parts of titles: numbers, words, distinctive words."""
MAX_BLOCK = 10
"""Titles per block, so that the model can compare all of them at once."""
TITLE_CHARS = 200
TOKENS_PER_TITLE = 12
"""An id with its quotes and comma, and room for white space."""

log = logging.getLogger(__name__)

ID_CHARS = 12
Id = Annotated[str, Field(max_length=ID_CHARS)]


def keep_ids(value: object) -> object:
    """The entries that may be ids, so that one endless string does not cost the others; the value itself if there are none."""
    if not isinstance(value, list | tuple):
        return value
    lists = [group[:MAX_TITLES] for group in value[:MAX_TITLES] if isinstance(group, list | tuple)]
    groups = [[entry for entry in group if isinstance(entry, str) and len(entry) <= ID_CHARS] for group in lists]
    return groups if any(groups) or not value else value


class DuplicateGroups(Model):
    """The model's answer. Ids that were not sent are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    groups: Annotated[tuple[tuple[Id, ...], ...], BeforeValidator(keep_ids), Field(max_length=MAX_TITLES)]


@dataclass(frozen=True, slots=True)
class TitleQuestion:
    """Blocks of positions that go to the model in one call; it knows them as r1, r2, ..."""

    blocks: tuple[tuple[int, ...], ...]

    def ids(self) -> dict[str, int]:
        return {f"r{number}": at for number, at in enumerate(chain.from_iterable(self.blocks), start=1)}

    def to_json(self, records: Sequence[Record]) -> JsonValue:
        names = {at: name for name, at in self.ids().items()}
        return {
            "blocks": [
                [{"id": names[at], "title": without_control(records[at].title)[:TITLE_CHARS], "year": records[at].year} for at in block]
                for block in self.blocks
            ]
        }

    def pairs(self, answer: DuplicateGroups) -> Iterator[Pair]:
        """The pairs within one block that the answer takes for the same work, each once."""
        ids = self.ids()
        block_by_position = {at: number for number, block in enumerate(self.blocks) for at in block}
        groups = (sorted({ids[name] for name in group if name in ids}) for group in answer.groups)
        pairs = sorted({pair for group in groups for pair in combinations(group, 2)})
        return (pair for pair in pairs if block_by_position[pair[0]] == block_by_position[pair[1]])


@dataclass(frozen=True, slots=True)
class Proposal:
    """The proposed pairs that evidence allows, each with its reason, and the number of those that it refuses."""

    accepted: Mapping[Pair, str]
    refused: int
    failures: tuple[Failure, ...]
    bypassed: tuple[Bypass, ...]


def make_questions(blocks: Sequence[Sequence[int]]) -> list[TitleQuestion]:
    """The blocks, whole and in order, in calls of at most `MAX_TITLES` titles."""
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
    """Sends all questions at once. A failed call costs only its own blocks; `KeyRejected` is raised."""
    every = make_questions(blocks)
    questions = every[:MAX_CALLS]
    answers = await asyncio.gather(*(_ask(chat, prompt, records, question, budget, limit_s) for question in questions))
    for answer in answers:
        if isinstance(answer, KeyRejected):
            raise answer
    failures = tuple(dict.fromkeys(answer for answer in answers if isinstance(answer, Failure)))
    bypassed: tuple[Bypass, ...] = ()
    if remaining := sum(len(block) for question in every[MAX_CALLS:] for block in question.blocks):
        bypassed = (Bypass(step=STEP, why=f"{remaining} similar titles were not compared: they would take more than {MAX_CALLS} calls"),)
    pairs: list[Pair] = []
    for question, answer in zip(questions, answers, strict=True):
        if isinstance(answer, DuplicateGroups):
            pairs += question.pairs(answer)
    accepted = _accept(pairs, records)
    return Proposal(accepted, len(pairs) - len(accepted), failures, bypassed)


def _accept(pairs: Sequence[Pair], records: Sequence[Record]) -> dict[Pair, str]:
    """The pairs that evidence allows, best score first, in the order in which they are to be joined."""
    from outrider.linkage.judge_pair import judge

    judgements = {(one, other): judge(records[one], records[other]) for one, other in pairs}
    for (one, other), judgement in judgements.items():
        if not model_may_join(judgement):
            log.debug("the model proposes to merge %s and %s; no evidence supports it", records[one].doc_id, records[other].doc_id)
    allowed = [pair for pair in pairs if model_may_join(judgements[pair])]
    allowed.sort(key=lambda pair: (-round(judgements[pair].score, 6), pair))
    return {pair: f"a model proposed it: {judgements[pair].why() or 'no evidence against it'}" for pair in allowed}


def model_may_join(judgement: Judgement) -> bool:
    """Whether a model's word suffices: evidence leaves it open, and no word or number in the titles differs decisively."""
    if judgement.verdict == "different" or judgement.contradicts:
        return False
    return not any(evidence.field.startswith(TITLE_FIELD_PREFIX) and evidence.what == "differ" for evidence in judgement.evidence)


async def _ask(
    chat: Chat, prompt: Prompt, records: Sequence[Record], question: TitleQuestion, budget: Budget, limit_s: float
) -> DuplicateGroups | Failure | KeyRejected:
    """The model's answer or the failure of the call. A rejected key is returned, not raised, so that all calls are awaited."""
    request = ChatRequest(
        node="dedup",
        system=prompt.text,
        user=fence(question.to_json(records)),
        max_output_tokens=100 + TOKENS_PER_TITLE * len(question.ids()),
    )
    try:
        async with asyncio.timeout(limit_s):
            return await chat.answer(request, DuplicateGroups, budget)
    except KeyRejected as error:
        return error
    except ChatError as error:
        return Failure(node=STEP, error=type(error).__name__, message=str(error))
    except TimeoutError:
        message = f"{chat.name} did not compare the titles within {limit_s:.3g} s; only matching identifiers merged works"
        return Failure(node=STEP, error=TimeoutError.__name__, message=message)
