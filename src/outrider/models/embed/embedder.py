"""One interface to every embedding model, for writing and for reading."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pydantic import SecretStr, ValidationError

from outrider.models import loading, weights
from outrider.models.embed import local
from outrider.models.embed.bert import BertEncoder, read_encoder
from outrider.models.embed.presets import find_preset, list_auto_models
from outrider.settings.load import format_errors
from outrider.settings.model import EmbeddingSettings
from outrider.state.embedding import EmbeddedText, EmbeddingSpace, TextRole
from outrider.state.errors import BadRequest, BadVectors, MissingExtra, ModelUnavailable, SearchError
from outrider.state.ports import OnCount
from outrider.text.sanitize import OFFLINE, is_loopback, split_addresses, without_password

if TYPE_CHECKING:
    import numpy as np

    from outrider.models.servers.health import ServerReport

RETRY_AFTER_S = 30.0
"""A failed load may have waited for the network or read gigabytes; the next searches must not pay for it again."""
ENCODER_WORK = 1.5e11
"""Multiplications that the NumPy encoder does for documents before the model is loaded for them: 14,000 tokens of MiniLM, about four
seconds, which is somewhat less than importing torch and loading the model. So no number of documents takes twice as long as it must.
"""
NOT_OF_THE_MODEL = "reindex"
"""The setting of the section that decides what happens to the library, not how a text is embedded."""
SWITCHED_OFF = "embedding is switched off (embedding.model_name is none)"
EMPTY = "the text is empty"
NOT_NUMBERS = "the model's vector holds values that are not numbers"
NO_LENGTH = "the model's vector is all zeros"


class Backend(Protocol):
    """A loaded or connected model."""

    @property
    def name(self) -> str:
        """Name for messages."""
        ...

    @property
    def space(self) -> EmbeddingSpace: ...

    def embed_each(self, texts: Sequence[str], role: TextRole, progress: OnCount | None = None) -> list[EmbeddedText]: ...

    def token_vectors(self, texts: Sequence[str], role: TextRole) -> list[np.ndarray]: ...

    def span_vectors(self, text: str, spans: Sequence[tuple[int, int]]) -> np.ndarray: ...


class Embedder:
    """Texts to vectors of one space, with the model's own prompts; a document is one vector, read to the model's limit.

    The model is loaded once, at first use, in the calling thread. For the model of a library's vectors that is a plain BERT, a small
    encoder embeds queries and few documents instead, with the same vectors (`outrider.models.embed.bert`). Safe to share between threads.

    >>> Embedder(model_name="BAAI/bge-small-en-v1.5").embed("a text").shape  # doctest: +SKIP
    (1, 384)
    """

    def __init__(  # noqa: PLR0913 - one argument for each setting
        self,
        model_name: str = "auto",
        *,
        base_url: str = "",
        api_key: SecretStr | str = "",
        concurrency: int = 4,
        device: str = "auto",
        context_length: int = 0,
        batch_size: int = 64,
        batch_tokens: int = 16_384,
        normalize_embeddings: bool = True,
        timeout_s: float = 60.0,
        space: EmbeddingSpace | None = None,
        offline: bool = False,
    ) -> None:
        """The arguments are those of the settings section `embedding`; `BadRequest` if one is out of bounds.

        `space` is the space of the library's vectors: `auto` then uses that model and no other. `offline` fetches no weights and
        contacts a server only at a loopback address.
        """
        values = {
            "model_name": model_name,
            "base_url": base_url,
            "api_key": api_key,
            "concurrency": concurrency,
            "device": device,
            "context_length": context_length,
            "batch_size": batch_size,
            "batch_tokens": batch_tokens,
            "normalize_embeddings": normalize_embeddings,
            "timeout_s": timeout_s,
        }
        try:
            self._settings = EmbeddingSettings.model_validate(values)
        except ValidationError as error:
            raise BadRequest(format_errors(error, "embedding")) from None  # the cause shows inputs
        self._library_space, self._offline = space, offline
        self._lock = threading.Lock()
        self._loaded: Backend | None = None
        self._weights: weights.Weights | None = None
        self._encoder: BertEncoder | None = None
        self._looked_for_encoder = False
        self._encoder_work = 0
        self._failure: tuple[float, SearchError] | None = None

    @classmethod
    def from_settings(cls, settings: EmbeddingSettings, space: EmbeddingSpace | None = None, *, offline: bool = False) -> Embedder:
        return cls(
            **{name: getattr(settings, name) for name in EmbeddingSettings.model_fields if name != NOT_OF_THE_MODEL},
            space=space,
            offline=offline,
        )

    @property
    def space(self) -> EmbeddingSpace:
        """Loads the model, or its encoder, at first use. Raises `ModelUnavailable`, `MissingExtra`."""
        encoder = self._find_encoder()
        return encoder.space if encoder else self._backend().space

    def embed(self, text: str | Sequence[str], role: TextRole = "document") -> np.ndarray:
        """Vectors of shape (n, d), float32, of length 1 if so configured, in the order of the texts; a single text is n = 1.

        Raises `BadRequest` for a text that is empty, `BadVectors` for one without a vector.
        """
        import numpy as np

        texts = _check_texts(text)
        vectors = []
        for place, answer in enumerate(self.embed_each(texts, role), start=1):
            if answer.vector is None:
                bad = BadRequest if not texts[place - 1].strip() else BadVectors
                raise bad(f"text {place} of {len(texts)} cannot be embedded by {(self._encoder or self._backend()).name}: {answer.problem}")
            vectors.append(answer.vector)
        return np.stack(vectors) if vectors else np.zeros((0, self.space.dimension), np.float32)

    def encode(self, sentences: str | Sequence[str], role: TextRole = "document") -> np.ndarray:
        """The same as `embed`, under the name that sentence-transformers uses; a single text is n = 1 here, too."""
        return self.embed(sentences, role)

    def embed_each(self, texts: Sequence[str], role: TextRole = "document", progress: OnCount | None = None) -> list[EmbeddedText]:
        """Embed each text on its own: one that cannot be embedded gets its problem instead of a vector."""
        import numpy as np

        texts = _check_texts(texts)
        full = [at for at, text in enumerate(texts) if text.strip()]
        empty = len(texts) - len(full)
        backend = self._choose_backend(texts, role)
        embedded = backend.embed_each(
            [texts[at] for at in full], role, (lambda count, _: progress(count + empty, len(texts))) if progress else None
        )
        answers = [EmbeddedText(None, problem=EMPTY) for _ in texts]
        for at, answer in zip(full, embedded, strict=True):
            if answer.vector is None:
                answers[at] = answer
                continue
            vector = np.asarray(answer.vector, dtype=np.float32)
            length = float(np.linalg.norm(vector.astype(np.float64)))
            if not np.isfinite(length) or length == 0:
                answers[at] = EmbeddedText(None, answer.read, NO_LENGTH if length == 0 else NOT_NUMBERS)
            else:
                answers[at] = EmbeddedText((vector / length).astype(np.float32) if backend.space.normalized else vector, answer.read)
        return answers

    def token_vectors(self, texts: Sequence[str], role: TextRole = "document") -> list[np.ndarray]:
        """For each text the unit vectors of its own tokens, shape (t_i, d), float32, for late interaction; an empty text has none.

        Padding, special tokens and the prompt are left out. Raises `ModelUnavailable` for an endpoint, which gives no token vectors.
        """
        texts = _check_texts(texts)
        return self._choose_backend(texts, role).token_vectors(texts, role)

    def report_servers(self, within_s: float) -> tuple[ServerReport, ...]:
        """The state of each server of `base_url`; none for a model of this machine. Raises `ModelUnavailable` if no server answers."""
        if not self._settings.base_url:
            return ()
        from outrider.models.embed.endpoint import EndpointModel

        backend = self._backend()
        return backend.report_servers(within_s) if isinstance(backend, EndpointModel) else ()

    @property
    def without_torch(self) -> bool:
        """Whether a small encoder reads the model, without importing torch; it is loaded at first use. Raises `ModelUnavailable`."""
        return self._find_encoder() is not None

    def span_vectors(self, text: str, spans: Sequence[tuple[int, int]]) -> np.ndarray:
        """For each span of one document the sum of its tokens' vectors in the whole text, shape (n, d), float32: the mean's direction.

        A text longer than the context is read in windows; a span without a token is all zeros. Raises `ModelUnavailable` for an
        endpoint, and for a model whose tokenizer gives no offsets.
        """
        return self._backend().span_vectors(_make_encodable(text), spans)

    def _choose_backend(self, texts: Sequence[str], role: TextRole) -> Backend | BertEncoder:
        """The encoder for queries, and for documents until they have cost as much as loading the model."""
        encoder = self._find_encoder()
        if encoder is None:
            return self._backend()
        work = encoder.count_work(texts)
        if role == "query" and work <= ENCODER_WORK:
            return encoder
        with self._lock:
            self._encoder_work += work
            if self._loaded is None and self._encoder_work <= ENCODER_WORK:
                return encoder
        try:
            return self._backend()
        except MissingExtra:  # slower, but the same vectors
            return encoder

    def _find_encoder(self) -> BertEncoder | None:
        with self._lock:
            if not self._looked_for_encoder:
                self._raise_recent_failure()
                try:
                    self._weights = _find_library_model(self._settings, self._library_space, self._offline)
                except SearchError as error:
                    self._failure = (time.monotonic(), error)
                    raise
                if self._weights and self._library_space:
                    self._encoder = _read_encoder(self._weights, self._settings, self._library_space)
                self._looked_for_encoder = True
            return self._encoder

    def _backend(self) -> Backend:
        with self._lock:
            if self._loaded is None:
                self._raise_recent_failure()
                try:
                    self._loaded = _load(self._settings, self._library_space, self._offline, self._weights)
                except SearchError as error:
                    self._failure = (time.monotonic(), error)
                    raise
            return self._loaded

    def _raise_recent_failure(self) -> None:
        if self._failure and time.monotonic() - self._failure[0] < RETRY_AFTER_S:
            raise self._failure[1].with_traceback(None)


def _find_library_model(settings: EmbeddingSettings, library_space: EmbeddingSpace | None, offline: bool) -> weights.Weights | None:
    """The weights that the library's vectors were made with, if the settings mean these and leave the device open; finds no other."""
    name = settings.model_name
    is_auto = name.casefold() == "auto"
    if library_space is None or settings.base_url or name.casefold() == "none" or settings.device not in {"auto", "cpu"}:
        return None
    if is_auto and is_served_name(library_space.model_name):
        return None
    return _find_weights(name, library_space, (library_space.model_name,) if is_auto else (), fetch=not offline)


