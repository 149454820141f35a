"""The search pipeline on one page.

::

                 +-> systematic -> END   an exact run: pages to a ledger, its location to the state
                 |
    START -> translator -> scout -> dedup -> enrich -> coarse_filter -> fine_scorer -> reranker -> organizer -> distiller -> END
                 |           |        |                                   |      |        |            |         ^  |
                END         END      END                                 END     +-> rule_ranker       +-> full_text  +-> answer -> END
                                                                                    without a model's    if asked for   if asked for
                                                                                    scores

If asked for, `review_plan` stands between translator and scout, and `review_results` after the organizer: they wait for a person.
To END with `failures`: if nothing can be searched, or if the provider rejects the model's key.
As a node of another graph it reads the parent's state: `graph.parent`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

from langgraph.config import get_config
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from outrider.graph.guard import (
    Finish,
    Guard,
    Guarded,
    Node,
    Route,
    TracedGraph,
    add_recorder,
    after_dedup,
    after_distiller,
    after_fine_scorer,
    after_organizer,
    after_review_results,
    after_translator,
    route_on_failure,
)
from outrider.graph.parent import SearchInput, SearchOutput, SearchState, add_output, read_input
from outrider.nodes.coarse_filter import CoarseFilter
from outrider.nodes.organizer import Organizer
from outrider.nodes.reranker import Reranker
from outrider.nodes.review_plan import ReviewPlan
from outrider.nodes.review_results import ReviewResults
from outrider.nodes.rule_ranker import RuleRanker
from outrider.nodes.scout import Scout
from outrider.services import ModelUse, Services
from outrider.services.checkpoints import register_state_types
from outrider.services.distiller import make_distiller
from outrider.services.make_nodes import (
    make_answer,
    make_dedup,
    make_enrich,
    make_full_text,
    make_scorer,
    make_systematic,
    make_translator,
    refuse_unreadable,
)
from outrider.services.run_features import note_search
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.request import SearchRequest
from outrider.state.response import provenance_hash

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from outrider.services.citation_queue import CitationQueue
    from outrider.services.planner import Planner

register_state_types()

SearchGraph = CompiledStateGraph[SearchState, RunContext, Any, Any]

DESCRIPTIONS = {
    "translator": "Request -> intent and search strategy, by a model or by rules.",
    "review_plan": "If asked for: waits for a person, who may change queries, sources and filters.",
    "systematic": "Every match of a Boolean query, in a stated order, to a ledger on disk; no vectors, no rerank, no distillation.",
    "scout": "Every source and strategy at once; ranked lists, fused.",
    "dedup": "One candidate per work, by weighed evidence and stored decisions; preprints folded; then a model's proposals.",
    "enrich": "Missing abstracts, pages and details of repositories, within budgets; abstracts are saved in the library.",
    "coarse_filter": "Rules only: years, stars, last push, README, archived, trivial forks; then the first of each kind.",
    "fine_scorer": "How well each work answers the request, by a model; repositories on six dimensions.",
    "rule_ranker": "BM25+ and fused rank, where no model scores; recency and citations if the request asks for them.",
    "reranker": "A model that reads query and text together reorders the first works, where a probe showed that it helps.",
    "organizer": "Threshold, total order, facets, top_k.",
    "full_text": "If asked for: open full texts of the first hits, by identifier, with their licences; kept in the library.",
    "review_results": "If asked for: waits for a person, who may keep works, drop them, or ask for more like them.",
    "distiller": "Only the sentences that answer, verbatim, with offsets.",
    "answer": "If asked for: a few sentences by a model, each with citations of kept sentences, checked before they are shown.",
}
EDGES: Mapping[str, str | tuple[Route, dict[Hashable, str]]] = {
    "translator": (after_translator, {"ok": "scout", "review": "review_plan", "systematic": "systematic", "failed": END}),
    "review_plan": "scout",
    "systematic": END,
    "scout": (route_on_failure("scout"), {"ok": "dedup", "failed": END}),
    "dedup": (after_dedup, {"ok": "enrich", "rejected": END}),
    "enrich": "coarse_filter",
    "coarse_filter": "fine_scorer",
    "fine_scorer": (after_fine_scorer, {"ok": "reranker", "failed": "rule_ranker", "rejected": END}),
    "rule_ranker": "reranker",
    "reranker": "organizer",
    "organizer": (after_organizer, {"ok": "distiller", "full_text": "full_text", "review": "review_results"}),
    "review_results": (after_review_results, {"ok": "distiller", "full_text": "full_text"}),
    "full_text": "distiller",
    "distiller": (after_distiller, {"ok": END, "answer": "answer"}),
    "answer": END,
}


def make_finish(name: str, citations: CitationQueue | None = None, planner: Planner | None = None) -> Finish | None:
    """What a node writes besides its update where the run ends with it; None for a node that never is the last one.

    A run that ends with hits queues the job that reads their citations. What it took is stored for later plans.
    """
    edge = EDGES[name]
    if END not in ((edge,) if isinstance(edge, str) else edge[1].values()):
        return None

    def finish(state: SearchState, update: Update) -> dict[str, Any]:
        after = state.model_copy(update=dict(update))
        if not isinstance(edge, str) and edge[1][edge[0].invoke(after)] != END:
            return {}
        if citations is not None and after.hits:
            citations.add(after.hits, str(after.query), str(get_config().get("configurable", {}).get("thread_id") or ""))
        if planner is not None:
            planner.end(after)
        return add_output(state, update)

    return finish


def build(services: Services, checkpointer: BaseCheckpointSaver[Any] | bool | None = None) -> SearchGraph:
    """The compiled graph over these services. It loads models when its first run starts, before that run's time counts.

    With a checkpointer it needs a `thread_id`, and cached plans are not used: a resumed run would find its own plan and report that.
    As a node it saves its steps with the parent's checkpointer if a chat model answers: its answers are not paid twice. Without one, a
    search takes less time than saving its steps, and a resumed parent runs it again. False never saves them.
    """
    settings = services.settings

    def end_unfinished(state: PipelineState) -> Update:
        return {"provenance_hash": provenance_hash(state, state.strategy, state.snapshot, services.versions, ())}

    def end_without_results(state: PipelineState) -> Update:
        return {"sources": (), **end_unfinished(state)}

    async def warm(request: SearchRequest) -> None:
        if services.planner is not None:
            await note_search(services, request)
        await services.warm(ModelUse.of_request(request), searches=request.mode == "discovery")

    guarded = Guard(services.clock, settings.run, warm)

    def guard(name: str, node: Node, **options: Any) -> Guarded:
        return guarded(name, node, finish=make_finish(name, services.citation_queue, services.planner), **options)

    scout = Scout(services.sources, services.fuse, services.interleave, settings.run, services.clock)
    nodes = {
        "translator": guard("translator", make_translator(services, plans_kept=not checkpointer), fallback=end_without_results, first=True),
        "systematic": guard("systematic", make_systematic(services), fallback=end_without_results, timed=False),
        "review_plan": guarded.review("review_plan", ReviewPlan(services.source_names)),
        "scout": guard("scout", scout, fallback=end_without_results),
        "dedup": guard("dedup", make_dedup(services), fallback=end_unfinished),
        "enrich": guard("enrich", make_enrich(services)),
        "coarse_filter": guard("coarse_filter", CoarseFilter(settings.coarse_filter, services.clock, services.links)),
        "fine_scorer": guard("fine_scorer", make_scorer(services), fallback=end_unfinished),
        "rule_ranker": guard("rule_ranker", RuleRanker(settings.ranking, services.clock)),
        "reranker": guard("reranker", Reranker(services.reranker, settings.reranker, settings.run, services.clock)),
        "organizer": guard(
            "organizer", Organizer(services.shelf, settings.organizer, services.versions, services.clock, services.preferences)
        ),
        "review_results": guarded.review("review_results", ReviewResults(settings.organizer, services.versions)),
        "full_text": guard("full_text", make_full_text(services)),
        "distiller": guard("distiller", make_distiller(services)),
        "answer": guard("answer", make_answer(services)),
    }

    graph = StateGraph(SearchState, context_schema=RunContext, input_schema=SearchInput, output_schema=SearchOutput)
    for name, node in nodes.items():
        graph.add_node(name, node, input_schema=SearchState, metadata={"description": DESCRIPTIONS[name]})
    graph.add_edge(START, "translator")
    for name, edge in EDGES.items():
        if isinstance(edge, str):
            graph.add_edge(name, edge)
        else:
            graph.add_conditional_edges(name, *edge)
    add_recorder(graph, services, "search", plans_kept=not checkpointer)
    inherited = None if services.chat else False
    compiled = TracedGraph.wrap(graph.compile(inherited if checkpointer is None else checkpointer, name="search"))

    def check_input(value: Any) -> dict[str, Any]:
        request, others = read_input(value)
        if request.mode == "systematic":
            refuse_unreadable(services, request)
        fields = dict(request)
        if request.answer_enabled is None:
            fields["answer_enabled"] = settings.answer.enabled and request.mode == "discovery"
        if request.full_text_enabled is None:
            fields["full_text_enabled"] = settings.enrich.full_text == "first_n" and request.mode == "discovery"
        # a graph that never saves steps serves programs, which the settings do not ask
        fields["checkpoints"] = request.checkpoints or () if checkpointer is False else settings.checkpoints.list_points(request)
        return {**fields, **others}

    # Before the first node, since LangGraph itself drops unknown fields silently.
    compiled.nodes[START].mapper = check_input
    return compiled


CHANGING = frozenset({"kept_graph", "_library", "_engine", "_warm_until", "sources", "pages", "texts"})
"""Attributes of services that are filled in with use."""


def get_search_graph(services: Services) -> SearchGraph:
    """The graph that saves no steps, built once over these services, and again once a part of them was replaced."""
    parts = {name: part for name, part in vars(services).items() if name not in CHANGING}
    if services.kept_graph is not None:
        known, kept = services.kept_graph
        if known.keys() == parts.keys() and all(part is known[name] for name, part in parts.items()):
            compiled: SearchGraph = kept
            return compiled
    services.kept_graph = parts, build(services, checkpointer=False)
    return services.kept_graph[1]


graph = build(Services.from_file())
"""The graph with the settings of this process, for `langgraph.json` and for scripts."""
