"""From what a model said to a value of the shape that was asked for. What is missing in it is never made up.

A model may quote what it was shown, and that may have the form of an answer: of two that differ nobody can say which is its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from outrider.state.model import Model

Shape = TypeVar("Shape", bound=Model)

THINKING = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
BRACE = re.compile(r"[{}]")
MAX_REPAIR_CHARS = 30_000
"""Characters; a longer text that is no JSON is not worth the time of its repair, for which all other calls wait."""
MAX_OPEN_BRACKETS = 20
"""Brackets open at once in what is repaired: 20,000 of them take json-repair seconds."""
MAX_STARTS = 50
"""Braces at which an object is looked for."""
MAX_PROBLEM_CHARS = 300


@dataclass(frozen=True, slots=True)
class UnusableAnswer:
    """Why an answer is none, in words for the model and for people; `follows` where it shows that the schema had reached the model."""

    why: str
    follows_schema: bool = False


@dataclass(frozen=True, slots=True)
class ParsedAnswer(Generic[Shape]):
    value: Shape


AMBIGUOUS = UnusableAnswer("it holds two different objects of that form; say one, and quote none", follows_schema=True)


def parse_answer(said: str | dict[str, Any], shape: type[Shape]) -> ParsedAnswer[Shape] | UnusableAnswer:
    """The object in the text that fits the shape; JSON that a machine can repair is repaired. Two that fit and differ are unusable."""
    if isinstance(said, dict):
        return _checked(said, shape)
    text = THINKING.sub("", said)
    found = [(_checked(one, shape), start, end) for one, start, end in _objects(text)]
    fitting = [(start, end) for one, start, end in found if isinstance(one, ParsedAnswer)]
    rests = (text[: fitting[0][0]], text[max(end for _, end in fitting) :]) if fitting else (text,)
    mended = [_checked(one, shape) for rest in rests if (one := _repaired(rest))]
    return _one_of([*(one for one, *_ in found), *mended]) or UnusableAnswer(
        "the answer holds no JSON object" if said else "the answer is empty"
    )


def _one_of(every: Sequence[ParsedAnswer[Shape] | UnusableAnswer]) -> ParsedAnswer[Shape] | UnusableAnswer | None:
    """The one that fits, or why none does; None of none."""
    fitting = [one for one in every if isinstance(one, ParsedAnswer)]
    if fitting:
        return fitting[0] if all(one == fitting[0] for one in fitting) else AMBIGUOUS
    problems = [one for one in every if isinstance(one, UnusableAnswer)]
    return next((one for one in problems if one.follows_schema), problems[-1] if problems else None)


def _checked(found: dict[str, Any], shape: type[Shape]) -> ParsedAnswer[Shape] | UnusableAnswer:
    try:
        return ParsedAnswer(shape.model_validate(found))
    except ValidationError as error:
        told = "; ".join(f"{'.'.join(map(str, one['loc'])) or 'the object'}: {one['msg']}" for one in error.errors(include_input=False))
        required = {name for name, field in shape.model_fields.items() if field.is_required()} or set(shape.model_fields)
        return UnusableAnswer(
            told if len(told) <= MAX_PROBLEM_CHARS else f"{told[:MAX_PROBLEM_CHARS]}...", follows_schema=required <= found.keys()
        )


def _objects(text: str) -> Iterator[tuple[dict[str, Any], int, int]]:
    """Objects in the text, in order, with their places; one that is no JSON but ends with its brace as its repair gives it."""
    decoder, closed = json.JSONDecoder(parse_constant=_no_number), _closed(text)
    start, mended = text.find("{"), 0
    for _ in range(MAX_STARTS):
        if start < 0:
            return
        try:
            found, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = start + 1
            if start >= mended and start in closed:
                mended = closed[start]
                if repaired := _repaired(text[start:mended]):
                    yield repaired, start, mended
        else:
            yield found, start, end
        start = text.find("{", end)


def _closed(text: str) -> dict[int, int]:
    """Where each brace is closed, those in quotations included; nothing of a text that is too long to be repaired."""
    opened: list[int] = []
    closed: dict[int, int] = {}
    for found in BRACE.finditer(text if len(text) <= MAX_REPAIR_CHARS else ""):
        if found.group() == "{":
            opened.append(found.start())
        elif opened:
            closed[opened.pop()] = found.end()
    return closed


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _repaired(text: str) -> dict[str, Any] | None:
    """From the first brace to the last: what was cut off after it is lost, and nothing is put in its place."""
    from json_repair import repair_json

    start, end = text.find("{"), text.rfind("}") + 1
    if not 0 <= start < end or end - start > MAX_REPAIR_CHARS or _deepest(text[start:end]) > MAX_OPEN_BRACKETS:
        return None
    try:
        found = repair_json(text[start:end], return_objects=True, skip_json_loads=True)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found else None


def _deepest(text: str) -> int:
    """Of brackets, those in quotations included."""
    return max(accumulate(1 if char in "{[" else -1 for char in text if char in "{[]}"), default=0)