def _read_encoder(files: weights.Weights, settings: EmbeddingSettings, library_space: EmbeddingSpace) -> BertEncoder | None:
    """None if the encoder does not read these weights, or its vectors would not be comparable with the library's."""
    own = library_space if settings.model_name.casefold() == "auto" else None
    encoder = read_encoder(
        files,
        context_length=settings.context_length or (own.context_length if own else 0),
        normalize_embeddings=own.normalized if own else settings.normalize_embeddings,
    )
    return encoder if encoder and encoder.space.id == library_space.id else None


def _load(
    settings: EmbeddingSettings, library_space: EmbeddingSpace | None, offline: bool, files: weights.Weights | None = None
) -> Backend:
    is_auto = settings.model_name.casefold() == "auto"
    if settings.model_name.casefold() == "none":
        raise ModelUnavailable(SWITCHED_OFF)
    if settings.base_url:
        elsewhere = [address for address in split_addresses(settings.base_url) if not is_loopback(address)]
        if offline and elsewhere:
            raise ModelUnavailable(f"embedding.base_url is {without_password(elsewhere[0])}, {OFFLINE}")
        if is_auto:
            if library_space is None:
                raise ModelUnavailable(
                    "embedding.base_url is set and embedding.model_name is auto; set it to the name that is served there"
                )
            update = {"model_name": library_space.model_name, "normalize_embeddings": library_space.normalized}
            settings = settings.model_copy(update=update)
        from outrider.models.embed.endpoint import connect

        return connect(settings)
    device, memory = loading.choose_device(settings.device)
    own = library_space if is_auto else None
    if own and is_served_name(own.model_name):
        raise ModelUnavailable(
            f"the library's vectors are of {own.model_name}, which is no model on this machine; if a server gives it, set "
            "embedding.base_url to its address and embedding.model_name to its name"
        )
    return local.load_local_model(
        files or _find_weights(settings.model_name, library_space, list_auto_models(device, memory) if is_auto else (), fetch=not offline),
        device=device,
        context_length=settings.context_length or (own.context_length if own else 0),
        batch_size=settings.batch_size,
        batch_tokens=settings.batch_tokens,
        normalize_embeddings=own.normalized if own else settings.normalize_embeddings,
    )


