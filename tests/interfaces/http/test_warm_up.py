"""What is loaded when `/readyz` answers 200, and whom loading it asks."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from outrider.interfaces.http import server, warm_up
from outrider.runtime import spans
from outrider.services import Services
from outrider.settings.load import load
from outrider.sources.http import transport
from outrider.sources.library import LibrarySource
from support.http_app import open_client

FIRST_REQUEST = """
import asyncio, sys

import httpx

from outrider.interfaces.http.server import build_application
from outrider.services import Services


async def ask(library):
    built = build_application(Services.for_library(library, {"sources.offline": True}))
    transport = httpx.ASGITransport(built.app)
    async with built.app.router.lifespan_context(built.app), httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        while (await client.get("/readyz")).status_code != 200:
            await asyncio.sleep(0.01)
        before = set(sys.modules)
        for path, body in (("/api/search", {"query": "aspirin and the liver"}), ("/search/invoke", {"input": {"query": "statins"}})):
            (await client.post(path, json=body)).raise_for_status()
        run = await client.post("/api/search", json={"query": "cholesterol"}, headers={"Prefer": "respond-async"})
        assert "event: response" in (await client.get(run.headers["location"] + "/events")).text
        print(*set(sys.modules) - before)
        print(*(name for name in ("markdown_it", "docutils.parsers.rst", "lancedb") if name not in before))


asyncio.run(ask(sys.argv[1]))
"""


def test_the_first_requests_import_nothing(shelved: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_REQUEST, str(shelved)], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout == "\n\n", (done.stdout, done.stderr[-2_000:])


class NeverAsked:
    """A chat model that must not be asked."""

    name = "never-asked"
    asked = 0

    async def answer(self, *question: object) -> Any:
        self.asked += 1
        raise AssertionError(question)


def make_services(library: Path, folder: Path, **more: Any) -> Services:
    values = {"library.uri": str(library), "cache.folder": str(folder / "cache"), "sources.web.enabled": False}
    chat: Any = NeverAsked()
    return Services(load(values, environ={}, cwd=folder, user_dir=folder).settings, chat=chat, **more)


async def test_it_searches_the_library_and_asks_and_records_nothing_else(
    shelved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[object] = []
    searched: list[str] = []
    made = await asyncio.to_thread(make_services, shelved, tmp_path)
    search = LibrarySource.search

    async def send(request: object, *_: object) -> None:
        sent.append(request)
        raise AssertionError(request)

    async def watch(source: LibrarySource, query: Any) -> Any:
        searched.append(query.strategy)
        return await search(source, query)

    class Tracer:
        def span(self, name: str, attributes: Any) -> Any:
            raise AssertionError(name)

        begin = span

    monkeypatch.setattr(transport, "send", send)
    monkeypatch.setattr("outrider.sources.http.client.send", send)
    monkeypatch.setattr(LibrarySource, "search", watch)
    spans.install(Tracer())
    try:
        async with open_client(made) as client:
            async with asyncio.timeout(300):
                while (await client.get("/readyz")).status_code != 200:  # noqa: ASYNC110 - the door has no event for it
                    await asyncio.sleep(0.01)
            metrics = (await client.get("/metrics")).text
            assert not client.application.runs._runs  # type: ignore[attr-defined]
    finally:
        spans.install(None)
    assert "lance_fts" in searched
    assert not sent
    assert made.chat is not None
    assert made.chat.asked == 0  # type: ignore[attr-defined]
    assert "outrider_searches_total{" not in metrics
    assert len(made.sources) > 1
    assert "may be slow" not in caplog.text


async def test_the_server_is_not_ready_before_it_is_warm(shelved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = asyncio.Event()

    async def wait(_: Services) -> None:
        await go_on.wait()

    monkeypatch.setattr(server, "warm_up", wait)
    async with open_client(await asyncio.to_thread(make_services, shelved, tmp_path)) as client:
        before = await client.get("/readyz")
        assert (before.status_code, json.loads(before.text)["detail"]) == (503, "this server is still loading what searches need")
        go_on.set()
        async with asyncio.timeout(60):
            while (await client.get("/readyz")).status_code != 200:  # noqa: ASYNC110 - the door has no event for it
                await asyncio.sleep(0.01)


@pytest.mark.parametrize(("error", "logged"), [(RuntimeError("a bug"), "a bug"), (TimeoutError(), "took more than")])
async def test_a_warm_up_that_fails_is_logged_and_no_reason_not_to_be_ready(
    error: Exception, logged: str, shelved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_: object) -> None:
        raise error

    monkeypatch.setattr(warm_up, "_search_library", fail)
    async with open_client(await asyncio.to_thread(make_services, shelved, tmp_path)) as client:
        async with asyncio.timeout(60):
            while (await client.get("/readyz")).status_code != 200:  # noqa: ASYNC110 - the door has no event for it
                await asyncio.sleep(0.01)
    [record] = [record for record in caplog.records if "may be slow" in record.message]
    assert record.levelno == logging.WARNING
    assert logged in caplog.text


async def test_without_a_library_it_is_ready_as_before(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with open_client(await asyncio.to_thread(make_services, tmp_path / "none", tmp_path)) as client:
        answer = httpx.Response(503)
        async with asyncio.timeout(60):
            while (answer := await client.get("/readyz")).status_code != 200:  # noqa: ASYNC110 - the door has no event for it
                await asyncio.sleep(0.01)
        assert "the first results that are saved create it" in answer.json()["note"]
    assert not (tmp_path / "none").exists()
    assert "may be slow" not in caplog.text
