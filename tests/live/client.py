"""One request to a service through its adapter, with the unparsed answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest.mock import patch

from live.shapes import compute_shape

from outrider.services import Services, sources
from outrider.settings.model import Settings
from outrider.sources.http.cache import flush_cache
from outrider.state.ports import Source, SourceAnswer, SourceQuery
from outrider.state.records import Record

WITHIN_S = 25.0
QUERIES: dict[str, tuple[tuple[str, ...], tuple[str, str] | None]] = {
    "github": (("flask", "web"), ("github", "pallets/flask")),
    "openalex": (("crispr", "gene", "editing"), ("doi", "10.1126/science.1225829")),
    "semantic_scholar": (("crispr", "gene", "editing"), ("doi", "10.1126/science.1225829")),
    "arxiv": (("attention", "transformer"), ("arxiv", "1706.03762")),
    "pubmed": (("crispr", "gene", "editing"), ("pmid", "22745249")),
    "crossref": (("crispr", "gene", "editing"), ("doi", "10.1126/science.1225829")),
    "serpapi_scholar": (("crispr", "gene", "editing"), None),
    "serpapi_google": (("crispr", "gene", "editing"), None),
    "web": (("crispr", "gene", "editing"), None),
}
"""For each service: words with results, and the identifier of a permanent record."""


@dataclass(slots=True)
class AnswerRecorder:
    """A cache that stores every answer and never returns one."""

    bodies: list[bytes] = field(default_factory=list)

    async def get(self, key: str) -> None:
        return None

    async def put(self, key: str, body: bytes, headers: dict[str, str]) -> None:
        self.bodies.append(body)

    @property
    def shape(self) -> frozenset[str]:
        return frozenset().union(*map(compute_shape, self.bodies))


@dataclass(frozen=True, slots=True)
class Response:
    answer: SourceAnswer
    record: Record | None
    """The record requested by identifier."""
    shape: frozenset[str]


@contextmanager
def open_source(name: str, settings: Settings) -> Iterator[tuple[Source | None, AnswerRecorder]]:
    """The source of this name, or None where the settings switch it off or have no key for it."""
    recorder = AnswerRecorder()
    with patch.object(sources, "open_answer_cache", lambda _: recorder):
        services = Services(settings)
        try:
            yield next((one for one in services.sources if one.name == name), None), recorder
        finally:
            services.close()


async def query_source(source: Source, recorder: AnswerRecorder, words: tuple[str, ...], identifier: tuple[str, str] | None) -> Response:
    answer = await source.search(SourceQuery(" ".join(words), source.strategies[0], None, 10, keywords=words, within_s=WITHIN_S))
    record = await source.get(*identifier, WITHIN_S) if identifier else None
    await asyncio.to_thread(flush_cache)
    return Response(answer, record, recorder.shape)
