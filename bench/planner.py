"""Do the intervals of `outrider plan` hold, and are they narrower than those of all history?

Each world is one local server with its own latencies, which change once, and its own library and requests: library only, services, a
chat model's counterpart (`bench.chat`), exact runs, repeats whose answers are cached, first runs of new services, several `top_k`. A run's
prediction is the stored one, from the runs that had ended before it began. The baseline is the 10 % to 90 % quantiles of all
earlier runs that had the quantity, whatever the request. The first 20 runs are not judged.
"""

from __future__ import annotations

import asyncio
import random
import re
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median
from typing import Any

from pydantic import SecretStr

from bench.answers import Project, Work
from bench.data import Absent, Collection, collection
from bench.fake_services import DETAILS, MODEL, PAGES, FakeServices, settings
from bench.library import library_of
from bench.queries import PRICED
from bench.report import Cell, Report, progress
from bench.served import Server, served
from bench.ten_requests import REQUESTS, projects
from outrider.graph.pipeline import get_search_graph
from outrider.models.chat.provider import PRICES
from outrider.planner.intervals import MISSES, Interval, baseline_interval
from outrider.planner.run_history import RunHistory
from outrider.planner.run_row import CALLS, CALLS_TO, COST, HITS_OF, SECONDS, RunRow
from outrider.services import Services
from outrider.services.planner import THREAD
from outrider.settings.model import (
    CitationSettings,
    LibrarySettings,
    LlmSettings,
    PlannerSettings,
    RunSettings,
    Settings,
    SystematicSettings,
)
from outrider.settings.sections import CacheSettings
from outrider.state.request import check_request
from outrider.usecases.systematic import asystematic

FIRST = 20
"""Runs that are not judged."""
RUNS = 230
SEED = 20_261_126
BOUND = 0.75
GROUPS = {SECONDS: "seconds", CALLS: "calls", CALLS_TO: "calls by service", HITS_OF: "hits by source", COST: "USD"}
COLUMNS = (
    "world",
    "quantity",
    "intervals",
    "covered",
    "median width",
    "covered by baseline",
    "its median width",
    "interval score",
    "its score",
)
KINDS = {"library": 20, "services": 25, "papers": 12, "projects": 8, "model": 15, "exact": 10, "repeat": 10}
"""Weights of the kinds of runs."""


@dataclass(frozen=True, slots=True)
class World:
    name: str
    shelf: str
    """The collection whose papers the library and the services have."""
    latency_s: Mapping[str, float]
    change: Mapping[str, float]
    """Factors of the latencies in the second half."""
    candidates: int
    cold: float
    """Share of runs by new services."""
    questions: Callable[[Collection], Sequence[str]]


def _ten_requests(_: Collection) -> Sequence[str]:
    return [request.text for request in REQUESTS]


def _judged_queries(shelf: Collection) -> Sequence[str]:
    return [text for _, text in sorted(shelf.queries.items())][:60]


WORLDS = (
    World(
        "queries",
        "cacm",
        {"github": 0.16, DETAILS: 0.06, "openalex": 0.1, "semantic_scholar": 0.18, "arxiv": 0.3, "pubmed": 0.08, "crossref": 0.24,
         "serpapi_scholar": 0.28, PAGES: 0.1, MODEL: 0.2},
        {"crossref": 3.0, "arxiv": 2.0, MODEL: 1.8, "github": 0.6},
        100, 0.06, _ten_requests,
    ),
    World(
        "apart",
        "cranfield",
        {"github": 0.05, DETAILS: 0.1, "openalex": 0.4, "semantic_scholar": 0.1, "arxiv": 0.15, "pubmed": 0.2, "crossref": 0.1,
         "serpapi_scholar": 0.1, PAGES: 0.1, MODEL: 0.1},
        {"openalex": 0.4, "pubmed": 2.5, MODEL: 3.0},
        60, 0.1, _judged_queries,
    ),
)  # fmt: skip


