"""Models that sentence-transformers loads, on cpu, cuda or mps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from outrider.models.embed.presets import Preset, find_preset
from outrider.models.embed.token_batches import SIMILAR_LENGTH, BatchTooLarge, ModelTokenizer, TokenizedText, run_by_length
from outrider.models.loading import catch_load_errors, empty_cache, is_out_of_memory
from outrider.models.weights import FEATURE, Weights, refuse_own_code
from outrider.state.embedding import EmbeddedText, EmbeddingSpace, TextRole, TokensRead
from outrider.state.errors import MissingExtra, ModelUnavailable
from outrider.state.ports import OnCount

if TYPE_CHECKING:
    import numpy as np
    import torch

MAX_CONTEXT = 32_768
"""Tokens of a text that are read at most, whatever a model says of itself."""
NOT_A_TEXT = "it holds nothing that the model reads"
NO_MEMORY = "it does not fit into memory; a smaller embedding.context_length would let it"


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A loaded model. Its methods may be called from several threads."""

    space: EmbeddingSpace
    model: Any
    tokens: ModelTokenizer
    batch_size: int
    batch_tokens: int

    @property
    def name(self) -> str:
        return self.space.model_name

    def embed_each(self, texts: Sequence[str], role: TextRole, progress: OnCount | None = None) -> list[EmbeddedText]:
        """Vectors as the model gives them, not yet checked or normalised."""
        prompt = self._prompt(role)
        read = self.tokens.tokenize(texts, prompt)
        answers = [EmbeddedText(None, TokensRead(tokens=one.tokens, of=one.total), "" if one.tokens else NOT_A_TEXT) for one in read]
        for at, vector in self._each(read, lambda batch: self._vectors(batch, prompt), progress):
            known = answers[at].read
            answers[at] = EmbeddedText(None, known, str(vector)) if isinstance(vector, BatchTooLarge) else EmbeddedText(vector, known)
        return answers

    def token_vectors(self, texts: Sequence[str], role: TextRole) -> list[np.ndarray]:
        """Raises `ModelUnavailable` where memory does not hold one text."""
        import numpy as np

        prompt = self._prompt(role)
        read = self.tokens.tokenize(texts, prompt)
        rows = [np.zeros((0, self.space.dimension), np.float32) for _ in read]
        for at, vectors in self._each(read, lambda batch: self._token_vectors(batch, prompt), None):
            if isinstance(vectors, BatchTooLarge):
                raise ModelUnavailable(f"text {at + 1} of {len(texts)} cannot be read by {self.space.model_name}: {vectors}")
            rows[at] = vectors
        return rows

    def span_vectors(self, text: str, spans: Sequence[tuple[int, int]]) -> np.ndarray:
        """Raises `ModelUnavailable` where memory does not hold a window or the tokenizer does not say where its tokens stand."""
        import numpy as np

        prompt = self._prompt("document")
        found = np.zeros((len(spans), self.space.dimension), np.float64)
        starts, ends = np.array(spans, np.int64).reshape(-1, 2).T
        for window in self.tokens.windows(text, prompt):
            try:
                vectors = self._within_memory([window.text], lambda batch: self._raw_token_vectors(batch, prompt))[0][window.overlap :]
            except BatchTooLarge as error:
                raise ModelUnavailable(f"a text cannot be read by {self.space.model_name}: {error}") from error
            at = np.searchsorted(starts, window.offsets, "right") - 1
            inside = (at >= 0) & (window.offsets < ends[np.maximum(at, 0)]) if len(spans) else np.zeros(len(at), bool)
            np.add.at(found, at[inside], vectors[inside])
        return found.astype(np.float32)

    def _each(
        self, read: Sequence[TokenizedText], run: Callable[[list[TokenizedText]], list[np.ndarray]], progress: OnCount | None
    ) -> Iterator[tuple[int, np.ndarray | BatchTooLarge]]:
        legible = [at for at, one in enumerate(read) if one.tokens]
        done = len(read) - len(legible)
        lengths = [len(read[at].ids) for at in legible]
        for batch, answer in run_by_length(
            lengths,
            self.batch_size,
            self.batch_tokens,
            lambda batch: self._within_memory([read[legible[at]] for at in batch], run),
            SIMILAR_LENGTH,
        ):
            for row, at in enumerate(batch):
                yield legible[at], answer if isinstance(answer, BatchTooLarge) else answer[row]
            done += len(batch)
            if progress:
                progress(done, len(read))

    def _within_memory(self, batch: list[TokenizedText], run: Callable[[list[TokenizedText]], list[np.ndarray]]) -> list[np.ndarray]:
        try:
            return run(batch)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        empty_cache()  # only now, when the failed batch's tensors are no longer held by the exception
        raise BatchTooLarge(NO_MEMORY)

    def _vectors(self, batch: list[TokenizedText], prompt: str) -> list[np.ndarray]:
        return list(_array(self._forward(batch, prompt)["sentence_embedding"]))

    def _token_vectors(self, batch: list[TokenizedText], prompt: str) -> list[np.ndarray]:
        import torch

        found = self._forward(batch, prompt)["token_embeddings"]
        unit = _array(torch.nn.functional.normalize(found.float(), dim=-1))
        return [row[self.tokens.own_slice(read, row.shape[0], prompt)] for row, read in zip(unit, batch, strict=True)]

    def _raw_token_vectors(self, batch: list[TokenizedText], prompt: str) -> list[np.ndarray]:
        found = _array(self._forward(batch, prompt)["token_embeddings"])
        return [row[self.tokens.own_slice(read, row.shape[0], prompt)] for row, read in zip(found, batch, strict=True)]

    def _forward(self, batch: list[TokenizedText], prompt: str) -> dict[str, Any]:
        import torch

        features: dict[str, Any] = {name: tensor.to(self.model.device) for name, tensor in self.tokens.batch(batch).items()}
        if prompt:
            features["prompt_length"] = self.tokens.prompt_length(prompt)
        with torch.inference_mode():
            found: dict[str, Any] = self.model(features)
        return found

    def _prompt(self, role: TextRole) -> str:
        return self.space.query_prompt if role == "query" else self.space.document_prompt


