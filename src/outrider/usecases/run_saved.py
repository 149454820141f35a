"""A run of a saved search: works, circumstances, and the comparison with the last run

A run counts once its works are stored. One that was interrupted leaves the store as it was; the next run takes its number, and a systematic
one continues after its last page.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from outrider.runtime.threads_and_loops import load_module
from outrider.saved_searches.compare import RunContents, compare_runs, find_unread_works
from outrider.saved_searches.store import SavedStore, Work
from outrider.services.systematic import begin_run, find_run_folder, new_run_folder, resume_run
from outrider.services.tracing import keep_traces_local
from outrider.settings.redact import Redactor, redact
from outrider.state.errors import KeyRejected, NothingSearchable, SearchError
from outrider.state.notices import READ
from outrider.state.pipeline import RunContext
from outrider.state.request import check_request
from outrider.state.response import SearchResponse, find_fatal
from outrider.state.saved import Delivery, Identified, RunFacts, SavedRun, SavedSearch, SourceState
from outrider.systematic_search.ledger import NoSuchRun, compute_digest, read_lines
from outrider.systematic_search.prisma import make_flow
from outrider.systematic_search.run import OtherRun, Run

if TYPE_CHECKING:
    from outrider.services import Services
    from outrider.settings.model import Settings
    from outrider.state.hits import Hit
    from outrider.state.response import SourceReport
    from outrider.systematic_search.manifest import Manifest

FAILED = frozenset({"partial", "timeout", "rate_limited", "unauthorized", "forbidden", "unavailable", "malformed"})
"""States of a source that was asked and not read."""
DECIDING = ("ranking", "reranker", "coarse_filter", "organizer", "enrich", "identity", "stars", "embedding", "llm")
"""Sections of the settings that decide what a ranked search finds."""
COMPARED = (
    "title", "abstract", "description", "authors", "year", "venue", "language", "volume", "issue", "pages", "licence", "archived",
    "citations", "stars", "url",
)  # fmt: skip
"""Fields of a hit's record. What is merged of several sources, such as tags, may differ without any change of the work."""
VERSIONS = ("preprint of", "has preprint", "version of")
MOST_LEFT_OUT = 500
OnPage = Callable[[str, int], None]
log = logging.getLogger(__name__)


class Findings(NamedTuple):
    facts: RunFacts
    works: list[Work]


async def run_saved(services: Services, store: SavedStore, saved: SavedSearch, on_page: OnPage | None = None) -> SavedRun:
    """Run a saved search, and compare what it finds with the last complete run.

    Raises `SavedBusy` while another process runs it. A search that fails raises its error, which is kept with the run.
    """
    claim = store.claim(saved)
    await asyncio.to_thread(claim.__enter__)
    try:
        run = await asyncio.to_thread(store.begin, saved, services.clock())
        try:
            if saved.kind == "search":
                findings = await _search(services, saved)
            else:
                findings = await _read_to_the_end(services, store, saved, run, on_page)
        except SearchError as error:
            problem = Redactor.from_settings(services.settings).redact(str(error))
            failed = run.model_copy(update={"status": "failed", "finished_at": services.clock(), "error": problem})
            await asyncio.to_thread(store.update, saved, failed)
            raise
        return await asyncio.to_thread(_finish, services, store, saved, run, findings)
    finally:
        await asyncio.to_thread(claim.__exit__, None, None, None)


def _finish(services: Services, store: SavedStore, saved: SavedSearch, run: SavedRun, findings: Findings) -> SavedRun:
    before = next((one for one in reversed(store.runs(saved)) if one.status == "complete"), None)
    contents = RunContents(before, store.works(saved, before.number)) if before is not None else None
    facts = _date_sources(findings.facts, run.number, contents.facts if contents else None)
    done = run.model_copy(
        update={
            "status": "complete",
            "finished_at": services.clock(),
            "works": len(findings.works),
            "facts": facts,
            "folder": "",
            "error": "",
        }
    )
    works, difference = findings.works, None
    if contents is not None:
        fresh = {content: record for work in works for content, record in work.records.items()}
        load = partial(_load, store, fresh)
        works = [*works, *find_unread_works(contents, RunContents(done, works), load)]
        difference = compare_runs(saved.name, contents, RunContents(done, works), load)
        if saved.webhook and any(work.change != "missing" for work in difference.works):
            done = done.model_copy(update={"delivery": Delivery(state="pending")})
    store.finish(saved, done, works, difference, services.settings.saved.keep_runs)
    return done


