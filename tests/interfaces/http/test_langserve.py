"""LangServe, over a real server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from langserve import RemoteRunnable

from outrider.services import Services
from outrider.settings.model import LibrarySettings, Settings
from outrider.settings.sections import SourcesSettings
from outrider.state.response import SearchResponse
from support.fakes import paper
from support.http_app import BASE, open_client, services


def test_remote_runnable_invokes_batches_and_streams(address: str) -> None:
    remote = RemoteRunnable(f"{address}/search")
    answer = SearchResponse.model_validate(remote.invoke({"query": "aspirin liver"}))
    many = remote.batch([{"query": "aspirin"}, {"query": "statins"}])
    nodes = [next(iter(part)) for part in remote.stream({"query": "aspirin"})]
    assert answer.hits[0].doc_id == "a"
    assert [SearchResponse.model_validate(one).hits[0].doc_id for one in many] == ["a", "b"]
    assert nodes[0] == "translator"
    assert nodes[-1] == "distiller"


@pytest.mark.filterwarnings("ignore:astream_log is deprecated")
async def test_remote_runnable_streams_logs_and_events(address: str) -> None:
    remote = RemoteRunnable(f"{address}/search")
    patches = [patch async for patch in remote.astream_log({"query": "aspirin"})]
    events = [one["event"] async for one in remote.astream_events({"query": "aspirin"}, version="v2")]
    assert patches
    assert events[-1] == "on_chain_end"


@pytest.mark.parametrize("page", ["input_schema", "output_schema", "config_schema", "playground/"])
def test_schemas_and_playground(address: str, page: str) -> None:
    assert httpx.get(f"{address}/search/{page}", timeout=60).status_code == 200


def test_the_playground_is_one_page_of_ours_without_inline_scripts(address: str) -> None:
    page = httpx.get(f"{address}/search/playground/", timeout=60)
    below = [
        httpx.get(f"{address}/search/playground/{path}", timeout=60).status_code for path in ("assets", "index.html", "%2e%2e/server.py")
    ]
    bare = httpx.get(f"{address}/analyze/playground", timeout=60)
    assert "<script>" not in page.text
    assert "unsafe" not in page.headers["content-security-policy"]
    assert below == [404] * 3
    assert (bare.status_code, bare.headers["location"]) == (307, f"{address}/analyze/playground/")


@pytest.mark.parametrize(
    ("search_input", "message"),
    [
        ({}, "query"),
        ({"query": ""}, "no letter or digit"),
        ({"query": "x", "filter": 1}, "filter"),
        ({"query": "x", "top_k": 0}, "top_k"),
        ({"query": "x", "filters": {"yeer": 1}}, "yeer"),
    ],
)
@pytest.mark.parametrize("route", ["invoke", "stream", "stream_log", "stream_events"])
def test_a_bad_request_is_422_and_names_the_field_before_anything_is_streamed(
    address: str, route: str, search_input: dict[str, Any], message: str
) -> None:
    answer = httpx.post(f"{address}/search/{route}", json={"input": search_input}, timeout=60)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert message in answer.text


async def test_a_body_of_another_shape_is_422() -> None:
    bodies: tuple[Any, ...] = ([], 1, "x", {"input": []}, {"inputs": 3}, {"input": {"query": "x"}, "config": 7})
    async with open_client(services()) as client:
        for body in bodies:
            for route in ("invoke", "batch", "stream"):
                answer = await client.post(f"/search/{route}", json=body)
                assert answer.status_code == 422, answer.text
                assert answer.json()["type"] == "urn:outrider:problem:bad-request"
                assert "instance of" not in answer.text  # classes of Python and of LangServe say nothing to a client


async def test_a_batch_is_bounded() -> None:
    async with open_client(services(batch=2)) as client:
        answer = await client.post("/search/batch", json={"inputs": [{"query": "x"}] * 3})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "inputs"


@pytest.mark.parametrize("path", ["search", "analyze", "citations"])
async def test_what_langserve_would_fail_on_is_refused(path: str) -> None:
    async with open_client(services()) as client:
        for route, body, detail in (
            ("batch", {"inputs": ["aspirin"]}, "inputs.0: takes a JSON object"),
            ("batch", {"inputs": 1, "config": []}, "inputs: takes a list"),
            ("stream", {"input": {}, "config": None}, "config: takes a JSON object"),
            ("stream_events", {"input": {}, "config": None}, "config: takes a JSON object"),
        ):
            answer = await client.post(f"/{path}/{route}", json=body)
            assert (answer.status_code, answer.json()["detail"]) == (422, detail)


def test_a_thread_continues_its_searches(address: str, data_folder: Path) -> None:
    remote = RemoteRunnable(f"{address}/search")
    config = {"configurable": {"thread_id": "mine"}}
    remote.invoke({"query": "aspirin"}, config)
    second = SearchResponse.model_validate(remote.invoke({"query": "aspirin liver"}, config))
    by_rest = httpx.post(f"{address}/api/search", json={"query": "aspirin"}, headers={"X-Thread-Id": "mine"}, timeout=60)
    odd = httpx.post(f"{address}/api/search", json={"query": "aspirin"}, headers={"X-Thread-Id": "a b"}, timeout=60)
    assert second.strategy is not None
    assert len(second.strategy.earlier) == 1
    assert len(SearchResponse.model_validate(by_rest.json()).strategy.earlier) == 2  # type: ignore[union-attr]
    assert odd.status_code == 422
    assert (data_folder / "threads.sqlite").exists()


LONG = " ".join(f"Aspirin harms the liver in study {number}." for number in range(400))


@pytest.mark.filterwarnings("ignore:astream_log is deprecated")
@pytest.mark.parametrize("top_k", [1, 2, 7])
async def test_a_stream_has_each_hit_once_however_many_works_there_are(top_k: int) -> None:
    works = [paper(f"p{number}", f"Aspirin and the liver, part {number}", abstract=f"Part {number}. {LONG}") for number in range(30)]
    body = {"input": {"query": "aspirin liver", "top_k": top_k}}
    sizes: dict[str, int] = {}
    async with open_client(services(*works)) as client:
        response = (await client.post("/search/invoke", json=body)).json()["output"]
        for route in ("stream", "stream_events", "stream_log"):
            text = (await client.post(f"/search/{route}", json=body)).text
            sizes[route] = len(text.encode())
            marks = [f"Part {number}. " for number in range(30)]
            repeats = [mark for mark in marks if text.count(mark) > json.dumps(response).count(mark)]
            assert not repeats
    whole = len(json.dumps(response, ensure_ascii=False).encode())
    assert sizes["stream"] < whole + 20_000
    assert sizes["stream_events"] < whole + 120_000  # LangChain repeats the small fields of the state for each node
    assert sizes["stream_log"] < whole + 60_000


async def test_the_chunks_of_a_stream_make_up_the_response() -> None:
    body = {"input": {"query": "aspirin liver"}}
    async with open_client(services()) as client:
        response = (await client.post("/search/invoke", json=body)).json()["output"]
        text = (await client.post("/search/stream", json=body)).text
    chunks = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith('data: {"') and "run_id" not in line]
    merged = {name: value for chunk in chunks for update in chunk.values() for name, value in update.items()}
    assert merged["hits"] == response["hits"]
    assert merged["context"] == response["context"]
    assert set(response) - set(merged) <= {"query", "mode", "waiting"}
    assert response["waiting"] is None  # only where a person is asked: then it has a chunk of its own


async def test_without_a_thread_nothing_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_client(services()) as client:
        answer = await client.post("/search/invoke", json={"input": {"query": "aspirin"}})
        assert client.application.runs.runner._threads is None  # type: ignore[attr-defined]
    assert answer.json()["output"]["hits"][0]["doc_id"] == "a"
    assert str(answer.request.url).startswith(BASE)


async def test_the_graph_of_citations_is_served(tmp_path: Path) -> None:
    """Offline nothing is asked, which the report says."""
    own = Services(Settings(library=LibrarySettings(uri=str(tmp_path / "library")), sources=SourcesSettings(offline=True)))
    async with open_client(own) as client:
        answer = await client.post("/citations/invoke", json={"input": {"targets": ["10.1000/x", "nothing"]}})
        wrong = await client.post("/citations/invoke", json={"input": {"targets": ["10.1000/x"], "bugdet": {}}})
        schema = await client.get("/citations/input_schema")
    output = answer.json()["output"]
    assert (answer.status_code, output["missing"], output["report"]["without_service"]) == (200, ["nothing"], 1)
    assert wrong.status_code == 422
    assert "unknown field 'bugdet'; did you mean 'budget'?" in wrong.json()["detail"]
    assert "budget" in schema.json()["properties"]


async def test_a_server_that_is_read_only_refuses_to_build_citations() -> None:
    async with open_client(services(read_only=True)) as client:
        answer = await client.post("/citations/invoke", json={"input": {"targets": ["10.1000/x"]}})
    assert (answer.status_code, answer.json()["type"].rsplit(":", 1)[-1]) == (403, "read-only")
