"""Cost of the HTTP interface: LangServe, concurrency, memory, first streamed works.

The server runs on a real port in this process. The services that it queries run in another process, each with its own latency.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench.answers import Project, Work
from bench.fake_services import SERVICES, FakeServices, settings
from bench.library import library_of
from bench.report import Report, percentiles, progress
from bench.scout import RAISED, _shelf
from bench.served import Server, served
from outrider.graph.pipeline import SearchGraph, build
from outrider.services import Services
from outrider.settings.model import EnrichSettings, LibrarySettings, LlmSettings, RunSettings
from outrider.state.request import check_request

ANSWER_S, SLOW_S = 0.05, 1.0
PAIRS, AT_ONCE, TURNS, ALONE, RUNS, PARTIAL = 40, 50, 5, 10, 500, 5
MOST_OVERHEAD_MS, MOST_RATIO, MOST_FIRST, MOST_GROWTH = 15.0, 1.5, 1.1, 0.02
COLUMNS = ("what", "measured", "unit", "asked for", "holds")
LINES: dict[str, str] = {"Prefer": "respond-async"}


def fake_services(seconds: float) -> FakeServices:
    """Each work has a topic of its own, so that mixed-up answers are detected."""
    works = [Work(n, f"Liver injury topic{n}", f"Liver injury by drugs, topic{n}.", doi=f"10.1000/w{n}") for n in range(1, AT_ONCE + 1)]
    projects = [Project(f"lab/topic{n}", f"Liver injury topic{n}", stars=100 + n) for n in range(1, AT_ONCE + 1)]
    return FakeServices(works, projects, dict.fromkeys(SERVICES, seconds) | {"pubmed": seconds / 2})


def run() -> Report:
    from uvicorn.loops.auto import auto_loop_factory

    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=auto_loop_factory()) as runner:  # as `outrider serve` runs
        return runner.run(_report(Path(folder)))


async def _report(folder: Path) -> Report:
    import httpx

    (await library_of(_shelf(), folder / "library")).close()
    limits = httpx.Limits(max_connections=AT_ONCE)
    with served(fake_services(ANSWER_S)) as server:
        async with _door(server, folder) as (url, graph), httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as client:
            for number in range(3):
                await _is_right(client, number + 1)
            rows = [await _overhead(client, graph), *await _many(client), await _memory(client)]
    with served(fake_services(SLOW_S)) as server:
        async with _door(server, folder) as (url, _), httpx.AsyncClient(base_url=url, timeout=120) as client:
            await _first_s(client, 1)
            rows.append(_first(ratios=[await _first_s(client, number) for number in range(2, PARTIAL + 2)]))
    note = (
        f"Services answer after {ANSWER_S:g} s, for the first works after {SLOW_S:g} s; rules, no web, no enriching. "
        f"{PAIRS} pairs in turn, {AT_ONCE} searches at a time of {AT_ONCE} topics, in the queue of the usual settings, {RUNS} searches, "
        f"{PARTIAL} followed."
    )
    return Report("doors", COLUMNS, tuple(rows), (note,))


@asynccontextmanager
async def _door(server: Server, folder: Path) -> AsyncIterator[tuple[str, SearchGraph]]:
    from outrider.interfaces.http.server import make_server

    base = settings(server, "doors", folder, keys=False, contact="", **RAISED)
    off = base.sources.web.model_copy(update={"enabled": False})
    own = {
        "sources": base.sources.model_copy(update={"web": off}),
        "library": LibrarySettings(uri=str(folder / "library")),
        "llm": LlmSettings(model="none"),
        "run": RunSettings(run_timeout_s=60.0),
        "enrich": EnrichSettings(enabled=False),
    }
    services = Services(base.model_copy(update=own))
    app_server = make_server(services, "127.0.0.1", needs_key=False, log_level="error", alone=True)
    app_server.config.port = 0
    serving = asyncio.create_task(app_server.serve())
    while not app_server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{app_server.servers[0].sockets[0].getsockname()[1]}", build(services)
    finally:
        app_server.should_exit = True
        await serving


def _query(number: int) -> dict[str, str]:
    return {"query": f"liver injury topic{number}"}


async def _is_right(client: Any, number: int) -> bool:
    """Whether the answer belongs to this question: same query, and works on its topic."""
    answer = (await client.post("/api/search", json=_query(number))).json()
    return answer["query"] == _query(number)["query"] and any(hit["title"].endswith(f"topic{number}") for hit in answer["hits"])


async def _overhead(client: Any, graph: SearchGraph) -> tuple[str, float, str, str, str]:
    progress("doors: LangServe and the graph in turn")
    took: dict[str, list[float]] = {"graph": [], "langserve": []}
    for number in range(1, PAIRS + 1):
        for door in sorted(took, reverse=number % 2 == 0):  # the second one has warmer caches: each is second equally often
            began = time.perf_counter()
            if door == "graph":
                await graph.ainvoke(check_request(_query(number)))
            else:
                (await client.post("/search/invoke", json={"input": _query(number)})).raise_for_status()
            took[door].append(time.perf_counter() - began)
    over_ms = 1_000 * (statistics.median(took["langserve"]) - statistics.median(took["graph"]))
    what = f"LangServe's median over the graph's ({1_000 * statistics.median(took['graph']):.1f} ms)"
    return what, over_ms, "ms", f"at most {MOST_OVERHEAD_MS:g}", _holds(over_ms <= MOST_OVERHEAD_MS)


async def _many(client: Any) -> list[tuple[str, float, str, str, str]]:
    """Alternates a few single searches and many at a time, since the machine's speed changes within half a minute."""
    turns = [await _turn(client, number) for number in range(1, TURNS + 1)]
    wrong = sum(one for one, _, _ in turns)
    ratio = max(p95_s / bound_s for _, p95_s, bound_s in turns)
    each = ", ".join(f"{p95_s:.2f} of {bound_s:.2f}" for _, p95_s, bound_s in turns)
    what = f"p95 of {AT_ONCE} at a time to {MOST_RATIO:g} times one alone or their CPU time over the cores, worst of {TURNS} ({each} s)"
    return [
        (f"lost or mixed up of {TURNS} times {AT_ONCE} at a time", wrong, "answers", "0", _holds(not wrong)),
        (what, ratio, "times", "at most 1", _holds(ratio <= 1)),
    ]


