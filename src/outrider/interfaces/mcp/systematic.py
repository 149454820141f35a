"""The tool `systematic`: exact runs in pages, and their ledgers and exports as resources."""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing, suppress
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
from outrider.state.errors import BadRequest, did_you_mean
from outrider.state.records import LIBRARY
from outrider.systematic_search import ledger
from outrider.systematic_search import manifest as manifests
from outrider.systematic_search.ledger import NoSuchRun
from outrider.systematic_search.ledger_reader import IncompleteRun, export_hits, read_hits
from outrider.systematic_search.manifest import Manifest
from outrider.usecases.export import make_run_writer
from outrider.usecases.systematic import AsyncSystematicHits, asystematic, make_hit

if TYPE_CHECKING:
    from outrider.services import Services

PAGE_HITS, MAX_PAGE_HITS = 20, 100
FORMER_FIRST = 10
"""Hits of the deprecated field `first`."""
MAX_REMARKS = 30
CURSOR = re.compile(rf"({RUN_NAME.pattern})\.([0-9]{{1,9}})")
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
            str, Field(description="`cursor` of the page before, with the same query; empty for a new run.", max_length=200)
        ] = "",
        page_size: Annotated[int, Field(description="Hits of this page.", ge=1, le=MAX_PAGE_HITS)] = PAGE_HITS,
    ) -> Annotated[CallToolResult, SystematicResult]:
        """Run an exact Boolean protocol: every record that matches, unranked, page by page, with a ledger and a manifest to verify it."""
        async with report_progress(context, "reading") as progress:
            if cursor:
                folder, after = self._parse_cursor(cursor)
                manifest = await asyncio.to_thread(read_manifest, folder, query, sources)
                if manifest is None or (after >= manifest.total and not manifest.complete):
                    before = 0 if manifest is None else manifest.total
                    await read_run(asystematic(resume=folder, services=self._services), before + limit, progress)
            else:
                after = 0
                hits = asystematic(query, sources=tuple(sources or (LIBRARY,)), services=self._services)
                folder = await read_run(hits, limit, progress)
            return await asyncio.to_thread(make_page, folder, after, page_size)

    def _parse_cursor(self, cursor: str) -> tuple[Path, int]:
        """The folder of the run, and the number of the last hit before the page."""
        parts = CURSOR.fullmatch(cursor)
        if parts is None:
            raise BadRequest(f"{cursor!r} is no cursor of a systematic run; call without one to start a run")
        return self._find_run(parts[1]), int(parts[2])

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
        folder = self._find_resource(run)
        stream = StringIO()
        await asyncio.to_thread(export_hits, folder / ledger.NAME, make_run_writer(format, stream))
        return stream.getvalue()

    async def _read_file(self, run: str, name: str) -> str:
        path = self._find_resource(run) / name
        if not path.is_file():
            raise ResourceNotFoundError(f"the run {run!r} has no {name} yet")
        return await asyncio.to_thread(path.read_text, "utf-8")

    def _find_resource(self, run: str) -> Path:
        try:
            return self._find_run(run)
        except NoSuchRun as error:
            raise ResourceNotFoundError(str(error)) from error


async def read_run(hits: AsyncSystematicHits, limit: int, progress: Progress) -> Path:
    """Read pages into the ledger until there are `limit` hits or no more; returns the run's folder. A page is a step."""
    count = 0
    with suppress(IncompleteRun):  # the manifest says what is missing
        async with aclosing(hits.pages()) as pages:
            async for page in pages:
                count += len(page.hits)
                await progress.start(f"{count:,} hits")
                if count >= limit:
                    break
    assert hits.folder is not None  # noqa: S101 - it was read
    return hits.folder


def read_manifest(folder: Path, query: str, sources: list[str] | None) -> Manifest | None:
    """None for a run whose process ended before it wrote one. `BadRequest` for a run of another query or other sources."""
    path = folder / manifests.NAME
    if not path.is_file():
        return None
    manifest = manifests.read(path)
    if manifest.asked.query != query:
        raise BadRequest(f"the cursor belongs to the query {manifest.asked.query!r}; repeat that query, or leave the cursor out")
    if sources and {*sources} != {*manifest.asked.names}:
        raise BadRequest(f"the cursor belongs to a run of {', '.join(manifest.asked.names)}; leave sources out, or leave the cursor out")
    return manifest


def make_page(folder: Path, after: int, size: int) -> CallToolResult:
    """The hits behind number `after`, with counts, and links to ledger, manifest and exports."""
    run, manifest = folder.name, manifests.read(folder / manifests.NAME)
    if after > manifest.total:
        raise BadRequest(f"the run has {manifest.total:,} hits so far, and the cursor stands behind number {after:,}")
    found = read_hits(folder / ledger.NAME, after, size, manifest.ledger.bytes)
    hits = [shorten_hit(make_hit(hit, str(manifest.asked.query))) for hit in found]
    last = after + len(hits)
    result = SystematicResult(
        total=manifest.total,
        unique=manifest.unique,
        counts={source.source: source.hits for source in manifest.sources},
        complete=manifest.complete,
        missing=list(manifest.missing),
        hits=hits,
        cursor=f"{run}.{last}" if last < manifest.total or not manifest.complete else "",
        first=hits[:FORMER_FIRST] if not after else [],
        folder=str(folder),
        remarks=shorten_notes(manifest.remarks, MAX_REMARKS),
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
