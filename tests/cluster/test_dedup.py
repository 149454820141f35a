"""Deduplication on Ray finds what one machine finds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from outrider.cluster.task_map import open_task_map
from outrider.ingest.deduplicate_files import deduplicate_files
from outrider.ingest.entry import ReadOptions
from outrider.linkage import out_of_core
from outrider.linkage.disk_keys import OnStep, no_progress
from outrider.runtime.task_map import TaskMap, map_here
from outrider.state.errors import BadRequest
from outrider.usecases.deduplicate import dedup
from support.ray_cluster import RayCluster, ray_cluster
from support.shared_data import DATA

__all__ = ("ray_cluster",)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not (DATA / "dedup").is_dir(), reason=f"no shared collections at {DATA}"),
]
ASYSD = DATA / "dedup" / "asysd_diabetes.csv"
DBLP_ACM = (DATA / "dedup" / "dblp_acm" / "dblp.csv", DATA / "dedup" / "dblp_acm" / "acm.csv")


@pytest.mark.parametrize("files", [(ASYSD,), DBLP_ACM], ids=["ASySD", "DBLP-ACM"])
def test_groups_reasons_and_doubts_of_a_collection(ray_cluster: RayCluster, files: Sequence[Path]) -> None:
    assert dedup(*files, on="ray", address=ray_cluster.address) == dedup(*files)


def test_a_node_that_dies_changes_nothing(ray_cluster: RayCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(tasks: TaskMap, on_step: OnStep) -> tuple[object, ...]:
        options = ReadOptions(columns={}, max_bytes=10**8, max_pages=10)
        with deduplicate_files([ASYSD], options, on_step, tasks=tasks) as found:
            return list(found.groups()), list(found.unsure_pairs()), list(found.related_pairs())

    alive = {"reading": True, "putting into blocks": True, "comparing": True}

    def kill(step: str, _done: int, _total: int | None) -> None:
        if alive.get(step):
            alive[step] = False
            ray_cluster.kill_node()

    monkeypatch.setattr(out_of_core, "PAIRS_AT_ONCE", 100)  # tasks are under way at each kill
    with open_task_map("ray", ray_cluster.address) as tasks:
        disturbed = resolve(tasks, kill)
    assert (alive["putting into blocks"], alive["comparing"]) == (False, False)
    assert disturbed == resolve(map_here, no_progress)


def test_another_place_is_refused() -> None:
    with pytest.raises(BadRequest, match="on ray"):
        dedup(ASYSD, on="dask")
    with pytest.raises(BadRequest, match="on ray"):
        dedup(ASYSD, address="10.0.0.5")
