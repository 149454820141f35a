"""Embedding on servers: batches in parallel, replicas, one that dies, one that refuses, and the cost in CPU.

The servers are stubs in processes of their own (`bench.model_stub`): they show what the client does, not what a served model can do. One
table compares the vectors of real weights behind such a server with those of the same weights in this process.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from urllib.request import urlopen

import numpy as np

from bench.data import Absent, collection
from bench.model import model_folder
from bench.model_stub import make_vector, serving
from bench.report import Cell, Report, percentiles, progress
from outrider.library.vectors.write import document_text
from outrider.models.embed.embedder import Embedder

TEXTS = 1_536
ONE_BY_ONE = 128
NETWORK = {"delay_ms": 20, "request_ms": 5, "text_ms": 0.5}
"""A server some way off: a round trip of 20 ms, 2,000 texts a second at most."""
LIMITED = {"delay_ms": 2, "request_ms": 5, "text_ms": 2}
"""A server that is the limit: 476 texts a second in batches of 64."""
QUERIES = 100
REAL = 64
COLUMNS = (
    "servers",
    "texts a request",
    "requests at a time",
    "texts",
    "seconds",
    "texts a second",
    "to one by one",
    "client CPU ms a text",
)
PARTS = ("part", "seconds", "to the undisturbed run", "texts without their vector", "remark")
REPLICAS = "servers at their limit"


@dataclass(frozen=True, slots=True)
class Measured:
    took_s: float
    cpu_s: float
    lost: int
    """Texts without the vector that is theirs."""


def run(texts: int = TEXTS, rounds: int = 3) -> Report:
    try:
        documents = [document_text(record) for record in collection("scifact").documents[:texts]]
    except Absent as absent:
        return Report("model_servers", COLUMNS, (), (f"skipped: {absent}",))
    rows: list[tuple[Cell, ...]] = []
    one_by_one = 0.0
    with serving(**NETWORK) as (address, _):
        for size, at_once, count in ((1, 1, ONE_BY_ONE), (1, 8, 4 * ONE_BY_ONE), (64, 1, texts), (64, 4, texts), (64, 8, texts)):
            progress(f"model_servers: {size} texts a request, {at_once} at a time")
            best = measure(documents[:count], [address], size, at_once, rounds)
            rate = count / best.took_s
            one_by_one = one_by_one or rate
            rows.append((1, size, at_once, count, best.took_s, rate, rate / one_by_one, 1_000 * best.cpu_s / count))
    with serving(floats=1, **NETWORK) as (address, _):
        best = measure(documents, [address], 64, 8, rounds)
        rate = texts / best.took_s
        rows.append(("1, numbers instead of base64", 64, 8, texts, best.took_s, rate, rate / one_by_one, 1_000 * best.cpu_s / texts))
    further = (Report(REPLICAS, PARTS, tuple(compare_replicas(documents, rounds))), compare_queries(), compare_real(documents[:REAL]))
    notes = (f"SciFact's abstracts; medians of {rounds} rounds; a server {NETWORK}, at its limit {LIMITED}; vectors of 384 numbers.",)
    return Report("model_servers", COLUMNS, tuple(rows), notes, further)


def measure(texts: Sequence[str], addresses: Sequence[str], size: int, at_once: int, rounds: int) -> Measured:
    """The median round; the model is connected before."""
    model = connect(addresses, size, at_once)
    return sorted((embed(model, texts) for _ in range(rounds)), key=lambda one: one.took_s)[rounds // 2]


def connect(addresses: Sequence[str], size: int = 64, at_once: int = 4) -> Embedder:
    model = Embedder(
        "stub", base_url=",".join(addresses), batch_size=size, concurrency=at_once, batch_tokens=10**9, normalize_embeddings=False
    )
    model.embed(["warm up"] * 2 * size * len(addresses))
    return model


def embed(model: Embedder, texts: Sequence[str]) -> Measured:
    started, cpu = time.perf_counter(), time.process_time()
    answers = model.embed_each(texts)
    took_s, cpu_s = time.perf_counter() - started, time.process_time() - cpu
    lost = sum(
        answer.vector is None or not np.array_equal(answer.vector, make_vector(text)) for answer, text in zip(answers, texts, strict=True)
    )
    return Measured(took_s, cpu_s, lost)


def compare_replicas(texts: Sequence[str], rounds: int) -> list[tuple[Cell, ...]]:
    with ExitStack() as stack:
        first, second = (stack.enter_context(serving(**LIMITED)) for _ in range(2))
        one = measure(texts, [first[0]], 64, 4, rounds)
        two = measure(texts, [first[0], second[0]], 64, 4, rounds)
        model = connect([first[0], second[0]])
        killer = threading.Timer(two.took_s / 2, second[1].kill)
        killer.start()
        killed = embed(model, texts)
        killer.join()
        progress("model_servers: one killed")
        refusing, _ = stack.enter_context(serving(busy_share=0.5, **LIMITED))
        model = connect([refusing])
        before = count_refused(refusing)
        busy = embed(model, texts)
        refused = count_refused(refusing) - before
    return [
        ("one server", one.took_s, 1.0, one.lost, ""),
        ("two servers", two.took_s, two.took_s / one.took_s, two.lost, f"{one.took_s / two.took_s:.2f} times the rate of one"),
        ("two servers, one killed in the middle", killed.took_s, killed.took_s / two.took_s, killed.lost, "compared with two"),
        ("one server, half of the requests refused with 429", busy.took_s, busy.took_s / one.took_s, busy.lost, f"{refused} refusals"),
    ]


def count_refused(address: str) -> int:
    with urlopen(address.replace("/v1", "/refused"), timeout=10) as answer:
        return int(json.load(answer))


def compare_queries() -> Report:
    """One query after another, and beside a running ingestion."""
    rows: list[tuple[Cell, ...]] = []
    with serving(text_ms=1) as (address, _):
        model = connect([address])
        rows.append(("alone", *percentiles([time_query(model, at) for at in range(QUERIES)])))
    with serving(**LIMITED) as (address, _):
        model = connect([address])
        work = threading.Thread(target=lambda: model.embed([f"document {at}" for at in range(1_500)]))
        work.start()
        time.sleep(0.3)
        beside = []
        while work.is_alive():
            beside.append(time_query(model, len(beside)))
        work.join()
        rows.append((f"beside an ingestion of 1,500 texts ({len(beside)} queries)", *percentiles(beside)))
    return Report(
        "one query through a server", ("when", "p50 ms", "p95 ms"), tuple(rows), ("the server computes 1 ms a query, at its limit 7 ms",)
    )


def time_query(model: Embedder, number: int) -> float:
    started = time.perf_counter()
    model.embed(f"query {number}", "query")
    return 1_000 * (time.perf_counter() - started)


def compare_real(texts: Sequence[str]) -> Report:
    """The same weights behind a server and in this process."""
    columns = ("texts", "largest difference of a number", "least cosine", "seconds")
    try:
        folder = model_folder()
    except Absent as absent:
        return Report("real weights", columns, (), (f"skipped: {absent}",))
    with serving(model=folder) as (address, _):
        started = time.perf_counter()
        served = Embedder("all-MiniLM-L6-v2", base_url=address, timeout_s=300.0).embed(texts)
        took_s = time.perf_counter() - started
    own = Embedder(folder, device="cpu").embed(texts)
    cosines = (served * own).sum(axis=1)
    row = (len(texts), float(np.abs(served - own).max()), float(cosines.min()), took_s)
    return Report("real weights", columns, (tuple(f"{cell:.2e}" if cell and abs(cell) < 1e-3 else cell for cell in row),))
