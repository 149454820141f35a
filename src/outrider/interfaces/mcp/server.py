"""MCP server: its tools, resources and prompts. Imported only when the server starts."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from io import StringIO
from typing import Annotated, Any, Literal

from mcp import MCPError
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError, UnexpectedToolError
from mcp.server.mcpserver.resources import ResourceSecurity
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, CallToolResult, ContentBlock, Resource, Tool, ToolAnnotations
from pydantic import Field, ValidationError

from outrider.graph.analyze import make_analysis
from outrider.graph.pipeline import build
from outrider.ingest.export import make_writer
from outrider.ingest.targets import split_targets
from outrider.interfaces.mcp.cite import CiteTools
from outrider.interfaces.mcp.code_links import LinkTools
from outrider.interfaces.mcp.jobs import JobTools
from outrider.interfaces.mcp.kept_results import KeptResults
from outrider.interfaces.mcp.plan import PlanTool
from outrider.interfaces.mcp.short_answers import (
    DATA,
    ExportResult,
    FullTextResult,
    IngestResult,
    SearchResult,
    ShortAnalysis,
    ShortComparison,
    cut,
    shorten_analysis,
    shorten_answer,
    shorten_comparison,
    shorten_hit,
    shorten_notes,
    shorten_report,
    shorten_texts,
)
from outrider.interfaces.mcp.stdio import serve_stdio
from outrider.interfaces.mcp.systematic import SystematicTool
from outrider.interfaces.mcp.tool_calls import (
    make_link,
    make_result,
    make_uri,
    raise_resource_errors,
    raise_tool_errors,
    report_progress,
)
from outrider.prompts import load
from outrider.services import Services
from outrider.services.citation_queue import is_local_database
from outrider.services.job_process import run_jobs_beside
from outrider.state.comparison import check_compare_request
from outrider.state.errors import BadRequest, LibraryMissing, NothingSearchable, SearchError, did_you_mean, explain_wrong_fields
from outrider.state.filters import parse_filter
from outrider.state.pipeline import RunContext
from outrider.state.request import check_request
from outrider.state.response import SearchResponse
from outrider.usecases.analyze import stream_analysis
from outrider.usecases.compare import compare_works
from outrider.usecases.export import make_record
from outrider.usecases.full_text import afetch_full_text
from outrider.usecases.ingest import ingest_targets
from outrider.usecases.search_library import aexecute
from outrider.usecases.threads import Part, Threads, make_response, open_threads
from outrider.version import __version__

INSTRUCTIONS = f"""Searches papers, code and the user's own library, and gives the sentences that answer.
{DATA} Tools answer briefly; the resource that they link to holds everything."""
READS = ToolAnnotations(read_only_hint=True, open_world_hint=True)
WRITES = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=True)
STOPS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)
MAX_HITS = 20
THREAD = "mcp-"
"""Begins the names of the threads of this interface."""
MAX_TEXTS = 20
MAX_LISTED = 100
"""Records that a client can choose from a list; the others are read by their ids."""
STEPS, ANALYSIS_STEPS = 12, 5
"""Warming up, and the nodes of a search or of an analysis, for the client's progress bar."""

Query = Annotated[str, Field(description="Words or a question.", min_length=1, max_length=20_000)]
Filters = Annotated[dict[str, Any] | None, Field(description='For example {"year": {"$gte": 2020}, "retracted": false}.')]
Few = Annotated[int, Field(description="How many hits.", ge=1, le=MAX_HITS)]
Format = Literal["bibtex", "ris", "csl", "csv", "json", "jsonl", "markdown"]


