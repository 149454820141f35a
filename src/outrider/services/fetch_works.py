"""Jobs of the kind `fetch`: works that a person chose, fetched, labelled and distilled

A work with an identifier is looked up at the services, which give its abstract. So is an address that contains one: it is never opened.
Any other address is read as a page. Works of the library that have a text are not fetched again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote

from pydantic import Field, JsonValue

from outrider.citations.chase import Chase
from outrider.ingest.pipeline import ingest
from outrider.ingest.record_ids import make_id
from outrider.ingest.targets import LINK, PAGE, FetchedTarget, RemoteSources, Target, choose_target, parse_target
from outrider.library.citation_network import find_records
from outrider.library.entity_names import parse_entity
from outrider.services.citation_queue import find_job_table, find_library_address
from outrider.services.citations import open_library
from outrider.services.distiller import distil
from outrider.services.sources import find_detailers
from outrider.state.distilling import Reading
from outrider.state.errors import BadRequest, JobError, TargetPaused
from outrider.state.model import Model
from outrider.state.notices import is_retracted, list_notices
from outrider.state.records import LIBRARY, Record
from outrider.text.sanitize import OFFLINE

if TYPE_CHECKING:
    from outrider.library.library import Library
    from outrider.services import Services
    from outrider.state.jobs import JobSteps
    from outrider.state.records import Identifiers

WORKS_A_STEP = 8
"""Works that are fetched at once, and that a killed process fetches again."""
WORKS_A_JOB = 20
"""Of more works their citations would not fit the budget of one job."""
URL = "url"
SERVICE_SCHEMES = ("openalex", "s2")
"""Ids of services, by which a work is looked up where it has no other identifier."""
MOST_ENCODED = 3
"""How often an address within an address is percent-encoded at most."""


class QueuedWork(Model):
    """A work to fetch."""

    key: str = Field(description="Its key in the network of citations.")
    kind: str = Field("", description="`doi` or another field of `Identifiers`, or `url`; empty for a work without any of them.")
    value: str = ""


class FetchRequest(Model):
    """The request of a `fetch` job."""

    target: str = Field(description="The thread, label or file that the works are fetched for.")
    label: str = Field(description="The label that its records get.")
    request: str = Field("", description="What the texts are distilled for; nothing is distilled without it.")
    works: tuple[QueuedWork, ...]


class FetchedWork(Model):
    """What became of a work."""

    key: str
    status: Literal["fetched", "in library", "excluded", "failed"]
    doc_id: str = ""
    title: str = ""
    source: str = Field("", description="The service that gave most of the record, or the reader of pages.")
    retracted: bool = False
    sentences: tuple[str, ...] = Field((), description="Sentences that answer the request, verbatim.")
    reason: str = Field("", description="Why it failed.")


class FetchResult(Model):
    """The result of a `fetch` job."""

    works: tuple[FetchedWork, ...] = ()
    citations_job: str = Field("", description="The job that reads the citations of these works.")
    remarks: tuple[str, ...] = ()


def make_queued_work(key: str, identifiers: Identifiers, url: str | None) -> QueuedWork:
    """The work by its strongest identifier that can be looked up, else by its address."""
    target = choose_target(identifiers)
    if target is None:
        own = dict(identifiers.pairs())
        target = next((Target(scheme, own[scheme]) for scheme in SERVICE_SCHEMES if scheme in own), None)
    if target is not None:
        return QueuedWork(key=key, kind=target.scheme, value=target.value)
    return QueuedWork(key=key, kind=URL if url else "", value=url or "")


def parse_work(work: QueuedWork) -> Target | None:
    """Where the work is fetched. An identifier in an address counts, also where it is percent-encoded. Raises `BadRequest`."""
    if not work.value:
        return None
    if work.kind in SERVICE_SCHEMES:
        return Target(work.kind, work.value.upper() if work.kind == "openalex" else work.value)
    if work.kind != URL:
        return parse_target(f"{work.kind}:{work.value}")
    address = work.value if LINK.match(work.value) else f"https://{work.value}"
    plain = address
    for _ in range(MOST_ENCODED):
        target = parse_target(plain)
        if (target is not None and target.scheme != PAGE) or plain == unquote(plain):
            break
        plain = unquote(plain)
    return target if target is not None and target.scheme != PAGE else parse_target(address)


async def run_fetch_job(services: Services, request: dict[str, JsonValue], steps: JobSteps) -> dict[str, JsonValue]:
    """A job of the kind `fetch`: the fields of a `FetchRequest` in, those of a `FetchResult` out.

    Raises `JobError` if no work could be fetched, and `LibraryError`.
    """
    job = FetchRequest.model_validate(request)
    works: list[FetchedWork] = []
    for start in range(0, len(job.works), WORKS_A_STEP):
        part = job.works[start : start + WORKS_A_STEP]

        async def fetch(part: Sequence[QueuedWork] = part) -> JsonValue:
            return [work.model_dump(mode="json") for work in await _fetch_works(services, job, part)]

        answer = await steps.step(f"fetch {start + 1} to {start + len(part)}", fetch)
        works += [FetchedWork.model_validate(one) for one in answer] if isinstance(answer, list) else []
        failed = sum(work.status == "failed" for work in works)
        await steps.report(f"{len(works)} of {len(job.works)} works" + (f", {failed} failed" if failed else ""))
    if works and all(work.status == "failed" for work in works):
        raise JobError(f"none of {len(works)} works could be fetched; the first: {works[0].key}: {works[0].reason}")
    ids: list[JsonValue] = [*dict.fromkeys(work.doc_id for work in works if work.doc_id)]

    async def queue() -> JsonValue:
        return await _queue_citations(services, job.target, ids)

    queued = ""
    remarks: tuple[str, ...] = ()
    if ids and services.settings.sources.offline:  # the next listing of the target with a network queues it
        remarks = (f"citations of these works were not read: services have them, {OFFLINE}",)
    elif ids and not (queued := str(await steps.step("queue citations", queue))):
        remarks = (f"the target is paused; its citations are read after: outrider jobs resume {job.target!r}",)
    fields: dict[str, JsonValue] = FetchResult(works=tuple(works), citations_job=queued, remarks=remarks).model_dump(mode="json")
    return fields


async def _queue_citations(services: Services, target: str, ids: list[JsonValue]) -> str:
    """The number of the job that reads the citations of these records; empty while the target is paused."""
    table, address = await asyncio.to_thread(find_job_table, services.settings), find_library_address(services.settings)
    try:
        return await asyncio.to_thread(table.queue, "citations", target, address, {"targets": ids})
    except TargetPaused:
        return ""


async def _fetch_works(services: Services, job: FetchRequest, works: Sequence[QueuedWork]) -> list[FetchedWork]:
    """Fetch, keep, label and distil these works. Everything again changes nothing."""
    library = await open_library(services)
    chase = await library.chase(job.target)
    excluded = set(Chase.model_validate_json(chase).excluded) if chase else set()
    wanted = [work for work in works if work.key not in excluded]
    places: dict[str, Target | None] = {}
    reasons: dict[str, str] = {}
    for work in wanted:
        try:
            places[work.key] = parse_work(work)
        except BadRequest as error:
            places[work.key], reasons[work.key] = None, str(error)
    known = await _find_known(library, places)
    missing = [target for key, target in places.items() if target is not None and key not in known]
    fetched = await _fetch_targets(services, library, missing)
    ids = known | {key: fetched.ids[target] for key, target in places.items() if target in fetched.ids}
    await library.label(list(ids.values()), [job.label])
    records = {record.doc_id: record for record in await library.fetch(list(ids.values()))}
    results = []
    for work in works:
        record, place = records.get(ids.get(work.key, "")), places.get(work.key)
        if record is not None:
            source = fetched.sources.get(place, "") if place is not None else ""
            results.append(await _describe(services, job.request, work.key, record, source))
        elif work.key in excluded:
            results.append(FetchedWork(key=work.key, status="excluded"))
        else:
            reason = reasons.get(work.key) or (fetched.reasons.get(place, "") if place else "it has neither an identifier nor an address")
            results.append(FetchedWork(key=work.key, status="failed", reason=reason))
    return results


async def _find_known(library: Library, places: Mapping[str, Target | None]) -> dict[str, str]:
    """The records that need no fetch, by key: those with a text, and those that nothing can be fetched of."""
    names = {key: _name(target) if target else key for key, target in places.items()}
    ids = await find_records(library, names)
    records = {record.doc_id: record for record in await library.fetch(sorted(set(ids.values())))}
    complete = {doc_id for doc_id, record in records.items() if record.full_text().strip()}
    return {key: doc_id for key, doc_id in ids.items() if doc_id in complete or (doc_id in records and places[key] is None)}


def _name(target: Target) -> str:
    return str(parse_entity(f"{target.scheme}:{target.value}") or target)


async def _describe(services: Services, request: str, key: str, record: Record, source: str) -> FetchedWork:
    sentences: tuple[str, ...] = ()
    if request.strip() and (text := record.full_text()).strip():
        context = await distil(services, request, [Reading(record.doc_id, text, record.title, "[1]", kind=record.kind)], bypass=False)
        sentences = tuple(unit.text for unit in context.units)
    return FetchedWork(
        key=key,
        status="fetched" if source else "in library",
        doc_id=record.doc_id,
        title=record.title,
        source=source,
        retracted=is_retracted(list_notices(record)),
        sentences=sentences,
    )


@dataclass(frozen=True, slots=True)
class _FetchedTargets:
    ids: dict[Target, str]
    """Ids of the records."""
    reasons: dict[Target, str]
    """Why there is none."""
    sources: dict[Target, str]
    """The service that gave it, or the reader of pages."""


@dataclass(frozen=True, slots=True)
class _RecordingSources(RemoteSources):
    """Remembers what was fetched, and under which target each record is stored."""

    fetched: dict[Target, FetchedTarget] = field(default_factory=dict)

    async def fetch(self, target: Target) -> FetchedTarget:
        """As `RemoteSources.fetch`. A work that was looked up by a service's own id belongs to the identifier that everybody knows."""
        fetched = await RemoteSources.fetch(self, target)
        if target.scheme in SERVICE_SCHEMES and (better := choose_target(fetched.record.identifiers)):
            fetched = replace(fetched, target=better)
        self.fetched[target] = fetched
        return fetched


