"""The design's ten requests through the whole graph, over fake services and a fake model.

Each request has a room of `bench.fake_services` to itself, under the services' real limits for users with keys. Papers and pages are
CACM's, projects are made up (`bench.ten_requests`), and the model follows rules (`bench.chat`): the figures are of everything around it.

No program could shorten the critical path (`bench.critical_path`): stage after stage, and waves of scoring one after another, since
each wave depends on the scores of the one before.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from pydantic import SecretStr

from bench.answers import Project, Work
from bench.critical_path import floor_s, service_of
from bench.data import Absent, collection
from bench.fake_services import DETAILS, MODEL, PAGES, WEB, FakeServices, engine_at, settings
from bench.github import search
from bench.report import Cell, Report, progress
from bench.served import Call, Server, served
from bench.ten_requests import REQUESTS, Request, projects
from outrider.graph.pipeline import build
from outrider.models.chat.provider import PRICES
from outrider.nodes.fine_scorer.waves import StopWhenSettled
from outrider.services import Services
from outrider.settings.model import LibrarySettings, LlmSettings
from outrider.sources.web.browser import unavailable_reason
from outrider.sources.web.search import WebSearch
from outrider.state.response import SearchResponse

LATENCY_S = {
    "github": 0.8,
    DETAILS: 0.3,
    "openalex": 0.5,
    "semantic_scholar": 0.9,
    "arxiv": 1.5,
    "pubmed": 0.4,
    "crossref": 1.2,
    "serpapi_scholar": 1.4,
    "serpapi_google": 1.2,
    WEB: 1.0,
    PAGES: 0.5,
    MODEL: 1.0,
}
"""Seconds of one call: assumed, since no service was reachable when this was written. PubMed needs two calls for an answer."""
PRICED = "gpt-6-luna"
BOUND_S, PATH_BOUND, COST_USD = 12.0, 1.2, 0.01
STAGES = ("translator", "scout", "dedup", "enrich", "fine_scorer")
COLUMNS = (
    "request", "wall s", "CPU s", *(f"{stage} s" for stage in STAGES), "critical path s", "ratio", "model calls", "other calls", "USD",
    "relevant@10", "by stars alone",
)  # fmt: skip
TOP = 10
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Run:
    """One answered request: its times and its calls."""

    answer: SearchResponse
    wall_s: float
    cpu_s: float
    """CPU time of this process, without waiting for services."""
    began: Mapping[str, float]
    """Of each stage, in seconds since the epoch."""
    waves: Sequence[float] = ()
    """When each wave of scoring was chosen."""
    calls: Sequence[Call] = ()

    def path_s(self) -> float:
        return sum(floor_s(part) for stage in STAGES for part in self._parts(stage))

    def _parts(self, stage: str) -> Iterator[list[Call]]:
        """The calls of a stage, in sequential parts: waves of scoring, or else all at once."""
        calls = [call for call in self.calls if self._stage(call) == stage]
        cuts = (0.0, *self.waves, math.inf) if stage == "fine_scorer" else (0.0, math.inf)
        for first, last in itertools.pairwise(cuts):
            yield [call for call in calls if first <= call.began < last]

    def _stage(self, call: Call) -> str:
        service = service_of(call)
        if service == MODEL:
            return call.log_fields["stage"] if call.log_fields["stage"] in STAGES else "fine_scorer"
        enriching = service in (DETAILS, PAGES) or call.began >= self.began.get("enrich", math.inf)
        return "enrich" if enriching else "scout"


def run(*, live: bool = False) -> Report:
    if live:
        return asyncio.run(_live())
    try:
        works = _works()
    except Absent as absent:
        return Report("queries", COLUMNS, (), (f"skipped: {absent}",))
    by_request = {request.text: projects(request, time.time()) for request in REQUESTS}
    every = [project for group, _ in by_request.values() for project in group]
    truth = {text: answering for text, (_, answering) in by_request.items()}
    with tempfile.TemporaryDirectory() as folder, served(FakeServices(works, every, LATENCY_S, shares=True)) as server:
        runs = {
            request: [asyncio.run(_measured(server, request, at, Path(folder))) for at in range(ROUNDS)]
            for request in map(_announce, REQUESTS)
        }
    rows = [_row(request, group, truth[request.text], _by_stars(request, every)) for request, group in runs.items()]
    return Report("queries", COLUMNS, tuple(rows), (*_notes(runs), *checks(rows)))


def _announce(request: Request) -> Request:
    progress(f"queries: {request.text}")
    return request


def _works() -> list[Work]:
    """CACM's papers with an abstract."""
    papers = [paper for paper in collection("cacm").documents if paper.abstract]
    return [Work(int(one.doc_id), one.title, one.abstract, 1970, f"10.1145/{one.doc_id}") for one in papers]


@contextmanager
def _services(server: Server, room: str, folder: Path) -> Iterator[Services]:
    price = PRICES[PRICED]
    llm = LlmSettings(
        model=PRICED,
        base_url=f"{server.base_url}/{room}/{MODEL}/v1",
        api_key=SecretStr("none"),
        prices={PRICED: f"{price.input}/{price.output}"},
    )
    own = {"llm": llm, "library": LibrarySettings(uri=str(folder / room))}
    with engine_at(server, room):
        services = Services(settings(server, room, folder).model_copy(update=own))
        try:
            yield services
        finally:
            services.close()


async def _measured(server: Server, request: Request, at: int, folder: Path) -> Run:
    room = f"{REQUESTS.index(request)}-{at}"
    with _services(server, room, folder) as services:
        await services.warm()
        await _browser_started(services, f"{server.base_url}/warm/{WEB}/")
        run = await _timed(services, request.text)
    ended = run.began["organizer"]
    robots = [call for call in server.log() if len(call.parts) == 1 and run.began["translator"] <= call.began < ended]
    return replace(run, calls=[*server.log(room), *robots])