class OutriderServer(MCPServer[None]):
    """The SDK's server, whose list of resources has the first records of the library, too. It ignores no misspelt argument."""

    def __init__(self, tools: Tools, **options: Any) -> None:
        super().__init__("outrider", **options)
        self._tools = tools

    async def run_stdio_async(self) -> None:
        await serve_stdio(self._lowlevel_server)

    async def list_tools(self) -> list[Tool]:
        """With schemas that allow no other arguments: `call_tool` refuses them."""
        tools = await super().list_tools()
        return [tool.model_copy(update={"input_schema": {**tool.input_schema, "additionalProperties": False}}) for tool in tools]

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Checked first: the SDK drops an argument that it does not know, and a search without the model's filters misleads it."""
        known = {tool.name: tool.input_schema["properties"] for tool in await super().list_tools()}
        if name not in known:
            raise ToolError(f"there is no tool {name!r}{did_you_mean(name, known)}; there are: {', '.join(known)}")
        if unknown := [{"type": "extra_forbidden", "loc": (field,)} for field in arguments if field not in known[name]]:
            raise ToolError(explain_wrong_fields(unknown, known[name]))
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if isinstance(error, UnexpectedToolError) or not isinstance(error.__cause__, ValidationError):
                raise
            raise ToolError(explain_wrong_fields(error.__cause__.errors(), known[name])) from error.__cause__

    async def list_resources(self) -> list[Resource]:
        try:
            return [*await super().list_resources(), *await self._tools.list_records()]
        except SearchError as error:
            raise MCPError(INTERNAL_ERROR, str(error)) from error

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None, context: Any = None) -> Any:
        """Checked first: the SDK answers a wrong name or a missing argument as if it were a bug of ours."""
        prompts = {prompt.name: prompt for prompt in await self.list_prompts()}
        if name not in prompts:
            known = ", ".join(prompts)
            raise MCPError(INVALID_PARAMS, f"there is no prompt {name!r}{did_you_mean(name, prompts)}; there are: {known}")
        required = {argument.name: bool(argument.required) for argument in prompts[name].arguments or ()}
        given = arguments or {}
        if missing := [argument for argument, is_required in required.items() if is_required and argument not in given]:
            raise MCPError(INVALID_PARAMS, f"the prompt {name!r} needs the argument {', '.join(missing)}")
        if unknown := [{"type": "extra_forbidden", "loc": (argument,)} for argument in given if argument not in required]:
            raise MCPError(INVALID_PARAMS, explain_wrong_fields(unknown, required))
        return await super().get_prompt(name, arguments, context)


def build_server(services: Services, *, alone: bool = False) -> MCPServer:
    """One server over these services, which it loads as soon as it starts. `alone` in its process, it runs background jobs in another."""
    tools, runs, jobs, cite = Tools(services), SystematicTool(services), JobTools(services), CiteTools(services)
    links = LinkTools(services)

    @asynccontextmanager
    async def lifespan(_: MCPServer[None]) -> AsyncIterator[None]:
        async with run_jobs_beside(services.settings, lambda: tools.running > 0, enabled=alone), tools.warming():
            yield

    about: dict[str, Any] = {"title": "Outrider", "instructions": INSTRUCTIONS, "version": __version__}
    server = OutriderServer(tools, **about, log_level="WARNING", lifespan=lifespan)
    for name, tool, hints in (
        ("search", tools.search, READS),
        ("plan", PlanTool(services).plan, READS),
        ("resume_search", tools.resume_search, READS),
        ("systematic", runs.systematic, WRITES),
        ("analyze", tools.analyze, READS),
        ("compare", tools.compare, READS),
        ("library_ingest", tools.library_ingest, WRITES),
        ("library_full_text", tools.library_full_text, WRITES),
        ("library_search", tools.library_search, READS),
        ("export", tools.export, READS),
        ("code_links", links.code_links, READS),
        ("jobs", jobs.jobs, READS),
        ("jobs_change", jobs.jobs_change, STOPS),
        ("reference_candidates", cite.reference_candidates, READS),
        ("queue_reference_candidates", cite.queue_reference_candidates, WRITES),
    ):
        server.add_tool(raise_tool_errors(tool), name=name, description=tool.__doc__, annotations=hints)
    for address, title, kind, resource in (
        ("result/{name}", "A whole result", "text/plain", tools.result),
        ("library", "The library", "application/json", tools.library),
        ("record/{doc_id}", "A record of the library", "application/json", tools.record),
        ("run/{run}/ledger", "Ledger of a systematic run", "application/x-ndjson", runs.ledger),
        ("run/{run}/manifest", "Manifest of a systematic run", "application/json", runs.manifest),
        ("run/{run}/export/{format}", "Export of a systematic run", "text/plain", runs.run_export),
    ):
        security = ResourceSecurity(exempt_params={"doc_id"})  # an id, never a path
        server.resource(f"outrider://{address}", title=title, mime_type=kind, security=security)(raise_resource_errors(resource))
    for prompt, title in (
        (answer_question, "Answer with evidence"),
        (choose_software, "Choose software"),
        (systematic_review, "Systematic review"),
    ):
        server.prompt(title=title)(prompt)
    return server


