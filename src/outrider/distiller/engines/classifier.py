"""Classifiers that read query and text together, through transformers: DeBERTa, BERT and the like.

A token classifier reads the text in windows and scores a unit by the mean over its tokens, as Provence does; a sequence classifier or
cross-encoder reads the query with each unit alone. Of labels it is known by name which one says "relevant".
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
"""Names of the label that says so, the surest first; QNLI calls it entailment: the sentence answers the question."""
IRRELEVANT = "neutral"
"""Of natural language inference: what supports and what contradicts both belong to the answer."""


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
        return self._ready().weights.revision

    def scores(self, query: str, cuts: Sequence[SegmentedText]) -> Scores:
        ready = self._ready()
        asked = ready.form.query(query)
        windows = [(number, window) for number, its in enumerate(cuts) for window in _windows(ready, asked, its)]
        found = [[0.0] * len(its.units) for its in cuts]
        with self._running:
            for at, logits in self._run(ready, [window for _, window in windows]):
                number, window = windows[at]
                for (unit, _, _), value in zip(window.spans, logits, strict=True):
                    found[number][unit] = probability(value)
        return found

    def _run(self, ready: _Loaded, windows: Sequence[Window]) -> Iterable[tuple[int, list[float]]]:
        lengths = [len(window.ids) for window in windows]
        for places, answer in run_by_length(
            lengths, BATCH, BATCH_TOKENS, lambda places: self._within_memory(ready, [windows[at] for at in places]), SIMILAR_LENGTH
        ):
            if isinstance(answer, BatchTooLarge):
                raise ModelUnavailable(f"{self.name} has not enough memory for a text of {lengths[places[0]]:,} tokens: {answer}")
            yield from zip(places, answer, strict=True)

    def _within_memory(self, ready: _Loaded, windows: Sequence[Window]) -> list[list[float]]:
        stop_if_abandoned()
        try:
            return _logits(ready, windows, self.name)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        empty_cache()
        raise BatchTooLarge("it does not fit into memory")

    def _ready(self) -> _Loaded:
        with self._loading:
            if self._loaded is None:
                self._loaded = load_classifier(self.model_name, self.device, downloads=self.downloads)
            return self._loaded


def _windows(ready: _Loaded, query: Sequence[int], its: SegmentedText) -> Iterable[Window]:
    if ready.reads_tokens:
        return ready.form.windows(query, its)
    return [ready.form.pair(query, unit, ids) for unit, ids in enumerate(ready.form.ids(its.texts()) if its.units else [])]


def _logits(ready: _Loaded, windows: Sequence[Window], name: str) -> list[list[float]]:
    import torch

    features = {key: tensor.to(ready.model.device) for key, tensor in ready.form.batch(windows).items()}
    with torch.inference_mode():
        found = relevance_logits(ready.model(**features).logits.float(), ready.model.config)
    if not torch.isfinite(found).all():
        raise BadVectors(f"{name} gave a score that is no number; its weights or its precision cannot be used")
    if not ready.reads_tokens:
        return [[float(value)] for value in found]
    rows = found.cpu().double().cumsum(-1)
    return [[_mean(row, first, last) for _, first, last in window.spans] for row, window in zip(rows, windows, strict=True)]


def _mean(sums: Any, first: int, last: int) -> float:
    """Of the tokens first..last; of the one at `first` where a unit has none of its own."""
    last = max(last, first + 1)
    return float(sums[last - 1] - (sums[first - 1] if first else 0.0)) / (last - first)


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
    """Raises `ModelUnavailable` with what is wrong and what to do, `MissingExtra`."""
    try:
        from transformers import AutoConfig, AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer
    except ImportError as error:
        raise MissingExtra("the distiller's classifier", "models") from error
    found = find_weights(name, fetch=downloads, names=CLASSIFIER_SETTINGS)
    refuse_own_code(found, CLASSIFIER_SETTINGS)
    kind = _kind(found)
    on, _ = choose_device(device, CLASSIFIER_SETTINGS)
    with catch_load_errors(found, CLASSIFIER_SETTINGS) as made_up:
        config = AutoConfig.from_pretrained(found.folder)
        of = AutoModelForTokenClassification if kind == TOKEN else AutoModelForSequenceClassification
        model = of.from_pretrained(found.folder, **({"dtype": "float32"} if on.startswith("cpu") else {"dtype": "auto"})).to(on).eval()
        tokenizer = AutoTokenizer.from_pretrained(found.folder)
        form = PairEncoder(tokenizer, _limit(tokenizer, config))
    if made_up:
        raise ModelUnavailable(f"{name} is no classifier: its files hold no {made_up[0]}")
    return _Loaded(model, form, kind == TOKEN, found)


def _kind(found: Weights) -> str:
    try:
        said = json.loads((found.folder / "config.json").read_text(encoding="utf-8")).get("architectures") or [""]
    except (OSError, ValueError) as error:
        raise ModelUnavailable(f"{found.name} cannot be loaded: its config.json cannot be read") from error
    kind = next((kind for kind in (TOKEN, SEQUENCE) if str(said[0]).endswith(kind)), None)
    if kind is None:
        raise ModelUnavailable(
            f"{found.name} is no classifier but {said[0] or 'of an unknown kind'}; set {CLASSIFIER_SETTINGS.model} to a token or sequence "
            "classifier, such as a cross-encoder"
        )
    return kind


def _limit(tokenizer: Any, config: Any) -> int:
    positions = int(getattr(config, "max_position_embeddings", 0) or 0)
    if "roberta" in str(config.model_type):
        positions -= (config.pad_token_id or 0) + 1
    known = [int(limit) for limit in (tokenizer.model_max_length, positions) if 0 < limit < 10**7]
    return min([*known, MAX_TOKENS])