def _load(store: SavedStore, fresh: Mapping[str, dict[str, Any]], wanted: Iterable[str]) -> dict[str, dict[str, Any]]:
    contents = set(wanted)
    return {content: fresh[content] for content in contents & fresh.keys()} | store.records(contents - fresh.keys())


def _date_sources(facts: RunFacts, number: int, before: RunFacts | None) -> RunFacts:
    """With the run that last read each source: a failed one keeps what was known."""
    earlier = before.sources if before is not None else {}
    sources = {}
    for name, state in facts.sources.items():
        since = number if state.read else earlier[name].known_since if name in earlier else None
        sources[name] = state.model_copy(update={"known_since": since})
    return facts.model_copy(update={"sources": sources})


async def _search(services: Services, saved: SavedSearch) -> Findings:
    response, left_out = await _ask(services, saved)
    if fatal := find_fatal(response.failures):
        raise (KeyRejected if fatal.error == KeyRejected.__name__ else NothingSearchable)(fatal.message)
    works = await asyncio.to_thread(lambda: [_make_work(hit) for hit in response.hits])
    facts = _describe_search(services, saved, response)
    return Findings(facts.model_copy(update={"left_out": left_out}), works)


async def _ask(services: Services, saved: SavedSearch) -> tuple[SearchResponse, dict[str, str]]:
    """The answer, and the works that a rule or filter left out, by id, with the reason."""
    await services.prepare()
    pipeline = await load_module("outrider.graph.pipeline")
    left_out: dict[str, str] = {}
    state: Mapping[str, Any] = {}
    graph = pipeline.build(services.for_saved_run(), checkpointer=False)
    with keep_traces_local(services.settings):
        parts = graph.astream(check_request(saved.request), context=RunContext(), stream_mode=["updates", "values"])
        async for kind, part in parts:
            if kind == "values":
                state = part
                continue
            for update in part.values():
                left_out |= {row.doc_id: row.why for row in (update or {}).get("rejected", ())[:MOST_LEFT_OUT]}
    fields = {name: value for name, value in state.items() if name in SearchResponse.model_fields}
    return SearchResponse.model_validate(fields), left_out


def _describe_search(services: Services, saved: SavedSearch, response: SearchResponse) -> RunFacts:
    by_source: dict[str, list[SourceReport]] = {}
    for row in response.sources:
        by_source.setdefault(row.source, []).append(row)
    sources = {name: state for name, rows in sorted(by_source.items()) if (state := _describe_source(rows)) is not None}
    planned = response.strategy.queries if response.strategy else ()
    return RunFacts(
        kind="search",
        request=saved.request,
        strategy=tuple(query.text for query in planned),
        sources=sources,
        settings=list_deciding_settings(services.settings),
        versions=dict(services.versions),
        snapshot=response.snapshot,
        is_cut=response.total_found > len(response.hits),
    )


def _describe_source(rows: Sequence[SourceReport]) -> SourceState | None:
    """None for a source that is switched off."""
    asked = [row for row in rows if row.status != "off"]
    if not asked:
        return None
    failed = [row for row in asked if row.status in FAILED]
    is_cut = any(row.returned >= row.asked or (row.total or 0) > row.returned for row in asked if row.returned)
    return SourceState(
        read=not failed,
        why="; ".join(dict.fromkeys(row.message or row.status for row in failed)),
        query="; ".join(dict.fromkeys(row.query for row in asked if row.query)),
        found=sum(row.returned for row in asked),
        is_cut=is_cut,
    )


def list_deciding_settings(settings: Settings) -> dict[str, Any]:
    """Settings that decide what a ranked search finds, without defaults and secrets."""
    own, default = redact(settings), redact(type(settings)())
    return {
        f"{section}.{name}": value
        for section in DECIDING
        for name, value in own[section].items()
        if value != default[section][name] and not isinstance(value, dict)
    }


