"""Routes of the page: files, answers for reading, exports, systematic runs, scoring.

`AnswerRoutes` gives an answer for reading, and its hits as files by the writers of `outrider export`. `SystematicPageRoutes` explains
queries, and reports and exports systematic runs.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import Field

from outrider.boolean.parser import parse
from outrider.boolean.places import Place, find_places
from outrider.graph.pipeline import DESCRIPTIONS
from outrider.ingest.export import FORMATS
from outrider.interfaces.http.problems import Refusal, refuse_field
from outrider.interfaces.http.rest import RunId, read_owner
from outrider.interfaces.http.systematic import RunName, Text
from outrider.interfaces.web.explain_scoring import Explanation, explain_scoring
from outrider.interfaces.web.landing import Landing, LandingReader
from outrider.interfaces.web.pictures import IMAGE, add_picture_routes, make_picture_response
from outrider.interfaces.web.readable_answer import HitText, Reading, read_answer, read_text
from outrider.interfaces.web.static_files import File, read_files
from outrider.services.systematic import Syntax, find_remote_sources, find_run_folder
from outrider.state.errors import BadRequest, LibraryError
from outrider.state.model import Model
from outrider.state.records import LIBRARY
from outrider.state.request import MAX_TOP_K, SearchMode
from outrider.state.response import SearchResponse
from outrider.systematic_search import ledger, manifest
from outrider.systematic_search.ledger_reader import export_hits, read_hits
from outrider.systematic_search.prisma import flow_diagram, flow_json, make_flow
from outrider.usecases.explain_hit import SOURCE_NAMES, name_source
from outrider.usecases.explain_query import explain_query
from outrider.usecases.export import RUN_FORMATS, SUFFIXES, make_record, make_run_writer, write_records
from outrider.version import __version__

if TYPE_CHECKING:
    from outrider.interfaces.http.request_limits import Admission
    from outrider.interfaces.http.search_runs import RunRegistry
    from outrider.services import Services
    from outrider.systematic_search.manifest import Manifest

MEDIA_TYPES = {
    "bibtex": "application/x-bibtex",
    "ris": "application/x-research-info-systems",
    "csl": "application/vnd.citationstyles.csl+json",
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "jsonl": "application/x-ndjson",
    "markdown": "text/markdown; charset=utf-8",
}
ENDINGS = {form: suffix for suffix, form in SUFFIXES.items()}
Form = Annotated[str, Query(alias="format", description="bibtex, ris, csl, csv, json, jsonl or markdown.", max_length=20)]
Ranks = Annotated[list[int] | None, Query(alias="rank", description="Ranks of the hits to export; all by default.", max_length=MAX_TOP_K)]
Rank = Annotated[int, Path(description="The rank of a hit.", ge=1, le=MAX_TOP_K)]


@dataclass(frozen=True, slots=True)
class AnswerRoutes:
    """An answer for reading and as files, as long as it is kept."""

    runs: RunRegistry
    services: Services

    async def export(self, request: Request, run_id: RunId, form: Form = "ris", ranks: Ranks = None) -> Response:
        """The hits of a finished search as a file for a reference manager, a spreadsheet or a program."""
        answer = await self._find_answer(request, run_id)
        if unknown := sorted(set(ranks or ()) - {hit.rank for hit in answer.hits}):
            raise refuse_field("rank", f"this search has {len(answer.hits):,} hits and none of rank {', '.join(map(str, unknown[:10]))}")
        text = io.StringIO(newline="")
        write_records((make_record(hit) for hit in answer.hits if not ranks or hit.rank in ranks), form, text)
        return Response(text.getvalue().encode(), 200, make_headers("hits", form), MEDIA_TYPES[form])

    async def reading(self, request: Request, run_id: RunId) -> Reading:
        """The sentences of each hit as plain text and code, why it is there, and the best sentences of all."""
        answer = await self._find_answer(request, run_id)
        return await asyncio.to_thread(read_answer, answer, self.services.settings, await self._read_labels())

    async def _read_labels(self) -> dict[str, tuple[str, ...]]:
        """Of the library's records as they are now; none where it cannot be read."""
        try:
            return await (await self.services.library()).labels()
        except LibraryError:
            return {}

    async def text(self, request: Request, run_id: RunId, rank: Rank) -> HitText:
        """The text of a hit in blocks, without markup; kept sentences are marked."""
        answer = await self._find_answer(request, run_id)
        hit = next((hit for hit in answer.hits if hit.rank == rank), None)
        if hit is None:
            raise Refusal(404, "no-such-hit", f"this search has {len(answer.hits):,} hits and none of rank {rank}")
        return await asyncio.to_thread(read_text, hit)

    async def _find_answer(self, request: Request, run_id: str) -> SearchResponse:
        """Raises `Refusal` while there is none."""
        run = await self.runs.find(run_id, read_owner(request))
        if not run.answer:
            raise Refusal(404, "no-answer", "this search has no answer yet")
        return SearchResponse.model_validate_json(run.answer)


