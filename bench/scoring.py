"""Scoring of 100 works by a slow model, relative to the bare calls through its client.

The model is a loopback server that answers after half a second, so that only our part and the client's are measured. The server records the
calls, and `openai.AsyncOpenAI` repeats them under the same limit. Both sides are warm: each scores once before.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from statistics import median
from typing import Any

from pydantic import SecretStr

from bench.data import Absent, collection
from bench.report import Cell, Report
from outrider.nodes.fine_scorer.judgement import Question
from outrider.prompts import parse_fence
from outrider.services import Services
from outrider.services.make_nodes import make_scorer
from outrider.settings.model import LlmSettings, Settings
from outrider.state.chat import Budget
from outrider.state.hits import Candidate
from outrider.state.records import Record, Repository

LATENCY_S = 0.5
WORKS = 100
ROUNDS = 5
BOUND = 1.1
QUESTION = Question("does aspirin harm the liver")
COLUMNS = ("works", "calls", "at once", "ours s", "bare client s", "ratio")


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 100
    """Of five, its default, one in ten that knock at once may wait a second and knock again."""


@dataclass
class Model:
    """Answers every chat completion with a medium score for each work of the request."""

    bodies: list[dict[str, Any]] = field(default_factory=list)
    base_url: str = ""

    @contextmanager
    def served(self) -> Iterator[Model]:
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                model.bodies.append(body)
                time.sleep(LATENCY_S)
                answer = json.dumps(_completion(body)).encode()
                with suppress(ConnectionError):
                    self.send_response(200)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(answer)))
                    self.end_headers()
                    self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                pass

        server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.base_url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()


def _completion(body: dict[str, Any]) -> dict[str, Any]:
    request: Any = parse_fence(str(body["messages"][-1]["content"]))
    content: dict[str, Any] = {"relevance": 0.5, "documentation": 5, "ease_of_use": 5}
    if "papers" in request:
        content = {
            "results": [{"paper_id": one["id"], "relevance_score": 0.5, "relevance_reason": "", "tags": []} for one in request["papers"]]
        }
    message = {"role": "assistant", "content": json.dumps(content), "refusal": None}
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def run() -> Report:
    try:
        papers: list[Record] = list(collection("scifact").documents[:WORKS])
    except Absent as absent:
        return Report("scoring", COLUMNS, (), (f"skipped: {absent}",))
    repositories = [_repository(paper, at) for at, paper in enumerate(papers)]
    with Model().served() as model:
        rows = [asyncio.run(_measured(model, name, works)) for name, works in (("papers", papers), ("repositories", repositories))]
    worst = max(float(row[-1] or 0) for row in rows)
    verdict = "holds" if worst <= BOUND else "does not hold"
    note = f"Medians of {ROUNDS}. At most {BOUND} times the bare calls {verdict} ({worst:.3f} at worst)."
    return Report("scoring", COLUMNS, tuple(rows), (note,))


def _repository(paper: Record, at: int) -> Record:
    return Repository(doc_id=f"r{at}", title=f"project {at}", description=paper.title, text=paper.abstract, stars=100 + at)


async def _measured(model: Model, name: str, works: Sequence[Record]) -> tuple[Cell, ...]:
    llm = LlmSettings(model="fixed", base_url=model.base_url, api_key=SecretStr("none"), score_all=True, prices={"fixed": "1/1"})
    scorer = make_scorer(Services(Settings(llm=llm)))
    candidates = [Candidate(record=record) for record in works]
    ours: list[float] = []
    bare: list[float] = []
    bodies: list[dict[str, Any]] = []
    for place in range(ROUNDS + 1):
        model.bodies.clear()
        started = time.perf_counter()
        result = await scorer.score(candidates, QUESTION, 10, Budget(), 60.0)
        took_s = time.perf_counter() - started
        assert len(result.candidates) == len(works)
        assert not result.failures
        bodies = list(model.bodies)
        again_s = await _bare(model.base_url, bodies, llm.concurrency)
        if place:  # the first round loads the client and detects the server's modes
            ours.append(took_s)
            bare.append(again_s)
    ratio = median(one / other for one, other in zip(ours, bare, strict=True))
    return f"{len(works)} {name}", len(bodies), llm.concurrency, median(ours), median(bare), ratio


async def _bare(base_url: str, bodies: Sequence[dict[str, Any]], concurrency: int) -> float:
    """Seconds that the same calls take without our code."""
    from openai import AsyncOpenAI

    at_once = asyncio.Semaphore(concurrency)
    async with AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client:

        async def call(body: dict[str, Any]) -> None:
            async with at_once:
                await client.chat.completions.create(**body)

        await asyncio.gather(*map(call, bodies[:concurrency]))  # as many connections as will be used
        started = time.perf_counter()
        await asyncio.gather(*map(call, bodies))
        return time.perf_counter() - started
