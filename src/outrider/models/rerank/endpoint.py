"""A rerank endpoint. Text Embeddings Inference: `POST /rerank` {query, texts} -> [{index, score}]
(huggingface.github.io/text-embeddings-inference). vLLM, Jina, Cohere: `POST /v1/rerank` {model, query, documents} ->
{results: [{index, relevance_score}]} (docs.vllm.ai, "Re-rank API"). Which of them answers is found out with the first request.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from outrider.runtime.threads import stop_if_abandoned
from outrider.state.errors import BadVectors, ModelUnavailable
from outrider.text.sanitize import is_http_url, redact, without_password

if TYPE_CHECKING:
    import httpx

BATCH = 32
"""Texts a request: what Text Embeddings Inference takes by default (`--max-client-batch-size`)."""
TRIES = 3
PAUSE_S = 1.0
"""Before another try where the server does not say how long."""
BUSY = frozenset({429, 503})
UNKNOWN_FORMAT = frozenset({400, 404, 405, 422})
"""What a server answers to a path or a body that it does not know."""


@dataclass(frozen=True, slots=True)
class RequestFormat:
    """One way of asking and answering."""

    path: str
    texts: str
    """The field that holds the texts."""
    score: str


TEI = RequestFormat("/rerank", "texts", "score")
JINA = RequestFormat("/v1/rerank", "documents", "relevance_score")


@dataclass(slots=True)
class EndpointReranker:
    """Scores from a server. `timeout_s` bounds one call of `scores`, waiting for a busy server included."""

    base_url: str = field(repr=False)
    model_name: str = ""
    api_key: str = field(default="", repr=False)
    timeout_s: float = 60.0
    sleep: Callable[[float], None] = time.sleep
    _form: RequestFormat | None = None
    _choosing: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def name(self) -> str:
        return f"{self.model_name or 'reranker'} at {without_password(self.base_url)}"

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """`ModelUnavailable` where the server cannot be reached or refuses, `BadVectors` for answers that are no scores."""
        import httpx

        if not is_http_url(self.base_url):
            raise ModelUnavailable(
                f"reranker.base_url {without_password(self.base_url)!r} is no address; write for example http://localhost:8080"
            )
        until = time.monotonic() + self.timeout_s
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        found: list[float] = []
        with httpx.Client(headers=headers) as client:
            for start in range(0, len(texts), BATCH):
                stop_if_abandoned()
                found.extend(self._batch(client, query, list(texts[start : start + BATCH]), until))
        return found

    def _batch(self, client: httpx.Client, query: str, texts: list[str], until: float) -> list[float]:
        if self._form is None:
            with self._choosing:
                if self._form is None:
                    self._form, found = self._first_that_answers(client, query, texts, until)
                    return found
        return self._read(self._form, self._asked(client, self._form, query, texts, until), len(texts))

    def _first_that_answers(self, client: httpx.Client, query: str, texts: list[str], until: float) -> tuple[RequestFormat, list[float]]:
        """The form that the server understands, tried in the order that the address suggests."""
        said: list[str] = []
        for form in (JINA, TEI) if self._path() else (TEI, JINA):
            answer = self._asked(client, form, query, texts, until)
            if answer.status_code not in UNKNOWN_FORMAT:
                return form, self._read(form, answer, len(texts))
            said.append(f"{form.texts}: HTTP {answer.status_code} {_detail(answer)}".strip())
        raise ModelUnavailable(f"{self.name} is no rerank endpoint that is known here ({'; '.join(said)}); see reranker.base_url")

    def _asked(self, client: httpx.Client, form: RequestFormat, query: str, texts: list[str], until: float) -> httpx.Response:
        """The server's answer; a busy one is asked again after the time that it names, as far as there is time."""
        body: dict[str, Any] = {"query": query, form.texts: texts}
        body |= {"truncate": True, "raw_scores": True} if form is TEI else {"model": self.model_name, "top_n": len(texts)}
        for attempt in range(1, TRIES + 1):
            answer = self._posted(client, self._address(form), body, until)
            pause_s = _pause_s(answer)
            if answer.status_code not in BUSY or attempt == TRIES or time.monotonic() + pause_s >= until:
                return answer
            self.sleep(pause_s)
        raise AssertionError("unreachable")

    def _posted(self, client: httpx.Client, address: str, body: dict[str, Any], until: float) -> httpx.Response:
        import httpx

        try:
            return client.post(address, json=body, timeout=max(0.001, until - time.monotonic()))
        except httpx.TimeoutException as error:
            raise ModelUnavailable(f"{self.name} did not answer within {self.timeout_s:g} s (reranker.timeout_s)") from error
        except httpx.HTTPError as error:
            raise ModelUnavailable(f"{self.name} could not be reached ({type(error).__name__}); is it running?") from error

    def _read(self, form: RequestFormat, answer: httpx.Response, count: int) -> list[float]:
        """Scores in the order of the texts, whatever order the server gave them in."""
        if answer.status_code != 200:
            raise ModelUnavailable(f"{self.name} answered {_meaning(answer.status_code)} {_detail(answer)}".strip())
        try:
            said = answer.json()
        except ValueError as error:
            raise ModelUnavailable(f"{self.name} answered something else than JSON; does the address lead to a rerank endpoint?") from error
        rows = said.get("results") if isinstance(said, dict) else said
        found = _by_index(rows, form.score) if isinstance(rows, list) else {}
        if sorted(found) != list(range(count)):
            raise BadVectors(f"{self.name} gave usable scores for {len(found)} texts of {count}")
        return [found[place] for place in range(count)]

    def _path(self) -> str:
        """What the address names beyond the server: `/v1`, or the whole `/rerank`."""
        stem = self.base_url.rstrip("/")
        return next((end for end in ("/v2", "/v1", "/rerank") if stem.endswith(end)), "")

    def _address(self, form: RequestFormat) -> str:
        stem, path = self.base_url.rstrip("/"), self._path()
        if path == "/rerank":
            return stem
        return f"{stem}/rerank" if path else stem + form.path


def _by_index(rows: list[Any], score: str) -> dict[int, float]:
    """Finite scores by index; a row that is repeated or is anything else counts as missing."""
    found: dict[int, float] = {}
    for row in rows:
        index, value = (row.get("index"), row.get(score)) if isinstance(row, dict) else (None, None)
        if type(index) is int and isinstance(value, float | int) and math.isfinite(value) and index not in found:
            found[index] = float(value)
    return found


def _pause_s(answer: httpx.Response) -> float:
    """What `Retry-After` asks for in seconds; a date there is not read."""
    said = answer.headers.get("retry-after", "")
    return float(said) if said.isdecimal() else PAUSE_S


def _meaning(status: int) -> str:
    if status in (401, 403):
        return f"HTTP {status}: it wants a valid key (reranker.api_key)"
    if status == 429:
        return "HTTP 429: too many requests; try later"
    return f"HTTP {status}"


def _detail(answer: httpx.Response) -> str:
    """The beginning of what the server says about an error; a server may echo the request, so no key stands in it."""
    key = answer.request.headers.get("authorization", "").removeprefix("Bearer ")
    return f"({redact(answer.text, key)})" if answer.text.strip() else ""
