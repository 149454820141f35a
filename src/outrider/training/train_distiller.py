"""Training of a sentence classifier for the distiller, from a small encoder.

The model reads query and text in one pass and scores every token, like Provence (Chirkova et al. 2025, "Provence: efficient and robust
context pruning for retrieval-augmented generation"); the logit of a unit is the mean over its tokens. The lower layers are frozen, so their
output is computed once per case.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.distiller.calibration import LabelledText, find_answering_units
from outrider.distiller.engines.classifier import PairEncoder, Window
from outrider.distiller.units import segment_text
from outrider.models.loading import catch_load_errors, collect_missing_weights
from outrider.models.weights import SettingNames, find_weights, refuse_own_code
from outrider.state.errors import BadRequest, MissingExtra, ModelUnavailable
from outrider.training.training_loop import Optimizer, OptimizerSettings

BASE_SETTINGS = SettingNames("--base", "--device", "--base")
MIN_CASES = 20
OnEpoch = Callable[[int, float], None]


@dataclass(frozen=True, slots=True)
class Recipe(OptimizerSettings):
    """Settings of the training of a sentence classifier; `max_length` is in tokens."""

    epochs: int = 5
    max_length: int = 512
    batch: int = 8
    head_rate: float = 1e-3
    frozen_layers: int = 3
    dropout: float = 0.1
    listwise: float = 0.5
    """Weight of a softmax loss over the units of one text, added to the loss of each unit."""


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """Result of a training: number of cases and steps, losses, and duration."""

    cases: int
    steps: int
    losses: tuple[float, ...]
    """Mean loss of each epoch."""
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class _Case:
    window: Window
    labels: Any
    """Shape (units,): 1 for units that answer, else 0."""
    hidden: Any
    """Output of the frozen layers, shape (tokens, d)."""


def train(
    base: str, cases: Sequence[LabelledText], out: Path, recipe: Recipe | None = None, on_epoch: OnEpoch | None = None
) -> TrainingResult:
    """Train on the CPU and write weights (safetensors), tokenizer and settings to `out`, a token classifier for transformers.

    Raises `BadRequest` for too few cases, `ModelUnavailable` for a base other than a BERT, `MissingExtra`.
    """
    recipe = recipe or Recipe()
    if len(cases) < MIN_CASES:
        raise BadRequest(f"{len(cases)} labelled texts are too few to train on; give at least {MIN_CASES}")
    try:
        import torch
    except ImportError as error:
        raise MissingExtra("training a distiller", "models") from error
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        model, form = _load_base(base, recipe)
        return _train_model(model, form, cases, out, recipe, on_epoch)


def _load_base(base: str, recipe: Recipe) -> tuple[Any, PairEncoder]:
    from transformers import AutoConfig, AutoModelForTokenClassification, AutoTokenizer

    weights = find_weights(base, fetch=True, names=BASE_SETTINGS)
    refuse_own_code(weights, BASE_SETTINGS)
    with catch_load_errors(weights, BASE_SETTINGS):
        config = AutoConfig.from_pretrained(weights.folder, num_labels=1, id2label={0: "RELEVANT"}, label2id={"RELEVANT": 0})
        if config.model_type != "bert":
            raise ModelUnavailable(f"{base} has the model type {config.model_type}; train a distiller from a BERT, such as MiniLM")
        config.hidden_dropout_prob = config.attention_probs_dropout_prob = recipe.dropout
        model = AutoModelForTokenClassification.from_pretrained(weights.folder, config=config, dtype="float32")
        tokenizer = AutoTokenizer.from_pretrained(weights.folder)
    return model, PairEncoder(tokenizer, min(recipe.max_length, config.max_position_embeddings))


def _train_model(
    model: Any, form: PairEncoder, labelled: Sequence[LabelledText], out: Path, recipe: Recipe, on_epoch: OnEpoch | None
) -> TrainingResult:
    started = time.monotonic()
    cases = [case for one in labelled for case in _cases(model, form, one, recipe.frozen_layers)]
    layers = model.bert.encoder.layer[recipe.frozen_layers :]
    head = list(model.classifier.parameters())
    planned = recipe.epochs * -(-len(cases) // recipe.batch)
    optimizer = Optimizer([{"params": list(layers.parameters())}, {"params": head, "lr": recipe.head_rate}], recipe, planned)

    def backward(batch: Sequence[_Case]) -> float:
        loss = _compute_loss(model, layers, batch, recipe.listwise)
        loss.backward()
        return float(loss.item())

    rng = random.Random(recipe.seed)  # noqa: S311 - reproducible, no secret
    losses = []
    model.train()
    for epoch in range(recipe.epochs):
        steps = optimizer.steps(_batches(cases, recipe.batch, rng), backward)
        losses.append(sum(step.loss * len(step.batch) for step in steps) / len(cases))
        if on_epoch:
            on_epoch(epoch, losses[-1])
    model.eval()
    with collect_missing_weights():
        model.save_pretrained(out)
        form.tokenizer.save_pretrained(out)
    return TrainingResult(len(cases), planned, tuple(losses), time.monotonic() - started)


def _cases(model: Any, form: PairEncoder, one: LabelledText, frozen: int) -> Iterator[_Case]:
    """One case per window."""
    import torch

    units = segment_text(one.reading)
    right = set(find_answering_units(units, one)) if one.answers else set()
    for window in form.windows(form.query(one.query), units):
        labels = torch.tensor([float(unit in right) for unit, _, _ in window.spans])
        features = form.batch([window])
        model.eval()
        with torch.inference_mode():
            hidden = model.bert.embeddings(input_ids=features["input_ids"], token_type_ids=features.get("token_type_ids"))
            for layer in model.bert.encoder.layer[:frozen]:
                hidden = layer(hidden)
        yield _Case(window, labels, hidden[0].clone())


def _compute_loss(model: Any, layers: Any, batch: Sequence[_Case], listwise: float) -> Any:
    """The mean loss of the cases, computed from the logits of their units."""
    import torch

    longest = max(len(case.window.ids) for case in batch)
    hidden = torch.zeros(len(batch), longest, batch[0].hidden.shape[-1])
    mask = torch.full((len(batch), 1, 1, longest), torch.finfo(torch.float32).min)
    for row, case in enumerate(batch):
        hidden[row, : len(case.hidden)] = case.hidden
        mask[row, :, :, : len(case.hidden)] = 0.0
    for layer in layers:
        hidden = layer(hidden, mask)
    scores = model.classifier(model.dropout(hidden)).squeeze(-1)
    total = torch.zeros(())
    for row, case in enumerate(batch):
        logits = torch.stack([scores[row, first : max(last, first + 1)].mean() for _, first, last in case.window.spans])
        total = total + torch.nn.functional.binary_cross_entropy_with_logits(logits, case.labels)
        if right := float(case.labels.sum()):
            total = total - listwise * (torch.log_softmax(logits, 0) * case.labels).sum() / right
    return total / len(batch)


def _batches(cases: Sequence[_Case], size: int, rng: random.Random) -> list[list[_Case]]:
    """Each case once, batched by approximate length and shuffled."""
    ordered = sorted(cases, key=lambda case: len(case.window.ids) + rng.random() * 100)
    batches = [ordered[at : at + size] for at in range(0, len(ordered), size)]
    rng.shuffle(batches)
    return batches
