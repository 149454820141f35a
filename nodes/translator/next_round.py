"""Queries that no earlier round ran, compared as sets of stems; a repeated one is varied by rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, islice

from outrider.nodes.translator.boolean_syntax import conjunction, divided
from outrider.nodes.translator.rule_plan import concepts, keywords
from outrider.state.intent import PlannedQuery
from outrider.state.iteration import MAX_EARLIER_CHARS, EarlierStrategy
from outrider.text.words import stems

MAX_VARIATIONS = 300
"""Tried for one query: all of eight concepts, and some terms more."""


def renewed(queries: Iterable[PlannedQuery], earlier: Sequence[EarlierStrategy], terms: Sequence[str] = ()) -> tuple[PlannedQuery, ...]:
    """The queries that are new, each once; one that an earlier round ran is varied, or dropped where every variation was run too."""
    ran = [query for one in earlier for query in one.queries]
    texts = {word_set(query.text) for query in ran}
    booleans = {boolean_set(query.boolean_query) for query in ran if query.boolean_query}
    kept: dict[frozenset[str], PlannedQuery] = {}
    for query in queries:
        for one in (query, *islice(_variations(query, terms), MAX_VARIATIONS)) if ran else (query,):
            mark = word_set(one.text)
            if mark not in texts and boolean_set(one.boolean_query) not in booleans:
                kept.setdefault(mark, one)
                break
    return tuple(kept.values())


def word_set(text: str) -> frozenset[str]:
    return frozenset(stems(text[:MAX_EARLIER_CHARS]))


def boolean_set(query: str) -> tuple[frozenset[str], frozenset[str]]:
    """What a Boolean query wants, and what it leaves out; AND or OR between the same words is no difference."""
    wanted, left_out = divided(query[:MAX_EARLIER_CHARS])
    return word_set(wanted), word_set(" ".join(left_out))


def _variations(query: PlannedQuery, terms: Sequence[str]) -> Iterator[PlannedQuery]:
    """The same text with its Boolean query made anew; with one synonym or related term more; with fewer and fewer concepts.

    What the query leaves out, each of them leaves out.
    """
    units = concepts(query.text[:MAX_EARLIER_CHARS])
    yield _of(query, query.text, units)
    said, left_out = word_set(query.text), boolean_set(query.boolean_query)[1]
    for term in (*query.synonyms, *terms):
        if not word_set(term) <= said and not word_set(term) & left_out:
            yield _of(query, f"{query.text} {term}", (*units, term))
    parts = units if len(units) > 1 else keywords(units)
    for count in range(len(parts) - 1, 0, -1):
        for fewer in combinations(parts, count):
            yield _of(query, " ".join(fewer), fewer)


def _of(query: PlannedQuery, text: str, units: Sequence[str]) -> PlannedQuery:
    boolean = conjunction(units, divided(query.boolean_query)[1])
    return query.model_copy(update={"text": text, "keywords": keywords(units), "boolean_query": boolean})
