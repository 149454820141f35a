"""The node that writes a short answer with the chat model, with citations of kept sentences.

The model sees only kept sentences, and no text with known patterns of instructions to a model. Sentences that fail a check are removed and
counted (`check`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue

from outrider.nodes.answer.check import SourceUnit, check_answer
from outrider.nodes.run_settings import end_rejected_run, run_budget, time_left
from outrider.prompts import Prompt, fence
from outrider.settings.model import AnswerSettings, LlmSettings, RunSettings
from outrider.state.chat import Budget, Chat, ChatRequest
from outrider.state.errors import BudgetSpent, ChatError, KeyRejected
from outrider.state.hits import Hit
from outrider.state.model import Model
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.ports import Clock
from outrider.state.response import ContextUnit, Failure, LackOfAnswer, ShortAnswer
from outrider.text.injection import suspicious
from outrider.text.sanitize import without_control

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

STEP = "answer"
MAX_UNITS = 60
UNIT_CHARS, TITLE_CHARS, QUERY_CHARS = 1_500, 200, 1_000
"""Shown characters of each text. Checks read a unit whole."""
TOKENS_OVERHEAD, TOKENS_PER_SENTENCE = 100, 150
MAX_DRAFTS, DRAFT_CHARS, MAX_CITATIONS = 50, 4_000, 20


def keep_texts(value: object) -> object:
    """The entries that are texts; an id may also come as a number."""
    entries = value if isinstance(value, list | tuple) else [value]
    return tuple(str(entry)[:20] for entry in entries if isinstance(entry, str | int) and not isinstance(entry, bool))[:MAX_CITATIONS]


def keep_drafts(value: object) -> object:
    """The entries that hold a text; an invalid one must not cost the others."""
    if not isinstance(value, list | tuple):
        return value
    return [entry for entry in value if isinstance(entry, dict) and isinstance(entry.get("text"), str)][:MAX_DRAFTS]


class DraftSentence(Model):
    model_config = ConfigDict(frozen=True, extra="ignore")

    text: Annotated[str, BeforeValidator(lambda value: value[:DRAFT_CHARS] if isinstance(value, str) else value)]
    citations: Annotated[tuple[str, ...], BeforeValidator(keep_texts)] = ()


class DraftAnswer(Model):
    """The model's answer, before the checks."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    sentences: Annotated[tuple[DraftSentence, ...], BeforeValidator(keep_drafts), Field(max_length=MAX_DRAFTS)]


@dataclass(frozen=True, slots=True)
class Answer:
    """Reads hits, context, strategy; writes answer, usage, failures. Runs only if the request asks for an answer.

    A run without an answer says why in `ShortAnswer.lack`. A rejected key ends the run.
    """

    chat: Chat | None
    why_no_model: str
    prompt: Prompt
    settings: AnswerSettings
    llm: LlmSettings
    run: RunSettings
    clock: Clock

    async def __call__(self, state: PipelineState, runtime: Runtime[RunContext]) -> Update:
        if self.chat is None:
            return {"answer": _lack("no_model", self.why_no_model)}
        units, left_out = select_units(state.hits, state.context.units)
        if not units:
            return {"answer": _lack("nothing_kept", explain_no_units(state, left_out))}
        budget = run_budget(runtime, self.llm, state.usage)
        try:
            answer, failure = await self._write(self.chat, state, units, budget, time_left(runtime, self.run, self.clock, state))
        except KeyRejected as error:
            update = end_rejected_run(state, STEP, error, budget.spent)
            return {**update, "answer": _lack("model_failed", str(error))}
        return {"answer": answer, "usage": budget.spent, "failures": (*state.failures, *((failure,) if failure else ()))}

    async def _write(
        self, chat: Chat, state: PipelineState, units: Sequence[SourceUnit], budget: Budget, within_s: float
    ) -> tuple[ShortAnswer, Failure | None]:
        """Raises `KeyRejected`."""
        if within_s <= 0:
            return _lack("time_spent", "the time of the run was over before the answer (run.run_timeout_s, --timeout)"), None
        most = self.settings.max_sentences
        request = ChatRequest(
            node=STEP,
            system=self.prompt.fill(max_sentences=str(most)),
            user=fence({"request": _to_line(str(state.query), QUERY_CHARS), "works": describe_works(units)}),
            max_output_tokens=TOKENS_OVERHEAD + TOKENS_PER_SENTENCE * most,
        )
        try:
            async with asyncio.timeout(within_s):
                drafts = (await chat.answer(request, DraftAnswer, budget)).sentences
        except KeyRejected:
            raise
        except BudgetSpent as error:
            return _lack("budget_spent", str(error)), Failure(node=STEP, error=type(error).__name__, message=str(error))
        except ChatError as error:
            return _lack("model_failed", str(error)), Failure(node=STEP, error=type(error).__name__, message=str(error))
        except TimeoutError:
            why = f"{chat.name} did not answer within the {within_s:.3g} s that were left of the run (run.run_timeout_s, --timeout)"
            return _lack("time_spent", why), Failure(node=STEP, error=TimeoutError.__name__, message=why)
        result = check_answer(((draft.text, draft.citations) for draft in drafts), units, most)
        answer = ShortAnswer(sentences=result.sentences, removed=result.removed, model=chat.name)
        if answer.sentences:
            return answer, None
        lack: LackOfAnswer = "all_removed" if result.removed else "no_answer"
        why = "no sentence of the model passed the checks" if result.removed else "the model finds no answer in the kept sentences"
        return answer.model_copy(update={"lack": lack, "why": why}), None


