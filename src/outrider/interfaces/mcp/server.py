"""The tools and resources. Loaded only where the door is opened."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from io import StringIO
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp_types import CallToolResult, ContentBlock, ResourceLink, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

from outrider.graph.analyze import make_analysis
from outrider.graph.pipeline import build
from outrider.ingest.export import make_writer
from outrider.ingest.parse_targets import split_targets
from outrider.interfaces.mcp import short_answers as shown
from outrider.interfaces.mcp.long_results import Kept, address_of
from outrider.interfaces.mcp.short_answers import Exact, Exported, Found, Ingested, ShortAnalysis
from outrider.services import Services
from outrider.state.errors import BadRequest, SearchError
from outrider.state.filters import parse_filter
from outrider.state.pipeline import RunContext
from outrider.state.records import LIBRARY
from outrider.state.request import check_request
from outrider.state.response import SearchResponse
from outrider.usecases.analyze import stream_analysis
from outrider.usecases.execute import aexecute
from outrider.usecases.export import make_record
from outrider.usecases.ingest import ingest_targets
from outrider.usecases.systematic import asystematic
from outrider.usecases.threads import make_response
from outrider.version import __version__

INSTRUCTIONS = f"""Searches papers, code and the user's own library, and gives the sentences that answer.
{shown.DATA} Tools answer briefly; the resource that they link to holds everything."""
READS = ToolAnnotations(read_only_hint=True, open_world_hint=True)
WRITES = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=True)
MOST_HITS = 20
FIRST_OF_EXACT = 10
STEPS = 10
"""Nodes of a search, for the client's bar."""

Query = Annotated[str, Field(description="Words or a question.", min_length=1, max_length=20_000)]
Filters = Annotated[dict[str, Any] | None, Field(description='For example {"year": {"$gte": 2020}, "language": "Rust"}.')]
Few = Annotated[int, Field(description="How many hits.", ge=1, le=MOST_HITS)]
Format = Literal["bibtex", "ris", "csv", "json", "jsonl", "markdown"]


