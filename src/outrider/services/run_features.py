"""What is known of a run before it begins: the features of plans, and of the record of runs."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from outrider.models.chat.endpoint import EndpointChat
from outrider.nodes.scout import plan_tasks
from outrider.nodes.translator.rule_plan import parse_intent, plan_by_rules
from outrider.planner.run_row import ASKED, CALLS_TO, TASKS
from outrider.runtime.run_calls import RunTally, get_tally
from outrider.runtime.tape import use_tape, without_port
from outrider.runtime.threads_and_loops import in_background
from outrider.services.planner import BegunRun, Planner
from outrider.state.errors import SearchError
from outrider.state.intent import SearchStrategy
from outrider.state.records import LIBRARY
from outrider.state.request import SearchMode, SearchRequest

if TYPE_CHECKING:
    from outrider.services import Services
    from outrider.state.ports import Source
    from outrider.systematic_search.manifest import Manifest
    from outrider.systematic_search.run import OnFinished

MODEL_QUERIES = 3
"""Queries that a model plans: 2 to 4. A cached plan counts the same, since a run does not look it up before it begins."""
WIDTHS = {SearchMode.FOCUSED: 0.0, SearchMode.BALANCED: 3.0, SearchMode.EXPLORATORY: 8.0}


async def note_search(services: Services, request: SearchRequest) -> None:
    """Note what is known of a ranked search before it starts. Systematic runs note themselves."""
    if request.mode != "discovery":
        return
    with use_tape(None):  # a replay notes nothing
        started, begun = time.perf_counter(), services.clock()
        strategy = make_rule_plan(services, request)
        if strategy is not None:
            features = describe_request(services, request, strategy)
            features |= await describe_waits(services, features) | await describe_library(services, features)
            run = BegunRun(features, describe_text(request), begun, started)
            get_tally().begun = run


def note_systematic(services: Services, planner: Planner, query: str | Mapping[str, str], names: Sequence[str]) -> OnFinished:
    """What a systematic run calls when it has read every source to its end."""
    text, started = describe_query(query), time.perf_counter()
    with use_tape(None):  # a replay notes nothing
        run = BegunRun(describe_systematic(services, names, len(text.split())), text, services.clock(), started)

    def finish(manifest: Manifest, seconds: float, tally: RunTally) -> None:
        planner.end_systematic(run, seconds, manifest, tally.calls)

    return finish


def describe_text(request: SearchRequest) -> str:
    """What decides whether caches have the answers of a request."""
    fields = request.model_dump(mode="json", include={"query", "search_mode", "filters", "user_feedback", "mode"})
    return json.dumps(fields, sort_keys=True)


def describe_query(query: str | Mapping[str, str]) -> str:
    """The same of a systematic run."""
    return query if isinstance(query, str) else " ".join(f"{name}: {text}" for name, text in query.items())


def make_rule_plan(services: Services, request: SearchRequest) -> SearchStrategy | None:
    """The rules' plan without the library's terms; None if nothing can be searched."""
    year = time.gmtime(services.clock()).tm_year
    intent, text = parse_intent(str(request.query), services.settings.stars, year)
    with suppress(SearchError):
        # the request's own names: on a thread, reports of the earlier run may stand in the same field
        names = tuple(name for name in request.sources or () if isinstance(name, str)) or None
        return plan_by_rules(request.model_copy(update={"sources": names}), intent, text, services.source_names, ())
    return None


def describe_request(services: Services, request: SearchRequest, strategy: SearchStrategy) -> dict[str, float]:
    """Features of a ranked search that need no reading."""
    settings = services.settings
    has_model = services.chat is not None and settings.llm.max_calls > 0
    queries = MODEL_QUERIES if has_model else 1
    limit = max(settings.run.candidates, request.top_k)
    widened = strategy.model_copy(update={"expanded_keywords": ("term",) if WIDTHS[request.search_mode] else ()})
    features: dict[str, float] = {}
    for task in plan_tasks(widened, services.sources):
        name, most = task.source.name, task.source.capabilities
        count = min(queries, most.queries)
        features[TASKS + name] = features.get(TASKS + name, 0.0) + count
        if name != LIBRARY:  # two sources may be one service
            service = f"{CALLS_TO}{getattr(find_service(task.source), 'name', name)}"
            features[service] = features.get(service, 0.0) + count
        asked = min(most.most, limit) if name != LIBRARY else limit * 2
        features[ASKED + name] = features.get(ASKED + name, 0.0) + asked * count
    remote = [source for source in services.sources if TASKS + source.name in features and source.name != LIBRARY]
    return features | {
        "model": float(has_model),
        "priced": float(has_model and is_priced(services)),
        "cold": float(not services.is_warm),
        "remote": float(bool(remote)),
        "answer": float(has_model and bool(request.answer_enabled)),
        "distill": float(request.distill_top if request.distill_enabled else 0),
        "rerank": float(bool(request.rerank_enabled)),
        "enrich": float(settings.enrich.enabled and bool(remote)),
        "expansion": WIDTHS[request.search_mode],
        "words": float(len(str(request.query).split())),
        "top_k": float(request.top_k),
        "candidates": float(limit),
        "tasks": sum(count for name, count in features.items() if name.startswith(TASKS) and name != TASKS + LIBRARY),
        **describe_machine(),
    }


def describe_machine() -> dict[str, float]:
    """How busy the machine is."""
    load = os.getloadavg()[0] / (os.cpu_count() or 1) if hasattr(os, "getloadavg") else 0.0
    return {"load": load, "wait_s": 0.0}


async def describe_waits(services: Services, features: Mapping[str, float]) -> dict[str, float]:
    """How long the limits of the services make a request wait now."""
    searched = [without_port(source) for source in services.sources if TASKS + source.name in features]
    pairs = [(getattr(source, "caller", None), find_service(source)) for source in searched]
    limited = [(caller, service) for caller, service in pairs if hasattr(caller, "limiter") and service is not None]

    async def look() -> dict[str, float]:
        limiters = [caller.limiter(service) for caller, service in limited]
        return {"wait_s": max([0.0, *(outlook.wait_s for outlook in await asyncio.gather(*(one.outlook() for one in limiters)))])}

    return await in_background(look()) if limited else {}


def find_service(source: Source) -> Any:
    """The service that a source calls; None where its requests have no limit."""
    return getattr(without_port(source), "service", None)


async def describe_library(services: Services, features: Mapping[str, float]) -> dict[str, float]:
    """Its size, where it is searched."""
    if TASKS + LIBRARY not in features or not services.has_own_library:
        return {}
    with suppress(SearchError):
        return {"records": float(await (await services.library()).size())}
    return {}


def describe_systematic(services: Services, names: Sequence[str], words: int) -> dict[str, float]:
    """Features of a systematic run, but for the records that match in the library."""
    remote = [name for name in names if name != LIBRARY]
    return {
        **{f"{TASKS}{name}": 1.0 for name in names},
        **{f"{ASKED}{name}": 100.0 for name in names},
        **{f"{CALLS_TO}{name}": 1.0 for name in remote},
        "systematic": 1.0,
        "cold": float(not services.is_warm),
        "remote": float(bool(remote)),
        "words": float(words),
        "tasks": float(len(remote)),
        **describe_machine(),
    }


def is_priced(services: Services) -> bool:
    chat = without_port(services.chat)
    return isinstance(chat, EndpointChat) and chat.is_priced
