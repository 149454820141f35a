"""The library over HTTP: its records, additions with their progress, and decisions.

Routes that change something are off with `serve.read_only`. Files arrive by `request_limits.UploadReceiver`.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import Field

from outrider.distiller.structure.block import Block
from outrider.ingest.file_changes import UPLOAD
from outrider.ingest.installed_packages import ORIGIN
from outrider.ingest.pipeline import IngestProgress, OnProgress
from outrider.ingest.readers.select_reader import BY_CONTENT, BY_SUFFIX, XML_SUFFIXES
from outrider.ingest.report import IngestReport
from outrider.interfaces.http.problems import Refusal, make_problem, refuse_field, refuse_full_disk, translate_error
from outrider.interfaces.http.request_limits import FILE_TYPE
from outrider.interfaces.http.rest import read_owner
from outrider.interfaces.http.systematic import LINES, Lines, format_line
from outrider.library.browse import Order, RecordQuery
from outrider.state.errors import BadRequest, LibraryMissing, SearchError, is_disk_full
from outrider.state.filters import And, Compare, Filter
from outrider.state.model import Model
from outrider.state.notices import list_notices
from outrider.state.records import Kind, Record
from outrider.text.readable import Run, name_cells, read_plainly, split_inline
from outrider.usecases.code_links import WorkLinks, get_code_links, queue_code_links
from outrider.usecases.deduplicate import UnsurePair, find_unsure_pairs, record_decision
from outrider.usecases.full_text import afetch_full_text, queue_full_text, select_works
from outrider.usecases.ingest import Upload, add_identifiers, add_upload
from outrider.usecases.library import (
    MAX_IDS,
    MAX_LABEL_CHARS,
    MAX_LABELS,
    describe_contents,
    find_related,
    label_records,
    list_records,
    read_record,
    remove_records,
    split_text,
)

if TYPE_CHECKING:
    from outrider.interfaces.http.request_limits import Admission
    from outrider.services import Services

BASE = "/api/library"
FILES = f"{BASE}/files"
MAX_PAGE, MAX_TEXT, MAX_TARGETS, MAX_ID_CHARS = 100, 1_000, 500, 1_000
MAX_OFFSET = 10**9
MAX_TEXTS = 20
"""Works of one request that waits for their full texts."""
MAX_NAMES = 10
"""Ids and identifiers of one work."""
PAIRS = 50
"""Doubtful pairs of one answer."""
PROGRESS_S = 0.1
"""Between two lines of progress."""
LEAD_CHARS = 400
"""Of an abstract in a list."""
READ_ONLY = Refusal(403, "read-only", "this server does not change its library (serve.read_only)")
BRIEF_FIELDS = {"doc_id", "kind", "title", "authors", "year", "venue", "url", "identifiers", "tags", "source", "citations", "stars"}

LINK_TARGET = "A record by its id, a DOI, an arXiv number, or a repository as owner/name."
DocId = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]
Ids = Annotated[tuple[DocId, ...], Field(min_length=1, max_length=MAX_IDS)]
Label = Annotated[str, Field(min_length=1, max_length=MAX_LABEL_CHARS)]


class RecordsQuery(Model):
    """Which records to list, and which page of them."""

    text: str = Field("", max_length=MAX_TEXT, description="Every word must be part of a title, name, keyword, label, year or origin.")
    label: str = Field("", max_length=MAX_LABEL_CHARS)
    kind: Kind | None = None
    year: int | None = Field(None, ge=-9_999, le=9_999)
    year_to: int | None = Field(None, ge=-9_999, le=9_999, description="With `year`, the last one.")
    order: Order = "year"
    limit: int = Field(20, ge=1, le=MAX_PAGE)
    offset: int = Field(0, ge=0, le=MAX_OFFSET)

    def make_filter(self) -> Filter | None:
        parts: list[Filter] = [Compare("kind", "$eq", self.kind)] if self.kind else []
        if self.year is not None:
            last = self.year if self.year_to is None else self.year_to
            parts += [Compare("year", "$gte", self.year), Compare("year", "$lte", last)]
        return And(tuple(parts)) if parts else None


class TargetsBody(Model):
    """Identifiers and links to add."""

    targets: tuple[Annotated[str, Field(max_length=MAX_ID_CHARS)], ...] = Field(
        min_length=1, max_length=MAX_TARGETS, description="`doi:`, `arxiv:`, `pmid:`, `pmcid:`, `github:owner/name`, or a link."
    )


class TextsBody(Model):
    """Records whose open full texts are fetched: by ids, DOIs, PMIDs or arXiv numbers, or by a label."""

    ids: Annotated[tuple[DocId, ...], Field(max_length=MAX_IDS)] = ()
    label: str = Field("", max_length=MAX_LABEL_CHARS)
    again: bool = Field(False, description="Also look for better forms of texts that were fetched.")
    dry_run: bool = Field(False, description="Only say which works would be asked for.")
    queue: bool = Field(False, description="Queue it as a background job; the answer has its number.")


class IdsBody(Model):
    """Records by their ids."""

    ids: Ids


class LabelsBody(IdsBody):
    """Labels to add to records, and to remove from them."""

    add: tuple[Label, ...] = Field((), max_length=MAX_LABELS)
    remove: tuple[Label, ...] = Field((), max_length=MAX_LABELS)


class DecisionBody(Model):
    """A decision about two records."""

    decision: Literal["same", "different", "undo"] = Field(description="Whether they are one work; undo takes back what was decided.")
    ids: Annotated[tuple[DocId, DocId], Field(description="The two records.")]
    why: str = Field("", max_length=500)


WHAT: dict[str, Literal["merge", "split", "forget"]] = {"same": "merge", "different": "split", "undo": "forget"}


@dataclass(slots=True)
class LibraryRoutes:
    """Handlers over the library of the services."""

    services: Services
    admission: Admission
    _pairs: tuple[str, list[UnsurePair]] = field(default=("", []))
    """A version of library and decisions, and its doubtful pairs."""

    async def contents(self) -> JSONResponse:
        """What the library holds: kinds, years, labels, vectors, size, problems; also where there is none yet."""
        settings = self.services.settings
        fields: dict[str, Any] = {
            "exists": False,
            "writable": not settings.serve.read_only,
            "online": not settings.sources.offline,
            "max_bytes": settings.ingest.max_bytes,
            "suffixes": sorted({*BY_SUFFIX, *BY_CONTENT, *XML_SUFFIXES}),
        }
        try:
            contents = await describe_contents(self.services)
        except LibraryMissing:
            return JSONResponse(fields)
        fields |= {"exists": True, "years": contents.years, "labels": contents.labels, "problem": contents.problem}
        return JSONResponse(fields | dataclasses.asdict(contents.info))

    async def records(self, page: Annotated[RecordsQuery, Query()]) -> JSONResponse:
        """Records of the library, a page at a time, without their texts."""
        query = RecordQuery(page.text, page.label.strip(), page.make_filter(), page.order)
        found = await list_records(self.services, query, page.limit, page.offset)
        rows = [_describe(record, found.labels.get(record.doc_id, ())) for record in found.records]
        return JSONResponse({"total": found.total, "offset": page.offset, "records": rows})

    async def record(
        self,
        doc_id: Annotated[str, Query(alias="id", min_length=1, max_length=MAX_ID_CHARS)],
        part: Annotated[int, Query(ge=1, le=MAX_OFFSET, description="Of a long text.")] = 1,
    ) -> JSONResponse:
        """One record with a part of its text, as blocks: headings, paragraphs, items, code."""
        try:
            stored = await read_record(self.services, doc_id)
        except BadRequest:
            raise Refusal(404, "no-such-record", "the library holds no such record; it may have been removed") from None
        parts = await asyncio.to_thread(split_text, stored.record.text)
        if part > max(1, len(parts)):
            raise refuse_field("part", f"this text has {len(parts):,} parts")
        blocks = [
            {"kind": block.kind, "level": block.level, "parts": [run._asdict() for run in _read_runs(block, text)]}
            for block, text in (parts[part - 1] if parts else ())
        ]
        record = stored.record
        fields = record.model_dump(mode="json", exclude={"text", "edges"}, exclude_defaults=True)
        about: dict[str, Any] = {
            "kind": record.kind,
            "labels": stored.labels,
            "origin": _name_origin(record.origin),
            "embedded": stored.vector is not None,
        }
        abstract = [text for one in (record.abstract, record.description) if (text := read_plainly(one))]
        about |= {"notices": _describe_notices(record)}
        texts = {"blocks": blocks, "part": part, "parts": max(1, len(parts)), "characters": len(record.text), "lead": abstract}
        return JSONResponse(fields | about | texts)

    async def list_related(
        self,
        ids: Annotated[
            list[DocId],
            Query(
                alias="id",
                min_length=1,
                max_length=MAX_NAMES,
                description="A record by its id, DOI, PMID or arXiv number; of several the first that the library has.",
            ),
        ],
        limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 10,
    ) -> JSONResponse:
        """Records that share works, authors, subjects or meaning with one, best first, each with the reason."""
        for doc_id in ids:
            try:
                found = await find_related(self.services, doc_id, limit)
            except BadRequest:
                continue
            rows = [{**_describe(one.record, ()), "why": one.why} for one in found.related]
            return JSONResponse({"record": _describe(found.record, ()), "related": rows})
        raise Refusal(404, "no-such-record", "the library holds no such record")

    async def list_links(self, doc_id: Annotated[DocId, Query(alias="id", description=LINK_TARGET)]) -> WorkLinks:
        """The repositories of a paper, or the papers of a repository, with evidence; alive code before dead code."""
        try:
            return await get_code_links(self.services, doc_id)
        except BadRequest:
            raise Refusal(404, "no-such-record", "the library holds no such work, and no link names it") from None

    async def read_links(self, body: IdsBody) -> JSONResponse:
        """Queue a background job that reads the works' repositories at GitHub."""
        require_writable(self.services)
        return JSONResponse({"job": await queue_code_links(self.services, body.ids)}, 202)

    async def add_file(
        self, request: Request, name: Annotated[str, Query(max_length=MAX_ID_CHARS, description="Its suffix says how it is read.")]
    ) -> StreamingResponse:
        """Read one file into the library, as `outrider ingest` does. Lines: `progress`, then `report`, or `problem` if it broke off."""
        upload: Upload = request.state.upload
        return await self._stream(request, partial(add_upload, self.services, upload))

    async def add_targets(self, request: Request, body: TargetsBody) -> StreamingResponse:
        """Look identifiers up and add their records. Lines as for a file."""
        require_writable(self.services)
        return await self._stream(request, partial(add_identifiers, self.services, body.targets))

    async def fetch_texts(self, request: Request, body: TextsBody) -> JSONResponse:
        """Fetch open full texts and keep them with licence and place, and report each work: what was tried, and why it was not read.

        Without `queue`, at most 20 works, so that the answer comes in time.
        """
        if not body.dry_run:
            require_writable(self.services)
        if body.queue:
            owner = read_owner(request)
            name = f"label:{body.label}" if body.label else "full texts"
            target = f"{owner}/{name}" if owner else name
            queued = await queue_full_text(self.services, body.ids, target=target, label=body.label, again=body.again)
            return JSONResponse(queued.model_dump(mode="json"))
        library = await self.services.library()
        chosen = await select_works(library, body.ids, label=body.label)
        if len(chosen.ids) > MAX_TEXTS and not body.dry_run:
            raise refuse_field("ids", f"these are {len(chosen.ids):,} works; more than {MAX_TEXTS} are queued with queue: true")
        with self.admission.admit():
            async with self.admission.slot():
                options = {"label": body.label, "again": body.again, "dry_run": body.dry_run}
                report = await afetch_full_text(*body.ids, **options, services=self.services)  # type: ignore[arg-type]
        return JSONResponse(report.model_dump(mode="json"))

    async def _stream(self, request: Request, work: Callable[[OnProgress], Awaitable[IngestReport]]) -> StreamingResponse:
        async with AsyncExitStack() as resources:
            resources.enter_context(self.admission.admit())
            await resources.enter_async_context(self.admission.slot())
            return Lines(_stream_progress(work, str(request.state.request_id)), resources.pop_all())
        raise AssertionError  # for type checkers: a stack may suppress exceptions, and this one does not

    async def remove(self, body: IdsBody) -> JSONResponse:
        """Remove records. Adding their files again restores them."""
        require_writable(self.services)
        removed = await remove_records(self.services, body.ids)
        return JSONResponse({"removed": removed.titles, "unknown": removed.unknown})

    async def label(self, body: LabelsBody) -> JSONResponse:
        """Add labels to records, and remove others. Records do not change, and adding their files again keeps their labels."""
        require_writable(self.services)
        labels = await label_records(self.services, body.ids, body.add, body.remove)
        return JSONResponse({"labels": labels, "unknown": [doc_id for doc_id in body.ids if doc_id not in labels]})

    async def check(self) -> JSONResponse:
        """Read every record and index, and list the problems."""
        with self.admission.admit():
            async with self.admission.slot():
                problems = await (await self.services.library()).check()
        return JSONResponse({"sound": not problems, "problems": problems})

    async def duplicates(self) -> JSONResponse:
        """Pairs that may be one work and stay apart, the most likely first, and the decisions so far. Reads every record."""
        library = await self.services.library()
        log = await library.decisions()
        version = f"{await library.snapshot()}/{len(log)}"
        if self._pairs[0] != version:
            with self.admission.admit():
                async with self.admission.slot():
                    self._pairs = version, await find_unsure_pairs(self.services)
        pairs = self._pairs[1]
        decisions = [one.model_dump(mode="json") for one in log[-PAIRS:]]
        named = [doc_id for pair in pairs[:PAIRS] for doc_id in (pair.one, pair.other)] + [name for one in decisions for name in one["ids"]]
        records = {record.doc_id: _describe(record, ()) for record in await library.brief(list(dict.fromkeys(named)))}
        listed = [
            {"ids": [pair.one, pair.other], "score": round(pair.score, 2), "why": pair.why}
            for pair in pairs[:PAIRS]
            if pair.one in records and pair.other in records
        ]
        return JSONResponse({"total": len(pairs), "pairs": listed, "records": records, "decisions": decisions})

    async def decide(self, request: Request, body: DecisionBody) -> JSONResponse:
        """Whether two records are one work, for every later search; or undo that."""
        require_writable(self.services)
        recorded = await record_decision(self.services, WHAT[body.decision], body.ids, read_owner(request) or None, body.why)
        return JSONResponse({**recorded.decision.model_dump(mode="json"), "unknown": recorded.unknown})


