"""The tool `systematic`: exact runs in pages, and their ledgers and exports as resources."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Sequence
from contextlib import aclosing
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp_types import CallToolResult, ContentBlock
from pydantic import Field

from outrider.interfaces.mcp.short_answers import SystematicResult, shorten_hit, shorten_notes
from outrider.interfaces.mcp.tool_calls import Progress, make_link, make_result, report_progress
from outrider.services.systematic import RUN_NAME, runs_folder
from outrider.state.errors import BadRequest, LibraryError, SourceError, did_you_mean
from outrider.state.records import LIBRARY
from outrider.systematic_search import ledger
from outrider.systematic_search import manifest as manifests
from outrider.systematic_search.ledger import NoSuchRun, read_state
from outrider.systematic_search.ledger_reader import IncompleteRun, RunHit, export_hits, is_done, read_hits
from outrider.systematic_search.manifest import Manifest
from outrider.usecases.export import make_run_writer
from outrider.usecases.systematic import AsyncSystematicHits, asystematic, make_hit

if TYPE_CHECKING:
    from outrider.services import Services

PAGE_HITS, MAX_PAGE_HITS = 20, 100
FORMER_FIRST = 10
"""Hits of the deprecated field `first`."""
MAX_REMARKS = 30
CURSOR = re.compile(rf"(?P<run>{RUN_NAME.pattern}):(?P<after>[0-9]{{1,9}}):(?P<check>[0-9a-f]{{8}}|)")
"""Name of the run, number of the last hit before the page, and that hit's digest: a resumed run may have moved it."""
LINES = "application/x-ndjson"
EXPORTS = {"ris": "application/x-research-info-systems", "bibtex": "application/x-bibtex", "csv": "text/csv", "jsonl": LINES}


