"""Questions whose answer is known: a query, and the records that answer it.

For training, a record's title asks for its body, and a sentence of it asks for the rest. What the query was taken from is removed from
every text it is compared with, the right one and the wrong ones: otherwise the gap itself would tell them apart. People do not type
whole sentences, so that two thirds of these queries lose words.

For evaluation, known items are queries made from records, whose right answer is the record itself. They stand in for human judgements
(Azzopardi, de Rijke and Balog, SIGIR 2007). A whole title is removed from the searched record: otherwise it matches itself, and any
reranker could only do harm. A few words are left in, since other records match them too. Whole sentences, removed likewise, were tried
and mislead: their neighbours are similar rather than relevant, which favours similarity models.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from outrider.state.records import Record
from outrider.state.reranking import READ_CHARS, make_reranker_text
from outrider.text.sentences import sentence_spans
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
"""What asks, in turn."""
FIELDS = ("abstract", "description", "text")
"""Where sentences are taken from: the first that holds any."""
MIN_WORDS = 4
"""Words that say something, in a title or sentence: with fewer it names no record in particular."""
ASKED_WORDS = 3
MIN_REST = 20
"""Words of what is left of a record."""
MARKS = ".,;:!?()[]{}\"'“”‘’"


@dataclass(frozen=True, slots=True)
class Question:
    query: str
    kind: QuestionKind
    source: str
    """The id of the record that the query was made from; the query itself where a person judged."""
    relevance: Mapping[str, int]
    """By id; 0 for what a person judged not relevant."""
    excluded: frozenset[str] = frozenset()
    """Ids that must not stand among the wrong answers, though nobody calls them right."""
    source_text: str = field(default="", repr=False)
    """The words of the source that the query was made from."""


def make_questions(record: Record, seed: int) -> list[Question]:
    """Questions that `record` answers, in an order drawn from the seed and its id; none where it holds too little text."""
    rng = make_generator(seed, "known item", record.doc_id)
    body = read_body(record)
    if len(body) < MIN_BODY_CHARS:
        return []
    taken: list[tuple[QuestionKind, str]] = []
    sentences = [body[start:end] for start, end in sentence_spans(body)]
    if len(sentences) >= MIN_SENTENCES:
        taken += [("sentence", sentence) for sentence in sentences if len(content_words(sentence)) >= MIN_SENTENCE_WORDS]
        rng.shuffle(taken)
    if len(content_words(record.title)) >= MIN_TITLE_WORDS:
        taken.insert(rng.randrange(2), ("title", record.title))
    relevance = {record.doc_id: 1}
    return [Question(degrade_query(words, rng), kind, record.doc_id, relevance, source_text=words) for kind, words in taken]


def degrade_query(text: str, rng: random.Random) -> str:
    """The text as it is, with words left out, or a few of its content words: each as often as the others."""
    style = rng.randrange(3)
    words = text.split() if style < 2 else content_words(text)
    if style == 1:
        words = [word for word in words if rng.random() < KEPT_WORDS] or words
    if style == 2:
        kept = sorted(rng.sample(range(len(words)), min(len(words), rng.randint(*KEYWORDS))))
        words = [words[at] for at in kept]
    return " ".join(words).rstrip(".")


def make_passage(record: Record, question: Question, rng: random.Random) -> str:
    """What of a record is compared with the query: title and body, less what corresponds to the part the query was made from."""
    body = read_body(record)
    if question.kind == "title":
        return body.replace(record.title, "", 1).strip() if record.title else body
    if question.kind == "sentence":
        at, spans = body.find(question.source_text), sentence_spans(body)
        if at >= 0 or len(spans) >= 2:  # else the only sentence stays
            start, end = (at, at + len(question.source_text)) if at >= 0 else spans[rng.randrange(len(spans))]
            body = f"{body[:start]}{body[end:]}".replace("  ", " ").strip()
        return f"{record.title}\n\n{body}".strip()
    return make_reranker_text(record)


def read_body(record: Record) -> str:
    """The first `READ_CHARS` characters of a record's text, which is all that rerankers read."""
    return record.full_text()[:READ_CHARS]


def is_same_text(first: Record, second: Record) -> bool:
    """Whether two ids stand for one text, so that neither is a wrong answer where the other is right."""
    if first.doc_id == second.doc_id:
        return True
    titles = [" ".join(content_words(record.title)) for record in (first, second)]
    return (bool(titles[0]) and titles[0] == titles[1]) or (bool(read_body(first)) and read_body(first) == read_body(second))


def make_generator(seed: int, *purpose: str) -> random.Random:
    """Random numbers that depend on the seed and the purpose alone, whatever was drawn before."""
    return random.Random(_digest(seed, *purpose))  # noqa: S311  # reproducible, no secret


def draw_number(seed: int, *purpose: str) -> float:
    """A number in [0, 1) that depends on the seed and the purpose alone."""
    return (_digest(seed, *purpose) >> 75) / 2**53


def _digest(seed: int, *purpose: str) -> int:
    return int.from_bytes(hashlib.blake2b("\x1f".join((str(seed), *purpose)).encode("utf-8", "replace"), digest_size=16).digest())


@dataclass(frozen=True, slots=True)
class KnownItem:
    query: str
    kind: Kind
    record: Record
    """As it is to be searched for: without the title where that asks."""


def known_items(records: Sequence[Record], count: int, seed: int) -> list[KnownItem]:
    """At most `count` items, one a record, of each kind in turn, drawn by `seed`; the same for the same records and seed."""
    draw = random.Random(seed)  # noqa: S311 - a sample, no secret
    items: list[KnownItem] = []
    for record in draw.sample(records, len(records)):
        if len(items) == count:
            break
        first = len(items) % len(KINDS)
        made = (_make_item(kind, record, draw) for kind in (*KINDS[first:], *KINDS[:first]))
        items += [item for item in [next(filter(None, made), None)] if item]
    return items


def _make_item(kind: Kind, record: Record, draw: random.Random) -> KnownItem | None:
    match kind:
        case "title":
            query, rest = record.title if _says_enough(record.title) else "", record.model_copy(update={"title": ""})
        case "words of a title":
            query, rest = _some_words(record.title, draw), record
        case "words of a sentence":
            texts: list[str] = [getattr(record, field) for field in FIELDS]
            candidates = ([text[start:end] for start, end in sentence_spans(text) if _says_enough(text[start:end])] for text in texts)
            sentences = next(filter(None, candidates), [])
            query, rest = _some_words(draw.choice(sentences), draw) if sentences else "", record
    enough = query and len(words(f"{rest.title} {rest.full_text()}")) >= MIN_REST
    return KnownItem(query, kind, rest) if enough else None


def _some_words(text: str, draw: random.Random) -> str:
    """`ASKED_WORDS` of those that say something, as they are written, in their order; empty where the text says too little."""
    said = [run.strip(MARKS) for run in text.split() if _content(run)]
    if not _says_enough(text) or len(said) < ASKED_WORDS:
        return ""
    return " ".join(said[place] for place in sorted(draw.sample(range(len(said)), ASKED_WORDS)))


def _says_enough(text: str) -> bool:
    return len(_content(text)) >= MIN_WORDS


def _content(text: str) -> list[str]:
    return [word for word in words(text) if word not in STOP_WORDS]
