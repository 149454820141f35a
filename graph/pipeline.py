"""The search pipeline on one page.

::

    START -> translator -> scout -> dedup -> coarse_filter -> fine_scorer -> reranker -> organizer -> distiller -> END
                 |           |        |                         |      |        |
                END         END      END                       END     +-> rule_ranker   where no model scores

To END with `failures`: where nothing can be searched, and where the model's key is not accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from outrider.graph.guard import Guard
from outrider.graph.routes import accepted, failed, scored
from outrider.nodes.coarse_filter import CoarseFilter
from outrider.nodes.dedup import Dedup
from outrider.nodes.distiller import Distiller
from outrider.nodes.organizer import Organizer
from outrider.nodes.reranker import Reranker
from outrider.nodes.rule_ranker import RuleRanker
from outrider.nodes.scout import Scout
from outrider.services import Services
from outrider.services.nodes import scorer_of, translator_of
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.provenance import provenance_hash
from outrider.state.request import SearchRequest, checked
from outrider.state.response import SearchResponse

SearchGraph = CompiledStateGraph[PipelineState, RunContext, Any, Any]

DESCRIPTIONS = {
    "translator": "Request -> intent and search strategy, by a model or by rules.",
    "scout": "Every source and strategy at once; ranked lists, fused.",
    "dedup": "One work, one candidate: same identifier and agreeing title; then what a model proposes and evidence bears out.",
    "coarse_filter": "Rules only: years, stars, last push, README, archived, trivial forks; then the first of each kind.",
    "fine_scorer": "How well each work answers the request, by a model; repositories on six dimensions.",
    "rule_ranker": "BM25+, fused rank, recency and citations, where no model scores.",
    "reranker": "A model that reads query and text together reorders the first works, where a probe showed that it helps.",
    "organizer": "Threshold, total order, facets, top_k.",
    "distiller": "Only the sentences that answer, verbatim, with offsets.",
}


def build(services: Services) -> SearchGraph:
    """The compiled graph over these services; loads no model and opens no file."""
    settings = services.settings

    def unfinished(state: PipelineState) -> Update:
        return {"provenance_hash": provenance_hash(state, state.strategy, state.snapshot, services.versions, ())}

    def nothing_found(state: PipelineState) -> Update:
        return {"sources": (), **unfinished(state)}

    guard = Guard(services.clock, settings.run)
    llm, run = settings.llm, settings.run
    scout = Scout(services.sources, services.fuse, services.interleave, settings.run, services.clock)
    nodes = {
        "translator": guard("translator", translator_of(services), fallback=nothing_found, first=True),
        "scout": guard("scout", scout, fallback=nothing_found),
        "dedup": guard("dedup", Dedup(services.chat, services.dedup_prompt, llm, run, services.clock), fallback=unfinished),
        "coarse_filter": guard("coarse_filter", CoarseFilter(settings.coarse_filter, services.clock)),
        "fine_scorer": guard("fine_scorer", scorer_of(services), fallback=unfinished),
        "rule_ranker": guard("rule_ranker", RuleRanker(settings.ranking, services.clock)),
        "reranker": guard("reranker", Reranker(services.reranker, settings.reranker, settings.run, services.clock)),
        "organizer": guard("organizer", Organizer(services.shelf, settings.organizer, services.versions)),
        "distiller": guard("distiller", Distiller(services.context_frame, settings.distiller)),
    }

    graph = StateGraph(PipelineState, context_schema=RunContext, input_schema=SearchRequest, output_schema=SearchResponse)
    for name, node in nodes.items():
        graph.add_node(name, node, input_schema=PipelineState, metadata={"description": DESCRIPTIONS[name]})
    graph.add_edge(START, "translator")
    graph.add_conditional_edges("translator", failed("translator"), {"ok": "scout", "failed": END})
    graph.add_conditional_edges("scout", failed("scout"), {"ok": "dedup", "failed": END})
    graph.add_conditional_edges("dedup", accepted, {"ok": "coarse_filter", "rejected": END})
    graph.add_edge("coarse_filter", "fine_scorer")
    graph.add_conditional_edges("fine_scorer", scored, {"ok": "reranker", "failed": "rule_ranker", "rejected": END})
    graph.add_edge("rule_ranker", "reranker")
    graph.add_edge("reranker", "organizer")
    graph.add_edge("organizer", "distiller")
    graph.add_edge("distiller", END)
    return _with_a_door(graph.compile(name="search"))


def _with_a_door(graph: SearchGraph) -> SearchGraph:
    """Inputs are checked before the first node: LangGraph itself drops an unknown field without a word."""

    def door(asked: Mapping[str, Any] | SearchRequest) -> dict[str, Any]:
        return dict(checked(asked))

    graph.nodes[START].mapper = door
    return graph


graph = build(Services.from_file())
"""The graph over the settings of this process, for `langgraph.json` and for scripts."""
