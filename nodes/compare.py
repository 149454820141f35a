"""Differences between works: sentences of one text with words that the others lack.

Rules choose them; a model may describe them, in sentences that are checked.

A rule sees words, not meaning. What it selects says "its text has words that the other texts have in no form", and nothing about what the
other works can do. Every sentence is a verbatim piece of a text, with its offsets.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from pydantic import JsonValue

from outrider.distiller.units import SegmentedText, segment_text
from outrider.nodes.answer.answer import DraftAnswer, describe_works
from outrider.nodes.answer.check import SourceUnit, check_answer
from outrider.prompts import Prompt, fence
from outrider.state.chat import Budget, Chat, ChatRequest
from outrider.state.comparison import Difference, Quote
from outrider.state.distilling import Reading
from outrider.state.records import Record, Repository
from outrider.state.response import ContextUnit
from outrider.text.injection import suspicious
from outrider.text.sanitize import without_control
from outrider.text.words import content_words, stem, stems

STEP = "compare"
MAX_EACH = 5
"""Differences of one work."""
MIN_WORDS, MAX_WORDS = 5, 60
MIN_UNMENTIONED, MIN_SHARE = 2, 0.25
"""Words that the other texts lack, and their share of a sentence's content words: one new word may be a synonym."""
SAME_BEGINNING, SAME_SHARE = 6, 0.8
"""Letters, and their share of the longer word, with which two words begin that count as forms of one."""
MIN_LETTERS = 0.6
"""Share of letters and blanks: what has fewer is a command, a table or a link."""
MAX_SHOWN_WORDS, MIN_STEM = 8, 3
MAX_UNITS_EACH = 20
TOKENS_OVERHEAD, TOKENS_PER_SENTENCE = 100, 120
REQUEST_CHARS = 1_000
LINK = re.compile(r"https?://|www\.")
ASIDE = re.compile(
    r"\W*(?:licen[cs]e|copyright|install\w*|contribut\w*|acknowledge?ments?|authors?|references|changelog|"
    r"funding|sponsors?|badges?|code of conduct)\b.*",
    re.IGNORECASE,
)
"""Sections that say nothing about what a work does."""
CUE = re.compile(
    r"\b(?:supports?|provides?|offers?|includes?|allows?|enables?|lets?|can|handles?|implements?|refuses?|without|"
    r"we (?:show|find|found|propose|present|introduce|report)|shows?|showed|increased?|reduced?|randomi[sz]ed)\b",
    re.IGNORECASE,
)
"""Words with which texts state what a work does or finds."""
CUE_WEIGHT = 1.3


def plain_stem(word: str) -> str:
    """The stem without accents: one writes naïve, another naive."""
    if not word.isascii():
        word = "".join(char for char in unicodedata.normalize("NFKD", word) if not unicodedata.combining(char))
    return stem(word)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words of a text, in the forms under which another text may name the same thing."""

    forms: frozenset[str]
    """Stems, also of two words in sequence as one: `auto-reconnect` is `autoreconnect`, and `web sockets` are `WebSockets`."""
    beginnings: Mapping[str, frozenset[str]]
    """The forms by their first letters: the stemmer knows English, and only its regular forms."""

    @classmethod
    def read(cls, *texts: str) -> Vocabulary:
        forms: set[str] = set()
        for text in texts:
            every = content_words(text)
            forms.update(map(plain_stem, every), map(plain_stem, map("".join, pairwise(every))))
        beginnings: dict[str, set[str]] = {}
        for form in forms:
            if len(form) >= SAME_BEGINNING:
                beginnings.setdefault(form[:SAME_BEGINNING], set()).add(form)
        return cls(frozenset(forms), {beginning: frozenset(those) for beginning, those in beginnings.items()})

    def has(self, form: str) -> bool:
        """Whether the text has the word, or one that begins with four fifths of it: `Wiederholungen` and `Wiederholung`."""
        return form in self.forms or any(_begin_alike(form, other) for other in self.beginnings.get(form[:SAME_BEGINNING], ()))


def _begin_alike(one: str, other: str) -> bool:
    pairs = enumerate(zip(one, other, strict=False))
    shared = next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))
    return shared >= SAME_SHARE * max(len(one), len(other))


@dataclass(frozen=True, slots=True)
class ComparedText:
    """A work's text and all that is known about the work, as words."""

    key: str
    record: Record
    segmented: SegmentedText
    known: Vocabulary
    """Of its text, title, description, tags, authors and subject headings."""
    counts: Counter[str] = field(default_factory=Counter)

    @classmethod
    def read(cls, key: str, record: Record) -> ComparedText:
        segmented = segment_text(Reading(record.doc_id, record.full_text(), record.title, key))
        about = " ".join((record.title, record.description, record.abstract, record.language or "", *record.tags, *record.authors))
        counts = Counter(one for unit in segmented.stems() for one in unit)
        return cls(key, record, segmented, Vocabulary.read(record.full_text(), about), counts)


