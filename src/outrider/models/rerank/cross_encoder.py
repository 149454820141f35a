"""Cross-encoders on this machine, through sentence-transformers: one score per pair."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from outrider.models.loading import catch_load_errors, check_tokenizer, choose_device, empty_cache, is_out_of_memory
from outrider.models.weights import SettingNames, Weights, find_weights, refuse_own_code
from outrider.runtime.threads_and_loops import stop_if_abandoned
from outrider.state.errors import BadVectors, MissingExtra, ModelUnavailable

INSTRUCTION = "Given a search query, retrieve the works that answer it or are about it"
"""Qwen3-Reranker's card: "Given a web search query, retrieve relevant passages that answer the query"; it advises one's own."""

QWEN3_TEMPLATE = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. "
    'Note that the answer can only be "yes" or "no".<|im_end|>\n'
    f"<|im_start|>user\n<Instruct>: {INSTRUCTION}\n"
    "<Query>: {{ (messages | selectattr('role', 'equalto', 'query') | first).content | replace('<|', '< |') }}\n"
    "<Document>: {{ (messages | selectattr('role', 'equalto', 'document') | first).content | replace('<|', '< |') }}<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>{{ '\n\n' }}"  # Jinja drops a line break at the end of a template
)
"""The model card's prompt as a chat template for sentence-transformers' pairs (roles `query` and `document`).

Without it the model's answers are close to chance: vLLM pull request 19260. The score is logit("yes") - logit("no").
A text cannot end its own part: marks of the template inside it are broken up.
"""
BATCH = 32
RERANKER_SETTINGS = SettingNames("reranker.model_name", "reranker.device", "reranker.base_url")


@dataclass(frozen=True, slots=True)
class CrossEncoderPreset:
    """A hub name, the maximum tokens of query and text together, the licence, and the prompt of its card."""

    name: str
    max_length: int
    licence: str
    chat_template: str = ""


PRESETS = (
    # huggingface.co/Qwen/Qwen3-Reranker-0.6B: 32k of context, 8,192 in the card's code.
    CrossEncoderPreset("Qwen/Qwen3-Reranker-0.6B", 8_192, "Apache-2.0", QWEN3_TEMPLATE),
    # huggingface.co/BAAI/bge-reranker-v2-m3: reads 8,192, trained and recommended with 1,024 (its discussion 9).
    CrossEncoderPreset("BAAI/bge-reranker-v2-m3", 1_024, "Apache-2.0"),
    # huggingface.co/cross-encoder/ms-marco-MiniLM-L6-v2
    CrossEncoderPreset("cross-encoder/ms-marco-MiniLM-L6-v2", 512, "Apache-2.0"),
)


def find_preset(name: str) -> CrossEncoderPreset | None:
    """The preset with this name, with or without its owner, in any case."""
    known = {form.lower(): preset for preset in PRESETS for form in (preset.name, preset.name.rpartition("/")[2])}
    return known.get(name.lower())


@dataclass(slots=True)
class CrossEncoderReranker:
    """Loads at first use. `downloads` lets it fetch a hub model that is not on this machine yet; `auto` never does."""

    name: str
    device: str = "auto"
    downloads: bool = True
    _model: Any = None
    _loading: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _running: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Raw scores (logits), unbounded. `ModelUnavailable` if it cannot be loaded, `BadVectors` for scores that are not numbers."""
        if not texts:
            return []
        model, batch = self.load(), BATCH
        pairs = [(query, text) for text in texts]
        with self._running:
            stop_if_abandoned()
            while True:  # each batch holds pairs of similar length
                try:
                    scores = [float(score) for score in model.predict(pairs, batch_size=batch, show_progress_bar=False)]
                    break
                except (RuntimeError, MemoryError) as error:
                    if not is_out_of_memory(error):
                        raise
                    if batch == 1:
                        raise ModelUnavailable(f"reranker {self.name} has not enough memory on {model.device} for a single text") from error
                batch //= 2
                empty_cache()  # only now, after the exception has released the failed batch's tensors
        if not all(map(math.isfinite, scores)):
            raise BadVectors(f"reranker {self.name} gave a score that is no number; its weights or its precision cannot be used")
        return scores

    def load(self) -> Any:
        """The model, loaded by the first caller. `ModelUnavailable` if it cannot be."""
        with self._loading:
            if self._model is None:
                self._model = load_cross_encoder(self.name, self.device, downloads=self.downloads)
            return self._model

    def release(self) -> None:
        """Free the model's memory; the next use loads it again."""
        with self._loading:
            if self._model is not None:
                self._model = None
                empty_cache()


def load_cross_encoder(name: str, device: str, *, downloads: bool) -> Any:
    """The sentence-transformers `CrossEncoder`; `ModelUnavailable` with the problem and a remedy."""
    try:
        import torch
        from sentence_transformers import CrossEncoder
    except ImportError as error:
        raise MissingExtra("reranking", "models") from error
    preset = find_preset(name)
    try:
        weights = _find_weights(preset.name if preset else name, downloads=downloads)
        device, _ = choose_device(device, RERANKER_SETTINGS)
        with catch_load_errors(weights, RERANKER_SETTINGS) as missing:
            model = CrossEncoder(
                str(weights.folder),
                device=device,
                local_files_only=True,
                activation_fn=torch.nn.Identity(),  # a sigmoid in float32 makes all good pairs equal
                max_length=preset.max_length if preset else None,
                processor_kwargs={"chat_template": preset.chat_template} if preset and preset.chat_template else None,
            )
        check_tokenizer(model.tokenizer, weights, RERANKER_SETTINGS)
    except ModelUnavailable as error:
        raise ModelUnavailable(f"{error} (requested as a reranker)") from error
    if missing:  # a bi-encoder is given a random head with no more than a warning
        raise ModelUnavailable(f"{name} is no reranker: its files hold no {missing[0]}, which would score pairs")
    if model.num_labels != 1:
        raise ModelUnavailable(f"{name} is no reranker: it gives {model.num_labels} scores a pair, not one")
    return model


def is_on_this_machine(name: str) -> bool:
    """Whether the weights are available without a network."""
    try:
        _find_weights(name, downloads=False)
    except (ModelUnavailable, MissingExtra):
        return False
    return True


def _find_weights(name: str, *, downloads: bool) -> Weights:
    weights = find_weights(name, fetch=downloads, names=RERANKER_SETTINGS)
    if not (weights.folder / "config.json").is_file():
        raise ModelUnavailable(f"{weights.folder} is not a model's folder, it has no config.json")
    refuse_own_code(weights, RERANKER_SETTINGS)
    return weights
