"""The nodes that take many parts, over the services: for the graph, and for single steps without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outrider.nodes.dedup import Dedup
from outrider.nodes.enrich import Enrich
from outrider.nodes.fine_scorer import FineScorer
from outrider.nodes.kept_drafts import KeptDrafts
from outrider.nodes.rule_ranker import RuleRanker
from outrider.nodes.scoring import Settled
from outrider.nodes.translator import Translator
from outrider.services.sources import answers_of, detailers_of
from outrider.sources.calls.texts import Texts
from outrider.sources.pages.links import identifiers_of

if TYPE_CHECKING:
    from outrider.services import Services


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


def drafts_of(services: Services) -> KeptDrafts | None:
    """None also for a model that was given by hand: its name may not tell it from another."""
    cache = services.settings.cache
    if not services.chat_is_of_settings or not cache.translations_s:
        return None
    return KeptDrafts(Texts(answers_of(cache), services.settings.llm.api_key.get_secret_value()), cache.translations_s)


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
        Settled(settings.llm.max_risk),
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