def find_unmentioned(text: str, others: Sequence[ComparedText], own: ComparedText) -> frozenset[str]:
    """Stems of a text's content words that none of the others has. The name of a repository is no feature, and
    neither is a word such as `supports`.
    """
    name = frozenset(stems(own.record.title)) if isinstance(own.record, Repository) else frozenset()
    every = content_words(text)
    joined = ["", *map("".join, pairwise(every)), ""]
    absent: set[str] = set()
    for at, word in enumerate(every):
        own_stem, form = stem(word), plain_stem(word)
        if len(own_stem) < MIN_STEM or own_stem.isdigit() or own_stem in name or CUE.fullmatch(word):
            continue
        with_neighbours = {plain_stem(pair) for pair in joined[at : at + 2] if pair}
        if not any(other.known.has(form) or not with_neighbours.isdisjoint(other.known.forms) for other in others):
            absent.add(own_stem)
    return frozenset(absent)


def list_words(text: str, wanted: frozenset[str]) -> tuple[str, ...]:
    """The words of a text with these stems, in its order, each once."""
    return tuple(dict.fromkeys(word for word in content_words(text) if stem(word) in wanted))[:MAX_SHOWN_WORDS]


def find_differences(own: ComparedText, others: Sequence[ComparedText], most: int = MAX_EACH) -> list[Difference]:
    """The sentences that tell most about what the other texts do not mention, each with something that those before it do not say.

    A word counts more if the text uses it often: what a work is about stands in more than one sentence.
    """
    plain = own.segmented.plain_texts()
    candidates = {at: find_unmentioned(plain[at], others, own) for at in _list_candidates(own.segmented)}
    candidates = {
        at: absent
        for at, absent in candidates.items()
        if len(absent) >= MIN_UNMENTIONED and len(absent) >= MIN_SHARE * len(set(own.segmented.stems()[at]))
    }
    covered: set[str] = set()
    chosen: list[Difference] = []
    while candidates and len(chosen) < most:
        at = min(candidates, key=lambda one: (-_weigh(own, one, candidates[one] - covered), one))
        absent = candidates.pop(at)
        if len(absent - covered) < MIN_UNMENTIONED:
            break
        covered |= absent
        unit = own.segmented.units[at]
        quote = Quote(start=unit.start, end=unit.end, text=own.segmented.text(at))
        words = list_words(plain[at], absent)
        chosen.append(Difference(key=own.key, doc_id=own.record.doc_id, quotes=(quote,), unmentioned=words))
    return chosen


def _weigh(own: ComparedText, at: int, absent: frozenset[str] | set[str]) -> float:
    size = max(1, len(set(own.segmented.stems()[at])))
    weight = sum(math.log1p(own.counts[one]) for one in absent) / math.sqrt(size)
    return weight * (CUE_WEIGHT if CUE.search(own.segmented.plain_texts()[at]) else 1.0)


def _list_candidates(segmented: SegmentedText) -> Iterator[int]:
    """The sentences that may state what a work does."""
    for at, unit in enumerate(segmented.units):
        text = segmented.text(at)
        letters = sum(char.isalpha() or char.isspace() for char in text)
        if (
            unit.kind not in ("code", "heading")
            and MIN_WORDS <= len(text.split()) <= MAX_WORDS
            and letters >= MIN_LETTERS * len(text)
            and not LINK.search(text)
            and not any(ASIDE.fullmatch(title) for title in unit.section)
            and not suspicious(text)
        ):
            yield at


