"""Embedding models on servers that speak OpenAI's `/v1/embeddings` or TEI's `/embed`.

TEI is text-embeddings-inference. The protocols: platform.openai.com/docs/api-reference/embeddings, docs.vllm.ai ("OpenAI-Compatible
Server", "Embeddings API") and huggingface.github.io/text-embeddings-inference (`/info`, `/embed`; limits in its "CLI arguments").
Vectors are requested in base64, which takes a third of the CPU time; a server that does not know it answers with numbers, which are read
as well.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from outrider.models.embed.presets import find_preset
from outrider.models.servers.batches import MIN_CHARS, BatchLimits, run_batches
from outrider.models.servers.health import ServerReport
from outrider.models.servers.replicas import Replica, ReplicaPool
from outrider.models.servers.transport import (
    NotFound,
    Reply,
    ServerSettings,
    TooLarge,
    check_status,
    name_weights,
    read_tei_info,
    request,
)
from outrider.runtime.threads_and_loops import run_in_background
from outrider.settings.model import EmbeddingSettings
from outrider.state.embedding import EmbeddedText, EmbeddingSpace, TextRole, TokensRead
from outrider.state.errors import BadVectors, ModelUnavailable
from outrider.state.ports import OnCount
from outrider.text.sanitize import redact

if TYPE_CHECKING:
    import numpy as np

MAX_CONTEXT = 32_768
MAX_CHARS_PER_TOKEN = 16
"""Characters sent per token of the context at most: the server would not read more."""
TYPICAL_CHARS_PER_TOKEN = 4
"""Estimate for English prose, used to form batches."""
MARGIN = 0.95
# "This model's maximum context length is 512 tokens. However, you requested 1451 tokens in the input" (vLLM #19798);
# "`inputs` must have less than 512 tokens. Given: 1451" (text-embeddings-inference).
TOKEN_LIMIT = re.compile(r"(?:maximum context length is|less than) (\d+)")
SENT_TOKENS = re.compile(r"(?:requested|Given:) (\d+)")
PROBE = "Servers of one model give one vector for this sentence."
SAME = 0.99
"""Least cosine between the vectors of the probe from two replicas: the same weights in another precision give .998 or more, another model
near 0.
"""
HINT = "is embedding.base_url its OpenAI address (.../v1)?"


@dataclass(frozen=True, slots=True)
class EmbeddingResponse:
    """Vectors of shape (n, d), float32, in the order of the texts, and the server's model name and token count."""

    vectors: np.ndarray
    model: str
    tokens: int | None
    """Total of all texts."""


@dataclass(slots=True)
class WireFormat:
    """Address and fields of one server's requests."""

    url: str
    is_native: bool = False
    """TEI's own `/embed`."""
    in_base64: bool = True
    model: str = ""
    """The model that TEI's `/info` names; its `/embed` answers without a name."""
    weights: str = ""
    """Model and commit, where `/info` names both."""

    def make_body(self, model: str, texts: Sequence[str], *, normalize: bool) -> dict[str, Any]:
        if self.is_native:
            return {"inputs": list(texts), "normalize": normalize, "truncate": False}
        return {"input": list(texts), "model": model, "encoding_format": "base64" if self.in_base64 else "float"}


