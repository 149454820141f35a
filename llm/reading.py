"""From what a model said to a value of the shape that was asked for. What is missing in it is never made up."""

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

THINKING = re.compile(r"<think>.*?</think>", re.DOTALL)
MOST_REPAIRED = 30_000
"""Characters; a longer text that is no JSON is not worth the time of its repair, for which all other calls wait."""
MOST_OPEN = 20
"""Brackets open at once in what is repaired: 20,000 of them take json-repair seconds."""
MOST_STARTS = 50
"""Braces at which an object is looked for."""
MOST_SAID = 300


@dataclass(frozen=True, slots=True)
class Unusable:
    """Why an answer is none, in words for the model and for people; `follows` where it shows that the schema had reached the model."""

    why: str
    follows: bool = False


@dataclass(frozen=True, slots=True)
class Usable(Generic[Shape]):
    value: Shape


def read(said: str | dict[str, Any], shape: type[Shape]) -> Usable[Shape] | Unusable:
    """The last object in the text that fits the shape; JSON that a machine can repair is repaired."""
    problem = Unusable("the answer is empty" if not said else "the answer holds no JSON object")
    for found in _objects(said):
        checked = _checked(found, shape)
        if isinstance(checked, Usable):
            return checked
        problem = checked
    return problem


def _checked(found: dict[str, Any], shape: type[Shape]) -> Usable[Shape] | Unusable:
    try:
        return Usable(shape.model_validate(found))
    except ValidationError as error:
        told = "; ".join(f"{'.'.join(map(str, one['loc'])) or 'the object'}: {one['msg']}" for one in error.errors(include_input=False))
        required = {name for name, field in shape.model_fields.items() if field.is_required()} or set(shape.model_fields)
        return Unusable(told if len(told) <= MOST_SAID else f"{told[:MOST_SAID]}...", follows=required <= found.keys())


def _objects(said: str | dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Objects in the text, the last first; then what its repair gives."""
    if isinstance(said, dict):
        yield said
        return
    text = THINKING.sub("", said)
    yield from reversed(list(_in_text(text)))
    repaired = _repaired(text)
    if repaired is not None:
        yield repaired


def _in_text(text: str) -> Iterator[dict[str, Any]]:
    decoder, start = json.JSONDecoder(parse_constant=_no_number), text.find("{")
    for _ in range(MOST_STARTS):
        if start < 0:
            return
        try:
            found, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            yield found
        start = text.find("{", end)


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _repaired(text: str) -> dict[str, Any] | None:
    """From the first brace to the last: what was cut off after it is lost, and nothing is put in its place."""
    from json_repair import repair_json

    start, end = text.find("{"), text.rfind("}") + 1
    if not 0 <= start < end or end - start > MOST_REPAIRED or _deepest(text[start:end]) > MOST_OPEN:
        return None
    try:
        found = repair_json(text[start:end], return_objects=True, skip_json_loads=True)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found else None


def _deepest(text: str) -> int:
    """Of brackets, those in quotations included."""
    return max(accumulate(1 if char in "{[" else -1 for char in text if char in "{[]}"), default=0)
