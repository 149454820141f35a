"""Background jobs over REST: listed, shown, paused, resumed and stopped, each by its owner alone; and run by `outrider serve`."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from outrider.interfaces.http.access import hash_key
from outrider.jobs.job_table import JobTable
from outrider.services import Services
from outrider.settings.model import JobSettings, Settings
from outrider.settings.sections import ServeSettings
from support import fakes
from support.http_app import ASPIRIN, open_client

KEYS = {"ann": hash_key("key of ann"), "bob": hash_key("key of bob")}


@asynccontextmanager
async def client_over(folder: Path, **serve: Any) -> AsyncIterator[tuple[httpx.AsyncClient, JobTable]]:
    shelf, uri = fakes.Shelf([ASPIRIN]), str(folder / "jobs.sqlite")
    settings = Settings(serve=ServeSettings(**serve), jobs=JobSettings(uri=uri))
    async with open_client(Services(settings, shelf=shelf, sources=(shelf,), reranker=fakes.no_reranker)) as client:
        yield client, JobTable(uri)


async def test_jobs_are_listed_shown_paused_resumed_and_stopped(tmp_path: Path) -> None:
    async with client_over(tmp_path) as (client, table):
        assert (await client.get("/api/jobs")).json() == {"jobs": [], "paused_targets": [], "is_worked": False}
        fetch = await asyncio.to_thread(table.queue, "fetch", "liver/one", "", {"n": 1})
        citations = await asyncio.to_thread(table.queue, "citations", "liver/one", "", {"n": 2})
        listed = (await client.get("/api/jobs", params={"status": "queued"})).json()["jobs"]
        shown = (await client.get(f"/api/jobs/{fetch}")).json()
        paused = (await client.post("/api/jobs/pause", json={"target": "liver/one"})).json()
        targets = (await client.get("/api/jobs")).json()["paused_targets"]
        resumed = (await client.post("/api/jobs/resume", json={"target": "liver/one"})).json()
        stopped = (await client.post("/api/jobs/stop", json={"target": "liver/one", "scope": "target_queue_only"})).json()
        rest = (await client.post("/api/jobs/stop", json={"target": citations})).json()
    assert {job["id"] for job in listed} == {fetch, citations}
    assert (shown["id"], shown["target"], shown["request"]) == (fetch, "liver/one", {"n": 1})
    assert ([job["id"] for job in paused["changed"]], [job["id"] for job in paused["unchanged"]]) == ([fetch], [citations])
    assert (targets, [job["status"] for job in resumed["changed"]]) == (["liver/one"], ["queued"])
    assert ([job["id"] for job in stopped["changed"]], [job["id"] for job in stopped["unchanged"]]) == ([fetch], [citations])
    assert [(job["id"], job["status"]) for job in rest["changed"]] == [(citations, "cancelled")]


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("GET", "/api/jobs/none", None, (404, "no-such-job")),
        ("POST", "/api/jobs/pause", {"target": "none"}, (404, "no-such-job")),
        ("POST", "/api/jobs/resume", {"target": "none"}, (404, "no-such-job")),
        ("POST", "/api/jobs/stop", {"target": "none"}, (404, "no-such-job")),
        ("POST", "/api/jobs/stop", {"target": "a", "scope": "some"}, (422, "bad-request")),
        ("POST", "/api/jobs/stop", {}, (422, "bad-request")),
        ("GET", "/api/jobs?status=lost", None, (422, "bad-request")),
    ],
)
async def test_what_is_unknown_or_wrong_is_a_problem(tmp_path: Path, method: str, path: str, body: Any, expected: tuple[int, str]) -> None:
    async with client_over(tmp_path) as (client, _):
        answer = await client.request(method, path, json=body)
    assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == expected


async def test_a_server_that_only_reads_changes_no_job(tmp_path: Path) -> None:
    async with client_over(tmp_path, read_only=True) as (client, table):
        number = await asyncio.to_thread(table.queue, "fetch", "liver", "", {})
        bodies = {"pause": {"target": "liver"}, "resume": {"target": "liver"}, "stop": {"target": number}}
        answers = [await client.post(f"/api/jobs/{action}", json=body) for action, body in bodies.items()]
        job = (await client.get(f"/api/jobs/{number}")).json()
    assert [(one.status_code, one.json()["type"].rpartition(":")[2]) for one in answers] == [(403, "read-only")] * 3
    assert job["status"] == "queued"


async def test_a_damaged_file_is_a_problem_that_names_no_path(tmp_path: Path) -> None:
    await asyncio.to_thread((tmp_path / "jobs.sqlite").write_bytes, b"no database" * 1_000)
    async with client_over(tmp_path) as (client, _):
        answer = await client.get("/api/jobs")
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:outrider:problem:job-error")
    assert str(tmp_path) not in answer.text


async def test_an_owner_sees_and_stops_only_its_own_jobs_and_those_of_nobody(tmp_path: Path) -> None:
    async with client_over(tmp_path, api_keys=KEYS, authentication="always") as (client, table):
        targets = ("ann/liver", "bob/liver", "tag/review", "liver")
        numbers = {target: await asyncio.to_thread(table.queue, "fetch", target, "", {}) for target in targets}
        ann, bob = ({"Authorization": f"Bearer key of {name}"} for name in ("ann", "bob"))
        listed = (await client.get("/api/jobs", headers=ann)).json()["jobs"]
        foreign = [
            await client.get(f"/api/jobs/{numbers['ann/liver']}", headers=bob),
            *[
                await client.post(f"/api/jobs/{action}", json={"target": target}, headers=bob)
                for action in ("pause", "resume", "stop")
                for target in ("ann/liver", numbers["ann/liver"])
            ],
        ]
        own = await client.post("/api/jobs/stop", json={"target": "ann/liver"}, headers=ann)
    assert {job["target"] for job in listed} == {"ann/liver", "tag/review", "liver"}
    assert {answer.status_code for answer in foreign} == {404}
    assert own.json()["changed"][0]["id"] == numbers["ann/liver"]


@pytest.mark.slow
def test_a_server_runs_jobs_in_a_process_of_its_own_which_ends_with_it(tmp_path: Path, shelved: Path) -> None:
    table = JobTable(str(tmp_path / "jobs.sqlite"))
    numbers = [table.queue("fetch", "liver", str(shelved), {"works": []})]
    environ = {**os.environ, "OUTRIDER_JOBS__URI": table.uri, "OUTRIDER_SOURCES__OFFLINE": "true"}
    command = [sys.executable, "-m", "outrider", "serve", "--port", "0", "--library", str(shelved)]
    server = subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True)
    try:
        wait_for_end(table, numbers[0])
        while table.is_worked():
            time.sleep(0.05)
        numbers.append(table.queue("fetch", "kidney", str(shelved), {"works": []}))
        wait_for_end(table, numbers[1])
        assert [table.get(number).attempts for number in numbers] == [1, 1]
    finally:
        server.terminate()
        log = server.communicate(timeout=30)[1]
    assert all(json.loads(line) for line in log.splitlines()), "the log stays lines of JSON"
    claim = table.try_lock()
    assert claim, "no process is left that runs jobs"
    claim.release()


def wait_for_end(table: JobTable, number: str) -> None:
    until = time.monotonic() + 150  # on a busy machine: two processes start for it
    while table.get(number).status not in ("done", "failed") and time.monotonic() < until:
        time.sleep(0.05)
    assert table.get(number).finished_at
