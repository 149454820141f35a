"""Services that a systematic run may ask, from the settings: those that can be read to the last hit, and those that refuse by name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from outrider.settings.model import Settings
from outrider.sources.calls.caller import Caller
from outrider.sources.calls.service import Service
from outrider.sources.crossref import Crossref
from outrider.sources.github import Github
from outrider.sources.openalex import Openalex
from outrider.sources.pubmed import Pubmed
from outrider.sources.semantic_scholar import SemanticScholar
from outrider.sources.systematic.asking import Asker
from outrider.sources.systematic.crossref import CrossrefWorld
from outrider.sources.systematic.github import GithubWorld
from outrider.sources.systematic.not_reproducible import REFUSED, UNSAID, Refused
from outrider.sources.systematic.openalex import OpenalexWorld
from outrider.sources.systematic.pubmed import PubmedWorld
from outrider.sources.systematic.semantic_scholar import SemanticScholarWorld
from outrider.state.systematic import WorldSource

LEAST_TIMEOUT_S = 60.0
"""Of one request: hundreds of records take longer than the first few."""

log = logging.getLogger(__name__)


def world_sources(settings: Settings, say: Callable[[str], None] = log.warning) -> Mapping[str, WorldSource]:
    """By name, in the order in which they are asked; none where only the library is asked. `say` is told of long waits.

    They share the limits of the searches of this process, but no cache: a run's answers are of now.
    """
    asked = settings.sources
    if asked.offline:
        return {}
    caller = Caller(contact=asked.contact, fresh_s=0.0)

    def asker(service: Service) -> Asker:
        return Asker(caller, replace(service, timeout_s=max(LEAST_TIMEOUT_S, service.timeout_s)), say)

    made: tuple[tuple[bool, Callable[[], WorldSource]], ...] = (
        (asked.pubmed.enabled, lambda: PubmedWorld(asker(Pubmed.of(asked.pubmed, caller).service))),
        (asked.openalex.enabled, lambda: OpenalexWorld(asker(Openalex.of(asked.openalex, caller).service))),
        (asked.semantic_scholar.enabled, lambda: SemanticScholarWorld(asker(SemanticScholar.of(asked.semantic_scholar, caller).service))),
        (asked.crossref.enabled, lambda: CrossrefWorld(asker(Crossref.of(asked.crossref, caller).service))),
        (asked.github.enabled, lambda: GithubWorld(asker(Github.of(asked.github, caller).service))),
    )
    sources: list[WorldSource] = [make() for enabled, make in made if enabled]
    refusing = [Refused(name) for name in (*REFUSED, *UNSAID) if getattr(asked, name).enabled]
    return {source.name: source for source in (*sources, *refusing)}
