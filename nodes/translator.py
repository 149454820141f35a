"""From a request to what it means (`ParsedIntent`) and the searches to run (`SearchStrategy`), by rules."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from outrider.nodes.concepts import concepts
from outrider.nodes.constraints import read_constraints
from outrider.settings.model import StarsSettings
from outrider.state.errors import NothingSearchable, SearchError
from outrider.state.intent import IntentType, ParsedIntent, PlannedQuery, SearchStrategy
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.ports import Clock, Shelf
from outrider.state.request import MAX_QUERY_TERMS, RetrieverType, SearchMode, SearchRequest, searchable
from outrider.state.response import Bypass
from outrider.text.control import without_control
from outrider.text.words import words

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

EXPANSION = {SearchMode.FOCUSED: 0, SearchMode.BALANCED: 3, SearchMode.EXPLORATORY: 8}
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


@dataclass(frozen=True, slots=True)
class Translator:
    """Reads query, search_mode, strategies, sources; writes intent, strategy, bypassed, snapshot."""

    shelf: Shelf
    configured: tuple[str, ...]
    stars: StarsSettings
    clock: Clock

    async def __call__(self, state: PipelineState, runtime: Runtime[RunContext]) -> Update:
        intent, rest = understand(str(state.query), self.stars, datetime.fromtimestamp(self.clock(), UTC).year)
        expanded: tuple[str, ...] = ()
        snapshot: str | None = None
        bypassed: tuple[Bypass, ...] = (NOT_SCORED,)
        if len(set(words(rest))) > MAX_QUERY_TERMS:
            bypassed = (*bypassed, Bypass(step="rest of the query", why=f"only its first {MAX_QUERY_TERMS:,} different words are searched"))
        try:
            snapshot = await self.shelf.snapshot()
            if count := EXPANSION[state.search_mode]:
                expanded = await self.shelf.related_terms(rest, count)
        except SearchError as error:  # the scout will say what it means for the search itself
            bypassed = (*bypassed, Bypass(step="expansion", why=str(error)))
        strategy = plan(state, intent, rest, self.configured, expanded)
        return {"intent": intent, "strategy": strategy, "bypassed": bypassed, "snapshot": snapshot}


def understand(query: str, stars: StarsSettings, this_year: int) -> tuple[ParsedIntent, str]:
    """The intent, and the words to search with: without control characters and year phrases."""
    clean = " ".join(without_control(query).split())
    constraints, rest = read_constraints(clean, stars, this_year)
    rest = rest if searchable(rest) else clean  # "2022" alone is a search, not a constraint
    intent = ParsedIntent(topic=rest, concepts=concepts(rest), intent_type=_intent_type(rest), constraints=constraints)
    return intent, rest


def plan(request: SearchRequest, intent: ParsedIntent, text: str, configured: tuple[str, ...], expanded: tuple[str, ...]) -> SearchStrategy:
    """The deterministic strategy: concepts joined with AND, and all configured sources unless the caller named some."""
    sources = tuple(name for name in configured if request.sources is None or name in request.sources)
    if not sources:
        asked = f"of the sources {', '.join(map(str, request.sources))} none" if request.sources else "no source"
        raise NothingSearchable(f"{asked} is switched on in the settings; `outrider config show` shows them under sources")
    query = PlannedQuery(text=text, keywords=tuple(dict.fromkeys(words(text))), boolean_query=" AND ".join(map(_quoted, intent.concepts)))
    return SearchStrategy(
        queries=(query,),
        sources=sources,
        strategies=request.strategies or tuple(RetrieverType),
        search_mode=request.search_mode,
        expanded_keywords=expanded,
        constraints=intent.constraints,
    )


NOT_SCORED = Bypass(step="fine_scorer", why="no model is configured: rules ranked the works")
"""Scoring by a model is not built yet."""


def _intent_type(text: str) -> IntentType:
    asked = set(re.findall(r"[\w-]+", text.lower()))
    return next((name for name, marks in TYPE_WORDS if asked & marks), "general")


def _quoted(concept: str) -> str:
    return f'"{concept}"' if " " in concept else concept
