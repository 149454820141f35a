"""Cross-encoders that are known by name: how much they read, in what form, under which licence.

A cross-encoder on this machine, through sentence-transformers: query and text are read together, one score a pair.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from outrider.models.loading import catch_load_errors, choose_device, empty_cache, is_out_of_memory
from outrider.models.weights import SettingNames, Weights, find_weights, refuse_own_code
from outrider.runtime.threads import stop_if_abandoned
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
A text cannot end its part: what looks like the template's own marks is taken apart.
"""


@dataclass(frozen=True, slots=True)
class CrossEncoderPreset:
    """A hub name, the tokens that it reads of query and text together, and what its card says of use."""

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


BATCH = 32
RERANKER_SETTINGS = SettingNames("reranker.model_name", "reranker.device", "reranker.base_url")


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
        """Raw scores (logits), unbounded. `ModelUnavailable` where it cannot be loaded, `BadVectors` for scores that are no numbers."""
        if not texts:
            return []
        model = self._loaded()
        with self._running:
            stop_if_abandoned()
            found = _predicted(model, [(query, text) for text in texts], self.name)
        if not all(map(math.isfinite, found)):
            raise BadVectors(f"reranker {self.name} gave a score that is no number; its weights or its precision cannot be used")
        return found

    def release(self) -> None:
        """Gives the model's memory back; the next use loads it again."""
        with self._loading:
            if self._model is not None:
                self._model = None
                empty_cache()

    def _loaded(self) -> Any:
        with self._loading:
            if self._model is None:
                self._model = load_cross_encoder(self.name, self.device, downloads=self.downloads)
        return self._model


def load_cross_encoder(name: str, device: str, *, downloads: bool) -> Any:
    """The sentence-transformers `CrossEncoder`, or `ModelUnavailable` with what is wrong and what to do."""
    try:
        import torch
        from sentence_transformers import CrossEncoder
    except ImportError as error:
        raise MissingExtra("reranking", "models") from error
    preset = find_preset(name)
    with _for_a_reranker():
        found = _weights(preset.name if preset else name, downloads=downloads)
        on, _ = choose_device(device, RERANKER_SETTINGS)
        with catch_load_errors(found, RERANKER_SETTINGS) as made_up:
            model = CrossEncoder(
                str(found.folder),
                device=on,
                local_files_only=True,
                activation_fn=torch.nn.Identity(),  # a sigmoid in float32 makes all good pairs equal
                max_length=preset.max_length if preset else None,
                processor_kwargs={"chat_template": preset.chat_template} if preset and preset.chat_template else None,
            )
    if made_up:  # a bi-encoder is given a random head with no more than a warning
        raise ModelUnavailable(f"{name} is no reranker: its files hold no {made_up[0]}, which would score pairs")
    if model.num_labels != 1:
        raise ModelUnavailable(f"{name} is no reranker: it gives {model.num_labels} scores a pair, not one")
    return model


def is_on_this_machine(name: str) -> bool:
    """Whether the weights can be had without a network."""
    try:
        _weights(name, downloads=False)
    except (ModelUnavailable, MissingExtra):
        return False
    return True


def _weights(name: str, *, downloads: bool) -> Weights:
    found = find_weights(name, fetch=downloads, names=RERANKER_SETTINGS)
    if not (found.folder / "config.json").is_file():
        raise ModelUnavailable(f"{found.folder} is not a model's folder, it has no config.json")
    refuse_own_code(found, RERANKER_SETTINGS)
    return found


@contextmanager
def _for_a_reranker() -> Iterator[None]:
    try:
        yield
    except ModelUnavailable as error:
        raise ModelUnavailable(f"{error} (asked for as a reranker)") from error


def _predicted(model: Any, pairs: list[tuple[str, str]], name: str) -> list[float]:
    """Scores in the order of the pairs. Each batch holds pairs of like length; where one does not fit into memory it is halved."""
    batch = BATCH
    while True:
        try:
            return [float(score) for score in model.predict(pairs, batch_size=batch, show_progress_bar=False)]
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if batch == 1:
                raise ModelUnavailable(f"reranker {name} has not enough memory on {model.device} for a single text") from error
        batch //= 2
        empty_cache()  # only now, when the failed batch's tensors are no longer held by the exception
