"""Saved searches over REST: by owner, read-only, as feeds; and run by the schedule of `outrider serve`."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from defusedxml import ElementTree

from outrider.interfaces.http.access import hash_key
from outrider.jobs.job_table import JobTable
from outrider.saved_searches.store import SavedStore
from outrider.services import Services
from outrider.settings.model import JobSettings, SavedSettings, Settings, SystematicSettings
from outrider.settings.sections import ServeSettings
from outrider.state.saved import SavedSearch
from outrider.usecases.saved import run_now
from support import fakes
from support.http_app import open_client
from support.saved_searches import article
from support.systematic_runs import LibraryVersions

KEYS = {"ann": hash_key("key of ann"), "bob": hash_key("key of bob")}
ANN, BOB = ({"Authorization": f"Bearer key of {name}"} for name in ("ann", "bob"))
BODY = {"name": "liver", "kind": "systematic", "request": {"query": "aspirin[ti]", "sources": ["library"]}, "schedule": "daily"}


def make_services(folder: Path, library: LibraryVersions, **serve: Any) -> Services:
    settings = Settings(
        serve=ServeSettings(**serve),
        jobs=JobSettings(uri=str(folder / "jobs.sqlite")),
        saved=SavedSettings.model_validate({"uri": str(folder / "saved.sqlite"), "webhook_secret": "a long secret"}),
        systematic=SystematicSettings(folder=str(folder / "runs")),
    )
    shelf = fakes.Shelf(library.records)
    return Services(settings, shelf=shelf, sources=(shelf,), reranker=fakes.no_reranker, pin=library, world={})


@asynccontextmanager
async def client_over(folder: Path, **serve: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Services, LibraryVersions]]:
    library = LibraryVersions([article(1), article(2)])
    services = make_services(folder, library, **serve)
    async with open_client(services) as client:
        yield client, services, library


async def run_twice(services: Services, library: LibraryVersions, name: str = "liver") -> None:
    await run_now(services, name)
    library.records.append(article(3))
    await run_now(services, name)


async def test_a_protocol_is_saved_queued_compared_and_removed(tmp_path: Path) -> None:
    async with client_over(tmp_path) as (client, services, library):
        added = await client.post("/api/saved", json=BODY)
        queued = await client.post("/api/saved/liver/run")
        job = (await client.get(f"/api/jobs/{queued.json()['job']}")).json()
        await run_twice(services, library)
        listed = (await client.get("/api/saved")).json()
        shown = (await client.get("/api/saved/liver")).json()
        diff = (await client.get("/api/saved/liver/diff", params={"from": 1, "to": 2})).json()
        feeds = {form: await client.get(f"/api/saved/liver/feed.{form}") for form in ("atom", "rss")}
        digest = await client.get("/api/saved/liver/digest.md")
        flow = await client.get("/api/saved/liver/prisma.svg")
        again = await client.post("/api/saved", json=BODY)
        removed = await client.delete("/api/saved/liver")
        left = (await client.get("/api/saved")).json()["saved"]
    assert (added.status_code, added.json()["schedule"], added.json()["library"]) == (201, "daily", "")
    assert (queued.status_code, job["kind"], job["request"]) == (202, "saved", {"saved": "liver"})
    assert (listed["writable"], listed["saved"][0]["runs"][0]["changes"]["new"], len(shown["runs"])) == (True, 1, 2)
    assert [work["doc_id"] for work in diff["works"]] == ["p3"]
    for form, answer in feeds.items():
        assert answer.headers["content-type"] == f"application/{form}+xml; charset=utf-8"
        ElementTree.fromstring(answer.text, forbid_dtd=True)
        assert f"http://127.0.0.1/api/saved/liver/feed.{form}" in answer.text
    assert "## New (1)" in digest.text
    assert ("updated reviews" in flow.text, flow.headers["content-type"].partition(";")[0]) == (True, "image/svg+xml")
    assert (again.status_code, removed.status_code, left) == (422, 204, [])


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("GET", "/api/saved/none", None, (404, "no-such-saved")),
        ("GET", "/api/saved/none/diff", None, (404, "no-such-saved")),
        ("GET", "/api/saved/none/feed.atom", None, (404, "no-such-saved")),
        ("POST", "/api/saved/none/run", None, (404, "no-such-saved")),
        ("DELETE", "/api/saved/none", None, (404, "no-such-saved")),
        ("GET", "/api/saved/..%2Fx", None, (404, "not-found")),
        ("POST", "/api/saved", {**BODY, "schedule": "soon"}, (422, "bad-request")),
        ("POST", "/api/saved", {**BODY, "timezone": "Mars"}, (422, "bad-request")),
        ("POST", "/api/saved", {**BODY, "webhook": "http://10.0.0.1/x?key=geheim"}, (422, "bad-request")),
        ("POST", "/api/saved", {**BODY, "name": "a/b"}, (422, "bad-request")),
        ("POST", "/api/saved", {**BODY, "request": {"query": "(aspirin"}}, (422, "bad-request")),
        ("POST", "/api/saved", {**BODY, "request": {}}, (422, "bad-request")),
        ("POST", "/api/saved", {**BODY, "request": {"query": 7}}, (422, "bad-request")),
        ("POST", "/api/saved", {**BODY, "request": {"query": "x", "sources": "library"}}, (422, "bad-request")),
        ("POST", "/api/saved", {**BODY, "request": {"query": "x", "syntax": "klingon"}}, (422, "bad-request")),
        ("POST", "/api/saved", {**BODY, "kind": "search", "request": {"query": "x", "top_k": 0}}, (422, "bad-request")),
    ],
)
async def test_what_is_unknown_or_wrong_is_a_problem(tmp_path: Path, method: str, path: str, body: Any, expected: tuple[int, str]) -> None:
    async with client_over(tmp_path) as (client, _, _):
        answer = await client.request(method, path, json=body)
    assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == expected
    assert "geheim" not in answer.text
    assert not await asyncio.to_thread((tmp_path / "saved.sqlite").exists)


async def test_a_server_that_only_reads_saves_and_runs_nothing(tmp_path: Path) -> None:
    async with client_over(tmp_path, read_only=True) as (client, _, _):
        answers = [
            await client.post("/api/saved", json=BODY), await client.post("/api/saved/liver/run"), await client.delete("/api/saved/liver"),
        ]  # fmt: skip
        listed = (await client.get("/api/saved")).json()
    assert [(one.status_code, one.json()["type"].rpartition(":")[2]) for one in answers] == [(403, "read-only")] * 3
    assert listed == {"saved": [], "writable": False}


async def test_an_owner_sees_only_its_own(tmp_path: Path) -> None:
    async with client_over(tmp_path, api_keys=KEYS, authentication="always") as (client, services, library):
        assert (await client.post("/api/saved", json=BODY, headers=ANN)).json()["name"] == "liver"
        await run_twice(services, library, "ann/liver")
        own = await client.get("/api/saved/liver/diff", headers=ANN)
        listed = [len((await client.get("/api/saved", headers=headers)).json()["saved"]) for headers in (ANN, BOB)]
        paths = ("", "/diff", "/feed.atom", "/feed.rss", "/digest.md", "/prisma.svg")
        foreign = [await client.get(f"/api/saved/liver{path}", headers=BOB) for path in paths]
        foreign += [await client.post("/api/saved/liver/run", headers=BOB), await client.delete("/api/saved/liver", headers=BOB)]
        bare = [await client.get(f"/api/saved/liver{path}") for path in paths]
    assert (own.json()["name"], own.json()["works"][0]["doc_id"]) == ("liver", "p3")
    assert listed == [1, 0]
    assert {answer.status_code for answer in foreign} == {404}
    assert {answer.status_code for answer in bare} == {404}, "without a key: what belongs to nobody"


async def test_a_damaged_store_is_a_problem_that_names_no_path(tmp_path: Path) -> None:
    await asyncio.to_thread((tmp_path / "saved.sqlite").write_bytes, b"no database" * 1_000)
    async with client_over(tmp_path) as (client, _, _):
        answer = await client.get("/api/saved")
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:outrider:problem:store-damaged")
    assert str(tmp_path) not in answer.text


@pytest.mark.slow
def test_a_server_runs_what_is_due_once(tmp_path: Path, shelved: Path) -> None:
    """Its schedule was missed for years while no server ran."""
    store, table = SavedStore(tmp_path / "saved.sqlite"), JobTable(str(tmp_path / "jobs.sqlite"))
    fields: Mapping[str, Any] = {"kind": "systematic", "request": {"query": "aspirin[ti]", "sources": ["library"], "syntax": "auto"}}
    saved = SavedSearch(id="ab" * 16, name="liver", library=str(shelved), schedule="daily", created_at=1.7e9, **fields)
    store.add(saved)
    environ = {
        **os.environ, "OUTRIDER_JOBS__URI": table.uri, "OUTRIDER_SAVED__URI": str(store.path), "OUTRIDER_SOURCES__OFFLINE": "true",
        "OUTRIDER_SYSTEMATIC__FOLDER": str(tmp_path / "runs"),
    }  # fmt: skip
    command = [sys.executable, "-m", "outrider", "serve", "--port", "0", "--library", str(shelved)]
    server = subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True)
    try:
        until = time.monotonic() + 150
        while not any(run.status == "complete" for run in store.runs(saved)) and time.monotonic() < until:
            time.sleep(0.1)
    finally:
        server.terminate()
        log = server.communicate(timeout=30)[1]
    assert all(json.loads(line) for line in log.splitlines()), "the log stays lines of JSON"
    assert [(run.number, run.status, run.works) for run in store.runs(saved)] == [(1, "complete", 1)]
    assert [(job.kind, job.target) for job in table.list_jobs()] == [("saved", "liver")]
