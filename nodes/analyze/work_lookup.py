"""Lookup of the work to analyze: record, facts, full text, cached analyses, evidence."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import JsonValue, ValidationError

from outrider.nodes.enrich.identifier_lookup import look_up
from outrider.state.analysis import Analysis, AnalysisState, AnalysisUpdate, Depending
from outrider.state.distilling import Reading
from outrider.state.errors import NothingSearchable, SourceError
from outrider.state.ports import Detailer, PageReader, Source, TextCache
from outrider.state.records import Paper, Record, Repository
from outrider.state.response import DistilledContext

FACTS = (
    "authors", "year", "venue", "citations", "stars", "forks", "language", "licence", "archived", "is_fork", "updated_at", "tags", "mesh",
)  # fmt: skip
"""Fields of a record that are facts, besides its metadata."""
NOT_FACTS = frozenset({"notices", "updated_by", "update_to", "tldr", "filled_from", "record"})
"""Metadata that are texts or shown elsewhere."""
MOST_TREE = 100
LOOKUP_SHARE = 0.5
"""Share of the remaining time."""
LEAST_TEXT = 500
"""A page with fewer characters than the abstract and these has no full text."""


class WorkIdentifier(NamedTuple):
    """A scheme of `Identifiers` and a normalised value."""

    scheme: str
    value: str


@dataclass(frozen=True, slots=True)
class Subject:
    """Reads target, question, fresh; writes record, facts, dependencies, retraction, full_text, or a whole cached analysis."""

    parse_target: Callable[[str], WorkIdentifier]
    """Raises `BadRequest`."""
    sources: Sequence[Source]
    detailers: Mapping[str, Detailer]
    depending: Depending | None
    pages: PageReader | None
    cache: AnalysisCache | None

    async def __call__(self, state: AnalysisState, left_s: float) -> AnalysisUpdate:
        if self.cache and not state.fresh and (cached := await self.cache.get(state)):
            return cached
        until, (scheme, value) = time.monotonic() + left_s, self.parse_target(state.target)
        result = await look_up(self.sources, scheme, value, left_s * LOOKUP_SHARE)
        if result.record is None and not result.sources:
            why = f"no source that is switched on knows {scheme}, or sources.offline is on"
            raise NothingSearchable(f"{scheme}:{value} cannot be looked up: {why}")
        if result.record is None:
            problems = f" ({'; '.join(result.problems)})" if result.problems else ""
            raise NothingSearchable(f"{scheme}:{value} is not known to {', '.join(result.sources)}{problems}")
        record, notes = result.record, list(result.problems)
        dependencies: tuple[str, ...] = ()
        if isinstance(record, Repository):
            if detailer := self.detailers.get(record.source):
                details = await detailer.details([record], (until - time.monotonic()) / 2)
                record = details.records[0]
                notes += [f"{detailer.name}: {details.message}"] if details.message else []
            if self.depending and record.identifiers.github:
                dependencies, problem = await self._dependencies(self.depending, record.identifiers.github, until - time.monotonic())
                notes += [problem] if problem else []
        record, full_text = await self._add_full_text(record, until - time.monotonic())
        is_repository = isinstance(record, Repository)
        question = " ".join((record.description or record.title).split())[:300] if is_repository else record.title
        return {
            "record": record,
            "kind": record.kind,
            "doc_id": record.doc_id,
            "title": record.title,
            "url": record.url,
            "description": record.abstract or record.description,
            "question": state.question or question,
            "facts": collect_facts(record),
            "dependencies": dependencies,
            "retraction": describe_retraction(record),
            "full_text": full_text,
            "notes": tuple(notes),
        }

    async def _dependencies(self, depending: Depending, name: str, left_s: float) -> tuple[tuple[str, ...], str]:
        """The dependencies, and why they are unknown."""
        try:
            dependencies = await depending.dependencies(name, max(0.1, left_s / 2))
        except SourceError as error:
            return (), f"dependencies: {error}"
        return dependencies or (), "" if dependencies is not None else "dependencies: GitHub does not publish them"

    async def _add_full_text(self, record: Record, left_s: float) -> tuple[Record, str]:
        """A paper with its full text if that is open, and where the text comes from or why there is none."""
        if record.text or not isinstance(record, Paper):
            return record, f"{record.source}, {len(record.text):,} characters" if record.text else "there is none"
        link = find_open_link(record)
        if link is None or self.pages is None:
            return record, "none in open access" if link is None else "fetching pages is switched off"
        try:
            answer = await self.pages.fetch(link, max(0.1, left_s / 2))
        except SourceError as error:
            return record, f"none: {error}"
        if answer.kind == "pdf":
            return record, f"{link} is a PDF, which is not fetched; save it and ingest the file"
        if len(answer.page.text) < len(record.abstract) + LEAST_TEXT:
            return record, f"{link} holds no full text"
        return record.model_copy(update={"text": answer.page.text}), f"{link}, {len(answer.page.text):,} characters"


def find_open_link(record: Paper) -> str | None:
    """The address of the full text as a web page, not as a PDF."""
    if record.identifiers.pmcid:
        return f"https://pmc.ncbi.nlm.nih.gov/articles/{record.identifiers.pmcid}/"
    if record.identifiers.arxiv:
        return f"https://arxiv.org/html/{record.identifiers.arxiv}"
    link = record.metadata.get("open_access_url")
    return link if isinstance(link, str) and link else None


def collect_facts(record: Record) -> dict[str, JsonValue]:
    """What sources say about the work, by name, without empty values."""
    fields = record.model_dump(mode="json", include=set(FACTS), exclude_defaults=True)
    metadata = {name: value for name, value in record.metadata.items() if name not in NOT_FACTS}
    if isinstance(tree := metadata.get("tree"), list):
        metadata["tree"] = tree[:MOST_TREE]
    facts = {**fields, **metadata, "identifiers": dict(record.identifiers.pairs())}
    return {name: facts[name] for name in sorted(facts) if facts[name] not in (None, "", [], {})}


def describe_retraction(record: Record) -> str:
    """Retractions according to PubMed's notices, Crossref's `updated_by` or a flag; empty if no service reports one."""
    notices = record.metadata.get("notices")
    reports = [str(notice) for notice in notices if "retract" in str(notice).lower()] if isinstance(notices, list) else []
    updates = record.metadata.get("updated_by")
    reports += [
        f"{update.get('type')} by doi:{update.get('doi')}, {update.get('date')}, reported by {update.get('source')}"
        for update in (updates if isinstance(updates, list) else ())
        if isinstance(update, dict) and "retract" in str(update.get("type", "")).lower()
    ]
    if not reports and record.metadata.get("retracted") is True:
        reports.append(f"retracted, according to {record.source}")
    return "; ".join(reports)


PATIENCE_S = 1.0
"""A slower cache is treated as a miss."""
NOT_CACHED = {"target", "age_s", "timings_ms", "execution_time_ms", "usage"}


@dataclass(frozen=True, slots=True)
class AnalysisCache:
    """Earlier analyses of the same work with the same question, as long as cached answers are fresh."""

    texts: TextCache
    fresh_s: float
    versions: str
    """Model, settings and version: part of the key."""

    async def get(self, state: AnalysisState) -> AnalysisUpdate | None:
        cached = await self.texts.get(self._key(state.target, state.question), PATIENCE_S)
        if cached is None or cached.age_s >= self.fresh_s:
            return None
        try:
            analysis = Analysis.model_validate_json(cached.text)
        except ValidationError:
            return None
        update: AnalysisUpdate = {name: getattr(analysis, name) for name in Analysis.model_fields if name not in NOT_CACHED}  # type: ignore[assignment]
        return {**update, "age_s": cached.age_s}

    async def put(self, question: str, state: AnalysisState) -> None:
        """Store an analysis without failures. `question` is the one of the request, which may be empty."""
        if state.kind is not None and not state.failures:
            analysis = Analysis.model_validate({name: getattr(state, name) for name in Analysis.model_fields})
            await self.texts.put(self._key(state.target, question), analysis.model_dump_json())

    def _key(self, target: str, question: str) -> str:
        return hashlib.sha256(f"analysis {json.dumps([target, question, self.versions])}".encode()).hexdigest()


Distil = Callable[[str, Reading, int], Awaitable[DistilledContext]]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Verbatim sentences of the work that answer the question. Reads record, question; writes context, notes."""

    distil: Distil

    async def __call__(self, state: AnalysisState, most_tokens: int) -> AnalysisUpdate:
        record = state.record
        assert record is not None  # noqa: S101 - the edge to this node is taken only with a record
        if not record.full_text():
            return {"notes": (*state.notes, "it has no text to take sentences from")}
        reading = Reading(record.doc_id, record.full_text(), record.title, "[1]")
        return {"context": await self.distil(state.question, reading, most_tokens)}
