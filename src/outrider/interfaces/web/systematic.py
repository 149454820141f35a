"""What a reviewer sees of a systematic run beside its hits: the query explained as it is typed, the report, the diagram, the files."""

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

from outrider.ingest.export import make_writer
from outrider.interfaces.http.systematic import Text
from outrider.interfaces.web.export import MEDIA_TYPES, Form, headers_of
from outrider.services.systematic import RUN_NAME, Syntax, find_run_folder
from outrider.state.errors import BadRequest
from outrider.state.model import Model
from outrider.systematic_search import ledger, manifest
from outrider.systematic_search.ledger_reader import export_hits
from outrider.systematic_search.prisma import make_flow
from outrider.systematic_search.prisma_reports import flow_diagram, flow_json
from outrider.usecases.explain_query import explain_query
from outrider.usecases.systematic import RUN_FORMATS

if TYPE_CHECKING:
    from outrider.interfaces.http.admission import Gate
    from outrider.services import Services
    from outrider.systematic_search.manifest import Manifest

RunName = Annotated[str, Path(description="The name of a run, as its first line said.", pattern=rf"^{RUN_NAME.pattern}$")]
MEBIBYTE = 2**20
EXAMPLES: dict[str, Any] = {"query": {"summary": "A query", "value": {"query": "aspirin[ti] AND liver", "sources": ["library"]}}}


class ExplainBody(Model):
    """A Boolean query that is not run yet."""

    query: Text
    sources: tuple[str, ...] | None = Field(None, description="Who would be asked; the library alone by default.")
    syntax: Syntax = Field("auto", description="Which language the query is in.")


@dataclass(frozen=True, slots=True)
class Reviewing:
    services: Services
    gate: Gate

    async def explain(self, asked: Annotated[ExplainBody, Body(openapi_examples=EXAMPLES)]) -> Response:
        """Tree, remarks, translations, and a search history with the library's hits a line. Nothing is run or written."""
        with self.gate.admission():
            async with self.gate.place():
                said = await explain_query(self.services, asked.query, asked.sources, asked.syntax, _unheard)
        return JSONResponse(said.as_json())

    async def report(self, run: RunName) -> Response:
        """What a run asked of whom and what came, with the counts of PRISMA 2020."""
        made = await asyncio.to_thread(self._manifest, run)
        kept = {"total", "duplicates", "complete", "missing", "provenance_hash", "seal", "times", "sources"}
        said = made.model_dump(mode="json", include=kept)
        return JSONResponse({"run": run, "unique": made.unique, **said, "flow": json.loads(flow_json(make_flow(made)))})

    async def diagram(self, run: RunName) -> Response:
        """The PRISMA 2020 flow of a run, as SVG."""
        made = await asyncio.to_thread(self._manifest, run)
        return Response(flow_diagram(make_flow(made)), 200, media_type="image/svg+xml")

    async def export(self, run: RunName, form: Form = "ris") -> Response:
        """The hits of a run as a file, each work once."""
        if form not in RUN_FORMATS.values():
            raise BadRequest(f"format: a run is export_hits to {', '.join(RUN_FORMATS.values())}")
        await asyncio.to_thread(self._manifest, run)  # a run that is still being written has none
        file = await asyncio.to_thread(self._written, run, form)
        return StreamingResponse(_pieces(file), 200, headers_of("run", form), MEDIA_TYPES[form])

    def _manifest(self, run: str) -> Manifest:
        return manifest.read(find_run_folder(self.services, run) / manifest.NAME)

    def _written(self, run: str, form: str) -> IO[str]:
        """On the disk: a run may have millions of hits."""
        file = tempfile.TemporaryFile("w+", encoding="utf-8", newline="")  # noqa: SIM115 - closed behind the last piece
        try:
            export_hits(find_run_folder(self.services, run) / ledger.NAME, make_writer(form, file))
        except BaseException:
            file.close()
            raise
        file.seek(0)
        return file


def _pieces(file: IO[str]) -> Iterator[bytes]:
    with file:
        while piece := file.read(MEBIBYTE):
            yield piece.encode()


def _unheard(done: int, of: int) -> None:
    """Who types does not wait for a bar."""
