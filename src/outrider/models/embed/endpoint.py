"""Embedding models behind an OpenAI-compatible `/v1/embeddings` (vLLM and others).

LangChain assigns vectors by order; their `index` decides (https://platform.openai.com/docs/api-reference/embeddings/object), so its
OpenAI client is called directly. That client retries timeouts, 429 and 5xx twice and honours Retry-After.
"""

from __future__ import annotations

import atexit
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from outrider.models.embed.presets import find_preset
from outrider.models.embed.token_batches import BatchTooLarge, run_by_length
from outrider.settings.model import EmbeddingSettings
from outrider.state.embedding import EmbeddedText, EmbeddingSpace, TextRole, TokensRead
from outrider.state.errors import BadVectors, MissingExtra, ModelUnavailable
from outrider.state.ports import OnCount
from outrider.text.sanitize import find_proxy_fault, is_http_url, is_loopback, redact, without_password

if TYPE_CHECKING:
    import numpy as np

MAX_CONTEXT = 32_768
MAX_CHARS_PER_TOKEN = 16
"""Characters sent per token of the context at most: the server would not read more."""
TYPICAL_CHARS_PER_TOKEN = 4
"""Estimate for English prose, used to form batches."""
MIN_CHARS = 16
"""A refusal of a text this short has another cause than its length."""
MARGIN = 0.95
REFUSES_SIZE = frozenset({400, 413, 422})
SIZE_WORDS = re.compile(r"token|length|too (?:long|large|many)|batch|maximum|exceed|context|size", re.IGNORECASE)
# "This model's maximum context length is 512 tokens. However, you requested 1451 tokens in the input" (vLLM #19798);
# "`inputs` must have less than 512 tokens. Given: 1451" (text-embeddings-inference).
TOKEN_LIMIT = re.compile(r"(?:maximum context length is|less than) (\d+)")
SENT_TOKENS = re.compile(r"(?:requested|Given:) (\d+)")


@dataclass(frozen=True, slots=True)
class EmbeddingResponse:
    """Vectors of shape (n, d), float32, in the order of the texts, and the server's model name and token count."""

    vectors: np.ndarray
    model: str
    tokens: int | None
    """Total of all texts."""


@cache
def _get_direct_clients() -> dict[str, Any]:
    """For this machine: a proxy of the environment would send the request elsewhere. The asynchronous one is never used."""
    import httpx2

    verify = httpx2.create_ssl_context()  # reads SSL_CERT_FILE, also without `trust_env`
    client = httpx2.Client(verify=verify, trust_env=False)
    atexit.register(client.close)
    return {"http_client": client, "http_async_client": httpx2.AsyncClient(verify=verify, trust_env=False)}


