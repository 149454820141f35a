"""Parser of a model's text into the requested shape.

Nothing that is missing in an answer is made up. A model may quote its input, which may look like an answer: if two different objects fit
the shape, it is unknown which one is the model's own, and the answer is unusable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from outrider.state.model import Model

Shape = TypeVar("Shape", bound=Model)

THINKING = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
BRACE = re.compile(r"[{}]")
MAX_REPAIR_CHARS = 30_000
"""A longer text that is not JSON is not repaired: repair blocks all other calls."""
MAX_OPEN_BRACKETS = 20
"""Nesting depth up to which a text is repaired: 20,000 open brackets take json-repair seconds."""
MAX_STARTS = 50
"""Number of braces at which an object is looked for."""
MAX_PROBLEM_CHARS = 300


@dataclass(frozen=True, slots=True)
class UnusableAnswer:
    """Why an answer is unusable, in words for the model and for people; `follows_schema` if it shows that the model saw the schema."""

    why: str
    follows_schema: bool = False


@dataclass(frozen=True, slots=True)
class ParsedAnswer(Generic[Shape]):
    """An answer in the requested shape."""

    value: Shape


AMBIGUOUS = UnusableAnswer("it holds two different objects of that form; give exactly one, and quote none", follows_schema=True)


def parse_answer(content: str | dict[str, Any], shape: type[Shape]) -> ParsedAnswer[Shape] | UnusableAnswer:
    """Find the object in the text that fits the shape, repairing JSON if possible. Two different objects that fit are unusable."""
    if isinstance(content, dict):
        return _validate(content, shape)
    text = THINKING.sub("", content)
    located = [(_validate(candidate, shape), start, end) for candidate, start, end in _iter_objects(text)]
    fitting = [(start, end) for result, start, end in located if isinstance(result, ParsedAnswer)]
    rests = (text[: fitting[0][0]], text[max(end for _, end in fitting) :]) if fitting else (text,)
    results = [result for result, *_ in located]
    results += [_validate(candidate, shape) for rest in rests if (candidate := _repair(rest))]
    parsed = [result for result in results if isinstance(result, ParsedAnswer)]
    if parsed:
        return parsed[0] if all(result == parsed[0] for result in parsed) else AMBIGUOUS
    problems = [result for result in results if isinstance(result, UnusableAnswer)]
    if not problems:
        return UnusableAnswer("the answer holds no JSON object" if content else "the answer is empty")
    return next((problem for problem in problems if problem.follows_schema), problems[-1])


def _validate(candidate: dict[str, Any], shape: type[Shape]) -> ParsedAnswer[Shape] | UnusableAnswer:
    try:
        return ParsedAnswer(shape.model_validate(candidate))
    except ValidationError as error:
        details = error.errors(include_input=False)
        why = "; ".join(f"{'.'.join(map(str, detail['loc'])) or 'the object'}: {detail['msg']}" for detail in details)
        required = {name for name, field in shape.model_fields.items() if field.is_required()} or set(shape.model_fields)
        why = why if len(why) <= MAX_PROBLEM_CHARS else f"{why[:MAX_PROBLEM_CHARS]}..."
        return UnusableAnswer(why, follows_schema=required <= candidate.keys())


def _iter_objects(text: str) -> Iterator[tuple[dict[str, Any], int, int]]:
    """Yield the objects in the text with their offsets; one that is not JSON but has a closing brace is repaired."""

    def refuse_constant(name: str) -> float:
        raise ValueError(f"{name} is no number of JSON")

    # each opening brace with the end of its closing one, quoted braces included; none for a text too long to repair
    opened: list[int] = []
    closing: dict[int, int] = {}
    for brace in BRACE.finditer(text if len(text) <= MAX_REPAIR_CHARS else ""):
        if brace.group() == "{":
            opened.append(brace.start())
        elif opened:
            closing[opened.pop()] = brace.end()
    decoder = json.JSONDecoder(parse_constant=refuse_constant)
    start, repaired_until = text.find("{"), 0
    for _ in range(MAX_STARTS):
        if start < 0:
            return
        try:
            candidate, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = start + 1
            if start >= repaired_until and start in closing:
                repaired_until = closing[start]
                if repaired := _repair(text[start:repaired_until]):
                    yield repaired, start, repaired_until
        else:
            yield candidate, start, end
        start = text.find("{", end)


def _repair(text: str) -> dict[str, Any] | None:
    """Repair the text from the first brace to the last. What was cut off behind it stays lost; nothing is made up for it."""
    from json_repair import repair_json

    start, end = text.find("{"), text.rfind("}") + 1
    if not 0 <= start < end or end - start > MAX_REPAIR_CHARS:
        return None
    depths = accumulate(1 if char in "{[" else -1 for char in text[start:end] if char in "{[]}")  # quoted brackets included
    if max(depths, default=0) > MAX_OPEN_BRACKETS:
        return None
    try:
        repaired = repair_json(text[start:end], return_objects=True, skip_json_loads=True)
    except (ValueError, RecursionError):
        return None
    return repaired if isinstance(repaired, dict) and repaired else None
