"""Prediction of runs, and the record of what they took (`planner`)."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from outrider.planner.run_history import ERRORS, RunHistory
from outrider.planner.run_row import CALLS, CALLS_TO, COST, HITS_OF, MODEL, SECONDS, TOOK, RunRow
from outrider.runtime.run_calls import get_tally
from outrider.state.errors import SearchError
from outrider.state.records import LIBRARY
from outrider.state.response import SourceReport, Usage, find_fatal

if TYPE_CHECKING:
    from outrider.planner.calibration import Calibration
    from outrider.planner.forecaster import Forecast
    from outrider.settings.model import Settings
    from outrider.state.pipeline import PipelineState
    from outrider.systematic_search.manifest import Manifest

FILE, THREAD = "runs.sqlite", "outrider-planning"
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

    def end(self, state: PipelineState) -> None:
        """Store a run that has its response, in a thread. The end of the process waits for it."""
        tally = get_tally()
        run = tally.begun
        if not isinstance(run, BegunRun) or find_fatal(state.failures) is not None:
            return
        rows = [row for row in state.sources or () if isinstance(row, SourceReport)]
        seconds = time.perf_counter() - run.started
        self.store(run, run.begun + seconds, measure(rows, state.usage, tally.calls, seconds))

    def end_systematic(self, run: BegunRun, seconds: float, manifest: Manifest, calls: Mapping[str, int]) -> None:
        """The same for a systematic run that read every source to its end."""
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
            self.history.add(RunRow(run.begun, ended, request, run.features, outcome))
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
            rows = self.read()
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
        """Complete features, a forecast of each uncertain quantity, and the number of runs. Blocks.

        A history that cannot be read counts as empty.
        """
        try:
            request = hash_request(text, self.history.salt(create=False))
            rows = self.read()
        except ERRORS as error:
            log.warning("earlier runs cannot be read, so priors stand in: %s: %s", self.history.path, error)
            request, rows = -1, ()
        return self._forecast(features, now, request, rows)

    def read(self) -> Sequence[RunRow]:
        """All runs, oldest first, the latest ones with what was predicted from the runs before them. Blocks.

        Predictions are made here and not by each search, whose CPU time would be a seventh more. They are the same.
        """
        from outrider.planner.forecaster import MOST_ROWS

        rows = list(self.history.read())
        completed = []
        for place in range(max(0, len(rows) - MOST_ROWS), len(rows)):
            row = rows[place]
            if not row.predicted:
                features, forecasts, _ = self._forecast(row.features, row.begun, row.request, rows[:place])
                uncalled = {name: 0.0 for name in forecasts if name.startswith((CALLS_TO, HITS_OF))}
                predicted = {name: forecast.interval for name, forecast in forecasts.items()}
                rows[place] = replace(row, features=features, outcome={**uncalled, **row.outcome}, predicted=predicted)
                completed.append(rows[place])
        if completed:
            try:
                self.history.complete(completed)
            except ERRORS as error:
                log.warning("what was predicted of earlier runs cannot be kept: %s: %s", self.history.path, error)
        return rows

    def _forecast(
        self, features: Mapping[str, float], begun: float, request: int, rows: Sequence[RunRow]
    ) -> tuple[dict[str, float], dict[str, Forecast], int]:
        """From runs that had ended when this one began."""
        from outrider.planner.forecaster import Forecaster, complete_features, list_quantities

        earlier = [row for row in rows if row.ended <= begun]
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


def hash_request(text: str, salt: str) -> int:
    """So short that many requests have the same: it names none."""
    return int.from_bytes(hashlib.sha256(f"{salt} {text}".encode()).digest()[: REQUEST_BITS // 8]) if salt else -1
