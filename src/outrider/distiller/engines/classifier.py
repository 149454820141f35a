"""Classifier engine: transformers that read query and text together.

A token classifier reads the text in windows and scores a unit by the mean over its tokens, as Provence does; a sequence classifier or
cross-encoder reads the query with each unit alone. The names of the labels tell which one means "relevant".
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outrider.distiller.engines.ensemble import Scores, probability
from outrider.distiller.engines.windows import PairEncoder, Window
from outrider.distiller.units import SegmentedText
from outrider.models.embed.token_batches import SIMILAR_LENGTH, BatchTooLarge, run_by_length
from outrider.models.loading import catch_load_errors, choose_device, empty_cache, is_out_of_memory
from outrider.models.weights import SettingNames, Weights, find_weights, refuse_own_code
from outrider.runtime.threads import stop_if_abandoned
from outrider.state.errors import BadVectors, MissingExtra, ModelUnavailable

CLASSIFIER_SETTINGS = SettingNames("distiller.model_name", "distiller.device", "distiller.model_name")
BATCH, BATCH_TOKENS = 32, 8_192
MAX_TOKENS = 8_192
TOKEN, SEQUENCE = "ForTokenClassification", "ForSequenceClassification"
RELEVANT = ("relevant", "keep", "entailment", "yes", "answer", "positive", "label_1", "1")
"""Names of the label that means relevant, the surest first; QNLI calls it entailment: the sentence answers the question."""
IRRELEVANT = "neutral"
"""Label of natural language inference: units that support and units that contradict both belong to the answer."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    model: Any
    form: PairEncoder
    reads_tokens: bool
    weights: Weights


@dataclass(slots=True)
class Classifier:
    """A folder or hub name; loads at first use, once, in the thread that asks. `downloads` lets it fetch a hub model."""

    model_name: str
    device: str = "auto"
    downloads: bool = True
    _loaded: _Loaded | None = None
    _loading: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _running: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def name(self) -> str:
        return f"classifier {Path(self.model_name).name if Path(self.model_name).is_dir() else self.model_name}"

    @property
    def revision(self) -> str:
        """Of the weights; loads them."""
        return self._load().weights.revision

    def scores(self, query: str, cuts: Sequence[SegmentedText]) -> Scores:
        loaded = self._load()
        query_ids = loaded.form.query(query)
        windows = [(number, window) for number, its in enumerate(cuts) for window in _make_windows(loaded, query_ids, its)]
        lengths = [len(window.ids) for _, window in windows]
        scores = [[0.0] * len(its.units) for its in cuts]

        def run(places: list[int]) -> list[list[float]]:
            stop_if_abandoned()
            try:
                return _compute_logits(loaded, [windows[at][1] for at in places], self.name)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
            empty_cache()  # only now, when the exception no longer holds the failed batch's tensors
            raise BatchTooLarge("it does not fit into memory")

        with self._running:
            for places, answer in run_by_length(lengths, BATCH, BATCH_TOKENS, run, SIMILAR_LENGTH):
                if isinstance(answer, BatchTooLarge):
                    raise ModelUnavailable(f"{self.name} has not enough memory for a text of {lengths[places[0]]:,} tokens: {answer}")
                for at, logits in zip(places, answer, strict=True):
                    number, window = windows[at]
                    for (unit, _, _), value in zip(window.spans, logits, strict=True):
                        scores[number][unit] = probability(value)
        return scores

    def _load(self) -> _Loaded:
        with self._loading:
            if self._loaded is None:
                self._loaded = load_classifier(self.model_name, self.device, downloads=self.downloads)
            return self._loaded


def _make_windows(loaded: _Loaded, query: Sequence[int], segmented: SegmentedText) -> Iterable[Window]:
    if loaded.reads_tokens:
        return loaded.form.windows(query, segmented)
    ids = loaded.form.ids(segmented.texts()) if segmented.units else []
    return [loaded.form.pair(query, unit, unit_ids) for unit, unit_ids in enumerate(ids)]


