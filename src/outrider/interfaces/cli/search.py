"""`outrider search`: one search over all sources."""

from __future__ import annotations

import json
import sys
import uuid
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrider.interfaces.cli.options import (
    FiltersOption,
    JsonOption,
    LibraryOption,
    OfflineOption,
    RecordOption,
    narrow_filters,
    note_recording,
    open_services,
    parse_filters,
    wait_for,
)
from outrider.interfaces.cli.terminal import count, exit_code, follow_run, measure_wait, note, note_remarks, print_answer
from outrider.state.errors import BadRequest, SearchError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from outrider.services import Services
    from outrider.state.intent import Constraints
    from outrider.state.pipeline import RunContext
    from outrider.state.request import SearchRequest
    from outrider.state.response import SearchResponse

DEFAULT_HITS = 10
LIMITS = {
    "run_timeout_s": "--timeout takes seconds above 0 and up to 600",
    "max_calls": "--max-calls takes a number from 0 to 100,000",
    "max_cost_usd": "--max-cost takes USD, 0 or more",
}


def complete_words(incomplete: str) -> list[str]:
    """Past queries and words of the library, for the shell. Nothing may be printed there, so an error completes nothing."""
    from outrider.interfaces.cli.options import call_services
    from outrider.usecases.learning import complete_query

    try:
        return [one.text for one in call_services(lambda services: complete_query(services, incomplete), offline=True)]
    except SearchError:
        return []


