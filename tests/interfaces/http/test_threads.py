"""Threads over REST: listed, shown, resumed and deleted, each by its owner alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from outrider.interfaces.http.access import hash_key
from outrider.services import Services
from outrider.settings.model import Settings, ThreadSettings
from outrider.settings.sections import ServeSettings
from outrider.state.response import SearchResponse
from support import fakes
from support.http_app import ASPIRIN, BlockingLibrary, open_client, until

LATER = {"Prefer": "respond-async"}
KEYS = {"ann": hash_key("key of ann"), "bob": hash_key("key of bob")}


@asynccontextmanager
async def client_over(folder: Path, shelf: fakes.Shelf | None = None, **serve: Any) -> AsyncIterator[httpx.AsyncClient]:
    library = shelf or fakes.Shelf([ASPIRIN])
    settings = Settings(serve=ServeSettings(**serve), threads=ThreadSettings(uri=str(folder / "threads.sqlite")))
    services = Services(settings, clock=lambda: fakes.NOON, shelf=library, sources=(library,), reranker=fakes.no_reranker)
    async with open_client(services) as client:
        yield client


def kind(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["type"].rpartition(":")[2]


async def search(client: httpx.AsyncClient, thread: str, query: str = "aspirin", **headers: str) -> httpx.Response:
    return await client.post("/api/search", json={"query": query}, headers={"X-Thread-Id": thread, **headers})


async def test_threads_are_listed_shown_and_deleted(tmp_path: Path) -> None:
    async with client_over(tmp_path) as client:
        empty = (await client.get("/api/threads")).json()
        for thread, query in (("one", "aspirin"), ("two", "liver"), ("one", "aspirin liver")):
            await search(client, thread, query)
        listed = (await client.get("/api/threads")).json()["threads"]
        shown = (await client.get("/api/threads/one")).json()
        deleted = [(await client.delete("/api/threads/one")).status_code for _ in range(2)]
        after = (await client.get("/api/threads")).json()["threads"]
        gone = await client.get("/api/threads/one")
    assert empty == {"threads": []}
    assert {(run["thread"], run["query"], run["state"]) for run in listed} == {("one", "aspirin liver", "ended"), ("two", "liver", "ended")}
    assert [run["query"] for run in shown["runs"]] == ["aspirin", "aspirin liver"]
    assert SearchResponse.model_validate(shown["answer"]).query == "aspirin liver"
    assert (deleted, [run["thread"] for run in after], kind(gone)) == ([204, 404], ["two"], (404, "no-such-thread"))


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_interrupted_search_is_resumed_and_what_is_done_is_not_done_again(tmp_path: Path, is_async: bool) -> None:
    shelf = BlockingLibrary([ASPIRIN])
    async with client_over(tmp_path, shelf) as client:
        accepted = await search(client, "cut", **LATER)
        await until(lambda: shelf.begun > 0)
        busy = [await search(client, "cut"), await client.post("/api/threads/cut/resume"), await client.delete("/api/threads/cut")]
        await client.delete(accepted.headers["location"])
        await until(lambda: shelf.stopped > 0)
        state = ""
        while state != "failed":
            cut = (await client.get("/api/threads/cut")).json()
            state = cut["runs"][-1]["state"]
            await asyncio.sleep(0.01)
        shelf.let.set()
        resumed = await client.post("/api/threads/cut/resume", headers=LATER if is_async else {})
        if is_async:
            events = (await client.get(f"{resumed.headers['location']}/events")).text
            answer = (await client.get(resumed.headers["location"])).json()["response"]
        else:
            answer = resumed.json()
        again = await client.post("/api/threads/cut/resume")
        shown = (await client.get("/api/threads/cut")).json()
    assert [kind(one) for one in busy] == [(409, "thread-busy")] * 3
    assert cut["answer"]["sources"] == cut["answer"]["hits"] == []
    assert answer["hits"][0]["doc_id"] == again.json()["hits"][0]["doc_id"] == "a"
    assert (len(shown["runs"]), shown["runs"][0]["state"], shown["answer"]) == (1, "ended", answer)
    if is_async:
        assert '{"node":"translator"}' not in events
        assert '{"node":"scout"}' in events


async def test_a_thread_belongs_to_the_owner_of_its_key(tmp_path: Path) -> None:
    async with client_over(tmp_path, api_keys=KEYS) as client:
        ann, bob = ({"X-API-Key": f"key of {name}"} for name in KEYS)
        await search(client, "mine", **ann)
        await search(client, "nobody")
        lists = [[run["thread"] for run in (await client.get("/api/threads", headers=one)).json()["threads"]] for one in (ann, bob, {})]
        paths = [("ann/mine", {}), ("mine", bob), ("mine", {}), ("ann/mine", bob), ("nobody", ann), ("../ann/mine", bob)]
        refused = [kind(await client.get(f"/api/threads/{path}", headers=headers)) for path, headers in paths]
        refused += [kind(await client.delete(f"/api/threads/{path}", headers=headers)) for path, headers in paths]
        refused += [kind(await client.post(f"/api/threads/{path}/resume", headers=headers)) for path, headers in paths]
        own = (await client.get("/api/threads/mine", headers=ann)).json()
    assert lists == [["mine"], [], ["nobody"]]
    assert {status for status, _ in refused} == {404}
    assert own["thread"] == own["runs"][0]["thread"] == "mine"


async def test_a_thread_of_the_command_with_any_name_can_be_shown(tmp_path: Path) -> None:
    name = "liver / drugs, 2nd round?"
    async with client_over(tmp_path) as client:
        threads = await client.application.runs.runner.threads()  # type: ignore[attr-defined]
        async for _ in threads.search(name, {"query": "aspirin"}):
            pass
        shown = await client.get("/api/threads/liver%20%2F%20drugs%2C%202nd%20round%3F")
    assert shown.json()["thread"] == name


async def test_of_requests_at_once_one_runs_a_thread(tmp_path: Path) -> None:
    """Also where the thread is new, so that no run of it is stored yet: two would write one state."""
    shelf = BlockingLibrary([ASPIRIN])
    async with client_over(tmp_path, shelf) as client:
        requests = [asyncio.create_task(search(client, "one")) for _ in range(4)]
        async with asyncio.timeout(60):
            busy = [kind(await one) for _, one in zip(range(3), asyncio.as_completed(requests), strict=False)]
        shelf.let.set()
        statuses = sorted([(await one).status_code for one in requests])
        shown = (await client.get("/api/threads/one")).json()
    assert busy == [(409, "thread-busy")] * 3
    assert (statuses, len(shown["runs"])) == ([200, 409, 409, 409], 1)
