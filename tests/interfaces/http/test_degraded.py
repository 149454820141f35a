"""A server whose library is gone, damaged or read-only, and whose disk is full: what it answers, and that it recovers."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from outrider.services import Services
from outrider.settings.load import load
from support.http_app import running

pytestmark = pytest.mark.slow

QUERY = {"query": "aspirin"}


@pytest.fixture
def library(shelved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(shelved, tmp_path / "library"))


@contextmanager
def serve(library: Path, data: Path, **more: Any) -> Iterator[httpx.Client]:
    values = {
        "library.uri": str(library),
        "sources.offline": True,
        "systematic.folder": str(data / "runs"),
        "threads.uri": str(data / "threads.sqlite"),
        "cache.folder": str(data / "cache"),
        **more,
    }
    services = Services(load(values, environ={}, cwd=data, user_dir=data).settings)
    with running(services) as address, httpx.Client(base_url=address, timeout=120) as client:
        yield client


def wait_until_ready(client: httpx.Client) -> None:
    until = time.monotonic() + 300
    while client.get("/readyz").json().get("detail", "").endswith("still loading what searches need") and time.monotonic() < until:
        time.sleep(0.05)


def kind(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    return answer.status_code, answer.json()["type"].rpartition(":")[2]


def test_a_library_that_disappears_is_missing_and_comes_back(library: Path, shelved: Path, tmp_path: Path) -> None:
    with serve(library, tmp_path) as client:
        wait_until_ready(client)
        assert client.post("/api/search", json=QUERY).status_code == client.get("/readyz").status_code == 200
        shutil.rmtree(library)
        ready, search = client.get("/readyz"), client.post("/api/search", json=QUERY)
        invoked, contents = client.post("/search/invoke", json={"input": QUERY}), client.get("/api/library")
        assert (kind(ready), kind(search), kind(invoked)) == ((503, "not-ready"), *[(503, "nothing-searchable")] * 2)
        assert kind(contents) == (404, "library-missing")
        for answer in (ready, search, invoked, contents):
            assert "is missing" in answer.text or "no library at" in answer.text
            assert "damaged" not in answer.text
        assert {row["source"] for row in search.json()["sources"]} == {"library"}
        shutil.copytree(shelved, library)
        assert client.get("/readyz").status_code == client.post("/api/search", json=QUERY).status_code == 200


def test_an_emptied_folder_is_a_missing_library_and_stays_empty(library: Path, tmp_path: Path) -> None:
    """As after a disk was unmounted: a new library there would be written below the mount point."""
    with serve(library, tmp_path) as client:
        wait_until_ready(client)
        for path in library.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        assert kind(client.get("/readyz")) == (503, "not-ready")
        assert kind(client.post("/api/search", json=QUERY)) == (503, "nothing-searchable")
    assert list(library.iterdir()) == []


def test_a_search_with_no_library_and_no_network_is_an_error_in_every_form(tmp_path: Path) -> None:
    with serve(tmp_path / "never", tmp_path) as client:
        wait_until_ready(client)
        assert kind(client.get("/readyz")) == (503, "not-ready")
        accepted = client.post("/api/search", json=QUERY, headers={"Prefer": "respond-async"})
        events = client.get(f"{accepted.headers['location']}/events").text
        state = client.get(accepted.headers["location"]).json()
        assert kind(client.post("/api/search", json=QUERY)) == (503, "nothing-searchable")
        assert "event: problem" in events
        assert (state["status"], state["problem"]["status"]) == ("failed", 503)
        assert client.post("/search/batch", json={"inputs": [QUERY]}).status_code == 503


ONLINE: dict[str, Any] = {"sources.offline": False, "sources.web.enabled": False}


def test_with_other_sources_a_library_that_does_not_exist_yet_is_no_fault(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The first results create it. But its address may be wrong, so that the log and the answer name it."""
    with serve(tmp_path / "not" / "yet", tmp_path, **ONLINE) as client:
        wait_until_ready(client)
        answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (200, "ready")
    assert f"no library at {tmp_path / 'not' / 'yet'}" in answer.json()["note"]
    assert caplog.text.count("no library at") == 1
    assert not (tmp_path / "not").exists()


def test_a_library_that_cannot_be_created_is_a_fault_with_other_sources_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes.txt").write_text("of another program")
    for library, why in (
        (tmp_path / "folder", "is no Outrider library and is not empty"),
        (tmp_path / "folder" / "notes.txt" / "below", "no library can be made"),
        (Path("/proc/none/library"), "no library can be made"),
    ):
        with serve(library, tmp_path, **ONLINE) as client:
            wait_until_ready(client)
            answer = client.get("/readyz")
        assert kind(answer) == (503, "not-ready")
        assert why in answer.json()["detail"]
        assert f"not ready: {answer.json()['detail']}" in caplog.text


