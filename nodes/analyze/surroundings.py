"""Works around the subject: alternatives, references, citations, and related code."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass

from outrider.nodes.translator.rule_plan import extract_concepts, extract_keywords
from outrider.settings.model import AnalyzeSettings
from outrider.state.analysis import AnalysisState, AnalysisUpdate, Citing, Neighbour
from outrider.state.errors import SearchError
from outrider.state.ports import Source, SourceAnswer, SourceQuery
from outrider.state.records import LIBRARY, Record, Repository

SCHEMES = ("doi", "arxiv", "pmid", "pmcid", "s2")
MOST_WORDS = 4
"""Code hosts require every word of a query."""
DESCRIPTION_CHARS = 200
CODE_LINK = re.compile(r"github\.com/([A-Za-z0-9-]{1,39}/[A-Za-z0-9._-]{1,100})", re.IGNORECASE)
SAME_WORDS = "found by the same words"

Part = tuple[str, tuple[Neighbour, ...], str]
"""A field of the analysis, its works, and what went wrong."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Reads record; writes alternatives, references, citations, related_code, notes. A failing source costs only its part."""

    sources: Sequence[Source]
    citing: Citing | None
    settings: AnalyzeSettings

    async def __call__(self, state: AnalysisState, left_s: float) -> AnalysisUpdate:
        record = state.record
        assert record is not None  # noqa: S101 - the edge to this node is taken only with a record
        fields = () if isinstance(record, Repository) else ("references", "citations")
        parts = await asyncio.gather(self._find_code(record, left_s), *(self._find_citations(field, record, left_s) for field in fields))
        update: AnalysisUpdate = {field: works for field, works, _ in parts}  # type: ignore[assignment]
        return {**update, "notes": (*state.notes, *(problem for *_, problem in parts if problem))}

    async def _find_code(self, record: Record, left_s: float) -> Part:
        field, named = "alternatives", []
        if not isinstance(record, Repository):
            field = "related_code"
            # Repositories that its own text links to, in the order of the text.
            names = dict.fromkeys(name.rstrip(".").removesuffix(".git") for name in CODE_LINK.findall(record.full_text()))
            named = [
                Neighbour(doc_id=f"github:{name}", title=name, url=f"https://github.com/{name}", kind="repository", why="named in its text")
                for name in names
            ]
        host = next((source for source in self.sources if source.name != LIBRARY and "repository" in source.capabilities.kinds), None)
        if host is None:
            return field, tuple(named), f"{field}: no source of repositories is switched on"
        words = extract_keywords(extract_concepts(" ".join(record.tags[:3]) or record.description or record.title))[:MOST_WORDS]
        query = SourceQuery(" ".join(words), host.strategies[0], None, self.settings.beside + 1, keywords=words, within_s=left_s)
        try:
            async with asyncio.timeout(left_s):
                answer = await host.search(query)
        except (SearchError, TimeoutError) as error:
            return field, tuple(named), f"{field}: {str(error) or f'{host.name} did not answer in time'}"
        others = [result.record for result in answer.results if result.record.doc_id != record.doc_id]
        unique: dict[str, Neighbour] = {}
        for work in (*named, *(make_neighbour(other, f"{SAME_WORDS}: {' '.join(words)}") for other in others)):
            unique.setdefault((work.url or work.doc_id).lower().rstrip("/"), work)
        return field, tuple(unique.values())[: self.settings.beside], ""

    async def _find_citations(self, field: str, record: Record, left_s: float) -> Part:
        identifiers = dict(record.identifiers.pairs())
        scheme = next((scheme for scheme in SCHEMES if scheme in identifiers), None)
        if self.citing is None or scheme is None:
            return field, (), f"{field}: no source that knows them is switched on, or the work has no identifier"
        request = self.citing.references if field == "references" else self.citing.citations
        try:
            async with asyncio.timeout(left_s):
                answer: SourceAnswer = await request(scheme, identifiers[scheme], left_s, self.settings.links)
        except (SearchError, TimeoutError) as error:
            return field, (), f"{field}: {str(error) or f'{self.citing.name} did not answer in time'}"
        why = "cited by it" if field == "references" else "cites it"
        results = answer.results
        total = f"{field}: the first {len(results)} of {answer.total:,}" if answer.total and answer.total > len(results) else ""
        works = tuple(make_neighbour(result.record, why) for result in results)
        return field, works, "; ".join(filter(None, (answer.message, total)))


def make_neighbour(record: Record, why: str) -> Neighbour:
    fields = record.model_dump(include={"doc_id", "title", "url", "kind", "year", "stars", "citations"})
    return Neighbour(**fields, description=" ".join(record.description.split())[:DESCRIPTION_CHARS], why=why)