class EmbeddingClient:
    """The servers of one model. Its errors are ours, and no message contains the key or a password."""

    def __init__(self, settings: EmbeddingSettings) -> None:
        """Raises `ModelUnavailable` for an address that cannot be used; sends nothing."""
        self._settings = settings
        key = settings.api_key.get_secret_value()
        self._servers = ServerSettings("embedding", settings.model_name, key, settings.timeout_s, settings.concurrency)
        self.pool = ReplicaPool(self._servers, self._servers.check_addresses(settings.base_url, "http://localhost:8080/v1"), self._check)
        self.limits = BatchLimits(settings.batch_size, settings.batch_tokens)
        self._formats: dict[Replica, WireFormat] = {}
        self.first: EmbeddingResponse | None = None
        """What the first server that was ready answered to the probe: the others must answer the same."""
        self._first_name = self._first_weights = ""

    @property
    def name(self) -> str:
        return self.pool.name

    async def ask(self, texts: Sequence[str], *, urgent: bool = False) -> EmbeddingResponse:
        """Raises `TooLarge` if a server refuses texts as too long or too many, `ModelUnavailable`, `BadVectors`."""
        return await self.pool.send(lambda replica: self._ask(replica, texts), urgent=urgent)

    async def _ask(self, replica: Replica, texts: Sequence[str]) -> EmbeddingResponse:
        response = await self._post(replica, self._formats[replica], texts)
        first = self.first
        if first and response.vectors.shape[1] != first.vectors.shape[1]:
            dimension, usual = response.vectors.shape[1], first.vectors.shape[1]
            raise BadVectors(f"{replica.name} gave vectors of {dimension} numbers after some of {usual}; is it one model?")
        if first and response.model and first.model and response.model != first.model:
            raise ModelUnavailable(f"{replica.name} now serves {response.model!r}, and {self._first_name} served {first.model!r}")
        return response

    async def _check(self, replica: Replica) -> None:
        """Find the server's protocol and limits, and compare its vector of the probe with that of the first server."""
        info = await read_tei_info(self._servers, replica.address)
        formats = list_formats(replica.address, info)
        for form in formats:
            try:
                response = await self._post(replica, form, [PROBE])
                break
            except NotFound:
                if form is formats[-1]:
                    raise
        self._formats[replica] = form
        self.limits.read_info(info)
        if self.first is None:
            self.first, self._first_name, self._first_weights = response, replica.name, form.weights
        else:
            self._compare(replica, response, form.weights)

    def _compare(self, replica: Replica, response: EmbeddingResponse, weights: str) -> None:
        """Raises `BadVectors` with both servers' names if this one has another model."""
        import numpy as np

        first = self.first
        assert first is not None  # noqa: S101 - the caller has looked
        other, base = "", self._first_name
        dimension, first_dimension = response.vectors.shape[1], first.vectors.shape[1]
        if dimension != first_dimension:
            other = f"gives vectors of {dimension} numbers, and {base} of {first_dimension}"
        elif response.model and first.model and response.model != first.model:
            other = f"serves {response.model!r}, and {base} {first.model!r}"
        elif weights and self._first_weights and weights != self._first_weights:
            other = f"serves {weights}, and {base} {self._first_weights}"
        else:
            own, theirs = response.vectors[0].astype(np.float64), first.vectors[0].astype(np.float64)
            norms = float(np.linalg.norm(own) * np.linalg.norm(theirs))
            likeness = float(own @ theirs) / norms if norms > 0 else 0.0
            if not likeness >= SAME:  # not a number is another model, too
                other = f"gives other vectors than {base} (cosine {likeness:.3f} for one text): another model, prompt or pooling"
        if other:
            raise self._servers.other_model(replica.address, other)

    async def _post(self, replica: Replica, form: WireFormat, texts: Sequence[str]) -> EmbeddingResponse:
        body = form.make_body(self._settings.model_name, texts, normalize=self._settings.normalize_embeddings)
        reply = await request(self._servers, replica.address, form.url, body)
        if form.in_base64 and reply.status in {400, 422} and "encoding_format" in reply.message:
            form.in_base64 = False
            return await self._post(replica, form, texts)
        check_status(self._servers, replica.address, reply)
        return self._read(replica, form, reply, len(texts))

    def _read(self, replica: Replica, form: WireFormat, reply: Reply, count: int) -> EmbeddingResponse:
        body, key = reply.json(replica.name, HINT), self._servers.key
        if form.is_native:
            is_list = isinstance(body, list)
            tokens = reply.headers.get("x-compute-tokens", "")
            usage = {"prompt_tokens": int(tokens) if re.fullmatch(r"\d{1,9}", tokens) else None}
            body = {"data": [{"embedding": vector} for vector in body], "usage": usage, "model": form.model} if is_list else body
        return parse_response(body, count, replica.name, key)


