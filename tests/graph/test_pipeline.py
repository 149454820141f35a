from __future__ import annotations

import asyncio
from typing import Any

import pytest

from outrider.graph.pipeline import DESCRIPTIONS, build
from outrider.state.errors import BadRequest, LibraryCorrupt
from outrider.state.records import Repository
from outrider.state.request import SearchRequest
from outrider.state.response import SearchResponse
from support.fakes import doi, paper, services

RECORDS = (
    paper("a", "Aspirin and the liver", abstract="Aspirin harms the liver. The weather was fine.", year=2020, identifiers=doi("10.1000/x")),
    paper("b", "Aspirin and the liver.", identifiers=doi("10.1000/x")),
    paper("c", "Statins", abstract="Nothing on livers.", year=2001),
)
NODES = [name for name in DESCRIPTIONS if name not in {"systematic", "answer", "full_text", "review_plan", "review_results"}]
"""Those of a ranked search that asks for no short answer, no full text and no person."""


def search(**request: Any) -> SearchResponse:
    return SearchResponse.model_validate(build(services(*RECORDS)).invoke({"query": "aspirin liver", **request}))


def test_one_line_from_request_to_evidence() -> None:
    answer = search()
    first = answer.hits[0]
    assert (first.doc_id, [folded.doc_id for folded in first.duplicates]) == ("a", ["b"])
    assert first.distilled_text == first.original_text[slice(*first.spans[0])] == "Aspirin harms the liver."
    assert "short" in answer.context.bypassed
    assert (answer.total_candidates, answer.total_found, answer.snapshot) == (2, 2, "shelf@1")
    assert list(answer.timings_ms) == NODES
    assert [row.status for row in answer.sources] == ["ok"]
    assert not answer.failures
    assert answer.usage.calls == 0
    assert "fine_scorer" in {step.step for step in answer.bypassed}


def test_the_same_request_of_the_same_library_has_the_same_hash() -> None:
    assert search().provenance_hash == search().provenance_hash
    assert search().provenance_hash != search(top_k=1).provenance_hash
    assert search().provenance_hash != search(filters={"year": {"$gt": 2000}}).provenance_hash


def test_it_runs_inside_a_running_loop_and_without_one() -> None:
    graph = build(services(*RECORDS))

    async def both() -> tuple[int, int]:
        return len(graph.invoke({"query": "aspirin"})["hits"]), len((await graph.ainvoke({"query": "aspirin"}))["hits"])

    assert asyncio.run(both()) == (1, 1)
    assert len(graph.invoke({"query": "aspirin"})["hits"]) == 1


def test_progress_is_streamed_as_nodes_start_and_finish() -> None:
    parts = list(build(services(*RECORDS)).stream({"query": "aspirin"}, stream_mode=["updates", "custom"]))
    updates = [next(iter(part)) for kind, part in parts if kind == "updates"]
    told = [(part["node"], part["event"]) for kind, part in parts if kind == "custom"]
    answers = [at for at, event in enumerate(told) if event == ("scout", "searched")]
    assert answers
    assert told.index(("scout", "started")) < answers[0] <= answers[-1] < told.index(("scout", "finished"))
    events = [event for event in told if event[1] != "searched"]
    assert updates == NODES
    assert events == [(node, event) for node in NODES for event in ("started", "finished")]


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({"query": ""}, BadRequest),
        ({"quary": "x"}, BadRequest),
        ({"query": "x", "filter": {}}, BadRequest),
        ({"query": {"title": "x"}}, BadRequest),
    ],
)
def test_a_bad_request_is_refused_before_the_run(request_: dict[str, Any], error: type[Exception]) -> None:
    """LangGraph alone would drop an unknown field without a word."""
    with pytest.raises(error):
        build(services()).invoke(request_)


def test_nothing_searchable_ends_the_run_with_the_reason_and_a_hash() -> None:
    out = build(services(error=LibraryCorrupt("torn"))).invoke({"query": "liver"})
    assert [failure.node for failure in out["failures"]] == ["scout"]
    assert "torn" in out["failures"][0].message
    assert SearchResponse.model_validate(out).sources[0].status == "unavailable"
    assert len(out["provenance_hash"]) == 64
    assert "dedup" not in out["timings_ms"]


def test_the_time_limit_can_be_set_for_a_run() -> None:
    out = build(services(*RECORDS, delay_s=20)).invoke({"query": "liver"}, context={"run_timeout_s": 0.2})
    assert {row.status for row in out["sources"]} == {"timeout"}
    assert "did not answer within the 0.2 s" in out["failures"][0].message


def test_a_shelf_that_breaks_down_costs_only_what_it_gives() -> None:
    """No added terms, no snapshot, the beginning of the texts: but hits, a hash, and the reason."""
    out = build(services(*RECORDS, shelf_error=LibraryCorrupt("torn"))).invoke({"query": "aspirin"})
    answer = SearchResponse.model_validate(out)
    assert [hit.doc_id for hit in answer.hits] == ["a"]
    assert [failure.node for failure in answer.failures] == ["organizer"]
    assert ("expansion", "torn") in [(step.step, step.why) for step in answer.bypassed]
    assert len(answer.provenance_hash) == 64


def test_what_a_rule_left_out_is_kept_with_its_reason() -> None:
    toy = Repository(doc_id="r", title="aspirin client", stars=3)
    updates = list(build(services(*RECORDS, toy)).stream({"query": "aspirin"}, stream_mode="updates"))
    (rejected,) = next(part["coarse_filter"]["rejected"] for part in updates if "coarse_filter" in part)
    assert (rejected.doc_id, rejected.why) == ("r", "3 stars are outside 50-")


def test_every_node_is_drawn_with_its_description() -> None:
    drawing = build(services()).get_graph()
    assert {name: node.metadata for name, node in drawing.nodes.items() if not name.startswith("__")} == {
        name: {"description": text} for name, text in DESCRIPTIONS.items()
    }
    assert "failed" in {edge.data for edge in drawing.edges}


def test_schemas_show_every_field_of_request_and_response() -> None:
    graph = build(services())
    assert "filters" in graph.get_input_jsonschema()["properties"]
    assert set(graph.get_output_jsonschema()["properties"]) == {*SearchResponse.model_fields, "messages"}
    assert set(graph.get_input_jsonschema()["properties"]) == {*SearchRequest.model_fields, "messages"}
    assert "run_timeout_s" in graph.get_context_jsonschema()["properties"]


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"run_timeout_s": "abc"}, "context: run_timeout_s: Input should be a valid number, unable to parse string as a number"),
        ({"max_cals": 0}, "context: unknown field 'max_cals'; did you mean 'max_calls'?"),
        ({"max_calls": -1, "max_cost_usd": -1}, "context: max_calls: Input .* 0; max_cost_usd: Input should be greater than or equal to 0"),
    ],
)
async def test_a_wrong_context_is_refused_by_its_field(context: Any, message: str) -> None:
    """LangGraph would show pydantic's text, with a link to its documentation."""
    graph, request = build(services(*RECORDS)), {"query": "aspirin"}
    with pytest.raises(BadRequest, match=message) as caught:
        await graph.ainvoke(request, context=context)
    assert "pydantic" not in str(caught.value)
    with pytest.raises(BadRequest, match=message):
        await asyncio.to_thread(graph.invoke, request, context=context)
