"""The node that ranks works without a model: BM25+, fused rank, and recency and citations.

Recency and citations count where the request asks for new or well-known works; else a newer work could come before a better one.
BM25+ (Lv and Zhai 2011), not BM25: among a few dozen candidates a term in half of them must not count as nothing. Neighbouring words of
the query count a second time where they stand side by side in the text, after the sequential dependence model (Metzler and Croft, "A
Markov random field model for term dependencies", SIGIR 2005). What a repository is about counts once more, by its vector or its
summary: its README, which the index of words holds whole, mentions much else.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from outrider.linkage.identifiers import find_identifiers
from outrider.settings.model import RankingSettings
from outrider.state.hits import Candidate
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.ports import Clock
from outrider.state.records import Record, Repository
from outrider.state.request import RetrieverType
from outrider.text.words import content_words, stem, stem_text, title_words

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

Pair = tuple[str, str]
"""Stems of two words that follow each other."""
Term = TypeVar("Term", str, Pair)
TEXT_DEPTH = 50
"""Number of first candidates that are compared by their texts, or `top_k` if that is more."""
BODY_CHARS, README_CHARS = 1_200, 800
"""Characters of a body that count besides its abstract, and of a README, which mentions too much else further down; the fused rank reflects
the rest.
"""

DENSE = RetrieverType.LANCE_DENSE
TEXT_SHARE = 0.5
"""Share of the weight of BM25+ that is left where vectors took part (ADR 37)."""
ABOUT_SHARE = 1 / 7
"""Share of the fused rank's weight that a repository's own subject takes instead, by its vector or its summary (ADR 32)."""

NAMED = "you named this work"
"""Reason of a work whose title the request is, or whose identifier it has: it stands before all others."""

NAMED_SCORE = 0.99

K1, B, DELTA = 1.5, 0.75, 1.0

NEW = re.compile(r"\b(?:new|newest|recent|recently|latest|emerging|up[- ]to[- ]date|state[- ]of[- ]the[- ]art|sota)\b", re.IGNORECASE)
RENOWNED = re.compile(
    r"\b(?:popular|famous|well[- ]known|widely[- ](?:used|cited)|(?:most|highly|often)[- ](?:cited|starred)|influential|seminal)\b",
    re.IGNORECASE,
)
"""Words by which a request asks for new works, and for well-known ones."""

AUTHORS = 20
"""Of a work, whose names are compared with the request."""
LIST_ORDER = "by its place in the lists, which are interleaved"


@dataclass(frozen=True, slots=True)
class RuleRanker:
    """Reads candidates, strategy, fusion_enabled; writes candidates with score, scored_by and reason, best first."""

    weights: RankingSettings
    clock: Clock

    async def __call__(self, state: PipelineState, runtime: Runtime[RunContext]) -> Update:
        if not state.fusion_enabled:
            return {"candidates": rank_in_list_order(state.candidates)}
        text = state.strategy.queries[0].text if state.strategy else str(state.query)
        this_year = datetime.fromtimestamp(self.clock(), UTC).year
        depth = max(TEXT_DEPTH, state.top_k)
        weights = weigh_wishes(self.weights, str(state.query))  # the plan's text need not have these words
        return {"candidates": await asyncio.to_thread(rank_by_rules, state.candidates, text, weights, this_year, depth)}


def weigh_wishes(weights: RankingSettings, request: str) -> RankingSettings:
    """The weights without recency and citations, except where the request asks for them, or nothing else has a weight."""
    if not weights.text_weight + weights.fused_weight:
        return weights
    wishes = {"recency_weight": NEW, "citations_weight": RENOWNED}
    return weights.model_copy(update={name: 0.0 for name, wish in wishes.items() if not wish.search(request)})


def weigh_texts(weights: RankingSettings, *, by_vectors: bool) -> RankingSettings:
    """The weights with less for BM25+ where vectors took part."""
    return weights.model_copy(update={"text_weight": weights.text_weight * TEXT_SHARE}) if by_vectors else weights


def weigh_parts(weights: RankingSettings, about: str, *, is_repository: bool) -> dict[str, float]:
    """The weight of each part of a score; `about` names that of a repository's subject, empty where it was not compared."""
    about_weight = weights.fused_weight * ABOUT_SHARE if is_repository else 0.0
    return {
        "bm25": weights.text_weight,
        about: about_weight,
        "fused": weights.fused_weight - about_weight,
        "recency": weights.recency_weight,
        "citations": weights.citations_weight,
    }


