"""Ingestion on a cluster compared with ingestion in one process."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.slow_embeddings import SlowEmbeddings, serve_embeddings
from outrider.cluster import files as cluster_files
from outrider.cluster.embedder import ClusterEmbedder, Model
from outrider.cluster.files import Reading, inspect_on_worker
from outrider.cluster.session import open_cluster
from outrider.ingest.entry import ReadOptions
from outrider.ingest.reader_thread import Bounds
from outrider.ingest.report import IngestReport
from outrider.library.library import Library
from outrider.services import Services
from outrider.settings.model import ClusterSettings, EmbeddingSettings, LibrarySettings, Settings
from outrider.settings.sections import SourcesSettings
from outrider.state.errors import ClusterError, UnreadableFile
from outrider.usecases.ingest import ingest_targets
from support.ray_cluster import RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
RECORDS = 40
KEY = "sk-a-secret-of-the-test"


@pytest.fixture(scope="module")
def embeddings() -> Iterator[SlowEmbeddings]:
    with serve_embeddings() as server:
        yield server


def make_settings(cluster: RayCluster, server: SlowEmbeddings, library: Path, **changes: Any) -> Settings:
    return Settings(
        library=LibrarySettings(uri=str(library)),
        embedding=EmbeddingSettings(model_name="slow", base_url=server.url, api_key=KEY),
        cluster=ClusterSettings(address=cluster.address, embedders=2, batch_records=10, **changes),
        sources=SourcesSettings(offline=True),
    )


def write_records(path: Path, count: int = RECORDS, start: int = 0) -> None:
    entries = (
        {
            "title": f"Paper {number} of {path.name}",
            "abstract": f"About {number}.",
            "authors": ["Doe, J"],
            "doi": f"10.1000/{path.stem}.{number}",
        }
        for number in range(start, start + count)
    )
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")


async def ingest(settings: Settings, *names: Path, on: str = "ray", **options: Any) -> IngestReport:
    services = Services(settings)
    try:
        return await ingest_targets(services, names, on=on, **options)
    finally:
        services.close()


def read_global_state(ray: Any) -> bytes:
    """All that Ray's head node knows of jobs, actors and tasks, which its dashboard shows."""
    known = ray._private.state.state._connect_and_get_accessor()
    return b"".join([*known.get_actor_table(None, None), *known.get_job_table(), *known.get_task_events()])


