"""Nodes that need many parts, built over the services; for the graphs and for single steps."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from outrider.nodes.dedup.dedup import Dedup
from outrider.nodes.enrich.enrich import Enrich
from outrider.nodes.fine_scorer.fine_scorer import FineScorer
from outrider.nodes.fine_scorer.repositories import RepositoryScorer
from outrider.nodes.fine_scorer.waves import StopWhenSettled
from outrider.nodes.rule_ranker import RuleRanker
from outrider.nodes.translator.translator import PlanCache, Translator
from outrider.runtime.tape import without_port
from outrider.runtime.threads_and_loops import load_module
from outrider.services.distiller import distil, prepare_distillers
from outrider.services.sources import find_detailers, find_github, is_cache_refused, open_answer_cache
from outrider.sources.web.link_identifiers import find_identifiers
from outrider.state.errors import BadRequest
from outrider.state.ports import DistillerProvider, TextCache

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langgraph.runtime import Runtime

    from outrider.nodes.analyze import AnalysisCache, Evidence, Ratings, Subject, Surroundings, WorkIdentifier
    from outrider.services import Services
    from outrider.state.distilling import Reading
    from outrider.state.pipeline import PipelineState, RunContext, Update
    from outrider.state.request import SearchRequest
    from outrider.state.response import DistilledContext


def parse_analysis_target(text: str) -> WorkIdentifier:
    """`owner/name`, a DOI, `arxiv:...`, `pmid:...`, `pmcid:...`, or a link to one of them. Raises `BadRequest`."""
    from outrider.ingest.targets import PAGE, parse_target
    from outrider.nodes.analyze import WorkIdentifier
    from outrider.sources.github.parse import normal_name

    full = text if ":" in text else f"doi:{text}" if text.startswith("10.") else f"github:{text}"
    target = parse_target(full) if ":" in text or text.startswith("10.") or normal_name(text) else None
    if target is None or target.scheme == PAGE:
        raise BadRequest(f"{text!r} names no repository and no paper; write owner/name, a DOI, arxiv:2101.00001, pmid:31452104 or a link")
    return WorkIdentifier(target.scheme, target.value)


def make_subject(services: Services) -> Subject:
    from outrider.nodes.analyze import Subject
    from outrider.sources.github.repository import GithubDependencies
    from outrider.state.analysis import Depending

    sources = services.sources
    github = find_github(sources)
    dependencies = services.wrap("dependencies", lambda: GithubDependencies(github) if github else None, Depending)
    return Subject(
        parse_analysis_target,
        sources,
        find_detailers(sources),
        dependencies,
        services.text_fetcher,
        services.settings.enrich.full_text_work_s,
        make_analysis_cache(services),
    )


def make_surroundings(services: Services) -> Surroundings:
    from outrider.nodes.analyze import Surroundings
    from outrider.sources.semantic_scholar import SemanticScholar
    from outrider.state.analysis import Citing

    citing = services.wrap(
        "citing",
        lambda: next((source for source in map(without_port, services.sources) if isinstance(source, SemanticScholar)), None),
        Citing,
    )
    return Surroundings(services.sources, citing, services.settings.analyze)


def make_ratings(services: Services) -> Ratings:
    from outrider.nodes.analyze import Ratings

    scorer = None
    if services.chat is not None:
        prompts = services.scoring_prompts
        weights = services.settings.repository.model_dump()
        scorer = RepositoryScorer(services.chat, prompts.text(prompts.repositories), "ratings", weights, services.clock)
    return Ratings(scorer, services.chat_says, services.clock)


def make_evidence(services: Services) -> Evidence:
    from outrider.nodes.analyze import Evidence

    provider = services.wrap("distillers", lambda: partial(prepare_distillers, services, max_units=0), DistillerProvider)

    async def distil_reading(query: str, reading: Reading, max_tokens: int) -> DistilledContext:
        return await distil(services, query, [reading], max_tokens=max_tokens, provider=provider)

    return Evidence(distil_reading)


def make_analysis_cache(services: Services) -> AnalysisCache | None:
    """None also for a chat model passed to `Services`: its name may not distinguish it from another model."""
    cache = services.settings.answer_cache
    if not cache.fresh_s or (services.chat is not None and not services.chat_is_of_settings):
        return None
    settings = services.settings
    if is_cache_refused(settings):
        return None
    from outrider.nodes.analyze import AnalysisCache
    from outrider.sources.http.cache import AnswerTextCache

    parts = [settings.analyze.model_dump(), settings.distiller.model_dump(mode="json"), list(services.source_names)]
    key = settings.llm.api_key.get_secret_value()
    texts = services.wrap("analysis cache", lambda: AnswerTextCache(open_answer_cache(cache), key), TextCache)
    return None if texts is None else AnalysisCache(texts, cache.fresh_s, lambda: json.dumps([dict(services.versions), *parts]))


def make_translator(services: Services, *, plans_kept: bool = True) -> Translator:
    settings = services.settings
    return Translator(
        services.shelf,
        services.source_names,
        settings.stars,
        services.clock,
        services.chat,
        services.chat_says,
        services.query_prompt,
        settings.llm,
        settings.run,
        make_plan_cache(services) if plans_kept else None,
    )


def make_plan_cache(services: Services) -> PlanCache | None:
    """None also for a chat model passed to `Services`: its name may not distinguish it from another model."""
    cache = services.settings.answer_cache
    if not services.chat_is_of_settings or not cache.translations_s or is_cache_refused(services.settings):
        return None
    from outrider.sources.http.cache import AnswerTextCache

    key = services.settings.llm.api_key.get_secret_value()
    texts = services.wrap("plan cache", lambda: AnswerTextCache(open_answer_cache(cache), key), TextCache)
    return None if texts is None else PlanCache(texts, cache.translations_s)


def make_systematic(services: Services) -> Callable[[PipelineState, Runtime[RunContext]], Awaitable[Update]]:
    """The node of systematic runs. What they need is imported with the first one: four dozen modules that no other search needs."""

    async def run_systematic(state: PipelineState, runtime: Runtime[RunContext]) -> Update:
        module = await load_module("outrider.services.systematic")
        update: Update = await module.make_systematic_node(services)(state, runtime)
        return update

    return run_systematic


def refuse_unreadable(services: Services, request: SearchRequest) -> None:
    """Raise `BooleanSyntaxError` or `BadRequest` for an invalid query, and for a source that no systematic run can read."""
    from outrider.services.systematic import refuse_unreadable

    refuse_unreadable(services, request)


def make_dedup(services: Services) -> Dedup:
    settings = services.settings
    model = (services.chat, services.dedup_prompt, settings.llm, settings.run, services.clock)
    return Dedup(*model, settings.identity, services.decisions, services.workers)


def make_scorer(services: Services) -> FineScorer:
    settings = services.settings
    return FineScorer(
        services.chat,
        services.chat_says,
        RuleRanker(settings.ranking, services.clock),
        services.scoring_prompts,
        settings.repository,
        settings.llm,
        settings.run,
        services.clock,
        StopWhenSettled(settings.llm.max_risk),
    )


def make_full_text(services: Services) -> Callable[[PipelineState, Runtime[RunContext]], Awaitable[Update]]:
    """The node of open full texts. It is imported with the first search that asks for them."""

    async def read_full_texts(state: PipelineState, runtime: Runtime[RunContext]) -> Update:
        module = await load_module("outrider.nodes.full_text")
        fetcher, why_not = await services.text_fetcher()
        settings, saves = services.settings, services.settings.enrich.keep
        node = module.FullTextNode(fetcher, why_not, services.text_keeper if saves else None, settings.enrich, settings.run, services.clock)
        update: Update = await node(state, runtime)
        return update

    return read_full_texts


def make_answer(services: Services) -> Callable[[PipelineState, Runtime[RunContext]], Awaitable[Update]]:
    """The node of the short answer. Its checks are imported with the first one, since most searches ask for none."""

    async def write_answer(state: PipelineState, runtime: Runtime[RunContext]) -> Update:
        module = await load_module("outrider.nodes.answer.answer")
        settings = services.settings
        own = (services.answer_prompt, settings.answer, settings.llm, settings.run, services.clock)
        update: Update = await module.Answer(services.chat, services.chat_says, *own)(state, runtime)
        return update

    return write_answer


def make_enrich(services: Services) -> Enrich:
    settings = services.settings
    return Enrich(
        services.sources,
        find_detailers(services.sources),
        services.pages,
        find_identifiers,
        services.keeper,
        settings.enrich,
        settings.coarse_filter,
        settings.run,
        services.clock,
        settings.identity,
        services.decisions,
        services.workers,
    )