async def _fetch_targets(services: Services, library: Library, targets: Sequence[Target]) -> _FetchedTargets:
    if not targets:
        return _FetchedTargets({}, {}, {})
    if services.settings.sources.offline:
        return _FetchedTargets({}, dict.fromkeys(targets, f"it must be fetched, {OFFLINE}"), {})
    await services.prepare()
    others = tuple(source for source in services.sources if source.name != LIBRARY)
    sources = _RecordingSources(others, services.pages, find_detailers(others), services.settings.run.run_timeout_s)
    embedder, why_not_embedded = await services.embedder_at_hand(library)
    unique = list(dict.fromkeys(targets))
    report = await ingest(library, [], targets=unique, remote=sources, embedder=embedder, off=why_not_embedded)
    stored = {target: sources.fetched[target].target for target in unique if target in sources.fetched}
    found = await find_records(library, {str(target): _name(target) for target in stored.values()})
    ids = {target: found.get(str(own)) or make_id(str(own), "") for target, own in stored.items()}
    reasons = {file.path: "; ".join(file.reasons) for file in report.files}
    failed = {target: reasons.get(str(target), "") or "no service has it" for target in unique if target not in ids}
    return _FetchedTargets(ids, failed, {target: fetched.record.source for target, fetched in sources.fetched.items()})
