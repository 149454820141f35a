"""Known items: queries made from records, whose right answer is the record itself.

They stand in for human judgements (Azzopardi, de Rijke and Balog, SIGIR 2007). A whole title is hidden from the searched record: left
in, it matches itself, and any reranker could only do harm. A few words are left in, since other records match them too. Whole
sentences, hidden likewise, were tried and mislead: their neighbours are similar rather than relevant, which favours similarity models.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from outrider.state.records import Record
from outrider.text.sentences import sentence_spans
from outrider.text.words import STOP_WORDS, words

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
            query, rest = _some_words(_sentence(record, draw), draw), record
    enough = query and len(words(f"{rest.title} {rest.full_text()}")) >= MIN_REST
    return KnownItem(query, kind, rest) if enough else None


def _sentence(record: Record, draw: random.Random) -> str:
    """One that says enough; empty where there is none."""
    texts: list[str] = [getattr(record, field) for field in FIELDS]
    for text in texts:
        long = [text[start:end] for start, end in sentence_spans(text) if _says_enough(text[start:end])]
        if long:
            return draw.choice(long)
    return ""


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
