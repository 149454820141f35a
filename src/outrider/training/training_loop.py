"""Training loop of rerankers and distillers, and the fine-tuning of a reranker with it.

The loop is AdamW with linear warm-up and decay. A reranker learns by a softmax over each group of texts; its nDCG on held-out groups is
checked in between, and the best weights are restored at the end. Its loss is localized contrastive estimation (Gao, Dai and Callan 2021,
"Rethink Training of BERT Rerankers in Multi-Stage Retrieval Pipeline"): the right text of a group against wrong ones that the first stage
returned.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from outrider.models.loading import empty_cache
from outrider.training.questions import make_generator
from outrider.training.trainable_cross_encoder import TrainableCrossEncoder, freeze_word_vectors, halve_batch
from outrider.training.training_set import Group, mean_ndcg

if TYPE_CHECKING:
    import torch

INTERRUPTED = "interrupted"
BATCHES_PER_WINDOW = 16
"""Batches per window. Groups are sorted by length within a window, for little padding in a nearly random order."""


T = TypeVar("T")
OnStep = Callable[[int, int, float | None], None]
"""Called with steps done, steps planned, and the best nDCG so far, None before the first check."""


@dataclass(frozen=True, slots=True)
class OptimizerSettings:
    """Parameters of AdamW (Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization")."""

    seed: int = 0
    learning_rate: float = 1e-4
    warm_up: float = 0.1
    """Share of all steps in which the rate rises linearly to its maximum; then it falls linearly to 0."""
    weight_decay: float = 0.01


class Step(NamedTuple, Generic[T]):
    """One step of the optimizer: its batch, the loss, and the time it took."""

    batch: Sequence[T]
    loss: float
    seconds: float


class Optimizer:
    """AdamW with linear warm-up and decay over a planned number of steps."""

    def __init__(self, groups: Sequence[dict[str, Any]], stepping: OptimizerSettings, planned: int) -> None:
        """`groups` are torch's parameter groups; those without a rate or decay use the values of `stepping`."""
        import torch

        rising = max(1, int(planned * stepping.warm_up))

        def factor(step: int) -> float:
            return min((step + 1) / rising, max(0.0, (planned - step) / max(1, planned - rising)))

        self._weights = [weight for group in groups for weight in group["params"]]
        self._adamw = torch.optim.AdamW(list(groups), lr=stepping.learning_rate, weight_decay=stepping.weight_decay)
        self._rates = torch.optim.lr_scheduler.LambdaLR(self._adamw, factor)

    def steps(self, batches: Iterable[Sequence[T]], backward: Callable[[Sequence[T]], float]) -> Iterator[Step[T]]:
        """One step per batch. `backward` computes the gradients of a batch and returns its loss."""
        import torch

        for batch in batches:
            started = time.monotonic()
            loss = backward(batch)
            torch.nn.utils.clip_grad_norm_(self._weights, 1.0)
            self._adamw.step()
            self._rates.step()
            self._adamw.zero_grad()
            yield Step(batch, loss, time.monotonic() - started)

    def forget_gradients(self) -> None:
        """Clear the gradients of a batch that failed halfway."""
        self._adamw.zero_grad()


@dataclass(frozen=True, slots=True)
class Recipe(OptimizerSettings):
    """Settings of the training of a reranker; lengths are in tokens."""

    pairs: int = 5_000
    """Approximate number of training pairs; held-out pairs are additional."""
    epochs: int = 2
    """A third epoch made the ranking on SciFact worse (held-out nDCG@10 .795 after two, .764 in the third)."""
    max_length: int = 192
    batch_groups: int = 4
    checks_an_epoch: int = 2
    patience: int = 2
    """Consecutive checks without an improvement after which the training ends."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check on the held-out groups after a number of steps."""

    step: int
    loss: float
    """Mean loss of the steps since the previous check."""
    ndcg: float


@dataclass(slots=True)
class TrainingResult:
    """Result of a training; the scorer holds the best weights."""

    steps: int = 0
    planned: int = 0
    checks: list[Check] = field(default_factory=list)
    best: Check | None = None
    scores: list[list[float]] = field(default_factory=list)
    """Scores of the held-out texts at the best check."""
    ended: str = "all epochs done"
    pairs: int = 0
    busy_s: float = 0.0
    """Seconds of the steps, without the checks."""


def fine_tune(
    scorer: TrainableCrossEncoder, train: Sequence[Group], held_out: Sequence[Group], recipe: Recipe, stop: Event, on_step: OnStep
) -> TrainingResult:
    """Train until all epochs are done, the checks stop improving, or `stop` is set. Blocking.

    The scorer ends with the weights of the best check; `TrainingResult.best` is None if `stop` was set before the first check.
    """
    import torch

    freeze_word_vectors(scorer.encoder)
    devices = [scorer.encoder.device] if scorer.encoder.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(recipe.seed)  # for dropout; everything else has its own random generators
        return _Loop(scorer, train, held_out, recipe, stop, on_step).run()


class _Loop:
    def __init__(
        self, scorer: TrainableCrossEncoder, train: Sequence[Group], held_out: Sequence[Group], recipe: Recipe, stop: Event, on_step: OnStep
    ) -> None:
        self.scorer, self.train, self.held_out, self.recipe, self.stop, self.on_step = scorer, train, held_out, recipe, stop, on_step
        each = -(-len(train) // recipe.batch_groups)
        self.every = max(1, each // recipe.checks_an_epoch)
        self.done = TrainingResult(planned=each * recipe.epochs)
        steps = self.done.planned
        weights = [weight for weight in scorer.encoder.model.parameters() if weight.requires_grad]
        decayed = [weight for weight in weights if weight.ndim > 1]
        plain = [weight for weight in weights if weight.ndim <= 1]  # biases and norms
        self.optimizer = Optimizer([{"params": decayed}, {"params": plain, "weight_decay": 0.0}], recipe, steps)
        self.groups_at_once = recipe.batch_groups
        self.best_weights: dict[str, torch.Tensor] = {}

    def run(self) -> TrainingResult:
        losses: list[float] = []
        for batch, loss, seconds in self.optimizer.steps(self._batches(), self._backward):
            losses.append(loss)
            self.done.busy_s += seconds
            self.done.steps += 1
            self.done.pairs += sum(len(group.texts) for group in batch)
            self.on_step(self.done.steps, self.done.planned, self.done.best.ndcg if self.done.best else None)
            if self.done.steps % self.every == 0 or self.done.steps == self.done.planned:
                scores = score_groups(self.scorer, self.held_out)
                check = Check(self.done.steps, sum(losses) / len(losses), mean_ndcg(self.held_out, scores))
                losses.clear()
                self.done.checks.append(check)
                if self.done.best is None or check.ndcg > self.done.best.ndcg:
                    self.done.best, self.done.scores = check, scores
                    weights = self.scorer.encoder.model.state_dict()
                    self.best_weights = {name: weight.detach().cpu().clone() for name, weight in weights.items()}
                if len(self.done.checks) - 1 - self.done.checks.index(self.done.best) >= self.recipe.patience:
                    self.done.ended = f"no better in {self.recipe.patience} checks"
                    break
        if self.best_weights:
            self.scorer.encoder.model.load_state_dict(self.best_weights)
        self.scorer.encoder.eval()
        return self.done

    def _batches(self) -> Iterator[list[Group]]:
        for epoch in range(self.recipe.epochs):
            rng = make_generator(self.recipe.seed, "epoch", str(epoch))
            for batch in make_batches(self.train, self.recipe.batch_groups, rng):
                if self.stop.is_set():
                    self.done.ended = INTERRUPTED
                    return
                yield batch

    def _backward(self, batch: Sequence[Group]) -> float:
        """The gradients of a batch, in as many pieces as fit into memory."""
        import torch

        self.scorer.encoder.train()
        while True:
            try:
                total = 0.0
                for start in range(0, len(batch), self.groups_at_once):
                    piece = batch[start : start + self.groups_at_once]
                    logits = self.scorer.logits([(group.query, text) for group in piece for text in group.texts])
                    groups = torch.split(logits, [len(group.texts) for group in piece])
                    # the mean over the batch's groups of -log softmax(first text)
                    loss = torch.stack([torch.logsumexp(group, 0) - group[0] for group in groups]).sum() / len(batch)
                    loss.backward()
                    total += float(loss.item())
            except (RuntimeError, MemoryError) as error:
                self.groups_at_once = halve_batch(error, self.groups_at_once)
            else:
                return total
            self.optimizer.forget_gradients()
            empty_cache()


def score_groups(scorer: TrainableCrossEncoder, groups: Sequence[Group]) -> list[list[float]]:
    """The model's scores of each group's texts."""
    scores = iter(scorer.scores([(group.query, text) for group in groups for text in group.texts]))
    return [[next(scores) for _ in group.texts] for group in groups]


def make_batches(groups: Sequence[Group], size: int, rng: random.Random) -> list[list[Group]]:
    """Every group once, shuffled; within a window of `BATCHES_PER_WINDOW` batches, groups of similar length share a batch."""
    order = rng.sample(list(groups), len(groups))
    batches: list[list[Group]] = []
    for start in range(0, len(order), size * BATCHES_PER_WINDOW):
        window = sorted(order[start : start + size * BATCHES_PER_WINDOW], key=lambda group: sum(map(len, group.texts)))
        batches += [window[at : at + size] for at in range(0, len(window), size)]
    rng.shuffle(batches)
    return batches
