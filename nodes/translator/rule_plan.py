"""Key phrases of a request by RAKE (Rose, Engel, Cramer and Cowley 2010, "Automatic keyword extraction from individual documents").

What a request means and how to search for it, by rules: no model, the same words always give the same plan.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, islice

from outrider.nodes.translator.boolean_syntax import conjunction, split_negated
from outrider.nodes.translator.constraints import read_constraints
from outrider.settings.model import StarsSettings
from outrider.state.errors import NothingSearchable
from outrider.state.intent import IntentType, ParsedIntent, PlannedQuery, SearchStrategy
from outrider.state.iteration import MAX_EARLIER_CHARS, EarlierStrategy
from outrider.state.request import RetrieverType, SearchMode, SearchRequest, searchable
from outrider.text.sanitize import without_control
from outrider.text.words import STOP_WORDS, stems

TOKEN = re.compile(r"(?:(?<![\w.])\.)?[^\W_]+(?:(?:[-.'’/]|[+#]+)[^\W_]+)*[+#]*|[^\s\w]")
"""Words as they are written, `C++`, `F#` and `.NET` among them; any other sign by itself."""
ASKING = frozenset("find show give want need look looking search searching please get let use used using like whose upon".split())
"""Words of the asking rather than of what is asked for; they end a phrase as stop words do."""
MAX_CONCEPTS = 8
MAX_WORDS = 4
"""A longer run of content words is a sentence without stop words rather than a concept; it is cut."""


def extract_concepts(text: str) -> tuple[str, ...]:
    """At most eight phrases, in the order of the text, chosen by RAKE's sum of deg(word) / freq(word).

    A text of stop words only gives its words, so that "to be or not to be" can be searched.
    """
    phrases = _phrases(text)
    if not phrases:
        return tuple(dict.fromkeys(token for token in TOKEN.findall(text) if _is_word(token)))[:MAX_CONCEPTS]
    frequency = Counter(word.lower() for phrase in phrases for word in phrase)
    degree: Counter[str] = Counter()
    for phrase in phrases:
        degree.update({word.lower(): len(phrase) for word in phrase})
    score = {" ".join(phrase): sum(degree[word.lower()] / frequency[word.lower()] for word in phrase) for phrase in phrases}
    best = sorted(score, key=lambda phrase: (-score[phrase], phrase))[:MAX_CONCEPTS]
    return tuple(phrase for phrase in score if phrase in best)


def extract_keywords(phrases: Iterable[str]) -> tuple[str, ...]:
    """The words of phrases as they are written, each once in any case of letters: for services that look for every word."""
    known: dict[str, str] = {}
    for word in " ".join(phrases).split():
        known.setdefault(word.casefold(), word)
    return tuple(known.values())


def _is_word(token: str) -> bool:
    """Rather than a sign by itself."""
    return any(map(str.isalnum, token))


def _phrases(text: str) -> list[list[str]]:
    phrases: list[list[str]] = [[]]
    seen: set[str] = set()
    for token in TOKEN.findall(text):
        if not _is_word(token) or token.lower() in STOP_WORDS | ASKING:
            phrases.append([])
        elif token.lower() not in seen:
            seen.add(token.lower())
            if len(phrases[-1]) == MAX_WORDS:
                phrases.append([])
            phrases[-1].append(token)
    return [phrase for phrase in phrases if phrase]


EXPANSION = {SearchMode.FOCUSED: 0, SearchMode.BALANCED: 3, SearchMode.EXPLORATORY: 8}
"""Most terms that widen a search."""
LEAST_EXPANSION = {SearchMode.FOCUSED: 0, SearchMode.BALANCED: 2, SearchMode.EXPLORATORY: 5}
TYPE_WORDS: tuple[tuple[IntentType, frozenset[str]], ...] = (
    ("survey", frozenset({"survey", "surveys", "review", "reviews", "overview", "meta-analysis", "tutorial"})),
    ("dataset", frozenset({"dataset", "datasets", "corpus", "corpora", "benchmark", "benchmarks"})),
    ("baseline", frozenset({"baseline", "baselines", "sota", "leaderboard"})),
    (
        "library",
        frozenset({"library", "libraries", "package", "packages", "framework", "frameworks", "repository", "tool", "client", "sdk", "cli"}),
    ),
    ("method", frozenset({"method", "methods", "algorithm", "algorithms", "approach", "approaches", "technique", "techniques"})),
)


def parse_intent(query: str, stars: StarsSettings, this_year: int) -> tuple[ParsedIntent, str]:
    """The intent, and the words to search with: without control characters and year phrases."""
    clean = " ".join(without_control(query).split())
    constraints, rest = read_constraints(clean, stars, this_year)
    rest = rest if searchable(rest) else clean  # "2022" alone is a search, not a constraint
    intent = ParsedIntent(topic=rest, concepts=extract_concepts(rest), intent_type=_intent_type(rest), constraints=constraints)
    return intent, rest


def plan_by_rules(
    request: SearchRequest, intent: ParsedIntent, text: str, configured: tuple[str, ...], expanded: tuple[str, ...]
) -> SearchStrategy:
    """The deterministic strategy: concepts joined with AND, and all configured sources unless the caller named some."""
    query = PlannedQuery(text=text, keywords=extract_keywords(intent.concepts), boolean_query=conjunction(intent.concepts))
    return SearchStrategy(
        queries=(query,),
        sources=select_requested_sources(request, configured),
        strategies=request.strategies or tuple(RetrieverType),
        search_mode=request.search_mode,
        expanded_keywords=expanded,
        constraints=intent.constraints,
        user_feedback=request.user_feedback,
        earlier=request.previous_strategies,
    )


def select_requested_sources(request: SearchRequest, configured: tuple[str, ...]) -> tuple[str, ...]:
    """The configured sources, of which only the caller may leave some out; `NothingSearchable` where none is left."""
    sources = tuple(name for name in configured if request.sources is None or name in request.sources)
    if not sources:
        asked = f"of the sources {', '.join(map(str, request.sources))} none" if request.sources else "no source"
        raise NothingSearchable(
            f"{asked} is asked here: `outrider config show` shows which are switched on, and offline only the library is"
        )
    return sources


def _intent_type(text: str) -> IntentType:
    asked = set(re.findall(r"[\w-]+", text.lower()))
    return next((name for name, marks in TYPE_WORDS if asked & marks), "general")


MAX_VARIATIONS = 300
"""Tried for one query: all of eight concepts, and some terms more."""


def vary_repeated_queries(
    queries: Iterable[PlannedQuery], earlier: Sequence[EarlierStrategy], terms: Sequence[str] = ()
) -> tuple[PlannedQuery, ...]:
    """The queries that are new, each once; one that an earlier round ran is varied, or dropped where every variation was run too."""
    ran = [query for one in earlier for query in one.queries]
    texts = {make_word_set(query.text) for query in ran}
    booleans = {make_boolean_sets(query.boolean_query) for query in ran if query.boolean_query}
    kept: dict[frozenset[str], PlannedQuery] = {}
    for query in queries:
        for one in (query, *islice(_variations(query, terms), MAX_VARIATIONS)) if ran else (query,):
            mark = make_word_set(one.text)
            if mark not in texts and make_boolean_sets(one.boolean_query) not in booleans:
                kept.setdefault(mark, one)
                break
    return tuple(kept.values())


def make_word_set(text: str) -> frozenset[str]:
    return frozenset(stems(text[:MAX_EARLIER_CHARS]))


def make_boolean_sets(query: str) -> tuple[frozenset[str], frozenset[str]]:
    """What a Boolean query wants, and what it leaves out; AND or OR between the same words is no difference."""
    wanted, left_out = split_negated(query[:MAX_EARLIER_CHARS])
    return make_word_set(wanted), make_word_set(" ".join(left_out))


def _variations(query: PlannedQuery, terms: Sequence[str]) -> Iterator[PlannedQuery]:
    """The same text with its Boolean query made anew; with one synonym or related term more; with fewer and fewer concepts.

    What the query leaves out, each of them leaves out.
    """
    units = extract_concepts(query.text[:MAX_EARLIER_CHARS])
    yield _of(query, query.text, units)
    said, left_out = make_word_set(query.text), make_boolean_sets(query.boolean_query)[1]
    for term in (*query.synonyms, *terms):
        if not make_word_set(term) <= said and not make_word_set(term) & left_out:
            yield _of(query, f"{query.text} {term}", (*units, term))
    parts = units if len(units) > 1 else extract_keywords(units)
    for count in range(len(parts) - 1, 0, -1):
        for fewer in combinations(parts, count):
            yield _of(query, " ".join(fewer), fewer)


def _of(query: PlannedQuery, text: str, units: Sequence[str]) -> PlannedQuery:
    boolean = conjunction(units, split_negated(query.boolean_query)[1])
    return query.model_copy(update={"text": text, "keywords": extract_keywords(units), "boolean_query": boolean})
