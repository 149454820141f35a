"""Prediction of runs, and the record of what they took (`planner`)."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs

from outrider.models.chat.endpoint import EndpointChat
from outrider.nodes.scout import plan_tasks
from outrider.nodes.translator.rule_plan import parse_intent, plan_by_rules
from outrider.planner.run_history import ERRORS, RunHistory
from outrider.planner.run_row import ASKED, CALLS, CALLS_TO, COST, HITS_OF, MODEL, SECONDS, TASKS, TOOK, RunRow
from outrider.runtime.run_calls import RunTally, get_tally
from outrider.runtime.tape import use_tape
from outrider.sources.http.rate_limit import get_rate_limiter
from outrider.state.errors import SearchError
from outrider.state.intent import SearchStrategy
from outrider.state.records import LIBRARY
from outrider.state.request import SearchMode, SearchRequest
from outrider.state.response import SourceReport, Usage, find_fatal

if TYPE_CHECKING:
    from outrider.planner.calibration import Calibration
    from outrider.planner.forecaster import Forecast
    from outrider.services import Services
    from outrider.settings.model import Settings
    from outrider.state.pipeline import PipelineState
    from outrider.state.ports import Source
    from outrider.systematic_search.manifest import Manifest
    from outrider.systematic_search.run import OnFinished

FILE, THREAD = "runs.sqlite", "outrider-planning"
MODEL_QUERIES = 3
"""Queries that a model plans: 2 to 4. A cached plan counts the same, since a run does not look it up before it begins."""
WIDTHS = {SearchMode.FOCUSED: 0.0, SearchMode.BALANCED: 3.0, SearchMode.EXPLORATORY: 8.0}
REQUEST_BITS = 16
RECALL = "recall of "
"""Before the id of a library, the name of what was measured there."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BegunRun:
    """What was known when a run began."""

    features: Mapping[str, float]
    text: str
    """Only its hash is stored."""
    begun: float
    started: float
    """By `time.perf_counter`."""


class Planner:
    """Of the settings of one `Services`. A search waits for none of its reading and writing."""

    def __init__(self, settings: Settings) -> None:
        own = settings.planner
        path = Path(own.file).expanduser() if own.file else platformdirs.user_data_path("outrider", appauthor=False) / FILE
        self.history = RunHistory(path, own.keep_runs)
        self._fresh_s = settings.cache.fresh_s

    async def begin(self, services: Services, request: SearchRequest) -> None:
        """Note what is known of a ranked search before it starts. Systematic runs note themselves."""
        if request.mode != "discovery":
            return
        with use_tape(None):  # a replay plans nothing
            started, begun = time.perf_counter(), services.clock()
            strategy = make_rule_plan(services, request)
            if strategy is not None:
                features = describe_request(services, request, strategy)
                run = BegunRun({**features, **await describe_library(services, features)}, describe_text(request), begun, started)
                get_tally().begun = run

    def end(self, state: PipelineState) -> None:
        """Store a run that has its response, in a thread. The end of the process waits for it."""
        tally = get_tally()
        run = tally.begun
        if not isinstance(run, BegunRun) or find_fatal(state.failures) is not None:
            return
        rows = [row for row in state.sources or () if isinstance(row, SourceReport)]
        seconds = time.perf_counter() - run.started
        self.store(run, run.begun + seconds, measure(rows, state.usage, tally.calls, seconds))

    def begin_systematic(self, services: Services, query: str | Mapping[str, str], names: Sequence[str]) -> OnFinished:
        """What a systematic run calls when it has read every source to its end."""
        text, started = describe_query(query), time.perf_counter()
        with use_tape(None):  # a replay plans nothing
            run = BegunRun(describe_systematic(services, names, len(text.split())), text, services.clock(), started)

        def finish(manifest: Manifest, seconds: float, tally: RunTally) -> None:
            self._end_systematic(run, seconds, manifest, tally.calls)

        return finish

    def _end_systematic(self, run: BegunRun, seconds: float, manifest: Manifest, calls: Mapping[str, int]) -> None:
        outcome = {SECONDS: seconds, CALLS: float(sum(calls.values())), COST: 0.0}
        outcome |= {f"{CALLS_TO}{name}": float(count) for name, count in calls.items()}
        outcome |= {f"{HITS_OF}{result.source}": float(result.hits) for result in manifest.sources}
        outcome |= {f"{TOOK}{name}": took_s for name, took_s in manifest.times.seconds.items()}
        matches = outcome.get(f"{HITS_OF}{LIBRARY}", 0.0)  # a plan counts them before the run
        self.store(replace(run, features={**run.features, "matches": matches}), run.begun + seconds, outcome)

    def store(self, run: BegunRun, ended: float, outcome: Mapping[str, float]) -> None:
        threading.Thread(target=self._store, args=(run, ended, outcome), name=THREAD).start()

    def _store(self, run: BegunRun, ended: float, outcome: Mapping[str, float]) -> None:
        try:
            request = hash_request(run.text, self.history.salt(create=True))
            features, forecasts, _ = self._forecast(run.features, run.begun, request)
            uncalled = {name: 0.0 for name in forecasts if name.startswith((CALLS_TO, HITS_OF))}
            predicted = {name: forecast.interval for name, forecast in forecasts.items()}
            self.history.add(RunRow(run.begun, ended, request, features, {**uncalled, **outcome}, predicted))
        except ERRORS as error:  # the search has its answer
            log.warning("this run will not improve later plans: %s: %s", self.history.path, error)

    def store_recalls(self, library_id: str, recalls: Mapping[int, Sequence[float]]) -> None:
        """Keep the recall of each judged query, by the number of hits, for plans over the same library. Blocks."""
        try:
            self.history.store_fact(f"{RECALL}{library_id}", json.dumps(recalls))
        except ERRORS as error:
            log.warning("the measured recall will not stand in plans: %s: %s", self.history.path, error)

    def read_recalls(self, library_id: str) -> Mapping[int, Sequence[float]]:
        """What `store_recalls` kept last; empty if nothing can be read. Blocks."""
        try:
            text = self.history.fact(f"{RECALL}{library_id}")
            return {int(depth): values for depth, values in json.loads(text or "{}").items()}
        except ERRORS as error:
            log.warning("the measured recall cannot be read: %s: %s", self.history.path, error)
            return {}

    def calibrate(self) -> tuple[int, tuple[Calibration, ...]]:
        """The number of recorded runs, and how their predictions held. Raises `SearchError`."""
        from outrider.planner.calibration import calibrate

        try:
            rows = self.history.read()
        except ERRORS as error:
            raise SearchError(f"{self.history.path} cannot be read: {error}; delete the file") from error
        return len(rows), calibrate(rows)

    def clear(self) -> int:
        """Delete the record; returns how many runs it had. Raises `SearchError`."""
        try:
            return self.history.clear()
        except ERRORS as error:
            raise SearchError(f"{self.history.path} cannot be cleared: {error}; delete the file") from error

    def forecast(self, features: Mapping[str, float], text: str, now: float) -> tuple[dict[str, float], dict[str, Forecast], int]:
        """Complete features, a forecast of each uncertain quantity, and the number of runs. Blocks; writes nothing.

        A history that cannot be read counts as empty.
        """
        try:
            request = hash_request(text, self.history.salt(create=False))
            return self._forecast(features, now, request)
        except ERRORS as error:
            log.warning("earlier runs cannot be read, so priors stand in: %s: %s", self.history.path, error)
            return self._forecast(features, now, -1, ())

    def _forecast(
        self, features: Mapping[str, float], begun: float, request: int, rows: Sequence[RunRow] | None = None
    ) -> tuple[dict[str, float], dict[str, Forecast], int]:
        """From runs that had ended when this one began."""
        from outrider.planner.forecaster import Forecaster, complete_features, list_quantities

        earlier = [row for row in (self.history.read() if rows is None else rows) if row.ended <= begun]
        complete = complete_features(features, begun, request, earlier, self._fresh_s)
        return complete, Forecaster(earlier).forecast(complete, list_quantities(complete, earlier)), len(earlier)


