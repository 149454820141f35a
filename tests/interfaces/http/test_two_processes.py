"""Two real `outrider serve` processes over Redis and Postgres, each on its host, of which one is killed while fifty searches run."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.http_server import Answer, Request, as_json, serving
from support.postgres import postgres

__all__ = ["postgres"]
pytestmark = pytest.mark.slow
LATER = {"Prefer": "respond-async"}
LOST = (httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError, httpx.WriteError)
"""What a client of a killed process sees; a proxy makes it 502."""
PATIENCE_S = 240.0
ELSEWHERE = ["unshare", "--uts", "sh", "-c", 'hostname elsewhere && exec "$@"', "sh"]
"""Starts a command on what is another host to it, which cannot see whether a process of this one lives."""
SERVICE_S = 2.0
"""Each search waits for its service so long, so that the kill comes in its middle."""


@dataclass
class Pair:
    """The processes, which a client asks in turn, as a proxy would: the next one where one is gone."""

    addresses: list[str]
    processes: list[subprocess.Popen[bytes]]
    turn: Iterator[int] = field(default_factory=count)

    async def send(self, client: httpx.AsyncClient, method: str, path: str, **options: Any) -> httpx.Response:
        """Raises what was lost under way."""
        first = next(self.turn)
        for number in range(first, first + len(self.addresses)):
            try:
                return await client.request(method, self.addresses[number % len(self.addresses)] + path, **options)
            except httpx.ConnectError:
                continue
        raise AssertionError("no process can be reached")


def answer_slowly(request: Request) -> Answer:
    """A work whose title is the query, so that mixed answers would show."""
    number = re.findall(r"number(\d+)", str(dict(request.query)))[0]
    work = {"id": f"https://openalex.org/W{number}", "title": f"Liver number{number}", "doi": f"https://doi.org/10.1000/{number}"}
    return as_json({"meta": {"count": 1}, "results": [work]}, after_s=SERVICE_S)


@pytest.fixture
def pair(redis_url: str, postgres: str, tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as stack:
        service = stack.enter_context(serving(answer_slowly))
        values: dict[str, object] = {
            "SHARED__REDIS_URL": redis_url,
            "SHARED__LEASE_S": 3,
            "THREADS__URI": postgres,
            "JOBS__URI": tmp_path / "jobs.sqlite",
            "LIBRARY__URI": tmp_path / "library",
            "SOURCES__OFFLINE": "false",
            "SOURCES__OPENALEX__BASE_URL": service.base_url,
            "SOURCES__OPENALEX__REQUESTS": 1_000,
            "SOURCES__OPENALEX__AT_ONCE": 100,
            "SOURCES__OPENALEX__TIMEOUT_S": PATIENCE_S,
            "RUN__RUN_TIMEOUT_S": PATIENCE_S,
            "SERVE__REQUEST_S": PATIENCE_S,
            "SERVE__AT_ONCE": 16,
            "SERVE__QUEUE_S": PATIENCE_S,
            "SERVE__PROCESSES": 0,
            "ENRICH__ENABLED": "false",
            "ENRICH__KEEP": "false",
            "PLANNER__ENABLED": "false",
            "LEARNING__ENABLED": "false",
            "CACHE__FOLDER": tmp_path / "cache",
        }
        others = ("GITHUB", "SEMANTIC_SCHOLAR", "ARXIV", "PUBMED", "CROSSREF", "SERPAPI_SCHOLAR", "SERPAPI_GOOGLE", "WEB")
        values |= {f"SOURCES__{name}__ENABLED": "false" for name in others}
        environ = {**os.environ, "HOME": str(tmp_path), **{f"OUTRIDER_{name}": str(value) for name, value in values.items()}}
        command = [sys.executable, "-m", "outrider", "serve", "--port", "0"]
        processes, logs = [], [tmp_path / f"{number}.log" for number in range(2)]
        for log, prefix in zip(logs, ([], choose_host()), strict=True):
            with log.open("wb") as file:
                processes.append(subprocess.Popen([*prefix, *command], env=environ, cwd=tmp_path, stderr=file, stdout=subprocess.DEVNULL))
            stack.callback(processes[-1].wait)
            stack.callback(processes[-1].kill)
        yield Pair([read_address(*one) for one in zip(processes, logs, strict=True)], processes)


def choose_host() -> list[str]:
    """Another one, where this user may make one."""
    is_possible = shutil.which("unshare") and subprocess.run([*ELSEWHERE, "true"], check=False, stderr=subprocess.DEVNULL).returncode == 0
    return ELSEWHERE if is_possible else []


def read_address(process: subprocess.Popen[bytes], log: Path) -> str:
    """The address in the log, once the server is ready for searches."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()
        if match := re.search(r"answers at (http://[\d.]+:\d+)", log.read_text()):
            with suppress(httpx.HTTPError):
                if httpx.get(f"{match[1]}/readyz", timeout=30).status_code == 200:
                    return match[1]
        time.sleep(0.2)
    pytest.fail("the server was not ready in time")