def require_writable(services: Services) -> None:
    """Raise a `Refusal` where the server does not change its library."""
    if services.settings.serve.read_only:
        raise READ_ONLY


def _describe(record: Record, labels: tuple[str, ...]) -> dict[str, Any]:
    fields = record.model_dump(mode="json", include=BRIEF_FIELDS, exclude_defaults=True)
    lead = read_plainly((record.abstract or record.description or record.text)[: LEAD_CHARS * 2])[:LEAD_CHARS]
    notices = {"notices": notices} if (notices := _describe_notices(record)) else {}
    return {"kind": record.kind, **fields, "labels": labels, "origin": _name_origin(record.origin), "lead": lead, **notices}


def _describe_notices(record: Record) -> list[dict[str, Any]]:
    return [notice.model_dump(mode="json", exclude_defaults=True) for notice in list_notices(record)]


def _read_runs(block: Block, text: str) -> tuple[Run, ...]:
    if block.kind == "code":
        return (Run(text, is_code=True),)
    return split_inline(name_cells(block.introduced_by, text) if block.kind == "row" and "|" in text else text)


def _name_origin(origin: str | None) -> str:
    """The name of a file, without its folders; an identifier or link as it is."""
    if origin and (origin.startswith(UPLOAD) or Path(origin).is_absolute()):
        return Path(origin).name
    return "the installed packages" if origin == ORIGIN else origin or ""


