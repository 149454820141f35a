"""Stages of an analysis: subject, surroundings, ratings, evidence; and cached analyses.

`Subject` looks up record, facts and full text; `Surroundings` finds alternatives, references, citations and related code; `Ratings` rates a
repository on six dimensions, four by formulas from metadata, two by a model; `Evidence` quotes sentences.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import JsonValue, ValidationError

from outrider.nodes.enrich.lookup_by_identifier import look_up
from outrider.nodes.fine_scorer.dimensions import PARTS, Facts, dimensions
from outrider.nodes.fine_scorer.judgement import CallResult, Question
from outrider.nodes.fine_scorer.repositories import RepositoryScorer
from outrider.nodes.translator.rule_plan import extract_concepts, extract_keywords
from outrider.runtime.tape import read_monotonic
from outrider.settings.model import AnalyzeSettings
from outrider.state.analysis import Analysis, AnalysisState, AnalysisUpdate, Citing, Depending, Neighbour, Rating
from outrider.state.chat import Budget
from outrider.state.distilling import Reading
from outrider.state.errors import KeyRejected, NothingSearchable, SearchError, SourceError
from outrider.state.full_text import KEY, LOCATIONS, FullText, TextFetcher, read_origin
from outrider.state.notices import CHECKS, describe_notices, list_notices
from outrider.state.ports import Clock, Detailer, Source, SourceAnswer, SourceQuery, TextCache
from outrider.state.records import LIBRARY, Paper, Record, Repository
from outrider.state.response import DistilledContext, Failure

FACTS = (
    "authors", "year", "venue", "citations", "stars", "forks", "language", "licence", "archived", "is_fork", "updated_at", "tags", "mesh",
)  # fmt: skip
"""Fields of a record that are facts, besides its metadata."""
NOT_FACTS = frozenset(
    {
        "notices", "updated_by", "update_to", "tldr", "filled_from", "record", "records", "retracted_reported_by", CHECKS, KEY, LOCATIONS,
    }
)  # fmt: skip
"""Metadata that are texts or shown elsewhere."""
MOST_TREE = 100
LOOKUP_SHARE = 0.5
"""Share of the remaining time."""


class WorkIdentifier(NamedTuple):
    """A scheme of `Identifiers` and a normalised value."""

    scheme: str
    value: str


@dataclass(frozen=True, slots=True)
class Subject:
    """Reads target, question, fresh; writes record, facts, dependencies, retraction, notices, full_text, or a whole cached analysis."""

    parse_target: Callable[[str], WorkIdentifier]
    """Raises `BadRequest`."""
    sources: Sequence[Source]
    detailers: Mapping[str, Detailer]
    depending: Depending | None
    find_fetcher: Callable[[], Awaitable[tuple[TextFetcher | None, str]]]
    """The reader of open full texts, or None, and why."""
    text_s: float
    """Time limit for the text."""
    cache: AnalysisCache | None

    async def __call__(self, state: AnalysisState, left_s: float) -> AnalysisUpdate:
        if self.cache and not state.fresh and (cached := await self.cache.get(state)):
            return cached
        until, (scheme, value) = read_monotonic("subject") + left_s, self.parse_target(state.target)
        result = await look_up(self.sources, scheme, value, left_s * LOOKUP_SHARE)
        if result.record is None and not result.sources:
            why = f"no source that is switched on knows {scheme}, or sources.offline is on"
            raise NothingSearchable(f"{scheme}:{value} cannot be looked up: {why}")
        if result.record is None:
            problems = f" ({'; '.join(result.problems)})" if result.problems else ""
            if set(result.unreachable) >= set(result.sources):
                verb = "is" if len(result.sources) == 1 else "are"
                raise NothingSearchable(
                    f"{scheme}:{value} cannot be looked up: {', '.join(result.sources)} {verb} unreachable (no network?)"
                )
            raise NothingSearchable(f"{scheme}:{value} is not known to {', '.join(result.sources)}{problems}")
        record, notes = result.record, list(result.problems)
        dependencies: tuple[str, ...] = ()
        if isinstance(record, Repository):
            if detailer := self.detailers.get(record.source):
                details = await detailer.details([record], (until - read_monotonic("subject")) / 2)
                record = details.records[0]
                notes += [f"{detailer.name}: {details.message}"] if details.message else []
            if self.depending and record.identifiers.github:
                dependencies, problem = await self._dependencies(
                    self.depending, record.identifiers.github, until - read_monotonic("subject")
                )
                notes += [problem] if problem else []
        record, full_text = await self._add_full_text(record, until - read_monotonic("subject"))
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
            "notices": list_notices(record),
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
        """A paper with its open full text, and where the text comes from or why there is none."""
        if record.text or not isinstance(record, Paper):
            origin = read_origin(record)
            own = f"{record.source}, {len(record.text):,} characters" if record.text else "there is none"
            return record, describe_text(origin) if origin else own
        fetcher, why_not = await self.find_fetcher()
        if fetcher is None:
            return record, f"none: {why_not}"
        ((read, report),) = await fetcher.fetch([record], max(0.1, min(self.text_s, left_s / 2)))
        if report.full_text:
            return read, describe_text(report.full_text)
        tried = "; ".join(f"{one.url}: {one.reason}" for one in report.attempts)
        return record, "; ".join(filter(None, (f"none: {tried or report.reason}", *report.notes)))


def describe_text(text: FullText) -> str:
    return f"{text.describe()}, {text.characters:,} characters"


def collect_facts(record: Record) -> dict[str, JsonValue]:
    """What sources say about the work, by name, without empty values."""
    fields = record.model_dump(mode="json", include=set(FACTS), exclude_defaults=True)
    metadata = {name: value for name, value in record.metadata.items() if name not in NOT_FACTS}
    if isinstance(tree := metadata.get("tree"), list):
        metadata["tree"] = tree[:MOST_TREE]
    facts = {**fields, **metadata, "identifiers": dict(record.identifiers.pairs())}
    return {name: facts[name] for name in sorted(facts) if facts[name] not in (None, "", [], {})}


def describe_retraction(record: Record) -> str:
    """Its notices of retraction and withdrawal on one line; empty for a sound work, and for the notice of another work's retraction."""
    return describe_notices(notice for notice in list_notices(record) if notice.kind in ("retracted", "withdrawn"))


