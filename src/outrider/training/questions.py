"""Questions with known answers: a query and the records that answer it.

For training, the query is a record's title and the answer its body, or the query is one sentence and the answer the rest. The text of
the query is removed from the right answer, and a corresponding part from each wrong one: otherwise the gap would reveal the right answer.
People do not type whole sentences, so two thirds of these queries lose words.

For evaluation, known items are queries made from records, whose right answer is the record itself. They replace human judgements
(Azzopardi, de Rijke and Balog, SIGIR 2007). A title used as a query is removed from the searched record: otherwise it matches itself, and
no reranker can improve on that. A few words are not removed, because other records match them, too. Whole sentences as queries, removed
in the same way, gave misleading results: adjacent sentences are similar rather than relevant, which favours similarity models.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from outrider.distiller.units import sentence_spans
from outrider.state.records import Record
from outrider.state.reranking import READ_CHARS, make_reranker_text
from outrider.text.words import STOP_WORDS, content_words, words

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
