"""Rerankers behind an endpoint, in two request formats.

Text Embeddings Inference: `POST /rerank` {query, texts} -> [{index, score}] (huggingface.github.io/text-embeddings-inference).
vLLM, Jina, Cohere: `POST /v1/rerank` {model, query, documents} -> {results: [{index, relevance_score}]} (docs.vllm.ai, "Re-rank API").
The first request finds out which of them the server answers.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from outrider.runtime.threads_and_loops import stop_if_abandoned
from outrider.state.errors import BadVectors, ModelUnavailable
from outrider.text.sanitize import find_proxy_fault, is_http_url, is_loopback, redact, without_password

if TYPE_CHECKING:
    import httpx

BATCH = 32
"""Texts per request: the default limit of Text Embeddings Inference (`--max-client-batch-size`)."""
TRIES = 3
PAUSE_S = 1.0
"""Pause before a retry if the server does not send Retry-After."""
BUSY = frozenset({429, 503})
UNKNOWN_FORMAT = frozenset({400, 404, 405, 422})
"""Statuses for a path or a body that the server does not know."""


@dataclass(frozen=True, slots=True)
class RequestFormat:
    """Path and fields of one kind of rerank API."""

    path: str
    texts: str
    """Name of the field with the texts."""
    score: str


TEI = RequestFormat("/rerank", "texts", "score")
JINA = RequestFormat("/v1/rerank", "documents", "relevance_score")


@dataclass(slots=True)
class EndpointReranker:
    """Scores from a server. `timeout_s` bounds one call of `scores`, including waits for a busy server."""

    base_url: str = field(repr=False)
    model_name: str = ""
    api_key: str = field(default="", repr=False)
    timeout_s: float = 60.0
    sleep: Callable[[float], None] = time.sleep
    _format: RequestFormat | None = None
    _format_lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def name(self) -> str:
        return f"{self.model_name or 'reranker'} at {without_password(self.base_url)}"

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Scores in the order of the texts. `ModelUnavailable` if the server is unreachable or refuses, `BadVectors` for bad scores."""
        import httpx

        if not is_http_url(self.base_url):
            raise ModelUnavailable(
                f"reranker.base_url {without_password(self.base_url)!r} is no address; write for example http://localhost:8080"
            )
        until = time.monotonic() + self.timeout_s
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        scores: list[float] = []
        if fault := find_proxy_fault(self.base_url):
            raise ModelUnavailable(f"{self.name} cannot be reached: {fault}")
        with httpx.Client(headers=headers, verify=httpx.create_ssl_context(), trust_env=not is_loopback(self.base_url)) as client:
            for start in range(0, len(texts), BATCH):
                stop_if_abandoned()
                scores.extend(self._score_batch(client, query, list(texts[start : start + BATCH]), until))
        return scores

    def _score_batch(self, client: httpx.Client, query: str, texts: list[str], until: float) -> list[float]:
        """Score one batch; the first one tries the request formats in the order that the address suggests."""
        with self._format_lock if self._format is None else nullcontext():
            if self._format is not None:
                return self._read_scores(self._format, self._post(client, self._format, query, texts, until), len(texts))
            refusals: list[str] = []
            for form in (JINA, TEI) if self._path() else (TEI, JINA):
                response = self._post(client, form, query, texts, until)
                if response.status_code not in UNKNOWN_FORMAT:
                    scores = self._read_scores(form, response, len(texts))
                    self._format = form
                    return scores
                refusals.append(f"{form.texts}: HTTP {response.status_code} {self._detail(response)}".strip())
        raise ModelUnavailable(f"{self.name} is no rerank endpoint that is known here ({'; '.join(refusals)}); see reranker.base_url")

    def _post(self, client: httpx.Client, form: RequestFormat, query: str, texts: list[str], until: float) -> httpx.Response:
        """The server's response; a busy server is retried after the time that it names, as far as there is time."""
        import httpx

        stem, path = self.base_url.rstrip("/"), self._path()
        address = stem if path == "/rerank" else f"{stem}/rerank" if path else stem + form.path
        body: dict[str, Any] = {"query": query, form.texts: texts}
        body |= {"truncate": True, "raw_scores": True} if form is TEI else {"model": self.model_name, "top_n": len(texts)}
        for attempt in range(1, TRIES + 1):
            try:
                response = client.post(address, json=body, timeout=max(0.001, until - time.monotonic()))
            except httpx.TimeoutException as error:
                raise ModelUnavailable(f"{self.name} did not answer within {self.timeout_s:g} s (reranker.timeout_s)") from error
            except httpx.HTTPError as error:
                raise ModelUnavailable(f"{self.name} could not be reached ({type(error).__name__}); is it running?") from error
            retry_after = response.headers.get("retry-after", "")  # in seconds; a date is ignored
            pause_s = float(retry_after) if retry_after.isdecimal() else PAUSE_S
            if response.status_code not in BUSY or attempt == TRIES or time.monotonic() + pause_s >= until:
                return response
            self.sleep(pause_s)
        raise AssertionError("unreachable")

    def _read_scores(self, form: RequestFormat, response: httpx.Response, count: int) -> list[float]:
        """Scores in the order of the texts, whatever order the server returned."""
        if (status := response.status_code) != 200:
            hints = {401: ": it wants a valid key (reranker.api_key)", 403: ": it wants a valid key (reranker.api_key)"}
            hint = hints.get(status, ": too many requests; try later" if status == 429 else "")
            raise ModelUnavailable(f"{self.name} answered HTTP {status}{hint} {self._detail(response)}".strip())
        try:
            content = response.json()
        except ValueError as error:
            raise ModelUnavailable(f"{self.name} answered something else than JSON; does the address lead to a rerank endpoint?") from error
        rows = content.get("results") if isinstance(content, dict) else content
        scores: dict[int, float] = {}
        for row in rows if isinstance(rows, list) else ():
            index, value = (row.get("index"), row.get(form.score)) if isinstance(row, dict) else (None, None)
            # a repeated or malformed row counts as missing
            if type(index) is int and isinstance(value, float | int) and math.isfinite(value) and index not in scores:
                scores[index] = float(value)
        if sorted(scores) != list(range(count)):
            raise BadVectors(f"{self.name} gave usable scores for {len(scores)} texts of {count}")
        return [scores[place] for place in range(count)]

    def _path(self) -> str:
        """The path of the address: `/v1`, `/v2`, `/rerank`, or empty."""
        stem = self.base_url.rstrip("/")
        return next((end for end in ("/v2", "/v1", "/rerank") if stem.endswith(end)), "")

    def _detail(self, response: httpx.Response) -> str:
        """The beginning of an error response; without the key, since a server may echo the request."""
        key = response.request.headers.get("authorization", "").removeprefix("Bearer ")
        return f"({redact(response.text, key)})" if response.text.strip() else ""
