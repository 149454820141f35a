"""Recorded runs of each kind over services on loopback, with their responses."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from pydantic import SecretStr

from outrider.graph.analyze import build_analysis, make_analysis
from outrider.graph.citations import build_citations
from outrider.graph.pipeline import build
from outrider.library.library import Library
from outrider.recorder.codec import dump
from outrider.services import Services
from outrider.services.sources import make_sources
from outrider.services.systematic import begin_run
from outrider.settings.model import LibrarySettings, Settings, SystematicSettings
from outrider.settings.sections import OpencitationsSettings, SourcesSettings
from outrider.state.citations import CitationsResult
from outrider.state.pipeline import RunContext
from outrider.state.records import Paper
from outrider.state.response import SearchResponse
from outrider.usecases.cite import list_candidates
from outrider.usecases.recorded_run import RecordedRun, make_systematic_response
from support import fake_services
from support.chat_client import KEY, llm_settings
from support.chat_server import ChatServer, Reply
from support.chat_server import Request as Question
from support.citation_world import CitationWorld, make_small_works
from support.fakes import NOON, Shelf, no_reranker, paper
from support.http_server import Answer, Request, as_json, serving
from support.systematic_runs import LibraryVersions, MemorySource, make_papers
from support.word_embedder import WordEmbedder

QUERY = "liver injury by drugs"
TEXT = "Drugs injure the liver of some people. The dose decides. The weather was fine. Enzymes in serum rise within days."
SHELVED = tuple(paper(f"own{n}", f"Liver injury by drugs, own {n}", abstract=f"{TEXT} Case {n}.", year=2010 + n) for n in range(4))
REPOSITORY = {
    "full_name": "liver/dose",
    "html_url": "https://github.com/liver/dose",
    "description": "Doses that livers bear",
    "stargazers_count": 9,
}


def record(settings: Settings, **recorder: Any) -> Settings:
    """The settings with the recorder on."""
    return settings.model_copy(update={"recorder": settings.recorder.model_copy(update={"enabled": True, **recorder})})


def set_file(services: Services, file: Path) -> Services:
    """Name the file of the next recording, where the recorder is on."""
    if services.destination is not None:
        services.destination.file = file
    return services


def answer_as_model(question: Question) -> Reply:
    """A plan, scores that follow the titles, and no duplicates."""
    data = question.data
    if isinstance(data.get("request"), str):
        query = {"text": "drug-induced liver injury", "keywords": ["liver", "drugs"], "boolean_query": "liver AND drugs"}
        return Reply(
            {
                "topic": "liver",
                "concepts": ["liver", "drugs"],
                "intent_type": "research",
                "queries": [query],
                "expanded_keywords": ["hepatic"],
            }
        )
    if "papers" in data:
        rows = [
            {"paper_id": one["id"], "relevance_score": 0.5 + len(one["title"]) % 5 / 10, "relevance_reason": "names both", "tags": []}
            for one in data["papers"]
        ]
        return Reply({"results": rows})
    if "repository" in data:
        return Reply({"relevance": 0.8, "documentation": 7, "documentation_reason": "explains", "ease_of_use": 6})
    return Reply({"groups": []})


@dataclass
class SearchWorld:
    """Services and a model on loopback, whose answers can change between two searches. A context manager."""

    handler: Callable[[Request], Answer] = field(default_factory=fake_services.make_handler)
    answer: Callable[[Question], Reply] = answer_as_model

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        self.server = self._stack.enter_context(serving(self._handle))
        self.chat = self._stack.enter_context(ChatServer(self._answer))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _handle(self, request: Request) -> Answer:
        return self.handler(request)

    def _answer(self, question: Question) -> Reply:
        return self.answer(question)

    async def record(
        self,
        file: Path,
        *,
        shelf: Shelf | None = None,
        limits: Mapping[str, Any] | None = None,
        changes: Mapping[str, Any] | None = None,
        request: Mapping[str, Any] | None = None,
        own: Mapping[str, Mapping[str, Any]] | None = None,
        key: str = KEY,
        **recorder: Any,
    ) -> SearchResponse:
        """A search with a model over all services and a library in memory."""
        library = shelf or Shelf(list(SHELVED))
        settings = record(fake_services.settings(self.server.base_url, file.parent / "answers", own or {}), **recorder)
        cache = settings.cache.model_copy(update={"translations_s": 0.0})
        settings = settings.model_copy(
            update={"llm": llm_settings(self.chat, timeout_s=60.0, api_key=SecretStr(key)), "cache": cache, **(changes or {})}
        )
        services = Services(settings, shelf=library, sources=(library, *make_sources(settings, library)[1:]), reranker=no_reranker)
        set_file(services, file)
        context = RunContext(**(limits or {"run_timeout_s": 300}))
        state = await build(services, checkpointer=False).ainvoke({"query": QUERY, **(request or {})}, context=context)
        services.close()
        return SearchResponse.model_validate(state)


async def record_search(
    file: Path,
    *,
    handler: Callable[[Request], Answer] | None = None,
    answer: Callable[[Question], Reply] = answer_as_model,
    **options: Any,
) -> SearchResponse:
    """One search of a world of its own."""
    with SearchWorld(handler or fake_services.make_handler(), answer) as world:
        return await world.record(file, **options)


class LongestFirst:
    """A reranker that likes long texts, and gives scores that no rounding leaves alone."""

    name = "longest"

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        return [math.sqrt(len(text)) / 7 for text in texts]


async def record_library_search(file: Path, query: str = QUERY) -> SearchResponse:
    """A search without a network over a real library with vectors, with a reranker and a short context."""

    async def choose(*, asked: bool = False) -> tuple[LongestFirst, str]:
        return LongestFirst(), "as this test wants"

    folder = file.parent / "library"
    if not folder.exists():
        library = await Library.open(folder, create=True)
        await library.upsert([*SHELVED, *make_papers(40)])
        await library.embed([*SHELVED, *make_papers(40)], WordEmbedder())  # type: ignore[arg-type]
        await library.optimize(force=True)
        library.close()
    settings = record(Settings(library=LibrarySettings(uri=str(folder)), sources=SourcesSettings(offline=True)))
    services = Services(settings, embedder=WordEmbedder(), reranker=choose)  # type: ignore[arg-type]
    set_file(services, file)
    context = RunContext(run_timeout_s=300)
    state = await build(services, checkpointer=False).ainvoke({"query": query, "rerank_enabled": True}, context=context)
    services.close()
    return SearchResponse.model_validate(state)


async def record_analysis(file: Path, target: str = "liver/dose") -> Any:
    def github(request: Request) -> Answer:
        if request.path.endswith("/repos/liver/dose"):
            return as_json(REPOSITORY)
        return fake_services.ANSWERS["github"](request) if "search" in request.path else as_json([])

    work = {
        "id": "https://openalex.org/W1", "doi": "https://doi.org/10.1000/livers", "title": "Liver injury by drugs", "cited_by_count": 3,
        "abstract_inverted_index": {word: [at] for at, word in enumerate(TEXT.split())},
    }  # fmt: skip
    with (
        serving(fake_services.make_handler(github=github, openalex=lambda _: as_json(work))) as server,
        ChatServer(answer_as_model) as chat,
    ):
        settings = record(fake_services.settings(server.base_url, file.parent / "answers"))
        services = Services(settings.model_copy(update={"llm": llm_settings(chat, timeout_s=60.0)}))
        set_file(services, file)
        request = {"target": target, "question": "which drugs injure the liver"}
        return make_analysis(await build_analysis(services, checkpointer=False).ainvoke(request, context=RunContext(run_timeout_s=300)))


async def record_citations(file: Path, target: str = "10.5555/W.7") -> CitationsResult:
    library = await Library.open(file.parent / "library", create=True)
    await library.upsert([Paper(doc_id="own", title="The second study of otters in river 1")])
    library.close()
    with serving(CitationWorld(make_small_works()).handle) as server:
        off = {name: getattr(SourcesSettings(), name).model_copy(update={"enabled": False}) for name in fake_services.SERVICES}
        more = {
            "europe_pmc": SourcesSettings().europe_pmc.model_copy(update={"enabled": False}),
            "web": SourcesSettings().web.model_copy(update={"enabled": False}),
        }
        sources = SourcesSettings(**off, **more, opencitations=OpencitationsSettings(base_url=f"{server.base_url}/opencitations"))
        services = Services(record(Settings(library=LibrarySettings(uri=str(file.parent / "library")), sources=sources)))
        set_file(services, file)
        state = await build_citations(services).ainvoke({"targets": ["own", target, "nothing"], "budget": {"depth": 1}})
        services.close()
    return CitationsResult.model_validate(state)


async def record_candidates(file: Path) -> bytes:
    """The candidates of a chase."""
    from support.chase_library import TARGET, make_services

    folder = file.parent / "chase"
    folder.mkdir()
    services = Services(record((await asyncio.to_thread(make_services, folder)).settings))
    set_file(services, file)
    answer = await list_candidates(services, TARGET)
    services.close()
    assert answer.candidates
    return dump(answer.model_dump(mode="json"))


async def record_systematic(file: Path, query: str = "aspirin[ti]") -> bytes:
    """A run outside the graph over the library and services, of which one breaks off and one is refused."""
    settings = record(Settings(systematic=SystematicSettings(folder=str(file.parent / "runs"), page=5)))
    world = {
        "pubmed": MemorySource("pubmed", make_papers(30)),
        "openalex": MemorySource("openalex", make_papers(20), fails_after=2),
        "crossref": MemorySource("crossref", [], refuses="it cannot express this"),
    }
    services = Services(settings, clock=lambda: NOON, sources=(), reranker=no_reranker, pin=LibraryVersions(make_papers(40)), world=world)
    set_file(services, file)
    recorded = RecordedRun(services, "systematic", {"query": query, "sources": ["library", *world], "syntax": "auto"})
    with recorded.on_tape():
        run = await begin_run(services, query, ["library", *world])
        async for _ in run.pages():
            pass
        await run.aclose()
    response = make_systematic_response(run)
    await recorded.finish(response)
    return dump(response)


async def record_systematic_search(file: Path) -> SearchResponse:
    """The same in the graph."""
    settings = record(Settings(systematic=SystematicSettings(folder=str(file.parent / "runs"), page=5)))
    world = {"pubmed": MemorySource("pubmed", make_papers(30))}
    services = Services(settings, clock=lambda: NOON, sources=(), reranker=no_reranker, pin=LibraryVersions(make_papers(40)), world=world)
    set_file(services, file)
    request = {"query": "aspirin[ti]", "mode": "systematic", "sources": ["library", "pubmed"]}
    return SearchResponse.model_validate(await build(services, checkpointer=False).ainvoke(request))


def hash_response(response: Any) -> str:
    content = response if isinstance(response, bytes) else response.model_dump_json().encode()
    return hashlib.sha256(content).hexdigest()