def _make_work(hit: Hit) -> Work:
    from outrider.usecases.export import make_record

    record = make_record(hit)
    fields = record.model_dump(mode="json", exclude_defaults=True)
    kept = {name: fields[name] for name in COMPARED if name in fields}
    if identifiers := dict(record.identifiers.pairs()):
        kept["identifiers"] = identifiers
    if metadata := {name: value for name, value in record.metadata.items() if name in READ}:
        kept["metadata"] = metadata
    kept = _replace_surrogates(kept)
    members = {hit.doc_id: compute_digest(kept)} | {one.doc_id: "" for one in hit.duplicates if one.doc_id != hit.doc_id}
    sources = tuple(dict.fromkeys(row.source for row in hit.found_by))
    versions = tuple(one.doc_id for one in hit.related if one.relation in VERSIONS)
    return Work(members, hit.kind, sources, versions, records={members[hit.doc_id]: kept})


def _replace_surrogates(value: Any) -> Any:
    """A service's title may hold half a character, which no file takes."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {name: _replace_surrogates(inner) for name, inner in value.items()}
    return [_replace_surrogates(inner) for inner in value] if isinstance(value, list) else value


async def _read_to_the_end(services: Services, store: SavedStore, saved: SavedSearch, run: SavedRun, on_page: OnPage | None) -> Findings:
    systematic = await _begin_or_resume(services, store, saved, run)
    async with aclosing(systematic), aclosing(systematic.pages()) as pages:
        async for page in pages:
            if on_page:
                on_page(page.source, systematic.hits)
    manifest = systematic.manifest
    assert manifest is not None  # noqa: S101 - it came to its end
    works = await asyncio.to_thread(_read_works, systematic.ledger.path)
    return Findings(_describe_protocol(saved, manifest, systematic.folder), works)


async def _begin_or_resume(services: Services, store: SavedStore, saved: SavedSearch, run: SavedRun) -> Run:
    """Resume the run that was interrupted; a new one where it cannot continue, or where the saved search was replaced."""
    request: Any = saved.request
    if run.folder:
        try:
            folder = await asyncio.to_thread(find_run_folder, services, run.folder)
            systematic = await resume_run(services, folder)
        except (NoSuchRun, OtherRun) as error:
            log.info("saved search %s begins anew: %s", saved.name, error)
        else:
            asked = systematic.request
            if asked.query == request["query"] and asked.names == tuple(request["sources"]):
                return systematic
            await systematic.aclose()
    folder = new_run_folder(services)
    await asyncio.to_thread(store.update, saved, run.model_copy(update={"folder": str(folder)}))
    return await begin_run(services, request["query"], request["sources"], syntax=request.get("syntax", "auto"), folder=folder)


def _read_works(ledger: Path) -> list[Work]:
    """The works of a ledger: hits that its end names as duplicates are one."""
    works: dict[int, Work] = {}
    for line in read_lines(ledger):
        fields = line.fields
        if line.kind == "hit":
            raw = {name: value for name, value in fields["record"].items() if name not in ("doc_id", "kind", "source", "origin", "edges")}
            if raw.get("text"):
                raw["text"] = f"sha256:{compute_digest(raw['text'])}"
            works[fields["hit"]] = Work(
                {fields["doc_id"]: fields["content"]}, fields["record"]["kind"], (fields["source"],), records={fields["content"]: raw}
            )
        elif line.kind == "duplicate":
            other, first = works.pop(fields["hit"]), works[fields["of"]]
            first.members = {**other.members, **first.members} if other.doc_id in first.members else {**first.members, **other.members}
            first.sources = tuple(dict.fromkeys((*first.sources, *other.sources)))
            first.records |= other.records
    return list(works.values())


def _describe_protocol(saved: SavedSearch, manifest: Manifest, folder: Path) -> RunFacts:
    flow, snapshot = make_flow(manifest), manifest.asked.snapshot
    sources = {}
    for source in manifest.sources:
        why = "" if source.complete else source.refused or "; ".join(source.remarks) or "it was not read to its end"
        sources[source.source] = SourceState(read=source.complete, why=why, query=source.query, found=source.hits)
    versions = dict(manifest.asked.tool) | ({"tokenizer": snapshot.tokenizer} if snapshot else {})
    return RunFacts(
        kind="systematic",
        request=saved.request,
        strategy=(manifest.asked.tree,),
        sources=sources,
        versions=versions,
        snapshot=f"{snapshot.library}@{snapshot.version}" if snapshot else None,
        result_set=str(folder),
        identified=Identified(
            by_source=dict(flow.identified),
            duplicates=flow.duplicates,
            deduplicated_by=flow.deduplicated_by,
            outside=flow.outside,
            for_screening=flow.for_screening,
            complete=flow.complete,
            missing=flow.missing,
        ),
    )
