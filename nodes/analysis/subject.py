"""The work itself: found by its identifier, with all that its source tells of it, and its text where it is open."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pydantic import JsonValue, ValidationError

from outrider.nodes.enrich.identifier_lookup import look_up
from outrider.state.analysis import Analysis, AnalysisState, AnalysisUpdate, Depending
from outrider.state.distilling import Reading
from outrider.state.errors import NothingSearchable, SourceError
from outrider.state.ports import Detailer, PageReader, Source
from outrider.state.records import Paper, Record, Repository
from outrider.state.response import DistilledContext

if TYPE_CHECKING:
    from outrider.state.ports import TextCache

FACTS = (
    "authors", "year", "venue", "citations", "stars", "forks", "language", "licence", "archived", "is_fork", "updated_at", "tags", "mesh",
)  # fmt: skip
"""Of a record; its metadata come with them, but for texts of their own and what is said elsewhere."""
NOT_FACTS = frozenset({"notices", "updated_by", "update_to", "tldr", "filled_from", "record"})
MOST_TREE = 100
LOOKUP_SHARE = 0.5
"""Of the time that is left."""
LEAST_TEXT = 500
"""Characters more than the abstract, below which a page holds no full text."""


class WorkIdentifier(NamedTuple):
    """What is asked for: a scheme of `Identifiers`, and a normalised value."""

    scheme: str
    value: str


@dataclass(frozen=True, slots=True)
class Subject:
    """Reads target, question, fresh; writes record, facts, dependencies, retraction, full_text, or a whole analysis of before."""

    parse_target: Callable[[str], WorkIdentifier]
    """What a target names. Raises `BadRequest`."""
    sources: Sequence[Source]
    detailers: Mapping[str, Detailer]
    depending: Depending | None
    pages: PageReader | None
    cache: AnalysisCache | None

    async def __call__(self, state: AnalysisState, left_s: float) -> AnalysisUpdate:
        if self.cache and not state.fresh and (found := await self.cache.get(state)):
            return found
        until, named = time.monotonic() + left_s, self.parse_target(state.target)
        looked = await look_up(self.sources, *named, left_s * LOOKUP_SHARE)
        if looked.record is None:
            raise NothingSearchable(_not_found(named, looked.asked, looked.problems))
        record, notes = await self._told(looked.record, until - time.monotonic())
        dependencies, said = await self._dependencies(record, until - time.monotonic())
        record, full_text = await self._read(record, until - time.monotonic())
        return {
            "record": record,
            "kind": record.kind,
            "doc_id": record.doc_id,
            "title": record.title,
            "url": record.url,
            "description": record.abstract or record.description,
            "question": state.question or _question(record),
            "facts": collect_facts(record),
            "dependencies": dependencies,
            "retraction": describe_retraction(record),
            "full_text": full_text,
            "notes": tuple(filter(None, (*looked.problems, *notes, said))),
        }

    async def _told(self, record: Record, left_s: float) -> tuple[Record, tuple[str, ...]]:
        detailer = self.detailers.get(record.source)
        if detailer is None or not isinstance(record, Repository):
            return record, ()
        told = await detailer.details([record], left_s / 2)
        return told.records[0], (f"{detailer.name}: {told.message}",) if told.message else ()

    async def _dependencies(self, record: Record, left_s: float) -> tuple[tuple[str, ...], str]:
        if self.depending is None or not isinstance(record, Repository) or not record.identifiers.github:
            return (), ""
        try:
            found = await self.depending.dependencies(record.identifiers.github, max(0.1, left_s / 2))
        except SourceError as error:
            return (), f"dependencies: {error}"
        return found or (), "" if found is not None else "dependencies: GitHub does not tell them"

    async def _read(self, record: Record, left_s: float) -> tuple[Record, str]:
        """A paper with its full text, where one may be read."""
        if record.text or not isinstance(record, Paper):
            return record, f"{record.source}, {len(record.text):,} characters" if record.text else "there is none"
        link = find_open_link(record)
        if link is None or self.pages is None:
            return record, "none that is open to read" if link is None else "no page is fetched here"
        try:
            got = await self.pages.fetch(link, max(0.1, left_s / 2))
        except SourceError as error:
            return record, f"none: {error}"
        if got.kind == "pdf":
            return record, f"{link} is a PDF, which is not fetched; save it and ingest the file"
        if len(got.page.text) < len(record.abstract) + LEAST_TEXT:
            return record, f"{link} holds no full text"
        return record.model_copy(update={"text": got.page.text}), f"{link}, {len(got.page.text):,} characters"


def find_open_link(record: Paper) -> str | None:
    """Where its full text stands as a page, rather than as a PDF."""
    if record.identifiers.pmcid:
        return f"https://pmc.ncbi.nlm.nih.gov/articles/{record.identifiers.pmcid}/"
    if record.identifiers.arxiv:
        return f"https://arxiv.org/html/{record.identifiers.arxiv}"
    said = record.metadata.get("open_access_url")
    return said if isinstance(said, str) and said else None


def collect_facts(record: Record) -> dict[str, JsonValue]:
    plain = record.model_dump(mode="json", include=set(FACTS), exclude_defaults=True)
    more = {name: value for name, value in record.metadata.items() if name not in NOT_FACTS}
    if isinstance(tree := more.get("tree"), list):
        more["tree"] = tree[:MOST_TREE]
    found = {**plain, **more, "identifiers": dict(record.identifiers.pairs())}
    return {name: found[name] for name in sorted(found) if found[name] not in (None, "", [], {})}


def describe_retraction(record: Record) -> str:
    """What services say: PubMed's notices, Crossref's `updated_by`, a flag. Empty where none says that it was retracted."""
    notices = record.metadata.get("notices")
    told = [str(one) for one in notices if "retract" in str(one).lower()] if isinstance(notices, list) else []
    updates = record.metadata.get("updated_by")
    by = [one for one in updates if isinstance(one, dict)] if isinstance(updates, list) else []
    told += [
        f"{one.get('type')} by doi:{one.get('doi')}, {one.get('date')}, told by {one.get('source')}"
        for one in by
        if "retract" in str(one.get("type", "")).lower()
    ]
    if not told and record.metadata.get("retracted") is True:
        told.append(f"retracted, as {record.source} says")
    return "; ".join(told)


def _question(record: Record) -> str:
    return " ".join((record.description or record.title).split())[:300] if isinstance(record, Repository) else record.title


def _not_found(named: WorkIdentifier, asked: Sequence[str], problems: Sequence[str]) -> str:
    what = f"{named.scheme}:{named.value}"
    if not asked:
        return f"nobody can be asked for {what}: no source that is switched on knows {named.scheme}, or sources.offline is on"
    return f"{what} is not known to {', '.join(asked)}" + (f" ({'; '.join(problems)})" if problems else "")


PATIENCE_S = 1.0
"""A cache that takes longer is as good as none."""
NOT_CACHED = {"target", "age_s", "timings_ms", "execution_time_ms", "usage"}


@dataclass(frozen=True, slots=True)
class AnalysisCache:
    texts: TextCache
    fresh_s: float
    versions: str
    """Model, settings and version: another's analysis is another."""

    async def get(self, state: AnalysisState) -> AnalysisUpdate | None:
        kept = await self.texts.get(self._key(state.target, state.question), PATIENCE_S)
        if kept is None or kept.age_s >= self.fresh_s:
            return None
        try:
            found = Analysis.model_validate_json(kept.text)
        except ValidationError:
            return None
        update: AnalysisUpdate = {name: getattr(found, name) for name in Analysis.model_fields if name not in NOT_CACHED}  # type: ignore[assignment]
        return {**update, "age_s": kept.age_s}

    async def put(self, asked: str, done: AnalysisState) -> None:
        """What something failed in is looked at again. `asked` is the question as it was put."""
        if done.kind is not None and not done.failures:
            said = Analysis.model_validate({name: getattr(done, name) for name in Analysis.model_fields})
            await self.texts.put(self._key(done.target, asked), said.model_dump_json())

    def _key(self, target: str, question: str) -> str:
        return hashlib.sha256(f"analysis {json.dumps([target, question, self.versions])}".encode()).hexdigest()


Distil = Callable[[str, Reading, int], Awaitable[DistilledContext]]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Reads record, question; writes context, notes."""

    distil: Distil

    async def __call__(self, state: AnalysisState, most_tokens: int) -> AnalysisUpdate:
        record = state.record
        assert record is not None  # noqa: S101 - the edge to this node is taken only with one
        if not record.full_text():
            return {"notes": (*state.notes, "there is no text of it to take sentences from")}
        found = await self.distil(state.question, Reading(record.doc_id, record.full_text(), record.title, "[1]"), most_tokens)
        return {"context": found}
