"""Screening over REST: two reviewers with keys, blinding, conflicts, and what is refused."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from outrider.interfaces.http.access import hash_key
from outrider.reviews.review import Review
from outrider.reviews.session import NextRecord, ReviewSession
from outrider.services import Services
from outrider.settings.load import load
from support.http_app import open_client

KEYS = {name: hash_key(f"key of {name}") for name in ("ann", "bob")}
TABLE = "title,abstract\n" + "".join(f"Study {number} of otters,Otters eat fish {number}.\n" for number in range(1, 5))
CONFLICT = "title,doi,included\nOtters at sea,10.5555/a.1,1\nOtters at sea,10.5555/a.1,0\n"


async def make_services(folder: Path, **values: Any) -> Services:
    own = {"review.folder": str(folder / "reviews"), "library.uri": str(folder / "library"), "sources.offline": True, **values}
    loaded = await asyncio.to_thread(load, own, environ={}, cwd=folder, user_dir=folder)
    return Services(loaded.settings)


def be(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer key of {name}"}


async def begin(client: httpx.AsyncClient, headers: dict[str, str], **fields: Any) -> None:
    made = await client.post("/api/reviews", json={"name": "otters", **fields}, headers=headers)
    assert made.status_code == 201, made.text
    body = {"file_name": "x.csv", "text": TABLE, "by": None}
    added = await client.post("/api/reviews/otters/import", json=body, headers=headers)
    assert added.json()["records"] == 4, added.text


async def test_two_reviewers_are_blind_until_both_decided(tmp_path: Path) -> None:
    services = await make_services(tmp_path, **{"serve.api_keys": KEYS, "serve.authentication": "always"})
    async with open_client(services, needs_key=True) as client:
        await begin(client, be("ann"), reviewers=2, reasons=["wrong animal"])
        first = (await client.get("/api/reviews/otters/next", headers=be("ann"))).json()
        number = first["record"]["number"]
        body = {"record": str(number), "decision": "include", "shown": first["shown"]}
        done = await client.post("/api/reviews/otters/decisions", json=body, headers=be("ann"))
        seen = (await client.get(f"/api/reviews/otters/records/{number}", headers=be("bob"))).json()
        other = await client.post("/api/reviews/otters/decisions", json={**body, "by": "ann"}, headers=be("bob"))
        body |= {"decision": "exclude", "reason": "no data"}
        await client.post("/api/reviews/otters/decisions", json=body, headers=be("bob"))
        reasons = [(await client.get("/api/reviews/otters/next", headers=be(name))).json()["reasons"] for name in KEYS]
        offered = (await client.get("/api/reviews/otters", headers=be("ann"))).json()["reasons"]
        conflicts = (await client.get("/api/reviews/otters/conflicts", headers=be("bob"))).json()["conflicts"]
        await client.post("/api/reviews/otters/decisions", json={**body, "resolve": True}, headers=be("ann"))
        status = (await client.get("/api/reviews/otters", headers=be("ann"))).json()
        exported = await client.get("/api/reviews/otters/export", params={"format": "csv"}, headers=be("ann"))
    assert (first["by"], first["left"], first["shown"]["rank"]) == ("ann", 4, 1)
    assert done.json()["states"] == {str(number): "waiting"}
    assert (seen["record"]["decisions"], seen["record"]["state"]) == ([], "waiting")
    assert other.status_code == 422
    assert (reasons, offered) == ([["wrong animal"], ["no data", "wrong animal"]], ["wrong animal"])
    assert [[one["by"] for one in view["decisions"]] for view in conflicts] == [["ann", "bob"]]
    assert (status["excluded"], status["conflicts"], status["excluded_by_reason"]) == (1, [], {"no data": 1})
    assert exported.headers["Content-Disposition"] == 'attachment; filename="otters.csv"'
    assert b"no data" in exported.content


async def test_undo_notes_and_deletion(tmp_path: Path) -> None:
    async with open_client(await make_services(tmp_path)) as client:
        await begin(client, {})
        nobody = await client.get("/api/reviews/otters/next")
        who = {"by": "ann"}
        await client.post("/api/reviews/otters/decisions", json={"record": "2", "decision": "maybe", **who})
        undone = await client.post("/api/reviews/otters/undo", json=who)
        again = await client.post("/api/reviews/otters/undo", json=who)
        noted = await client.post("/api/reviews/otters/notes", json={"record": "2", "text": "ask Bob", **who})
        skipped = (await client.get("/api/reviews/otters/next", params={"by": "ann", "skip": [1, 2, 3]})).json()
        listed = (await client.get("/api/reviews")).json()["reviews"]
        gone = await client.delete("/api/reviews/otters")
        missing = await client.get("/api/reviews/otters")
    assert nobody.status_code == 422
    assert undone.json()["undone"] == [2]
    assert "nothing to take back" in again.json()["detail"]
    assert noted.json()["notes"][0]["text"] == "ask Bob"
    assert skipped["record"]["number"] == 4
    assert [(one["name"], one["records"]) for one in listed] == [("otters", 4)]
    assert (gone.status_code, missing.status_code) == (204, 404)


async def test_the_server_answers_others_while_a_review_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held, release, find_next = threading.Event(), threading.Event(), ReviewSession.next_record

    def hold(review: Review) -> None:
        with review.reading():
            held.set()
            release.wait(5)

    def find_and_hold(session: ReviewSession, *arguments: Any) -> NextRecord:
        following = find_next(session, *arguments)
        threading.Thread(target=hold, args=(session.review,)).start()
        held.wait(5)
        return following

    async with open_client(await make_services(tmp_path)) as client:
        await begin(client, {})
        monkeypatch.setattr(ReviewSession, "next_record", find_and_hold)
        wanted = asyncio.create_task(client.get("/api/reviews/otters/next", params={"by": "ann"}))
        await asyncio.to_thread(held.wait, 5)
        began = time.monotonic()
        await asyncio.sleep(0.2)
        took = time.monotonic() - began
        release.set()
        assert (await wanted).json()["left"] == 4
    assert took < 3


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("", {"name": "../x"}, 422), ("", {"name": "otters"}, 422), ("/otters/import", {"source": "/etc/passwd", "by": "ann"}, 422),
        ("/otters/import", {"by": "ann"}, 422), ("/otters/decisions", {"record": "9", "decision": "include", "by": "ann"}, 422),
        ("/otters/import", {"text": CONFLICT, "file_name": "x.csv", "by": "ann"}, 422),
    ],
)  # fmt: skip
async def test_a_bad_request_changes_nothing(tmp_path: Path, path: str, body: dict[str, Any], status: int) -> None:
    async with open_client(await make_services(tmp_path)) as client:
        await begin(client, {})
        log = tmp_path / "reviews" / "otters" / "decisions.jsonl"
        before = log.read_bytes()
        answer = await client.post(f"/api/reviews{path}", json=body)
        assert (answer.status_code, log.read_bytes()) == (status, before), answer.text


async def test_a_read_only_server_shows_and_changes_nothing(tmp_path: Path) -> None:
    async with open_client(await make_services(tmp_path)) as client:
        await begin(client, {})
    async with open_client(await make_services(tmp_path, **{"serve.read_only": True})) as client:
        assert (await client.get("/api/reviews/otters")).status_code == 200
        for path, body in (
            ("", {"name": "x"}),
            ("/otters/decisions", {"record": "1", "decision": "include", "by": "ann"}),
            ("/otters/undo", {}),
        ):
            assert (await client.post(f"/api/reviews{path}", json=body)).status_code == 403
        assert (await client.delete("/api/reviews/otters")).status_code == 403


async def test_a_file_is_imported_as_it_is(tmp_path: Path) -> None:
    """Larger than the body of another request, in the encoding of its program, or no text at all."""
    binary = {"Content-Type": "application/octet-stream"}
    services = await make_services(tmp_path, **{"serve.body_bytes": 5_000})
    async with open_client(services) as client:
        await begin(client, {}, reviewers=2)
        table = "title,abstract,included\n" + "".join(f"Die Fähre Nr. {number},{'Wörter ' * 20},1\n" for number in range(60))
        params = {"name": "../großes.csv", "by": "ann", "labels": "false"}
        added = await client.post("/api/reviews/otters/files", params=params, content=table.encode("cp1252"), headers=binary)
        assert (added.status_code, added.json()["records"], added.json()["labels"], added.json()["first"]) == (200, 60, 0, 5)
        assert "/" not in added.json()["source"]
        record = (await client.get("/api/reviews/otters/records/5", params={"by": "ann"})).json()["record"]["record"]
        assert record["title"] == "Die Fähre Nr. 0"
        project = (await client.get("/api/reviews/otters/export", params={"format": "asreview"})).content
        await client.post("/api/reviews", json={"name": "copy"})
        copied = await client.post("/api/reviews/copy/files", params={"name": "p.asreview", "by": "ann"}, content=project, headers=binary)
        assert (copied.status_code, copied.json()["records"]) == (200, 64)
        for path, name, status, detail in (
            ("copy", "x.exe", 422, "x.exe: "),
            ("copy", "p.asreview", 422, "p.asreview is no "),
            ("none", "x.csv", 404, "no such review"),
        ):
            refused = await client.post(f"/api/reviews/{path}/files", params={"name": name, "by": "ann"}, content=b"x", headers=binary)
            assert (refused.status_code, detail in refused.json()["detail"]) == (status, True), refused.text
            assert "outrider-upload" not in refused.text
        assert (await client.post("/api/reviews/copy/files", params={"name": "x.csv"}, json={"text": "title"})).status_code == 415
    async with open_client(await make_services(tmp_path, **{"serve.read_only": True})) as client:
        refused = await client.post("/api/reviews/copy/files", params={"name": "x.csv"}, content=b"title\nx", headers=binary)
        assert refused.status_code == 403


async def test_a_review_without_records_has_no_next_one(tmp_path: Path) -> None:
    async with open_client(await make_services(tmp_path)) as client:
        await client.post("/api/reviews", json={"name": "otters", "question": "what do otters eat?"})
        for order in ("model", "random"):
            answer = await client.get("/api/reviews/otters/next", params={"by": "ann", "order": order})
            assert (answer.status_code, answer.json()["record"], answer.json()["left"]) == (200, None, 0)
