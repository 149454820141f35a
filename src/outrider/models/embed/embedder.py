"""One interface to every embedding model, for writing and for reading."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pydantic import SecretStr, ValidationError

from outrider.models import loading, weights
from outrider.models.embed import endpoint, local
from outrider.models.embed.presets import find_preset, list_auto_models
from outrider.settings.load import format_errors
from outrider.settings.model import EmbeddingSettings
from outrider.state.embedding import EmbeddedText, EmbeddingSpace, TextRole
from outrider.state.errors import BadRequest, BadVectors, ModelUnavailable, SearchError
from outrider.state.ports import OnCount

if TYPE_CHECKING:
    import numpy as np

RETRY_AFTER_S = 30.0
"""A failed load may have waited for a network or read gigabytes: the searches that follow at once are not to pay for it again."""
SWITCHED_OFF = "embedding is switched off (embedding.model_name is none)"
EMPTY = "the text is empty"
NOT_NUMBERS = "the model's vector holds values that are not numbers"
NO_LENGTH = "the model's vector is all zeros"


class Backend(Protocol):
    """A model at hand."""

    @property
    def name(self) -> str:
        """For messages."""
        ...

    @property
    def space(self) -> EmbeddingSpace: ...

    def embed_each(self, texts: Sequence[str], role: TextRole, progress: OnCount | None = None) -> list[EmbeddedText]: ...

    def token_vectors(self, texts: Sequence[str], role: TextRole) -> list[np.ndarray]: ...

    def span_vectors(self, text: str, spans: Sequence[tuple[int, int]]) -> np.ndarray: ...


class Embedder:
    """Texts to vectors of one space, with the model's own prompts; a document is one vector, read to the model's limit.

    The model is loaded at first use, once, in the thread that asks. Safe to share between threads.

    >>> Embedder(model_name="BAAI/bge-small-en-v1.5").embed("a text").shape  # doctest: +SKIP
    (1, 384)
    """

    def __init__(  # noqa: PLR0913 - one argument for each setting
        self,
        model_name: str = "auto",
        *,
        base_url: str = "",
        api_key: SecretStr | str = "",
        device: str = "auto",
        context_length: int = 0,
        batch_size: int = 64,
        batch_tokens: int = 16_384,
        normalize_embeddings: bool = True,
        timeout_s: float = 60.0,
        space: EmbeddingSpace | None = None,
    ) -> None:
        """The arguments are those of the settings section `embedding`; `BadRequest` where one is out of bounds.

        `space` is what the library holds: `auto` takes that model and no other.
        """
        given = {
            "model_name": model_name,
            "base_url": base_url,
            "api_key": api_key,
            "device": device,
            "context_length": context_length,
            "batch_size": batch_size,
            "batch_tokens": batch_tokens,
            "normalize_embeddings": normalize_embeddings,
            "timeout_s": timeout_s,
        }
        try:
            self._settings = EmbeddingSettings.model_validate(given)
        except ValidationError as error:
            raise BadRequest(format_errors(error, "embedding")) from None  # the cause shows inputs
        self._held = space
        self._lock = threading.Lock()
        self._loaded: Backend | None = None
        self._failure: tuple[float, SearchError] | None = None

    @classmethod
    def from_settings(cls, settings: EmbeddingSettings, space: EmbeddingSpace | None = None) -> Embedder:
        return cls(**{name: getattr(settings, name) for name in EmbeddingSettings.model_fields}, space=space)

    @property
    def space(self) -> EmbeddingSpace:
        """Loads the model at first use. Raises `ModelUnavailable`, `MissingExtra`."""
        return self._backend().space

    def embed(self, text: str | Sequence[str], role: TextRole = "document") -> np.ndarray:
        """Vectors of shape (n, d), float32, of length 1 where so configured, in the order of the texts; a single text is n = 1.

        Raises `BadRequest` for a text that is empty, `BadVectors` for one that the model gives no vector for.
        """
        import numpy as np

        texts = _checked(text)
        vectors = []
        for place, answer in enumerate(self.embed_each(texts, role), start=1):
            if answer.vector is None:
                bad = BadRequest if not texts[place - 1].strip() else BadVectors
                raise bad(f"text {place} of {len(texts)} cannot be embedded by {self._backend().name}: {answer.problem}")
            vectors.append(answer.vector)
        return np.stack(vectors) if vectors else np.zeros((0, self.space.dimension), np.float32)

    def embed_each(self, texts: Sequence[str], role: TextRole = "document", progress: OnCount | None = None) -> list[EmbeddedText]:
        """The same, one by one: a text that cannot be embedded is told with its problem, the others are embedded."""
        texts = _checked(texts)
        full = [at for at, text in enumerate(texts) if text.strip()]
        empty = len(texts) - len(full)
        backend = self._backend()
        found = backend.embed_each(
            [texts[at] for at in full], role, (lambda done, _: progress(done + empty, len(texts))) if progress else None
        )
        answers = [EmbeddedText(None, problem=EMPTY) for _ in texts]
        for at, answer in zip(full, found, strict=True):
            answers[at] = _usable(answer, normalize=backend.space.normalized)
        return answers

    def token_vectors(self, texts: Sequence[str], role: TextRole = "document") -> list[np.ndarray]:
        """For each text the unit vectors of its own tokens, shape (t_i, d), float32, for late interaction; an empty text has none.

        Neither padding nor special tokens nor the prompt's. Raises `ModelUnavailable` of an endpoint, which does not give them.
        """
        return self._backend().token_vectors(_checked(texts), role)

    def span_vectors(self, text: str, spans: Sequence[tuple[int, int]]) -> np.ndarray:
        """For each span of one document the sum of its tokens' vectors in the whole text, shape (n, d), float32; it points as their mean.

        A longer text than the model reads is read in windows; a span without a token is all zeros. Raises `ModelUnavailable` of an
        endpoint, and of a model whose tokenizer does not say where its tokens stand.
        """
        return self._backend().span_vectors(_encodable(text), spans)

    def _backend(self) -> Backend:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load_unless_just_failed()
            return self._loaded

    def _load_unless_just_failed(self) -> Backend:
        if self._failure and time.monotonic() - self._failure[0] < RETRY_AFTER_S:
            raise self._failure[1].with_traceback(None)
        try:
            return _load(self._settings, self._held)
        except SearchError as error:
            self._failure = (time.monotonic(), error)
            raise


def _load(settings: EmbeddingSettings, held: EmbeddingSpace | None) -> Backend:
    wanted = settings.model_name.casefold()
    if wanted == "none":
        raise ModelUnavailable(SWITCHED_OFF)
    if settings.base_url:
        return endpoint.connect(_named(settings, held) if wanted == "auto" else settings)
    device, memory = loading.choose_device(settings.device)
    own = held if wanted == "auto" else None
    if own and is_served_name(own.model_name):
        raise ModelUnavailable(
            f"the library's vectors are of {own.model_name}, which is no model on this machine; if a server gives it, set "
            "embedding.base_url to its address and embedding.model_name to its name"
        )
    if own:
        found = weights.find_weights(own.model_name, fetch=False, revision=own.revision)
    elif wanted == "auto":
        found = _best_here(list_auto_models(device, memory))
    else:
        found = _named_weights(settings.model_name, held)
    return local.load_local_model(
        found,
        device=device,
        context_length=settings.context_length or (own.context_length if own else 0),
        batch_size=settings.batch_size,
        batch_tokens=settings.batch_tokens,
        normalize_embeddings=own.normalized if own else settings.normalize_embeddings,
    )


def _named(settings: EmbeddingSettings, held: EmbeddingSpace | None) -> EmbeddingSettings:
    if held is None:
        raise ModelUnavailable("embedding.base_url is set and embedding.model_name is auto; set it to the name that is served there")
    return settings.model_copy(update={"model_name": held.model_name, "normalize_embeddings": held.normalized})


def is_served_name(name: str) -> bool:
    """Whether a name can only be one that a server gives: no folder, no preset, and without an owner as on the hub."""
    return not Path(name).expanduser().is_dir() and "/" not in name and find_preset(name) is None


def _best_here(names: Sequence[str]) -> weights.Weights:
    here = next((name for name in names if weights.is_cached(name)), names[0])
    return weights.find_weights(here, fetch=False)


def _named_weights(name: str, held: EmbeddingSpace | None) -> weights.Weights:
    """Of the library's own model the version that it was embedded with, though the hub may have gone on."""
    preset = find_preset(name)
    if preset and preset.needs_own_code:
        raise ModelUnavailable(weights.explain_own_code(name))  # before it is fetched
    return weights.find_weights(name, fetch=True, revision=held.revision if held and weights.is_same_model(held.model_name, name) else "")


def _checked(text: str | Sequence[str]) -> list[str]:
    texts = [text] if isinstance(text, str) else list(text)
    for place, one in enumerate(texts, start=1):
        if not isinstance(one, str):
            raise BadRequest(f"only texts can be embedded; item {place} of {len(texts)} is of type {type(one).__name__}")
    return [_encodable(one) for one in texts]


def _encodable(text: str) -> str:
    """Half a surrogate pair, which broken files hold, has no UTF-8 and stops a tokenizer."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _usable(answer: EmbeddedText, *, normalize: bool) -> EmbeddedText:
    """Checked, and scaled to length 1 where asked."""
    import numpy as np

    if answer.vector is None:
        return answer
    vector = np.asarray(answer.vector, dtype=np.float32)
    length = float(np.linalg.norm(vector.astype(np.float64)))
    if not np.isfinite(length):
        return EmbeddedText(None, answer.read, NOT_NUMBERS)
    if length == 0:
        return EmbeddedText(None, answer.read, NO_LENGTH)
    return EmbeddedText((vector / length).astype(np.float32) if normalize else vector, answer.read)
