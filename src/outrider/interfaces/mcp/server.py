"""MCP server: its tools and resources. Imported only when the server starts."""

from __future__ import annotations

import json
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import wraps
from io import StringIO
from typing import TYPE_CHECKING, Annotated, Any, Literal

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp_types import CallToolResult, ContentBlock, ResourceLink, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

from outrider.graph.analyze import make_analysis
from outrider.graph.pipeline import build
from outrider.ingest.export import make_writer
from outrider.ingest.targets import split_targets
from outrider.interfaces.mcp.short_answers import (
    DATA,
    ExportResult,
    IngestResult,
    SearchResult,
    ShortAnalysis,
    ShortHit,
    SystematicResult,
    cut,
    format_result,
    shorten_analysis,
    shorten_answer,
    shorten_hit,
    shorten_notes,
    shorten_report,
)
from outrider.services import Services
from outrider.state.errors import BadRequest, SearchError
from outrider.state.filters import parse_filter
from outrider.state.pipeline import RunContext
from outrider.state.records import LIBRARY
from outrider.state.request import check_request
from outrider.state.response import SearchResponse
from outrider.usecases.analyze import stream_analysis
from outrider.usecases.export import make_record
from outrider.usecases.ingest import ingest_targets
from outrider.usecases.search_library import aexecute
from outrider.usecases.systematic import asystematic
from outrider.usecases.threads import make_response
from outrider.version import __version__

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from outrider.services import Services


INSTRUCTIONS = f"""Searches papers, code and the user's own library, and gives the sentences that answer.
{DATA} Tools answer briefly; the resource that they link to holds everything."""
READS = ToolAnnotations(read_only_hint=True, open_world_hint=True)
WRITES = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=True)
MAX_HITS = 20
SYSTEMATIC_HITS = 10
MAX_REMARKS = 30
MAX_RESULTS = 100
STEPS = 10
"""Nodes of a search, for the client's progress bar."""

Query = Annotated[str, Field(description="Words or a question.", min_length=1, max_length=20_000)]
Filters = Annotated[dict[str, Any] | None, Field(description='For example {"year": {"$gte": 2020}, "language": "Rust"}.')]
Few = Annotated[int, Field(description="How many hits.", ge=1, le=MAX_HITS)]
Format = Literal["bibtex", "ris", "csl", "csv", "json", "jsonl", "markdown"]