def _find_weights(name: str, library_space: EmbeddingSpace | None, auto_models: Sequence[str], *, fetch: bool) -> weights.Weights:
    """The weights of `name`, or under `auto` of the library's model, else of the best of `auto_models` on this machine.

    The library's own model is found at the revision that embedded the library, even if the hub has a newer one.
    """
    if auto_models:
        if library_space:
            return weights.find_weights(library_space.model_name, fetch=False, revision=library_space.revision)
        best = next((model for model in auto_models if weights.is_cached(model)), auto_models[0])
        return weights.find_weights(best, fetch=False)
    preset = find_preset(name)
    if preset and preset.needs_own_code:
        raise ModelUnavailable(weights.explain_own_code(name))  # before it is fetched
    revision = library_space.revision if library_space and weights.is_same_model(library_space.model_name, name) else ""
    return weights.find_weights(name, fetch=fetch, revision=revision)


def is_served_name(name: str) -> bool:
    """Whether only a server can provide a model of this name: no folder, no preset, and no owner as on the hub."""
    return not Path(name).expanduser().is_dir() and "/" not in name and find_preset(name) is None


def _check_texts(text: str | Sequence[str]) -> list[str]:
    texts = [text] if isinstance(text, str) else list(text)
    for place, item in enumerate(texts, start=1):
        if not isinstance(item, str):
            raise BadRequest(f"only texts can be embedded; item {place} of {len(texts)} is of type {type(item).__name__}")
    return [_make_encodable(item) for item in texts]


def _make_encodable(text: str) -> str:
    """Replace lone surrogates, which broken files contain: they have no UTF-8 and stop a tokenizer."""
    return text.encode("utf-8", "replace").decode("utf-8")
