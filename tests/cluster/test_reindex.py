"""Reindexing on Ray gives the vectors of one machine, whatever dies."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outrider.library.library import Library
from outrider.library.reindex import ReindexProgress
from outrider.settings.environment import variable_name
from outrider.state.records import Document, Paper
from outrider.usecases.ingest import areindex
from support.http_server import Answer, Request, as_json, serving
from support.ray_cluster import RayCluster
from support.word_embedder import WordEmbedder

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
RECORDS = 120


def embed(request: Request) -> Answer:
    model = WordEmbedder(dimension=8)
    texts = request.json["input"]
    rows = [{"index": at, "embedding": model.vector(text).tolist()} for at, text in enumerate(texts)]
    return as_json({"data": rows, "model": "words"}, after_s=0.02 * len(texts))


@pytest.fixture
async def libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Path, Path]]:
    """Two copies of a library without vectors; the model is served on this machine."""
    path = tmp_path / "here"
    library = await Library.open(path, create=True)
    await library.upsert([Paper(doc_id=f"{number:03}", title=f"Fox {number} of the forest") for number in range(RECORDS)])
    await library.upsert([Document(doc_id="empty")])
    library.close()
    shutil.copytree(path, tmp_path / "ray")
    with serving(embed) as server:
        for name, value in {
            "embedding.base_url": f"{server.base_url}/v1", "embedding.model_name": "words", "embedding.batch_size": "4",
            "cluster.batch_records": "16", "cluster.embedders": "2",
        }.items():  # fmt: skip
            monkeypatch.setenv(variable_name(name), value)
        yield path, tmp_path / "ray"


async def read_vectors(path: Path) -> dict[str, list[float]]:
    library = await Library.open(path)
    current = await library._vectors.registry.current()
    assert current is not None
    rows = (await (await library._vectors.table(current)).query().limit(10_000).to_arrow()).to_pylist()
    assert await library.check() == ()
    library.close()
    assert len(rows) == len({row["doc_id"] for row in rows})
    return {row["doc_id"]: row["vector"] for row in rows}


async def test_vectors_and_report_also_when_a_node_dies(ray_cluster: RayCluster, libraries: tuple[Path, Path]) -> None:
    here, on_ray = libraries
    expected = await areindex(here)
    counts: list[int] = []

    def kill(progress: ReindexProgress) -> None:
        if progress.stage == "embedding":
            if progress.done >= 32 and max(counts) < 32:
                ray_cluster.kill_node()
            counts.append(progress.done)

    assert await areindex(on_ray, progress=kill, on="ray", address=ray_cluster.address) == expected
    assert await read_vectors(on_ray) == await read_vectors(here)
    assert counts == sorted(counts)
    assert counts[-1] == RECORDS + 1


async def test_a_killed_command_resumes(ray_cluster: RayCluster, libraries: tuple[Path, Path]) -> None:
    here, on_ray = libraries
    await areindex(here)
    script = (
        "import os, signal, sys\nfrom outrider.usecases.ingest import reindex\n"
        "def show(now):\n    if now.done >= 48: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"reindex(sys.argv[1], progress=show, on='ray', address={ray_cluster.address!r})\n"
    )
    killed = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", script, str(on_ray)], env=os.environ, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    resumed = await areindex(on_ray, on="ray", address=ray_cluster.address)
    assert 0 < resumed.embedded < RECORDS
    assert await read_vectors(on_ray) == await read_vectors(here)