async def _turn(client: Any, number: int) -> tuple[int, float, float]:
    """The number of wrong answers, the 95th percentile of their seconds, and its limit."""
    progress(f"doors: {AT_ONCE} searches at a time, {number} of {TURNS}")
    alone_s, spent = [], time.process_time()
    for topic in range(1, ALONE + 1):
        began = time.perf_counter()
        await _is_right(client, topic)
        alone_s.append(time.perf_counter() - began)
    cpu_s = (time.process_time() - spent) / ALONE

    async def one(topic: int) -> tuple[bool, float]:
        began = time.perf_counter()
        right = await _is_right(client, topic)
        return right, time.perf_counter() - began

    answers = await asyncio.gather(*(one(topic) for topic in range(1, AT_ONCE + 1)))
    bound_s = MOST_RATIO * max(statistics.median(alone_s), AT_ONCE * cpu_s / (os.cpu_count() or 1))
    return sum(not right for right, _ in answers), percentiles([took for _, took in answers])[1], bound_s


async def _memory(client: Any) -> tuple[str, float, str, str, str]:
    """Growth of this process's memory, including the client, after the first fifth, when everything is loaded and pools are full."""
    progress(f"doors: {RUNS} searches")
    turns, resident_mib = asyncio.Semaphore(8), []

    async def one(number: int) -> None:
        async with turns:
            await _is_right(client, 1 + number % AT_ONCE)

    for _ in range(5):
        await asyncio.gather(*(one(number) for number in range(RUNS // 5)))
        resident_mib.append(_resident_mib())
    growth = resident_mib[-1] / resident_mib[0] - 1
    what = f"growth of memory from {RUNS // 5} to {RUNS} searches ({', '.join(f'{mib:.0f}' for mib in resident_mib)} MiB)"
    return what, 100 * growth, "%", f"at most {100 * MOST_GROWTH:g}", _holds(growth <= MOST_GROWTH)


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def _first_s(client: Any, number: int) -> float:
    """Time to the first works, as a ratio to that of the slowest node before them."""
    began = time.perf_counter()
    place = (await client.post("/api/search", json=_query(number), headers=LINES)).headers["location"]
    name, slowest_ms, first_s = "", 0.0, 0.0
    async with client.stream("GET", f"{place}/events") as events:
        async for line in events.aiter_lines():
            kind, _, value = line.partition(": ")
            name = value if kind == "event" else name
            if kind == "data" and name == "finished" and not first_s:
                slowest_ms = max(slowest_ms, json.loads(value)["took_ms"])
            elif kind == "data" and name == "hits" and not first_s:
                first_s = time.perf_counter() - began
    return first_s / (slowest_ms / 1_000)


def _first(ratios: list[float]) -> tuple[str, float, str, str, str]:
    ratio = statistics.median(ratios)
    return (
        "first streamed works, relative to the slowest node before them",
        ratio,
        "times",
        f"at most {MOST_FIRST:g}",
        _holds(ratio <= MOST_FIRST),
    )


def _holds(so: bool) -> str:
    return "yes" if so else "no"