async def _stream_progress(work: Callable[[OnProgress], Awaitable[IngestReport]], request_id: str) -> AsyncGenerator[str, None]:
    """Progress while there is some, then the report. Closing it stops the work, which keeps what it has read."""
    latest: list[IngestProgress] = []
    task = asyncio.ensure_future(work(latest.append))
    try:
        yield format_line(progress={})
        while not task.done():
            await asyncio.wait({task}, timeout=PROGRESS_S)
            if latest:
                yield format_line(progress=_describe_progress(latest[-1]))
                latest.clear()
        yield format_line(report=task.result().model_dump(mode="json", exclude={"gone_elsewhere"}))
    except SearchError as error:
        yield _format_problem(translate_error(error), request_id)
    except OSError as error:
        if not is_disk_full(error):
            raise
        yield _format_problem(refuse_full_disk(), request_id)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _format_problem(refusal: Refusal, request_id: str) -> str:
    return format_line(problem=make_problem(refusal, request_id).model_dump(mode="json", exclude_defaults=True))


def _describe_progress(progress: IngestProgress) -> dict[str, Any]:
    """Without paths of this machine."""
    current = progress.current.name if isinstance(progress.current, Path) else progress.current
    return {**dataclasses.asdict(progress), "current": current}


Responses = dict[int | str, dict[str, Any]]
EXAMPLE_LINES = """{"progress": {"files_done": 0, "files_total": 1, "records": 500, "current": "refs.ris"}}
{"report": {"added": 512, "updated": 0, "unchanged": 0, "skipped": 0, "failed": 1, "files": [{"path": "refs.ris", "status": "partial"}]}}
"""
PROGRESS_RESPONSES: Responses = {
    200: {"content": {LINES: {"schema": {"type": "string"}, "example": EXAMPLE_LINES}}, "description": "Lines of JSON."}
}
FILE_BODY = {"requestBody": {"required": True, "content": {FILE_TYPE: {"schema": {"type": "string", "format": "binary"}}}}}


