"""One service asked through its adapter, with the answers as they came."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest.mock import patch

from live.shapes import shape_of

from outrider.services import Services, sources
from outrider.settings.model import Settings
from outrider.sources.http.cache import flush_cache
from outrider.state.ports import Source, SourceAnswer, SourceQuery
from outrider.state.records import Record

WITHIN_S = 25.0
ASKED: dict[str, tuple[tuple[str, ...], tuple[str, str] | None]] = {
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
"""Words that each finds something for, and an identifier of a record that stays."""


@dataclass(slots=True)
class Heard:
    """Keeps answers as a cache would, and gives none back."""

    bodies: list[bytes] = field(default_factory=list)

    async def get(self, key: str) -> None:
        return None

    async def put(self, key: str, body: bytes, headers: dict[str, str]) -> None:
        self.bodies.append(body)

    @property
    def shape(self) -> frozenset[str]:
        return frozenset().union(*map(shape_of, self.bodies))


@dataclass(frozen=True, slots=True)
class Said:
    answer: SourceAnswer
    record: Record | None
    """The one asked for by its identifier."""
    shape: frozenset[str]


@contextmanager
def source_of(name: str, settings: Settings) -> Iterator[tuple[Source | None, Heard]]:
    """The source of this name, or None where the settings switch it off or have no key for it."""
    heard = Heard()
    with patch.object(sources, "open_answer_cache", lambda _: heard):
        services = Services(settings)
        try:
            yield next((one for one in services.sources if one.name == name), None), heard
        finally:
            services.close()


async def asked(source: Source, heard: Heard, words: tuple[str, ...], identifier: tuple[str, str] | None) -> Said:
    answer = await source.search(SourceQuery(" ".join(words), source.strategies[0], None, 10, keywords=words, within_s=WITHIN_S))
    record = await source.get(*identifier, WITHIN_S) if identifier else None
    await asyncio.to_thread(flush_cache)
    return Said(answer, record, heard.shape)
