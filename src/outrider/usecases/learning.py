"""Learning from use: feedback is recorded, shown, reset; queries are completed.

All of it is local, and off unless `learning.enabled` is set. On a server with keys, each owner has its own feedback and history.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from outrider.learning.preferences import fit, prove
from outrider.services.citation_queue import OWNER, find_library_address
from outrider.services.learning import find_learning_store
from outrider.state.errors import BadRequest, LibraryError, SearchError
from outrider.state.learning import FeedbackAction, FeedbackList, JudgedWork, Proof, list_features, name_features
from outrider.state.model import Model
from outrider.usecases.export import make_record

if TYPE_CHECKING:
    from outrider.services import Services
    from outrider.state.citations import CitationCandidate
    from outrider.state.response import SearchResponse

OFF = "learning from use is off; switch it on with the setting learning.enabled"
MOST_COMPLETIONS = 8
MIN_TERM_CHARS = 2
MOST_UNDECIDED = 20
"""First candidates of a chase that are recorded, besides those that were decided on."""
TERM_KINDS = ("keyword", "mesh", "venue")
MOST_TERM_ROWS = 2_000
SHOWN_WEIGHTS = 10
LEARNED = "learned"
"""Key of a hit's scores for what use added."""

log = logging.getLogger(__name__)


class LearnedWeight(Model):
    feature: str
    weight: float = Field(description="Between -1 and 1; the three strongest of a work count.")


class LearningStatus(Model):
    """What was learned from use of a library."""

    enabled: bool
    library: str = ""
    searches: int = Field(0, description="Searches with feedback.")
    used: bool = Field(False, description="Whether it orders the hits: it must first be proven to help.")
    why: str = ""
    proof: Proof | None = None
    weights: tuple[LearnedWeight, ...] = Field((), description="The strongest.")


class Completion(Model):
    text: str
    source: Literal["history", "library"]


async def record_feedback(
    services: Services, search_id: str, answer: SearchResponse, doc_id: str, action: FeedbackAction, owner: str = ""
) -> None:
    """Remember what was done with a hit of an answer. Raises `BadRequest` while learning is off, and for a work that is no hit."""
    settings = services.settings
    if not settings.learning.enabled:
        raise BadRequest(OFF)
    if all(hit.doc_id != doc_id for hit in answer.hits):
        raise BadRequest(f"doc_id: {doc_id[:200]!r} is no hit of this search")

    def write() -> None:
        works = (
            JudgedWork(doc_id=hit.doc_id, score=hit.score - hit.scores.get(LEARNED, 0.0), features=list_features(make_record(hit)))
            for hit in answer.hits
        )
        shown = FeedbackList(id=search_id, query=str(answer.query), works=tuple(works))
        find_learning_store(settings).record(shown, find_library_address(settings), owner, {doc_id: action})

    await asyncio.to_thread(write)


async def record_decisions(
    services: Services, target: str, number: int, candidates: Sequence[CitationCandidate], actions: Mapping[str, FeedbackAction]
) -> None:
    """Remember a round of a chase of citations, in which candidates were included or excluded by name, unless learning is off.

    A file that cannot be written costs the feedback alone.
    """
    settings = services.settings
    listed = [one for at, one in enumerate(candidates) if one.key in actions or at < MOST_UNDECIDED]
    if not settings.learning.enabled or settings.serve.read_only or not actions:
        return
    # the scores of candidates are on no scale of hits: their order alone counts
    works = (
        JudgedWork(doc_id=one.key, score=1 - rank / 100, features=name_features(one.venue, one.authors)) for rank, one in enumerate(listed)
    )
    shown = FeedbackList(id=f"cite:{target}:{number}", query=f"citations of {target}", works=tuple(works))

    def write() -> None:
        find_learning_store(settings).record(shown, find_library_address(settings), OWNER.get() or "", actions)

    try:
        await asyncio.to_thread(write)
    except SearchError as error:
        log.warning("%s", error)


async def show_learning(services: Services, owner: str = "") -> LearningStatus:
    """What was learned, and whether it is proven to help."""
    settings = services.settings

    def read() -> LearningStatus:
        lists = find_learning_store(settings).read(find_library_address(settings), owner)
        proof, weights = prove(lists), fit(lists).weights
        strongest = sorted(weights.items(), key=lambda pair: (-abs(pair[1]), pair[0]))[:SHOWN_WEIGHTS]
        return LearningStatus(
            enabled=settings.learning.enabled,
            library=find_library_address(settings),
            searches=len(lists),
            used=settings.learning.enabled and proof.is_proven,
            why=proof.why if settings.learning.enabled else OFF,
            proof=proof,
            weights=tuple(LearnedWeight(feature=str(feature), weight=round(weight, 3)) for feature, weight in strongest),
        )

    return await asyncio.to_thread(read)


async def reset_learning(services: Services, owner: str = "") -> int:
    """Forget all feedback on the library; the number of searches."""
    settings = services.settings
    return await asyncio.to_thread(lambda: find_learning_store(settings).reset(find_library_address(settings), owner))


async def clear_history(services: Services, owner: str = "") -> int:
    """Forget past queries; their number."""
    return await asyncio.to_thread(lambda: find_learning_store(services.settings).forget_queries(owner))


async def remember_query(services: Services, query: str, owner: str = "") -> None:
    """Add a query to the history, unless learning or the history is off. A file that cannot be written costs the query alone."""
    settings = services.settings.learning
    if settings.enabled and settings.history:
        try:
            await asyncio.to_thread(lambda: find_learning_store(services.settings).remember(query, owner))
        except SearchError as error:
            log.warning("%s", error)


async def complete_query(services: Services, beginning: str, owner: str = "") -> tuple[Completion, ...]:
    """Past queries that begin so, then the last word completed by keywords, subjects and venues of the library."""
    settings = services.settings.learning
    past: list[str] = []
    if settings.enabled and settings.history and beginning.strip():
        past = await asyncio.to_thread(lambda: find_learning_store(services.settings).complete(beginning, owner, MOST_COMPLETIONS))
    found = [Completion(text=text, source="history") for text in past]
    head, _, word = beginning.rpartition(" ")
    if len(found) < MOST_COMPLETIONS and len(word) >= MIN_TERM_CHARS and services.has_own_library:
        terms = await _find_terms(services, word.lower())
        known = {text.casefold() for text in past}
        texts = (f"{head} {term}".strip() for term in terms)
        found += [Completion(text=text, source="library") for text in texts if text.casefold() not in known]
    return tuple(found[:MOST_COMPLETIONS])


async def _find_terms(services: Services, beginning: str) -> list[str]:
    """The most frequent first."""
    from outrider.library.filter_sql import literal

    if not beginning.isalnum():  # also no sign of a pattern
        return []
    kinds = ", ".join(map(literal, TERM_KINDS))
    try:
        library = await services.library()
        rows = await library.edges(f"kind IN ({kinds}) AND starts_with(name, {literal(beginning)})", MOST_TERM_ROWS)
    except LibraryError:
        return []
    counts = Counter(row[3] for row in rows)
    return sorted(counts, key=lambda name: (-counts[name], len(name), name))[:MOST_COMPLETIONS]
