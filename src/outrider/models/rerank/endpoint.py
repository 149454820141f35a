"""Rerankers on servers, in three request formats.

Text Embeddings Inference: `POST /rerank` {query, texts} -> [{index, score}] (huggingface.github.io/text-embeddings-inference).
vLLM, Jina, Cohere: `POST /v1/rerank` {model, query, documents} -> {results: [{index, relevance_score}]} (docs.vllm.ai, "Re-rank API").
vLLM: `POST /v1/score` {model, text_1, text_2} -> {data: [{index, score}]} (docs.vllm.ai, "Score API").
A small request finds out which of them a server answers, and whether all servers of a list have one model.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from outrider.models.servers.batches import MIN_CHARS, BatchLimits, run_batches
from outrider.models.servers.health import ServerReport
from outrider.models.servers.replicas import Replica, ReplicaPool
from outrider.models.servers.transport import (
    Reply,
    ServerSettings,
    TooLarge,
    check_status,
    name_weights,
    read_tei_info,
    request,
)
from outrider.runtime.threads_and_loops import run_in_background, stop_if_abandoned
from outrider.state.errors import BadVectors, ModelUnavailable
from outrider.text.sanitize import redact, split_addresses, without_password

BATCH = 32
"""Texts per request: the default limit of Text Embeddings Inference (`--max-client-batch-size`)."""
BATCH_TOKENS = 65_536
CHARS_PER_TOKEN = 4
UNKNOWN_FORMAT = frozenset({400, 404, 405, 422})
"""Statuses for a path or a body that the server does not know."""
PROBE_QUERY = "Which animal barks?"
PROBE_TEXTS = ("A dog barks.", "A seal lives by the sea and can bark as well as many land animals do.", "Shares fell in early trading.")
TOLERANCE = 0.05
"""Of the scores of the probe from two replicas, as a share of the largest or of 1: other precisions of one model differ by less."""


@dataclass(frozen=True, slots=True)
class RequestFormat:
    """Fields of one kind of rerank API."""

    path: str
    query: str
    texts: str
    """Name of the field with the texts."""
    rows: str
    """Field of the response that holds the scores; empty if it is the response itself."""
    score: str

    def make_body(self, model: str, query: str, texts: Sequence[str]) -> dict[str, Any]:
        body: dict[str, Any] = {self.query: query, self.texts: list(texts)}
        if self is TEI:
            return body | {"truncate": True, "raw_scores": True}
        return body | {"model": model} | ({"top_n": len(texts)} if self is JINA else {})


TEI = RequestFormat("/rerank", "query", "texts", "", "score")
JINA = RequestFormat("/rerank", "query", "documents", "results", "relevance_score")
SCORE = RequestFormat("/score", "text_1", "text_2", "data", "score")


def list_formats(address: str) -> list[tuple[str, RequestFormat]]:
    """URLs and formats to try at an address, the likeliest first."""
    if address.endswith("/rerank"):
        return [(address, JINA), (address, TEI)]
    if address.endswith("/score"):
        return [(address, SCORE)]
    if address.endswith(("/v1", "/v2")):
        return [(f"{address}{form.path}", form) for form in (JINA, TEI, SCORE)]
    return [(f"{address}{TEI.path}", TEI), *((f"{address}/v1{form.path}", form) for form in (JINA, SCORE))]


@dataclass(slots=True)
class EndpointReranker:
    """Scores from servers of one model. `timeout_s` bounds one call of `scores`, including waits for busy servers."""

    base_url: str = field(repr=False)
    model_name: str = ""
    api_key: str = field(default="", repr=False)
    timeout_s: float = 60.0
    concurrency: int = 4
    _pool: ReplicaPool | None = field(default=None, repr=False)
    _formats: dict[Replica, tuple[str, RequestFormat]] = field(default_factory=dict, repr=False)
    _limits: BatchLimits = field(default_factory=lambda: BatchLimits(BATCH, BATCH_TOKENS), repr=False)
    _first: tuple[str, str, list[float]] | None = field(default=None, repr=False)
    """Name, weights and scores of the probe of the first server that was ready."""

    @property
    def name(self) -> str:
        return f"{self.model_name or 'reranker'} at {', '.join(map(without_password, split_addresses(self.base_url)))}"

    @property
    def _servers(self) -> ServerSettings:
        return ServerSettings("reranker", self.model_name or "reranker", self.api_key, self.timeout_s, self.concurrency)

    @property
    def pool(self) -> ReplicaPool:
        """The servers. Raises `ModelUnavailable` for an address that cannot be used."""
        if self._pool is None:
            self._pool = ReplicaPool(self._servers, self._servers.check_addresses(self.base_url, "http://localhost:8080"), self._check)
        return self._pool

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Scores in the order of the texts. `ModelUnavailable` if no server is reachable or all refuse, `BadVectors` for bad scores."""
        stop_if_abandoned()
        return run_in_background(self._score_all(query, texts)) if texts else []

    def report_servers(self, within_s: float) -> tuple[ServerReport, ...]:
        """The state of each server, after the checks that are due."""
        return run_in_background(self.pool.report(within_s))

    async def _score_all(self, query: str, texts: Sequence[str]) -> list[float]:
        pool, until = self.pool, time.monotonic() + self.timeout_s
        scores = [math.nan] * len(texts)

        async def run(batch: list[int]) -> list[float]:
            parts = [texts[at] for at in batch]
            while True:
                try:
                    return await pool.send(partial(self._score, query, parts), until=until)
                except TooLarge:
                    if len(parts) > 1 or len(parts[0]) < 2 * MIN_CHARS:
                        raise
                    parts = [parts[0][: len(parts[0]) // 2]]

        def deliver(batch: list[int], result: list[float] | TooLarge) -> None:
            if isinstance(result, TooLarge):
                raise ModelUnavailable(str(result))
            for at, score in zip(batch, result, strict=True):
                scores[at] = score

        await pool.wait_ready(until)
        lengths = [(len(query) + len(text)) // CHARS_PER_TOKEN + 1 for text in texts]
        await run_batches(lengths, self._limits, lambda: pool.slots, run, deliver)
        return scores

    async def _score(self, query: str, texts: Sequence[str], replica: Replica) -> list[float]:
        url, form = self._formats[replica]
        reply = await request(self._servers, replica.address, url, form.make_body(self.model_name, query, texts))
        check_status(self._servers, replica.address, reply)
        return self._read_scores(replica, form, reply, len(texts))

    async def _check(self, replica: Replica) -> None:
        """Find the server's format and limits, and compare its scores of the probe with those of the first server."""
        info = await read_tei_info(self._servers, replica.address)
        refusals: list[str] = []
        for url, form in list_formats(replica.address):
            reply = await request(self._servers, replica.address, url, form.make_body(self.model_name, PROBE_QUERY, PROBE_TEXTS))
            if reply.status not in UNKNOWN_FORMAT:
                break
            refusals.append(f"{form.texts}: {reply.status} {redact(reply.message, self.api_key)}".strip())
        else:
            raise ModelUnavailable(
                f"{replica.name} is no rerank endpoint that is known here ({'; '.join(refusals)}); see reranker.base_url"
            )
        check_status(self._servers, replica.address, reply)
        scores = self._read_scores(replica, form, reply, len(PROBE_TEXTS))
        self._formats[replica] = url, form
        self._limits.read_info(info)
        if self._first is None:
            self._first = replica.name, name_weights(info), scores
        else:
            self._compare(replica, name_weights(info), scores)

    def _compare(self, replica: Replica, weights: str, scores: list[float]) -> None:
        """Raises `BadVectors` with both servers' names if this one has another model."""
        assert self._first is not None  # noqa: S101 - the caller has looked
        name, first_weights, first_scores = self._first
        other = ""
        if weights and first_weights and weights != first_weights:
            other = f"serves {weights}, and {name} {first_weights}"
        bound = TOLERANCE * max(1.0, *map(abs, first_scores))
        if any(abs(own - first) > bound for own, first in zip(scores, first_scores, strict=True)):
            shown = [" ".join(f"{score:.3g}" for score in row) for row in (scores, first_scores)]
            other = other or f"gives other scores than {name} ({shown[0]} and {shown[1]} for the same texts)"
        if other:
            raise self._servers.other_model(replica.address, other)

    def _read_scores(self, replica: Replica, form: RequestFormat, reply: Reply, count: int) -> list[float]:
        """Scores in the order of the texts, whatever order the server returned."""
        content = reply.json(replica.name, "does the address lead to a rerank endpoint?")
        rows = content.get(form.rows or "results") if isinstance(content, dict) else content
        scores: dict[int, float] = {}
        for row in rows if isinstance(rows, list) else ():
            index, value = (row.get("index"), row.get(form.score)) if isinstance(row, dict) else (None, None)
            # a repeated or malformed row counts as missing
            if type(index) is int and isinstance(value, float | int) and abs(value) <= sys.float_info.max and index not in scores:
                scores[index] = float(value)
        if sorted(scores) != list(range(count)):
            raise BadVectors(f"{replica.name} gave usable scores for {len(scores)} texts of {count}")
        return [scores[place] for place in range(count)]
