"""What a model is asked of works, and what of its answer is used: numbers clamped, texts cut, unknown words dropped."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BeforeValidator, JsonValue, WithJsonSchema

from outrider.state.errors import ChatError, KeyRejected
from outrider.state.pipeline import PipelineState
from outrider.text.sanitize import without_control

QUERY_CHARS = 1_000
"""A longer request is cut: every call would pay for it."""
TOPIC_CHARS = 200
CONCEPTS, CONCEPT_CHARS = 8, 100
REASON_CHARS = 200
READ_FACTOR = 4
"""How much more of a text is read than is shown, since line breaks and control characters go."""
LARGEST = 1e9
"""A number beyond it is no score at all rather than a high one."""


@dataclass(frozen=True, slots=True)
class Question:
    """What works are judged against."""

    query: str
    topic: str = ""
    concepts: tuple[str, ...] = ()
    intent_type: str = "general"

    @classmethod
    def from_state(cls, state: PipelineState) -> Question:
        if state.intent is None:
            return cls(str(state.query))
        return cls(str(state.query), state.intent.topic, state.intent.concepts, state.intent.intent_type)

    def to_json(self) -> dict[str, JsonValue]:
        concepts: list[JsonValue] = [to_one_line(concept, CONCEPT_CHARS) for concept in self.concepts[:CONCEPTS]]
        text, topic = to_one_line(self.query, QUERY_CHARS), to_one_line(self.topic, TOPIC_CHARS)
        said: dict[str, JsonValue] = {"text": text, "topic": topic, "concepts": concepts, "type": self.intent_type}
        return {name: value for name, value in said.items() if value}


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the model thinks of one work; `score` in [0, 1]."""

    score: float
    reason: str = ""
    tags: tuple[str, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict)
    """Parts of the score, by name."""
    radar: tuple[dict[str, JsonValue], ...] = ()


@dataclass(frozen=True, slots=True)
class CallResult:
    """One call's works in their order, None for those without a judgement, and what went wrong."""

    works: tuple[Judgement | None, ...]
    error: ChatError | None = None


async def ask_twice(count: int, ask: Callable[[Sequence[int]], Awaitable[Mapping[int, Judgement]]]) -> CallResult:
    """One call's works: `ask` gets places and gives judgements by place, and what it left out is asked once more.

    Raises nothing but `KeyRejected`: any other error of the model stands beside what is known.
    """
    works: dict[int, Judgement] = {}
    error: ChatError | None = None
    try:
        for _ in range(2):
            if left := [at for at in range(count) if at not in works]:
                works |= await ask(left)
    except KeyRejected:
        raise
    except ChatError as failed:
        error = failed
    return CallResult(tuple(map(works.get, range(count))), error)


def to_one_line(text: str, chars: int) -> str:
    """The beginning of a text, without line breaks and control characters."""
    return " ".join(without_control(text[: READ_FACTOR * chars]).split())[:chars]


def parse_number(value: object) -> float | None:
    """A finite number, also one that was written as a text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) and abs(found) <= LARGEST else None


def clamp(value: float, top: float) -> float:
    return min(max(value, 0.0), top)


def _reason(value: object) -> str:
    return to_one_line(value, REASON_CHARS) if isinstance(value, str) else ""


Number = Annotated[float | None, BeforeValidator(parse_number), WithJsonSchema({"type": "number"})]
"""A number of a model's answer; None where it is none, which is no reason to lose the rest of the answer."""
Reason = Annotated[str, BeforeValidator(_reason), WithJsonSchema({"type": "string", "maxLength": REASON_CHARS})]
