"""The question that a model judges works against, and checks of its answers."""

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
"""A longer request is cut, since every call would pay for it."""
TOPIC_CHARS = 200
CONCEPTS, CONCEPT_CHARS = 8, 100
REASON_CHARS = 200
READ_FACTOR = 4
"""How many times the shown characters of a text are read, since line breaks and control characters are removed."""
LARGEST = 1e9
"""A larger number is treated as no score, not as a high one."""


@dataclass(frozen=True, slots=True)
class Question:
    """The request that works are judged against."""

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
        fields: dict[str, JsonValue] = {"text": text, "topic": topic, "concepts": concepts, "type": self.intent_type}
        return {name: value for name, value in fields.items() if value}


@dataclass(frozen=True, slots=True)
class Judgement:
    """A model's judgement of one work; `score` in [0, 1]."""

    score: float
    reason: str = ""
    tags: tuple[str, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict)
    """Parts of the score, by name."""
    radar: tuple[dict[str, JsonValue], ...] = ()


@dataclass(frozen=True, slots=True)
class CallResult:
    """The judgements of one call's works in their order, None for a work without one, and the error of the call."""

    works: tuple[Judgement | None, ...]
    error: ChatError | None = None


async def ask_twice(count: int, ask: Callable[[Sequence[int]], Awaitable[Mapping[int, Judgement]]]) -> CallResult:
    """Judgements of one call's works. `ask` maps positions to judgements; works that the first answer left out are sent once more.

    Raises only `KeyRejected`; any other model error is returned with the judgements so far.
    """
    works: dict[int, Judgement] = {}
    error: ChatError | None = None
    try:
        for _ in range(2):
            if remaining := [at for at in range(count) if at not in works]:
                works |= await ask(remaining)
    except KeyRejected:
        raise
    except ChatError as failure:
        error = failure
    return CallResult(tuple(map(works.get, range(count))), error)


def to_one_line(text: str, chars: int) -> str:
    """The beginning of a text, without line breaks and control characters."""
    return " ".join(without_control(text[: READ_FACTOR * chars]).split())[:chars]


def parse_number(value: object) -> float | None:
    """A finite number, also from a text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and abs(number) <= LARGEST else None


def clamp(value: float, top: float) -> float:
    return min(max(value, 0.0), top)


Number = Annotated[float | None, BeforeValidator(parse_number), WithJsonSchema({"type": "number"})]
"""A number of a model's answer; None if it is invalid, so that the rest of the answer is not lost."""
Reason = Annotated[
    str,
    BeforeValidator(lambda value: to_one_line(value, REASON_CHARS) if isinstance(value, str) else ""),
    WithJsonSchema({"type": "string", "maxLength": REASON_CHARS}),
]