def make_headers(name: str, form: str) -> dict[str, str]:
    """`name` is a constant: no text of a request may enter a header."""
    return {"Content-Disposition": f'attachment; filename="outrider-{name}{ENDINGS[form]}"'}


MEBIBYTE = 2**20
GZIP = re.compile(r"(?:^|[,\s])gzip(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))", re.IGNORECASE)
"""Of the header Accept-Encoding, unless its weight is zero."""
ETAG = re.compile(r'(?:W/)?("[^"]*")')
"""A tag of the header If-None-Match, without the mark of a weak one."""
CUT_CELLS = "Outrider-Cut-Cells"
EXAMPLES: dict[str, Any] = {"query": {"summary": "A query", "value": {"query": "aspirin[ti] AND liver", "sources": ["library"]}}}


class ExplainBody(Model):
    """A Boolean query to explain."""

    query: Text
    sources: tuple[str, ...] | None = Field(None, description="Sources that a run would read; the library alone by default.")
    syntax: Syntax = Field("auto", description="The language of the query.")


class HitPlaces(Model):
    places: tuple[Place, ...] = Field(description="A few, those of the title first; empty where the record shows no term of the query.")


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
        asked = {"query": run_manifest.asked.query, "syntax": run_manifest.asked.syntax, "names": run_manifest.asked.names}
        return JSONResponse({"run": run, "unique": run_manifest.unique, **asked, **fields})

    async def places(self, run: RunName, number: Annotated[int, Path(ge=1, le=10**9, description="The number of a hit.")]) -> HitPlaces:
        """Where a hit matches the query of its run: fields, and the text around each term, of the record as the run read it."""
        return await asyncio.to_thread(self._find_places, run, number)

    def _find_places(self, run: str, number: int) -> HitPlaces:
        asked = self._read_manifest(run).asked
        hit = next(iter(read_hits(find_run_folder(self.services, run) / ledger.NAME, number - 1, 1)), None)
        if hit is None:
            raise Refusal(404, "no-such-hit", f"this run has no hit {number:,}")
        return HitPlaces(places=find_places(parse(asked.query, asked.syntax).tree, hit.record))

    async def diagram(self, run: RunName) -> Response:
        """The PRISMA 2020 flow of a run, as SVG."""
        run_manifest = await asyncio.to_thread(self._read_manifest, run)
        return make_picture_response(flow_diagram(make_flow(run_manifest)))

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


class Step(Model):
    name: str
    about: str


class About(Model):
    version: str
    model: str = Field(description="The chat model, or why there is none.")
    answers: bool = Field(description="Whether there is a chat model that can write a short answer.")
    learns: bool = Field(description="Whether this server learns from what is kept, opened and dropped.")
    answer_enabled: bool = Field(description="Whether it writes one unless a search says otherwise.")
    full_text: bool = Field(description="Whether open full texts can be fetched here.")
    full_text_enabled: bool = Field(description="Whether a search does so unless it says otherwise.")
    sources: tuple[str, ...]
    source_names: dict[str, str] = Field(description="The sources as people name them.")
    exact_sources: tuple[str, ...] = Field(description="Sources that a systematic run can read.")
    search_modes: tuple[str, ...]
    steps: tuple[Step, ...] = Field(description="Steps of a ranked search, in their order.")
    formats: tuple[str, ...]
    run_formats: tuple[str, ...] = Field(description="Formats for the hits of a systematic run.")