def find_in_files(folder: Path, text: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


async def dump(library: Path) -> tuple[list[str], list[Any], int]:
    opened = await Library.open(library)
    try:
        records = [record.model_dump_json() async for record in opened.scan()]
        assert await opened.check() == ()
        return records, sorted(await opened.edges("true")), await opened.without_vectors()
    finally:
        opened.close()


def without_times(report: IngestReport) -> dict[str, Any]:
    values = report.model_dump()
    for part in (values, *values["files"]):
        part.pop("took_ms")
        part.pop("records_per_s", None)
    return values


async def test_library_and_report_equal_those_of_one_process(ray_cluster: RayCluster, embeddings: SlowEmbeddings, tmp_path: Path) -> None:
    """With what a run can meet: several formats, a broken file, an empty one, a copy, a guess at an encoding, a file without reader."""
    source = tmp_path / "source"
    source.mkdir()
    write_records(source / "a.jsonl")
    write_records(source / "b.jsonl", 7)
    (source / "copy.jsonl").write_bytes((source / "b.jsonl").read_bytes())
    (source / "broken.jsonl").write_text('{"title": "whole"}\n{"title": \n', encoding="utf-8")
    (source / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    (source / "empty.bib").write_text("", encoding="utf-8")
    (source / "note.md").write_text("# A note\n\nOf one line.\n", encoding="utf-8")
    (source / "old.txt").write_bytes("Grüße aus Köln, größer".encode("cp1252"))
    (source / "picture.png").write_bytes(b"\x89PNG")
    alone, together = (make_settings(ray_cluster, embeddings, tmp_path / name) for name in ("alone", "together"))
    shown: list[Any] = []
    here = await ingest(alone, source, on="")
    there = await ingest(together, source, progress=shown.append)
    assert without_times(there) == without_times(here)
    assert there.added > RECORDS
    assert await dump(tmp_path / "together") == await dump(tmp_path / "alone")
    assert shown[-1].records == there.added + there.unchanged
    assert any(one.embedding for one in shown)

    rows = embeddings.rows
    again = await ingest(together, source)
    assert (again.added, again.updated, again.failed) == (0, 0, there.failed)
    assert embeddings.rows - rows <= 2  # one row shows each actor the model's dimension
    write_records(source / "a.jsonl", RECORDS - 5, start=5)
    (source / "b.jsonl").unlink()
    (source / "copy.jsonl").unlink()
    pruned = await ingest(together, source, prune="remove")
    expected = await ingest(alone, source, on="", prune="remove")
    assert [(one.path, len(one.doc_ids), one.removed) for one in pruned.stale] == [
        (one.path, len(one.doc_ids), one.removed) for one in expected.stale
    ]
    assert await dump(tmp_path / "together") == await dump(tmp_path / "alone")


async def test_a_file_that_kills_its_process_costs_only_itself(
    ray_cluster: RayCluster, embeddings: SlowEmbeddings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that dies at one entry and another that never ends stand for parsers in C."""
    for name in ("a", "b", "endless", "poison"):
        write_records(tmp_path / f"{name}.jsonl", 15)
    from support import poisoned_reader

    monkeypatch.setattr(cluster_files, "read_on_worker", poisoned_reader.read_on_worker)
    files = [tmp_path / f"{name}.jsonl" for name in ("a", "poison", "endless", "b")]
    report = await ingest(make_settings(ray_cluster, embeddings, tmp_path / "library", read_timeout_s=8), *files)
    reasons = {Path(file.path).stem: (file.added, *file.reasons) for file in report.files}
    assert reasons["a"] == (15,)
    assert reasons["b"] == (15,)
    assert reasons["poison"] == (10, "the process that reads it died 3 times: it is damaged, or made to be large")
    assert reasons["endless"] == (0, "no record was read in 8 s (cluster.read_timeout_s)")


def test_a_file_that_workers_do_not_see_is_named(tmp_path: Path) -> None:
    def read(name: str) -> None:
        inspect_on_worker(Reading(tmp_path / name, 100, name, "", ReadOptions(), Bounds(10, 1_000)))

    with pytest.raises(UnreadableFile, match="sees no such file; put it on storage that all nodes"):
        read("elsewhere.bib")
    (tmp_path / "other.md").write_text("# Another file\n", encoding="utf-8")
    with pytest.raises(UnreadableFile, match="sees 15 bytes under this path, and this machine 100"):
        read("other.md")


async def test_nodes_may_die_while_files_are_read_and_embedded(ray_cluster: RayCluster, embeddings: SlowEmbeddings, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(3):
        write_records(source / f"{number}.jsonl")
    await ingest(make_settings(ray_cluster, embeddings, tmp_path / "alone"), source, on="")
    embeddings.row_s = 0.05
    killed: list[float] = []

    def kill(progress: Any) -> None:
        if progress.records >= 20 and not killed:
            killed.append(time.monotonic())
            ray_cluster.remove_node()

    try:
        report = await ingest(make_settings(ray_cluster, embeddings, tmp_path / "together"), source, progress=kill)
    finally:
        embeddings.row_s = 0.0
        ray_cluster.add_node()
    assert killed
    assert (report.added, report.failed, report.vectors.without) == (3 * RECORDS, 0, 0)
    assert await dump(tmp_path / "together") == await dump(tmp_path / "alone")


async def test_no_key_is_in_what_ray_stores(ray_cluster: RayCluster, embeddings: SlowEmbeddings, tmp_path: Path) -> None:
    write_records(tmp_path / "a.jsonl", 3)
    settings = make_settings(ray_cluster, embeddings, tmp_path / "library")
    async with open_cluster(settings.cluster) as cluster:
        embedder = ClusterEmbedder(cluster, Model(settings.embedding, None, offline=True))
        try:
            await asyncio.to_thread(embedder.embed_each, ["a text"])
            assert f"Bearer {KEY}" in embeddings.keys
            stored = await asyncio.to_thread(read_global_state, cluster.ray)
        finally:
            embedder.close()
    assert b"EmbeddingActor" in stored
    assert KEY.encode() not in stored
    assert find_in_files(Path(ray_cluster.cluster.head_node.get_logs_dir_path()), KEY) == []


async def test_a_model_that_has_no_room_is_an_error(ray_cluster: RayCluster, embeddings: SlowEmbeddings, tmp_path: Path) -> None:
    write_records(tmp_path / "a.jsonl", 3)
    with pytest.raises(ClusterError, match="has room for the embedding model, which wants 64 CPU"):
        await ingest(make_settings(ray_cluster, embeddings, tmp_path / "library", embedder_cpus=64, connect_s=30), tmp_path / "a.jsonl")