def made(services: Services) -> MCPServer:
    """One server over these services."""
    server = MCPServer("outrider", title="Outrider", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING")
    tools = Tools(services, Kept())
    for name, tool, hints in (
        ("search", tools.search, READS),
        ("systematic", tools.systematic, WRITES),
        ("analyze", tools.analyze, READS),
        ("library_ingest", tools.library_ingest, WRITES),
        ("library_search", tools.library_search, READS),
        ("export", tools.export, READS),
    ):
        server.add_tool(_told(tool), name=name, description=tool.__doc__, annotations=hints)
    server.resource("outrider://result/{name}", title="A whole result", mime_type="text/plain")(tools.result)
    server.resource("outrider://record/{doc_id}", title="A record of the library", mime_type="application/json")(tools.record)
    return server


class Tools:
    def __init__(self, services: Services, kept: Kept) -> None:
        self._services, self._kept = services, kept

    async def search(  # noqa: PLR0913, PLR0917 - the fields of its form
        self,
        context: Context,
        query: Query,
        top_k: Few = 5,
        filters: Filters = None,
        sources: Annotated[list[str] | None, Field(description="Who is asked; all by default.")] = None,
        search_mode: Annotated[Literal["focused", "balanced", "exploratory"], Field(description="How far it is widened.")] = "balanced",
        feedback: Annotated[str, Field(description="What to do otherwise than before, such as: only Rust.", max_length=2_000)] = "",
        after: Annotated[str | None, Field(description="`answer` of an earlier search: the new one differs.")] = None,
    ) -> Annotated[CallToolResult, Found]:
        """Search papers, code and the library at once: ranked works with the sentences that answer, verbatim."""
        asked: dict[str, Any] = {"query": query, "top_k": top_k, "filters": filters, "sources": sources, "search_mode": search_mode}
        if after is not None:
            asked["previous_strategies"] = [self._answer(after).strategy]
        request = check_request({**asked, "user_feedback": feedback})
        await self._services.warm()
        state: Any = {}
        streamed: Any = build(self._services).astream(request, context=RunContext(), stream_mode=["custom", "values"])
        async with aclosing(streamed) as parts:
            async for kind, part in _reported(parts, context, STEPS):
                state = part if kind == "values" else state
        answer = make_response(state)
        name = self._kept.put(answer.model_dump_json())
        return _answered(shown.found_of(answer, name), [_link(name, "The whole answer")])

    async def systematic(
        self,
        context: Context,
        query: Annotated[str, Field(description="A Boolean query in PubMed's or Ovid's syntax.", min_length=1, max_length=20_000)],
        sources: Annotated[list[str] | None, Field(description="Who is asked; the library by default.")] = None,
        limit: Annotated[int, Field(description="Stop the run behind so many hits; it can be gone on with.", ge=1, le=1_000_000)] = 10_000,
    ) -> Annotated[CallToolResult, Exact]:
        """Run an exact Boolean protocol: every record that matches, unranked, with a ledger and a manifest that can be verified."""
        first: list[shown.ShortHit] = []
        total, complete = 0, True
        hits = asystematic(query, sources=tuple(sources or (LIBRARY,)), services=self._services)
        async with aclosing(hits):
            async for hit in hits:
                total += 1
                if total <= FIRST_OF_EXACT:
                    first.append(shown.short_hit(hit))
                if total % 1_000 == 0:
                    await context.report_progress(total, None, f"{total:,} hits")
                if total >= limit:
                    complete = False
                    break
        found = Exact(total=total, first=first, folder=str(hits.folder or ""), complete=complete)
        return _answered(found, [])

    async def analyze(
        self,
        context: Context,
        target: Annotated[str, Field(description="owner/name of a repository, a DOI, arxiv:2101.00001, pmid:123, or a link to one.")],
        question: Annotated[str, Field(description="What it is judged against.", max_length=1_000)] = "",
    ) -> Annotated[CallToolResult, ShortAnalysis]:
        """Look at one repository or paper in depth: facts, six dimensions, retraction, alternatives, the sentences that count."""
        state: Any = {}
        async with aclosing(stream_analysis(self._services, {"target": target, "question": question})) as parts:
            async for kind, part in _reported(parts, context, 4):
                state = part if kind == "values" else state
        found = make_analysis(state)
        name = self._kept.put(found.model_dump_json())
        return _answered(shown.analysis_of(found), [_link(name, "The whole analysis")], failed=found.kind is None)

    async def library_ingest(
        self,
        context: Context,
        targets: Annotated[
            list[str], Field(description="doi:..., arxiv:..., pmid:..., github:owner/name or links.", min_length=1, max_length=100)
        ],
    ) -> Annotated[CallToolResult, Ingested]:
        """Add works to the user's library by identifier or link. Files are added by the user: `outrider ingest`."""
        if paths := [one for one in targets if split_targets([one])[0]]:
            raise BadRequest(f"{paths[0]!r} is no identifier and no link; files are added with: outrider ingest")
        await context.report_progress(0, len(targets), "asking")
        return _answered(shown.ingested_of(await ingest_targets(self._services, targets)), [])

    async def library_search(
        self,
        context: Context,
        query: Query,
        top_k: Few = 5,
        filters: Filters = None,
        strategy: Annotated[Literal["HYBRID", "SPARSE", "DENSE", "GRAPH"], Field(description="How the library is searched.")] = "HYBRID",
    ) -> Annotated[CallToolResult, Found]:
        """Search the user's own library alone, without any model or service."""
        hits = await aexecute(strategy, query, filters=filters, top_k=top_k, services=self._services)
        found = Found(hits=[shown.short_hit(hit) for hit in hits], total=len(hits))
        links = [ResourceLink(name=hit.doc_id, uri=address_of("record", hit.doc_id), title=shown.cut(hit.title, 80)) for hit in hits]
        return _answered(found, list(links))

    async def export(
        self,
        context: Context,
        format: Annotated[Format, Field(description="What a reference manager, a spreadsheet or a program reads.")] = "ris",  # noqa: A002
        answer: Annotated[str | None, Field(description="`answer` of an earlier search; else the library.")] = None,
        filters: Filters = None,
    ) -> Annotated[CallToolResult, Exported]:
        """Write an answer's hits or the library as BibTeX, RIS, CSV, JSON, JSON Lines or Markdown, to be read as a resource."""
        if answer is not None and filters is not None:
            raise BadRequest("filters narrows the library; an answer is exported as it is")
        stream = StringIO()
        writing, count = make_writer(format, stream), 0
        writing.begin()
        if answer is not None:
            for hit in self._answer(answer).hits:
                writing.record(make_record(hit))
                count += 1
        else:
            async for record in (await self._services.library()).scan(parse_filter(filters or {})):
                writing.record(record)
                count += 1
        writing.end()
        name = self._kept.put(stream.getvalue(), "text/plain")
        return _answered(Exported(records=count, format=format, resource=address_of("result", name)), [_link(name, f"{format} of {count}")])

    async def result(self, name: str) -> str:
        """A whole answer, analysis or export, as a tool linked to it."""
        held = self._kept.get(name)
        if held is None:
            raise ResourceNotFoundError("there is no such result any more; ask the tool again")
        return held.text

    async def record(self, doc_id: str) -> str:
        """A record of the library, whole."""
        found = await (await self._services.library()).fetch([doc_id])
        if not found:
            raise ResourceNotFoundError("the library holds no such record")
        return json.dumps(found[0].model_dump(mode="json", exclude_defaults=True), ensure_ascii=False)

    def _answer(self, name: str) -> SearchResponse:
        held = self._kept.get(name)
        if held is None:
            raise BadRequest("there is no such answer any more; search again")
        return SearchResponse.model_validate_json(held.text)


def _told(tool: Callable[..., Awaitable[CallToolResult]]) -> Callable[..., Awaitable[CallToolResult]]:
    """What the caller can mend is told to the model; a bug is not (the SDK logs it)."""
    from functools import wraps

    @wraps(tool)
    async def telling(*given: Any, **named: Any) -> CallToolResult:
        try:
            return await tool(*given, **named)
        except SearchError as error:
            raise ToolError(str(error)) from error

    return telling


async def _reported(parts: AsyncIterator[tuple[str, Any]], context: Context, of: int) -> AsyncIterator[tuple[str, Any]]:
    """The parts, each finished node reported to the client."""
    done = 0
    async for kind, part in parts:
        if kind == "custom" and part.get("event") == "finished":
            done += 1
            await context.report_progress(done, max(of, done), part["node"])
        yield kind, part


def _answered(found: BaseModel, links: list[ContentBlock], *, failed: bool = False) -> CallToolResult:
    text = TextContent(text=shown.text_of(found))
    return CallToolResult(content=[text, *links], structured_content=found.model_dump(mode="json"), is_error=failed)


def _link(name: str, title: str) -> ResourceLink:
    return ResourceLink(name=name, title=title, uri=address_of("result", name))
