"""The order of works where no model scored them: BM25+ over the first candidates, the fused rank, recency and citations.

BM25+ (Lv and Zhai 2011) rather than BM25: on a few dozen candidates a term found in half of them must not count as nothing.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from outrider.settings.model import RankingSettings
from outrider.state.hits import Candidate
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.ports import Clock
from outrider.state.records import Record, Repository
from outrider.text.words import content_words, stem, words

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

TEXT_DEPTH = 50
"""How many of the first candidates are compared by their texts, or `top_k` if that is more."""
BODY_CHARS = 1_200
"""How much of a text counts beside its abstract; the fused rank already knows the rest."""

K1, B, DELTA = 1.5, 0.75, 1.0

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
        return {"candidates": await asyncio.to_thread(rank_by_rules, state.candidates, text, self.weights, this_year, depth)}


def rank_in_list_order(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The interleaved lists as they are, for a request that wants no fusion; the score only falls with the place."""
    return tuple(
        replace(one, score=1 / place, scored_by="rules", scores={**one.scores, "rules": 1 / place}, reason=LIST_ORDER)
        for place, one in enumerate(candidates, start=1)
    )


def rank_by_rules(
    candidates: Sequence[Candidate], query: str, weights: RankingSettings, this_year: int, depth: int = TEXT_DEPTH
) -> tuple[Candidate, ...]:
    """Candidates with rule scores in [0, 1], best first; ties by title, then id.

    `candidates` come in fused order. The first `depth` are compared by their texts; the tail scores by its other parts.
    """
    tail = [_scored(candidate, None, "by its place in the lists", weights, this_year) for candidate in candidates[depth:]]
    return tuple(sorted([*_compared(candidates[:depth], query, weights, this_year), *tail], key=_order))


def _compared(candidates: Sequence[Candidate], query: str, weights: RankingSettings, this_year: int) -> list[Candidate]:
    asked: dict[str, str] = {}
    for word in content_words(query):
        asked.setdefault(stem(word), word)
    titles = count_terms([candidate.record.title for candidate in candidates], asked)
    documents = count_terms([_said(candidate.record) for candidate in candidates], asked)
    scores = bm25_plus(asked, documents)
    return [
        _scored(candidate, bm25, _reason(candidate.record, asked, title.counts.keys(), document.counts.keys()), weights, this_year)
        for candidate, bm25, title, document in zip(candidates, scores, titles, documents, strict=True)
    ]


class TermCounts(NamedTuple):
    """How often a text has each stem that is asked for and that it has, and how many words it has in all."""

    counts: Mapping[str, int]
    length: int


def count_terms(texts: Sequence[str], asked: Collection[str]) -> list[TermCounts]:
    """Each word is stemmed once over all texts, not once a place."""
    said = [words(text) for text in texts]
    initials = {wanted[0] for wanted in asked}  # a stem begins as its word does
    forms = {word: stemmed for word in set().union(*said) if word[0] in initials and (stemmed := stem(word)) in asked}
    return [TermCounts(Counter(forms[word] for word in each if word in forms), len(each)) for each in said]


def bm25_plus(terms: Collection[str], documents: Sequence[TermCounts]) -> list[float]:
    """BM25+ of each document (k1 1.5, b .75, delta 1), divided by the best; 0 for one without any term.

    The sum of `idf * tf (k1 + 1) / (tf + k1 (1 - b + b length / mean length))` over the terms that it has, and of `idf * delta` over
    all that any document has, where idf is `log((documents + 1) / documents with the term)`. The paper adds delta for its own terms
    only; for all, as the package rank-bm25 does, leaves more of the order to the fused rank, which measured better.
    """
    mean = sum(document.length for document in documents) / max(len(documents), 1) or 1.0
    holding = Counter(term for document in documents for term in document.counts)
    idf = {term: math.log((len(documents) + 1) / holding[term]) for term in terms if holding[term]}
    floor = DELTA * sum(idf.values())
    scores = []
    for counts, length in documents:
        room = K1 * (1 - B + B * length / mean)
        scores.append(floor + sum(idf[term] * tf * (K1 + 1) / (tf + room) for term, tf in counts.items()) if counts else 0.0)
    best = max(scores, default=0.0)
    return [score / best if best > 0 else 0.0 for score in scores]


def recency(year: int | None, this_year: int, half_life_years: float) -> float:
    """1 for this year, halved each `half_life_years`; one half where the year is unknown."""
    return 0.5 if year is None else 0.5 ** (max(0, this_year - year) / half_life_years)


def renown(record: Record) -> float:
    """log10 of citations or stars against 10,000, cut at 1; 0 where neither is known."""
    count = max(record.citations or 0, record.stars or 0)
    return min(1.0, math.log10(1 + count) / 4)


FORMULAS: Mapping[str, str] = {
    "recency": "0.5 if year is None else 0.5 ** (max(0, this_year - year) / half_life_years)",
    "renown": "min(1.0, log10(1 + count) / 4)",
}
"""What both functions above return, in Python's notation, for the web page; a test compares them."""


def _scored(candidate: Candidate, bm25: float | None, reason: str, weights: RankingSettings, this_year: int) -> Candidate:
    """`bm25` is None for a candidate that was not compared by its text; it then counts as 0 and stands in no score."""
    record = candidate.record
    parts = {
        "bm25": (weights.text_weight, bm25),
        "fused": (weights.fused_weight, candidate.scores.get("fused", 0.0)),
        "recency": (weights.recency_weight, recency(record.year, this_year, weights.recency_half_life_years)),
        "citations": (weights.citations_weight, renown(record)),
    }
    total = sum(weight for weight, _ in parts.values())
    score = min(1.0, sum(weight * (value or 0.0) for weight, value in parts.values()) / total)
    scores = {**candidate.scores, **{name: value for name, (_, value) in parts.items() if value is not None}, "rules": score}
    return replace(candidate, score=score, scored_by="rules", scores=scores, reason=reason)


def _order(candidate: Candidate) -> tuple[float, str, str]:
    return (-candidate.score, candidate.record.title, candidate.record.doc_id)


def _reason(record: Record, terms: Mapping[str, str], title: Set[str], text: Set[str]) -> str:
    """Which words of the query (`asked`: stem -> word) the title has, and which the rest has."""
    in_title = [word for stemmed, word in terms.items() if stemmed in title]
    elsewhere = [word for stemmed, word in terms.items() if stemmed in text - title]
    said = [f"{where}: {', '.join(found)}" for where, found in (("title has", in_title), ("text has", elsewhere)) if found]
    if record.citations:
        said.append(f"{record.citations:,} citations")
    if record.stars:
        said.append(f"{record.stars:,} stars")
    return "; ".join(said) or "by its place in the lists"


def _said(record: Record) -> str:
    """What a record says it is, its title and description doubled.

    A README mentions too much beside, so a repository speaks by name, description and topics.
    """
    body = "" if isinstance(record, Repository) else record.text[:BODY_CHARS]
    twice = (record.title, record.description) * 2
    return " ".join((*twice, record.abstract, " ".join(record.tags), body))