def answer_question(question: Annotated[str, Field(description="The question.")]) -> str:
    """Answer a question from literature and library, with evidence for each sentence."""
    return load("mcp_answer_question", frozenset({"question"})).fill(question=question)


def choose_software(need: Annotated[str, Field(description="What the software must do, and any conditions.")]) -> str:
    """Find, analyze and compare repositories for a need."""
    return load("mcp_choose_software", frozenset({"need"})).fill(need=need)


def systematic_review(
    question: Annotated[str, Field(description="The question of the review, with population, intervention and outcome.")],
    sources: Annotated[str, Field(description="Sources, separated by commas, such as library, pubmed.")] = "library",
) -> str:
    """Build a Boolean query, run it to the last hit, and report it for PRISMA."""
    return load("mcp_systematic_review", frozenset({"question", "sources"})).fill(question=question, sources=sources)


class Tools:
    """The handlers. Long results are kept for a while."""

    def __init__(self, services: Services) -> None:
        self._services = services
        settings = services.settings
        redis_url = settings.shared.redis_url
        if settings.sources.offline and not is_local_database(redis_url):
            redis_url = ""
        self._results = KeptResults(redis_url)
        self._warming: asyncio.Task[None] | None = None
        self.running = 0
        """Searches under way."""

    @asynccontextmanager
    async def warming(self) -> AsyncIterator[None]:
        """Load models and start the browser while the client still asks for the list of tools."""
        self._warming = asyncio.create_task(self._services.warm())
        try:
            yield
        finally:
            self._warming.cancel()
            await asyncio.wait({self._warming})
            await self._results.close()

    async def _wait_until_warm(self) -> None:
        """A graph that runs later warms up what its request needs; it reports errors."""
        if self._warming is not None:
            await asyncio.wait({self._warming})

    async def search(  # noqa: PLR0913, PLR0917 - the fields of its form
        self,
        context: Context,
        query: Query,
        top_k: Few = 5,
        filters: Filters = None,
        sources: Annotated[list[str] | None, Field(description="Sources to search; all by default.")] = None,
        search_mode: Annotated[
            Literal["focused", "balanced", "exploratory"], Field(description="How far the search is widened.")
        ] = "balanced",
        feedback: Annotated[str, Field(description="Changes to the earlier search, such as: only Rust.", max_length=2_000)] = "",
        after: Annotated[str | None, Field(description="`answer` of an earlier search: the new one differs.")] = None,
        short_answer: Annotated[
            bool | None, Field(description="Also a short answer with citations by the server's model; by default its setting.")
        ] = None,
        full_text: Annotated[
            bool | None, Field(description="Also read open full texts of the first papers, which takes longer; by default its setting.")
        ] = None,
        checkpoints: Annotated[
            list[Literal["plan", "results"]] | None,
            Field(description="Wait after these for the user, whom you ask; `resume_search` goes on. By default the server's settings."),
        ] = None,
    ) -> Annotated[CallToolResult, SearchResult]:
        """Search papers, code and the library at once: ranked works with the sentences that answer, verbatim."""
        fields: dict[str, Any] = {"query": query, "top_k": top_k, "filters": filters, "sources": sources, "search_mode": search_mode}
        if after is not None:
            fields["previous_strategies"] = [(await self._load_answer(after)).strategy]
        request = check_request(
            {
                **fields,
                "user_feedback": feedback,
                "answer_enabled": short_answer,
                "full_text_enabled": full_text,
                "checkpoints": checkpoints,
            }
        )
        if self._services.settings.checkpoints.list_points(request):
            thread = f"{THREAD}{secrets.token_hex(16)}"
            return await self._run(context, lambda: self._stream_thread(lambda threads: threads.search(thread, request)))

        def stream() -> Any:
            return build(self._services).astream(request, context=RunContext(), stream_mode=["custom", "values"])

        return await self._run(context, stream)

    async def resume_search(
        self,
        context: Context,
        thread: Annotated[str, Field(description="`thread` of what waits.", max_length=100)],
        answer: Annotated[
            dict[str, Any],
            Field(
                description="Of a plan: queries, sources, filters, years, stars. Of results: ids under keep, drop, more_like; feedback. "
                "Empty: go on as it is."
            ),
        ],
    ) -> Annotated[CallToolResult, SearchResult]:
        """Go on with a search that waits for the user, with the user's answer."""
        if not thread.startswith(THREAD):  # a name that cannot be guessed; other threads are not this client's
            raise BadRequest(f"no search waits under {thread!r}; take `thread` of what waits")
        return await self._run(context, lambda: self._stream_thread(lambda threads: threads.resume(thread, answer)))

    async def _run(self, context: Context, stream: Callable[[], AsyncGenerator[Part]]) -> CallToolResult:
        """The result of a search."""
        async with report_progress(context, "warming up", STEPS) as progress:
            await self._wait_until_warm()
            self.running += 1
            try:
                async with aclosing(stream()) as parts:
                    answer = make_response(await progress.follow(parts))
            finally:
                self.running -= 1
        name = await self._results.keep(answer.model_dump_json())
        failed = any(failure.error == NothingSearchable.__name__ for failure in answer.failures)
        return make_result(shorten_answer(answer, name), [make_link("The whole answer", "result", name)], failed=failed)

    async def _stream_thread(self, run: Callable[[Threads], AsyncGenerator[Part]]) -> AsyncGenerator[Part]:
        """The parts of a run that is saved."""
        async with open_threads(self._services) as threads, aclosing(run(threads)) as parts:
            async for part in parts:
                yield part

    async def analyze(
        self,
        context: Context,
        target: Annotated[str, Field(description="owner/name of a repository, a DOI, arxiv:2101.00001, pmid:123, or a link to one.")],
        question: Annotated[str, Field(description="The question that it is judged against.", max_length=1_000)] = "",
    ) -> Annotated[CallToolResult, ShortAnalysis]:
        """Analyze one repository or paper in depth: facts, six dimensions, retraction, alternatives, the sentences that answer."""
        async with (
            report_progress(context, "warming up", ANALYSIS_STEPS) as progress,
            aclosing(stream_analysis(self._services, {"target": target, "question": question})) as parts,
        ):
            analysis = make_analysis(await progress.follow(parts))
        name = await self._results.keep(analysis.model_dump_json())
        links: list[ContentBlock] = [make_link("The whole analysis", "result", name)]
        return make_result(shorten_analysis(analysis), links, failed=analysis.kind is None)

    async def compare(
        self,
        context: Context,
        targets: Annotated[
            list[str], Field(description="Two to four of one kind: owner/name, or a DOI, arxiv:..., pmid:....", min_length=2, max_length=4)
        ],
        question: Annotated[str, Field(description="The question that all are judged against.", max_length=1_000)] = "",
    ) -> Annotated[CallToolResult, ShortComparison]:
        """Compare two to four repositories or papers: facts, dimensions, and what each text says that the others do not mention."""
        async with report_progress(context, f"analysing {len(targets)} works"):
            comparison = await compare_works(self._services, check_compare_request({"targets": targets, "question": question}))
        name = await self._results.keep(comparison.model_dump_json())
        return make_result(shorten_comparison(comparison), [make_link("The whole comparison", "result", name)])

    async def library_ingest(
        self,
        context: Context,
        targets: Annotated[
            list[str], Field(description="doi:..., arxiv:..., pmid:..., github:owner/name or links.", min_length=1, max_length=100)
        ],
    ) -> Annotated[CallToolResult, IngestResult]:
        """Add works to the user's library by identifier or link. Files are added by the user: `outrider ingest`."""
        if paths := [one for one in targets if split_targets([one])[0]]:
            raise BadRequest(f"{paths[0]!r} is no identifier and no link; files are added with: outrider ingest")
        async with report_progress(context, f"looking up {len(targets)} targets"):
            report = await ingest_targets(self._services, targets)
        return make_result(shorten_report(report), [])

    async def library_full_text(
        self,
        context: Context,
        ids: Annotated[
            list[str], Field(description="Records of the library, by id, DOI, PMID or arXiv number.", min_length=1, max_length=MAX_TEXTS)
        ],
    ) -> Annotated[CallToolResult, FullTextResult]:
        """Fetch the open full texts of papers in the user's library, and keep them with licence and place. Nothing else is fetched."""
        async with report_progress(context, f"looking for {len(ids)} texts"):
            report = await afetch_full_text(*ids, services=self._services)
        return make_result(shorten_texts(report), [])

    async def library_search(
        self,
        context: Context,
        query: Query,
        top_k: Few = 5,
        filters: Filters = None,
        strategy: Annotated[Literal["HYBRID", "SPARSE", "DENSE", "GRAPH"], Field(description="Search strategy.")] = "HYBRID",
    ) -> Annotated[CallToolResult, SearchResult]:
        """Search the user's own library alone, without any model or service."""
        async with report_progress(context, "searching"):
            await self._wait_until_warm()
            hits = await aexecute(strategy, query, filters=filters, top_k=top_k, services=self._services)
        total = len(hits) if hits.total is None else hits.total
        result = SearchResult(hits=[shorten_hit(hit) for hit in hits], total=total, notes=shorten_notes(hits.remarks))
        return make_result(result, [make_link(cut(hit.title, 80), "record", hit.doc_id) for hit in hits])

    async def export(
        self,
        context: Context,
        format: Annotated[Format, Field(description="Format for a reference manager, a spreadsheet or a program.")] = "ris",  # noqa: A002
        answer: Annotated[str | None, Field(description="`answer` of an earlier search; else the library.")] = None,
        filters: Filters = None,
    ) -> Annotated[CallToolResult, ExportResult]:
        """Write an answer's hits or the library as BibTeX, RIS, CSL-JSON, CSV, JSON, JSON Lines or Markdown, to be read as a resource."""
        if answer is not None and filters is not None:
            raise BadRequest("filters narrows the library; an answer is exported as it is")
        stream = StringIO()
        writing, count = make_writer(format, stream), 0
        async with report_progress(context, "writing"):
            writing.begin()
            if answer is not None:
                for hit in (await self._load_answer(answer)).hits:
                    writing.record(make_record(hit))
                    count += 1
            else:
                async for record in (await self._services.library()).scan(parse_filter(filters or {})):
                    writing.record(record)
                    count += 1
            writing.end()
        name = await self._results.keep(stream.getvalue())
        link = make_link(f"{format} of {count}", "result", name)
        return make_result(ExportResult(records=count, format=format, resource=link.uri), [link])

    async def result(self, name: str) -> str:
        """A whole answer, analysis or export that a tool linked to."""
        text = await self._results.find(name)
        if text is None:
            raise ResourceNotFoundError("there is no such result any more; ask the tool again")
        return text

    async def library(self) -> str:
        """Counts of the library: records by kind, vectors, files, edges."""
        return json.dumps(dataclasses.asdict(await (await self._services.library()).info()), ensure_ascii=False)

    async def list_records(self) -> list[Resource]:
        """The first records by id, for a client's list; none without a library."""
        try:
            records = await (await self._services.library()).page(limit=MAX_LISTED)
        except LibraryMissing:
            return []
        kind = "application/json"
        return [
            Resource(name=one.doc_id, title=cut(one.title or one.doc_id, 80), uri=make_uri("record", one.doc_id), mime_type=kind)
            for one in records
        ]

    async def record(self, doc_id: str) -> str:
        """A record of the library, whole."""
        records = await (await self._services.library()).fetch([doc_id])
        if not records:
            raise ResourceNotFoundError("the library holds no such record")
        return json.dumps(records[0].model_dump(mode="json", exclude_defaults=True), ensure_ascii=False)

    async def _load_answer(self, name: str) -> SearchResponse:
        text = await self._results.find(name)
        if text is None:
            raise BadRequest("there is no such answer any more; search again")
        return SearchResponse.model_validate_json(text)
