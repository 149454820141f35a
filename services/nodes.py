"""The nodes that ask a model, over the services: for the graph, and for single steps without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outrider.nodes.fine_scorer import FineScorer
from outrider.nodes.rule_ranker import RuleRanker
from outrider.nodes.scoring import Settled
from outrider.nodes.translator import Translator

if TYPE_CHECKING:
    from outrider.services import Services


def translator_of(services: Services) -> Translator:
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
    )


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
