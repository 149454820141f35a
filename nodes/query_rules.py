"""What a request means and how to search for it, by rules: no model, the same words always give the same plan."""

from __future__ import annotations

import re

from outrider.nodes.boolean_syntax import conjunction
from outrider.nodes.concepts import concepts, keywords
from outrider.nodes.constraints import read_constraints
from outrider.settings.model import StarsSettings
from outrider.state.errors import NothingSearchable
from outrider.state.intent import IntentType, ParsedIntent, PlannedQuery, SearchStrategy
from outrider.state.request import RetrieverType, SearchMode, SearchRequest, searchable
from outrider.text.control import without_control

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


def understand(query: str, stars: StarsSettings, this_year: int) -> tuple[ParsedIntent, str]:
    """The intent, and the words to search with: without control characters and year phrases."""
    clean = " ".join(without_control(query).split())
    constraints, rest = read_constraints(clean, stars, this_year)
    rest = rest if searchable(rest) else clean  # "2022" alone is a search, not a constraint
    intent = ParsedIntent(topic=rest, concepts=concepts(rest), intent_type=_intent_type(rest), constraints=constraints)
    return intent, rest


def plan(request: SearchRequest, intent: ParsedIntent, text: str, configured: tuple[str, ...], expanded: tuple[str, ...]) -> SearchStrategy:
    """The deterministic strategy: concepts joined with AND, and all configured sources unless the caller named some."""
    query = PlannedQuery(text=text, keywords=keywords(intent.concepts), boolean_query=conjunction(intent.concepts))
    return SearchStrategy(
        queries=(query,),
        sources=searched(request, configured),
        strategies=request.strategies or tuple(RetrieverType),
        search_mode=request.search_mode,
        expanded_keywords=expanded,
        constraints=intent.constraints,
        user_feedback=request.user_feedback,
        earlier=request.previous_strategies,
    )


def searched(request: SearchRequest, configured: tuple[str, ...]) -> tuple[str, ...]:
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
