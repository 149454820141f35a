"""Public interface of Outrider, a search over papers, repositories and one's own library.

>>> from outrider import search
>>> answer = search("retry a failing call with exponential backoff")  # doctest: +SKIP
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from outrider.moved import MovedModules
from outrider.version import __version__ as __version__

__all__ = [
    "BadRequest", "Candidate", "Embedder", "Facets", "Hit", "HitList", "LibraryMissing", "Record", "RunContext", "ScoringResult",
    "SearchError", "SearchRequest", "SearchResponse", "Services", "Translation", "aadd_to_library", "aanalyze", "acite_candidates",
    "acite_export", "acite_queue", "acite_status", "acompare", "add_to_library", "adistill", "aexecute", "afetch_full_text",
    "afind_code_links", "amerge", "analyze", "aplan_search", "areindex", "aresume", "areview_export", "areview_import", "areview_label",
    "areview_new", "areview_next", "areview_status", "asearch", "asplit", "asystematic", "cite_candidates", "cite_export", "cite_queue",
    "cite_status", "compare", "dedup", "distill", "execute", "fetch_full_text", "find_code_links", "iter_hits", "merge", "organize",
    "plan_search", "reindex", "replay", "replay_recording", "resume", "review_export", "review_import", "review_label", "review_new",
    "review_next", "review_status", "score", "search", "split", "systematic", "translate", "verify",
]  # fmt: skip

if TYPE_CHECKING:
    from outrider.models.embed.embedder import Embedder
    from outrider.nodes.fine_scorer.fine_scorer import ScoringResult
    from outrider.nodes.translator.translator import Translation
    from outrider.services import Services
    from outrider.state.errors import BadRequest, LibraryMissing, SearchError
    from outrider.state.hits import Candidate, Hit
    from outrider.state.pipeline import RunContext
    from outrider.state.records import Record
    from outrider.state.request import SearchRequest
    from outrider.state.response import Facets, SearchResponse
    from outrider.usecases.analyze import aanalyze, analyze
    from outrider.usecases.cite import (
        acite_candidates,
        acite_export,
        acite_queue,
        acite_status,
        cite_candidates,
        cite_export,
        cite_queue,
        cite_status,
    )
    from outrider.usecases.code_links import afind_code_links, find_code_links
    from outrider.usecases.compare import acompare, compare
    from outrider.usecases.deduplicate import amerge, asplit, dedup, merge, split
    from outrider.usecases.distill import adistill, distill
    from outrider.usecases.full_text import afetch_full_text, fetch_full_text
    from outrider.usecases.ingest import aadd_to_library, add_to_library, areindex, reindex
    from outrider.usecases.plan import aplan_search, plan_search
    from outrider.usecases.replay_recording import replay_recording
    from outrider.usecases.review import (
        areview_export,
        areview_import,
        areview_label,
        areview_new,
        areview_next,
        areview_status,
        review_export,
        review_import,
        review_label,
        review_new,
        review_next,
        review_status,
    )
    from outrider.usecases.search import aresume, asearch, organize, resume, score, search, translate
    from outrider.usecases.search_library import HitList, aexecute, execute
    from outrider.usecases.systematic import asystematic, iter_hits, replay, systematic, verify

_HOMES = {
    "BadRequest": "outrider.state.errors",
    "Candidate": "outrider.state.hits",
    "Embedder": "outrider.models.embed.embedder",
    "Facets": "outrider.state.response",
    "Hit": "outrider.state.hits",
    "HitList": "outrider.usecases.search_library",
    "LibraryMissing": "outrider.state.errors",
    "Record": "outrider.state.records",
    "RunContext": "outrider.state.pipeline",
    "ScoringResult": "outrider.nodes.fine_scorer.fine_scorer",
    "SearchError": "outrider.state.errors",
    "SearchRequest": "outrider.state.request",
    "SearchResponse": "outrider.state.response",
    "Services": "outrider.services",
    "Translation": "outrider.nodes.translator.translator",
    "aadd_to_library": "outrider.usecases.ingest",
    "aanalyze": "outrider.usecases.analyze",
    "acite_candidates": "outrider.usecases.cite",
    "acite_export": "outrider.usecases.cite",
    "acite_queue": "outrider.usecases.cite",
    "acite_status": "outrider.usecases.cite",
    "acompare": "outrider.usecases.compare",
    "add_to_library": "outrider.usecases.ingest",
    "adistill": "outrider.usecases.distill",
    "aexecute": "outrider.usecases.search_library",
    "afetch_full_text": "outrider.usecases.full_text",
    "afind_code_links": "outrider.usecases.code_links",
    "amerge": "outrider.usecases.deduplicate",
    "analyze": "outrider.usecases.analyze",
    "aplan_search": "outrider.usecases.plan",
    "areindex": "outrider.usecases.ingest",
    "areview_export": "outrider.usecases.review",
    "areview_import": "outrider.usecases.review",
    "areview_label": "outrider.usecases.review",
    "areview_new": "outrider.usecases.review",
    "areview_next": "outrider.usecases.review",
    "areview_status": "outrider.usecases.review",
    "aresume": "outrider.usecases.search",
    "asearch": "outrider.usecases.search",
    "asplit": "outrider.usecases.deduplicate",
    "asystematic": "outrider.usecases.systematic",
    "cite_candidates": "outrider.usecases.cite",
    "cite_export": "outrider.usecases.cite",
    "cite_queue": "outrider.usecases.cite",
    "cite_status": "outrider.usecases.cite",
    "compare": "outrider.usecases.compare",
    "dedup": "outrider.usecases.deduplicate",
    "distill": "outrider.usecases.distill",
    "execute": "outrider.usecases.search_library",
    "fetch_full_text": "outrider.usecases.full_text",
    "find_code_links": "outrider.usecases.code_links",
    "iter_hits": "outrider.usecases.systematic",
    "merge": "outrider.usecases.deduplicate",
    "organize": "outrider.usecases.search",
    "plan_search": "outrider.usecases.plan",
    "reindex": "outrider.usecases.ingest",
    "replay": "outrider.usecases.systematic",
    "review_export": "outrider.usecases.review",
    "review_import": "outrider.usecases.review",
    "review_label": "outrider.usecases.review",
    "review_new": "outrider.usecases.review",
    "review_next": "outrider.usecases.review",
    "review_status": "outrider.usecases.review",
    "replay_recording": "outrider.usecases.replay_recording",
    "resume": "outrider.usecases.search",
    "score": "outrider.usecases.search",
    "search": "outrider.usecases.search",
    "split": "outrider.usecases.deduplicate",
    "systematic": "outrider.usecases.systematic",
    "translate": "outrider.usecases.search",
    "verify": "outrider.usecases.systematic",
}

sys.meta_path.append(MovedModules())


def __getattr__(name: str) -> Any:
    """Public names are loaded at first use, so that `import outrider` costs next to nothing."""
    if name not in __all__:
        raise AttributeError(f"module 'outrider' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names, so that `dir` and completion show them before they are loaded."""
    return sorted([*__all__, "__version__"])