def select_units(hits: Sequence[Hit], context_units: Sequence[ContextUnit]) -> tuple[list[SourceUnit], int]:
    """The kept sentences that a model may read, and the number of those left out since their texts hold instructions to a model.

    The sentences of a work are checked one by one and together: an instruction may continue in the next one.
    """
    by_id = {hit.doc_id: hit for hit in hits}
    by_work: dict[str, list[ContextUnit]] = {}
    for unit in context_units:
        if unit.doc_id in by_id and unit.kind != "heading" and unit.text.strip():
            by_work.setdefault(unit.doc_id, []).append(unit)
    units: list[SourceUnit] = []
    left_out = 0
    for doc_id, own in by_work.items():
        hit = by_id[doc_id]
        texts = [hit.title, *(unit.text for unit in own)]
        if hit.flags or any(map(suspicious, (*texts, "\n\n".join(texts), " ".join(texts)))):
            left_out += len(own)
            continue
        units += [
            SourceUnit(f"u{len(units) + at}", doc_id, f"[{hit.rank}]", unit.start, unit.end, unit.text, hit.title, unit.why == "best")
            for at, unit in enumerate(own[: MAX_UNITS - len(units)], start=1)
        ]
    return units, left_out


def describe_works(units: Sequence[SourceUnit]) -> list[JsonValue]:
    """What the model sees, in the order of the hits."""
    works: dict[str, tuple[SourceUnit, list[JsonValue]]] = {}
    for unit in units:
        shown: dict[str, JsonValue] = {"id": unit.unit_id, "text": _to_line(unit.text, UNIT_CHARS)}
        if unit.uncertain:
            shown["uncertain"] = True
        works.setdefault(unit.doc_id, (unit, []))[1].append(shown)
    return [{"key": unit.key, "title": _to_line(unit.title, TITLE_CHARS), "units": shown} for unit, shown in works.values()]


def explain_no_units(state: PipelineState, left_out: int) -> str:
    if not state.hits:
        return "the search has no hits"
    if left_out:
        return f"the {left_out:,} kept sentences are of texts that hold known patterns of instructions to a model, so none was read"
    if not state.distill_enabled or state.distill_top == 0:
        return "no sentence was kept to cite, since distillation is switched off (distill_enabled, distill_top)"
    return "no sentence of the hits answers the request"


def _lack(lack: LackOfAnswer, why: str) -> ShortAnswer:
    return ShortAnswer(lack=lack, why=why)


def _to_line(text: str, chars: int) -> str:
    return " ".join(without_control(text).split())[:chars]
