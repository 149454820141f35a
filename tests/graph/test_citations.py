"""The graph `citations`: targets of every kind, the report, the stream, the synchronous side, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outrider.graph.citations import build_citations
from outrider.library.citation_network import load_network
from outrider.library.library import Library
from outrider.services import Services
from outrider.settings.model import CacheSettings, LibrarySettings, Settings
from outrider.settings.sections import (
    CrossrefSettings,
    EuropePmcSettings,
    OpenalexSettings,
    OpencitationsSettings,
    PubmedSettings,
    SemanticScholarSettings,
    SourcesSettings,
    WebSettings,
)
from outrider.state.errors import BadRequest
from outrider.state.records import Identifiers, Paper
from support.citation_world import FAST, KEY, CitationWorld, make_small_works
from support.http_server import serving

INPUT = {"targets": ["own", "10.5555/W.7"], "budget": {"depth": 1}}


async def make_services(base_url: str, folder: Path) -> Services:
    library = await Library.open(folder / "library", create=True)
    missing = {"title": "The second study of otters in river 9", "authors": ["Author9, A"], "year": 1999, "venue": "x", "volume": "1"}
    own = Paper(
        doc_id="own", title="The second study of otters in river 1", identifiers=Identifiers(doi="10.5555/w.1"),
        metadata={"references_without_id": [missing]},
    )  # fmt: skip
    await library.upsert([own])
    library.close()
    off: dict[str, Any] = {"enabled": False}
    sources = SourcesSettings(
        openalex=OpenalexSettings(base_url=f"{base_url}/openalex", api_key=KEY, **FAST),  # type: ignore[arg-type]
        semantic_scholar=SemanticScholarSettings(base_url=f"{base_url}/semantic_scholar", **FAST),
        crossref=CrossrefSettings(base_url=f"{base_url}/crossref", **FAST),
        opencitations=OpencitationsSettings(base_url=f"{base_url}/opencitations", **FAST),
        europe_pmc=EuropePmcSettings(**off),
        pubmed=PubmedSettings(**off),
        web=WebSettings(**off),
    )
    cache = CacheSettings(folder=str(folder / "answers"))
    return Services(Settings(library=LibrarySettings(uri=str(folder / "library")), sources=sources, cache=cache))


async def test_the_graph_is_built_and_reported(tmp_path: Path) -> None:
    world = CitationWorld(make_small_works())
    async with serving(world.handle) as server:
        services = await make_services(server.base_url, tmp_path)
        parts = [
            part
            async for part in build_citations(services).astream(
                {**INPUT, "targets": [*INPUT["targets"], "nothing"]}, stream_mode=["custom", "values"]
            )
        ]  # type: ignore[misc]
        network = await load_network(await services.library(), ["own", "doi:10.5555/w.7"])
    answer = parts[-1][1]
    assert answer["missing"] == ("nothing",)
    assert answer["report"].seeds == 2
    assert answer["report"].references_unmatched == 1
    named = world.truth([1, 7], 1)
    assert {tuple("doi:10.5555/w.1" if end == "own" else end for end in pair): sources for pair, sources in network.links.items()} == named
    assert any("2 of 2 works" in part["progress"] for kind, part in parts if kind == "custom" and "progress" in part)
    services.close()


async def test_the_synchronous_side_gives_the_same(tmp_path: Path) -> None:
    import asyncio

    world = CitationWorld(make_small_works())
    async with serving(world.handle) as server:
        services = await make_services(server.base_url, tmp_path)
        graph = build_citations(services)
        answer = await asyncio.to_thread(graph.invoke, INPUT)
        links = sum(map(len, world.truth([1, 7], 1).values()))
    assert answer["report"].links == links
    services.close()


async def test_offline_nothing_is_asked(tmp_path: Path) -> None:
    settings = Settings(library=LibrarySettings(uri=str(tmp_path / "library")), sources=SourcesSettings(offline=True))
    services = Services(settings)
    answer = await build_citations(services).ainvoke({"targets": ["10.5555/x"]})
    assert (answer["report"].without_service, answer["report"].links) == (1, 0)
    services.close()


@pytest.mark.parametrize("wrong", [{}, {"targets": []}, {"targets": ["a"], "budget": {"depth": 9}}, {"targets": ["a"], "bugdet": {}}])
async def test_a_wrong_request_is_refused_with_its_field(tmp_path: Path, wrong: dict[str, Any]) -> None:
    settings = Settings(library=LibrarySettings(uri=str(tmp_path / "library")), sources=SourcesSettings(offline=True))
    with pytest.raises(BadRequest):
        await build_citations(Services(settings)).ainvoke(wrong)
