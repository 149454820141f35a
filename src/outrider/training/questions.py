"""Questions with known answers: a query and the records that answer it.

For training, the query is a record's title and the answer its body, or the query is one sentence and the answer the rest. The text of
the query is removed from the right answer, and a corresponding part from each wrong one: otherwise the gap would reveal the right answer.
People do not type whole sentences, so two thirds of these queries lose words.

For evaluation, known items are queries made from records, whose right answer is the record itself. They replace human judgements
(Azzopardi, de Rijke and Balog, SIGIR 2007). A title used as a query is removed from the searched record: otherwise it matches itself, and
no reranker can improve on that. A few words are not removed, because other records match them, too. Whole sentences as queries, removed
in the same way, gave misleading results: adjacent sentences are similar rather than relevant, which favours similarity models.

Questions come from a library's records, its citations and human judgements. Records are read in one pass, and only a sample is held in
memory.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from outrider.library.record_table import chunk_ids
from outrider.state.filters import Compare
from outrider.state.records import Record
from outrider.state.reranking import READ_CHARS, make_reranker_text
from outrider.text.sentences import sentence_spans
from outrider.text.words import STOP_WORDS, content_words, words

if TYPE_CHECKING:
    from outrider.library.library import Library

QuestionKind = Literal["title", "sentence", "citation", "judgement"]

MIN_BODY_CHARS = 100
MIN_TITLE_WORDS = 3
MIN_SENTENCE_WORDS = 6
MIN_SENTENCES = 3
KEPT_WORDS = 0.7
KEYWORDS = (4, 8)
Kind = Literal["title", "words of a title", "words of a sentence"]
KINDS: tuple[Kind, ...] = ("title", "words of a title", "words of a sentence")
"""Kinds of queries, used in turn."""
FIELDS = ("abstract", "description", "text")
"""Fields that sentences are taken from: the first that has any."""
MIN_WORDS = 4
"""Content words of a title or sentence; with fewer it is not specific to a record."""
QUERY_WORDS = 3
MIN_REST = 20
"""Words that must remain in a record without the query."""
MARKS = ".,;:!?()[]{}\"'“”‘’"


@dataclass(frozen=True, slots=True)
class Question:
    query: str
    kind: QuestionKind
    source: str
    """The id of the record that the query was made from; for a judgement the query itself."""
    relevance: Mapping[str, int]
    """By record id; 0 for a record judged not relevant."""
    excluded: frozenset[str] = frozenset()
    """Ids that must not be used as wrong answers, although they are not labelled as right."""
    source_text: str = field(default="", repr=False)
    """The words of the source that the query was made from."""


def make_questions(record: Record, seed: int) -> list[Question]:
    """Questions that `record` answers, in an order that depends on the seed and its id; none for too little text."""
    rng = make_generator(seed, "known item", record.doc_id)
    body = read_body(record)
    if len(body) < MIN_BODY_CHARS:
        return []
    sources: list[tuple[QuestionKind, str]] = []
    sentences = [body[start:end] for start, end in sentence_spans(body)]
    if len(sentences) >= MIN_SENTENCES:
        sources += [("sentence", sentence) for sentence in sentences if len(content_words(sentence)) >= MIN_SENTENCE_WORDS]
        rng.shuffle(sources)
    if len(content_words(record.title)) >= MIN_TITLE_WORDS:
        sources.insert(rng.randrange(2), ("title", record.title))
    relevance = {record.doc_id: 1}
    return [Question(degrade_query(words, rng), kind, record.doc_id, relevance, source_text=words) for kind, words in sources]


def degrade_query(text: str, rng: random.Random) -> str:
    """One of three with equal probability: the whole text, the text without some words, or a few of its content words."""
    style = rng.randrange(3)
    words = text.split() if style < 2 else content_words(text)
    if style == 1:
        words = [word for word in words if rng.random() < KEPT_WORDS] or words
    if style == 2:
        positions = sorted(rng.sample(range(len(words)), min(len(words), rng.randint(*KEYWORDS))))
        words = [words[at] for at in positions]
    return " ".join(words).rstrip(".")


def make_passage(record: Record, question: Question, rng: random.Random) -> str:
    """The text of a record that is compared with the query: title and body without the part that corresponds to the query's source."""
    body = read_body(record)
    if question.kind == "title":
        return body.replace(record.title, "", 1).strip() if record.title else body
    if question.kind == "sentence":
        at, spans = body.find(question.source_text), sentence_spans(body)
        if at >= 0 or len(spans) >= 2:  # a single sentence is not removed
            start, end = (at, at + len(question.source_text)) if at >= 0 else spans[rng.randrange(len(spans))]
            body = f"{body[:start]}{body[end:]}".replace("  ", " ").strip()
        return f"{record.title}\n\n{body}".strip()
    return make_reranker_text(record)