def search(
    command: typer.Context,
    query: Annotated[
        str,
        typer.Argument(help="What to search for: words or a question; - reads it from standard input.", autocompletion=complete_words),
    ],
    top_k: Annotated[
        int,
        typer.Option(
            "--top-k",
            "-k",
            min=1,
            max=1_000,
            help="How many hits to return (1 to 1,000). Without it, a terminal shows the first five.",
        ),
    ] = DEFAULT_HITS,
    search_mode: Annotated[
        str, typer.Option("--search-mode", help="How far to widen the query: focused, balanced or exploratory.")
    ] = "balanced",
    year: Annotated[
        str | None, typer.Option("--year", metavar="YEARS", help="Only works of these years: 2020, 2020-, -2015 or 2019-2021.")
    ] = None,
    first_year: Annotated[str | None, typer.Option("--from", metavar="YEAR", help="Only works of this year and later.")] = None,
    last_year: Annotated[str | None, typer.Option("--to", metavar="YEAR", help="Only works of this year and earlier.")] = None,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", help="Only this kind: paper, repository, page or document; may be repeated.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", help="Only records of your library with this label; may be repeated.")
    ] = None,
    no_retracted: Annotated[
        bool, typer.Option("--no-retracted", help="Leave out retracted and withdrawn works, and name them. Without it they are marked.")
    ] = False,
    filters: FiltersOption = None,
    source: Annotated[list[str] | None, typer.Option("--source", "-s", help="Search only this source; may be repeated.")] = None,
    strategy: Annotated[
        list[str] | None, typer.Option("--strategy", help="Search the library only with this retriever; may be repeated.")
    ] = None,
    mode: Annotated[str, typer.Option("--mode", help="discovery (ranked) or systematic (exact Boolean).")] = "discovery",
    fusion: Annotated[bool, typer.Option("--fusion/--no-fusion", help="Fuse the ranked lists, or interleave them.")] = True,
    rerank: Annotated[
        bool | None,
        typer.Option("--rerank/--no-rerank", help="Reorder the first works with a model. Default: if `outrider library probe` chose one."),
    ] = None,
    distill: Annotated[bool, typer.Option("--distill/--no-distill", help="Keep the sentences that answer.")] = True,
    distill_top: Annotated[int, typer.Option("--distill-top", min=0, max=50, help="How many of the first hits to distil (0 to 50).")] = 5,
    answer_enabled: Annotated[
        bool | None,
        typer.Option(
            "--answer/--no-answer", help="Write a short answer with the chat model, with citations. Default: the setting answer.enabled."
        ),
    ] = None,
    full_text: Annotated[
        bool | None,
        typer.Option(
            "--full-text/--no-full-text",
            help="Also read open full texts of the first hits, with their licences. Default: if enrich.full_text is first_n.",
        ),
    ] = None,
    timeout_s: Annotated[float | None, typer.Option("--timeout", metavar="SECONDS", help="Time limit of the search.")] = None,
    feedback: Annotated[
        str, typer.Option("--feedback", metavar="TEXT", help="Your comment on the earlier results; a model plans the next queries with it.")
    ] = "",
    after: Annotated[
        list[Path] | None,
        typer.Option("--after", metavar="FILE", help="An earlier answer, as --json printed it: the new queries differ. May be repeated."),
    ] = None,
    thread: Annotated[
        str | None,
        typer.Option("--thread", metavar="NAME", help="Save each step under this name; the next search with this name continues from it."),
    ] = None,
    review_plan: Annotated[
        bool | None,
        typer.Option("--review-plan/--no-review-plan", help="Wait after the plan, to change it. Default: checkpoints.after_plan."),
    ] = None,
    review_results: Annotated[
        bool | None,
        typer.Option(
            "--review-results/--no-review-results",
            help="Wait after the results, to keep and drop works. Default: checkpoints.after_results.",
        ),
    ] = None,
    max_calls: Annotated[int | None, typer.Option("--max-calls", metavar="N", help="Most calls of the model; 0 uses rules only.")] = None,
    max_cost: Annotated[
        float | None,
        typer.Option("--max-cost", metavar="USD", help="Cost limit of the model; 0 allows only a free one."),
    ] = None,
    offline: OfflineOption = False,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Show all kept sentences, scores, lists and planned queries, and every work that a rule removed."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what the search is expected to take, as `outrider plan` does, and run nothing.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Also write the hits, by suffix: .ris .bib .csljson .csv .json .jsonl .md."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Also draw the hits by year and kind, as an .svg file.")
    ] = None,
    record: RecordOption = None,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> int:
    """Search papers, code and your library, and show the sentences that answer.

    Works without a network and without a key: then rules rank the records of your library.
    """
    request = {
        "query": sys.stdin.read() if query == "-" else query,
        "top_k": top_k,
        "search_mode": search_mode,
        "filters": narrow_filters(parse_filters(filters), year, first_year, last_year, kind, label, no_retracted=no_retracted),
        "sources": source,
        "strategies": strategy,
        "mode": mode,
        "fusion_enabled": fusion,
        "rerank_enabled": rerank,
        "distill_enabled": distill,
        "distill_top": distill_top,
        "answer_enabled": answer_enabled,
        "full_text_enabled": full_text,
        "user_feedback": feedback,
        "previous_strategies": [_read_strategy(path) for path in after or ()],
    }
    if record is not None and dry_run:
        raise BadRequest("--dry-run runs nothing, so that --record has nothing to record; leave out one of them")
    form = _check_files(output, plot, mode)
    context = make_run_context(run_timeout_s=timeout_s, max_calls=max_calls, max_cost_usd=max_cost)
    services = open_services(library, offline=offline, record=record)
    if dry_run:
        from outrider.interfaces.cli.plan import show_planned

        return show_planned(services, request, context=context, as_json=as_json)
    request |= _choose_checkpoints(services, mode, review_plan, review_results, record)
    answer, rejected = wait_for(_answer(request, services, context, thread, quiet=as_json))
    note_recording(services)
    if services.settings.learning.enabled and not exit_code(answer):
        from outrider.usecases.learning import remember_query

        wait_for(remember_query(services, str(request["query"])))
    if answer.waiting is not None:
        from outrider.interfaces.cli.checkpoints import WAITS, settle, show_waiting

        answer = settle(answer, library, offline=offline, quiet=as_json)
        if answer.waiting is not None:
            if not as_json:
                return show_waiting(answer.waiting, library)
            print_answer(answer)
            return WAITS
    if not exit_code(answer):
        _write_files(answer, output, form, plot)
    if as_json:
        note_remarks(answer.result_set.remarks if answer.result_set else ())
        if services.lost_model and services.settings.sources.offline:  # otherwise it is logged as an error
            note(f"Not run: model ({services.lost_model})")
        print_answer(answer)
        return exit_code(answer)
    if explain:
        _show_plan(answer)
    from outrider.interfaces.cli.answer import show_answer
    from outrider.services.sources import find_cache_folder

    advice_file, origin = find_cache_folder(services.settings.cache) / "advice.json", command.get_parameter_source("top_k")
    show_answer(
        answer,
        explain=explain,
        rejected=rejected if explain else (),
        waited_s=measure_wait(),
        advice_file=advice_file,
        more=f"-k {DEFAULT_HITS}" if origin is not None and origin.name == "DEFAULT" else "",
    )
    return exit_code(answer)


def _show_plan(answer: SearchResponse) -> None:
    plan = answer.strategy
    if plan is None or answer.intent is None:
        return
    note(f"Planned by {plan.made_by}. Concepts: {', '.join(answer.intent.concepts)}")
    for planned in plan.queries:
        note(f"Searched for: {planned.text}")
        note(f"Boolean query: {planned.boolean_query or 'none'}")
    note(f"Added terms: {', '.join(plan.expanded_keywords) or 'none'}")
    note(f"Limits read from the request: {_describe_limits(plan.constraints)}")


def _choose_checkpoints(
    services: Services, mode: str, review_plan: bool | None, review_results: bool | None, record: Path | None
) -> dict[str, list[str]]:
    """Where the search waits for a person, as the options say, else the settings; empty where no option says anything."""
    own = services.settings.checkpoints
    is_ranked = mode == "discovery"  # the settings concern no other search
    wishes = (
        ("plan", own.after_plan and is_ranked if review_plan is None else review_plan),
        ("results", own.after_results and is_ranked if review_results is None else review_results),
    )
    points = [point for point, is_on in wishes if is_on]
    if record is not None and points:
        raise BadRequest("--record records a run without pauses; give --no-review-plan and --no-review-results")
    return {} if review_plan is None and review_results is None else {"checkpoints": points}


