"""The systematic branch: no model, no vectors, no hit in the state; where the ledger lies is all that comes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

import outrider
from outrider.graph.pipeline import build
from outrider.models.chat.journal import JOURNAL_KEY, Journal
from outrider.nodes.translator.translator import AS_WRITTEN
from outrider.services import Services
from outrider.state.errors import BadRequest, LibraryError
from outrider.state.response import SearchResponse
from support.fakes import Shelf
from support.systematic_runs import LibraryVersions, MemorySource, make_exact_services, make_papers

REQUEST = {"query": "aspirin[ti] NOT zebra", "mode": "systematic"}


class CountingChat:
    """Any call of it is one too many."""

    name = "counting"
    calls = 0

    async def ask(self, *arguments: object, **more: object) -> None:
        self.calls += 1
        raise AssertionError("a model was asked")


def test_invoke_returns_where_the_hits_lie(tmp_path: Path) -> None:
    services = make_exact_services(tmp_path, LibraryVersions(make_papers(40)))
    chat = CountingChat()
    services.chat = chat  # type: ignore[assignment]
    answer = SearchResponse.model_validate(build(services).invoke(REQUEST))
    result_set = answer.result_set
    assert result_set is not None
    assert (result_set.total, result_set.complete, result_set.cursor) == (26, True, None)
    assert answer.hits == ()
    assert answer.total_found == 26
    assert [hit.doc_id for hit in outrider.iter_hits(result_set)] == [
        one.doc_id for one in make_papers(40) if one.title.startswith("aspirin")
    ]
    assert AS_WRITTEN in answer.bypassed
    assert {"vectors", "reranker", "distiller"} <= {one.step for one in answer.bypassed}
    assert [(row.source, row.strategy, row.status, row.returned) for row in answer.sources] == [("library", "systematic", "ok", 26)]
    assert answer.snapshot is not None
    assert answer.snapshot.startswith("memory@")
    assert list(answer.timings_ms) == ["translator", "systematic"]
    assert chat.calls == answer.usage.calls == 0


async def test_progress_is_streamed_and_hits_never_enter_state_or_checkpoint(tmp_path: Path) -> None:
    saver = InMemorySaver()
    graph = build(make_exact_services(tmp_path, LibraryVersions(make_papers(40))), saver)
    config: Any = {"configurable": {"thread_id": "t"}}
    events, state = [], {}
    async for kind, part in graph.astream(REQUEST, config, stream_mode=["custom", "values"]):
        if kind == "custom":
            events.append(part)
        else:
            state = part
    pages = [one for one in events if one["event"] == "page"]
    assert [one["hits"] for one in pages] == [5, 10, 15, 20, 25, 26]
    assert all(one["source"] == "library" and one["cursor"] for one in pages)
    stored = json.dumps([repr(one) for one in saver.list(config)]) + repr(state)
    assert "p00001" not in stored
    assert "ärzte" not in stored


async def test_a_run_that_breaks_reports_its_progress_and_resumes(tmp_path: Path) -> None:
    shelves = LibraryVersions(make_papers(40), breaks_after=2)
    services = make_exact_services(tmp_path, shelves)
    answer = SearchResponse.model_validate(await build(services).ainvoke(REQUEST))
    result_set = answer.result_set
    assert result_set is not None
    assert (result_set.total, result_set.complete) == (10, False)
    assert result_set.cursor == "library:p00014"
    assert [one.node for one in answer.failures] == ["systematic"]
    assert "10 hits so far; continue with: outrider systematic --resume" in answer.failures[0].message
    shelves.breaks_after = None
    rest = [hit.doc_id for hit in outrider.systematic(services=services, resume=result_set, after=result_set.cursor or "")]
    assert len(rest) == 16


async def test_a_search_of_a_resumed_thread_resumes_its_run(tmp_path: Path) -> None:
    shelves = LibraryVersions(make_papers(40), breaks_after=2)
    services = make_exact_services(tmp_path, shelves)
    config: Any = {"configurable": {JOURNAL_KEY: Journal("of-the-thread", None)}}  # type: ignore[arg-type] # no model is called
    first = SearchResponse.model_validate(await build(services).ainvoke(REQUEST, config))
    shelves.breaks_after = None
    second = SearchResponse.model_validate(await build(services).ainvoke(REQUEST, config))
    assert first.result_set is not None
    assert second.result_set is not None
    assert (first.result_set.total, second.result_set.total, second.result_set.complete) == (10, 26, True)
    assert first.result_set.path == second.result_set.path
    assert shelves.last is not None
    assert shelves.last.opened == ["p00014"]


def test_services_that_are_named_are_searched_and_a_short_one_is_partial(tmp_path: Path) -> None:
    services = make_exact_services(
        tmp_path, LibraryVersions(make_papers(4)), {"pubmed": MemorySource("pubmed", list(make_papers(9)), lost=2)}
    )
    answer = SearchResponse.model_validate(build(services).invoke({**REQUEST, "sources": ["library", "pubmed"]}))
    assert [(row.source, row.status, row.returned, row.total) for row in answer.sources] == [
        ("library", "ok", 2, None),
        ("pubmed", "partial", 4, 9),
    ]
    assert answer.result_set is not None
    assert not answer.result_set.complete


def test_no_library_is_a_failure_and_no_empty_answer(tmp_path: Path) -> None:
    async def missing(snapshot: object) -> Any:
        raise LibraryError("there is no library at x")

    services = make_exact_services(tmp_path, LibraryVersions([]))
    services.pin = missing
    answer = SearchResponse.model_validate(build(services).invoke(REQUEST))
    assert answer.result_set is None
    assert [one.message for one in answer.failures] == ["there is no library at x"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"query": "aspirin[tiabs]"}, "did you mean 'tiab'"),
        ({"query": {"titel": "x"}}, "unknown field 'titel'"),
        ({"sources": ["arxiv"]}, "no exact run can ask 'arxiv'"),
        ({"filters": {"year": 2020}}, "filters cannot be used"),
        ({"strategies": ["dense"]}, "matches words exactly"),
        ({"user_feedback": "more"}, "user_feedback cannot be used"),
        ({"mode": "discovery", "grey_literature": True}, "grey_literature belongs"),
        ({"mode": "discovery", "query": {"title": "x"}}, "mode 'systematic'"),
    ],
)
def test_what_the_mode_cannot_honour_is_refused_before_the_run(tmp_path: Path, fields: dict[str, object], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        build(make_exact_services(tmp_path, LibraryVersions([]))).invoke({**REQUEST, **fields})
    assert not (tmp_path / "runs").exists()


def test_grey_literature_adds_what_is_near_and_not_matched(tmp_path: Path) -> None:
    plain = make_exact_services(tmp_path, LibraryVersions(make_papers(6)))
    shelf = Shelf(list(make_papers(6)), strategies=("lance_dense",))
    services = Services(plain.settings, clock=plain.clock, shelf=shelf, sources=(shelf,), reranker=plain.reranker, pin=plain.pin)
    answer = SearchResponse.model_validate(
        build(services).invoke({"query": "aspirin[ti] AND liver[ti]", "mode": "systematic", "grey_literature": True})
    )
    assert shelf.queries[0].text == "aspirin liver"
    assert {hit.doc_id for hit in answer.hits} == {"p00000", "p00003"}
    assert answer.result_set is not None
    assert answer.result_set.total == 4
    assert "vectors" not in {one.step for one in answer.bypassed}
