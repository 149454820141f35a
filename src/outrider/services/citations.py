"""Parts of the graph of citations: services that report them, the library, works of targets"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue, ValidationError

from outrider.citations.build_graph import GraphBuilder, LinkStore, Seed, find_lookups
from outrider.citations.match_references import make_reference
from outrider.ingest.targets import PAGE, parse_target
from outrider.library.citation_network import as_paper, find_records
from outrider.library.citation_tables import LinkCounts, work_name
from outrider.library.entity_names import parse_entity
from outrider.linkage.identifiers import find_openalex_work
from outrider.nodes.citations import Citations
from outrider.runtime.tape import without_port
from outrider.state.citations import CitationLink, CitationsRequest, CitationsResult, CitationsState
from outrider.state.errors import BadRequest, LibraryError, SourceOff, explain_wrong_fields
from outrider.state.jobs import JobSteps
from outrider.state.ports import BatchSource
from outrider.state.records import Identifiers, Paper, Record

if TYPE_CHECKING:
    from outrider.library.library import Library
    from outrider.services import Services


def make_citations(services: Services) -> Citations:
    """The node over the library of the settings, which is created where it is missing."""

    async def find(targets: Sequence[str]) -> tuple[tuple[Seed, ...], tuple[str, ...]]:
        return await find_seeds(await open_library(services), targets)  # a step, too

    async def make_builder(state: CitationsState, steps: JobSteps) -> GraphBuilder:
        sources = services.link_sources
        lookups = services.wrap_all("lookup", lambda: find_lookups(map(without_port, sources)), BatchSource)
        is_replay = services.ports is not None and services.ports.is_replay
        store: LinkStore = (
            NoStore() if is_replay else (await open_library(services)).citations
        )  # only steps write, whose answers are recorded
        return GraphBuilder(sources, lookups, store, state.budget, steps, services.clock, state.directions)

    return Citations(find, make_builder)


class NoStore:
    """In a replayed run no step runs, so nothing is written."""

    async def add(self, works: Sequence[Paper], links: Sequence[CitationLink]) -> LinkCounts:
        raise NotImplementedError


@dataclass(slots=True)
class RecordedSteps:
    """Steps whose answers a recorded run keeps; their progress is only shown."""

    inner: JobSteps
    port: JobSteps

    @classmethod
    def over(cls, services: Services, steps: JobSteps) -> JobSteps:
        return steps if services.ports is None else cls(steps, services.wrap("steps", lambda: steps, JobSteps))

    async def step(self, name: str, work: Callable[[], Awaitable[JsonValue]]) -> JsonValue:
        return await self.port.step(name, work)

    async def report(self, progress: str) -> None:
        await self.inner.report(progress)


async def build_citation_graph(services: Services, request: CitationsRequest, steps: JobSteps) -> CitationsResult:
    """The same without LangGraph, as a job runs it: `steps` keep its answers. Raises `SearchError`."""
    if services.settings.sources.offline:
        raise SourceOff("citations come from services, and nothing may be contacted here (sources.offline)")
    state = CitationsState(targets=request.targets, directions=request.directions, budget=request.budget)
    update = await make_citations(services).build(state, steps)
    return CitationsResult(targets=request.targets, **update)


async def run_citation_job(services: Services, request: dict[str, JsonValue], steps: JobSteps) -> dict[str, JsonValue]:
    """A job of the kind `citations`: the fields of a `CitationsRequest` in, those of a `CitationsResult` out."""
    result = await build_citation_graph(services, check_citations_request(request), steps)
    fields: dict[str, JsonValue] = result.model_dump(mode="json")
    return fields


def check_citations_request(request: Mapping[str, Any] | CitationsRequest) -> CitationsRequest:
    """Validate a request; `BadRequest` names every wrong field."""
    try:
        return CitationsRequest.model_validate(request)
    except ValidationError as error:
        raise BadRequest(explain_wrong_fields(error.errors(), CitationsRequest.model_fields)) from error


async def open_library(services: Services) -> Library:
    """The library of the settings, created where it is missing. Raises `LibraryError` where another one is searched, or none."""
    if not services.has_own_library:
        raise LibraryError("citations are written to the library of the settings, which is switched off here (sources.library.enabled)")
    if not services.is_library_open:
        (await services.new_library()).close()  # creates a missing one
    return await services.library()


async def find_seeds(library: Library, targets: Sequence[str]) -> tuple[tuple[Seed, ...], tuple[str, ...]]:
    """The works of targets, each once, and the targets that name none.

    A target is the id of a record, or an identifier, which may be that of a record.
    """
    named = {target: parse_identifier(target) for target in dict.fromkeys(targets)}
    ids = await find_records(library, {target: entity for target, (entity, _) in named.items()})
    records = {record.doc_id: record for record in await library.fetch(sorted(set(ids.values())))}
    seeds: dict[str, Seed] = {}
    missing = []
    for target, (_, identifiers) in named.items():
        record = records.get(ids.get(target, ""))
        if record is not None:
            seeds.setdefault(record.doc_id, Seed(record.doc_id, as_paper(record), _list_references(record)))
        elif identifiers is not None:
            paper = Paper(doc_id=target, identifiers=identifiers, source="")
            seeds.setdefault(work_name(paper), Seed(work_name(paper), paper))
        else:
            missing.append(target)
    return tuple(seeds.values()), tuple(missing)


def parse_identifier(target: str) -> tuple[str, Identifiers | None]:
    """The name that an identifier has in the graph, and the identifier; the target itself and None for anything else."""
    if openalex := find_openalex_work(target):
        return str(parse_entity(f"openalex:{openalex}")), Identifiers(openalex=openalex)
    text = f"doi:{target}" if target.startswith("10.") else target
    try:
        parsed = parse_target(text)
    except BadRequest:
        return target, None
    if parsed is not None and parsed.scheme in Identifiers.model_fields:
        return str(parse_entity(f"{parsed.scheme}:{parsed.value}")), Identifiers(**{parsed.scheme: parsed.value})
    scheme, _, value = text.partition(":")
    if scheme in ("openalex", "s2") and value and (entity := parse_entity(text)):
        return str(entity), Identifiers(**{scheme: value.upper() if scheme == "openalex" else value})
    return (target, None) if parsed is None or parsed.scheme == PAGE else (text, None)


def _list_references(record: Record) -> tuple[Paper, ...]:
    """References of its full text that name no identifier, as the reader of JATS keeps them."""
    listed = record.metadata.get("references_without_id")
    fields = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    return tuple(make_reference(one, number) for number, one in enumerate(fields))
