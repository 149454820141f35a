"""Learning from use over REST: feedback by owner, completion, reset; off by default and on a server that only reads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from outrider.interfaces.http.access import hash_key
from outrider.services import Services
from outrider.settings.model import LearningSettings, Settings
from outrider.settings.sections import ServeSettings
from support import fakes
from support.http_app import ASPIRIN, STATINS, open_client

KEYS = {"ann": hash_key("key of ann"), "bob": hash_key("key of bob")}
ANN, BOB = ({"Authorization": f"Bearer key of {name}"} for name in ("ann", "bob"))


@asynccontextmanager
async def client_over(folder: Path, *, enabled: bool = True, **serve: Any) -> AsyncIterator[httpx.AsyncClient]:
    shelf = fakes.Shelf([ASPIRIN, STATINS])
    learning = LearningSettings(enabled=enabled, file=str(folder / "learning.sqlite"))
    services = Services(
        Settings(serve=ServeSettings(**serve), learning=learning), shelf=shelf, sources=(shelf,), reranker=fakes.no_reranker
    )
    async with open_client(services) as client:
        yield client


async def search(client: httpx.AsyncClient, **headers: str) -> str:
    return (await client.post("/api/search", json={"query": "aspirin liver"}, headers=headers)).headers["X-Search-Id"]


async def test_feedback_is_recorded_by_owner_and_forgotten(tmp_path: Path) -> None:
    async with client_over(tmp_path, api_keys=KEYS, authentication="always") as client:
        number = await search(client, **ANN)
        body = {"search": number, "doc_id": "a", "action": "keep"}
        answers = [await client.post("/api/feedback", json=body, headers=headers) for headers in (ANN, BOB)]
        learned = [(await client.get("/api/learning", headers=headers)).json() for headers in (ANN, BOB)]
        completed = [(await client.get("/api/complete?q=asp", headers=headers)).json()["completions"] for headers in (ANN, BOB)]
        forgotten = [(await client.delete(path, headers=ANN)).json() for path in ("/api/learning", "/api/learning/history")]
        left = (await client.get("/api/learning", headers=ANN)).json()
    assert [answer.status_code for answer in answers] == [204, 404], "a search of another owner"
    assert [one["searches"] for one in learned] == [1, 0]
    assert (learned[0]["used"], learned[0]["library"]) == (False, "")
    assert completed == [[{"text": "aspirin liver", "source": "history"}], []]
    assert forgotten == [{"forgotten": 1}, {"forgotten": 1}]
    assert left["searches"] == 0


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"doc_id": "nowhere", "action": "keep"}, 422),
        ({"doc_id": "a", "action": "love"}, 422),
        ({"search": "none", "doc_id": "a", "action": "keep"}, 404),
        ({"doc_id": "a"}, 422),
    ],
)
async def test_wrong_feedback_is_a_problem(tmp_path: Path, body: dict[str, str], status: int) -> None:
    async with client_over(tmp_path) as client:
        answer = await client.post("/api/feedback", json={"search": await search(client), **body})
        learned = (await client.get("/api/learning")).json()
    assert (answer.status_code, learned["searches"]) == (status, 0)


async def test_off_and_read_only_record_nothing(tmp_path: Path) -> None:
    for name, options, status in (("off", {"enabled": False}, 422), ("read", {"read_only": True}, 403)):
        async with client_over(tmp_path / name, **options) as client:  # type: ignore[arg-type]
            body = {"search": await search(client), "doc_id": "a", "action": "keep"}
            assert (await client.post("/api/feedback", json=body)).status_code == status
            assert (await client.get("/api/complete?q=asp")).json() == {"completions": []}
            assert (await client.get("/api/about")).json()["learns"] is False
        assert not (tmp_path / name).exists()
