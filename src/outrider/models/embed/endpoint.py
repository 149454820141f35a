"""Models behind an OpenAI-compatible `/v1/embeddings` (vLLM, text-embeddings-inference), through langchain-openai.

LangChain takes the vectors in the order in which they come; the `index` of each says whose it is
(https://platform.openai.com/docs/api-reference/embeddings/object), so its client is asked directly. The client retries
timeouts, 429 and 5xx twice and waits as Retry-After says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from outrider.models.embed.presets import find_preset
from outrider.models.embed.token_batches import BatchTooLarge, run_by_length
from outrider.settings.model import EmbeddingSettings
from outrider.state.embedding import EmbeddedText, EmbeddingSpace, TextRole, TokensRead
from outrider.state.errors import BadVectors, MissingExtra, ModelUnavailable
from outrider.state.ports import OnCount
from outrider.text.sanitize import is_http_url, redact, without_password

if TYPE_CHECKING:
    import numpy as np

MAX_CONTEXT = 32_768
MAX_CHARS_PER_TOKEN = 16
"""No more characters a token of the context are sent: what is beyond would not be read."""
TYPICAL_CHARS_PER_TOKEN = 4
"""Of English prose; batches are formed by this guess."""
MIN_CHARS = 16
"""A text cut to this that is still too long is not refused for its length."""
MARGIN = 0.95
REFUSES_SIZE = frozenset({400, 413, 422})
SIZE_WORDS = re.compile(r"token|length|too (?:long|large|many)|batch|maximum|exceed|context|size", re.IGNORECASE)
# "This model's maximum context length is 512 tokens. However, you requested 1451 tokens in the input" (vLLM #19798);
# "`inputs` must have less than 512 tokens. Given: 1451" (text-embeddings-inference).
TOKEN_LIMIT = re.compile(r"(?:maximum context length is|less than) (\d+)")
SENT_TOKENS = re.compile(r"(?:requested|Given:) (\d+)")


@dataclass(frozen=True, slots=True)
class EmbeddingResponse:
    """Vectors of shape (n, d), float32, in the order of what was asked, and what the server says of itself."""

    vectors: np.ndarray
    model: str
    tokens: int | None
    """Of all texts together."""


class EmbeddingClient:
    """One model at one address: requests, and foreign errors as ours. No message holds the key or a password."""

    def __init__(self, settings: EmbeddingSettings) -> None:
        self._model = settings.model_name
        self._key = settings.api_key.get_secret_value()
        self._timeout_s = settings.timeout_s
        self.name = f"{settings.model_name} at {without_password(settings.base_url)}"
        self._client = _client(settings, self.name)

    def ask(self, texts: Sequence[str]) -> EmbeddingResponse:
        """Raises `TooMuch` where the server says that texts are too long or too many, `ModelUnavailable`, `BadVectors`."""
        import openai

        # the account of another service, which the client would send to whoever is asked
        account = {"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()}
        try:
            raw = self._client.with_raw_response.create(
                input=list(texts), model=self._model, encoding_format="float", extra_headers=account
            ).http_response
        except openai.APIStatusError as error:
            if error.status_code in REFUSES_SIZE and (error.status_code == 413 or SIZE_WORDS.search(error.message)):
                raise BatchTooLarge(f"{self.name} refuses it: {redact(error, self._key)}", too_many_texts=True) from None
            raise ModelUnavailable(self._why(error)) from error
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

    def _why(self, error: Any) -> str:
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
    """A served model, whose dimension its first answer told."""

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
        most_chars = self.space.context_length * MAX_CHARS_PER_TOKEN
        sent = [prompt + text[:most_chars] for text in texts]
        lengths = [len(text) // TYPICAL_CHARS_PER_TOKEN + 1 for text in sent]
        answers = [EmbeddedText(None) for _ in texts]
        done = 0
        for batch, found in run_by_length(lengths, self.batch_size, self.batch_tokens, lambda batch: self._run([sent[at] for at in batch])):
            for row, at in enumerate(batch):
                answers[at] = EmbeddedText(None, problem=str(found)) if isinstance(found, BatchTooLarge) else found[row]
            done += len(batch)
            if progress:
                progress(done, len(texts))
        return [_told_of_cut(answer, len(text) > most_chars) for answer, text in zip(answers, texts, strict=True)]

    def token_vectors(self, texts: Sequence[str], role: TextRole) -> list[np.ndarray]:
        raise ModelUnavailable(f"{self.name} gives no vectors of tokens, as no such endpoint does; late interaction needs a local model")

    def span_vectors(self, text: str, spans: Sequence[tuple[int, int]]) -> np.ndarray:
        raise ModelUnavailable(f"{self.name} gives no vectors of tokens, as no such endpoint does; late chunking needs a local model")

    def _run(self, texts: list[str]) -> list[EmbeddedText]:
        if len(texts) == 1:
            return [self._cut_until_taken(texts[0])]
        return [EmbeddedText(vector) for vector in self._ask(texts).vectors]

    def _cut_until_taken(self, text: str) -> EmbeddedText:
        """A text that is too long is cut to what the server says that it reads, or else halved."""
        of = None
        for attempt in range(len(text).bit_length() + 1):
            try:
                answer = self._ask([text])
            except BatchTooLarge as error:
                limit, given = _numbers(str(error))
                of = of or given
                told = bool(attempt == 0 and limit and given and given > limit)
                shorter = int(len(text) * MARGIN * limit / given) if told and limit and given else len(text) // 2
                if shorter < MIN_CHARS:
                    raise
                text = text[:shorter]
            else:
                return EmbeddedText(answer.vectors[0], TokensRead(tokens=answer.tokens, of=of if attempt else answer.tokens))
        raise AssertionError("a text was halved more often than it has bits")

    def _ask(self, texts: Sequence[str]) -> EmbeddingResponse:
        answer = self.wire.ask(texts)
        dimension = answer.vectors.shape[1]
        if dimension != self.space.dimension:
            raise BadVectors(f"{self.name} gave vectors of {dimension} numbers after some of {self.space.dimension}; is it one model?")
        return answer


def connect(settings: EmbeddingSettings) -> EndpointModel:
    """Asks for one vector. Raises `ModelUnavailable`, `BadVectors`, `MissingExtra`."""
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


def parse_response(body: object, asked: int, name: str, key: str = "") -> EmbeddingResponse:
    """The answer's vectors by their `index`. Raises `BadVectors` where they are not one a text and all of one length."""
    import numpy as np

    data = body.get("data") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        raise BadVectors(f"{name} answered without embeddings: {redact(body, key)}")
    if len(data) != asked:
        raise BadVectors(f"{name} gave {len(data)} vectors for {asked} texts")
    places = [item.get("index") for item in data]
    if any(place is not None for place in places):
        if sorted(map(str, places)) != sorted(map(str, range(asked))):
            raise BadVectors(f"{name} gave vectors whose indexes are not 0 to {asked - 1}")
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


