"""Queries with texts whose answers people have marked: what thresholds are fitted on and classifiers trained on."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from outrider.distiller.units import SegmentedText
from outrider.state.distilling import Reading
from outrider.state.errors import BadRequest


@dataclass(frozen=True, slots=True)
class LabelledText:
    """`answers` are half-open character offsets into the text of `reading`."""

    query: str
    reading: Reading
    answers: tuple[tuple[int, int], ...]


def find_answering_units(its: SegmentedText, one: LabelledText) -> list[int]:
    """Units that share at least half of themselves, or half of an answer, with it. `BadRequest` where there is none."""
    found = [at for at, unit in enumerate(its.units) if any(_shares_half(unit.start, unit.end, *answer) for answer in one.answers)]
    if not found:
        raise BadRequest(f"the answers that are marked in {one.reading.doc_id} lie in no sentence of it; offsets are in characters")
    return found


def _shares_half(start: int, end: int, first: int, last: int) -> bool:
    return 2 * (min(end, last) - max(start, first)) >= min(end - start, last - first) > 0


def parse_labelled_lines(lines: Iterable[str]) -> list[LabelledText]:
    """One JSON object a line: `query`, `text`, `answers` as [[start, end], ...] or the answering sentences themselves; `id`, `title`.

    `BadRequest` with the number of the line that cannot be understood.
    """
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            said = json.loads(line)
            text = str(said["text"])
            answers = tuple(_span(text, answer) for answer in said["answers"])
            reading = Reading(str(said.get("id", number)), text, str(said.get("title", "")))
            query = str(said["query"])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadRequest(f'line {number} is not of the form {{"query": ..., "text": ..., "answers": [[start, end], ...]}}') from error
        found.append(LabelledText(query, reading, answers))
    return found


def _span(text: str, answer: Any) -> tuple[int, int]:
    if isinstance(answer, str):
        start = text.index(answer)
        return start, start + len(answer)
    start, end = answer
    if not 0 <= start < end <= len(text):
        raise ValueError(answer)
    return int(start), int(end)