def _truncate_data(library: Path) -> None:
    for file in (library / "records.lance" / "data").iterdir():
        file.write_bytes(file.read_bytes()[:100])


def _delete_data(library: Path) -> None:
    shutil.rmtree(library / "records.lance" / "data")


def _zero_manifests(library: Path) -> None:
    for file in (library / "records.lance" / "_versions").iterdir():
        file.write_bytes(bytes(file.stat().st_size))


def _scramble_data(library: Path) -> None:
    for file in (library / "records.lance" / "data").iterdir():
        file.write_bytes(os.urandom(file.stat().st_size))


def _delete_edges(library: Path) -> None:
    shutil.rmtree(library / "edges.lance")


def _delete_index(library: Path) -> None:
    shutil.rmtree(library / "records.lance" / "_indices")


@pytest.mark.parametrize("damage", [_truncate_data, _delete_data, _zero_manifests, _scramble_data, _delete_index, _delete_edges])
@pytest.mark.parametrize("is_open", [True, False])
def test_a_damaged_library_is_not_ready(library: Path, tmp_path: Path, damage: Any, is_open: bool) -> None:
    if not is_open:
        damage(library)
    with serve(library, tmp_path) as client:
        wait_until_ready(client)
        if is_open:
            assert client.get("/readyz").status_code == 200
            damage(library)
        answer = client.get("/readyz")
        again = client.get("/readyz")
    assert kind(answer) == kind(again) == (503, "not-ready")
    assert "damaged" in answer.text or (damage is _delete_edges and "has no graph" in answer.text)


@contextmanager
def small_disk(folder: Path, kib: int) -> Iterator[Path]:
    """A file system of its own, which can be filled and made read-only."""
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(folder)], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("this user may not mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_library_that_cannot_be_written_is_not_ready_where_results_are_saved(shelved: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 20_000) as disk:
        library = Path(shutil.copytree(shelved, disk / "library"))
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with serve(library, tmp_path, **ONLINE) as client:
            wait_until_ready(client)
            refused = client.get("/readyz")
            subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
            after = client.get("/readyz").status_code
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        without_saving: list[int] = []
        for more in ({}, {**ONLINE, "enrich.keep": False}):  # offline nothing is saved either
            with serve(library, tmp_path, **more) as client:
                wait_until_ready(client)
                without_saving.append(client.get("/readyz").status_code)
    assert (kind(refused), after, without_saving) == ((503, "not-ready"), 200, [200, 200])
    assert "cannot be written" in refused.text


def test_a_full_disk_is_507_and_the_server_recovers(library: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 2_000) as disk, serve(library, disk) as client:
        wait_until_ready(client)
        on_thread: dict[str, Any] = {"json": QUERY, "headers": {"X-Thread-Id": "full"}}
        assert client.post("/api/search", **on_thread).status_code == 200
        run = client.post("/api/systematic", json={"query": "aspirin"}).text.split('"')[3]
        _fill(disk)
        answers = [
            client.post("/api/search", **on_thread),
            client.post("/search/invoke", json={"input": QUERY, "config": {"configurable": {"thread_id": "full"}}}),
            client.post("/api/systematic", json={"query": "aspirin OR statins"}),
        ]
        plain, exported = client.post("/api/search", json=QUERY).status_code, client.get(f"/api/systematic/{run}/export").status_code
        (disk / "ballast").unlink()
        after = [client.post("/api/search", **on_thread).status_code, client.post("/api/systematic", json={"query": "statins"}).status_code]
    assert [kind(answer) for answer in answers] == [(507, "disk-full")] * 3
    assert (plain, exported, after) == (200, 200, [200, 200])


def _fill(disk: Path) -> None:
    with (disk / "ballast").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(512))
        except OSError:
            return


async def test_a_probe_of_an_unchanged_library_reads_nothing(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    services, reads = await asyncio.to_thread(Services.for_library, library, {"sources.offline": True}), 0
    await services.require_ready()
    opened = await services.library()

    async def count_reads() -> Any:
        nonlocal reads
        reads += 1
        return await original()

    original = opened._open_version
    monkeypatch.setattr(opened, "_open_version", count_reads)
    await asyncio.gather(*(services.require_ready() for _ in range(3)))
    assert reads == 0
    services.close()