def measure(rows: Sequence[SourceReport], usage: Usage, calls: Mapping[str, int], seconds: float) -> dict[str, float]:
    """The outcome of a ranked search."""
    outcome = {SECONDS: seconds, CALLS: float(sum(calls.values()) + usage.calls)}
    outcome |= {f"{CALLS_TO}{name}": float(count) for name, count in calls.items()}
    if usage.calls:
        outcome[f"{CALLS_TO}{MODEL}"] = float(usage.calls)
    if usage.cost_usd is not None:
        outcome[COST] = usage.cost_usd
    for row in rows:
        hits, took = f"{HITS_OF}{row.source}", f"{TOOK}{row.source}"
        outcome[hits] = outcome.get(hits, 0.0) + row.returned
        outcome[took] = max(outcome.get(took, 0.0), row.took_ms / 1000)
    return outcome


def describe_text(request: SearchRequest) -> str:
    """What decides whether caches have the answers of a request."""
    fields = request.model_dump(mode="json", include={"query", "search_mode", "filters", "user_feedback", "mode"})
    return json.dumps(fields, sort_keys=True)


def describe_query(query: str | Mapping[str, str]) -> str:
    """The same of a systematic run."""
    return query if isinstance(query, str) else " ".join(f"{name}: {text}" for name, text in query.items())


def hash_request(text: str, salt: str) -> int:
    """So short that many requests have the same: it names none."""
    return int.from_bytes(hashlib.sha256(f"{salt} {text}".encode()).digest()[: REQUEST_BITS // 8]) if salt else -1


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
            service = f"{CALLS_TO}{getattr(getattr(task.source, 'service', None), 'name', name)}"
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
        **describe_machine(remote),
    }


def describe_machine(remote: Sequence[Source]) -> dict[str, float]:
    """How busy the machine is, and how long the services' limits make a request wait now."""
    load = os.getloadavg()[0] / (os.cpu_count() or 1) if hasattr(os, "getloadavg") else 0.0
    now, waits = time.time(), [0.0]
    for source in remote:
        service: Any = getattr(source, "service", None)
        if service is not None:
            limiter = get_rate_limiter(service)
            waits.append(max(limiter.window.wait_s(), limiter.closed_until - now))
    return {"load": load, "wait_s": max(waits)}


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
        **describe_machine(()),
    }


def is_priced(services: Services) -> bool:
    return isinstance(services.chat, EndpointChat) and services.chat.is_priced