def _client(settings: EmbeddingSettings, name: str) -> Any:
    try:
        from langchain_openai import OpenAIEmbeddings
    except ImportError as error:
        raise MissingExtra("an embeddings endpoint", "openai") from error
    if not is_http_url(settings.base_url):
        raise ModelUnavailable(f"{name}: embedding.base_url must be an address such as http://localhost:8080/v1")
    return OpenAIEmbeddings(
        model=settings.model_name,
        base_url=settings.base_url,
        # never none: OPENAI_API_KEY would be sent to whoever is asked
        api_key=settings.api_key if settings.api_key.get_secret_value() else "none",
        check_embedding_ctx_length=False,
        timeout=settings.timeout_s,
        max_retries=2,
    ).client


def _numbers(said: str) -> tuple[int | None, int | None]:
    """Tokens that the server reads, and tokens that it was given, where its refusal says so."""
    limit, given = TOKEN_LIMIT.search(said), SENT_TOKENS.search(said)
    return int(limit[1]) if limit else None, int(given[1]) if given else None


def _told_of_cut(answer: EmbeddedText, cut: bool) -> EmbeddedText:
    """Of a text that was sent in part the server cannot know how long it is."""
    return EmbeddedText(answer.vector, TokensRead(tokens=answer.read.tokens), answer.problem) if cut else answer
