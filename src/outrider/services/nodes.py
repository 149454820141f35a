"""The nodes of an analysis over the services, and what a target names.

The nodes that take many parts, over the services: for the graph, and for single steps without it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from outrider.ingest.parse_targets import PAGE, parse_target
from outrider.nodes.analysis.ratings import Ratings
from outrider.nodes.analysis.subject import AnalysisCache, Evidence, Subject, WorkIdentifier
from outrider.nodes.analysis.surroundings import Surroundings
from outrider.nodes.dedup.dedup import Dedup
from outrider.nodes.enrich.enrich import Enrich
from outrider.nodes.fine_scorer.fine_scorer import FineScorer
from outrider.nodes.fine_scorer.repositories import RepositoryScorer
from outrider.nodes.fine_scorer.waves import StopWhenSettled
from outrider.nodes.rule_ranker import RuleRanker
from outrider.nodes.translator.plan_cache import PlanCache
from outrider.nodes.translator.translator import Translator
from outrider.services.distiller import distil
from outrider.services.sources import answers_of, detailers_of
from outrider.sources.github.parse import normal_name
from outrider.sources.github.repository import GithubDependencies
from outrider.sources.github.search import Github
from outrider.sources.http.cache import Texts
from outrider.sources.semantic_scholar import SemanticScholar
from outrider.sources.web.link_identifiers import identifiers_of
from outrider.state.errors import BadRequest

if TYPE_CHECKING:
    from outrider.services import Services
    from outrider.state.distilling import Reading
    from outrider.state.response import DistilledContext


def named_of(target: str) -> WorkIdentifier:
    """`owner/name`, a DOI, `arxiv:...`, `pmid:...`, `pmcid:...`, or a link to one of them. Raises `BadRequest`."""
    bare = target if ":" in target else f"doi:{target}" if target.startswith("10.") else f"github:{target}"
    found = parse_target(bare) if ":" in target or target.startswith("10.") or normal_name(target) else None
    if found is None or found.scheme == PAGE:
        raise BadRequest(f"{target!r} names no repository and no paper; write owner/name, a DOI, arxiv:2101.00001, pmid:31452104 or a link")
    return WorkIdentifier(found.scheme, found.value)


def subject_of(services: Services) -> Subject:
    sources = services.sources
    github = next((one for one in sources if isinstance(one, Github)), None)
    depending = GithubDependencies(github.repositories) if github else None
    return Subject(named_of, sources, detailers_of(sources), depending, services.pages, kept_analyses(services))


def surroundings_of(services: Services) -> Surroundings:
    citing = next((one for one in services.sources if isinstance(one, SemanticScholar)), None)
    return Surroundings(services.sources, citing, services.settings.analyze)


def ratings_of(services: Services) -> Ratings:
    scorer = None
    if services.chat is not None:
        prompts = services.scoring_prompts
        weights = services.settings.repository.model_dump()
        scorer = RepositoryScorer(services.chat, prompts.text(prompts.repositories), "ratings", weights, services.clock)
    return Ratings(scorer, services.chat_says, services.clock)


def evidence_of(services: Services) -> Evidence:
    async def distilled(query: str, reading: Reading, most_tokens: int) -> DistilledContext:
        return await distil(services, query, [reading], max_tokens=most_tokens)

    return Evidence(distilled)


def kept_analyses(services: Services) -> AnalysisCache | None:
    """None also for a model that was given by hand: its name may not tell it from another."""
    cache = services.settings.cache
    if not cache.fresh_s or (services.chat is not None and not services.chat_is_of_settings):
        return None
    said = [dict(services.versions), services.settings.analyze.model_dump(), services.settings.distiller.model_dump(mode="json")]
    secret = services.settings.llm.api_key.get_secret_value()
    return AnalysisCache(Texts(answers_of(cache), secret), cache.fresh_s, json.dumps([*said, list(services.source_names)]))


def translator_of(services: Services, *, plans_kept: bool = True) -> Translator:
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
        drafts_of(services) if plans_kept else None,
    )


def drafts_of(services: Services) -> PlanCache | None:
    """None also for a model that was given by hand: its name may not tell it from another."""
    cache = services.settings.cache
    if not services.chat_is_of_settings or not cache.translations_s:
        return None
    return PlanCache(Texts(answers_of(cache), services.settings.llm.api_key.get_secret_value()), cache.translations_s)


def dedup_of(services: Services) -> Dedup:
    settings = services.settings
    asked = (services.chat, services.dedup_prompt, settings.llm, settings.run, services.clock)
    return Dedup(*asked, settings.identity, services.decisions, services.workers)


def scorer_of(services: Services) -> FineScorer:
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


def enrich_of(services: Services) -> Enrich:
    settings = services.settings
    return Enrich(
        services.sources,
        detailers_of(services.sources),
        services.pages,
        identifiers_of,
        services.keeper,
        settings.enrich,
        settings.coarse_filter,
        settings.run,
        services.clock,
        settings.identity,
        services.decisions,
        services.workers,
    )