def _compute_logits(loaded: _Loaded, windows: Sequence[Window], name: str) -> list[list[float]]:
    """For each window the logit of each of its units: the mean over the unit's tokens, or the pair's own."""
    import torch

    features = {key: tensor.to(loaded.model.device) for key, tensor in loaded.form.batch(windows).items()}
    with torch.inference_mode():
        logits = relevance_logits(loaded.model(**features).logits.float(), loaded.model.config)
    if not torch.isfinite(logits).all():
        raise BadVectors(f"{name} gave a score that is no number; its weights or its precision cannot be used")
    if not loaded.reads_tokens:
        return [[float(value)] for value in logits]
    means: list[list[float]] = []
    for sums, window in zip(logits.cpu().double().cumsum(-1), windows, strict=True):
        means.append([])
        for _, first, end in window.spans:
            last = max(end, first + 1)  # a unit without tokens of its own gets the one at `first`
            means[-1].append(float(sums[last - 1] - (sums[first - 1] if first else 0.0)) / (last - first))
    return means


def relevance_logits(logits: Any, config: Any) -> Any:
    """The log-odds of "relevant", shape (...), from logits of shape (..., labels)."""
    import torch

    labels = {str(name).lower(): int(at) for at, name in (config.id2label or {}).items()}
    if logits.shape[-1] == 1:
        return logits[..., 0]
    wanted = next((labels[name] for name in RELEVANT if name in labels), 1)
    others = torch.ones(logits.shape[-1], dtype=torch.bool)
    others[wanted] = False
    if IRRELEVANT in labels and logits.shape[-1] == 3:
        others = torch.zeros(3, dtype=torch.bool)
        others[labels[IRRELEVANT]] = True
    return torch.logsumexp(logits[..., ~others], -1) - torch.logsumexp(logits[..., others], -1)


def load_classifier(name: str, device: str, *, downloads: bool) -> _Loaded:
    """Raises `ModelUnavailable` with the problem and a remedy, `MissingExtra`."""
    try:
        from transformers import AutoConfig, AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer
    except ImportError as error:
        raise MissingExtra("the distiller's classifier", "models") from error
    weights = find_weights(name, fetch=downloads, names=CLASSIFIER_SETTINGS)
    refuse_own_code(weights, CLASSIFIER_SETTINGS)
    reads_tokens = _is_token_classifier(weights)
    device, _ = choose_device(device, CLASSIFIER_SETTINGS)
    with catch_load_errors(weights, CLASSIFIER_SETTINGS) as missing:
        config = AutoConfig.from_pretrained(weights.folder)
        auto_model = AutoModelForTokenClassification if reads_tokens else AutoModelForSequenceClassification
        dtype = "float32" if device.startswith("cpu") else "auto"
        model = auto_model.from_pretrained(weights.folder, dtype=dtype).to(device).eval()
        tokenizer = AutoTokenizer.from_pretrained(weights.folder)
        positions = int(getattr(config, "max_position_embeddings", 0) or 0)
        if "roberta" in str(config.model_type):
            positions -= (config.pad_token_id or 0) + 1  # its positions count from after the padding token's
        limits = [int(limit) for limit in (tokenizer.model_max_length, positions) if 0 < limit < 10**7]
        form = PairEncoder(tokenizer, min([*limits, MAX_TOKENS]))
    if missing:
        raise ModelUnavailable(f"{name} is no classifier: its files hold no {missing[0]}")
    return _Loaded(model, form, reads_tokens, weights)


def _is_token_classifier(weights: Weights) -> bool:
    """Whether the weights are a token classifier, not a sequence classifier; `ModelUnavailable` if they are neither."""
    try:
        architectures = json.loads((weights.folder / "config.json").read_text(encoding="utf-8")).get("architectures") or [""]
    except (OSError, ValueError) as error:
        raise ModelUnavailable(f"{weights.name} cannot be loaded: its config.json cannot be read") from error
    kind = str(architectures[0])
    if not kind.endswith((TOKEN, SEQUENCE)):
        raise ModelUnavailable(
            f"{weights.name} is no classifier but {kind or 'of an unknown kind'}; set {CLASSIFIER_SETTINGS.model} to a token or sequence "
            "classifier, such as a cross-encoder"
        )
    return kind.endswith(TOKEN)