def load_local_model(
    weights: Weights,
    *,
    device: str,
    context_length: int = 0,
    batch_size: int = 64,
    batch_tokens: int = 16_384,
    normalize_embeddings: bool = True,
) -> LocalModel:
    """Loads a transformer with a tokenizer. Raises `ModelUnavailable`, `MissingExtra`."""
    preset = find_preset(weights.name)
    refuse_own_code(weights)
    model = _loaded(weights, device, preset)
    limit = min(n for n in (_limit(model), preset.context_length if preset else 0, context_length, MAX_CONTEXT) if n > 0)
    prompts = _prompts(model, preset)
    tokens = ModelTokenizer(model.tokenizer, limit, preset.ends_with if preset else "")
    with catch_load_errors(weights):
        dimension = _dimension(model, tokens)
    space = EmbeddingSpace(
        model_name=weights.name,
        revision=weights.revision,
        dimension=dimension,
        context_length=limit,
        query_prompt=prompts[0],
        document_prompt=prompts[1],
        pooling=_pooling(model),
        normalized=normalize_embeddings,
    )
    return LocalModel(space, model, tokens, batch_size, batch_tokens)


def _loaded(weights: Weights, device: str, preset: Preset | None) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise MissingExtra(FEATURE, "models") from error
    with catch_load_errors(weights) as missing:
        model = SentenceTransformer(str(weights.folder), device=device, local_files_only=True, model_kwargs=_precision(device, preset))
    if missing:
        raise ModelUnavailable(f"{weights.name} cannot be used: its files lack weights, {missing[0]} for one; fetch it again")
    if getattr(model[0], "tokenizer", None) is None or not hasattr(model[0], "auto_model"):
        raise ModelUnavailable(f"{weights.name} cannot be used: it is no transformer that reads text")
    if preset and preset.bidirectional:
        # Takes the causal mask off a decoder; transformers heeds the flag from 5.2 on and before that ignores it in silence
        name = weights.name
        import transformers

        if tuple(int(part) for part in transformers.__version__.split(".")[:2]) < (5, 2):
            raise ModelUnavailable(f"{name} needs transformers 5.2 or newer, this is {transformers.__version__}")
        model[0].auto_model.config.is_causal = False
    model.eval()
    return model


def _precision(device: str, preset: Preset | None) -> dict[str, Any]:
    """Half precision is slow and coarse on a CPU."""
    if device.startswith("cpu"):
        return {"dtype": "float32"}
    return {"dtype": preset.half_precision if preset and preset.half_precision else "auto"}


def _limit(model: Any) -> int:
    """Tokens that the model reads, 0 where it does not say; some tokenizers say 10^30 for that."""
    config = model[0].auto_model.config
    positions = getattr(config, "max_position_embeddings", 0) or 0
    if "roberta" in str(config.model_type):
        positions -= (config.pad_token_id or 0) + 1  # its positions are counted from behind the padding token's
    known = [int(n) for n in (model.max_seq_length or 0, positions) if 0 < n < 10**7]
    return min(known, default=0)


def _prompts(model: Any, preset: Preset | None) -> tuple[str, str]:
    """The model's own where it has any, else the preset's."""
    own = {name: text for name, text in model.prompts.items() if text}
    default = own.get(model.default_prompt_name or "", "")
    query = own.get("query", default)
    document = next((own[name] for name in ("document", "passage", "corpus") if name in own), default)
    if (query or document) or preset is None:
        return query, document
    return preset.query_prompt, preset.document_prompt


def _pooling(model: Any) -> str:
    modes = [getattr(module, "pooling_mode", None) for module in model]
    said = next((mode for mode in modes if mode), "")
    return said if isinstance(said, str) else "+".join(said)


def _dimension(model: Any, tokens: ModelTokenizer) -> int:
    import torch

    features = {name: tensor.to(model.device) for name, tensor in tokens.batch(tokens.tokenize(["a"])).items()}
    with torch.inference_mode():
        return int(model(features)["sentence_embedding"].shape[-1])


def _array(tensor: torch.Tensor) -> np.ndarray:
    found: np.ndarray = tensor.float().cpu().numpy()
    return found
