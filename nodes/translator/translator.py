"""The node that turns a request into an intent and a search strategy, with a cache of plans.

The cache holds the model's plans, so that the same question is not sent again at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydantic import ValidationError

from outrider.nodes.run_settings import end_rejected_run, run_budget, time_left
from outrider.nodes.translator.common_boolean_syntax import conjunction
from outrider.nodes.translator.model_plan import (
    MAX_REQUEST_CHARS,
    Draft,
    QueryBuilder,
    QueryPrompt,
    add_terms,
    check_code_wish,
    sanitize_expanded_terms,
    sanitize_intent,
    sanitize_queries,
    sanitize_repository_wishes,
)
from outrider.nodes.translator.rule_plan import (
    EXPANSION,
    LEAST_EXPANSION,
    add_queries_like,
    leave_out_operators,
    parse_intent,
    plan_by_rules,
    select_requested_sources,
    vary_repeated_queries,
)
from outrider.settings.model import LlmSettings, RunSettings, StarsSettings
from outrider.state.chat import Budget, Chat, ChatRequest
from outrider.state.checkpoints import Judgements
from outrider.state.errors import ChatError, KeyRejected, SearchError
from outrider.state.intent import ParsedIntent, SearchStrategy
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.ports import Clock, LibraryReader, TextCache
from outrider.state.request import MAX_QUERY_TERMS, SearchMode, SearchRequest
from outrider.state.response import Bypass, Failure, Usage
from outrider.text.words import words

if TYPE_CHECKING:
    from langgraph.runtime import Runtime


PATIENCE_S = 1.0
"""A slower cache is treated as a miss."""
REQUEST_FIELDS = {"query", "search_mode", "user_feedback", "previous_strategies"}
MODEL = "translator.model"
"""Node of the model's failures: the search continues, while a failure of `translator` itself would end it."""
MODEL_SHARE, LIBRARY_SHARE = 0.5, 0.25
"""Shares of the run's remaining time for the model and for the library's terms: searching needs the rest."""
NO_MODEL = "no model is configured"
AS_WRITTEN = Bypass(step="translator", why="systematic mode: the query is run as it is written, without a model")
NO_JUDGEMENTS = Judgements()
NOTHING_NEW = Bypass(step="new queries", why="every variation of the request was searched in an earlier round; it is searched again")


@dataclass(frozen=True, slots=True)
class PlanCache:
    texts: TextCache
    fresh_s: float

    async def get(self, key: str) -> tuple[Draft, float] | None:
        """The draft and its age in seconds; None if there is none, it is too old or damaged, or the cache cannot be read."""
        cached = await self.texts.get(key, PATIENCE_S)
        if cached is None or cached.age_s >= self.fresh_s:
            return None
        try:
            draft = Draft.model_validate_json(cached.text)
        except ValidationError:
            return None
        return (draft, cached.age_s) if sanitize_queries(draft) else None

    async def put(self, key: str, draft: Draft) -> None:
        """Store a draft with a query that can be searched; without one the rules plan."""
        if sanitize_queries(draft):
            await self.texts.put(key, draft.model_dump_json())


def make_cache_key(request: SearchRequest, sources: Sequence[str], model: str, prompt: QueryPrompt, question: ChatRequest) -> str:
    """Hash of all that decides the answer: request, mode, feedback, earlier rounds, sources, model, prompt, schema, and the day."""
    parts = [
        request.model_dump(mode="json", include=REQUEST_FIELDS),
        list(sources),
        model,
        dict(prompt.versions),
        [question.system, question.user, question.max_output_tokens],
        json.dumps(Draft.model_json_schema(), sort_keys=True),  # another version of Outrider may ask for something else
    ]
    return hashlib.sha256(f"translation {json.dumps(parts, sort_keys=True)}".encode()).hexdigest()


def take_judgements(state: PipelineState) -> tuple[SearchRequest, Judgements]:
    """The request, and what a person said about earlier results of the thread; feedback of the request itself comes first."""
    judged = state.judged
    if judged.feedback and not state.user_feedback:
        return state.model_copy(update={"user_feedback": judged.feedback}), judged
    return state, judged


@dataclass(frozen=True, slots=True)
class Translation:
    """The intent, the searches to run, and what was left out on the way."""

    intent: ParsedIntent
    strategy: SearchStrategy
    snapshot: str | None = None
    bypassed: tuple[Bypass, ...] = ()
    failures: tuple[Failure, ...] = ()
    usage: Usage = field(default_factory=Usage)
    """Cost of the run's models so far."""