def read_body(record: Record) -> str:
    """The first `READ_CHARS` characters of a record's text; rerankers read no more."""
    return record.full_text()[:READ_CHARS]


def is_same_text(first: Record, second: Record) -> bool:
    """Whether two records have the same text, so that neither can be a wrong answer if the other is right."""
    if first.doc_id == second.doc_id:
        return True
    titles = [" ".join(content_words(record.title)) for record in (first, second)]
    return (bool(titles[0]) and titles[0] == titles[1]) or (bool(read_body(first)) and read_body(first) == read_body(second))


def make_generator(seed: int, *purpose: str) -> random.Random:
    """A random generator that depends only on the seed and the purpose."""
    return random.Random(_digest(seed, *purpose))  # noqa: S311  # reproducible, no secret


def draw_number(seed: int, *purpose: str) -> float:
    """A number in [0, 1) that depends only on the seed and the purpose."""
    return (_digest(seed, *purpose) >> 75) / 2**53


def _digest(seed: int, *purpose: str) -> int:
    return int.from_bytes(hashlib.blake2b("\x1f".join((str(seed), *purpose)).encode("utf-8", "replace"), digest_size=16).digest())


@dataclass(frozen=True, slots=True)
class KnownItem:
    """A query made from a record, and the record to find."""

    query: str
    kind: Kind
    record: Record
    """The record to index: without its title if that is the query."""


def known_items(records: Sequence[Record], count: int, seed: int) -> list[KnownItem]:
    """At most `count` items, one per record, of each kind in turn; the same for the same records and seed."""
    draw = random.Random(seed)  # noqa: S311 - a sample, no secret
    items: list[KnownItem] = []
    for record in draw.sample(records, len(records)):
        if len(items) == count:
            break
        first = len(items) % len(KINDS)
        candidates = (_make_item(kind, record, draw) for kind in (*KINDS[first:], *KINDS[:first]))
        items += [item for item in [next(filter(None, candidates), None)] if item]
    return items


def _make_item(kind: Kind, record: Record, draw: random.Random) -> KnownItem | None:
    match kind:
        case "title":
            query, rest = record.title if _is_specific(record.title) else "", record.model_copy(update={"title": ""})
        case "words of a title":
            query, rest = _some_words(record.title, draw), record
        case "words of a sentence":
            texts: list[str] = [getattr(record, field) for field in FIELDS]
            candidates = ([text[start:end] for start, end in sentence_spans(text) if _is_specific(text[start:end])] for text in texts)
            sentences = next(filter(None, candidates), [])
            query, rest = _some_words(draw.choice(sentences), draw) if sentences else "", record
    enough = query and len(words(f"{rest.title} {rest.full_text()}")) >= MIN_REST
    return KnownItem(query, kind, rest) if enough else None


def _some_words(text: str, draw: random.Random) -> str:
    """`QUERY_WORDS` content words of the text, as written and in order; empty if the text has too few."""
    candidates = [run.strip(MARKS) for run in text.split() if _list_content_words(run)]
    if not _is_specific(text) or len(candidates) < QUERY_WORDS:
        return ""
    return " ".join(candidates[at] for at in sorted(draw.sample(range(len(candidates)), QUERY_WORDS)))


def _is_specific(text: str) -> bool:
    return len(_list_content_words(text)) >= MIN_WORDS


def _list_content_words(text: str) -> list[str]:
    return [word for word in words(text) if word not in STOP_WORDS]


CITES = "cites"
COLUMNS = ("doi", "pmid", "arxiv")
"""Identifiers that have a column in the library."""
CITED_EACH = 3
"""Maximum number of questions from the citations of one record, so that a long review does not dominate."""
KNOWN_EACH = 4


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
    by_identifier = await find_by_identifier(library, values_by_scheme)
    record_ids = {target: doc_ids[0] for target, doc_ids in by_identifier.items()}
    async for record in _iter_records(library, values_by_scheme.get("doc", [])):
        record_ids[f"doc:{record.doc_id}"] = record.doc_id
    return record_ids


async def find_by_identifier(library: Library, values_by_scheme: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Ids of the records with each of these DOIs, PMIDs and arXiv numbers that the library has, by `scheme:value`."""
    record_ids: dict[str, list[str]] = {}
    for scheme in (scheme for scheme in COLUMNS if scheme in values_by_scheme):
        for values in chunk_ids(values_by_scheme[scheme]):
            for record in await library.page(Compare(scheme, "$in", tuple(values)), limit=4 * len(values)):
                record_ids.setdefault(f"{scheme}:{getattr(record.identifiers, scheme)}", []).append(record.doc_id)
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
