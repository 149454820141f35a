"""Warm searches of SciFact through the whole graph: their LanceDB calls, and their CPU time relative to another version of Outrider.

With `--base SRC`, the folder `src` of another checkout, each version searches in a process of its own, in the same environment. The two
take turns, query by query, and each ingests its own library.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bench.data import ROOT, Absent, Collection, collection
from bench.lance_calls import Calls, counted
from bench.library import library_of
from bench.model import Remembering, model
from bench.raw import calls_of, repeat
from bench.report import Cell, Report, percentiles, progress
from outrider.graph.pipeline import build
from outrider.services import Services
from outrider.settings.load import load
from outrider.state.ports import TextEmbedder

QUERIES = 100
COUNTED = 20
"""Queries whose calls are counted; the counts hardly differ."""
WARM_UP = 10
AT_ONCE, ROUNDS = 50, 5
MOST_CALLS = {"without vectors": 9, "with vectors": 14}
MOST_CPU = 0.5
"""Of the base's."""
OURS, BASE = "this version", "base"
RAW = "LanceDB calls of a search alone"
"""What no code of ours can make less, with the calls that a search makes."""
WAYS = {"graph": "graph built once", "search": "asearch, new services each call"}
COLUMNS = ("LanceDB calls", "queries", "mean", "most", "at most", "by kind and table")
CPU_COLUMNS = ("search", "version", "searches", "CPU ms, median", "wall ms, median", "ratio of CPU to base", "ratio of wall to base")


def run(base: str | None = None, queries: int = QUERIES) -> Report:
    try:
        source = collection("scifact")
    except Absent as absent:
        return Report("warm_search", COLUMNS, (), (f"skipped: {absent}",))
    texts = list(source.queries.values())[: queries + WARM_UP]
    notes = [f"{len(source.documents):,} documents; {WARM_UP} searches before those that count; offline, no chat model."]
    with tempfile.TemporaryDirectory() as folder:
        rows = [count_calls("without vectors", source, Path(folder) / "words", texts)]
        try:
            rows.append(count_calls("with vectors", source, Path(folder) / "vectors", texts, model()))
        except Absent as absent:
            notes.append(f"with vectors: skipped: {absent}")
        raw = asyncio.run(_time_raw(Path(folder) / "words", texts))
        compared = compare(Path(folder), source, texts, {OURS: str(ROOT / "src"), **({BASE: base} if base else {})}, raw)
    return Report("warm_search", COLUMNS, tuple(rows), tuple(notes), (compared,))


def count_calls(name: str, source: Collection, path: Path, texts: Sequence[str], embedder: Any = None) -> tuple[Cell, ...]:
    """The calls of warm searches, one after another."""
    counts = asyncio.run(_count_calls(source, path, texts[: COUNTED + WARM_UP], embedder))
    totals = [calls.total() for calls in counts]
    mean = statistics.mean(totals)
    kinds: Calls = sum(counts, Counter())
    listed = ", ".join(f"{kind} {table} {count / len(counts):.1f}".replace("  ", " ") for (kind, table), count in sorted(kinds.items()))
    return (
        name,
        len(counts),
        mean,
        max(totals),
        f"{MOST_CALLS[name]}, {'holds' if max(totals) <= MOST_CALLS[name] else 'does not hold'}",
        listed,
    )


async def _count_calls(source: Collection, path: Path, texts: Sequence[str], embedder: Any) -> list[Calls]:
    remembering: TextEmbedder | None = embedder and Remembering.of(embedder, source)
    (await library_of(source, path, remembering)).close()
    services = _open(path, embedder)
    graph = build(services)
    counts: list[Calls] = []
    try:
        for text in texts:
            with counted() as calls:
                await graph.ainvoke({"query": text})
            counts.append(calls)
    finally:
        services.close()
    return counts[WARM_UP:]


def _open(path: Path, embedder: Any = None) -> Services:
    return Services(load({"library.uri": str(path), "sources.offline": True}).settings, embedder=embedder)


