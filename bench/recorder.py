"""Recorded runs: byte-for-byte replays in fresh processes without a network, planted changes, costs.

Each kind is recorded `RUNS` times over services and a model on loopback, each time with another request and other delays, and some with
failing services. Then a new process without a network, whose working folder and home are empty, replays all recordings of a kind.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from bench.report import Cell, Report, progress

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

if TYPE_CHECKING:
    from support.http_server import Answer, Request
    from support.recorded_worlds import SearchWorld

RUNS, PLANTED, PAIRS = 25, 10, 20
QUERIES = (
    "liver injury by drugs",
    "drugs that injure the liver since 2012",
    "hepatic enzymes and dose",
    "serum enzymes liver",
    "drug dose",
)
COLUMNS = ("recorded runs", "runs", "the same, byte for byte", "KB, median", "KB, most", "ms to replay, median", "without a network")
OF_CHANGES = ("planted change", "runs", "noticed", "named at its node", "node")
OF_COSTS = ("search over eight services and a model", "pairs", "median s", "median CPU s", "ratio of s", "ratio of CPU s")
REPLAY = """
import json, sys, time
from outrider import replay_recording
rows = []
for file in sys.argv[1:]:
    began = time.perf_counter()
    result = replay_recording(file)
    rows.append([result.same, time.perf_counter() - began, [one.describe() for one in result.differences[:3]]])
