"""Labelled texts: queries with texts in which people have marked the answers.

Thresholds are fitted on them, and classifiers trained.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

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
    """Units that overlap an answer by at least half of the shorter of the two. `BadRequest` if there is none."""
    units = []
    for at, unit in enumerate(its.units):
        for first, last in one.answers:
            if 2 * (min(unit.end, last) - max(unit.start, first)) >= min(unit.end - unit.start, last - first) > 0:
                units.append(at)
                break
    if not units:
        raise BadRequest(f"the answers that are marked in {one.reading.doc_id} lie in no sentence of it; offsets are in characters")
    return units


def parse_labelled_lines(lines: Iterable[str]) -> list[LabelledText]:
    """One JSON object a line: `query`, `text`, `answers` as [[start, end], ...] or the answering sentences themselves; `id`, `title`.

    `BadRequest` with the number of a line that cannot be parsed.
    """
    cases = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            text, answers = str(entry["text"]), []
            for answer in entry["answers"]:
                quoted = isinstance(answer, str)
                start, end = (text.index(answer), text.index(answer) + len(answer)) if quoted else answer
                if not quoted and not 0 <= start < end <= len(text):
                    raise ValueError(answer)  # noqa: TRY301 - any bad value is a bad line
                answers.append((int(start), int(end)))
            reading = Reading(str(entry.get("id", number)), text, str(entry.get("title", "")))
            cases.append(LabelledText(str(entry["query"]), reading, tuple(answers)))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadRequest(f'line {number} is not of the form {{"query": ..., "text": ..., "answers": [[start, end], ...]}}') from error
    return cases
