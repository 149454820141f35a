"""Several `outrider serve` processes behind HAProxy, over one Postgres and one Redis: deaths, threads, throughput.

Everything is real but the services on the network, which one loopback server plays.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.answers import Work
from bench.fake_services import SERVICES, FakeServices
from bench.library import library_of
from bench.report import Report, progress
from bench.scout import _shelf
from bench.served import Server, served
from bench.servers import PROGRAMS, ProgramMissing, ServerProcess, find_program, haproxy, outrider_servers, postgres_server, redis_server

FRESH, PARALLEL, WORKS = 4, 50, 50
SERVICE_S, SLOW_S = 1.0, 8.0
LEASE_S = 3.0
ADMITTED = 2
ROUNDS, CPU_SEARCHES, WAITING_SEARCHES = 3, 24, 8
SEARCHES_TIMEOUT_S = 300.0
MIN_CPU_RATIO, MIN_WAITING_RATIO = 0.8, 1.6
COLUMNS = ("what", "measured", "unit", "target", "met")
Row = tuple[str, float | int | str, str, str, str]
ANSWERED, RETRYABLE, LOST, MIXED = "answered", "retryable error", "lost", "mixed"


def run() -> Report:
    try:
        for program in PROGRAMS:
            find_program(program)
    except ProgramMissing as error:
        return Report("serving", COLUMNS, (), (f"Skipped: {error}.",))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asyncio.run(library_of(_shelf(), folder / "library")).close()
        with redis_server(folder) as redis, postgres_server() as postgres:
            shared = {"redis": redis, "postgres": postgres, "library": str(folder / "library")}
            rows = [*_measure_deaths(folder, shared), *_measure_throughput(folder, shared)]
    note = (
        f"HAProxy with deploy/haproxy.cfg, Postgres and Redis on this machine. {PARALLEL} asynchronous searches, services answer after "
        f"{SERVICE_S:g} s, `shared.lease_s` {LEASE_S:g} s, one process is killed with -9 while they run. Throughput: medians of {ROUNDS} "
        f"rounds in which one and two processes take turns; computing: {CPU_SEARCHES} searches of the library, 8 at a time; waiting: "
        f"{WAITING_SEARCHES} searches for each process, which admits {ADMITTED} at a time, services answer after {SLOW_S:g} s."
    )
    return Report("serving", COLUMNS, tuple(rows), (note,))


def make_settings(shared: dict[str, str], server: Server | None, folder: Path, **serve: Any) -> dict[str, Any]:
    """Without a server of services, searches are offline. Limits of services are above what is asked here."""
    sources: dict[str, Any] = {"offline": server is None}
    if server is not None:
        sources |= {"web": {"enabled": False}, "allowed_hosts": f"127.0.0.1:{server.port}"}
        for name in SERVICES:
            is_used = name in ("openalex", "crossref")
            limits = {"requests": 10_000.0, "per_s": 1.0, "at_once": 100, "timeout_s": 60.0}
            sources[name] = {"enabled": is_used, "base_url": f"{server.base_url}/serving/{name}", **limits}
    return {
        "shared": {"redis_url": shared["redis"], "lease_s": LEASE_S},
        "threads": {"uri": shared["postgres"]},
        "library": {"uri": shared["library"]},
        "systematic": {"folder": str(folder / "runs")},
        "review": {"folder": str(folder / "reviews")},
        "cache": {"fresh_s": 0.0},
        "enrich": {"enabled": False, "keep": False},
        "citations": {"after_search": "off"},
        "planner": {"enabled": False},
        "llm": {"model": "none"},
        "run": {"run_timeout_s": 120.0},
        "sources": sources,
        "serve": {"queue": 1_000, "queue_s": 120.0, "processes": 0, **serve},
    }


def _fake_services(seconds: float) -> FakeServices:
    """Each work has a topic of its own, so that mixed-up answers are detected."""
    works = [Work(n, f"Liver injury topic{n}", f"Liver injury by drugs, topic{n}.", doi=f"10.1000/w{n}") for n in range(1, WORKS + 1)]
    return FakeServices(works, [], dict.fromkeys(SERVICES, seconds))


def _query(number: int) -> dict[str, str]:
    return {"query": f"liver injury topic{number % WORKS + 1}"}


def _measure_deaths(folder: Path, shared: dict[str, str]) -> Iterator[Row]:
    progress(f"serving: {FRESH} processes start over a fresh database")
    names = [f"p{number}" for number in range(1, FRESH + 1)]
    with served(_fake_services(SERVICE_S)) as services:
        settings = make_settings(shared, services, folder)
        began = time.perf_counter()
        with outrider_servers(names, settings, folder / "deaths") as servers:
            for server in servers:
                server.wait_until_ready()
            took_s = time.perf_counter() - began
            statuses = asyncio.run(_touch_threads(servers))
            yield (f"{FRESH} processes start at once on a fresh database: ready", sum(statuses), "processes", f"= {FRESH}",
                   _holds(sum(statuses) == FRESH))  # fmt: skip
            yield "... until the last is ready", round(took_s, 1), "s", "", ""
            with haproxy(servers, folder) as url:
                asyncio.run(_wait_for_servers(url))
                outcome, took_s = asyncio.run(_search_and_kill(url, servers[0]))
                progress(f"serving: {dict(outcome)}")
                yield f"{PARALLEL} parallel searches, one of {FRESH} processes killed: answered", outcome[ANSWERED], "searches", "", ""
                yield "... ended with a clear, retryable error", outcome[RETRYABLE], "searches", "", ""
                yield (
                    "... lost, or of another request",
                    outcome[LOST] + outcome[MIXED],
                    "searches",
                    "= 0",
                    _holds(outcome[LOST] + outcome[MIXED] == 0 and sum(outcome.values()) == PARALLEL),
                )
                yield "... until the last has ended", round(took_s, 1), "s", "", ""
            continued, resumed = asyncio.run(_follow_thread(servers[1:]))
            yield "a thread of one process goes on at another", continued, "", "yes", _holds(continued == "yes")
            yield "a search of a killed process is resumed at another", resumed, "", "yes", _holds(resumed == "yes")


async def _touch_threads(servers: Sequence[ServerProcess]) -> list[bool]:
    """Whether each can list threads, whose tables the first use makes; all at once."""
    import httpx

    async def list_threads(server: ServerProcess) -> bool:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            return (await client.get("/api/threads")).status_code == 200

    return await asyncio.gather(*map(list_threads, servers))


async def _wait_for_servers(url: str) -> None:
    import httpx

    async with httpx.AsyncClient(base_url=url, timeout=60) as client, asyncio.timeout(120):
        while (await client.get("/readyz")).status_code != 200:  # noqa: ASYNC110 - as a load balancer
            await asyncio.sleep(0.1)


async def _search_and_kill(url: str, victim: ServerProcess) -> tuple[Counter[str], float]:
    import httpx

    began = time.perf_counter()
    limits = httpx.Limits(max_connections=PARALLEL)
    async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as client:
        searches = [asyncio.create_task(_search_to_the_end(client, number)) for number in range(PARALLEL)]
        await asyncio.sleep(2 * SERVICE_S)
        await asyncio.to_thread(victim.kill)
        outcome = Counter(await asyncio.gather(*searches))
    return outcome, time.perf_counter() - began


async def _search_to_the_end(client: Any, number: int) -> str:
    """Begin a search, and ask for its state, each time of whichever process, until it has ended."""
    import httpx

    query = _query(number)
    try:
        begun = await client.post("/api/search", json=query, headers={"Prefer": "respond-async"})
    except httpx.HTTPError:
        return LOST
    if begun.status_code != 202:
        return RETRYABLE if begun.status_code in (429, 502, 503) and "retry-after" in begun.headers else LOST
    ends_at = time.monotonic() + SEARCHES_TIMEOUT_S
    while time.monotonic() < ends_at:
        state = await client.get(begun.headers["location"])
        if state.status_code == 200 and state.json()["status"] in ("done", "failed", "cancelled"):
            return _judge(state.json(), query["query"])
        if state.status_code not in (200, 202, 502, 503):
            return LOST
        await asyncio.sleep(0.25)
    return LOST


def _judge(state: dict[str, Any], query: str) -> str:
    if state["status"] != "done":
        return RETRYABLE if state.get("problem", {}).get("status") in (502, 503) else LOST
    answer = state["response"]
    topic = query.rpartition(" ")[2]
    return ANSWERED if answer["query"] == query and any(hit["title"].endswith(topic) for hit in answer["hits"]) else MIXED


async def _follow_thread(servers: Sequence[ServerProcess]) -> tuple[str, str]:
    """Whether a thread goes on at another process, and whether that resumes the search that died with the first one."""
    import httpx

    async with (
        httpx.AsyncClient(base_url=servers[0].url, timeout=120, headers={"X-Thread-Id": "bench"}) as first,
        httpx.AsyncClient(base_url=servers[1].url, timeout=120, headers={"X-Thread-Id": "bench"}) as second,
    ):
        answers = [await client.post("/api/search", json=_query(number)) for number, client in enumerate((first, second))]
        thread = (await second.get("/api/threads/bench")).json()
        continued = all(answer.status_code == 200 for answer in answers) and len(thread.get("searches", thread.get("runs", ()))) == 2
        interrupted = asyncio.create_task(first.post("/api/search", json=_query(2)))
        await asyncio.sleep(SERVICE_S)
        await asyncio.to_thread(servers[0].kill)
        await asyncio.gather(interrupted, return_exceptions=True)
        ends_at, resumed = time.monotonic() + 10 * LEASE_S, False
        while not resumed and time.monotonic() < ends_at:
            answer = await second.post("/api/threads/bench/resume")
            resumed = answer.status_code == 200 and answer.json()["query"] == _query(2)["query"]
            await asyncio.sleep(0.25)
    return "yes" if continued else f"no: {thread}"[:200], "yes" if resumed else "no"


def _measure_throughput(folder: Path, shared: dict[str, str]) -> Iterator[Row]:
    with _pair(folder / "cpu", make_settings(shared, None, folder), folder) as (one, two):
        ratio = _compare("computing", one, two, CPU_SEARCHES, CPU_SEARCHES, at_once=8)
        yield "computing limits: two processes / one", ratio, "times", f">= {MIN_CPU_RATIO:g}", _holds(ratio >= MIN_CPU_RATIO)
    with served(_fake_services(SLOW_S)) as services:
        settings = make_settings(shared, services, folder, at_once=ADMITTED)
        with _pair(folder / "waiting", settings, folder) as (one, two):
            ratio = _compare("waiting", one, two, WAITING_SEARCHES, 2 * WAITING_SEARCHES, at_once=4 * ADMITTED)
    yield (f"each admits {ADMITTED}, services are slow: two processes / one", ratio, "times", f">= {MIN_WAITING_RATIO:g}",
           _holds(ratio >= MIN_WAITING_RATIO))  # fmt: skip


@contextmanager
def _pair(own: Path, settings: dict[str, Any], folder: Path) -> Iterator[tuple[str, str]]:
    """A proxy before one process, and one before two, of which the first is the same."""
    with outrider_servers(("a", "b"), settings, own) as servers:
        for server in servers:
            server.wait_until_ready()
        with haproxy(servers[:1], folder) as one, haproxy(servers, folder) as two:
            for url in (one, two):
                asyncio.run(_wait_for_servers(url))
            time.sleep(3)  # until the proxy has checked both
            yield one, two


def _compare(what: str, one: str, two: str, of_one: int, of_two: int, at_once: int) -> float:
    ratios = []
    for number in range(ROUNDS + 1):
        pace = {}
        for url, count in sorted(((one, of_one), (two, of_two)), reverse=number % 2 == 1):
            pace[url] = asyncio.run(_measure_pace(url, count, at_once))
        progress(f"serving: {what}: {pace[one]:.2f} and {pace[two]:.2f} searches a second")
        ratios += [pace[two] / pace[one]] if number else []  # the first round fills caches of modules and connections
    return round(statistics.median(ratios), 2)


async def _measure_pace(url: str, count: int, at_once: int) -> float:
    """Searches a second. `at_once` clients ask one after another, each over a connection of its own."""
    import httpx

    numbers = iter(range(count))

    async def ask() -> None:
        async with httpx.AsyncClient(base_url=url, timeout=SEARCHES_TIMEOUT_S) as client:
            for number in numbers:
                (await client.post("/api/search", json=_query(number))).raise_for_status()

    began = time.perf_counter()
    await asyncio.gather(*(ask() for _ in range(at_once)))
    return count / (time.perf_counter() - began)


def _holds(condition: bool) -> str:
    return "yes" if condition else "no"
