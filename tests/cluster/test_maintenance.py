"""Compaction and indexes on Ray leave every answer of the library as it was."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from outrider.boolean.parser import parse
from outrider.cluster import maintenance
from outrider.cluster.maintenance import rebuild, translate_config
from outrider.cluster.session import open_cluster
from outrider.library.exact import word_dictionary
from outrider.library.library import Library
from outrider.library.maintenance import plan_indexes
from outrider.settings.model import ClusterSettings
from outrider.state.errors import ClusterError, LibraryBusy
from outrider.state.records import Paper
from support.ray_cluster import RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
WORDS = "aspirin livers injuries the of heart hearts failing trial protein genes hepatoma hepatitis C++ naïve 心臓".split()
TEXTS = ("hearts failing", "the trial of aspirin", "injury of the liver", "protein", "心臓")
PHRASES = ("hearts failing", "the heart", "心臓")
QUERIES = ("hepat*[ti]", '"the heart"[ti]', "hearts[ti] NOT heart[ti]", "of[ti] AND gene*", "c++[ti]", "NOT trial[ti]")


def make_papers(count: int) -> list[Paper]:
    """Titles of stop words and forms of one word, whose order matters."""
    chance = random.Random(7)
    titles = [" ".join(chance.choices(WORDS, k=6)) for _ in range(count)]
    return [Paper(doc_id=f"{number:04}", title=f"{title} {number}", year=1990 + number % 30) for number, title in enumerate(titles)]


async def fill(path: Path) -> Library:
    library = await Library.open(path, create=True)
    for start in range(0, 400, 50):
        await library.upsert(make_papers(400)[start : start + 50])
    await library.upsert([Paper(doc_id="0007", title="hepatology revised")])
    await library.remove([f"{number:04}" for number in range(60, 90)])
    return library


async def read_answers(library: Library) -> dict[str, Any]:
    pinned = await library.pinned()
    answers: dict[str, Any] = {text: [(hit.record.doc_id, hit.score) for hit in await library.search(text, limit=500)] for text in TEXTS}
    answers |= {f"match {phrase}": await library.match(phrase) for phrase in PHRASES}
    for query in QUERIES:
        answers[query] = [hit.record.doc_id async for page in pinned.pages(parse(query, "pubmed").tree) for hit in page.hits]
    pinned.close()
    return answers


async def test_answers_stay_and_a_node_may_die(ray_cluster: RayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_dictionary, "LARGE", 10)
    monkeypatch.setattr(maintenance, "LEAST_ROWS", 100)
    library = await fill(tmp_path / "library")
    before = await read_answers(library)
    assert all(before.values())
    busy = []

    def disturb(done: int, total: int) -> None:
        if done == 3:
            ray_cluster.kill_node()
        steps.append((done, total))
        begun.set()

    async def try_to_optimize() -> None:
        """Another process, meanwhile."""
        await begun.wait()
        other = await Library.open(tmp_path / "library")
        with suppress(LibraryBusy):
            await other.optimize(force=True, wait_s=0.2)
            busy.append("no")
        other.close()

    steps: list[tuple[int, int]] = []
    begun = asyncio.Event()
    async with open_cluster(ClusterSettings(address=ray_cluster.address)) as cluster:
        other = asyncio.create_task(try_to_optimize())
        await library.optimize(force=True, rebuild=partial(rebuild, cluster, {}, disturb))
        await other
    assert (steps[-1][0], busy) == (steps[-1][1], [])
    assert await read_answers(library) == before
    assert await library.check() == ()
    fragments = await word_dictionary.find_fragments(library._table)
    assert len(fragments) > 1
    assert fragments <= await word_dictionary.find_covered(library._connection)
    await library.upsert(make_papers(420)[400:])
    await library.optimize(force=True)  # as on one machine from then on
    assert set((await read_answers(library))["NOT trial[ti]"]) > set(before["NOT trial[ti]"])
    assert (await library.info()).unindexed_rows == 0
    library.close()


async def test_indexes_have_the_settings_of_one_machine(tmp_path: Path) -> None:
    import lance

    library = await fill(tmp_path / "library")
    await library.optimize(force=True)
    built = {index.field_names[0]: index.details for index in lance.dataset(f"{tmp_path}/library/records.lance").describe_indices()}
    for column, config in await plan_indexes(library._table):
        kind, settings = translate_config(config)
        if kind == "INVERTED":
            del settings["custom_stop_words"]  # Lance does not tell them
            assert settings == {name: built[column][name] for name in settings}, column
    library.close()


async def test_a_library_that_the_workers_cannot_see(ray_cluster: RayCluster, tmp_path: Path) -> None:
    async with open_cluster(ClusterSettings(address=ray_cluster.address)) as cluster:
        with pytest.raises(ClusterError, match="must see the library"):
            await rebuild(cluster, {}, lambda _done, _total: None, f"{tmp_path}/nowhere.lance", 10, [])
