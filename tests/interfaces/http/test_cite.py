"""Citation chasing over REST: candidates, decisions, rounds, map, exports; and who may do what."""

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
from outrider.services.citation_queue import find_job_table
from outrider.settings.model import LibrarySettings, Settings
from support.chase_library import HOSTILE, RETRACTED, TARGET, make_services
from support.http_app import open_client
from support.svg import describe, read_svg

KEYS = {name: hash_key(f"key of {name}") for name in ("ann", "bob")}


@asynccontextmanager
async def client_over(folder: Path, **values: Any) -> AsyncIterator[httpx.AsyncClient]:
    services = await asyncio.to_thread(make_services, folder, **values)
    async with open_client(services, needs_key="serve.api_keys" in values) as client:
        client.table = find_job_table(services.settings)  # type: ignore[attr-defined]
        yield client


async def list_keys(client: httpx.AsyncClient, target: str = TARGET, **fields: Any) -> list[str]:
    answer = await client.post("/api/cite/candidates", json={"target": target, **fields})
    assert answer.status_code == 200, answer.text
    return [one["key"] for one in answer.json()["candidates"]]


async def test_a_round_from_its_candidates_to_its_file(tmp_path: Path) -> None:
    async with client_over(tmp_path) as client:
        listed = (await client.post("/api/cite/candidates", json={"target": TARGET})).json()
        cited = await list_keys(client, direction="references", limit=2)
        await list_keys(client)
        preview = (await client.post("/api/cite/queue", json={"target": TARGET, "exclude": ["w7"], "dry_run": True})).json()
        before = (await client.get("/api/cite/status", params={"target": TARGET})).json()
        queued = (await client.post("/api/cite/queue", json={"target": TARGET, "include": ["w3", "w4"]})).json()
        status = (await client.get("/api/cite/status", params={"target": TARGET})).json()
        data = (await client.get("/api/cite/map", params={"target": TARGET})).json()
        picture = await client.get("/api/cite/map.svg", params={"target": TARGET})
        files = {form: await client.get("/api/cite/export", params={"target": TARGET, "format": form}) for form in ("ris", "prisma-svg")}
        coming = await client.get("/api/cite/export", params={"target": TARGET, "round": 2})
        jobs = await asyncio.to_thread(client.table.list_jobs, TARGET)  # type: ignore[attr-defined]
    assert {one["key"] for one in listed["candidates"]} == {"w3", "w4", "w5", "w6", "w7"}
    assert [one["key"] for one in listed["candidates"] if one["retracted"]] == [RETRACTED]
    assert (listed["total"], listed["works"], listed["round"]) == (5, 2, 1)
    assert len(cited) == 2
    assert "w7" not in cited
    assert (preview["dry_run"], sorted(preview["queued"]), preview["jobs"]) == (True, ["w3", "w4", "w5", "w6"], [])
    assert before["rounds"] == before["jobs"] == []
    assert sorted(queued["queued"]) == ["w3", "w4"]
    assert [job.id for job in jobs if job.kind == "fetch"] == queued["jobs"]
    assert [(one["included"], one["excluded"]) for one in status["rounds"]] == [(["w3", "w4"], [])]
    assert [(one["seen"], one["read"], one["included"]) for one in status["yields"]] == [(5, 2, 2)]
    assert {job["id"] for job in status["jobs"]} >= set(queued["jobs"])
    assert "is not complete" in status["completeness"]
    assert [one["role"] for one in data["works"]] == ["target"] * 2 + ["included"] * 2 + ["candidate"] * (len(data["works"]) - 4)
    assert ["w1", "w3"] in data["links"]
    assert data["svg"] == picture.text
    root, text = read_svg(picture.text)
    assert picture.headers["content-type"] == "image/svg+xml"
    assert "2 target works" in text
    assert HOSTILE[:40] in describe(root)
    assert "<script" not in picture.text
    assert files["ris"].text.count("TY  - ") == 2
    assert files["ris"].headers["content-disposition"] == 'attachment; filename="outrider-citations.ris"'
    assert "citation searching (n = 5)" in " ".join(read_svg(files["prisma-svg"].text)[1].split())
    assert coming.text.count("TY  - ") == 5


