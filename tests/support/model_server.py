"""A server of models on loopback: vLLM's and TEI's protocols, with settable latency, limits and failures.

Vectors are letter counts. `ModelServer.wrong` makes it a server of another model.
"""

from __future__ import annotations

import asyncio
import base64
import string
import struct
from typing import Any

from support.http_server import Answer, Request, as_json, serving

MODEL = "letters-v1"


def letters(text: str) -> list[float]:
    return [float(text.lower().count(letter)) for letter in string.ascii_lowercase] + [1.0]


class ModelServer(serving):
    """`tei` also answers `/info`, `/embed` and `/rerank`; without it `/v1/embeddings`, `/v1/rerank` and `/v1/score`."""

    def __init__(self, *, tei: bool = False, most_texts: int = 1_000, latency_s: float = 0.0, model: str = MODEL) -> None:
        super().__init__(self._answer_request)
        self.tei = tei
        self.most_texts = most_texts
        self.latency_s = latency_s
        self.model = model
        self.wrong = False
        self.knows_base64 = True
        self.down: Answer | None = None
        """Answers everything."""
        self.texts: list[str] = []
        """Every text that was answered."""
        self.embed_requests: list[list[str]] = []

    @property
    def url(self) -> str:
        return self.base_url if self.tei else f"{self.base_url}/v1"

    async def _answer_request(self, request: Request) -> Answer:
        if self.down:
            return self.down
        if request.method == "GET":
            return as_json(self._info()) if request.path == "/info" and self.tei else as_json({"detail": "Not Found"}, 404)
        body = request.json
        paths = {"/embed": self._embed_native, "/rerank": self._rerank_native} if self.tei else {}
        paths |= {"/v1/embeddings": self._embed, "/v1/rerank": self._rerank, "/v1/score": self._score}
        if request.path not in paths:
            return as_json({"detail": "Not Found"}, 404)
        await asyncio.sleep(self.latency_s)
        return paths[request.path](body)

    def _info(self) -> dict[str, Any]:
        return {"model_id": self.model, "model_sha": "abc", "max_client_batch_size": self.most_texts, "max_batch_tokens": 16_384}

    def _vectors(self, texts: list[str]) -> list[list[float]]:
        self.texts += texts
        self.embed_requests.append(texts)
        return [[*letters(text)[::-1]] if self.wrong else letters(text) for text in texts]

    def _too_many(self, count: int) -> Answer | None:
        message = f"batch size {count} > maximum allowed batch size {self.most_texts}"
        return as_json({"error": message, "error_type": "Validation"}, 413) if count > self.most_texts else None

    def _embed_native(self, body: dict[str, Any]) -> Answer:
        return self._too_many(len(body["inputs"])) or as_json(self._vectors(body["inputs"]), headers={"x-compute-tokens": "7"})

    def _embed(self, body: dict[str, Any]) -> Answer:
        if refused := self._too_many(len(body["input"])):
            return refused
        if body["encoding_format"] == "base64" and not self.knows_base64:
            return as_json({"error": {"message": "encoding_format must be float"}}, 400)
        vectors = self._vectors(body["input"])
        if body["encoding_format"] == "base64":
            embeddings: list[Any] = [base64.b64encode(struct.pack(f"<{len(v)}f", *v)).decode() for v in vectors]
        else:
            embeddings = vectors
        data = [{"index": at, "embedding": embedding} for at, embedding in enumerate(embeddings)]
        return as_json({"data": data[::-1], "model": self.model, "usage": {"prompt_tokens": 7}})

    def _scores(self, texts: list[str]) -> list[float]:
        self.texts += texts
        return [-len(text) / 10 if self.wrong else len(text) / 10 for text in texts]

    def _rerank_native(self, body: dict[str, Any]) -> Answer:
        scores = self._scores(body["texts"])
        return self._too_many(len(scores)) or as_json([{"index": at, "score": score} for at, score in enumerate(scores)])

    def _rerank(self, body: dict[str, Any]) -> Answer:
        rows = [{"index": at, "relevance_score": score} for at, score in enumerate(self._scores(body["documents"]))]
        return as_json({"model": self.model, "results": rows})

    def _score(self, body: dict[str, Any]) -> Answer:
        rows = [{"index": at, "score": score} for at, score in enumerate(self._scores(body["text_2"]))]
        return as_json({"model": self.model, "data": rows})
