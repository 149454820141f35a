"""`outrider plan` and `--dry-run`: what a search is expected to take."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrider.interfaces.cli.options import FiltersOption, JsonOption, LibraryOption, OfflineOption, open_services, parse_filters, wait_for
from outrider.interfaces.cli.terminal import console, count, note, plain, print_json, table
from outrider.state.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from outrider.services import Services
    from outrider.state.pipeline import RunContext
    from outrider.state.plan import Estimate, SearchPlan

UNITS = {"seconds": "s", "calls": "calls", "cost_usd": "USD", "hits": "hits", "recall": "recall"}


def plan(
    query: Annotated[
        str | None, typer.Argument(help="What would be searched for: words, a question or a Boolean query; - reads it from stdin.")
    ] = None,
    top_k: Annotated[int, typer.Option("--top-k", "-k", min=1, max=1_000, help="How many hits the search would return.")] = 10,
    search_mode: Annotated[
        str, typer.Option("--search-mode", help="How far it would widen the query: focused, balanced or exploratory.")
    ] = "balanced",
    mode: Annotated[str, typer.Option("--mode", help="discovery (ranked) or systematic (exact Boolean).")] = "discovery",
    source: Annotated[list[str] | None, typer.Option("--source", "-s", help="It would search only this source; may be repeated.")] = None,
    strategy: Annotated[
        list[str] | None, typer.Option("--strategy", help="It would search the library only with this retriever; may be repeated.")
    ] = None,
    filters: FiltersOption = None,
    distill: Annotated[bool, typer.Option("--distill/--no-distill", help="Whether it would keep the sentences that answer.")] = True,
    answer_enabled: Annotated[
        bool | None, typer.Option("--answer/--no-answer", help="Whether it would write a short answer with the chat model.")
    ] = None,
    syntax: Annotated[str, typer.Option("--syntax", help="Language of the Boolean query of --mode systematic.")] = "auto",
    clear: Annotated[bool, typer.Option("--clear", help="Delete the record of earlier runs, and plan nothing.")] = False,
    offline: OfflineOption = False,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> int:
    """Predict what a search would take, without running it: seconds, calls, cost, hits by source, recall.

    Each with an interval that should hold 80 % of outcomes, and with what it rests on. No service and no model is asked.
    """
    if clear == (query is not None):
        raise BadRequest("give a query to plan, or --clear to delete the record of earlier runs; not both")
    services = open_services(library, offline=offline)
    if clear:
        from outrider.services.planner import Planner

        cleared = (services.planner or Planner(services.settings)).clear()
        if as_json:
            print_json({"cleared": cleared})
        else:
            note(f"{count(cleared, 'run')} deleted")
        return 0
    request = {
        "query": sys.stdin.read() if query == "-" else query,
        "top_k": top_k,
        "search_mode": search_mode,
        "filters": parse_filters(filters),
        "sources": source,
        "strategies": strategy,
        "mode": mode,
        "distill_enabled": distill,
        "answer_enabled": answer_enabled,
    }
    return show_planned(services, request, syntax=syntax, as_json=as_json)


def show_planned(
    services: Services, request: Mapping[str, Any], *, context: RunContext | None = None, syntax: Any = "auto", as_json: bool = False
) -> int:
    """Print the plan of a request in place of running it."""
    from outrider.state.request import check_request
    from outrider.usecases.plan import plan_request

    checked = check_request(request)
    try:
        planned = wait_for(plan_request(services, checked, syntax, context))
    finally:
        services.close()
    if as_json:
        print_json(planned)
    else:
        _show(planned)
    return 0


def _show(planned: SearchPlan) -> None:
    from outrider.usecases.plan import describe_plan

    out = console()
    out.print(plain(describe_plan(planned), "bold"), soft_wrap=True)
    made_by = f"Planned by {planned.strategy.made_by}; searches" if planned.strategy is not None else "Reads"
    out.print(plain(f"{made_by} {', '.join(planned.sources)}"), soft_wrap=True)
    if planned.strategy is not None:
        for query in planned.strategy.queries:
            out.print(plain(f"  {query.text}"), soft_wrap=True)
    listing = table("", "of", "expected", "80 % of runs", "rests on")
    for one in planned.estimates:
        within = "" if one.exact else f"{format_value(one, one.low)} to {format_value(one, one.high)}"
        listing.add_row(UNITS[one.quantity], plain(one.of), format_value(one, one.expected), within, plain(one.basis, "dim"))
    out.print(listing)
    for lack in planned.unknown:
        note(f"{lack.quantity} not estimated: {lack.why}")


def format_value(one: Estimate, value: float) -> str:
    if one.quantity in ("hits", "calls"):
        return f"{value:,.0f}"
    return f"{value:.4f}" if one.quantity == "cost_usd" else f"{value:.2g}"
