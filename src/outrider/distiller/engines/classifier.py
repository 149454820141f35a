"""Classifier engine: a transformer reads query and text together, in windows of units.

A token classifier reads the text in windows and scores a unit by the mean over its tokens, as Provence does; a sequence classifier or
cross-encoder reads the query with each unit alone. The label names determine which one means "relevant".

A text that fits is one window. In a longer text, each window begins with the last units of the previous one, as context; they are
not scored again.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outrider.distiller.engines.ensemble import Scores, probability
from outrider.distiller.units import SegmentedText
from outrider.models.embed.token_batches import SIMILAR_LENGTH, BatchTooLarge, run_by_length
from outrider.models.loading import catch_load_errors, check_tokenizer, choose_device, empty_cache, is_out_of_memory
from outrider.models.weights import SettingNames, Weights, find_weights, refuse_own_code
from outrider.runtime.threads_and_loops import stop_if_abandoned
from outrider.state.errors import BadVectors, MissingExtra, ModelUnavailable

OVERLAP_UNITS = 2
QUERY_SHARE, TITLE_SHARE = 0.25, 0.125
"""Maximum shares of a window."""
TOKENIZER_BATCH = 2_000
"""Units per tokenizer call, which needs a few hundred bytes per token."""
CLASSIFIER_SETTINGS = SettingNames("distiller.model_name", "distiller.device", "distiller.model_name")
BATCH, BATCH_TOKENS = 32, 8_192
MAX_TOKENS = 8_192
TOKEN, SEQUENCE = "ForTokenClassification", "ForSequenceClassification"
RELEVANT = ("relevant", "keep", "entailment", "yes", "answer", "positive", "label_1", "1")
"""Label names that mean relevant, by preference. QNLI uses entailment for a sentence that answers the question."""
IRRELEVANT = "neutral"
"""Label of natural language inference. All other labels count as relevant: supporting and contradicting units both answer."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Token ids, segment ids, and the token spans of the scored units."""

    ids: tuple[int, ...]
    types: tuple[int, ...]
    spans: tuple[tuple[int, int, int], ...]
    """Unit number, first token, token after the last."""


class PairEncoder:
    """Encoder of query and text pairs. Special tokens and segment ids are taken from a sample pair of the tokenizer."""

    def __init__(self, tokenizer: Any, max_length: int) -> None:
        self.tokenizer, self.max_length = tokenizer, max_length
        pair = tokenizer("a", "b")
        ids = list(pair["input_ids"])
        types = list(pair.get("token_type_ids") or [0] * len(ids))
        first, second = (self.ids([letter])[0] for letter in "ab")
        at = _place(ids, first, 0)
        then = _place(ids, second, at + len(first))
        self.before, self.between, self.after = ids[:at], ids[at + len(first) : then], ids[then + len(second) :]
        self.type_of_text = types[then]
        self.has_types = "token_type_ids" in tokenizer.model_input_names
        self.pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        token_ids: list[list[int]] = []
        for start in range(0, len(texts), TOKENIZER_BATCH):
            some = [text.encode("utf-8", "replace").decode("utf-8") for text in texts[start : start + TOKENIZER_BATCH]]
            token_ids += self.tokenizer(
                some, add_special_tokens=False, truncation=False, padding=False, verbose=False, split_special_tokens=True
            )["input_ids"]
        return token_ids

    def query(self, query: str) -> list[int]:
        return self.ids([query])[0][: int(self.max_length * QUERY_SHARE)]

    def pair(self, query: Sequence[int], unit: int, text: Sequence[int]) -> Window:
        """The window of the query and a single unit."""
        return self._window(query, [], [(unit, text)], 0)

    def windows(self, query: Sequence[int], cut: SegmentedText) -> Iterator[Window]:
        title = self.ids([cut.reading.title])[0][: int(self.max_length * TITLE_SHARE)] if cut.reading.title else []
        head = [*title, *self.between[:1]] if title else []
        units = list(enumerate(self.ids(cut.texts()) if cut.units else []))
        room = self.max_length - len(self.before) - len(query) - len(self.between) - len(head) - len(self.after)
        start, scored = 0, 0
        while scored < len(units):
            end, used = start, 0
            while end < len(units) and (used + len(units[end][1]) <= room or end == start):
                used += len(units[end][1])
                end += 1
            if end <= scored:  # the overlap leaves no room for the next unit
                start = scored
                continue
            yield self._window(query, head, units[start:end], scored - start)
            start, scored = max(start + 1, end - OVERLAP_UNITS), end

    def _window(self, query: Sequence[int], head: Sequence[int], units: Sequence[tuple[int, Sequence[int]]], overlap: int) -> Window:
        ids = [*self.before, *query, *self.between]
        types = [0] * len(ids)
        ids += head
        last = self.max_length - len(self.after)
        spans = []
        for place, (unit, tokens) in enumerate(units):
            first = min(len(ids), last - 1)
            ids += tokens[: max(0, last - len(ids))]
            if place >= overlap:
                spans.append((unit, first, max(first, len(ids))))
        ids += self.after
        types += [self.type_of_text] * (len(ids) - len(types))
        return Window(tuple(ids), tuple(types), tuple(spans))

    def batch(self, windows: Sequence[Window]) -> dict[str, Any]:
        """Padded tensors of shape (n, longest)."""
        import torch

        longest = max(len(one.ids) for one in windows)
        ids = torch.full((len(windows), longest), self.pad, dtype=torch.long)
        mask = torch.zeros((len(windows), longest), dtype=torch.long)
        types = torch.zeros((len(windows), longest), dtype=torch.long)
        for row, one in enumerate(windows):
            ids[row, : len(one.ids)] = torch.tensor(one.ids)
            types[row, : len(one.ids)] = torch.tensor(one.types)
            mask[row, : len(one.ids)] = 1
        return {"input_ids": ids, "attention_mask": mask} | ({"token_type_ids": types} if self.has_types else {})


