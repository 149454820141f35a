"""Checks of a model's sentences against the kept sentences that they cite.

Pure functions, no model. They find contradictions that can be seen: ids that do not exist, works that do not fit, numbers, negations and
quotations. A sentence that passes them may still be wrong: `rose` for `fell` has none of these signs. So nothing here calls a sentence
supported.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import unescape

from outrider.nodes.answer.negation import find_negation_fault
from outrider.nodes.answer.quantities import find_new_numbers
from outrider.state.response import AnswerCitation, AnswerSentence, RemovalReason
from outrider.text.injection import suspicious
from outrider.text.sanitize import without_control
from outrider.text.sentences import sentence_spans
from outrider.text.strip_markup import IGNORABLE
from outrider.text.words import stems, words

MAX_SENTENCE_CHARS = 600
LINK = re.compile(
    r"[a-z][a-z0-9+.-]{1,20}://|\bwww\.[^\s.]+\.|\b(?:mailto|javascript|data|tel):\S|\](?:\(|\[(?!\d))|!\[|^\s{0,3}\[[^\]]{1,80}\]:",
    re.IGNORECASE,
)
"""Addresses, and links, pictures and link definitions in Markdown (https://spec.commonmark.org/0.31.2/#links)."""
DOMAIN = re.compile(
    r"(?<![\w.@-])(?:[\w-]+\.)+(?:com|org|net|info|biz|io|dev|app|ai|co|me|ru|cn|xyz|top|site|online|link|click)(?![\w-])", re.IGNORECASE
)
"""An address without a scheme; names such as `socket.io` are allowed where a cited text has them."""
TAG = re.compile(r"<\s*[/!?]|<[A-Za-z][^<>]*[=/:][^<>]*>|(?<!\w)<[A-Za-z][^<>]*>|```|~~~")
"""Tags of HTML, but no types such as `Vec<T>`; fences of code."""
ENTITY = re.compile(r"&(?:#\w+|[A-Za-z]\w{1,30});")
"""A page would turn them into tags."""
EMPHASIS = re.compile(r"\*\*|(?<!`)`(?!`)|(?<!\w)\*(?=\S)|(?<=\S)\*(?!\w)")
LIST_MARK = re.compile(r"^\s*(?:[-*+•>]\s+|#{1,6}\s+|\d{1,2}[.)]\s+(?=\D))+")
UNIT_IDS = re.compile(r"\s*[\[(]\s*(u\d{1,3}(?:\s*(?:,|;|and|&)\s*u\d{1,3})*)\s*[\])]", re.IGNORECASE)
WORK_KEYS = re.compile(r"\[(\d{1,4}(?:\s*(?:,|;|-|–)\s*\d{1,4})*)\]")
END_KEYS = re.compile(r"(?:\s*\[\d{1,4}(?:\s*(?:,|;|-|–)\s*\d{1,4})*\])+(?=\s*[.!?]?\s*$)")
MAX_RANGE = 50
"""Works that one `[1-9]` may name."""
SINGLE = str.maketrans(dict.fromkeys("‘’‚‛′`´", "'"))
DOUBLE = str.maketrans(dict.fromkeys("“”„‟«»‹›″「」『』《》〈〉〝〞＂", '"'))
QUOTED = re.compile(r'"([^"]*)"')
SINGLE_QUOTED = re.compile(r"(?<!\w)'((?:[^']|(?<=\w)'(?=\w))+)'(?!\w)")
INCHES = re.compile(r'(?<=\d)"(?!\w)')
QUOTE_END = " \t.,;:!?"
MIN_TITLE_WORDS = 3
"""Words of a title that a sentence names by repeating it; a shorter one is a name, such as that of a package."""


MIN_MORE_WORDS, MORE_SHARE = 3, 0.3
"""By how many words, and by which share of its words, a sentence must be nearer to another work than to those that it cites."""


@dataclass(frozen=True, slots=True)
class SourceUnit:
    """A kept sentence as the model knows it."""

    unit_id: str
    """`u1`, `u2`, ..."""
    doc_id: str
    key: str
    """`[rank]` of its hit."""
    start: int
    end: int
    text: str
    title: str = ""
    uncertain: bool = False
    """Whether it may not answer the request."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """`len(sentences) + sum(removed.values())` is the number of sentences that the model wrote."""

    sentences: tuple[AnswerSentence, ...]
    removed: dict[RemovalReason, int]


def check_answer(drafts: Iterable[tuple[str, Sequence[str]]], units: Sequence[SourceUnit], max_sentences: int) -> CheckResult:
    """The sentences that pass, in their order; `drafts` are texts with the ids of the units that they cite."""
    by_id = {unit.unit_id: unit for unit in units}
    sentences: list[AnswerSentence] = []
    removed: dict[RemovalReason, int] = {}
    shown: set[str] = set()
    for text, unit_ids in drafts:
        named, pieces = split_draft(text)
        ids = tuple(dict.fromkeys(one for unit_id in (*unit_ids, *named) for one in resolve_id(unit_id, units)))
        for piece in pieces:
            reason = check_sentence(piece, ids, by_id)
            key = " ".join(words(piece))
            if reason is None and key in shown:
                reason = "repeated"
            if reason is None and len(sentences) >= max_sentences:
                reason = "beyond_limit"
            if reason is None:
                shown.add(key)
                cited = [by_id[one] for one in ids]
                citations = tuple(AnswerCitation(doc_id=one.doc_id, key=one.key, start=one.start, end=one.end) for one in cited)
                uncertain = all(one.uncertain for one in cited)
                sentences.append(AnswerSentence(text=END_KEYS.sub("", piece), citations=citations, uncertain=uncertain))
            else:
                removed[reason] = removed.get(reason, 0) + 1
    return CheckResult(tuple(sentences), removed)


def split_draft(text: str) -> tuple[list[str], list[str]]:
    """The ids of units that a text names in brackets, and its sentences without these, emphasis and control characters."""
    whole = text.encode("utf-8", "replace").decode()  # without halves of surrogate pairs, which no output can carry
    line = " ".join(without_control(IGNORABLE.sub("", whole)).split())
    named = [one for match in UNIT_IDS.finditer(line) for one in re.findall(r"u\d+", match[1].lower())]
    plain = EMPHASIS.sub("", LIST_MARK.sub("", UNIT_IDS.sub("", line))).strip()
    pieces = [plain[start:end] for start, end in sentence_spans(plain)]
    return named, [piece for piece in pieces if any(map(str.isalnum, WORK_KEYS.sub("", piece)))]


def resolve_id(unit_id: str, units: Sequence[SourceUnit]) -> list[str]:
    """`[U1]` as `u1`. Small models often cite a work, `[2]`: then the sentence is compared with all units of that work."""
    plain = unit_id.strip(" []()").lower()
    if plain.isascii() and plain.isdigit():
        return [unit.unit_id for unit in units if unit.key == f"[{plain}]"] or [plain]
    return [plain] if plain else []


def check_sentence(text: str, unit_ids: Sequence[str], units: Mapping[str, SourceUnit]) -> RemovalReason | None:
    """The first reason to remove a sentence, None if there is none. `units` are all that the model was shown, by their ids."""
    if len(text) > MAX_SENTENCE_CHARS:
        return "too_long"
    if LINK.search(text) or TAG.search(text) or any(unescape(one) != one for one in ENTITY.findall(text)):
        return "markup"
    if suspicious(text):
        return "instruction"
    if not unit_ids:
        return "no_citation"
    if any(one not in units for one in unit_ids):
        return "unknown_citation"
    cited = [units[one] for one in unit_ids]
    texts = [unit.text for unit in cited]
    if any(all(domain not in one for one in texts) for domain in DOMAIN.findall(text)):
        return "markup"
    if names_other_work(text, cited, units.values()) or repeats_other_work(text, cited, units.values()):
        return "other_work"
    plain = WORK_KEYS.sub(" ", text)
    if find_altered_quotes(plain, [*texts, *(unit.title for unit in cited)]):
        return "quote"
    if find_new_numbers(plain, texts):
        return "number"
    return "negation" if find_negation_fault(plain, texts) else None


def names_other_work(text: str, cited: Sequence[SourceUnit], units: Iterable[SourceUnit]) -> bool:
    """Whether the sentence names a work that it does not cite, by its key or its title, or cites one besides those that it names."""
    keys = {unit.key for unit in cited}
    quoted = {key for key in list_work_keys(text) if any(key in unit.text for unit in cited)}  # as in `5.5 [3] vs 9 [4]`
    if (named := list_work_keys(text) - quoted) and named != keys:
        return True
    cited_words = set(words(" ".join(f"{unit.text} {unit.title}" for unit in cited)))
    own = words(text)
    line = f" {' '.join(own)} "
    for title in sorted({unit.title for unit in units if unit.key not in keys} - {unit.title for unit in cited}):
        parts = words(title.rpartition("/")[2])
        is_name = 0 < len(parts) < MIN_TITLE_WORDS and not cited_words.issuperset(parts)
        if (is_name or len(parts) >= MIN_TITLE_WORDS) and f" {' '.join(parts)} " in line:
            return True
    return False


def repeats_other_work(text: str, cited: Sequence[SourceUnit], units: Iterable[SourceUnit]) -> bool:
    """Whether the words of the sentence stand in another work rather than in those that it cites."""
    keys = {unit.key for unit in cited}
    own = set(stems(text))
    others: dict[str, set[str]] = {}
    for unit in units:
        if unit.key not in keys:
            others.setdefault(unit.key, set()).update(own.intersection(stems(unit.text)))
    here = own.intersection(stem for unit in cited for stem in stems(f"{unit.title} {unit.text}"))
    most = max(map(len, others.values()), default=0)
    return most - len(here) >= max(MIN_MORE_WORDS, MORE_SHARE * len(own))


def list_work_keys(text: str) -> set[str]:
    """The works that a sentence names in brackets: `[2]`, `[1, 3]`, `[1-3]`."""
    keys: set[str] = set()
    for match in WORK_KEYS.finditer(text):
        for part in re.split(r"\s*[,;]\s*", match[1]):
            ends = [int(one) for one in re.split(r"\s*[-–]\s*", part)]
            keys |= {f"[{rank}]" for rank in range(ends[0], min(ends[-1], ends[0] + MAX_RANGE) + 1)} or {part}
    return keys


def find_altered_quotes(text: str, texts: Sequence[str]) -> list[str]:
    """Quotations that no text has in these words, after white space and typographic quotation marks are folded."""
    plain = INCHES.sub("", fold_quotes(text))
    quotes = [match[1] for match in QUOTED.finditer(plain)] + [match[1] for match in SINGLE_QUOTED.finditer(QUOTED.sub(" ", plain))]
    if plain.count('"') % 2:
        quotes.append(plain.rpartition('"')[2])  # one that is not closed cannot be checked as such, so all of it counts
    whole = [fold_quotes(one) for one in texts]
    return [quote for quote in quotes if (words_of_it := quote.strip(QUOTE_END)) and not any(words_of_it in one for one in whole)]


def fold_quotes(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).translate(DOUBLE).translate(SINGLE).split())