def run() -> Report:
    rows: list[tuple[Cell, ...]] = []
    notes = [f"{RUNS} runs a world; the first {FIRST} are not judged. A score is width plus 10 times what an outcome misses it by."]
    for world in WORLDS:
        try:
            history, kinds = asyncio.run(run_world(world))
        except Absent as absent:
            return Report("planner", COLUMNS, (), (f"skipped: {absent}",))
        judged = judge(history)
        rows += [(world.name, *row) for row in judged]
        notes += [f"{world.name}: {', '.join(f'{name} {count}' for name, count in sorted(kinds.items()))}", *checks(world.name, judged)]
    return Report("planner", COLUMNS, tuple(rows), tuple(notes))


async def run_world(world: World, runs: int = RUNS) -> tuple[Sequence[RunRow], Counter[str]]:
    """The history of a world, and its runs by kind."""
    shelf = collection(world.shelf)
    papers = [paper for paper in shelf.documents if paper.abstract]
    works = [Work(number, one.title, one.abstract, 1970 + number % 50, f"10.1145/{number}") for number, one in enumerate(papers, 1)]
    every: list[Project] = [project for request in REQUESTS for project in projects(request, time.time())[0]]
    later = {name: seconds * world.change.get(name, 1.0) for name, seconds in world.latency_s.items()}
    kinds: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own = replace(shelf, documents=tuple(papers[: len(papers) // 3]))
        (await library_of(own, folder / "library")).close()
        draw = random.Random(SEED)
        asked: list[dict[str, Any]] = []
        for latency, count in ((world.latency_s, runs // 2), (later, runs - runs // 2)):
            with served(FakeServices(works, every, latency, shares=True)) as server, _Rooms(world, server, folder).open() as rooms:
                for _ in range(count):
                    kind = await _run_once(world.questions(shelf), world.cold, rooms, draw, asked)
                    kinds[kind] += 1
                    if sum(kinds.values()) % 20 == 0:
                        progress(f"planner: {world.name}, {sum(kinds.values())} runs")
        return RunHistory(folder / "runs.sqlite", 10_000).read(), kinds


@dataclass(slots=True)
class _Rooms:
    """Services over one server, by rules and with a model; new ones count as cold."""

    world: World
    server: Server
    folder: Path
    _opened: dict[bool, Services] | None = None

    @contextmanager
    def open(self) -> Iterator[_Rooms]:
        self._opened = {}
        try:
            yield self
        finally:
            for services in self._opened.values():
                services.close()

    def get(self, *, model: bool, fresh: bool) -> Services:
        assert self._opened is not None
        if fresh and model in self._opened:
            self._opened.pop(model).close()
        if model not in self._opened:
            self._opened[model] = Services(self._settings(model=model))
        return self._opened[model]

    def _settings(self, *, model: bool) -> Settings:
        room = "room"
        base = settings(self.server, room, self.folder, requests=10_000.0, at_once=100, per_s=1.0)
        off = {name: getattr(base.sources, name).model_copy(update={"enabled": False}) for name in ("web", "serpapi_google")}
        price = PRICES[PRICED]
        llm = LlmSettings(model="none")
        if model:
            llm = LlmSettings(
                model=PRICED, base_url=f"{self.server.base_url}/{room}/{MODEL}/v1", api_key=SecretStr("none"),
                prices={PRICED: f"{price.input}/{price.output}"},
            )  # fmt: skip
        update = {
            "sources": base.sources.model_copy(update=off),
            "cache": CacheSettings(folder=str(self.folder / "answers" / str(self.server.port))),
            "library": LibrarySettings(uri=str(self.folder / "library")),
            "run": RunSettings(candidates=self.world.candidates),
            "llm": llm,
            "citations": CitationSettings(after_search="off"),
            "planner": PlannerSettings(file=str(self.folder / "runs.sqlite")),
            "systematic": SystematicSettings(folder=str(self.folder / "runs")),
        }
        return base.model_copy(update=update)


async def _run_once(questions: Sequence[str], cold: float, rooms: _Rooms, draw: random.Random, asked: list[dict[str, Any]]) -> str:
    kind = draw.choices(list(KINDS), list(KINDS.values()))[0]
    text = draw.choice(questions)
    words = re.findall(r"[a-z]{4,}", text.lower())
    if kind == "exact":
        query = f"{draw.choice(words)}[tiab] OR {draw.choice(words)}[tiab]"
        services = rooms.get(model=False, fresh=False)
        hits = asystematic(query, services=services)
        async for _ in hits.pages():
            pass
        _predict(services)
        return kind
    if kind == "repeat" and asked:
        fields = draw.choice(asked[-10:])
    else:
        papers = draw.sample(("openalex", "semantic_scholar", "arxiv", "pubmed", "crossref"), draw.randint(1, 4))
        sources = {"library": ["library"], "papers": papers, "projects": ["github"]}.get(kind)
        varied = f"{text} {draw.choice(('', 'survey', 'tool', 'fast', 'methods', 'review', 'new'))} {draw.randint(1, 999)}"
        fields = {
            "query": varied,
            "sources": sources,
            "top_k": draw.choice((3, 10, 10, 30, 60)),
            "search_mode": draw.choice(("focused", "balanced", "balanced", "exploratory")),
            "distill_enabled": draw.random() < 0.7,
        }
        if sources != ["library"]:
            asked.append(fields)
    model = kind == "model" or (kind != "library" and draw.random() < 0.1)
    services = rooms.get(model=model, fresh=draw.random() < cold)
    await services.prepare()
    await get_search_graph(services).ainvoke(check_request(fields))
    _predict(services)
    return kind


def _predict(services: Services) -> None:
    """Complete the run's row once it is stored, as a plan would: before later runs."""
    for thread in threading.enumerate():
        if thread.name == THREAD:
            thread.join()
    assert services.planner is not None
    services.planner.read()


def judge(history: Sequence[RunRow]) -> list[tuple[Cell, ...]]:
    """A row for each group of quantities."""
    cases: dict[str, list[tuple[Interval, Interval, float]]] = {}
    for place, row in enumerate(history):
        if place < FIRST:
            continue
        for name, interval in row.predicted.items():
            earlier = [one.outcome[name] for one in history if one.ended <= row.begun and name in one.outcome]
            if name in row.outcome and earlier:
                group = name if name in GROUPS else f"{name.partition(':')[0]}:"
                cases.setdefault(group, []).append((interval, baseline_interval(earlier), row.outcome[name]))
    rows: list[tuple[Cell, ...]] = []
    for group, title in GROUPS.items():
        if group in cases:
            rows.append((title, len(cases[group]), *_figures(cases[group])))
    return rows


def _figures(cases: Sequence[tuple[Interval, Interval, float]]) -> tuple[Cell, ...]:
    own, base = [(one, value) for one, _, value in cases], [(one, value) for _, one, value in cases]
    first = (*_coverage(own), *_coverage(base))
    return (*first, mean(_score(*pair) for pair in own), mean(_score(*pair) for pair in base))


def _coverage(pairs: Sequence[tuple[Interval, float]]) -> tuple[float, float]:
    return mean(one.covers(value) for one, value in pairs), median(one.high - one.low for one, _ in pairs)


def _score(one: Interval, value: float) -> float:
    """Winkler 1972: lower is better."""
    return one.high - one.low + (max(0.0, one.low - value) + max(0.0, value - one.high)) * 2 / MISSES


def checks(world: str, rows: Sequence[tuple[Cell, ...]]) -> list[str]:
    notes = []
    for title, _, covered, width, _, base_width, *_ in rows:
        holds = float(covered or 0) >= BOUND and float(width or 0) < float(base_width or 0)
        notes.append(f"{world}, {title}: covers {BOUND:.0%} and is narrower than all history {'holds' if holds else 'does not hold'}")
    return notes