@dataclass(frozen=True, slots=True)
class DescribeDifferences:
    """A model's sentences about the differences. Raises `ChatError`."""

    chat: Chat
    prompt: Prompt

    async def __call__(
        self,
        question: str,
        texts: Sequence[ComparedText],
        differences: Sequence[Difference],
        evidence: Sequence[ContextUnit],
        budget: Budget,
    ) -> tuple[list[Difference], int]:
        """Those that pass the checks, in the order of the works, and how many were removed."""
        units = list_units(texts, differences, evidence)
        if not units:
            return [], 0
        most = MAX_EACH * len(texts)
        data: JsonValue = {"request": " ".join(without_control(question).split())[:REQUEST_CHARS], "works": describe_works(units)}
        system = self.prompt.fill(max_sentences=str(most), max_each=str(MAX_EACH))
        request = ChatRequest(STEP, system, fence(data), TOKENS_OVERHEAD + TOKENS_PER_SENTENCE * most)
        drafts = (await self.chat.answer(request, DraftAnswer, budget)).sentences
        return check_differences([(draft.text, draft.citations) for draft in drafts], units, texts)


def list_units(texts: Sequence[ComparedText], differences: Sequence[Difference], evidence: Sequence[ContextUnit]) -> list[SourceUnit]:
    """The sentences that a model may read: those that differ, then those that answer. None of a work with instructions to a model in it."""
    units: list[SourceUnit] = []
    for text in texts:
        doc_id, title = text.record.doc_id, text.record.title
        spans = [(quote.start, quote.end) for one in differences if one.doc_id == doc_id for quote in one.quotes]
        spans += [(unit.start, unit.end) for unit in evidence if unit.doc_id == doc_id and unit.kind != "heading"]
        spans = list(dict.fromkeys(spans))[:MAX_UNITS_EACH]
        pieces = [text.segmented.reading.text[start:end] for start, end in spans]
        if any(map(suspicious, (title, *pieces, " ".join((title, *pieces))))):
            continue
        first = len(units) + 1
        units += [
            SourceUnit(f"u{first + at}", doc_id, text.key, start, end, piece, title)
            for at, ((start, end), piece) in enumerate(zip(spans, pieces, strict=True))
        ]
    return units


def check_differences(
    drafts: Sequence[tuple[str, Sequence[str]]], units: Sequence[SourceUnit], texts: Sequence[ComparedText]
) -> tuple[list[Difference], int]:
    """Drafts whose words, numbers, negations and quotations fit the quotes that they cite (`nodes.answer.check`), all of one work, and
    whose quotes have a word that no other text has. Returns them in the order of the works, and how many were removed.
    """
    result = check_answer(drafts, units, MAX_EACH * len(texts))
    removed = sum(result.removed.values())
    by_id = {text.record.doc_id: text for text in texts}
    kept: dict[str, list[Difference]] = {text.record.doc_id: [] for text in texts}
    for sentence in result.sentences:
        doc_ids = {citation.doc_id for citation in sentence.citations}
        own = by_id[sentence.citations[0].doc_id]
        others = [text for text in texts if text is not own]
        whole = own.segmented.reading.text
        quotes = tuple(Quote(start=one.start, end=one.end, text=whole[one.start : one.end]) for one in sentence.citations)
        joined = " ".join(quote.text for quote in quotes)
        absent = find_unmentioned(joined, others, own)
        if len(doc_ids) > 1 or not absent or len(kept[own.record.doc_id]) >= MAX_EACH:
            removed += 1
            continue
        difference = Difference(
            key=own.key,
            doc_id=own.record.doc_id,
            statement=sentence.text,
            quotes=quotes,
            unmentioned=list_words(joined, absent),
            by="model",
        )
        kept[own.record.doc_id].append(difference)
    return [difference for own_differences in kept.values() for difference in own_differences], removed
