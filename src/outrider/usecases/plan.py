"""The plan of a search and what it is expected to take: `outrider.plan_search`.

No service and no model is asked. The rules plan, or a model's cached plan is used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from os import PathLike
from typing import Any

from outrider.boolean.parser import parse
from outrider.planner.forecaster import Forecast, list_sources
from outrider.planner.intervals import baseline_interval
from outrider.planner.run_row import CALLS, CALLS_TO, COST, HITS_OF, MODEL, SECONDS
from outrider.runtime.threads_and_loops import run_in_background
from outrider.services import Services, open_services
from outrider.services.make_nodes import make_translator
from outrider.services.planner import Planner
from outrider.services.run_features import (
    describe_library,
    describe_query,
    describe_request,
    describe_systematic,
    describe_text,
    describe_waits,
    is_priced,
)
from outrider.services.systematic import Syntax, find_remote_sources, select_sources
from outrider.state.boolean import Node
from outrider.state.errors import BadRequest, LibraryError
from outrider.state.intent import SearchStrategy
from outrider.state.pipeline import RunContext
from outrider.state.plan import Estimate, EstimatedQuantity, SearchPlan, Unknown
from outrider.state.records import LIBRARY
from outrider.state.request import SearchRequest, check_request

FEW_RUNS = 10
NO_JUDGEMENTS = "nothing is known of which works answer; measure the library on your own judgements with: outrider library evaluate"
NO_RECORD = "what searches take is not recorded (planner.enabled); only priors stand in"


async def aplan_search(
    query: str | dict[str, str],
    *,
    library: str | PathLike[str] | None = None,
    offline: bool = False,
    services: Services | None = None,
    syntax: Syntax = "auto",
    **request: Any,
) -> SearchPlan:
    """Predict seconds, calls, cost, hits by source and recall of a search, each with an 80 % interval and what it rests on.

    The other arguments are those of `asearch`; `mode="systematic"` predicts an exact run, and counts its matches in the library. Raises
    what the search would raise for the same request: `BadRequest`, `NothingSearchable`.
    """
    search_request = check_request({"query": query, **request})
    if offline and services is not None and not services.settings.sources.offline:
        raise BadRequest('these services may use the network; make them with Services.from_file({"sources.offline": True})')
    async with open_services(services, library, {"sources.offline": True} if offline else None) as opened:
        return await plan_request(opened, search_request, syntax)


def plan_search(query: str | dict[str, str], **options: Any) -> SearchPlan:
    """`aplan_search` for callers without an event loop, or inside one that they do not want to wait on."""
    return run_in_background(aplan_search(query, **options))


async def plan_request(
    services: Services, request: SearchRequest, syntax: Syntax = "auto", context: RunContext | None = None
) -> SearchPlan:
    """The plan of a checked request, within the limits of its run."""
    planned = await _plan_request(services, request, syntax)
    return (
        planned if context is None else planned.model_copy(update={"estimates": tuple(_limit(one, context) for one in planned.estimates)})
    )


def _limit(estimate: Estimate, context: RunContext) -> Estimate:
    """No more than the run may take."""
    limits = {("calls", MODEL): context.max_calls, ("cost_usd", ""): context.max_cost_usd}
    most = limits.get((estimate.quantity, estimate.of))
    if most is None or estimate.high <= most:
        return estimate
    values = {name: min(getattr(estimate, name), float(most)) for name in ("low", "expected", "high")}
    return estimate.model_copy(update={**values, "basis": f"{estimate.basis}; limited by the request"})


async def _plan_request(services: Services, request: SearchRequest, syntax: Syntax) -> SearchPlan:
    await services.prepare()
    if request.mode == "systematic":
        return await _plan_systematic(services, request, syntax)
    strategy = await make_translator(services).plan_unasked(request)
    features = describe_request(services, request, strategy)
    features |= await describe_waits(services, features) | await describe_library(services, features)
    return await _make_plan(services, request, strategy, features, describe_text(request), None)


async def _plan_systematic(services: Services, request: SearchRequest, syntax: Syntax) -> SearchPlan:
    parsed = parse(request.query, syntax)
    names = select_sources(request.sources, find_remote_sources(services))
    text = describe_query(request.query)
    features = describe_systematic(services, names, len(text.split()))
    matches = await _count_matches(services, parsed.tree) if LIBRARY in names else None
    if matches is not None:
        features["matches"] = float(matches)
    return await _make_plan(services, request, None, features, text, matches)


async def _count_matches(services: Services, tree: Node) -> int:
    """Raises `LibraryError`, as the run would."""
    # without a tag: a plan leaves nothing behind
    library = await (services.pin(None) if services.pin else (await services.library()).pinned())
    try:
        return await library.count(tree)
    finally:
        library.close()


async def _make_plan(
    services: Services,
    request: SearchRequest,
    strategy: SearchStrategy | None,
    features: Mapping[str, float],
    text: str,
    matches: int | None,
) -> SearchPlan:
    planner = services.planner or Planner(services.settings)
    complete, forecasts, runs = await asyncio.to_thread(planner.forecast, features, text, services.clock())
    unknown = [] if services.planner is not None else [Unknown(quantity="seconds", why=NO_RECORD)]
    estimates = [_make_estimate(name, forecast) for name, forecast in forecasts.items()]
    estimates += _list_known(services, complete, matches)
    if features.get(MODEL) and not is_priced(services):
        why = f"the price of {services.chat_says} is unknown; set it under llm.prices"
        unknown.append(Unknown(quantity="cost_usd", why=why))
    if request.mode != "systematic":
        recall = await _estimate_recall(services, planner, request.top_k, list_sources(complete))
        if isinstance(recall, Unknown):
            unknown.append(recall)
        else:
            estimates.append(recall)
    order = ("seconds", "calls", "cost_usd", "hits", "recall")
    return SearchPlan(
        query=request.query,
        mode=request.mode,
        strategy=strategy,
        sources=tuple(list_sources(complete)),
        estimates=tuple(sorted(estimates, key=lambda one: (order.index(one.quantity), one.of))),
        unknown=tuple(unknown),
        runs=runs,
    )


async def _estimate_recall(services: Services, planner: Planner, top_k: int, sources: Sequence[str]) -> Estimate | Unknown:
    """From judgements of the user: recall among the first hits, of queries over the library alone."""
    recalls: Mapping[int, Sequence[float]] = {}
    with suppress(LibraryError):
        if LIBRARY in sources and services.has_own_library:
            library_id = (await services.library()).library_id
            recalls = await asyncio.to_thread(planner.read_recalls, library_id)
    if not recalls:
        return Unknown(quantity="recall", why=NO_JUDGEMENTS)
    if len(sources) > 1:
        return Unknown(quantity="recall", why="it was measured for searches of the library alone")
    depth = max((depth for depth in recalls if depth <= top_k), default=min(recalls))
    low, expected, high = baseline_interval(recalls[depth])
    basis = f"among the first {depth:,} hits, from {len(recalls[depth]):,} judged queries over this library"
    return Estimate(quantity="recall", of=LIBRARY, low=low, expected=expected, high=high, basis=basis)


def _make_estimate(name: str, forecast: Forecast) -> Estimate:
    kinds: dict[str, EstimatedQuantity] = {SECONDS: "seconds", CALLS: "calls", COST: "cost_usd", CALLS_TO: "calls", HITS_OF: "hits"}
    prefix, colon, of = name.partition(":")
    low, expected, high = forecast.interval
    return Estimate(quantity=kinds[prefix + colon], of=of, low=low, expected=expected, high=high, basis=describe_basis(forecast))


def describe_basis(forecast: Forecast) -> str:
    """`from 34 runs of this installation, 12 of them alike`."""
    if not forecast.runs:
        return "prior: no run yet"
    runs = f"{forecast.runs:,} run{'s' if forecast.runs > 1 else ''} of this installation"
    alike = min(forecast.runs, round(forecast.alike))
    if alike >= FEW_RUNS:
        return f"from {runs}, as much as {alike:,} like this one"
    return f"from {runs}, few of them like this one, and a prior"


def describe_plan(planned: SearchPlan) -> str:
    """One line: `about 3 to 7 s, 4 to 6 calls, no cost`."""
    seconds, calls, cost = (planned.find(quantity) for quantity in ("seconds", "calls", "cost_usd"))
    parts = [f"about {seconds.low:.2g} to {seconds.high:.2g} s"] if seconds else []
    if calls:
        within = f"{calls.low:,.0f}" if calls.low == calls.high else f"{calls.low:,.0f} to {calls.high:,.0f}"
        parts.append(f"{within} call{'' if calls.low == calls.high == 1 else 's'}")
    if cost:
        parts.append("no cost" if cost.exact else f"${cost.low:.4f} to ${cost.high:.4f}")
    return ", ".join(parts)


def _list_known(services: Services, features: Mapping[str, float], matches: int | None) -> Iterator[Estimate]:
    """What follows from the request itself."""

    def make_known(quantity: EstimatedQuantity, value: float, basis: str, of: str = "") -> Estimate:
        return Estimate(quantity=quantity, of=of, low=value, expected=value, high=value, exact=True, basis=basis)

    if not (features.get("remote") or features.get(MODEL)):
        yield make_known("calls", 0.0, "known: no service and no model is asked")
    if not features.get(MODEL):
        why = "systematic mode asks no model" if features.get("systematic") else "no model is asked"
        yield make_known("cost_usd", 0.0, f"known: {why}")
    if matches is not None:
        yield make_known("hits", float(matches), "counted in the library as it is now", LIBRARY)
    if features.get("systematic"):
        yield make_known("recall", 1.0, "known: a complete run returns every match; works that the query misses are not counted")
