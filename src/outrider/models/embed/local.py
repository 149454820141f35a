"""Embedding models that sentence-transformers runs on cpu, cuda or mps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from outrider.models.embed.presets import Preset, choose_context_length, choose_prompts, find_preset
from outrider.models.embed.token_batches import NO_TOKENS, SIMILAR_LENGTH, BatchTooLarge, ModelTokenizer, TokenizedText, run_by_length
from outrider.models.loading import catch_load_errors, check_tokenizer, empty_cache, is_out_of_memory
from outrider.models.weights import FEATURE, Weights, refuse_own_code
from outrider.state.embedding import EmbeddedText, EmbeddingSpace, TextRole, TokensRead
from outrider.state.errors import MissingExtra, ModelUnavailable
from outrider.state.ports import OnCount

if TYPE_CHECKING:
    import numpy as np
    import torch

NO_MEMORY = "it does not fit into memory; a smaller embedding.context_length would let it"

MOST_OF_ONE_THREAD = 128
"""Tokens of a query that one thread embeds. With MiniLM, two threads took 298 ms of CPU on a busy machine instead of 18, and longer."""


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
        answers = [EmbeddedText(None, TokensRead(tokens=text.tokens, of=text.total), "" if text.tokens else NO_TOKENS) for text in read]

        def embed(batch: list[TokenizedText]) -> list[np.ndarray]:
            is_short = role == "query" and sum(len(text.ids) for text in batch) <= MOST_OF_ONE_THREAD
            with _one_thread() if is_short else nullcontext():
                return list(_to_numpy(self._forward(batch, prompt)["sentence_embedding"]))

        for at, vector in self._run(read, embed, progress):
            counts = answers[at].read
            answers[at] = EmbeddedText(None, counts, str(vector)) if isinstance(vector, BatchTooLarge) else EmbeddedText(vector, counts)
        return answers

    def token_vectors(self, texts: Sequence[str], role: TextRole) -> list[np.ndarray]:
        """Raises `ModelUnavailable` if a single text does not fit into memory."""
        import numpy as np
        import torch

        prompt = self._prompt(role)
        read = self.tokens.tokenize(texts, prompt)
        rows = [np.zeros((0, self.space.dimension), np.float32) for _ in read]

        def embed_tokens(batch: list[TokenizedText]) -> list[np.ndarray]:
            vectors = self._forward(batch, prompt)["token_embeddings"]
            return self._own_rows(torch.nn.functional.normalize(vectors.float(), dim=-1), batch, prompt)

        for at, vectors in self._run(read, embed_tokens, None):
            if isinstance(vectors, BatchTooLarge):
                raise ModelUnavailable(f"text {at + 1} of {len(texts)} cannot be read by {self.space.model_name}: {vectors}")
            rows[at] = vectors
        return rows

    def span_vectors(self, text: str, spans: Sequence[tuple[int, int]]) -> np.ndarray:
        """Raises `ModelUnavailable` if a window does not fit into memory or the tokenizer gives no offsets."""
        import numpy as np

        prompt = self._prompt("document")
        sums = np.zeros((len(spans), self.space.dimension), np.float64)
        starts, ends = np.array(spans, np.int64).reshape(-1, 2).T

        def embed_tokens(batch: list[TokenizedText]) -> list[np.ndarray]:
            return self._own_rows(self._forward(batch, prompt)["token_embeddings"], batch, prompt)

        for window in self.tokens.windows(text, prompt):
            try:
                vectors = _run_within_memory([window.text], embed_tokens)[0][window.overlap :]
            except BatchTooLarge as error:
                raise ModelUnavailable(f"a text cannot be read by {self.space.model_name}: {error}") from error
            at = np.searchsorted(starts, window.offsets, "right") - 1
            inside = (at >= 0) & (window.offsets < ends[np.maximum(at, 0)]) if len(spans) else np.zeros(len(at), bool)
            np.add.at(sums, at[inside], vectors[inside])
        return sums.astype(np.float32)

    def _run(
        self, read: Sequence[TokenizedText], embed: Callable[[list[TokenizedText]], list[np.ndarray]], progress: OnCount | None
    ) -> Iterator[tuple[int, np.ndarray | BatchTooLarge]]:
        """Run `embed` over batches of similar length; yields the place and result of each text that has tokens."""
        places = [at for at, text in enumerate(read) if text.tokens]
        done = len(read) - len(places)
        lengths = [len(read[at].ids) for at in places]

        def run_batch(batch: list[int]) -> list[np.ndarray]:
            return _run_within_memory([read[places[at]] for at in batch], embed)

        for batch, answer in run_by_length(lengths, self.batch_size, self.batch_tokens, run_batch, SIMILAR_LENGTH):
            for row, at in enumerate(batch):
                yield places[at], answer if isinstance(answer, BatchTooLarge) else answer[row]
            done += len(batch)
            if progress:
                progress(done, len(read))

    def _own_rows(self, vectors: torch.Tensor, batch: list[TokenizedText], prompt: str) -> list[np.ndarray]:
        """For each text of the batch the rows of its own tokens."""
        return [row[self.tokens.own_slice(text, row.shape[0], prompt)] for row, text in zip(_to_numpy(vectors), batch, strict=True)]

    def _forward(self, batch: list[TokenizedText], prompt: str) -> dict[str, Any]:
        import torch

        features: dict[str, Any] = {name: tensor.to(self.model.device) for name, tensor in self.tokens.batch(batch).items()}
        if prompt:
            features["prompt_length"] = self.tokens.prompt_length(prompt)
        with torch.inference_mode():
            output: dict[str, Any] = self.model(features)
        return output

    def _prompt(self, role: TextRole) -> str:
        return self.space.query_prompt if role == "query" else self.space.document_prompt


def _one_thread() -> AbstractContextManager[object]:
    """Torch runs in the calling thread alone: for the few tokens of a query, its threads mostly wait for each other.

    OpenMP's limit is one of the calling thread, unlike `torch.set_num_threads`, which other threads take over.
    """
    import torch

    torch.get_num_threads()  # at its first use in a thread, torch sets the limit itself
    limited: AbstractContextManager[object] = _find_openmp().limit(limits=1)
    return limited


@cache
def _find_openmp() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="openmp")


def _run_within_memory(batch: list[TokenizedText], embed: Callable[[list[TokenizedText]], list[np.ndarray]]) -> list[np.ndarray]:
    try:
        return embed(batch)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    empty_cache()  # only now, after the exception has released the failed batch's tensors
    raise BatchTooLarge(NO_MEMORY)


def _to_numpy(tensor: torch.Tensor) -> np.ndarray:
    array: np.ndarray = tensor.float().cpu().numpy()
    return array


def load_local_model(
    weights: Weights,
    *,
    device: str,
    context_length: int = 0,
    batch_size: int = 64,
    batch_tokens: int = 16_384,
    normalize_embeddings: bool = True,
) -> LocalModel:
    """Load a transformer with its tokenizer. Raises `ModelUnavailable`, `MissingExtra`."""
    preset = find_preset(weights.name)
    refuse_own_code(weights)
    model = _load_transformer(weights, device, preset)
    config = model[0].auto_model.config
    positions = getattr(config, "max_position_embeddings", 0) or 0
    if "roberta" in str(config.model_type):
        positions -= (config.pad_token_id or 0) + 1  # its positions count from after the padding token's
    limit = choose_context_length((model.max_seq_length or 0, positions), preset, context_length)
    query_prompt, document_prompt = choose_prompts(model.prompts, model.default_prompt_name or "", preset)
    tokens = ModelTokenizer(model.tokenizer, limit, preset.ends_with if preset else "")
    with catch_load_errors(weights):
        dimension = _dimension(model, tokens)
    pooling = next((mode for module in model if (mode := getattr(module, "pooling_mode", None))), "")
    space = EmbeddingSpace(
        model_name=weights.name,
        revision=weights.revision,
        dimension=dimension,
        context_length=limit,
        query_prompt=query_prompt,
        document_prompt=document_prompt,
        pooling=pooling if isinstance(pooling, str) else "+".join(pooling),
        normalized=normalize_embeddings,
    )
    return LocalModel(space, model, tokens, batch_size, batch_tokens)


def _load_transformer(weights: Weights, device: str, preset: Preset | None) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise MissingExtra(FEATURE, "models") from error
    # half precision is slow and coarse on a CPU
    precision = "float32" if device.startswith("cpu") else (preset.half_precision if preset else "") or "auto"
    with catch_load_errors(weights) as missing:
        model = SentenceTransformer(str(weights.folder), device=device, local_files_only=True, model_kwargs={"dtype": precision})
    if missing:
        raise ModelUnavailable(f"{weights.name} cannot be used: its files lack weights, {missing[0]} for one; fetch it again")
    if getattr(model[0], "tokenizer", None) is None or not hasattr(model[0], "auto_model"):
        raise ModelUnavailable(f"{weights.name} cannot be used: it is no transformer that reads text")
    check_tokenizer(model[0].tokenizer, weights)
    if preset and preset.bidirectional:
        import transformers

        # removes the causal mask of a decoder; older versions ignore the flag without an error
        if tuple(int(part) for part in transformers.__version__.split(".")[:2]) < (5, 2):
            raise ModelUnavailable(f"{weights.name} needs transformers 5.2 or newer, this is {transformers.__version__}")
        model[0].auto_model.config.is_causal = False
    model.eval()
    return model


def _dimension(model: Any, tokens: ModelTokenizer) -> int:
    import torch

    features = {name: tensor.to(model.device) for name, tensor in tokens.batch(tokens.tokenize(["a"])).items()}
    with torch.inference_mode():
        return int(model(features)["sentence_embedding"].shape[-1])