def build_server(services: Services) -> MCPServer:
    """One server over these services."""
    server = MCPServer("outrider", title="Outrider", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING")
    tools = Tools(services)
    for name, tool, hints in (
        ("search", tools.search, READS),
        ("systematic", tools.systematic, WRITES),
        ("analyze", tools.analyze, READS),
        ("library_ingest", tools.library_ingest, WRITES),
        ("library_search", tools.library_search, READS),
        ("export", tools.export, READS),
    ):
        server.add_tool(_raise_tool_errors(tool), name=name, description=tool.__doc__, annotations=hints)
    server.resource("outrider://result/{name}", title="A whole result", mime_type="text/plain")(tools.result)
    server.resource("outrider://record/{doc_id}", title="A record of the library", mime_type="application/json")(tools.record)
    return server


class Tools:
    """The handlers. Long results are kept for a while, each under a name that cannot be guessed; the oldest are dropped first."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._results: OrderedDict[str, str] = OrderedDict()

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
    ) -> Annotated[CallToolResult, SearchResult]:
        """Search papers, code and the library at once: ranked works with the sentences that answer, verbatim."""
        fields: dict[str, Any] = {"query": query, "top_k": top_k, "filters": filters, "sources": sources, "search_mode": search_mode}
        if after is not None:
            fields["previous_strategies"] = [self._load_answer(after).strategy]
        request = check_request({**fields, "user_feedback": feedback})
        await self._services.warm()
        state: Any = {}
        stream: Any = build(self._services).astream(request, context=RunContext(), stream_mode=["custom", "values"])
        async with aclosing(stream) as parts:
            async for kind, part in _report_progress(parts, context, STEPS):
                state = part if kind == "values" else state
        answer = make_response(state)
        name = self._store(answer.model_dump_json())
        return _make_result(shorten_answer(answer, name), [_link(name, "The whole answer")])

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
        limit: Annotated[int, Field(description="Stop the run after so many hits; it can be resumed.", ge=1, le=1_000_000)] = 10_000,
    ) -> Annotated[CallToolResult, SystematicResult]:
        """Run an exact Boolean protocol: every record that matches, unranked, with a ledger and a manifest that can be verified."""
        first: list[ShortHit] = []
        total, complete = 0, True
        hits = asystematic(query, sources=tuple(sources or (LIBRARY,)), services=self._services)
        async with aclosing(hits):
            async for hit in hits:
                total += 1
                if total <= SYSTEMATIC_HITS:
                    first.append(shorten_hit(hit))
                if total % 1_000 == 0:
                    await context.report_progress(total, None, f"{total:,} hits")
                if total >= limit:
                    complete = False
                    break
        remarks = shorten_notes(hits.remarks, MAX_REMARKS)
        result = SystematicResult(total=total, first=first, folder=str(hits.folder or ""), complete=complete, remarks=remarks)
        return _make_result(result, [])

    async def analyze(
        self,
        context: Context,
        target: Annotated[str, Field(description="owner/name of a repository, a DOI, arxiv:2101.00001, pmid:123, or a link to one.")],
        question: Annotated[str, Field(description="The question that it is judged against.", max_length=1_000)] = "",
    ) -> Annotated[CallToolResult, ShortAnalysis]:
        """Analyze one repository or paper in depth: facts, six dimensions, retraction, alternatives, the sentences that answer."""
        state: Any = {}
        async with aclosing(stream_analysis(self._services, {"target": target, "question": question})) as parts:
            async for kind, part in _report_progress(parts, context, 4):
                state = part if kind == "values" else state
        analysis = make_analysis(state)
        name = self._store(analysis.model_dump_json())
        return _make_result(shorten_analysis(analysis), [_link(name, "The whole analysis")], failed=analysis.kind is None)

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
        await context.report_progress(0, len(targets), "asking")
        return _make_result(shorten_report(await ingest_targets(self._services, targets)), [])

    async def library_search(
        self,
        context: Context,
        query: Query,
        top_k: Few = 5,
        filters: Filters = None,
        strategy: Annotated[Literal["HYBRID", "SPARSE", "DENSE", "GRAPH"], Field(description="Search strategy.")] = "HYBRID",
    ) -> Annotated[CallToolResult, SearchResult]:
        """Search the user's own library alone, without any model or service."""
        hits = await aexecute(strategy, query, filters=filters, top_k=top_k, services=self._services)
        total = len(hits) if hits.total is None else hits.total
        result = SearchResult(hits=[shorten_hit(hit) for hit in hits], total=total, notes=shorten_notes(hits.remarks))
        links = [ResourceLink(name=hit.doc_id, uri=_make_uri("record", hit.doc_id), title=cut(hit.title, 80)) for hit in hits]
        return _make_result(result, list(links))

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
        writing.begin()
        if answer is not None:
            for hit in self._load_answer(answer).hits:
                writing.record(make_record(hit))
                count += 1
        else:
            async for record in (await self._services.library()).scan(parse_filter(filters or {})):
                writing.record(record)
                count += 1
        writing.end()
        name = self._store(stream.getvalue())
        return _make_result(
            ExportResult(records=count, format=format, resource=_make_uri("result", name)), [_link(name, f"{format} of {count}")]
        )

    async def result(self, name: str) -> str:
        """A whole answer, analysis or export that a tool linked to."""
        if name not in self._results:
            raise ResourceNotFoundError("there is no such result any more; ask the tool again")
        return self._results[name]

    async def record(self, doc_id: str) -> str:
        """A record of the library, whole."""
        records = await (await self._services.library()).fetch([doc_id])
        if not records:
            raise ResourceNotFoundError("the library holds no such record")
        return json.dumps(records[0].model_dump(mode="json", exclude_defaults=True), ensure_ascii=False)

    def _load_answer(self, name: str) -> SearchResponse:
        if name not in self._results:
            raise BadRequest("there is no such answer any more; search again")
        return SearchResponse.model_validate_json(self._results[name])

    def _store(self, text: str) -> str:
        """Keep a long result and return its name."""
        name = secrets.token_hex(16)
        self._results[name] = text
        while len(self._results) > MAX_RESULTS:
            self._results.popitem(last=False)
        return name


def _raise_tool_errors(tool: Callable[..., Awaitable[CallToolResult]]) -> Callable[..., Awaitable[CallToolResult]]:
    """The tool with expected errors as `ToolError`, which the model sees; the SDK logs bugs."""

    @wraps(tool)
    async def call(*args: Any, **kwargs: Any) -> CallToolResult:
        try:
            return await tool(*args, **kwargs)
        except SearchError as error:
            raise ToolError(str(error)) from error

    return call


async def _report_progress(parts: AsyncIterator[tuple[str, Any]], context: Context, total: int) -> AsyncIterator[tuple[str, Any]]:
    """The parts; each finished node is reported to the client."""
    done = 0
    async for kind, part in parts:
        if kind == "custom" and part.get("event") == "finished":
            done += 1
            await context.report_progress(done, max(total, done), part["node"])
        yield kind, part


def _make_result(result: BaseModel, links: list[ContentBlock], *, failed: bool = False) -> CallToolResult:
    text = TextContent(text=format_result(result))
    return CallToolResult(content=[text, *links], structured_content=result.model_dump(mode="json"), is_error=failed)


def _make_uri(kind: str, name: str) -> str:
    return f"outrider://{kind}/{name}"


def _link(name: str, title: str) -> ResourceLink:
    return ResourceLink(name=name, title=title, uri=_make_uri("result", name))
