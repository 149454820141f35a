"""Explanations of queries, and reports and exports of systematic runs, for the page."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Annotated, Any

from fastapi import Body, Path, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import Field

from outrider.interfaces.http.systematic import Text
from outrider.interfaces.web.export import MEDIA_TYPES, Form, make_headers
from outrider.services.systematic import RUN_NAME, Syntax, find_run_folder
from outrider.state.errors import BadRequest
from outrider.state.model import Model
from outrider.systematic_search import ledger, manifest
from outrider.systematic_search.ledger_reader import export_hits
from outrider.systematic_search.prisma import flow_diagram, flow_json, make_flow
from outrider.usecases.explain_query import explain_query
from outrider.usecases.export import RUN_FORMATS, make_run_writer

if TYPE_CHECKING:
    from outrider.interfaces.http.request_limits import Admission
    from outrider.services import Services
    from outrider.systematic_search.manifest import Manifest

RunName = Annotated[str, Path(description="The name of a run, from its first line.", pattern=rf"^{RUN_NAME.pattern}$")]
MEBIBYTE = 2**20
CUT_CELLS = "Outrider-Cut-Cells"
EXAMPLES: dict[str, Any] = {"query": {"summary": "A query", "value": {"query": "aspirin[ti] AND liver", "sources": ["library"]}}}


class ExplainBody(Model):
    """A Boolean query to explain."""

    query: Text
    sources: tuple[str, ...] | None = Field(None, description="Sources that a run would read; the library alone by default.")
    syntax: Syntax = Field("auto", description="The language of the query.")


@dataclass(frozen=True, slots=True)
class SystematicPageRoutes:
    services: Services
    admission: Admission

    async def explain(self, body: Annotated[ExplainBody, Body(openapi_examples=EXAMPLES)]) -> Response:
        """Tree, remarks, translations, and a search history with the library's hits a line. Nothing is run or written."""
        with self.admission.admit():
            async with self.admission.slot():
                explanation = await explain_query(self.services, body.query, body.sources, body.syntax, lambda _done, _total: None)
        return JSONResponse(explanation.as_json())

    async def report(self, run: RunName) -> Response:
        """Queries and hits of a run by source, with the counts of PRISMA 2020."""
        run_manifest = await asyncio.to_thread(self._read_manifest, run)
        included = {"total", "duplicates", "complete", "missing", "provenance_hash", "seal", "times", "sources"}
        fields = run_manifest.model_dump(mode="json", include=included)
        fields |= {"remarks": run_manifest.remarks, "flow": json.loads(flow_json(make_flow(run_manifest)))}
        return JSONResponse({"run": run, "unique": run_manifest.unique, **fields})

    async def diagram(self, run: RunName) -> Response:
        """The PRISMA 2020 flow of a run, as SVG."""
        run_manifest = await asyncio.to_thread(self._read_manifest, run)
        return Response(flow_diagram(make_flow(run_manifest)), 200, media_type="image/svg+xml")

    async def export(self, run: RunName, form: Form = "ris") -> Response:
        """The hits of a run as a file, each work once. `Outrider-Cut-Cells` is the number of cells of a CSV that were too long for it."""
        if form not in RUN_FORMATS.values():
            raise BadRequest(f"format: a run is exported to {', '.join(RUN_FORMATS.values())}")
        await asyncio.to_thread(self._read_manifest, run)  # an unfinished run has none
        file, cut_cells = await asyncio.to_thread(self._write_hits, run, form)
        headers = make_headers("run", form) | ({CUT_CELLS: str(cut_cells)} if cut_cells else {})
        return StreamingResponse(_read_pieces(file), 200, headers, MEDIA_TYPES[form])

    def _read_manifest(self, run: str) -> Manifest:
        return manifest.read(find_run_folder(self.services, run) / manifest.NAME)

    def _write_hits(self, run: str, form: str) -> tuple[IO[str], int]:
        """A temporary file on the disk, since a run may have millions of hits; and how many values were cut."""
        file = tempfile.TemporaryFile("w+", encoding="utf-8", newline="")  # noqa: SIM115 - closed after the last piece
        try:
            writer = make_run_writer(form, file)
            export_hits(find_run_folder(self.services, run) / ledger.NAME, writer)
        except BaseException:
            file.close()
            raise
        file.seek(0)
        return file, writer.shortened


def _read_pieces(file: IO[str]) -> Iterator[bytes]:
    with file:
        while piece := file.read(MEBIBYTE):
            yield piece.encode()