@dataclass
class Outcome:
    number: int
    title: str = ""
    problem: str = ""
    events: list[int] = field(default_factory=list)
    retries: int = 0


async def search_later(pair: Pair, client: httpx.AsyncClient, number: int, begun: list[int]) -> Outcome:
    """An asynchronous search, followed at whichever process; every third one is on a thread."""
    headers = LATER | ({"X-Thread-Id": f"thread{number}"} if number % 3 == 0 else {})
    accepted = await pair.send(client, "POST", "/api/search", json={"query": f"liver number{number}"}, headers=headers)
    assert accepted.status_code == 202, accepted.text
    begun.append(number)
    outcome, place = Outcome(number), accepted.headers["location"]
    while True:
        try:
            after = str(outcome.events[-1] if outcome.events else 0)
            answer = await pair.send(client, "GET", f"{place}/events", headers={"Last-Event-ID": after})
        except LOST:
            outcome.retries += 1
            continue
        assert answer.status_code in (200, 204), answer.text
        outcome.events += [int(line[4:]) for line in answer.text.splitlines() if line.startswith("id: ")]
        state = await pair.send(client, "GET", place)
        assert state.status_code == 200, state.text
        body = state.json()
        if body["status"] == "done":
            outcome.title = body["response"]["hits"][0]["title"]
            return outcome
        if body["status"] in ("failed", "cancelled"):
            outcome.problem = json.dumps(body)
            return outcome


async def search_now(pair: Pair, client: httpx.AsyncClient, number: int) -> Outcome:
    """A synchronous search, sent again where its process was killed: that is the retryable error."""
    outcome = Outcome(number)
    while True:
        try:
            answer = await pair.send(client, "POST", "/api/search", json={"query": f"liver number{number}"})
        except LOST:
            outcome.retries += 1
            continue
        if answer.status_code == 200:
            outcome.title = answer.json()["hits"][0]["title"]
            state = await pair.send(client, "GET", f"/api/search/{answer.headers['x-search-id']}")
            assert state.status_code == 200, state.text
        else:
            outcome.problem = answer.text
        return outcome


@pytest.mark.skipif(not shutil.which("redis-server"), reason="no redis-server is installed")
async def test_fifty_searches_survive_the_death_of_one_of_two_processes(pair: Pair) -> None:
    begun: list[int] = []
    limits = httpx.Limits(max_connections=200, max_keepalive_connections=0)
    async with httpx.AsyncClient(timeout=PATIENCE_S, limits=limits) as client:
        later = [asyncio.create_task(search_later(pair, client, number, begun)) for number in range(25)]
        now = [asyncio.create_task(search_now(pair, client, number)) for number in range(25, 50)]
        async with asyncio.timeout(PATIENCE_S):
            while len(begun) < 25:  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.02)
        pair.processes[0].send_signal(signal.SIGKILL)
        outcomes = await asyncio.wait_for(asyncio.gather(*later, *now), PATIENCE_S)
        threads = (await pair.send(client, "GET", "/api/threads")).json()["threads"]
    assert [outcome.problem for outcome in outcomes if outcome.problem] == []
    assert [outcome.title for outcome in outcomes] == [f"Liver number{number}" for number in range(50)]
    for outcome in outcomes[:25]:  # none lost, none twice
        assert outcome.events == list(range(1, len(outcome.events) + 1)), outcome
    assert sum(outcome.retries for outcome in outcomes) > 0, "the kill hit nobody"
    assert {(run["thread"], run["state"]) for run in threads} == {(f"thread{number}", "ended") for number in range(0, 25, 3)}
