"""Reading on a cluster, without one: a cluster of the test stands for Ray where only its state counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from outrider.cluster import files
from outrider.cluster.files import ClusterFiles, End, Reading, read_on_worker
from outrider.cluster.session import Cluster
from outrider.cluster.tasks import RemoteError
from outrider.ingest.entry import ReadOptions
from outrider.ingest.file_walk import walk
from outrider.ingest.reader_thread import Bounds
from outrider.settings.model import ClusterSettings
from support.memory_library import MemoryShelves

ONE_RECORD = Bounds(1, 1_000_000)


def make_reading(path: Path, size: int) -> Reading:
    return Reading(path, size, str(path), "", ReadOptions(), ONE_RECORD)


def test_a_repeated_reading_ends_with_an_answer_whatever_happened_to_the_file(tmp_path: Path) -> None:
    """The node of the first attempt died after some parts; the next node may see fewer, or no file at all."""
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"title": "Paper {number}"}}\n' for number in range(5)), encoding="utf-8")
    reading = make_reading(path, path.stat().st_size)
    whole = list(read_on_worker(reading, 0))
    assert list(read_on_worker(reading, 4)) == whole[4:]
    path.write_bytes(b'{"title": "Paper 0"}'.ljust(reading.size))
    (end,) = read_on_worker(reading, len(whole) - 1)
    assert isinstance(end, End)
    assert end != whole[-1], "the change is seen"
    path.unlink()
    (error,) = read_on_worker(reading, 4)
    assert isinstance(error, RemoteError)
    assert "sees no such file" in error.message


async def test_a_cluster_may_shrink_to_one_cpu_while_files_are_read_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(9):
        (tmp_path / f"{number}.jsonl").write_text(f'{{"title": "Paper {number}"}}\n', encoding="utf-8")
    cpus = {"CPU": 4.0}
    cluster = Cluster(SimpleNamespace(cluster_resources=lambda: cpus), "a test", ClusterSettings())

    class LocalStream:
        """Reads in this process."""

        def __init__(self, _cluster: Cluster, reading: Reading) -> None:
            self.reading = reading
            self._parts: Iterator[Any] = files.read_parts(reading)

        async def fetch(self) -> Any:
            return next(self._parts)

        def close(self) -> None:
            pass

    monkeypatch.setattr(files, "FileStream", LocalStream)
    access = ClusterFiles(cluster, ReadOptions(), ONE_RECORD)
    found = walk([tmp_path])
    await access.expect(found, {}, MemoryShelves().ingested_files)
    await access.inspect(found[0])
    cpus["CPU"] = 1.0
    for file in found[1:]:
        await access.inspect(file)
