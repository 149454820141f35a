"""`outrider search`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrider.serve.cli.options import FiltersOption, JsonOption, LibraryOption, read_filters, services, wait_for
from outrider.serve.cli.terminal import errors, note, nothing_searched, show_answer
from outrider.state.errors import BadRequest

if TYPE_CHECKING:
    from outrider.services import Services
    from outrider.state.pipeline import RunContext
    from outrider.state.response import SearchResponse


def search(
    query: Annotated[str, typer.Argument(help="What to search for: words or a question; - reads it from standard input.")],
    top_k: Annotated[int, typer.Option("--top-k", "-k", help="How many hits to return (1 to 1,000).")] = 10,
    search_mode: Annotated[
        str, typer.Option("--search-mode", help="How far to widen the query: focused, balanced or exploratory.")
    ] = "balanced",
    filters: FiltersOption = None,
    source: Annotated[list[str] | None, typer.Option("--source", "-s", help="Ask only this source; may be repeated.")] = None,
    strategy: Annotated[
        list[str] | None, typer.Option("--strategy", help="Search the library only by this retriever; may be repeated.")
    ] = None,
    mode: Annotated[str, typer.Option("--mode", help="discovery (ranked) or systematic (exact Boolean).")] = "discovery",
    fusion: Annotated[bool, typer.Option("--fusion/--no-fusion", help="Fuse the ranked lists, or interleave them.")] = True,
    rerank: Annotated[
        bool | None,
        typer.Option("--rerank/--no-rerank", help="Reorder the first works with a model. Default: where a probe says so."),
    ] = None,
    distill: Annotated[bool, typer.Option("--distill/--no-distill", help="Keep the sentences that answer.")] = True,
    distill_top: Annotated[int, typer.Option("--distill-top", help="How many of the first hits to distil (0 to 50).")] = 5,
    timeout_s: Annotated[float | None, typer.Option("--timeout", metavar="SECONDS", help="How long the search may take.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show the planned searches and every work that a rule left out.")] = False,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> int:
    """Search, and answer with the sentences that count.

    Works without a network and without a key: rules rank what your library holds.
    """
    asked = {
        "query": sys.stdin.read() if query == "-" else query,
        "top_k": top_k,
        "search_mode": search_mode,
        "filters": read_filters(filters),
        "sources": source,
        "strategies": strategy,
        "mode": mode,
        "fusion_enabled": fusion,
        "rerank_enabled": rerank,
        "distill_enabled": distill,
        "distill_top": distill_top,
    }
    answer, left_out = wait_for(_answer(asked, services(library), timeout_s, quiet=as_json))
    if as_json:
        sys.stdout.write(answer.model_dump_json() + "\n")
    else:
        _show_plan(answer, explain)
        show_answer(answer, explain=left_out if explain else ())
    return 3 if nothing_searched(answer) else 0


async def _answer(
    asked: dict[str, Any], made: Services, timeout_s: float | None, *, quiet: bool
) -> tuple[SearchResponse, list[tuple[str, str]]]:
    """The answer, and (title, reason) of every work that a rule left out; shows which node is running meanwhile."""
    from outrider.graph.pipeline import build
    from outrider.state.request import checked
    from outrider.state.response import SearchResponse

    request = checked(asked)
    graph, context = build(made), _context(timeout_s)
    state: dict[str, Any] = {}
    left_out: list[tuple[str, str]] = []
    status = errors().status("Opening the library and its model")
    if not quiet:
        status.start()
    try:
        await made.warm()
        async for kind, streamed in graph.astream(request, context=context, stream_mode=["custom", "updates", "values"]):
            part: Any = streamed
            if kind == "custom" and part.get("event") == "started":
                status.update(f"Searching: {part['node']}")
            elif kind == "updates":
                for update in part.values():
                    left_out.extend((row.title or row.doc_id, row.why) for row in update.get("rejected", ()))
            elif kind == "values":
                state = part
    finally:
        status.stop()
    return SearchResponse.model_validate({name: value for name, value in state.items() if name in SearchResponse.model_fields}), left_out


def _context(timeout_s: float | None) -> RunContext:
    from pydantic import ValidationError

    from outrider.state.pipeline import RunContext

    try:
        return RunContext(run_timeout_s=timeout_s)
    except ValidationError as error:
        raise BadRequest(f"--timeout takes seconds above 0 and up to 600, not {timeout_s!r}") from error


def _show_plan(answer: SearchResponse, explain: bool) -> None:
    if not explain or answer.strategy is None or answer.intent is None:
        return
    plan = answer.strategy
    note(f"Concepts: {', '.join(answer.intent.concepts)}  Boolean: {plan.queries[0].boolean_query}")
    note(f"Searched for: {plan.queries[0].text}  widened by: {', '.join(plan.expanded_keywords) or 'nothing'}")
    note(f"Constraints: {plan.constraints.model_dump_json(exclude_none=True)}")
