"""Deduplication on Ray finds what one machine finds."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from outrider.cluster.task_map import open_task_map
from outrider.ingest.deduplicate_files import deduplicate_files
from outrider.ingest.entry import ReadOptions
from outrider.library.library import Library
from outrider.linkage import out_of_core
from outrider.linkage.disk_keys import OnStep, no_progress
from outrider.runtime.task_map import TaskMap, map_here
from outrider.services import Services
from outrider.state.duplicate_decisions import Decision
from outrider.state.errors import BadRequest
from outrider.usecases.deduplicate import dedup, resolve_library
from support.fakes import paper
from support.ray_cluster import RayCluster
from support.shared_data import DATA

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not (DATA / "dedup").is_dir(), reason=f"no shared collections at {DATA}"),
]
ASYSD = DATA / "dedup" / "asysd_diabetes.csv"


def test_groups_reasons_and_doubts_of_a_collection(ray_cluster: RayCluster) -> None:
    """The benchmark `ray_batch` compares DBLP-ACM and a generated collection too."""
    assert dedup(ASYSD, on="ray", address=ray_cluster.address) == dedup(ASYSD)


def test_a_node_that_dies_changes_nothing(ray_cluster: RayCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(tasks: TaskMap, on_step: OnStep) -> tuple[object, ...]:
        options = ReadOptions(columns={}, max_bytes=10**8, max_pages=10)
        with deduplicate_files([ASYSD], options, on_step, tasks=tasks) as found:
            return list(found.groups()), list(found.unsure_pairs()), list(found.related_pairs())

    alive = {"putting into blocks": True, "comparing": True}

    def kill(step: str, _done: int, _total: int | None) -> None:
        if alive.get(step):
            alive[step] = False
            ray_cluster.kill_node()

    monkeypatch.setattr(out_of_core, "PAIRS_AT_ONCE", 100)  # tasks are under way at each kill
    with open_task_map("ray", ray_cluster.address) as tasks:
        disturbed = resolve(tasks, kill)
    assert not any(alive.values())
    assert disturbed == resolve(map_here, no_progress)


def test_another_place_is_refused() -> None:
    with pytest.raises(BadRequest, match="on ray"):
        dedup(ASYSD, on="dask")
    with pytest.raises(BadRequest, match="on ray"):
        dedup(ASYSD, address="10.0.0.5")


async def test_the_works_of_a_library(ray_cluster: RayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a decision of a person; the workers do not read the library."""
    library = await Library.open(tmp_path, create=True)
    titles = ("Aspirin and acute liver injury in adults", "Kidneys of mice after a year without salt", "Statins and falls of the elderly")
    await library.upsert([paper(f"{at}", titles[at % 3], authors=["Smith, Ann"], year=2020, pages="1-9") for at in range(9)])
    await library.decide(Decision(what="split", ids=("0", "3")))
    library.close()
    monkeypatch.setenv("OUTRIDER_LIBRARY__URI", str(tmp_path))
    found = []
    for on, address in (("", None), ("ray", ray_cluster.address)):
        services = Services.from_file()
        with open_task_map(on, address) as tasks, resolve_library(tasks=tasks) as source:
            await source.read(services)
            found.append((source.records, await asyncio.to_thread(lambda: list(source.works()))))
        services.close()
    assert found[0] == found[1]
    assert len(found[0][1]) > 1