def _place(ids: Sequence[int], part: Sequence[int], start: int) -> int:
    return next((at for at in range(start, len(ids)) if list(ids[at : at + len(part)]) == list(part)), start)


@dataclass(frozen=True, slots=True)
class _Loaded:
    model: Any
    form: PairEncoder
    reads_tokens: bool
    weights: Weights


@dataclass(slots=True)
class Classifier:
    """The engine; `model_name` is a folder or hub name, loaded once at first use. `downloads` allows fetching a hub model."""

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
        """Revision of the weights; loads them."""
        return self._load().weights.revision

    def scores(self, query: str, cuts: Sequence[SegmentedText]) -> Scores:
        loaded = self._load()
        query_ids = loaded.form.query(query)
        windows: list[tuple[int, Window]] = []
        for number, its in enumerate(cuts):
            if loaded.reads_tokens:
                windows += [(number, window) for window in loaded.form.windows(query_ids, its)]
            elif its.units:
                ids = loaded.form.ids(its.texts())
                windows += [(number, loaded.form.pair(query_ids, unit, unit_ids)) for unit, unit_ids in enumerate(ids)]
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
                    raise ModelUnavailable(f"{self.name} does not have enough memory for a text of {lengths[places[0]]:,} tokens: {answer}")
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


def _compute_logits(loaded: _Loaded, windows: Sequence[Window], name: str) -> list[list[float]]:
    """The logits of the units of each window: the mean over the unit's tokens, or the logit of the pair."""
    import torch

    features = {key: tensor.to(loaded.model.device) for key, tensor in loaded.form.batch(windows).items()}
    with torch.inference_mode():
        logits = relevance_logits(loaded.model(**features).logits.float(), loaded.model.config)
    if not torch.isfinite(logits).all():
        raise BadVectors(f"{name} returned a score that is not a finite number; its weights or precision are unusable")
    if not loaded.reads_tokens:
        return [[float(value)] for value in logits]
    means: list[list[float]] = []
    for sums, window in zip(logits.cpu().double().cumsum(-1), windows, strict=True):
        means.append([])
        for _, first, end in window.spans:
            last = max(end, first + 1)  # a unit without tokens uses the token at `first`
            means[-1].append(float(sums[last - 1] - (sums[first - 1] if first else 0.0)) / (last - first))
    return means


def relevance_logits(logits: Any, config: Any) -> Any:
    """The log-odds of "relevant", shape (...), from logits of shape (..., labels)."""
    import torch

    labels = {str(name).lower(): int(at) for at, name in (config.id2label or {}).items()}
    if logits.shape[-1] == 1:
        return logits[..., 0]
    relevant = next((labels[name] for name in RELEVANT if name in labels), 1)
    others = torch.ones(logits.shape[-1], dtype=torch.bool)
    others[relevant] = False
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
            positions -= (config.pad_token_id or 0) + 1  # its positions start after that of the padding token
        limits = [int(limit) for limit in (tokenizer.model_max_length, positions) if 0 < limit < 10**7]
        form = PairEncoder(tokenizer, min([*limits, MAX_TOKENS]))
    check_tokenizer(tokenizer, weights, CLASSIFIER_SETTINGS)
    if missing:
        raise ModelUnavailable(f"{name} is no classifier: its files lack the weight {missing[0]}")
    return _Loaded(model, form, reads_tokens, weights)


def _is_token_classifier(weights: Weights) -> bool:
    """Whether the model is a token classifier rather than a sequence classifier. Raises `ModelUnavailable` if it is neither."""
    try:
        architectures = json.loads((weights.folder / "config.json").read_text(encoding="utf-8")).get("architectures") or [""]
    except (OSError, ValueError) as error:
        raise ModelUnavailable(f"{weights.name} cannot be loaded: its config.json cannot be read") from error
    kind = str(architectures[0])
    if not kind.endswith((TOKEN, SEQUENCE)):
        raise ModelUnavailable(
            f"{weights.name} is no classifier (architecture: {kind or 'unknown'}); set {CLASSIFIER_SETTINGS.model} to a token or sequence "
            "classifier, such as a cross-encoder"
        )
    return kind.endswith(TOKEN)
