"""The library's routes over a real library: reading, additions, labels, removal, decisions."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from outrider.services import Services
from outrider.settings.load import load
from support.http_app import open_client, running

RIS = "TY  - JOUR\nID  - {id}\nTI  - {title}\nAU  - Doe, Jane\nPY  - {year}\nKW  - aspirin\nAB  - {abstract}\nER  - \n"
TITLES = ("Aspirin and acute liver injury", "Statins in practice", "Vitamin D in winter")
REFS = "".join(RIS.format(id=at, title=title, year=2020 + at, abstract=f"About {title}.") for at, title in enumerate(TITLES)).encode()
BINARY = {"Content-Type": "application/octet-stream"}
NOTE = b"# A note\n\nSome **bold** words and a [link](http://x.example).\n\n```\ncode()\n```\n\n- one\n- two\n"


def services_in(folder: Path, **values: Any) -> Services:
    own = {"library.uri": str(folder / "library"), "sources.offline": True, "embedding.model_name": "none", **values}
    return Services(load(own, environ={}, cwd=folder, user_dir=folder).settings)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with open_library_client(tmp_path) as opened:
        yield opened


@asynccontextmanager
async def open_library_client(folder: Path, **values: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with open_client(await asyncio.to_thread(services_in, folder, **values), timeout=120) as opened:
        yield opened


def read_lines(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    return [json.loads(line) for line in answer.text.splitlines()]


async def upload(client: httpx.AsyncClient, name: str, content: bytes, headers: Mapping[str, str] = BINARY) -> httpx.Response:
    return await client.post("/api/library/files", params={"name": name}, content=content, headers=dict(headers))


async def list_records(client: httpx.AsyncClient, **query: Any) -> list[dict[str, Any]]:
    answer = await client.get("/api/library/records", params=query)
    assert answer.status_code == 200, answer.text
    assert answer.json()["total"] == len(answer.json()["records"])
    return list(answer.json()["records"])


async def test_without_a_library_the_contents_say_so_and_an_upload_creates_it(client: httpx.AsyncClient) -> None:
    before = (await client.get("/api/library/contents")).json()
    lines = read_lines(await upload(client, "refs.ris", REFS))
    after = (await client.get("/api/library/contents")).json()
    assert (before["exists"], before["writable"], ".ris" in before["suffixes"]) == (False, True, True)
    assert "progress" in lines[0]
    assert (lines[-1]["report"]["added"], lines[-1]["report"]["files"][0]["path"]) == (3, "refs.ris")
    assert (after["exists"], after["records"], after["by_kind"]) == (True, 3, {"paper": 3})
    assert after["years"] == {"2020": 1, "2021": 1, "2022": 1}
    assert (after["problem"], after["size_bytes"] > 0) == ("", True)


async def test_an_upload_of_the_same_content_changes_nothing_and_an_edited_one_updates(client: httpx.AsyncClient) -> None:
    await upload(client, "refs.ris", REFS)
    ids = {one["doc_id"] for one in await list_records(client)}
    again = read_lines(await upload(client, "refs.ris", REFS))[-1]["report"]
    edited = read_lines(await upload(client, "refs.ris", REFS.replace(b"in practice", b"in theory")))[-1]["report"]
    renamed = read_lines(await upload(client, "other.ris", REFS.replace(b"in practice", b"in theory")))[-1]["report"]
    other = read_lines(await upload(client, "refs.ris", RIS.format(id=0, title="Another paper", year=1999, abstract="x").encode()))[-1]
    assert (again["unchanged"], again["added"], again["updated"]) == (3, 0, 0)
    assert (edited["unchanged"], edited["added"], edited["updated"]) == (2, 0, 1)
    assert (renamed["unchanged"], renamed["added"], renamed["updated"]) == (3, 0, 0)
    assert other["report"]["added"] == 1  # a download with the same name and ids overwrites nothing
    assert ids < {one["doc_id"] for one in await list_records(client)}
    assert "outrider-upload-" not in json.dumps([again, edited, renamed, other])


@pytest.mark.parametrize(
    ("query", "titles"),
    [
        ({"text": "ASPIRIN injury"}, [TITLES[0]]),
        ({"text": "doe", "order": "title"}, [*TITLES]),
        ({"text": "2021"}, [TITLES[1]]),
        ({"text": "refs.ris", "order": "added"}, [*reversed(TITLES)]),
        ({"text": "thesis"}, [TITLES[2]]),
        ({"label": "to read"}, [TITLES[2]]),
        ({"year": 2020, "year_to": 2021}, [TITLES[1], TITLES[0]]),
        ({"kind": "repository"}, []),
        ({"text": "it's 100% _"}, []),
    ],
)
async def test_records_are_found_by_words_labels_and_years(client: httpx.AsyncClient, query: dict[str, Any], titles: list[str]) -> None:
    await upload(client, "refs.ris", REFS)
    last = (await list_records(client, text="vitamin"))[0]["doc_id"]
    await client.post("/api/library/labels", json={"ids": [last], "add": ["to read", "My thesis"]})
    assert [one["title"] for one in await list_records(client, **query)] == titles


async def test_pages_of_records_add_up(client: httpx.AsyncClient) -> None:
    await upload(client, "refs.ris", REFS)
    pages = [(await client.get("/api/library/records", params={"limit": 2, "offset": at})).json() for at in (0, 2, 4)]
    assert [page["total"] for page in pages] == [3, 3, 3]
    assert [one["title"] for page in pages for one in page["records"]] == [*reversed(TITLES)]


async def test_a_record_opens_with_its_text_as_blocks(client: httpx.AsyncClient) -> None:
    await upload(client, "note.md", NOTE)
    (row,) = await list_records(client)
    opened = (await client.get("/api/library/record", params={"id": row["doc_id"]})).json()
    blocks = [(one["kind"], "".join(part["text"] for part in one["parts"])) for one in opened["blocks"]]
    assert ("paragraph", "Some bold words and a link.") in blocks
    assert {("code", "code()"), ("item", "one"), ("item", "two")} <= {*blocks}
    assert (opened["origin"], opened["part"], opened["parts"], opened["embedded"]) == ("note.md", 1, 1, False)
    beyond = await client.get("/api/library/record", params={"id": row["doc_id"], "part": 2})
    missing = await client.get("/api/library/record", params={"id": "nobody"})
    assert (beyond.status_code, missing.status_code) == (422, 404)
    assert missing.json()["type"] == "urn:outrider:problem:no-such-record"


async def test_a_long_text_comes_in_parts_that_lose_nothing(client: httpx.AsyncClient) -> None:
    paragraphs = [f"Paragraph {at} " + "word " * 400 for at in range(60)]
    await upload(client, "long.txt", "\n\n".join(paragraphs).encode())
    (row,) = await list_records(client)
    first = (await client.get("/api/library/record", params={"id": row["doc_id"]})).json()
    texts = []
    for part in range(1, first["parts"] + 1):
        answer = await client.get("/api/library/record", params={"id": row["doc_id"], "part": part})
        assert len(answer.content) < 60_000
        texts += [part["text"] for one in answer.json()["blocks"] for part in one["parts"]]
    assert first["parts"] > 3
    assert " ".join(texts).split() == " ".join(paragraphs).split()


async def test_related_records_come_with_reasons_and_a_stranger_has_none(client: httpx.AsyncClient) -> None:
    await upload(client, "refs.ris", REFS)
    first, *others = await list_records(client, order="year")
    answer = await client.get("/api/library/related", params={"id": ["doi:10.1000/nothing", first["doc_id"]]})
    assert answer.json()["record"]["doc_id"] == first["doc_id"]
    assert {one["doc_id"] for one in answer.json()["related"]} == {one["doc_id"] for one in others}
    assert [one["why"] for one in answer.json()["related"]] == ["shares author doe, j with it; shares keyword aspirin with it"] * 2
    assert (await client.get("/api/library/related", params={"id": "nobody"})).status_code == 404
    assert (await client.get("/api/library/related")).status_code == 422


async def test_labels_survive_a_new_version_of_the_file_and_go_with_the_record(client: httpx.AsyncClient) -> None:
    await upload(client, "refs.ris", REFS)
    doc_id = (await list_records(client, text="statins"))[0]["doc_id"]
    added = await client.post("/api/library/labels", json={"ids": [doc_id, "nobody"], "add": [" to  read ", "b"]})
    assert added.json() == {"labels": {doc_id: ["b", "to read"]}, "unknown": ["nobody"]}
    await upload(client, "refs.ris", REFS.replace(b"in practice", b"in theory"))
    assert [one["title"] for one in await list_records(client, label="to read")] == ["Statins in theory"]
    await client.post("/api/library/labels", json={"ids": [doc_id], "remove": ["b"]})
    assert (await client.get("/api/library/contents")).json()["labels"] == {"to read": 1}
    removed = await client.post("/api/library/remove", json={"ids": [doc_id, "nobody"]})
    assert removed.json() == {"removed": {doc_id: "Statins in theory"}, "unknown": ["nobody"]}
    contents = (await client.get("/api/library/contents")).json()
    assert (contents["labels"], contents["records"]) == ({}, 2)
    many = await client.post("/api/library/labels", json={"ids": ["x"], "add": ["\u202e"]})
    assert many.status_code == 422


async def test_doubtful_duplicates_are_decided_and_undone(client: httpx.AsyncClient) -> None:
    titles = ["Aspirin and liver injury in adults", "Aspirin and liver injury in adults and children"]
    rows = [{"id": at, "title": title, "year": 2020, "authors": ["Doe, J"]} for at, title in enumerate(titles)]
    await upload(client, "refs.json", json.dumps(rows).encode())
    before = (await client.get("/api/library/duplicates")).json()
    assert before["total"] == 1
    (pair,) = before["pairs"]
    assert sorted(before["records"][doc_id]["title"] for doc_id in pair["ids"]) == titles
    assert "title's words one has more" in pair["why"]
    for decision in ("different", "same"):
        await client.post("/api/library/decisions", json={"decision": decision, "ids": pair["ids"], "why": "looked"})
        decided = (await client.get("/api/library/duplicates")).json()
        assert (decided["total"], decided["decisions"][-1]["why"]) == (0, "looked")
        undone = await client.post("/api/library/decisions", json={"decision": "undo", "ids": pair["ids"]})
        assert undone.status_code == 200
        assert (await client.get("/api/library/duplicates")).json()["total"] == 1
    assert (await client.post("/api/library/check")).json() == {"sound": True, "problems": []}


async def test_identifiers_are_never_paths_and_offline_ones_are_refused(client: httpx.AsyncClient, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    (tmp_path / "doi:10.1000").mkdir()
    (tmp_path / "doi:10.1000/x.txt").write_text("secret")
    for target in (str(secret), "secret.txt", "../secret.txt", "file:secret.txt", "~/secret.txt", "doi:nonsense"):
        line = read_lines(await client.post("/api/library/targets", json={"targets": [target]}))[-1]
        assert line["problem"]["status"] == 422
    offline = read_lines(await client.post("/api/library/targets", json={"targets": ["doi:10.1000/x.txt", " "]}))[-1]
    assert "offline" in offline["problem"]["detail"]
    assert (await client.get("/api/library/contents")).json()["exists"] is False


HOSTILE_NAMES = (
    "../../../../tmp/outrider-evil.ris", "/etc/cron.d/evil.ris", "..\\..\\evil.ris", "evil\x00.ris", "\u202esir.ris", "a\r\nb.ris",
    "CON.ris", "x" * 900 + ".ris", "日" * 300 + ".ris", ".ris", "$(touch evil).ris", "<img src=x onerror=alert(1)>.ris",
)  # fmt: skip


async def test_hostile_names_stay_names(client: httpx.AsyncClient, tmp_path: Path) -> None:
    for at, name in enumerate(HOSTILE_NAMES):
        content = RIS.format(id=at, title=f"Paper {at}", year=2000, abstract="x").encode()
        report = read_lines(await upload(client, name, content))[-1]["report"]
        path = report["files"][0]["path"]
        assert path.isprintable()
        assert not {*path} & {*'/\\<>:"|?*'}
        assert len(path.encode()) <= 200
    assert (await client.get("/api/library/contents")).json()["records"] == len(HOSTILE_NAMES) - 1  # one has no suffix left
    assert not [path for path in (Path("/tmp/outrider-evil.ris"), tmp_path / "evil") if path.exists()]


WRONG_FILES = (
    ("empty.ris", b""),
    ("picture.pdf", b"\x89PNG\r\n\x1a\n" + bytes(2_000)),
    ("cut.pdf", b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog"),
    ("program.exe", b"MZ" + bytes(100)),
    ("archive.zip", b"PK\x03\x04" + bytes(100)),
    ("cut.jsonl.gz", b"\x1f\x8b\x08\x00" + bytes(10)),
    ("table.xlsx", b"PK\x03\x04 no workbook"),
    ("letter.docx", b"PK\x03\x04 no document"),
    ("locked.docx", b"\xd0\xcf\x11\xe0" + bytes(600)),
    ("book.epub", b"PK\x03\x04 no book"),
    ("cells.ipynb", b'{"cells": null}'),
    ("entities.xml", b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><article>&b;</article>'),
    ("outside.xml", b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><article>&a;</article>'),
)


async def test_files_of_a_wrong_type_are_reported_and_add_nothing(client: httpx.AsyncClient) -> None:
    for name, content in WRONG_FILES:
        report = read_lines(await upload(client, name, content))[-1]["report"]
        (file,) = report["files"]
        assert (file["status"] in ("failed", "skipped"), bool(file["reasons"]), report["added"]) == (True, True, 0), name
        assert "outrider-upload-" not in json.dumps(report)
        assert "root:" not in json.dumps(report)


async def test_a_packed_file_is_limited_by_its_unpacked_size(tmp_path: Path) -> None:
    import gzip

    bomb = gzip.compress(b'{"title": "x"}\n' * 2_000_000)
    async with open_library_client(tmp_path, **{"ingest.max_bytes": 1_000_000}) as client:
        assert len(bomb) < 1_000_000
        report = read_lines(await upload(client, "bomb.jsonl.gz", bomb))[-1]["report"]
        large = await upload(client, "large.ris", b"x" * 1_000_001)
    assert (report["added"], "when unpacked" in report["files"][0]["reasons"][0]) == (0, True)
    assert (large.status_code, large.json()["type"]) == (413, "urn:outrider:problem:large-body")


async def test_a_file_is_only_taken_as_it_is(client: httpx.AsyncClient) -> None:
    for headers in ({}, {"Content-Type": "text/plain"}, {"Content-Type": "multipart/form-data; boundary=x"},
                    {**BINARY, "Content-Encoding": "gzip"}):  # fmt: skip
        answer = await upload(client, "refs.ris", REFS, headers)
        assert (answer.status_code, answer.json()["type"]) == (415, "urn:outrider:problem:wrong-type")
    nameless = await client.post("/api/library/files", content=REFS, headers=BINARY)
    assert nameless.status_code == 422


CHANGES = (
    ("/api/library/files?name=x.ris", None),
    ("/api/library/targets", {"targets": ["doi:10.1000/x"]}),
    ("/api/library/remove", {"ids": ["a"]}),
    ("/api/library/labels", {"ids": ["a"], "add": ["b"]}),
    ("/api/library/decisions", {"decision": "same", "ids": ["a", "b"]}),
)


async def test_another_page_can_neither_change_nor_read_the_library(client: httpx.AsyncClient) -> None:
    await upload(client, "refs.ris", REFS)
    for origin in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        for path, body in CHANGES:
            answer = await client.post(path, json=body, headers={**origin, "Content-Type": "text/plain"})
            assert (answer.status_code, answer.json()["type"]) == (403, "urn:outrider:problem:cross-site")
    read = await client.get("/api/library/records", headers={"Origin": "https://evil.example"})
    rebound = await client.get("/api/library/records", headers={"Host": "evil.example"})
    assert read.headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in read.headers
    assert rebound.status_code == 400
    assert (await client.get("/api/library/contents")).json()["records"] == 3


async def test_a_read_only_server_changes_nothing_and_still_shows_everything(tmp_path: Path) -> None:
    async with open_library_client(tmp_path) as client:
        await upload(client, "refs.ris", REFS)
    async with open_library_client(tmp_path, **{"serve.read_only": True}) as client:
        for path, body in CHANGES:
            content = {"content": REFS, "headers": BINARY} if body is None else {"json": body}
            answer = await client.post(path, **content)
            assert (answer.status_code, answer.json()["type"]) == (403, "urn:outrider:problem:read-only")
        assert (await client.get("/api/library/contents")).json()["writable"] is False
        assert len(await list_records(client)) == 3


async def test_too_many_uploads_at_a_time_are_refused(tmp_path: Path) -> None:
    begun, let = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        begun.set()  # the server asks for the body: it has admitted the file
        yield REFS[:100]
        await let.wait()
        yield REFS[100:]

    async with open_library_client(tmp_path, **{"serve.uploads": 1}) as client:
        first = asyncio.create_task(client.post("/api/library/files?name=refs.ris", content=slow(), headers=BINARY))
        await begun.wait()
        refused = await upload(client, "refs.ris", REFS)
        let.set()
        done = read_lines(await first)[-1]["report"]
    assert (refused.status_code, refused.headers["retry-after"], done["added"]) == (429, "5", 3)


async def test_uploads_removals_and_labels_at_once_leave_a_sound_library(client: httpx.AsyncClient) -> None:
    await upload(client, "refs.ris", REFS)
    ids = [one["doc_id"] for one in await list_records(client)]
    more = [RIS.format(id=at, title=f"Paper {at}", year=2000, abstract="x").encode() for at in range(3)]
    answers = await asyncio.gather(
        *(upload(client, f"more{at}.ris", content) for at, content in enumerate(more)),
        client.post("/api/library/remove", json={"ids": ids[:2]}),
        client.post("/api/library/labels", json={"ids": ids, "add": ["a"]}),
        client.get("/api/library/records"),
    )
    assert [answer.status_code for answer in answers] == [200] * 6
    assert (await client.get("/api/library/contents")).json()["records"] == 4
    assert (await client.post("/api/library/check")).json() == {"sound": True, "problems": []}


def send_part(base_url: str, head: str, part: bytes, *, wait: bool) -> bytes:
    """The answer to a file of which only a part is sent; without `wait` the connection is closed at once."""
    with socket.create_connection(("127.0.0.1", int(base_url.rpartition(":")[2])), timeout=60) as connection:
        connection.sendall(f"POST /api/library/files?name=refs.ris HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n".encode() + part)
        answer = b""
        while wait and (more := connection.recv(65_536)):
            answer += more
        return answer


def test_a_file_that_ends_too_soon_adds_nothing_and_a_slow_one_is_refused(tmp_path: Path) -> None:
    whole = f"Content-Type: application/octet-stream\r\nContent-Length: {len(REFS)}"
    chunked = "Content-Type: application/octet-stream\r\nTransfer-Encoding: chunked"
    with running(services_in(tmp_path, **{"serve.body_s": 0.5, "serve.uploads": 1})) as base_url:
        send_part(base_url, whole, REFS[:-1], wait=False)
        send_part(base_url, chunked, b"5\r\nTY  -", wait=False)
        slow = b"HTTP/1.1 429"
        while slow.startswith(b"HTTP/1.1 429"):  # until the server has seen that the others ended
            slow = send_part(base_url, whole, REFS[:10], wait=True)
        contents = httpx.get(f"{base_url}/api/library/contents", timeout=60).json()
        after = httpx.post(f"{base_url}/api/library/files?name=refs.ris", content=REFS, headers=BINARY, timeout=60)
    assert slow.startswith(b"HTTP/1.1 408")
    assert b"slow-body" in slow
    assert contents["exists"] is False
    assert read_lines(after)[-1]["report"]["added"] == 3  # the refused ones gave their places back
