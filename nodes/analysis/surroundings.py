"""What stands beside the work: alternatives to a repository; of a paper what it cites, what cites it, and code."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from outrider.nodes.translator.rule_plan import extract_concepts, extract_keywords
from outrider.settings.model import AnalyzeSettings
from outrider.state.analysis import AnalysisState, AnalysisUpdate, Citing, Neighbour
from outrider.state.errors import SearchError
from outrider.state.ports import Source, SourceAnswer, SourceQuery
from outrider.state.records import LIBRARY, Record, Repository

SCHEMES = ("doi", "arxiv", "pmid", "pmcid", "s2")
MOST_WORDS = 4
"""Hosts of code look for every word."""
DESCRIPTION_CHARS = 200
CODE_LINK = re.compile(r"github\.com/([A-Za-z0-9-]{1,39}/[A-Za-z0-9._-]{1,100})", re.IGNORECASE)
BESIDE = "found by the same words"

Part = tuple[str, tuple[Neighbour, ...], str]
"""The field, what came, and what went wrong."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Reads record; writes alternatives, references, citations, related_code, notes. A source that fails costs only its part."""

    sources: Sequence[Source]
    citing: Citing | None
    settings: AnalyzeSettings

    async def __call__(self, state: AnalysisState, left_s: float) -> AnalysisUpdate:
        record = state.record
        assert record is not None  # noqa: S101 - the edge to this node is taken only with one
        links = [] if isinstance(record, Repository) else [self._linked(kind, record, left_s) for kind in ("references", "citations")]
        found = await asyncio.gather(self._code(record, left_s), *links)
        update: AnalysisUpdate = {name: beside for name, beside, _ in found}  # type: ignore[assignment]
        return {**update, "notes": (*state.notes, *(why for *_, why in found if why))}

    async def _code(self, record: Record, left_s: float) -> Part:
        field = "alternatives" if isinstance(record, Repository) else "related_code"
        named = _named_in(record) if field == "related_code" else ()
        host = next((one for one in self.sources if one.name != LIBRARY and "repository" in one.capabilities.kinds), None)
        if host is None:
            return field, named, f"{field}: no source of repositories is asked"
        words = extract_keywords(extract_concepts(" ".join(record.tags[:3]) or record.description or record.title))[:MOST_WORDS]
        query = SourceQuery(" ".join(words), host.strategies[0], None, self.settings.beside + 1, keywords=words, within_s=left_s)
        try:
            async with asyncio.timeout(left_s):
                said = await host.search(query)
        except (SearchError, TimeoutError) as error:
            return field, named, f"{field}: {str(error) or f'{host.name} did not answer in time'}"
        others = (one.record for one in said.results if one.record.doc_id != record.doc_id)
        beside = (*named, *(make_neighbour(one, f"{BESIDE}: {' '.join(words)}") for one in others))
        return field, _once(beside)[: self.settings.beside], ""

    async def _linked(self, kind: str, record: Record, left_s: float) -> Part:
        known = dict(record.identifiers.pairs())
        scheme = next((one for one in SCHEMES if one in known), None)
        if self.citing is None or scheme is None:
            return kind, (), f"{kind}: nobody is asked who knows them"
        ask = self.citing.references if kind == "references" else self.citing.citations
        try:
            async with asyncio.timeout(left_s):
                said: SourceAnswer = await ask(scheme, known[scheme], left_s, self.settings.links)
        except (SearchError, TimeoutError) as error:
            return kind, (), f"{kind}: {str(error) or f'{self.citing.name} did not answer in time'}"
        why = "cited by it" if kind == "references" else "cites it"
        total = f"{kind}: the first {len(said.results)} of {said.total:,}" if said.total and said.total > len(said.results) else ""
        return kind, tuple(make_neighbour(one.record, why) for one in said.results), "; ".join(filter(None, (said.message, total)))


def make_neighbour(record: Record, why: str) -> Neighbour:
    told = record.model_dump(include={"doc_id", "title", "url", "kind", "year", "stars", "citations"})
    return Neighbour(**told, description=" ".join(record.description.split())[:DESCRIPTION_CHARS], why=why)


def _named_in(record: Record) -> tuple[Neighbour, ...]:
    """Repositories that its own text links to, in the order of the text."""
    names = dict.fromkeys(found.rstrip(".").removesuffix(".git") for found in CODE_LINK.findall(record.full_text()))
    return tuple(
        Neighbour(doc_id=f"github:{name}", title=name, url=f"https://github.com/{name}", kind="repository", why="named in its text")
        for name in names
    )


def _once(beside: Iterable[Neighbour]) -> tuple[Neighbour, ...]:
    kept: dict[str, Neighbour] = {}
    for one in beside:
        kept.setdefault((one.url or one.doc_id).lower().rstrip("/"), one)
    return tuple(kept.values())
