"""Deduplication, reindexing, maintenance and features of a review on a Ray cluster, compared with one process and under kills.

A local cluster of three nodes with one CPU each, which is up already. On a machine with fewer cores than nodes, work that computes cannot
become faster; the embedding model is an HTTP server that waits 2 ms for each row. Times are those of whole commands, features apart.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.data import Collection, collection, data_folder
from bench.identity.growth import grown
from bench.identity.measuring import material
from bench.process import run_isolated
from bench.ray_nodes import Scene, finish, make_scene
from bench.report import Cell, Report, progress
from outrider.boolean.parser import parse
from outrider.cluster.task_map import open_task_map
from outrider.library.library import Library
from outrider.reviews.features import make_features
from outrider.state.records import Paper

RECORDS, ROW_S = 10_000, 0.002
COLLECTIONS = ("scifact", "cisi", "cacm", "cranfield")
TEXTS, SENTENCES = 30_000, 8
BATCH = 500
QUERIES = ("hepat*", "cancer*[ti] AND cell*[tiab]", '"information retrieval"', "boundary AND layer NOT heat", "NOT the[ti]", '"of the"[ti]')
QUESTIONS = 20
KILLED_AT = 0.5
"""Share of the rows that the embedding server has answered, or of the seconds of the undisturbed run."""
ACTORS = 2
"""With the model."""
COLUMNS = ("work", "where", "seconds", "to one process", "result")


@dataclass(frozen=True, slots=True)
class Measured:
    where: str
    took_s: float
    content: str


def measure(where: str, work: Callable[[Stopwatch], str]) -> Measured:
    """`work` returns a digest of what it made, and takes the time of what is compared."""
    progress(where)
    watch = Stopwatch()
    content = work(watch)
    found = Measured(where, watch.seconds, content)
    progress(f"  {found.took_s:.1f} s, {content}")
    return found


@dataclass(slots=True)
class Stopwatch:
    seconds: float = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - started


def kill_node_after(scene: Scene, seconds: float, command: subprocess.Popen[bytes]) -> bytes:
    time.sleep(seconds)
    if command.poll() == 0:
        raise RuntimeError("the command ended before a node was killed")
    scene.cluster.kill_node()
    return finish(command)


def make_digest(content: object) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()[:12]


def dedup(scene: Scene, name: str, files: Sequence[Path], *, kills: bool) -> list[Measured]:
    def run(watch: Stopwatch, on_ray: bool, kill_s: float = 0.0) -> str:
        with watch.running():
            command = scene.start("dedup", *files, embedders=ACTORS * on_ray)
            return make_digest(kill_node_after(scene, kill_s, command) if kill_s else finish(command))

    results = [
        measure(f"{name}: one process", lambda watch: run(watch, False)),
        measure(f"{name}: three nodes", lambda watch: run(watch, True)),
    ]
    if kills:
        seconds = KILLED_AT * results[1].took_s
        results.append(measure(f"{name}: a node killed", lambda watch: run(watch, True, seconds)))
    return results


def write_records(path: Path, records: Sequence[Paper]) -> Path:
    with path.open("w", encoding="utf-8") as out:
        for record in records:
            out.write(record.model_dump_json(exclude_defaults=True) + "\n")
    return path


async def fill(path: Path, records: Sequence[Paper]) -> None:
    """As many small writes leave it: not indexed, in many files, with changed and removed records."""
    library = await Library.open(path, create=True)
    for start in range(0, len(records), BATCH):
        await library.upsert(records[start : start + BATCH])
    await library.upsert([one.model_copy(update={"title": f"{one.title} hepatology"}) for one in records[:60]])
    await library.remove([one.doc_id for one in records[100:200]])
    library.close()


def reindex(scene: Scene, records: Sequence[Paper]) -> list[Measured]:
    def run(watch: Stopwatch, name: str, on_ray: bool, disturb: str = "") -> str:
        library = scene.folder / name
        asyncio.run(fill(library, records))
        before = scene.server.rows
        with watch.running():
            command = scene.start("library", "reindex", "--library", library, embedders=ACTORS * on_ray)
            while disturb and command.poll() is None and scene.server.rows - before < KILLED_AT * len(records):
                time.sleep(0.01)
            if disturb == "node":
                scene.cluster.kill_node()
            if disturb == "command":
                command.send_signal(signal.SIGKILL)
                command.communicate()
                command = scene.start("library", "reindex", "--library", library, embedders=ACTORS * on_ray)
            finish(command)
        return run_isolated(digest_vectors, library)

    return [
        measure("reindex: one process", lambda watch: run(watch, "reindex-here", False)),
        measure("reindex: two actors", lambda watch: run(watch, "reindex-ray", True)),
        measure("reindex: a node killed", lambda watch: run(watch, "reindex-node", True, "node")),
        measure("reindex: the command killed and run again", lambda watch: run(watch, "reindex-command", True, "command")),
    ]


def digest_vectors(library: Path) -> str:
    return asyncio.run(_digest_vectors(library))


async def _digest_vectors(path: Path) -> str:
    library = await Library.open(path)
    ids = [record.doc_id async for record in library.scan()]
    near = [[(place.doc_id, place.similarity) for place in await library.near(ids[number], 20)] for number in range(0, 2_000, 20)]
    content = near, await library.without_vectors(), await library.check()
    library.close()
    return make_digest(content)


def optimize(scene: Scene, sets: Sequence[Collection]) -> list[Measured]:
    records = [one.model_copy(update={"doc_id": f"{each.name}:{one.doc_id}"}) for each in sets for one in each.documents]

    def run(watch: Stopwatch, name: str, on_ray: bool, kill_s: float = 0.0) -> str:
        library = scene.folder / name
        asyncio.run(fill(library, records))
        with watch.running():
            command = scene.start("library", "optimize", "--library", library, embedders=ACTORS * on_ray)
            if kill_s:
                kill_node_after(scene, kill_s, command)
            else:
                finish(command)
        return run_isolated(digest_answers, library)

    results = [
        measure("optimize: one process", lambda watch: run(watch, "optimize-here", False)),
        measure("optimize: three nodes", lambda watch: run(watch, "optimize-ray", True)),
    ]
    seconds = KILLED_AT * results[1].took_s
    return [*results, measure("optimize: a node killed", lambda watch: run(watch, "optimize-node", True, seconds))]


def digest_answers(library: Path) -> str:
    return asyncio.run(_digest_answers(library))


async def _digest_answers(path: Path) -> str:
    """Of ranked searches with scores, of exact ones and of patterns."""
    library = await Library.open(path)
    answers: list[object] = []
    for name in COLLECTIONS:
        for question in [*collection(name).queries.values()][:QUESTIONS]:
            answers.append([(hit.record.doc_id, hit.score) for hit in await library.search(question, limit=100)])
            answers.append(await library.match(" ".join(question.split()[:2])))
    pinned = await library.pinned()
    exact = [[hit.record.doc_id async for page in pinned.pages(parse(query, "pubmed").tree) for hit in page.hits] for query in QUERIES]
    answers += [exact, await library.check()]
    pinned.close()
    library.close()
    return make_digest(answers)


def features(scene: Scene, documents: Sequence[Paper]) -> list[Measured]:
    chance = random.Random(0)
    sentences = [sentence for one in documents for sentence in f"{one.title}. {one.abstract}".split(". ") if len(sentence) > 20]
    texts = [". ".join(chance.sample(sentences, SENTENCES)) for _ in range(TEXTS)]

    def run(watch: Stopwatch, on: str) -> str:
        with open_task_map(on, scene.cluster.address if on else None) as tasks, watch.running():
            made = make_features(texts, 0.95, tasks)
        return "nothing" if made is None else make_digest((made.matrix.shape, made.matrix.data.tobytes(), made.matrix.indices.tobytes()))

    return [
        measure(f"features of {TEXTS:,} texts: one process", lambda watch: run(watch, "")),
        measure("features: three nodes", lambda watch: run(watch, "ray")),
    ]


def run(records: int = RECORDS) -> Report:
    sets = [collection(name) for name in COLLECTIONS]
    asysd, dblp_acm = data_folder() / "dedup" / "asysd_diabetes.csv", data_folder() / "dedup" / "dblp_acm"
    many = [one for one in grown(*material(), records).records if isinstance(one, Paper)]
    parts: list[list[Measured]] = []
    with make_scene(ROW_S) as scene:
        parts.append(dedup(scene, "dedup of ASySD", [asysd], kills=False))
        parts.append(dedup(scene, "dedup of DBLP-ACM", [dblp_acm / "dblp.csv", dblp_acm / "acm.csv"], kills=False))
        parts.append(dedup(scene, f"dedup of {records:,}", [write_records(scene.folder / "many.jsonl", many)], kills=True))
        parts.append(reindex(scene, many))
        parts.append(optimize(scene, sets))
        parts.append(features(scene, sets[0].documents))
    rows: list[tuple[Cell, ...]] = []
    for base, *others in parts:
        for one in (base, *others):
            work, _, where = one.where.partition(": ")
            rows.append((work, where, one.took_s, one.took_s / base.took_s, "equal" if one.content == base.content else "differs"))
    size = sum(len(each.documents) for each in sets)
    return Report(
        "ray_batch",
        COLUMNS,
        tuple(rows),
        (
            f"reindex: {records:,} records, {ROW_S * 1000:g} ms a row; result: the nearest of 100 records with similarities, and `check`",
            f"optimize: {size:,} records in {-(-size // BATCH)} files",
            f"its result: {QUESTIONS * len(sets)} ranked searches with scores, exact phrases, {len(QUERIES)} Boolean queries and `check`",
            f"{os.cpu_count()} cores for three nodes, the command and the server",
        ),
    )
