"""Services that are kept between calls."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path

import pytest

from outrider import asearch, search
from outrider.graph.pipeline import get_search_graph
from outrider.library.library import Library
from outrider.services import Services, kept_services, open_services
from outrider.state.records import Paper


async def fill(folder: Path, title: str) -> None:
    library = await Library.open(folder, create=True)
    await library.upsert([Paper(doc_id="1", title=title)])
    library.close()


async def test_calls_in_equal_surroundings_have_the_same_services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def borrowed(**flags: object) -> Services:
        async with open_services(None, tmp_path / "library", flags, keep=True) as services:
            return services

    await fill(tmp_path / "library", "Aspirin")
    first = await borrowed()
    assert await borrowed() is first
    assert get_search_graph(first) is get_search_graph(first)
    assert await borrowed(**{"run.candidates": 9}) is not first
    monkeypatch.setenv("OUTRIDER_RUN__CANDIDATES", "7")
    changed = await borrowed()
    assert changed is not first
    assert changed.settings.run.candidates == 7
    monkeypatch.delenv("OUTRIDER_RUN__CANDIDATES")
    assert await borrowed() is first
    monkeypatch.chdir(tmp_path)
    assert await borrowed() is not first


async def test_a_library_on_object_storage_is_kept_for_a_while_unless_reads_are_exact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def borrowed(read_consistency_s: float) -> Services:
        flags = {"library.read_consistency_s": read_consistency_s}
        async with open_services(None, "s3://shelf/library", flags, keep=True) as services:
            return services

    monkeypatch.chdir(tmp_path)
    first = await borrowed(5.0)
    assert await borrowed(5.0) is first
    assert await borrowed(0.0) is not await borrowed(0.0)
    assert await borrowed(5.0) is first
    later = time.monotonic() + kept_services.REOPENED_S
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert await borrowed(5.0) is not first


async def test_a_library_in_the_place_of_another_is_searched(tmp_path: Path) -> None:
    """Also one that was written meanwhile, one that is missing, and one that came after."""
    place = tmp_path / "library"

    async def titles() -> list[str]:
        answer = await asearch("aspirin", library=place, offline=True, sources=None, rerank_enabled=False)
        return [hit.title for hit in answer.hits]

    for title in ("Aspirin one", "Aspirin two"):
        await fill(place, title)
        assert await titles() == [title]
        await fill(place, f"{title}, revised")
        assert await titles() == [f"{title}, revised"]
        shutil.rmtree(place)
    with pytest.raises(Exception, match="no library at"):
        await titles()
    await fill(place, "Aspirin three")
    assert await titles() == ["Aspirin three"]


def test_every_event_loop_has_its_own(tmp_path: Path) -> None:
    place = tmp_path / "library"
    asyncio.run(fill(place, "Aspirin"))

    async def titles() -> list[str]:
        return [hit.title for hit in (await asearch("aspirin", library=place, offline=True)).hits]

    assert [asyncio.run(titles()), asyncio.run(titles())] == [["Aspirin"]] * 2
    assert [hit.title for hit in search("aspirin", library=place, offline=True).hits] == ["Aspirin"]
    assert asyncio.run(titles()) == ["Aspirin"]


async def test_a_graph_is_built_again_once_a_part_of_its_services_was_replaced(tmp_path: Path) -> None:
    async with open_services(None, tmp_path / "library", {"sources.offline": True}, keep=True) as services:
        graph = get_search_graph(services)
        assert get_search_graph(services.at(lambda: 0.0)) is not graph
        services.fuse = services.interleave
        assert get_search_graph(services) is not graph
