"""Trainable cross-encoder: a checkpoint with one output score, and scores for many pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from outrider.models.loading import catch_load_errors, choose_device, collect_missing_weights, empty_cache, is_out_of_memory
from outrider.models.weights import SettingNames, find_weights, refuse_own_code
from outrider.state.errors import MissingExtra, ModelUnavailable

if TYPE_CHECKING:
    from pathlib import Path

    import torch
    from sentence_transformers import CrossEncoder

PAIRS_AT_ONCE = 64
BASE_SETTINGS = SettingNames("--base", "reranker.device", "reranker.base_url")
ADVICE = "give --base a folder or hub name of a small encoder such as MiniLM"


@dataclass(slots=True)
class TrainableCrossEncoder:
    """A cross-encoder. `at_once` is halved, permanently, when a batch does not fit into memory."""

    encoder: CrossEncoder
    max_length: int
    at_once: int = PAIRS_AT_ONCE

    def logits(self, pairs: Sequence[tuple[str, str]]) -> torch.Tensor:
        """Logits, shape (n,), float32; computed in bfloat16 on a GPU."""
        import torch

        device = self.encoder.device
        read = self.encoder.tokenizer(
            [query for query, _ in pairs],
            [text for _, text in pairs],
            padding=True,
            truncation=True,
            max_length=self.max_length,
            return_tensors="pt",
        ).to(device)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
            return self.encoder.model(**read).logits.float().reshape(-1)

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """One score per pair, in their order; batches are formed by length."""
        import torch

        self.encoder.eval()
        order = sorted(range(len(pairs)), key=lambda at: (-len(pairs[at][0]) - len(pairs[at][1]), at))
        scores: dict[int, float] = {}
        start = 0
        with torch.inference_mode():
            while start < len(order):
                places = order[start : start + self.at_once]
                try:
                    values: list[float] | None = self.logits([pairs[at] for at in places]).tolist()
                except (RuntimeError, MemoryError) as error:
                    self.at_once = halve_batch(error, self.at_once)
                    values = None
                if values is None:
                    empty_cache()  # only now, when the exception no longer holds the failed batch's tensors
                    continue
                scores.update(zip(places, values, strict=True))
                start += len(places)
        return [scores[at] for at in range(len(pairs))]


def halve_batch(error: RuntimeError | MemoryError, at_once: int) -> int:
    """Half of `at_once` after an out-of-memory error; other errors are raised again. `ModelUnavailable` if it is already 1."""
    if not is_out_of_memory(error):
        raise error
    if at_once <= 1:
        raise ModelUnavailable(
            "the training of the reranker does not fit into memory, even with the smallest batch; use a smaller --base or --max-length"
        ) from error
    return at_once // 2


def load(base: str, max_length: int, seed: int, device: str = "auto") -> TrainableCrossEncoder:
    """The checkpoint, with a new scoring head if it has none. Raises `ModelUnavailable` with the reason."""
    try:
        import torch
        from sentence_transformers import CrossEncoder
    except ImportError as error:
        raise MissingExtra("training a reranker", "models") from error
    try:
        weights = find_weights(base, fetch=True, names=BASE_SETTINGS)
        refuse_own_code(weights, BASE_SETTINGS)
        on, _ = choose_device(device, BASE_SETTINGS)
        with catch_load_errors(weights, BASE_SETTINGS) as missing_weights, torch.random.fork_rng():
            torch.manual_seed(seed)  # the head starts from random numbers
            encoder = CrossEncoder(
                str(weights.folder),
                num_labels=1,
                max_length=max_length,
                device=on,
                local_files_only=True,
                model_kwargs={"dtype": "float32"},
            )
    except ModelUnavailable as error:
        raise ModelUnavailable(f"no reranker can be started from {base}: {error}; {ADVICE}") from error
    if len(encoder) != 1 or encoder.num_labels != 1:
        raise ModelUnavailable(f"{base} is not an encoder with a single output score; {ADVICE}")
    if lacking := [name for name in missing_weights if "layer" in name or "embeddings" in name]:
        raise ModelUnavailable(f"no reranker can be started from {base}: its files lack the weight {lacking[0]}; {ADVICE}")
    encoder.activation_fn = torch.nn.Identity()  # raw scores: a sigmoid would make the best ones almost equal
    return TrainableCrossEncoder(encoder, min(max_length, getattr(encoder.config, "max_position_embeddings", max_length)))


def save(scorer: TrainableCrossEncoder, folder: Path) -> None:
    """Weights (safetensors), tokenizer and settings, without a card."""
    with collect_missing_weights():
        scorer.encoder.save(str(folder), create_model_card=False)


def freeze_word_vectors(encoder: Any) -> None:
    """Freeze the word embeddings, half the weights of a small model: each occurs rarely in so few pairs, and training is faster."""
    for weight in encoder.model.get_input_embeddings().parameters():
        weight.requires_grad_(False)
