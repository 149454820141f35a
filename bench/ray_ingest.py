"""Ingestion on a Ray cluster compared with one process, and with what is killed meanwhile.

A local cluster of three nodes with one CPU each, which is up already. The embedding model is an HTTP server that waits 2 ms for each row,
so that the machine's own cores are not what is compared. Times are those of whole commands. A killed command is run again; both runs count.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bench.process import run_isolated
from bench.ray_nodes import Scene, finish, make_scene
from bench.report import Cell, Report, progress
from outrider.library.library import Library

RECORDS, FILES, ROW_S = 20_000, 5, 0.002
ONE_ACTOR, TWO_ACTORS = 1.5, 0.9
"""Most times of one process."""
KILLED_FACTOR, KILLED_S = 2.0, 30.0
MOMENTS = (("reading", 0.0), ("embedding", 0.15), ("writing", 0.35), ("embedding", 0.6), ("writing", 0.8))
"""What is under way when something is killed, and the share of rows that are embedded by then."""
COLUMNS = ("actors with the model", "seconds", "rows embedded", "library")
SOURCE = "source"
"""The folder of the files."""


def start(scene: Scene, library: Path, embedders: int) -> subprocess.Popen[bytes]:
    return scene.start("ingest", scene.folder / SOURCE, "--library", library, embedders=embedders)


def write_files(folder: Path, records: int) -> None:
    """Papers with authors and an abstract of 60 words."""
    chance = random.Random(0)
    vocabulary = [f"word{number}" for number in range(3_000)]
    for file in range(FILES):
        with (folder / f"{file}.jsonl").open("w", encoding="utf-8") as out:
            for at in range(records // FILES):
                entry = {
                    "title": " ".join([*chance.choices(vocabulary, k=8), f"{file}-{at}"]),
                    "abstract": " ".join(chance.choices(vocabulary, k=60)),
                    "authors": [f"Doe{chance.randrange(2_000)}, J", "Roe, A"],
                    "year": 2000 + at % 20,
                    "doi": f"10.1000/{file}.{at}",
                }
                out.write(json.dumps(entry) + "\n")


def wait_until(condition: Callable[[], bool], command: subprocess.Popen[bytes]) -> bool:
    """False where the command ends first."""
    while command.poll() is None:
        if condition():
            return True
        time.sleep(0.005)
    return False


def is_moment(scene: Scene, doing: str, rows: float, before: int) -> bool:
    """By what the embedding server sees: nothing yet while files are read; no request while a batch is written."""
    done, under_way = scene.server.rows - before, scene.server.under_way
    if doing == "reading":
        return True
    return done >= rows and (under_way > 0) == (doing == "embedding")


def digest(library: Path) -> str:
    """Of all records, edges, counts and problems."""
    return asyncio.run(_digest(library))


async def _digest(library: Path) -> str:
    opened = await Library.open(library)
    try:
        content = hashlib.sha256()
        async for record in opened.scan():
            content.update(record.model_dump_json().encode())
        for edge in sorted(await opened.edges("true")):
            content.update(repr(edge).encode())
        without = await opened.without_vectors()
        content.update(f"{await opened.count()} {without} {sorted((await opened.origins()).items())}".encode())
        content.update("".join(await opened.check()).encode())
        return content.hexdigest()[:12]
    finally:
        opened.close()


Disturb = Callable[[Path, "subprocess.Popen[bytes]", int], bool]
"""Gets the library, the command that runs, and the rows that the server had answered before. False where the command ended too early."""
Measured = tuple[str, float, int, str]


def measure(scene: Scene, name: str, embedders: int, disturb: Disturb | None = None) -> Measured:
    progress(name)
    library, before = scene.folder / name.replace(" ", "-").replace(",", ""), scene.server.rows
    started = time.perf_counter()
    command = start(scene, library, embedders)
    if disturb is None:
        finish(command)
    elif not disturb(library, command, before):
        name += ": it ended before the kill"
    took_s = time.perf_counter() - started
    found = name, took_s, scene.server.rows - before, run_isolated(digest, library)
    progress(f"  {took_s:.1f} s, {found[2]:,} rows, {found[3]}")
    return found


def kill_node(scene: Scene, doing: str, rows: float) -> Disturb:
    def disturb(_: Path, command: subprocess.Popen[bytes], before: int) -> bool:
        if doing == "reading":
            time.sleep(READING_S)
        is_running = wait_until(lambda: is_moment(scene, doing, rows, before), command)
        scene.cluster.remove_node()
        finish(command)
        return is_running

    return disturb


def kill_command(scene: Scene, doing: str, rows: float, embedders: int) -> Disturb:
    def disturb(library: Path, command: subprocess.Popen[bytes], before: int) -> bool:
        if doing == "reading":
            time.sleep(READING_S)
        is_running = wait_until(lambda: is_moment(scene, doing, rows, before), command)
        command.send_signal(signal.SIGKILL)
        command.communicate()
        finish(start(scene, library, embedders))
        return is_running

    return disturb


READING_S = 4.0
"""From the start of the command: it has connected, and files are read."""


@contextmanager
def make_ingestion(records: int) -> Iterator[Scene]:
    with make_scene(ROW_S) as scene:
        (scene.folder / SOURCE).mkdir()
        write_files(scene.folder / SOURCE, records)
        yield scene


def make_report(name: str, results: Sequence[Measured], base: Measured, *notes: str) -> Report:
    rows: list[tuple[Cell, ...]] = [
        (what, took_s, took_s / base[1], embedded, "equal" if content == base[3] else f"differs ({content})")
        for what, took_s, embedded, content in results
    ]
    return Report(name, (*COLUMNS[:2], f"to {base[0]}", *COLUMNS[2:]), tuple(rows), notes)


def compare(records: int = RECORDS) -> Report:
    with make_ingestion(records) as scene:
        single = measure(scene, "one process", 0)
        one, two, three = (measure(scene, f"{count} on Ray", count) for count in (1, 2, 3))
    return make_report(
        "ray_ingest",
        (single, one, two, three),
        single,
        f"{records:,} records in {FILES} files, {ROW_S * 1000:g} ms a row; library: all records, edges, counts and the findings of `check`",
        f"one actor takes at most {ONE_ACTOR} times one process: {'holds' if one[1] <= ONE_ACTOR * single[1] else 'does not hold'}",
        f"two actors take at most {TWO_ACTORS} times one process: {'holds' if two[1] <= TWO_ACTORS * single[1] else 'does not hold'}",
    )


def kill(records: int = RECORDS) -> Report:
    with make_ingestion(records) as scene:
        base = measure(scene, "undisturbed", 3)
        results = [base]
        for doing, share in MOMENTS:
            disturb = kill_node(scene, doing, share * records)
            results.append(measure(scene, f"a node killed while {doing}, at {share:.0%}", 3, disturb))
            scene.cluster.add_node()
        for doing, share in MOMENTS:
            disturb = kill_command(scene, doing, share * records, 3)
            results.append(measure(scene, f"the command killed while {doing}, at {share:.0%}", 3, disturb))
    longest, limit = max(took_s for _, took_s, _, _ in results[1:]), KILLED_FACTOR * base[1] + KILLED_S
    return make_report(
        "ray_ingest_killed",
        results,
        base,
        f"{records:,} records, three actors; a killed command is run again, and both runs count",
        f"with a kill at most {limit:.0f} s (twice, and 30 s): {'holds' if longest <= limit else 'does not hold'} ({longest:.0f} s)",
        "a killed node counts as dead after some 5 s here; by Ray's own defaults after some 30 s",
    )


def run(records: int = RECORDS) -> Report:
    return replace(compare(records), further_tables=(kill(records),))