def make_router(handlers: LibraryRoutes) -> APIRouter:
    router = APIRouter(tags=["library"])
    add = router.add_api_route
    add(f"{BASE}/contents", handlers.contents, methods=["GET"], summary="What the library holds")
    add(f"{BASE}/records", handlers.records, methods=["GET"], summary="Records of the library")
    add(f"{BASE}/record", handlers.record, methods=["GET"], summary="One record with its text")
    add(f"{BASE}/related", handlers.list_related, methods=["GET"], summary="Records related to one")
    add(f"{BASE}/links", handlers.list_links, methods=["GET"], summary="Code of a paper, papers of a repository")
    add(f"{BASE}/links", handlers.read_links, methods=["POST"], summary="Read repositories for their papers", status_code=202)
    add(
        FILES, handlers.add_file, methods=["POST"], summary="Add a file", response_class=StreamingResponse,
        responses=PROGRESS_RESPONSES, openapi_extra=FILE_BODY,
    )  # fmt: skip
    add(
        f"{BASE}/targets", handlers.add_targets, methods=["POST"], summary="Add identifiers", response_class=StreamingResponse,
        responses=PROGRESS_RESPONSES,
    )  # fmt: skip
    add(f"{BASE}/full-texts", handlers.fetch_texts, methods=["POST"], summary="Fetch open full texts")
    add(f"{BASE}/remove", handlers.remove, methods=["POST"], summary="Remove records")
    add(f"{BASE}/labels", handlers.label, methods=["POST"], summary="Label records")
    add(f"{BASE}/check", handlers.check, methods=["POST"], summary="Check the library")
    add(f"{BASE}/duplicates", handlers.duplicates, methods=["GET"], summary="Doubtful duplicates")
    add(f"{BASE}/decisions", handlers.decide, methods=["POST"], summary="Decide on two records")
    return router
