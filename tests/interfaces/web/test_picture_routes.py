"""Pictures of a search, asked of the server. No browser."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")

from outrider.interfaces.http.access import hash_key
from outrider.state.records import Repository
from support.http_app import ASPIRIN, STATINS, BlockingLibrary, open_client, services
from support.svg import describe, read_svg

LATER = {"Prefer": "respond-async"}


async def begin_search(client: httpx.AsyncClient, headers: Any = None) -> str:
    place = (await client.post("/api/search", json={"query": "aspirin"}, headers=LATER | (headers or {}))).headers["location"]
    await client.get(f"{place}/events", headers=headers)
    return str(place)


async def test_a_search_has_a_timeline() -> None:
    async with open_client(services(ASPIRIN, STATINS)) as client:
        picture = await client.get(f"{await begin_search(client)}/timeline.svg")
    assert (picture.status_code, picture.headers["content-type"]) == (200, "image/svg+xml")
    assert picture.headers["content-security-policy"].startswith("default-src 'none'; style-src 'unsafe-inline'; sandbox")
    root, text = read_svg(picture.text)
    assert "aspirin" in text
    assert describe(root).startswith("2020: 1 paper.")


async def test_a_picture_that_cannot_be_drawn_is_a_problem() -> None:
    keys = {name: hash_key(f"key of {name}") for name in ("ann", "bob")}
    bare = Repository(doc_id="r", title="aspirin/tool", description="Aspirin")
    async with open_client(services(ASPIRIN, bare, api_keys=keys), needs_key=True) as client:
        ann, bob = ({"Authorization": f"Bearer key of {name}"} for name in keys)
        place = await begin_search(client, ann)
        answers = {
            path: await client.get(f"{place}/{path}", headers=ann)
            for path in ("radar.svg", "radar.svg?rank=1", "radar.svg?rank=9", "radar.svg?rank=x", "radar.svg?" + "&".join(["rank=1"] * 5))
        }
        foreign = [await client.get(f"{place}/timeline.svg", headers=headers) for headers in (bob, {})]
        unknown = await client.get("/api/search/nothing/timeline.svg", headers=ann)
    assert [answer.status_code for answer in answers.values()] == [404, 422, 422, 422, 422]
    assert "only repositories that a model scored" in answers["radar.svg"].json()["detail"]
    assert answers["radar.svg?rank=9"].json()["detail"] == "rank: no hit with dimensions has rank 9 in this search"
    assert [answer.status_code for answer in (*foreign, unknown)] == [404, 401, 404]
    assert {answer.headers["content-type"] for answer in (*answers.values(), unknown)} == {"application/problem+json"}


async def test_a_running_search_has_no_picture_yet() -> None:
    library = BlockingLibrary([ASPIRIN])
    async with open_client(services(shelf=library)) as client:
        place = (await client.post("/api/search", json={"query": "aspirin"}, headers=LATER)).headers["location"]
        answer = await client.get(f"{place}/timeline.svg")
        library.let.set()
        await client.get(f"{place}/events")
    assert (answer.status_code, answer.json()["detail"]) == (404, "this search has no answer yet")