WRONG: tuple[tuple[str, str, dict[str, Any], tuple[int, str]], ...] = (
    ("POST", "candidates", {}, (422, "bad-request")),
    ("POST", "candidates", {"target": "nothing"}, (404, "no-such-thread")),
    ("POST", "candidates", {"target": "label:nothing"}, (422, "bad-request")),
    ("POST", "candidates", {"target": TARGET, "direction": "up"}, (422, "bad-request")),
    ("POST", "candidates", {"target": TARGET, "hops": 4}, (422, "bad-request")),
    ("POST", "queue", {"target": TARGET}, (422, "bad-request")),
    ("POST", "queue", {"target": TARGET, "include": ["w3"], "exclude": ["w4"]}, (422, "bad-request")),
    ("POST", "queue", {"target": TARGET, "include": ["w3", "w99"]}, (422, "bad-request")),
    ("GET", "status", {"target": "nothing"}, (404, "no-such-thread")),
    ("GET", "map.svg", {"target": "nothing"}, (404, "no-such-thread")),
    ("GET", "export", {"target": TARGET, "format": "xls"}, (422, "bad-request")),
    ("GET", "export", {"target": TARGET, "round": 9}, (422, "bad-request")),
)


async def test_what_is_unknown_or_wrong_is_a_problem_and_queues_nothing(tmp_path: Path) -> None:
    async with client_over(tmp_path) as client:
        for method, path, fields, expected in WRONG:
            sent: dict[str, Any] = {"json": fields} if method == "POST" else {"params": fields}
            answer = await client.request(method, f"/api/cite/{path}", **sent)
            assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == expected, (path, fields)
        jobs = await asyncio.to_thread(client.table.list_jobs)  # type: ignore[attr-defined]
    assert [job for job in jobs if job.kind == "fetch"] == []


async def test_looking_creates_no_library(tmp_path: Path) -> None:
    settings = Settings(library=LibrarySettings(uri=str(tmp_path / "none")))
    async with open_client(Services(settings)) as client:
        answers = [
            await client.get("/api/cite/status", params={"target": TARGET}),
            await client.post("/api/cite/candidates", json={"target": TARGET}),
        ]
    assert [(one.status_code, one.json()["type"]) for one in answers] == [(404, "urn:outrider:problem:library-missing")] * 2
    assert not await asyncio.to_thread((tmp_path / "none").exists)


async def test_no_file_of_the_server_is_a_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret.txt").write_text("doi:10.5555/w.1\na secret line\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    async with client_over(tmp_path) as client:
        for target in ("secret.txt", "./secret.txt", str(tmp_path / "secret.txt")):
            answer = await client.post("/api/cite/candidates", json={"target": target})
            assert answer.status_code == 404
            assert "a secret line" not in answer.text


async def test_a_read_only_server_queues_nothing_and_still_shows_candidates(tmp_path: Path) -> None:
    async with client_over(tmp_path, **{"serve.read_only": True}) as client:
        body = {"target": TARGET, "include": ["w3"]}
        refused = await client.post("/api/cite/queue", json=body)
        preview = await client.post("/api/cite/queue", json={**body, "dry_run": True})
        keys = await list_keys(client)
        status = (await client.get("/api/cite/status", params={"target": TARGET})).json()
        jobs = await asyncio.to_thread(client.table.list_jobs)  # type: ignore[attr-defined]
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:outrider:problem:read-only")
    assert (preview.status_code, preview.json()["queued"]) == (200, ["w3"])
    assert len(keys) == 5
    assert (status["writable"], status["rounds"], jobs) == (False, [], ())


async def test_an_owner_chases_from_its_own_threads_alone(tmp_path: Path) -> None:
    async with client_over(tmp_path, **{"serve.api_keys": KEYS, "serve.authentication": "always"}) as client:
        ann, bob = ({"Authorization": f"Bearer key of {name}"} for name in KEYS)
        body = {"query": "study of otters in rivers", "sources": ["library"], "top_k": 1}
        searched = await client.post("/api/search", json=body, headers={**ann, "X-Thread-Id": "rivers"})
        assert searched.status_code == 200
        own = await client.post("/api/cite/candidates", json={"target": "rivers"}, headers=ann)
        foreign = [
            await client.post("/api/cite/candidates", json={"target": target}, headers=bob) for target in ("rivers", "ann/rivers")
        ] + [
            await client.post("/api/cite/queue", json={"target": "ann/rivers", "all": True}, headers=bob),
            await client.get("/api/cite/status", params={"target": "ann/rivers"}, headers=bob),
            await client.get("/api/cite/map.svg", params={"target": "ann/rivers"}, headers=bob),
            await client.get("/api/cite/export", params={"target": "ann/rivers"}, headers=bob),
        ]
        shared = await client.post("/api/cite/candidates", json={"target": TARGET}, headers=bob)
        anybody = await client.post("/api/cite/candidates", json={"target": TARGET})
    assert (own.status_code, own.json()["target"], own.json()["works"]) == (200, "rivers", 1)
    assert {answer.status_code for answer in foreign} == {404}
    assert (shared.status_code, anybody.status_code) == (200, 401)