async def _browser_started(services: Services, url: str) -> None:
    """Starting the browser takes as long as a search; a long-running program has it running."""
    for source in services.sources:
        if isinstance(source, WebSearch):
            await source.browser.open_page(url, 60.0)


async def _timed(services: Services, text: str) -> Run:
    """The answer, with the times at which stages began and waves of scoring were chosen."""
    began: dict[str, float] = {}
    waves: list[float] = []
    values: dict[str, Any] = {}
    chosen = StopWhenSettled.wave

    def noted(self: StopWhenSettled, *arguments: Any) -> int:
        waves.append(time.time())
        return chosen(self, *arguments)

    started, worked = time.perf_counter(), time.process_time()
    with patch.object(StopWhenSettled, "wave", noted):
        streamed = build(services).astream({"query": text}, stream_mode=["custom", "values"], output_keys=list(SearchResponse.model_fields))
        async for kind, value in streamed:
            if kind == "values":
                values = value
            elif value["event"] == "started":
                began[value["node"]] = time.time()
    return Run(SearchResponse.model_validate(values), time.perf_counter() - started, time.process_time() - worked, began, waves)


def _row(request: Request, runs: Sequence[Run], answering: frozenset[str], by_stars: float) -> tuple[Cell, ...]:
    """Medians."""
    stages = [median(run.answer.timings_ms.get(stage, 0.0) / 1000 for run in runs) for stage in STAGES]
    models = [sum(service_of(call) == MODEL for call in run.calls) for run in runs]
    relevant_share = median(relevant(run.answer, answering) for run in runs)
    path_s, ratio = median(run.path_s() for run in runs), median(run.wall_s / run.path_s() for run in runs)
    costs = [run.answer.usage.cost_usd or 0.0 for run in runs]
    others = median(len(run.calls) for run in runs) - median(models)
    took = median(run.wall_s for run in runs), median(run.cpu_s for run in runs)
    return (request.text, *took, *stages, path_s, ratio, median(models), others, max(costs), relevant_share, by_stars)


def relevant(answer: SearchResponse, answering: frozenset[str]) -> float:
    """The share of the first ten that answer the request; other hits than its projects do not."""
    return sum(hit.title in answering for hit in answer.hits[:TOP]) / TOP


def _by_stars(request: Request, every: Sequence[Project]) -> float:
    """The same share for GitHub's own search for the usual words, most stars first."""
    answering = projects(request, time.time())[1]
    matches = search(f"{request.first[0]} {request.second[0]} stars:>=50 archived:false", "stars", every)
    return sum(project.full_name in answering for project in matches[:TOP]) / TOP


def _notes(runs: Mapping[Request, Sequence[Run]]) -> list[str]:
    latencies = ", ".join(f"{name} {seconds:g}" for name, seconds in LATENCY_S.items())
    statuses = Counter((row.source, row.status) for group in runs.values() for run in group for row in run.answer.sources)
    odd = [f"{source} {status} {count}" for (source, status), count in sorted(statuses.items()) if status not in ("ok", "empty", "off")]
    failed = Counter((one.node, one.error) for group in runs.values() for run in group for one in run.answer.failures)
    first = next(iter(runs.values()))[0]
    notes = [
        f"Seconds of a call, assumed: {latencies}.",
        f"Medians of {ROUNDS} runs each; USD is the most of them.",
        f"The first run of the process took {first.wall_s:.1f} s, {first.cpu_s:.1f} of CPU.",
    ]
    notes += [f"incomplete: {', '.join(odd)} (rows of {sum(statuses.values())})"] if odd else []
    notes += [f"failures: {', '.join(f'{node} {error} {count}' for (node, error), count in sorted(failed.items()))}"] if failed else []
    notes += [f"web was left out: {unavailable_reason()}"] if unavailable_reason() else []
    return notes


def checks(rows: Sequence[tuple[Cell, ...]]) -> list[str]:
    """The targets of a search, and whether they hold."""

    def most(column: str) -> float:
        return max(float(row[COLUMNS.index(column)] or 0) for row in rows)

    bounds = (
        ("wall s", BOUND_S, "under {} s"),
        ("ratio", PATH_BOUND, "at most {} times the critical path"),
        ("USD", COST_USD, "under ${}"),
    )
    notes = []
    for column, bound, text in bounds:
        verdict = "holds" if most(column) <= bound else "does not hold"
        notes.append(f"{text.format(bound)} {verdict} ({most(column):.3g} at worst)")
    shares = [float(row[COLUMNS.index("relevant@10")] or 0) for row in rows]
    return [*notes, f"relevant@10: {sum(shares) / len(shares):.2f} on average, {min(shares):.1f} at worst"]


async def _live() -> Report:
    """The real services and model of this machine's settings; what is relevant is for a reader to judge."""
    os.environ.pop("OUTRIDER_SOURCES__OFFLINE", None)
    rows: list[tuple[Cell, ...]] = []
    services = Services.from_file()
    await services.warm()
    for request in map(_announce, REQUESTS):
        run = await _timed(services, request.text)
        stages = [run.answer.timings_ms.get(stage, 0.0) / 1000 for stage in STAGES]
        usage = run.answer.usage
        rows.append((request.text, run.wall_s, run.cpu_s, *stages, None, None, usage.calls, None, usage.cost_usd, None, None))
        progress("\n".join(f"  {hit.rank}. {hit.title}" for hit in run.answer.hits[:TOP]))
    services.close()
    return Report("queries", COLUMNS, tuple(rows), ("The real services, one request after another.",))