class SystematicTool:
    """The tool and the resources of its runs, which are read by the names of their folders: these cannot be guessed."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def systematic(
        self,
        context: Context,
        query: Annotated[
            str,
            Field(
                description="A Boolean query in the syntax of PubMed, Ovid, or another platform such as Web of Science or Embase.",
                min_length=1,
                max_length=20_000,
            ),
        ],
        sources: Annotated[list[str] | None, Field(description="Sources to read; the library by default.")] = None,
        limit: Annotated[
            int, Field(description="Stop the run after so many hits; its last cursor resumes it.", ge=1, le=1_000_000)
        ] = 10_000,
        cursor: Annotated[
            str, Field(description="`cursor` or `resume` of the page before, with the same query; empty for a new run.", max_length=200)
        ] = "",
        page_size: Annotated[int, Field(description="Hits of this page.", ge=1, le=MAX_PAGE_HITS)] = PAGE_HITS,
    ) -> Annotated[CallToolResult, SystematicResult]:
        """Run an exact Boolean protocol: every record that matches, unranked, page by page, with a ledger and a manifest to verify it."""
        async with report_progress(context, "reading") as progress:
            if not cursor:
                hits = asystematic(query, sources=tuple(sources or (LIBRARY,)), services=self._services)
                folder, broke_off = await read_run(hits, limit, progress)
                return await asyncio.to_thread(make_page, folder, 0, page_size, [], broke_off)
            parts = CURSOR.fullmatch(cursor)
            if parts is None:
                raise BadRequest(f"{cursor!r} is no cursor of a systematic run; call without one to start a run")
            folder, after = await asyncio.to_thread(self._find_run, parts["run"]), int(parts["after"])
            manifest = await asyncio.to_thread(read_manifest, folder, query, sources)
            await asyncio.to_thread(check_cursor, folder, after, parts["check"])
            notes: list[str] = []
            broke_off = ""
            if after >= manifest.total and not manifest.complete:
                before, after = after, min(after, (await asyncio.to_thread(read_state, folder / ledger.NAME)).hits)
                if after < before:  # a source that had failed goes on before the sources behind it
                    notes.append(
                        f"the run was resumed behind hit {after:,}: hits {after + 1:,} to {before:,} come again, in their places of now"
                    )
                hits = asystematic(resume=folder, services=self._services)
                _, broke_off = await read_run(hits, after + limit, progress)
            return await asyncio.to_thread(make_page, folder, after, page_size, notes, broke_off)

    def _find_run(self, name: str) -> Path:
        """Only by its name: a path from a client reaches nothing else."""
        folder = runs_folder(self._services) / name
        if not RUN_NAME.fullmatch(name) or not (folder / ledger.NAME).is_file():
            raise NoSuchRun(f"there is no systematic run {name!r}; call systematic with a query to start one")
        return folder

    async def ledger(self, run: str) -> str:
        """The ledger of a systematic run: every hit with its proof, a line of JSON each, in a hash chain."""
        return await self._read_file(run, ledger.NAME)

    async def manifest(self, run: str) -> str:
        """The manifest of a systematic run: query, version of the library, counts and checksums."""
        return await self._read_file(run, manifests.NAME)

    async def run_export(self, run: str, format: str) -> str:  # noqa: A002
        """The works of a systematic run, each once: `ris`, `bibtex`, `csv` (for screening) or `jsonl`."""
        if format not in EXPORTS:
            raise ResourceNotFoundError(f"a run is exported as {', '.join(EXPORTS)}, not as {format!r}{did_you_mean(format, EXPORTS)}")
        folder = await asyncio.to_thread(self._find_resource, run)
        stream = StringIO()
        await asyncio.to_thread(export_hits, folder / ledger.NAME, make_run_writer(format, stream))
        return stream.getvalue()

    async def _read_file(self, run: str, name: str) -> str:
        path = await asyncio.to_thread(self._find_resource, run) / name
        try:
            return await asyncio.to_thread(path.read_text, "utf-8")
        except FileNotFoundError as error:
            raise ResourceNotFoundError(f"the run {run!r} has no {name} yet") from error

    def _find_resource(self, run: str) -> Path:
        try:
            return self._find_run(run)
        except NoSuchRun as error:
            raise ResourceNotFoundError(str(error)) from error


async def read_run(hits: AsyncSystematicHits, limit: int, progress: Progress) -> tuple[Path, str]:
    """Read whole pages into the ledger until there are `limit` hits or no more; a page is a step.

    Returns the run's folder, and the error by which it broke off: the hits so far are kept, and the cursor resumes it.
    """
    count, broke_off = 0, ""
    try:
        async with aclosing(hits.pages()) as pages:
            async for page in pages:
                count += len(page.hits)
                await progress.start(f"{count:,} hits")
                if count >= limit and not page.is_last:  # else the run only has to write its end
                    break
    except IncompleteRun:  # the manifest says what is missing
        pass
    except (LibraryError, SourceError) as error:
        if hits.folder is None:  # it did not even begin
            raise
        broke_off = f"the run broke off: {error}"
    assert hits.folder is not None  # noqa: S101 - it was read
    return hits.folder, broke_off


def read_manifest(folder: Path, query: str, sources: list[str] | None) -> Manifest:
    """`BadRequest` for a run of another query or other sources."""
    manifest = manifests.read(folder / manifests.NAME)
    if manifest.asked.query != query:
        raise BadRequest(f"the cursor belongs to the query {manifest.asked.query!r}; repeat that query, or leave the cursor out")
    if sources and {*sources} != {*manifest.asked.names}:
        raise BadRequest(f"the cursor belongs to a run of {', '.join(manifest.asked.names)}; leave sources out, or leave the cursor out")
    return manifest


def check_cursor(folder: Path, after: int, check: str) -> None:
    """`BadRequest` if another hit, or none, is now the last one before the page."""
    if after and [make_check(hit) for hit in read_hits(folder / ledger.NAME, after - 1, 1)] != [check]:
        again = f"{folder.name}:0:"
        raise BadRequest(
            f"the cursor fits no hit of the run: its hits moved when the run was resumed; the first page has the cursor {again!r}"
        )


def make_check(hit: RunHit) -> str:
    return hashlib.sha256(f"{hit.number} {hit.record.doc_id} {hit.content}".encode()).hexdigest()[:8]


def make_page(folder: Path, after: int, size: int, notes: Sequence[str] = (), broke_off: str = "") -> CallToolResult:
    """The hits behind number `after`, with counts, and links to ledger, manifest and exports.

    A client may read until `cursor` is empty. So a run that a failure leaves incomplete is resumed by another field.
    """
    run, manifest = folder.name, manifests.read(folder / manifests.NAME)
    found = read_hits(folder / ledger.NAME, after, size, manifest.ledger.bytes)
    hits = [shorten_hit(make_hit(hit, str(manifest.asked.query))) for hit in found]
    last = after + len(hits)
    before = found[-1:] or (read_hits(folder / ledger.NAME, after - 1, 1) if after else ())
    here = f"{run}:{last}:{make_check(before[0]) if before else ''}"
    goes_on = last < manifest.total or not (broke_off or manifest.complete or is_done(folder / ledger.NAME))
    result = SystematicResult(
        total=manifest.total,
        unique=manifest.unique,
        counts={source.source: source.hits for source in manifest.sources},
        complete=manifest.complete,
        missing=[*manifest.missing, *([broke_off] if broke_off else [])],
        hits=hits,
        cursor=here if goes_on else "",
        resume="" if goes_on or manifest.complete else here,
        first=hits[:FORMER_FIRST] if not after else [],
        folder=str(folder),
        remarks=[*notes, *shorten_notes(manifest.remarks, MAX_REMARKS)],
    )
    part = "" if manifest.complete else ", not complete"
    links: list[ContentBlock] = [
        make_link(f"Ledger{part}", "run", run, "ledger", mime_type=LINES, size=manifest.ledger.bytes),
        make_link("Manifest", "run", run, "manifest", mime_type="application/json"),
    ]
    links += [
        make_link(f"{form} of {manifest.unique:,} works{part}", "run", run, "export", form, mime_type=EXPORTS[form]) for form in EXPORTS
    ]
    return make_result(result, links)