print(json.dumps(rows))
"""


def run() -> Report:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        return asyncio.run(_report(Path(folder)))


async def _report(folder: Path) -> Report:
    from support import recorded_worlds as worlds

    kinds: dict[str, Callable[[Path, int], Awaitable[Any]]] = {
        "search with a model over eight services": _record_search,
        "search in a library with vectors and a reranker": lambda file, number: worlds.record_library_search(file, QUERIES[number % 5]),
        "systematic run over a library and services": _record_systematic,
        "analysis with a model": lambda file, number: worlds.record_analysis(file, ("liver/dose", "10.1000/livers")[number % 2]),
        "citations of works": lambda file, number: worlds.record_citations(file, f"10.5555/w.{number % 9 + 1}"),
        "candidates of a chase": lambda file, number: worlds.record_candidates(file),
    }
    rows = []
    for name, record in kinds.items():
        progress(f"recorder: {name}")
        files = [await _record_apart(record, folder / name.split()[0] / str(number), number) for number in range(RUNS)]
        rows.append(_replay_apart(name, files, folder))
    progress("recorder: planted changes")
    changes = await _plant_changes(folder / "planted")
    progress("recorder: costs")
    costs = await _compare_costs(folder / "costs")
    note = (
        "A run outside the graph or in it is recorded at its ports; the file is written when the run has ended, before its caller goes on."
    )
    return Report("recorder", COLUMNS, tuple(rows), (note,), (changes, costs))


async def _record_apart(record: Callable[[Path, int], Awaitable[Any]], folder: Path, number: int) -> Path:
    """Record in a folder of its own, of which only the recording is left: a replay must find nothing else."""
    await asyncio.to_thread(folder.mkdir, parents=True)
    file = folder / "run.zip"
    await record(file, number)
    kept = folder.parent / f"{number}.zip"
    await asyncio.to_thread(file.rename, kept)
    shutil.rmtree(folder, ignore_errors=True)
    return kept


async def _record_search(file: Path, number: int) -> None:
    """Each service answers after a delay of its own; in every fifth run one of them fails, in others one is too late."""
    from support.recorded_worlds import SearchWorld

    draw = random.Random(number)
    with SearchWorld(_make_handler(draw, number)) as world:
        await world.record(
            file, request={"query": QUERIES[number % len(QUERIES)], "top_k": draw.randint(1, 20)}, limits={"run_timeout_s": 60}
        )


def _make_handler(draw: random.Random, number: int) -> Callable[[Request], Answer]:
    from support import fake_services
    from support.http_server import refusal

    late = {name: draw.random() / 4 for name in fake_services.SERVICES}
    fails = draw.choice(fake_services.SERVICES) if number % 5 == 0 else ""
    whole = fake_services.make_handler()

    def handler(request: Request) -> Answer:
        name = request.path.split("/")[1]
        return refusal(503) if name == fails else replace(whole(request), after_s=late.get(name, 0.0))

    return handler


async def _record_systematic(file: Path, number: int) -> None:
    from support.recorded_worlds import record_systematic, record_systematic_search

    await (
        record_systematic(file, ("aspirin[ti]", "study[ti] OR aspirin[ti]")[number % 2]) if number % 3 else record_systematic_search(file)
    )


def _replay_apart(name: str, files: list[Path], folder: Path) -> tuple[Cell, ...]:
    """Replay in a new process: in a network namespace without interfaces where the system has one, in an empty folder and home."""
    empty = Path(tempfile.mkdtemp(dir=folder))
    has_namespaces = shutil.which("unshare") is not None and subprocess.run(["unshare", "-rn", "true"], check=False).returncode == 0
    command = [*(["unshare", "-rn"] if has_namespaces else []), sys.executable, "-c", REPLAY, *map(str, files)]
    environment = {"PATH": os.environ["PATH"], "HOME": str(empty), "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    ended = subprocess.run(command, env=environment, cwd=empty, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(ended.stderr[-2_000:])
    rows = json.loads(ended.stdout)
    for same, _, differences in rows:
        if not same:
            progress(f"recorder: {differences}")
    sizes = [file.stat().st_size / 1_000 for file in files]
    times = [1_000 * took for _, took, _ in rows[1:]]  # the first imports the graph
    return (
        name, len(files), sum(same for same, *_ in rows), statistics.median(sizes), max(sizes), statistics.median(times),
        "yes" if has_namespaces else "not tried here",
    )  # fmt: skip


async def _plant_changes(folder: Path) -> Report:
    from outrider.nodes.fine_scorer import dimensions
    from outrider.prompts import Prompt
    from outrider.services import Services
    from outrider.usecases.replay_recording import replay_recording
    from support.recorded_worlds import SearchWorld, record_analysis

    await asyncio.to_thread(folder.mkdir)
    outcomes: dict[str, list[tuple[bool, str]]] = {"a prompt": [], "a weight": [], "an answer of a source": []}
    prompts = ("query_prompt", "scoring_prompts")
    nodes = {"query_prompt": "translator", "scoring_prompts": "fine_scorer"}
    wanted: dict[str, list[str]] = {name: [] for name in outcomes}
    made = Services.__init__
    for number in range(PLANTED):
        one, other, analysis = (folder / f"{number}-{name}.zip" for name in ("one", "other", "analysis"))
        draw = random.Random(number)
        with SearchWorld() as world:
            await world.record(one, request={"query": QUERIES[number % len(QUERIES)]})
            source = draw.choice(("arxiv", "openalex", "crossref", "semantic_scholar"))
            world.handler = _change_answer(source)
            await world.record(other, request={"query": QUERIES[number % len(QUERIES)]})
        changed = prompts[number % 2]

        def make_changed(self: Any, *args: Any, name: str = changed, **options: Any) -> None:
            made(self, *args, **options)
            own = getattr(self, name)
            field = "base" if name == "query_prompt" else "papers"
            prompt: Prompt = getattr(own, field)
            setattr(self, name, replace(own, **{field: replace(prompt, text=f"{prompt.text}\nBe brief.")}))

        with patch.object(Services, "__init__", make_changed):
            result = await asyncio.to_thread(replay_recording, one)
        named = any(row.node == nodes[changed] and "Be brief." in row.now for row in result.differences)
        outcomes["a prompt"].append((not result.same, result.first_node if named else "not named"))
        wanted["a prompt"].append(nodes[changed])
        await record_analysis(_make_room(analysis))
        parts: Any = dimensions.PARTS["maturity"]
        with patch.dict(parts, {"stars": dimensions._log_scale(20 + 10 * number)}):  # noqa: SLF001 - the weight to change
            result = await asyncio.to_thread(replay_recording, analysis)
        outcomes["a weight"].append((not result.same, result.first_node))
        wanted["a weight"].append("ratings")
        result = await asyncio.to_thread(replay_recording, one, other)
        named = any(row.node == "scout" and row.part == "answer" and source in row.name for row in result.differences)
        outcomes["an answer of a source"].append((not result.same, result.first_node if named else "not named"))
        wanted["an answer of a source"].append("scout")
    rows: list[tuple[Cell, ...]] = []
    for name, seen in outcomes.items():
        right = sum(node == node_wanted for (_, node), node_wanted in zip(seen, wanted[name], strict=True))
        rows.append((name, len(seen), sum(noticed for noticed, _ in seen), right, ", ".join(sorted(set(wanted[name])))))
    return Report("planted changes", OF_CHANGES, tuple(rows))


def _make_room(file: Path) -> Path:
    shutil.rmtree(file.parent / "answers", ignore_errors=True)
    return file


def _change_answer(source: str) -> Callable[[Request], Answer]:
    """Another year or title in what one service answers."""
    from support import fake_services

    whole = fake_services.make_handler()

    def handler(request: Request) -> Answer:
        answer = whole(request)
        if request.path.split("/")[1] != source:
            return answer
        return replace(answer, body=answer.body.replace(b"Liver injury by drugs", b"Liver injury by a drug", 1))

    return handler


async def _compare_costs(folder: Path) -> Report:
    """The same search with and without a recorder in turn, after one of each that is not counted; services answer after 50 to 300 ms."""
    from support.recorded_worlds import SearchWorld

    await asyncio.to_thread(folder.mkdir)
    times: Mapping[bool, list[tuple[float, float]]] = {False: [], True: []}
    with SearchWorld(_make_handler(random.Random(1), 1)) as world:
        for number in range(PAIRS + 1):
            for enabled in (False, True) if number % 2 else (True, False):
                spent = await _time_search(world, folder / "run.zip", enabled=enabled)
                if number:
                    times[enabled].append(spent)
        size = (folder / "run.zip").stat().st_size
    medians = {enabled: [statistics.median(column) for column in zip(*spent, strict=True)] for enabled, spent in times.items()}
    rows = []
    for enabled, name in ((False, "not recorded"), (True, f"recorded, {size / 1_000:,.0f} KB")):
        wall_s, cpu_s = medians[enabled]
        rows.append((name, PAIRS, wall_s, cpu_s, wall_s / medians[False][0], cpu_s / medians[False][1]))
    return Report("costs", OF_COSTS, tuple(rows))


async def _time_search(world: SearchWorld, file: Path, *, enabled: bool) -> tuple[float, float]:
    began, cpu_began = time.perf_counter(), time.process_time()
    await world.record(file, enabled=enabled)
    return time.perf_counter() - began, time.process_time() - cpu_began