async def _time_raw(path: Path, texts: Sequence[str]) -> Times:
    """The calls of each search, repeated without our code and without the graph."""
    services, times = _open(path), Times()
    graph = build(services)
    try:
        for place, text in enumerate(texts):
            calls = await calls_of(partial(graph.ainvoke, {"query": text}))
            cpu_s, started = time.process_time(), time.perf_counter()
            await repeat(calls)
            if place >= WARM_UP:
                times.cpu_s.append(time.process_time() - cpu_s)
                times.took_s.append(time.perf_counter() - started)
    finally:
        services.close()
    return times


@dataclass(slots=True)
class Times:
    """Of one kind of search by one version."""

    cpu_s: list[float] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)


def compare(folder: Path, source: Collection, texts: Sequence[str], versions: Mapping[str, str], raw: Times) -> Report:
    """CPU and wall time of each version, by the folder of its modules. All take turns, so that a busy machine slows them alike.

    `raw` are the times of this version's LanceDB calls.
    """
    records = folder / "records.jsonl"
    records.write_text("".join(f"{record.model_dump_json(exclude_none=True)}\n" for record in source.documents), encoding="utf-8")
    parallel = f"{AT_ONCE} at once"
    times = {(name, version): Times() for name in (*WAYS.values(), parallel) for version in versions}
    different = 0
    with ExitStack() as running:
        processes = {
            name: _start(running, folder / name.replace(" ", "_"), source_folder, records) for name, source_folder in versions.items()
        }
        for way, name in WAYS.items():
            progress(f"warm_search: {name}")
            for place, text in enumerate(texts):
                answers = {version: _ask(process, way, [text]) for version, process in processes.items()}
                if place < WARM_UP:
                    continue
                different += len({json.dumps(answer["hits"]) for answer in answers.values()}) > 1
                for version, answer in answers.items():
                    times[name, version].cpu_s.append(answer["cpu_s"])
                    times[name, version].took_s += answer["took_s"]
        progress(f"warm_search: {parallel}")
        for turn in range(ROUNDS):
            for version, process in processes.items():
                answer = _ask(process, "graph", [texts[(turn + place) % len(texts)] for place in range(AT_ONCE)])
                times[parallel, version].cpu_s.append(answer["cpu_s"] / AT_ONCE)
                times[parallel, version].took_s += answer["took_s"]
    times[RAW, OURS] = raw
    rows = []
    for (name, version), each in times.items():
        cpu_s, took_s = statistics.median(each.cpu_s), percentiles(each.took_s)[0]
        of_base = times.get((WAYS["graph"] if name == RAW else name, BASE))
        ratios = (cpu_s / statistics.median(of_base.cpu_s), took_s / statistics.median(of_base.took_s)) if of_base else (None, None)
        rows.append((name, version, len(each.took_s), cpu_s * 1000, took_s * 1000, *ratios))
    notes = (
        [f"{different} of {len(WAYS) * (len(texts) - WARM_UP)} searches gave other hits or scores than the base."]
        if BASE in versions
        else []
    )
    notes += [f"CPU time at most {MOST_CPU:g} of the base's, and so the median of {AT_ONCE} searches at once."] if BASE in versions else []
    return Report("warm_search: CPU", CPU_COLUMNS, tuple(rows), tuple(notes))


def _start(running: ExitStack, folder: Path, modules: str, records: Path) -> subprocess.Popen[str]:
    """A process of one version that searches its own library of these records, without the settings of this machine."""
    folder.mkdir()
    own = {name: str(folder / name.lower()) for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")}
    own |= {"PYTHONPATH": modules, "OUTRIDER_SOURCES__OFFLINE": "true", "OUTRIDER_EMBEDDING__MODEL_NAME": "none"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_")}
    environment = {**kept, **own, "OUTRIDER_LIBRARY__URI": str(folder / "library")}
    ingest = (sys.executable, "-m", "outrider", "ingest", str(records), "-l", str(folder / "library"))
    subprocess.run(ingest, check=True, capture_output=True, env=environment, cwd=folder)
    command = (sys.executable, str(Path(__file__).with_name("search_process.py")))
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder)
    return running.enter_context(process)


def _ask(process: subprocess.Popen[str], way: str, queries: Sequence[str]) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps({"way": way, "queries": queries}) + "\n")
    process.stdin.flush()
    answer: dict[str, Any] = json.loads(process.stdout.readline())
    return answer
