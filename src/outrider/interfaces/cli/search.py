"""`outrider search`."""

from __future__ import annotations

import json
import sys
import uuid
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrider.interfaces.cli.options import FiltersOption, JsonOption, LibraryOption, read_filters, services, wait_for
from outrider.interfaces.cli.terminal import errors, exit_code, note, show_answer
from outrider.state.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from outrider.services import Services
    from outrider.state.pipeline import RunContext
    from outrider.state.request import SearchRequest
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
    feedback: Annotated[
        str, typer.Option("--feedback", metavar="TEXT", help="What you say of the earlier results; a model plans the next searches by it.")
    ] = "",
    after: Annotated[
        list[Path] | None,
        typer.Option("--after", metavar="FILE", help="An earlier answer, as --json printed it: the new searches differ. May be repeated."),
    ] = None,
    thread: Annotated[
        str | None,
        typer.Option("--thread", metavar="NAME", help="Keep each step under this name; the next search on it knows this one"),
    ] = None,
    max_calls: Annotated[
        int | None, typer.Option("--max-calls", metavar="N", help="Calls of the model that this search may make; 0 leaves all to rules.")
    ] = None,
    max_cost: Annotated[
        float | None,
        typer.Option("--max-cost", metavar="USD", help="What the model may cost in this search; 0 asks only one that is free."),
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Ask your library only.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show the planned searches and every work that a rule left out.")] = False,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> int:
    """Search, and answer with the sentences that count.

    Works without a network and without a key: then rules rank what your library holds.
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
        "user_feedback": feedback,
        "previous_strategies": [_strategy_in(path) for path in after or ()],
    }
    context = context_of(run_timeout_s=timeout_s, max_calls=max_calls, max_cost_usd=max_cost)
    answer, left_out = wait_for(_answer(asked, services(library, offline=offline), context, thread, quiet=as_json))
    if as_json:
        sys.stdout.write(answer.model_dump_json() + "\n")
    else:
        _show_plan(answer, explain)
        show_answer(answer, explain=left_out if explain else ())
    return exit_code(answer)


async def _answer(
    asked: dict[str, Any], made: Services, context: RunContext, thread: str | None, *, quiet: bool
) -> tuple[SearchResponse, list[tuple[str, str]]]:
    """The answer, and (title, reason) of every work that a rule left out; shows which node is running meanwhile."""
    from outrider.runtime.tracing import RUN
    from outrider.state.request import check_request
    from outrider.state.response import SearchResponse

    request = check_request(asked)
    RUN.set(uuid.uuid4().hex[:12])  # of this command's only task
    state: dict[str, Any] = {}
    left_out: list[tuple[str, str]] = []
    status = errors().status("Opening the library and its model")
    if not quiet:
        status.start()
    try:
        await made.warm()
        async with aclosing(_run(request, made, context, thread)) as parts:
            async for kind, streamed in parts:
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


async def _run(request: SearchRequest, made: Services, context: RunContext, thread: str | None) -> AsyncGenerator[tuple[str, Any]]:
    """What the graph streams; on a thread, each step is kept."""
    if thread is None:
        from outrider.graph.pipeline import build

        parts: Any = build(made).astream(request, context=context, stream_mode=["custom", "updates", "values"])
        async for kind, part in parts:
            yield kind, part
        return
    from outrider.usecases.threads import open_threads

    async with open_threads(made) as threads, aclosing(threads.search(thread, request, context)) as found:
        async for kind, part in found:
            yield kind, part


BOUNDS = {
    "run_timeout_s": "--timeout takes seconds above 0 and up to 600",
    "max_calls": "--max-calls takes a number from 0 to 100,000",
    "max_cost_usd": "--max-cost takes USD, 0 or more",
}


def context_of(**given: float | None) -> RunContext:
    from pydantic import ValidationError

    from outrider.state.pipeline import RunContext

    try:
        return RunContext.model_validate(given)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise BadRequest(f"{BOUNDS[str(wrong['loc'][0])]}, not {wrong['input']!r}") from error


def _strategy_in(path: Path) -> object:
    """The strategy of an earlier answer."""
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadRequest(f"--after {path} cannot be read as an answer ({error}); write one with: outrider search ... --json") from error
    found = said.get("strategy") if isinstance(said, dict) else None
    if found is None:
        raise BadRequest(f"--after {path} holds no answer with a strategy; write one with: outrider search ... --json")
    return found


def _show_plan(answer: SearchResponse, explain: bool) -> None:
    if not explain or answer.strategy is None or answer.intent is None:
        return
    plan = answer.strategy
    note(f"Planned by {plan.made_by}. Concepts: {', '.join(answer.intent.concepts)}")
    for query in plan.queries:
        note(f"Searched for: {query.text}  Boolean: {query.boolean_query}")
    note(f"Widened by: {', '.join(plan.expanded_keywords) or 'nothing'}")
    note(f"Constraints: {plan.constraints.model_dump_json(exclude_none=True)}")