@dataclass(frozen=True, slots=True)
class EndpointModel:
    """A served model; its dimension comes from its first response."""

    space: EmbeddingSpace
    wire: EmbeddingClient

    @property
    def name(self) -> str:
        return self.wire.name

    def embed_each(self, texts: Sequence[str], role: TextRole, progress: OnCount | None = None) -> list[EmbeddedText]:
        """Vectors as the servers give them, not yet normalised. Several batches are under way at a time; `progress` is called here."""
        answers = [EmbeddedText(None) for _ in texts]
        counts: SimpleQueue[int] = SimpleQueue()
        done = 0

        def report() -> None:
            nonlocal done
            while True:
                try:
                    done += counts.get_nowait()
                except Empty:
                    break
                if progress:
                    progress(done, len(texts))

        def watch() -> None:
            report()
            if progress:  # also while no answer comes: it may end the work
                progress(done, len(texts))

        run_in_background(self._embed(texts, role, answers, counts), watch if progress else None)
        report()
        return answers

    async def _embed(self, texts: Sequence[str], role: TextRole, answers: list[EmbeddedText], counts: SimpleQueue[int]) -> None:
        prompt = self.space.query_prompt if role == "query" else self.space.document_prompt
        max_chars = self.space.context_length * MAX_CHARS_PER_TOKEN
        inputs = [prompt + text[:max_chars] for text in texts]
        lengths = [len(text) // TYPICAL_CHARS_PER_TOKEN + 1 for text in inputs]
        urgent = role == "query"

        async def run(batch: list[int]) -> list[EmbeddedText]:
            if len(batch) == 1:
                return [await self._embed_shortened(inputs[batch[0]], urgent=urgent)]
            response = await self.wire.ask([inputs[at] for at in batch], urgent=urgent)
            return [EmbeddedText(vector) for vector in response.vectors]

        def deliver(batch: list[int], result: list[EmbeddedText] | TooLarge) -> None:
            for row, at in enumerate(batch):
                answer = EmbeddedText(None, problem=str(result)) if isinstance(result, TooLarge) else result[row]
                if len(texts[at]) > max_chars:  # only a part was sent, so that the server cannot know the full length
                    answer = EmbeddedText(answer.vector, TokensRead(tokens=answer.read.tokens), answer.problem)
                answers[at] = answer
            counts.put(len(batch))

        await run_batches(lengths, self.wire.limits, lambda: self.wire.pool.slots, run, deliver)

    def report_servers(self, within_s: float) -> tuple[ServerReport, ...]:
        """The state of each server, after the checks that are due."""
        return run_in_background(self.wire.pool.report(within_s))

    def token_vectors(self, texts: Sequence[str], role: TextRole) -> list[np.ndarray]:
        raise ModelUnavailable(f"{self.name} gives no vectors of tokens, as no such endpoint does; late interaction needs a local model")

    def span_vectors(self, text: str, spans: Sequence[tuple[int, int]]) -> np.ndarray:
        raise ModelUnavailable(f"{self.name} gives no vectors of tokens, as no such endpoint does; late chunking needs a local model")

    async def _embed_shortened(self, text: str, *, urgent: bool) -> EmbeddedText:
        """Embed one text; while it is too long, cut it to the limit that the server names, else halve it."""
        total = None
        for attempt in range(len(text).bit_length() + 1):
            try:
                response = await self.wire.ask([text], urgent=urgent)
            except TooLarge as error:
                limit, sent_tokens = (
                    int(match[1]) if (match := pattern.search(str(error))) else 0 for pattern in (TOKEN_LIMIT, SENT_TOKENS)
                )
                total = total or sent_tokens or None
                is_named = attempt == 0 and limit and sent_tokens > limit
                length = int(len(text) * MARGIN * limit / sent_tokens) if is_named else len(text) // 2
                if length < MIN_CHARS:
                    raise
                text = text[:length]
            else:
                return EmbeddedText(response.vectors[0], TokensRead(tokens=response.tokens, of=total if attempt else response.tokens))
        raise AssertionError("a text was halved more often than it has bits")


def connect(settings: EmbeddingSettings) -> EndpointModel:
    """Connect by requesting one vector. Raises `ModelUnavailable`, `BadVectors`."""
    wire = EmbeddingClient(settings)
    run_in_background(wire.pool.wait_ready())
    first = wire.first
    assert first is not None  # noqa: S101 - no request is sent before a check
    preset = find_preset(settings.model_name)
    limit = min(n for n in (settings.context_length, preset.context_length if preset else 0, MAX_CONTEXT) if n > 0)
    space = EmbeddingSpace(
        model_name=settings.model_name,
        revision=first.model or settings.model_name,
        dimension=first.vectors.shape[1],
        context_length=limit,
        query_prompt=preset.query_prompt if preset else "",
        document_prompt=preset.document_prompt if preset else "",
        pooling=preset.pooling if preset else "",
        normalized=settings.normalize_embeddings,
    )
    return EndpointModel(space, wire)


def list_formats(address: str, info: Mapping[str, Any]) -> list[WireFormat]:
    """The formats to try at an address, the likeliest first. `info` is that of TEI, or empty."""
    model, weights = str(info.get("model_id", "")), name_weights(info)
    if address.endswith("/embed"):
        return [WireFormat(address, is_native=True, model=model, weights=weights)]
    has_path = bool(urlsplit(address).path)
    if info and not has_path:
        return [WireFormat(f"{address}/embed", is_native=True, model=model, weights=weights)]
    stem = address.removesuffix("/embeddings")
    urls = [f"{stem}/embeddings"] if has_path else [f"{address}/embeddings", f"{address}/v1/embeddings"]
    return [WireFormat(url, model=model, weights=weights) for url in urls]


def parse_response(body: object, count: int, name: str, key: str = "") -> EmbeddingResponse:
    """The response's vectors in the order of their `index`. Raises `BadVectors` unless there is one per text and all have one length."""
    import numpy as np

    data = body.get("data") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        raise BadVectors(f"{name} answered without embeddings: {redact(body, key)}")
    if len(data) != count:
        raise BadVectors(f"{name} gave {len(data)} vectors for {count} texts")
    places = [item.get("index") for item in data]
    if any(place is not None for place in places):
        if sorted(map(str, places)) != sorted(map(str, range(count))):
            raise BadVectors(f"{name} gave vectors whose indexes are not 0 to {count - 1}")
        data = sorted(data, key=lambda item: int(item["index"]))
    embeddings = [item.get("embedding") for item in data]
    try:
        if all(isinstance(embedding, str) for embedding in embeddings):
            vectors = np.stack([np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4") for embedding in embeddings])
        else:
            with np.errstate(over="ignore"):
                vectors = np.array(embeddings, dtype=np.float64).astype(np.float32)
    except (TypeError, ValueError, OverflowError, binascii.Error) as error:
        raise BadVectors(f"{name} gave vectors of several lengths or of something else than numbers") from error
    if vectors.ndim != 2 or vectors.shape[1] == 0:
        raise BadVectors(f"{name} gave no vectors but values of shape {vectors.shape}")
    usage = body.get("usage")
    tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    model = body.get("model")
    return EmbeddingResponse(vectors, model if isinstance(model, str) else "", tokens if isinstance(tokens, int) and tokens > 0 else None)
