"""Questions from a library's records, its citations and human judgements.

Judgements are JSONL: `{"query": "...", "doc_id": "...", "relevance": 0}`; 0 means not relevant, higher values are more
relevant. Records are read in one pass, and only a sample is held in memory.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field, ValidationError

from outrider.library.record_table import chunk_ids
from outrider.state.errors import BadRequest
from outrider.state.filters import Compare
from outrider.state.model import Model
from outrider.state.records import Record
from outrider.training.questions import Question, draw_number, make_questions, read_body

if TYPE_CHECKING:
    from outrider.library.library import Library

MOST_PROBLEMS = 5
EXAMPLE = '{"query": "aspirin and the liver", "doc_id": "...", "relevance": 1}'
CITES = "cites"
COLUMNS = ("doi", "pmid", "arxiv")
"""Identifiers that have a column in the library."""
CITED_EACH = 3
"""Maximum number of questions from the citations of one record, so that a long review does not dominate."""
KNOWN_EACH = 4


class Judgement(Model):
    """A line of a judgement file: the relevance of a record for a query, as judged by a person."""

    query: str = Field(min_length=1)
    doc_id: str = Field(min_length=1)
    relevance: int = Field(ge=0, le=100, strict=True)


def read_judgements(path: Path) -> dict[str, dict[str, int]]:
    """Relevance by query and id, in the order of the file; for a repeated pair the later judgement counts.

    Raises `BadRequest`, which lists the first invalid lines as file:line.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")  # not splitlines: JSON strings may contain other line separators
    except OSError as error:
        raise BadRequest(f"the judgements {path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadRequest(f"the judgements {path} are not UTF-8 text; save them as JSONL in UTF-8, lines such as {EXAMPLE}") from error
    judged: dict[str, dict[str, int]] = {}
    problems: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            judgement = Judgement.model_validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            problems.append(f"{path}:{number}: " + (f"{where}: {first['msg']}" if where else first["msg"]))
        else:
            judged.setdefault(" ".join(judgement.query.split()), {})[judgement.doc_id] = judgement.relevance
    if problems:
        more = f" (and {len(problems) - MOST_PROBLEMS:,} more)" if len(problems) > MOST_PROBLEMS else ""
        raise BadRequest("; ".join(problems[:MOST_PROBLEMS]) + more + f". A line is for example {EXAMPLE}")
    if not judged:
        raise BadRequest(f"{path} holds no judgement; write lines such as {EXAMPLE}")
    return judged


@dataclass(frozen=True, slots=True)
class SampledRecords:
    """Records in an order that depends on the seed: sources of questions and of random wrong answers."""

    records: tuple[Record, ...]
    citing: tuple[Record, ...]


async def sample_records(library: Library, count: int, seed: int) -> SampledRecords:
    """Up to `count` records with text and up to `count` with citations, sampled uniformly; the same for the same seed."""
    some = _Lowest(count)
    citing = _Lowest(count)
    async for record in library.scan():
        place = draw_number(seed, "record", record.doc_id)
        if read_body(record):
            some.offer(place, record)
        if record.title and any(edge.relation == CITES for edge in record.edges):
            citing.offer(place, record)
    return SampledRecords(some.in_order(), citing.in_order())


def make_known_item_questions(records: Sequence[Record], seed: int) -> Iterator[Question]:
    """One question of each record, then a second one of each, and so on."""
    questions_by_record = [make_questions(record, seed)[:KNOWN_EACH] for record in records]
    for turn in range(KNOWN_EACH):
        for questions in questions_by_record:
            yield from questions[turn : turn + 1]


async def make_citation_questions(library: Library, citing: Sequence[Record], seed: int) -> list[Question]:
    """Questions whose query is a title and whose answers are the records that it cites, if the library has them."""
    known_ids = await _find_targets(library, [edge.target for record in citing for edge in record.edges if edge.relation == CITES])
    questions: list[Question] = []
    for record in citing:
        targets = [known_ids.get(edge.target, "") for edge in record.edges if edge.relation == CITES]
        cited = sorted({doc_id for doc_id in targets if doc_id and doc_id != record.doc_id})
        chosen = sorted(cited, key=lambda doc_id: (draw_number(seed, "citation", record.doc_id, doc_id), doc_id))[:CITED_EACH]
        excluded = frozenset({record.doc_id, *cited})
        questions += [Question(record.title, "citation", record.doc_id, {doc_id: 1}, excluded) for doc_id in chosen]
    return questions


async def make_judged_questions(library: Library, judgements: Mapping[str, Mapping[str, int]]) -> tuple[list[Question], list[str]]:
    """Questions with at least one relevant record, and the sorted ids that the library does not have."""
    named = sorted({doc_id for relevance in judgements.values() for doc_id in relevance})
    present = {record.doc_id async for record in _iter_records(library, named)}
    questions = [
        Question(query, "judgement", query, {doc_id: value for doc_id, value in relevance.items() if doc_id in present})
        for query, relevance in judgements.items()
    ]
    return [one for one in questions if any(one.relevance.values())], [doc_id for doc_id in named if doc_id not in present]


@dataclass(frozen=True, slots=True)
class Split:
    """Questions for training and questions held out for evaluation."""

    train: tuple[Question, ...]
    held_out: tuple[Question, ...]


def split_by_source(questions: Iterable[Question], share: float, seed: int) -> Split:
    """Split by source: no record is the source or answer of both a training and a held-out question.

    The side of a judged query depends on its words. Known items and citations of judged records are dropped, and so are citations
    between the two sides.
    """
    every = list(questions)
    judged_ids = {doc_id for one in every if one.kind == "judgement" for doc_id in one.relevance}
    train: list[Question] = []
    held_out: list[Question] = []
    for one in every:
        ends = {one.source} if one.kind == "judgement" else {one.source, *one.relevance}
        if one.kind != "judgement" and ends & judged_ids:
            continue
        sides = {draw_number(seed, "held out", end) < share for end in sorted(ends)}
        if len(sides) == 1:
            (held_out if sides.pop() else train).append(one)
    return Split(tuple(train), tuple(held_out))


async def _find_targets(library: Library, targets: Sequence[str]) -> dict[str, str]:
    """The record id of each target (`doi:...`, `pmid:...`, `arxiv:...`, `doc:...`) that the library has."""
    values_by_scheme: dict[str, list[str]] = {}
    for target in dict.fromkeys(targets):
        scheme, _, value = target.partition(":")
        values_by_scheme.setdefault(scheme, []).append(value)
    record_ids: dict[str, str] = {}
    for scheme in (scheme for scheme in COLUMNS if scheme in values_by_scheme):
        for values in chunk_ids(values_by_scheme[scheme]):
            for record in await library.page(Compare(scheme, "$in", tuple(values)), limit=4 * len(values)):
                record_ids.setdefault(f"{scheme}:{getattr(record.identifiers, scheme)}", record.doc_id)
    async for record in _iter_records(library, values_by_scheme.get("doc", [])):
        record_ids[f"doc:{record.doc_id}"] = record.doc_id
    return record_ids


async def _iter_records(library: Library, doc_ids: Sequence[str]) -> AsyncIterator[Record]:
    for chunk in chunk_ids(doc_ids):
        for record in await library.fetch(chunk):
            yield record


class _Lowest:
    """The records with the lowest numbers of all that are offered. Bodies are cut to the part that is used."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._heap: list[tuple[float, str, Record]] = []

    def offer(self, place: float, record: Record) -> None:
        entry = (-place, record.doc_id, record.model_copy(update={"text": record.text[: len(read_body(record))]}))
        if len(self._heap) < self._count:
            heapq.heappush(self._heap, entry)
        elif self._heap and entry[:2] > self._heap[0][:2]:
            heapq.heapreplace(self._heap, entry)

    def in_order(self) -> tuple[Record, ...]:
        return tuple(record for _, _, record in sorted(self._heap, key=lambda entry: (-entry[0], entry[1])))