def rank_in_list_order(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The interleaved lists unchanged, for a request without fusion; the score only falls with the place."""
    return tuple(
        replace(candidate, score=1 / place, scored_by="rules", scores={**candidate.scores, "rules": 1 / place}, reason=LIST_ORDER)
        for place, candidate in enumerate(candidates, start=1)
    )


def rank_by_rules(
    candidates: Sequence[Candidate], query: str, weights: RankingSettings, this_year: int, depth: int = TEXT_DEPTH
) -> tuple[Candidate, ...]:
    """Candidates with rule scores in [0, 1], best first; ties by title, then id.

    `candidates` come in fused order. The first `depth` are compared by their texts; the tail is scored without them. Where vectors took
    part in that order, BM25+ counts less, without pairs: it repeats what the list by words says, and would outweigh the vectors.
    """
    terms: dict[str, str] = {}
    for word in content_words(query):
        terms.setdefault(stem(word), word)
    stems = [stem(word) for word in content_words(query)]
    pairs = [pair for pair in dict.fromkeys(pairwise(stems)) if pair[0] != pair[1]]
    first = candidates[:depth]
    by_vectors = any(DENSE in candidate.scores for candidate in first)
    weights = weigh_texts(weights, by_vectors=by_vectors)
    titles = count_terms([candidate.record.title for candidate in first], terms)
    texts = []
    for record in (candidate.record for candidate in first):
        body = record.text[: README_CHARS if isinstance(record, Repository) else BODY_CHARS]
        texts.append(
            " ".join(
                (*(record.title, record.description) * 2, record.abstract, " ".join(record.tags), " ".join(record.authors[:AUTHORS]), body)
            )
        )
    documents = count_terms(texts, terms, () if by_vectors else pairs)
    matches = [
        Matches(bm25, about, _explain(candidate.record, terms, title.counts.keys(), document.counts.keys()))
        for candidate, bm25, about, title, document in zip(
            first,
            bm25_plus(terms, documents, () if by_vectors else pairs),
            compare_subjects(first, terms, pairs),
            titles,
            documents,
            strict=True,
        )
    ]
    matches += [Matches(None, {}, "by its place in the lists") for _ in candidates[depth:]]
    scored = [_score(candidate, match, weights, this_year) for candidate, match in zip(candidates, matches, strict=True)]
    title, identifiers = title_words(query), frozenset(find_identifiers(query))
    named = [_is_named(one.record, title, identifiers) for one in scored]
    if any(named):
        scored = [_put_first(one) if is_named else _put_behind(one) for one, is_named in zip(scored, named, strict=True)]
    return tuple(sorted(scored, key=lambda candidate: (-candidate.score, candidate.record.title, candidate.record.doc_id)))


def _is_named(record: Record, title: Sequence[str], identifiers: Set[tuple[str, str]]) -> bool:
    is_title = bool(title) and title_words(record.title) == title
    return is_title or (bool(title and identifiers) and not identifiers.isdisjoint(record.identifiers.pairs()))


def _put_first(candidate: Candidate) -> Candidate:
    """Several works may have one title: their order stays."""
    score = NAMED_SCORE + (1 - NAMED_SCORE) * candidate.score
    return replace(candidate, score=score, scores={**candidate.scores, "rules": score}, reason=NAMED)


def _put_behind(candidate: Candidate) -> Candidate:
    """Below every work that was named, in the same order: a note may have all numbers of a DOI."""
    score = math.nextafter(NAMED_SCORE, 0) * candidate.score
    return replace(candidate, score=score, scores={**candidate.scores, "rules": score})


def compare_subjects(candidates: Sequence[Candidate], terms: Collection[str], pairs: Collection[Pair]) -> list[dict[str, float]]:
    """How well the subject of each repository fits, in [0, 1]; empty for other records.

    `meaning`, its similarity, where it was found by its vector, which begins with name and summary and knows other words for them;
    elsewhere `summary`, BM25+ of name, summary and topics.
    """
    records = {at: candidate.record for at, candidate in enumerate(candidates) if isinstance(candidate.record, Repository)}
    found = {at: candidates[at].scores[DENSE] for at in records if DENSE in candidates[at].scores}
    low, high = min(found.values(), default=0.0), max(found.values(), default=0.0)
    heads = {at: " ".join((one.title, one.description, *one.tags)) for at, one in records.items() if at not in found}
    by_words = dict(zip(heads, bm25_plus(terms, count_terms(list(heads.values()), terms, pairs), pairs), strict=True))
    by_place = {
        **{at: {"meaning": (similarity - low) / (high - low or 1.0)} for at, similarity in found.items()},
        **{at: {"summary": bm25} for at, bm25 in by_words.items()},
    }
    return [by_place.get(at, {}) for at in range(len(candidates))]


class Matches(NamedTuple):
    """How well a candidate's text matches (None if it was not compared), what a repository is about, and which words match."""

    bm25: float | None
    about: Mapping[str, float]
    reason: str


class TermCounts(NamedTuple):
    """How often a text has each of the query's stems, its number of words, and how often it has each pair of stems."""

    counts: Mapping[str, int]
    length: int
    pairs: Mapping[Pair, int] = MappingProxyType({})


def count_terms(texts: Sequence[str], terms: Collection[str], pairs: Collection[Pair] = ()) -> list[TermCounts]:
    """Counts of the stems `terms`, and of `pairs` of them, in each text; the stems in the order of their first places."""
    counted = []
    for line, length in map(stem_text, texts):
        places = sorted((place, term) for term in terms if (place := line.find(f"<{term}>")) >= 0)
        counts = {term: line.count(f"<{term}>") for _, term in places}
        present = [pair for pair in pairs if pair[0] in counts and pair[1] in counts]
        followed = {pair: count for pair in present if (count := line.count(f"<{pair[0]}><{pair[1]}>"))}
        counted.append(TermCounts(counts, length, followed))
    return counted


def bm25_plus(terms: Collection[str], documents: Sequence[TermCounts], pairs: Collection[Pair] = ()) -> list[float]:
    """BM25+ of the terms and of the pairs of each document, divided by the best sum; 0 for a document without any term.

    BM25+ (k1 1.5, b .75, delta 1) is the sum of `idf * tf (k1 + 1) / (tf + k1 (1 - b + b length / mean length))` over the terms that a
    document has, and of `idf * delta` over the terms that any document has, where idf is `log((documents + 1) / documents with the term)`.
    The paper adds delta for its own terms only; for all, as the package rank-bm25 does, leaves more of the order to the fused rank, which
    measured better. That package gives the same scores more slowly: it counts every word of a text, not only those of the query
    (`bench stages`).
    """
    lengths = [document.length for document in documents]
    single = _sum_bm25(terms, [document.counts for document in documents], lengths)
    paired = _sum_bm25(pairs, [document.pairs for document in documents], lengths)
    scores = list(map(sum, zip(single, paired, strict=True)))
    best = max(scores, default=0.0)
    return [score / best if best > 0 else 0.0 for score in scores]


def _sum_bm25(terms: Collection[Term], documents: Sequence[Mapping[Term, int]], lengths: Sequence[int]) -> list[float]:
    mean = sum(lengths) / max(len(lengths), 1) or 1.0
    holding = Counter(term for counts in documents for term in counts)
    idf = {term: math.log((len(documents) + 1) / holding[term]) for term in terms if holding[term]}
    floor = DELTA * sum(idf.values())
    scores = []
    for counts, length in zip(documents, lengths, strict=True):
        room = K1 * (1 - B + B * length / mean)
        scores.append(floor + sum(idf[term] * tf * (K1 + 1) / (tf + room) for term, tf in counts.items()) if counts else 0.0)
    return scores


def recency(year: int | None, this_year: int, half_life_years: float) -> float:
    """1 for this year, halved each `half_life_years`; one half if the year is unknown."""
    return 0.5 if year is None else 0.5 ** (max(0, this_year - year) / half_life_years)


def renown(record: Record) -> float:
    """log10 of citations or stars against 10,000, cut at 1; 0 if neither is known."""
    count = max(record.citations or 0, record.stars or 0)
    return min(1.0, math.log10(1 + count) / 4)


FORMULAS: Mapping[str, str] = {
    "recency": "0.5 if year is None else 0.5 ** (max(0, this_year - year) / half_life_years)",
    "renown": "min(1.0, log10(1 + count) / 4)",
}
"""The results of both functions above in Python's notation, for the web page; a test compares them."""


def _score(candidate: Candidate, matches: Matches, weights: RankingSettings, this_year: int) -> Candidate:
    """What was not compared counts as 0 and is not listed in the scores."""
    record = candidate.record
    about, value = next(iter(matches.about.items()), ("", None))
    values = {
        "bm25": matches.bm25,
        about: value,
        "fused": candidate.scores.get("fused", 0.0),
        "recency": recency(record.year, this_year, weights.recency_half_life_years),
        "citations": renown(record),
    }
    own = weigh_parts(weights, about, is_repository=isinstance(record, Repository))
    score = min(1.0, sum(own[name] * (value or 0.0) for name, value in values.items()) / sum(own.values()))
    scores = {**candidate.scores, **{name: value for name, value in values.items() if value is not None}, "rules": score}
    return replace(candidate, score=score, scored_by="rules", scores=scores, reason=matches.reason)


def _explain(record: Record, terms: Mapping[str, str], title: Set[str], text: Set[str]) -> str:
    """Which words of the query (`terms`: stem -> word) the title has, and which the rest has."""
    in_title = [word for stemmed, word in terms.items() if stemmed in title]
    elsewhere = [word for stemmed, word in terms.items() if stemmed in text - title]
    parts = [f"{where}: {', '.join(matches)}" for where, matches in (("title has", in_title), ("text has", elsewhere)) if matches]
    parts += [f"{record.citations:,} citations"] if record.citations else []
    parts += [f"{record.stars:,} stars"] if record.stars else []
    return "; ".join(parts) or "by its place in the lists"