class EmbeddingClient:
    """Client of one model at one address. Its errors are ours, and no message contains the key or a password."""

    def __init__(self, settings: EmbeddingSettings) -> None:
        self._model = settings.model_name
        self._key = settings.api_key.get_secret_value()
        self._timeout_s = settings.timeout_s
        self.name = f"{settings.model_name} at {without_password(settings.base_url)}"
        try:
            from langchain_openai import OpenAIEmbeddings
        except ImportError as error:
            raise MissingExtra("an embeddings endpoint", "openai") from error
        if not is_http_url(settings.base_url):
            raise ModelUnavailable(f"{self.name}: embedding.base_url must be an address such as http://localhost:8080/v1")
        if fault := find_proxy_fault(settings.base_url):
            raise ModelUnavailable(f"{self.name} cannot be reached: {fault}")
        self._client: Any = OpenAIEmbeddings(
            model=settings.model_name,
            base_url=settings.base_url,
            # never empty: the client would send OPENAI_API_KEY to any server
            api_key=settings.api_key if settings.api_key.get_secret_value() else "none",
            check_embedding_ctx_length=False,
            timeout=settings.timeout_s,
            max_retries=2,
            **(_get_direct_clients() if is_loopback(settings.base_url) else {}),
        ).client

    def ask(self, texts: Sequence[str]) -> EmbeddingResponse:
        """Raises `BatchTooLarge` if the server refuses texts as too long or too many, `ModelUnavailable`, `BadVectors`."""
        import openai

        # else the client sends the user's OpenAI account to any server
        account = {"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()}
        try:
            raw = self._client.with_raw_response.create(
                input=list(texts), model=self._model, encoding_format="float", extra_headers=account
            ).http_response
        except openai.APIStatusError as error:
            if error.status_code in REFUSES_SIZE and (error.status_code == 413 or SIZE_WORDS.search(error.message)):
                raise BatchTooLarge(f"{self.name} refuses it: {redact(error, self._key)}", too_many_texts=True) from None
            raise ModelUnavailable(self._explain_status(error)) from error
        except openai.APITimeoutError as error:
            raise ModelUnavailable(
                f"{self.name} did not answer within {self._timeout_s:g} s; look at the server or raise embedding.timeout_s"
            ) from error
        except openai.OpenAIError as error:
            raise ModelUnavailable(f"{self.name} cannot be reached: {redact(error.__cause__ or error, self._key)}") from error
        try:
            body = raw.json()
        except ValueError as error:
            kind = raw.headers.get("content-type", "something else")
            raise ModelUnavailable(
                f"{self.name} answers with {kind}, not JSON; is embedding.base_url its OpenAI address (.../v1)?"
            ) from error
        return parse_response(body, len(texts), self.name, self._key)

    def _explain_status(self, error: Any) -> str:
        status = error.status_code
        if status in {401, 403}:
            return f"{self.name} refuses the key ({status}); set embedding.api_key"
        if status == 404:
            return (
                f"{self.name} is not found (404): the model is not served there, or embedding.base_url is not its OpenAI address (.../v1)"
            )
        if status == 429:
            return f"{self.name} takes no more requests now (429), also after waiting; try later or lower embedding.batch_tokens"
        return f"{self.name} answers {status}: {redact(error, self._key)}"


@dataclass(frozen=True, slots=True)
class EndpointModel:
    """A served model; its dimension comes from its first response."""

    space: EmbeddingSpace
    wire: EmbeddingClient
    batch_size: int
    batch_tokens: int

    @property
    def name(self) -> str:
        return self.wire.name

    def embed_each(self, texts: Sequence[str], role: TextRole, progress: OnCount | None = None) -> list[EmbeddedText]:
        """Vectors as the server gives them, not yet normalised."""
        prompt = self.space.query_prompt if role == "query" else self.space.document_prompt
        max_chars = self.space.context_length * MAX_CHARS_PER_TOKEN
        inputs = [prompt + text[:max_chars] for text in texts]
        lengths = [len(text) // TYPICAL_CHARS_PER_TOKEN + 1 for text in inputs]
        answers = [EmbeddedText(None) for _ in texts]
        done = 0

        def run(batch: list[int]) -> list[EmbeddedText]:
            if len(batch) == 1:
                return [self._embed_shortened(inputs[batch[0]])]
            return [EmbeddedText(vector) for vector in self._ask([inputs[at] for at in batch]).vectors]

        for batch, result in run_by_length(lengths, self.batch_size, self.batch_tokens, run):
            for row, at in enumerate(batch):
                answer = EmbeddedText(None, problem=str(result)) if isinstance(result, BatchTooLarge) else result[row]
                if len(texts[at]) > max_chars:  # only a part was sent, so that the server cannot know the full length
                    answer = EmbeddedText(answer.vector, TokensRead(tokens=answer.read.tokens), answer.problem)
                answers[at] = answer
            done += len(batch)
            if progress:
                progress(done, len(texts))
        return answers

    def token_vectors(self, texts: Sequence[str], role: TextRole) -> list[np.ndarray]:
        raise ModelUnavailable(f"{self.name} gives no vectors of tokens, as no such endpoint does; late interaction needs a local model")

    def span_vectors(self, text: str, spans: Sequence[tuple[int, int]]) -> np.ndarray:
        raise ModelUnavailable(f"{self.name} gives no vectors of tokens, as no such endpoint does; late chunking needs a local model")

    def _embed_shortened(self, text: str) -> EmbeddedText:
        """Embed one text; while it is too long, cut it to the limit that the server names, else halve it."""
        total = None
        for attempt in range(len(text).bit_length() + 1):
            try:
                response = self._ask([text])
            except BatchTooLarge as error:
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

    def _ask(self, texts: Sequence[str]) -> EmbeddingResponse:
        answer = self.wire.ask(texts)
        dimension = answer.vectors.shape[1]
        if dimension != self.space.dimension:
            raise BadVectors(f"{self.name} gave vectors of {dimension} numbers after some of {self.space.dimension}; is it one model?")
        return answer


def connect(settings: EmbeddingSettings) -> EndpointModel:
    """Connect by requesting one vector. Raises `ModelUnavailable`, `BadVectors`, `MissingExtra`."""
    wire = EmbeddingClient(settings)
    try:
        first = wire.ask(["a"])
    except BatchTooLarge as error:
        raise ModelUnavailable(str(error)) from error
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
    return EndpointModel(space, wire, settings.batch_size, settings.batch_tokens)


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
    try:
        with np.errstate(over="ignore"):
            vectors = np.array([item.get("embedding") for item in data], dtype=np.float64).astype(np.float32)
    except (TypeError, ValueError) as error:
        raise BadVectors(f"{name} gave vectors of several lengths or of something else than numbers") from error
    if vectors.ndim != 2 or vectors.shape[1] == 0:
        raise BadVectors(f"{name} gave no vectors but values of shape {vectors.shape}")
    usage = body.get("usage")
    tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    model = body.get("model")
    return EmbeddingResponse(vectors, model if isinstance(model, str) else "", tokens if isinstance(tokens, int) and tokens > 0 else None)
