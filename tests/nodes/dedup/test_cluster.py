"""Works that a worker process found are those that are found here, made of the same records."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.nodes.dedup import cluster as module
from outrider.nodes.dedup.cluster import WORKER_MODULES, Clusters, cluster_candidates, cluster_pickled, offload_clustering
from outrider.state.duplicate_decisions import NO_DECISIONS, Decisions
from outrider.state.hits import Candidate
from outrider.state.records import Identifiers, Record
from support.duplicate_records import LOGS, MANY, candidates, make_decisions
from support.fakes import paper
from support.worker_tasks import Counted, ready

TWICE = [
    paper("a", "Aspirin harms the liver", source="crossref", identifiers=Identifiers(doi="10.1000/a")),
    paper("b", "Aspirin harms the liver", source="openalex", identifiers=Identifiers(doi="10.1000/a"), abstract="Some."),
    paper("c", "Rust"),
]


def there(inputs: Sequence[Candidate], stands: Decisions, *, fold: bool) -> Clusters:
    """As a worker does it, in this process."""
    answer = cluster_pickled(pickle.dumps((inputs, stands, fold)))
    works, ambiguous = module._Reader(answer, inputs).load()
    return Clusters(works, ambiguous, module.PairJudge(stands))


@given(MANY, LOGS, st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_worker_returns_the_same_clusters(many: list[Record], log: list[tuple[str, ...]], fold: bool) -> None:
    inputs, stands = candidates(many), make_decisions(*log)
    here, offloaded = cluster_candidates(inputs, stands, fold_versions=fold), there(inputs, stands, fold=fold)
    assert (offloaded.works, offloaded.ambiguous_pairs) == (here.works, here.ambiguous_pairs)
    assert there(here.works, stands, fold=fold).works == here.works


def test_only_new_records_are_sent_back() -> None:
    inputs = candidates([*TWICE, *(paper(f"d{at}", f"Another topic{at}", abstract="Long. " * 1_000) for at in range(20))])
    assert len(cluster_pickled(pickle.dumps((inputs, NO_DECISIONS, True)))) < 20_000
    sent_ids = {id(one.record) for one in inputs}
    clusters = there(inputs, NO_DECISIONS, fold=True)
    assert [id(work.record) in sent_ids for work in clusters.works].count(False) == 1
    assert all(id(one) in sent_ids for work in clusters.works for one in work.members)


@pytest.mark.blocking  # starts processes
async def test_a_busy_process_offloads_and_an_idle_one_clusters_itself(workers: Counted) -> None:
    busy = True
    await workers.start(1, WORKER_MODULES, lambda: busy)
    await ready(workers)
    inputs = candidates(TWICE)
    here = cluster_candidates(inputs)
    assert (await offload_clustering(workers, inputs, NO_DECISIONS)).works == here.works
    assert workers.runs == 1
    busy = False
    assert (await offload_clustering(workers, inputs, NO_DECISIONS)).works == here.works
    assert (await offload_clustering(None, inputs, NO_DECISIONS)).works == here.works
    assert workers.runs == 1


@pytest.mark.blocking
async def test_without_the_worker_the_process_clusters_itself(workers: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    await workers.start(1, WORKER_MODULES, lambda: True)
    await ready(workers)
    monkeypatch.setattr(module, "cluster_pickled", pickle.loads)
    inputs = candidates(TWICE)
    with pytest.raises(Exception, match="bytes"):  # a mistake of ours is no worker that is gone
        await offload_clustering(workers, inputs, NO_DECISIONS)
    monkeypatch.undo()
    for process in workers._pool._processes.values():  # type: ignore[union-attr]
        process.kill()
    assert (await offload_clustering(workers, inputs, NO_DECISIONS)).works == cluster_candidates(inputs).works
    assert workers.runs == 2