PATIENCE_S = 1.0
"""A slower cache is treated as a miss."""
NOT_CACHED = {"target", "age_s", "timings_ms", "execution_time_ms", "usage"}


@dataclass(frozen=True, slots=True)
class AnalysisCache:
    """Earlier analyses of the same work with the same question, as long as cached answers are fresh."""

    texts: TextCache
    fresh_s: float
    versions: Callable[[], str]
    """Model, settings and version: part of the key. Read anew, since a served model may be named after the graph is built."""

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
        return hashlib.sha256(f"analysis {json.dumps([target, question, self.versions()])}".encode()).hexdigest()


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


NODE = "ratings"
BY_MODEL = ("documentation", "ease_of_use")
NO_PAPER = "only repositories are rated on dimensions"


@dataclass(frozen=True, slots=True)
class Ratings:
    """Reads record, question; writes ratings, relevance, usage, failures, notes. Nothing for a paper."""

    scorer: RepositoryScorer | None
    why_no_model: str
    clock: Clock

    async def __call__(self, state: AnalysisState, budget: Budget) -> AnalysisUpdate:
        if not isinstance(state.record, Repository):
            return {"notes": (*state.notes, NO_PAPER)}
        result = CallResult((None,))
        if self.scorer is not None:
            try:
                result = await self.scorer.judge(state.record, Question(state.question), budget)
            except KeyRejected as error:
                result = CallResult((None,), error)
        judgement = result.works[0]
        ratings = rate_by_metadata(state.record, self.clock())
        if judgement is None:
            missing = "a model that could judge it" if self.scorer is None else "an answer of the model"
            ratings += [Rating(dimension=name, score=None, missing=(missing,), by="model") for name in BY_MODEL]
        else:
            radar = {str(entry["dimension"]): entry for entry in judgement.radar}
            for name in BY_MODEL:
                score, reason = radar[name].get("score"), str(radar[name].get("reason") or "")
                known = score if isinstance(score, int | float) else None
                ratings.append(Rating(dimension=name, score=known, because=(reason,) if reason else (), by="model"))
        failures = (Failure(node=NODE, error=type(result.error).__name__, message=str(result.error)),) if result.error else ()
        return {
            "ratings": tuple(sorted(ratings, key=lambda rating: rating.dimension)),
            "relevance": judgement.scores.get("relevance") if judgement else None,
            "usage": budget.spent,
            "failures": (*state.failures, *failures),
            "notes": state.notes if self.scorer else (*state.notes, f"no model judged: {self.why_no_model}"),
        }


def rate_by_metadata(record: Repository, now: float) -> list[Rating]:
    """The four dimensions from metadata, with each part of the mean; `now` in seconds since the epoch."""
    facts = Facts(record, now)
    ratings: list[Rating] = []
    for name, dimension in dimensions(record, now).items():
        if name == "maintenance" and record.archived:
            ratings.append(Rating(dimension=name, score=0.0, because=("it is archived",)))
            continue
        parts = ((figure, part.value(facts, figure)) for figure, part in PARTS[name].items())
        because = tuple(f"{figure} {facts.value(figure)}: {value:.2f}" for figure, value in parts if value is not None)
        score = None if dimension.score is None else round(dimension.score, 2)
        ratings.append(Rating(dimension=name, score=score, because=because, missing=dimension.missing))
    return ratings