@dataclass(slots=True)
class Notes:
    """Bypassed steps and failures of one translation."""

    bypassed: list[Bypass] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    def skip(self, step: str, why: str) -> None:
        self.bypassed.append(Bypass(step=step, why=why))


@dataclass(frozen=True, slots=True)
class Translator:
    """Reads the request; writes intent, strategy, bypassed, failures, usage, snapshot.

    A failing model costs only its own part: `Failure(node="translator.model")`, and rules plan instead. A rejected key ends the run.
    """

    library: LibraryReader
    configured: tuple[str, ...]
    stars: StarsSettings
    clock: Clock
    chat: Chat | None = None
    why_no_model: str = NO_MODEL
    prompt: QueryPrompt = field(default_factory=QueryPrompt.load)
    llm: LlmSettings = field(default_factory=LlmSettings)
    run: RunSettings = field(default_factory=RunSettings)
    cache: PlanCache | None = None

    async def __call__(self, state: PipelineState, runtime: Runtime[RunContext]) -> Update:
        if state.mode == "systematic":
            return {"bypassed": (*state.bypassed, AS_WRITTEN)}
        budget = run_budget(runtime, self.llm, state.usage)
        try:
            request, judged = take_judgements(state)
            translation = await self.translate(request, budget, time_left(runtime, self.run, self.clock, state), judged)
        except KeyRejected as error:
            return end_rejected_run(state, "translator", error, budget.spent)
        return {
            "intent": translation.intent,
            "strategy": translation.strategy,
            "snapshot": translation.snapshot,
            "bypassed": (*state.bypassed, *translation.bypassed),
            "failures": (*state.failures, *translation.failures),
            "usage": budget.spent,
            **({"judged": Judgements(works=judged.works)} if judged.works or judged.feedback else {}),
        }

    async def translate(self, request: SearchRequest, budget: Budget, left_s: float, judged: Judgements = NO_JUDGEMENTS) -> Translation:
        """The same without LangGraph. `left_s`: seconds of the run that are left, of which model and library may take their shares.

        Raises `NothingSearchable`, and `KeyRejected` if the provider rejects the model's key.
        """
        now, notes = self.clock(), Notes()
        by_rules, text = parse_intent(str(request.query), self.stars, datetime.fromtimestamp(now, UTC).year)
        sources = select_requested_sources(request, self.configured)
        draft = await self._draft(request, sources, now, budget, left_s * MODEL_SHARE, notes, judged)
        snapshot, expanded = await self._expand(request.search_mode, leave_out_operators(text), draft, left_s * LIBRARY_SHARE, notes)
        intent, strategy = by_rules, plan_by_rules(request, by_rules, text, self.configured, expanded)
        last_resort = strategy.queries
        if draft is not None:
            draft = check_code_wish(draft, str(request.query))
            intent, strategy = self._apply_draft(draft, by_rules, strategy, now, notes)
        elif len(set(words(text))) > MAX_QUERY_TERMS:
            notes.skip("rest of the query", f"only its first {MAX_QUERY_TERMS:,} different words are searched")
        if draft is None and request.user_feedback:
            notes.skip("user_feedback", "only a model can read it; rules vary the words of the request")
        strategy = strategy.model_copy(update={"queries": add_queries_like(strategy.queries, judged)})
        earlier = strategy.earlier
        queries = vary_repeated_queries(strategy.queries, earlier, expanded) or vary_repeated_queries(last_resort, earlier, expanded)
        if not queries:
            notes.bypassed.append(NOTHING_NEW)
        strategy = strategy.model_copy(update={"queries": queries or strategy.queries})
        return Translation(intent, strategy, snapshot, tuple(notes.bypassed), tuple(notes.failures), budget.spent)

    async def plan_unasked(self, request: SearchRequest) -> SearchStrategy:
        """The plan without a call of the model: by rules, or from the cache of its plans. Raises `NothingSearchable`."""
        now, notes = self.clock(), Notes()
        by_rules, text = parse_intent(str(request.query), self.stars, datetime.fromtimestamp(now, UTC).year)
        draft: Draft | None = None
        if self.chat is not None and self.cache is not None:
            sources = select_requested_sources(request, self.configured)
            question = QueryBuilder(self.chat, self.prompt, self.stars).question(request, sources, now)
            cached = await self.cache.get(make_cache_key(request, sources, self.chat.name, self.prompt, question))
            draft = cached[0] if cached else None
        _, expanded = await self._expand(request.search_mode, leave_out_operators(text), draft, PATIENCE_S, notes)
        strategy = plan_by_rules(request, by_rules, text, self.configured, expanded)
        return strategy if draft is None else self._apply_draft(draft, by_rules, strategy, now, notes)[1]

    async def _draft(
        self,
        request: SearchRequest,
        sources: tuple[str, ...],
        now: float,
        budget: Budget,
        timeout_s: float,
        notes: Notes,
        judged: Judgements,
    ) -> Draft | None:
        """The model's plan, or a recent one for the same question. None without a model or a usable answer; the notes say why."""
        if self.chat is None:
            notes.skip(MODEL, self.why_no_model)
            return None
        if len(str(request.query)) > MAX_REQUEST_CHARS:
            notes.skip("rest of the query", f"the model reads only its first {MAX_REQUEST_CHARS:,} characters")
        name = self.chat.name
        try:
            async with asyncio.timeout(max(timeout_s, 0.0)):
                builder = QueryBuilder(self.chat, self.prompt, self.stars)
                question = builder.question(request, sources, now, judged)
                key = make_cache_key(request, sources, name, self.prompt, question) if self.cache else ""
                if self.cache and (cached := await self.cache.get(key)):
                    draft, age_s = cached
                    limit = f"its plan is reused for {self.cache.fresh_s:g} s"
                    notes.skip(MODEL, f"{name} planned this search {age_s:,.0f} s ago, and {limit}")
                    return draft
                draft = await builder.draft(question, budget)
                if self.cache:
                    await self.cache.put(key, draft)
                return draft
        except KeyRejected:
            raise
        except (ChatError, TimeoutError) as error:
            why = str(error) or f"{name} gave no plan within the {timeout_s:.3g} s that it may take of this run"
            notes.failures.append(Failure(node=MODEL, error=type(error).__name__, message=why))
            notes.skip(MODEL, f"{why}; rules planned the search")
            return None

    async def _expand(
        self, mode: SearchMode, text: str, draft: Draft | None, timeout_s: float, notes: Notes
    ) -> tuple[str | None, tuple[str, ...]]:
        """The library's snapshot, and the terms that widen the search: the model's, and related ones if they are too few."""
        most, least = EXPANSION[mode], LEAST_EXPANSION[mode]
        by_model = () if draft is None else sanitize_expanded_terms(draft, text, most)
        limit = most if draft is None or len(by_model) < least else 0
        snapshot: str | None = None
        related: tuple[str, ...] = ()
        why = ""
        try:
            async with asyncio.timeout(max(timeout_s, 0.0)):
                snapshot = await self.library.snapshot()
                related = await self.library.related_terms(text, limit) if limit else ()
        except SearchError as error:  # the scout reports what it means for the search itself
            why = str(error)
        except TimeoutError:
            why = f"the library did not answer within the {timeout_s:.3g} s that it may take of this run"
        expanded = related[:most] if draft is None else add_terms(by_model, least, related, draft, text)
        if not why and len(expanded) < least:
            who = "the library names" if draft is None else "model and library name"
            why = f"{who} {len(expanded)} of the {least} terms or more that the search mode {mode.value} adds"
        if why:
            notes.skip("rest of the expansion" if expanded else "expansion", why)
        return snapshot, expanded

    def _apply_draft(
        self, draft: Draft, by_rules: ParsedIntent, strategy: SearchStrategy, now: float, notes: Notes
    ) -> tuple[ParsedIntent, SearchStrategy]:
        """The rules' strategy with the model's queries. The sources stay the caller's: a model never narrows them."""
        today = datetime.fromtimestamp(now, UTC).date()
        intent = sanitize_intent(draft, by_rules, self.stars, today.year)
        changes: dict[str, object] = {
            "constraints": intent.constraints,
            "repositories": sanitize_repository_wishes(draft, today),
        }
        if queries := sanitize_queries(draft):
            changes |= {"queries": queries, "made_by": "model"}
        else:
            notes.skip(MODEL, "it planned no query that can be searched; rules planned one over its concepts")
            own = strategy.queries[0].model_copy(update={"boolean_query": conjunction(intent.concepts)})
            changes["queries"] = (own,)
        return intent, strategy.model_copy(update=changes)
