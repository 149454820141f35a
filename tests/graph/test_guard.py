from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langgraph.graph import END, START, StateGraph

from outrider.graph.guard import Guard, route_on_failure
from outrider.settings.model import RunSettings
from outrider.state.errors import LibraryCorrupt
from outrider.state.pipeline import PipelineState, RunContext
from support.fakes import NOON

TIMEOUT_S = 0.2


@pytest.fixture(autouse=True)
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.graph.guard.GRACE_S", 0.0)


def run(node: Any, *, fallback: Any = None, **state: object) -> dict[str, Any]:
    guard = Guard(lambda: NOON, RunSettings(run_timeout_s=TIMEOUT_S))
    graph = StateGraph(PipelineState, context_schema=RunContext)
    graph.add_node("stage", guard("stage", node, fallback=fallback, first=True), input_schema=PipelineState)
    graph.add_edge(START, "stage")
    graph.add_conditional_edges("stage", route_on_failure("stage"), {"ok": END, "failed": END})
    return dict(graph.compile().invoke({"query": "x", **state}, context=RunContext()))


def test_an_expected_error_becomes_a_failure_and_the_fallback_s_update() -> None:
    async def node(state: Any, runtime: Any) -> Any:
        raise LibraryCorrupt("page 3 is torn")

    out = run(node, fallback=lambda state: {"total_found": 7})
    assert [(one.node, one.error, one.message) for one in out["failures"]] == [("stage", "LibraryCorrupt", "page 3 is torn")]
    assert out["total_found"] == 7
    assert route_on_failure("stage").invoke(PipelineState(query="x", failures=out["failures"])) == "failed"


def test_a_node_that_takes_too_long_fails_alone() -> None:
    async def node(state: Any, runtime: Any) -> Any:
        await asyncio.sleep(30)

    assert "when the 0.2 s of the run were over" in run(node)["failures"][0].message


def test_a_bug_ends_the_run() -> None:
    async def node(state: Any, runtime: Any) -> Any:
        return {}["missing"]

    with pytest.raises(KeyError, match="missing"):
        run(node)


def test_an_unknown_key_is_a_bug() -> None:
    async def node(state: Any, runtime: Any) -> Any:
        return {"hitz": ()}

    with pytest.raises(KeyError, match="hitz"):
        run(node)


def test_the_first_node_begins_with_clean_fields() -> None:
    """A thread that is used again must not show the failures of an earlier run."""

    async def node(state: Any, runtime: Any) -> Any:
        return {"total_found": len(state.failures) + state.total_candidates}

    out = run(node, failures=[{"node": "old", "error": "E", "message": ""}], total_candidates=5)
    assert (out["total_found"], out["failures"], out["total_candidates"]) == (0, (), 0)


def test_time_is_kept() -> None:
    async def node(state: Any, runtime: Any) -> Any:
        await asyncio.sleep(0.01)
        return {}

    out = run(node)
    assert out["timings_ms"]["stage"] > 0
    assert out["started_at"] == NOON