def _write_files(answer: SearchResponse, output: Path | None, form: str, plot: Path | None) -> None:
    if output is not None:
        from outrider.interfaces.cli.export import open_output
        from outrider.usecases.export import make_record, write_records

        with open_output(output) as stream:
            written = write_records(map(make_record, answer.hits), form, stream)
        note(f"{count(written, 'record')} written to {output}")
    if plot is not None:
        from outrider.interfaces.cli.export import write_picture
        from outrider.pictures.timeline import draw_timeline

        write_picture(plot, draw_timeline(answer))


async def _answer(
    fields: Mapping[str, Any], services: Services, context: RunContext, thread: str | None, *, quiet: bool
) -> tuple[SearchResponse, list[tuple[str, str]]]:
    """The answer, and (title, reason) of every work that a rule removed."""
    from outrider.runtime.spans import RUN
    from outrider.state.request import check_request

    request = check_request(fields)
    RUN.set(uuid.uuid4().hex[:12])  # of this command's only task
    rejected: list[tuple[str, str]] = []

    def collect(updates: Mapping[str, Any]) -> None:
        for update in updates.values():
            rejected.extend((row.title or row.doc_id, row.why) for row in update.get("rejected", ()))

    async with aclosing(_stream(request, services, context, thread)) as parts:
        state = await follow_run(parts, "Opening the library", "Searching", quiet=quiet, on_updates=collect)
    from outrider.usecases.threads import make_response

    return make_response(state), rejected


async def _stream(request: SearchRequest, services: Services, context: RunContext, thread: str | None) -> AsyncGenerator[tuple[str, Any]]:
    """The graph's stream. On a thread, each step is saved."""
    from outrider.runtime.threads_and_loops import load_module  # imports asyncio, which the help does not need

    await services.prepare()
    if thread is None and not services.settings.checkpoints.list_points(request):
        pipeline = await load_module("outrider.graph.pipeline")
        parts: Any = pipeline.build(services).astream(request, context=context, stream_mode=["custom", "updates", "values"])
        async for kind, part in parts:
            yield kind, part
        return
    usecase = await load_module("outrider.usecases.threads")
    name = usecase.make_thread_name() if thread is None else thread  # what waits for a person is saved
    async with usecase.open_threads(services) as threads, aclosing(threads.search(name, request, context)) as saved_parts:
        async for kind, part in saved_parts:
            yield kind, part


def _describe_limits(limits: Constraints) -> str:
    """Years and stars that words of the request name; a default minimum of stars is none."""
    ranges = [("years", limits.years)] + ([("stars", limits.stars)] if limits.stars_named else [])
    parts = [f"{name} {_format_range(one.min, one.max)}" for name, one in ranges if one.min is not None or one.max is not None]
    return ", ".join(parts) or "none"


def _format_range(low: int | None, high: int | None) -> str:
    if low == high:
        return str(low)
    return f"from {low}" if high is None else f"up to {high}" if low is None else f"{low} to {high}"


def make_run_context(**limits: float | None) -> RunContext:
    """Limits of one run. Raises `BadRequest`."""
    from pydantic import ValidationError

    from outrider.state.pipeline import RunContext

    try:
        return RunContext.model_validate(limits)
    except ValidationError as error:
        first = error.errors()[0]
        raise BadRequest(f"{LIMITS[str(first['loc'][0])]}, not {first['input']!r}") from error


def _check_files(output: Path | None, plot: Path | None, mode: str) -> str:
    """The format of `-o`, empty without it. Raises `BadRequest` for a file that cannot be written."""
    if output is not None and mode == "systematic":
        raise BadRequest("-o writes the hits of a ranked search; every match of a Boolean query goes to: outrider systematic QUERY -o FILE")
    if plot is not None and mode == "systematic":
        raise BadRequest("--plot draws the hits of a ranked search; the flow of a systematic one: outrider systematic QUERY --plot FILE")
    if output is None and plot is None:
        return ""
    from outrider.interfaces.cli.export import check_output, check_picture

    if plot is not None:
        check_picture(plot)
    return "" if output is None else check_output(output)


def _read_strategy(path: Path) -> object:
    """The strategy of an earlier answer."""
    try:
        answer = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadRequest(f"--after {path} cannot be read as an answer ({error}); write one with: outrider search ... --json") from error
    strategy = answer.get("strategy") if isinstance(answer, dict) else None
    if strategy is None:
        raise BadRequest(f"--after {path} holds no answer with a strategy; write one with: outrider search ... --json")
    return strategy
