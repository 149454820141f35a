"""Searches that wait for a person over REST: their state, events and answers, also after a restart of the server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from outrider.interfaces.http.access import hash_key
from outrider.services import Services
from outrider.settings.model import CheckpointSettings, Settings, ThreadSettings
from outrider.settings.sections import ServeSettings
from support import fakes, http_app
from support.http_app import ASPIRIN, STATINS, open_client

LATER = {"Prefer": "respond-async", "X-Thread-Id": "liver"}
over_both_stores = pytest.mark.usefixtures("run_store")
KEYS = {"ann": hash_key("key of ann"), "bob": hash_key("key of bob")}


@asynccontextmanager
async def client_over(folder: Path, checkpoints: CheckpointSettings | None = None, **serve: Any) -> AsyncIterator[httpx.AsyncClient]:
    library = fakes.Shelf([ASPIRIN, STATINS])
    threads = ThreadSettings(uri=str(folder / "threads.sqlite"))
    checkpoints = checkpoints or CheckpointSettings()
    settings = Settings(serve=ServeSettings(**serve), threads=threads, checkpoints=checkpoints, shared=http_app.SHARED)
    services = Services(settings, clock=lambda: fakes.NOON, shelf=library, sources=(library,), reranker=fakes.no_reranker)
    async with open_client(services) as client:
        yield client


async def ask(client: httpx.AsyncClient, points: list[str], query: str = "aspirin statins", **headers: str) -> httpx.Response:
    return await client.post("/api/search", json={"query": query, "checkpoints": points}, headers=headers)


async def read_events(client: httpx.AsyncClient, address: str) -> list[str]:
    text = (await client.get(address)).text
    return [line.removeprefix("event: ") for line in text.splitlines() if line.startswith("event: ")]


@over_both_stores
async def test_a_search_waits_is_edited_and_goes_on_under_its_number(tmp_path: Path) -> None:
    async with client_over(tmp_path) as client:
        accepted = await ask(client, ["plan", "results"], **LATER)
        address = accepted.headers["location"]
        first_events = await read_events(client, f"{address}/events")
        waiting = (await client.get(address)).json()
        resumed = await client.post(waiting["resume"], json={"queries": [{"text": "aspirin statins practice"}]}, headers=LATER)
        second_events = await read_events(client, f"/{resumed.json()['events'].lstrip('/')}")
        results = (await client.get(address)).json()
        done = await client.post(results["resume"], json={"drop": ["b"]})
        listed = (await client.get("/api/threads")).json()["threads"]
    assert first_events == ["started", "finished", "started", "waiting"]
    assert (waiting["status"], waiting["waiting"]["review"], waiting["waiting"]["thread"]) == ("waiting", "plan", "liver")
    assert (second_events[0], second_events[-1]) == ("started", "waiting")
    assert second_events.count("waiting") == 1
    assert {work["doc_id"] for work in results["waiting"]["works"]} == {"a", "b"}
    assert (done.status_code, [hit["doc_id"] for hit in done.json()["hits"]]) == (200, ["a"])
    assert done.json()["strategy"]["queries"][0]["text"] == "aspirin statins practice"
    assert [(run["thread"], run["state"]) for run in listed] == [("liver", "ended")]


@over_both_stores
async def test_it_survives_a_restart_without_a_thread_of_its_own(tmp_path: Path) -> None:
    async with client_over(tmp_path) as client:
        accepted = await ask(client, ["plan"])
        address, waiting = accepted.headers["location"], accepted.json()
    async with client_over(tmp_path) as client:
        same = (await client.get(address)).json()
        events = await read_events(client, f"{address}/events")
        done = await client.post(f"{address}/resume", json={"queries": [{"text": "statins"}]})
        after = (await client.get(address)).json()
    assert (accepted.status_code, waiting["status"]) == (202, "waiting")
    assert (same["waiting"], events) == (waiting["waiting"], ["waiting"])
    assert waiting["waiting"]["thread"].startswith("search-")
    assert ([hit["doc_id"] for hit in done.json()["hits"]], after["status"]) == (["b"], "done")


@pytest.mark.parametrize(
    ("answer", "status", "problem"),
    [
        ({"querys": []}, 422, "did you mean 'queries'"),
        ({"sources": ["pubmed"]}, 422, "'pubmed' is none of library"),
        ({"queries": [{"text": "x", "boolean_query": "(x AND"}]}, 422, "cannot be read"),
        ([], 422, "object"),
    ],
)
async def test_a_wrong_answer_is_refused_and_it_still_waits(tmp_path: Path, answer: Any, status: int, problem: str) -> None:
    async with client_over(tmp_path) as client:
        address = (await ask(client, ["plan"])).headers["location"]
        refused = await client.post(f"{address}/resume", json=answer)
        still = (await client.get(address)).json()
    assert (refused.status_code, still["status"], still["waiting"]["problem"]) == (status, "waiting", "")
    assert problem in refused.json()["detail"]


@over_both_stores
async def test_what_does_not_wait_takes_no_answer(tmp_path: Path) -> None:
    async with client_over(tmp_path) as client:
        address = (await ask(client, ["plan"])).headers["location"]
        first, second = [await client.post(f"{address}/resume", json={}) for _ in range(2)]
        unknown = await client.post("/api/search/none/resume", json={})
    assert (first.status_code, second.status_code, unknown.status_code) == (200, 409, 404)
    assert second.json()["type"].endswith("not-waiting")


@over_both_stores
async def test_it_belongs_to_the_owner_of_its_key_also_after_a_restart(tmp_path: Path) -> None:
    ann, bob = ({"X-API-Key": f"key of {name}"} for name in KEYS)
    async with client_over(tmp_path, api_keys=KEYS) as client:
        accepted = await ask(client, ["plan"], **ann)
        address = accepted.headers["location"]
    async with client_over(tmp_path, api_keys=KEYS) as client:
        others = [(await client.get(address, headers=headers)).status_code for headers in (bob, {})]
        others += [(await client.post(f"{address}/resume", json={}, headers=headers)).status_code for headers in (bob, {})]
        own = (await client.get(address, headers=ann)).json()
        shown = (await client.get(f"/api/threads/{own['waiting']['thread']}", headers=ann)).json()
        done = await client.post(f"{address}/resume", json={}, headers=ann)
    assert (others, own["status"], done.status_code) == ([404] * 4, "waiting", 200)
    assert shown["answer"]["waiting"] == own["waiting"]
    assert "ann/" not in json.dumps([own, shown])


@over_both_stores
async def test_a_stopped_one_waits_no_more_and_its_thread_resumes_it(tmp_path: Path) -> None:
    async with client_over(tmp_path) as client:
        address = (await ask(client, ["plan"], **{"X-Thread-Id": "liver"})).headers["location"]
        again = await client.post("/api/threads/liver/resume")
        await client.delete(address)
        stopped = (await client.get(address)).json()["status"]
        refused = await client.post(f"{address}/resume", json={})
        resumed = await client.post("/api/threads/liver/resume")
    assert (again.json()["id"], stopped, refused.status_code) == (address.rpartition("/")[2], "cancelled", 409)
    assert (resumed.status_code, resumed.json()["waiting"]["review"]) == (202, "plan")


async def test_langserve_waits_on_a_thread(tmp_path: Path) -> None:
    async with client_over(tmp_path, CheckpointSettings(after_plan=True)) as client:
        body = {"input": {"query": "aspirin"}, "config": {"configurable": {"thread_id": "liver"}}}
        output = (await client.post("/search/invoke", json=body)).json()["output"]
        done = await client.post("/api/threads/liver/resume")
        refused = await client.post("/search/invoke", json={"input": {"query": "aspirin"}})
    assert (output["waiting"]["review"], output["waiting"]["thread"], done.status_code) == ("plan", "liver", 202)
    assert (refused.status_code, "give it a thread" in refused.json()["detail"]) == (422, True)