def describe_server(services: Services) -> About:
    exact_sources = (LIBRARY, *find_remote_sources(services))
    return About(
        version=__version__,
        model=services.chat_says,
        answers=services.chat is not None,
        learns=services.settings.learning.enabled and not services.settings.serve.read_only,
        answer_enabled=services.settings.answer.enabled,
        full_text=services.settings.enrich.full_text != "off" and not services.settings.sources.offline,
        full_text_enabled=services.settings.enrich.full_text == "first_n",
        sources=services.source_names,
        source_names={name: name_source(name) for name in (*SOURCE_NAMES, *services.source_names, *exact_sources)},
        exact_sources=exact_sources,
        search_modes=tuple(SearchMode),
        steps=tuple(Step(name=name, about=about) for name, about in DESCRIPTIONS.items() if name != "systematic"),
        formats=tuple(FORMATS),
        run_formats=tuple(RUN_FORMATS.values()),
    )


Responses = dict[int | str, dict[str, Any]]
FILE: Responses = {200: {"content": {"application/octet-stream": {"schema": {"type": "string"}}}, "description": "The file."}}


def make_router(services: Services, runs: RunRegistry, admission: Admission) -> APIRouter:
    router = APIRouter(tags=["page"])
    for address, file in read_files().items():
        router.add_api_route(address, partial(_serve_file, file), methods=["GET"], include_in_schema=False)

    async def about() -> About:
        """Data for the page's form: sources, steps of a search, formats."""
        await services.prepare()
        return describe_server(services)

    def scoring() -> Explanation:  # in a thread: it reads source files
        """How works are scored: the formulas of the code, with the settings of this server."""
        return explain_scoring(services)

    router.add_api_route("/api/about", about, methods=["GET"], summary="Sources, steps and formats")
    landing = LandingReader(services)

    async def first_view() -> Landing:
        """How much the library holds, and requests to try."""
        return await landing.read()

    router.add_api_route("/api/landing", first_view, methods=["GET"], summary="What is searched, and requests to try")
    router.add_api_route("/api/scoring", scoring, methods=["GET"], summary="How works are scored")
    answers = AnswerRoutes(runs, services)
    router.add_api_route(
        "/api/search/{run_id}/export", answers.export, methods=["GET"], summary="Hits as a file", response_class=Response,
        responses=FILE,
    )  # fmt: skip
    router.add_api_route("/api/search/{run_id}/reading", answers.reading, methods=["GET"], summary="Sentences for reading")
    router.add_api_route("/api/search/{run_id}/hits/{rank}/text", answers.text, methods=["GET"], summary="The text of a hit for reading")
    add_picture_routes(router, runs)
    review = SystematicPageRoutes(services, admission)
    base = "/api/systematic"
    router.add_api_route(f"{base}/explain", review.explain, methods=["POST"], summary="Explanation of a Boolean query")
    router.add_api_route(f"{base}/{{run}}", review.report, methods=["GET"], summary="The report of a systematic run")
    router.add_api_route(f"{base}/{{run}}/hits/{{number}}/places", review.places, methods=["GET"], summary="Where a hit matches")
    router.add_api_route(
        f"{base}/{{run}}/prisma.svg", review.diagram, methods=["GET"], summary="PRISMA 2020 flow", response_class=Response,
        responses=IMAGE,
    )  # fmt: skip
    router.add_api_route(
        f"{base}/{{run}}/export", review.export, methods=["GET"], summary="A run's hits as a file", response_class=Response,
        responses=FILE,
    )  # fmt: skip
    return router


async def _serve_file(file: File, request: Request) -> Response:
    """Cached by a browser and revalidated, so that a new version is seen at once."""
    is_packed = bool(GZIP.search(request.headers.get("accept-encoding", "")))
    tag = f'"{hashlib.sha256(file.body).hexdigest()[:16]}{"-gzip" if is_packed else ""}"'
    headers = {**file.headers, "ETag": tag}
    known = ",".join(request.headers.getlist("if-none-match"))
    if known.strip() == "*" or tag in ETAG.findall(known):  # a weak comparison: RFC 9110, 13.1.2
        return Response(None, 304, headers)
    if is_packed:
        return Response(file.packed, 200, {**headers, "Content-Encoding": "gzip"}, file.media_type)
    return Response(file.body, 200, headers, file.media_type)
