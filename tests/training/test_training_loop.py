from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING

import pytest

from outrider.state.errors import ModelUnavailable
from outrider.training import trainable_cross_encoder as model
from outrider.training import training_loop as loop
from outrider.training.questions import make_generator
from outrider.training.trainable_cross_encoder import TrainableCrossEncoder
from outrider.training.training_loop import Recipe, TrainingResult, fine_tune
from support.tiny_reranker import separable

if TYPE_CHECKING:
    import torch

QUICK = Recipe(epochs=6, max_length=16, learning_rate=3e-3, batch_groups=4, checks_an_epoch=1, patience=10)
TRAIN, HELD_OUT = separable(40), separable(10, start=100)


def train_tiny(base: str, recipe: Recipe = QUICK, stop: Event | None = None) -> tuple[TrainableCrossEncoder, TrainingResult]:
    scorer = model.load(base, recipe.max_length, recipe.seed, "cpu")
    return scorer, fine_tune(scorer, TRAIN, HELD_OUT, recipe, stop or Event(), lambda done, of, best: None)


def test_training_separates_right_from_wrong(tiny_base: str) -> None:
    import torch

    untouched = model.load(tiny_base, 16, 0, "cpu").encoder.model.get_input_embeddings().weight
    scorer, done = train_tiny(tiny_base)
    assert done.checks[-1].loss < 0.5 * done.checks[0].loss
    assert done.best is not None
    assert done.best.ndcg == max(check.ndcg for check in done.checks) > 0.99
    right, wrong = scorer.scores([("zinc lung", "pain right"), ("zinc lung", "pain wrong")])
    assert right > wrong
    assert (done.steps, done.planned, done.pairs) == (60, 60, 6 * 160)
    assert torch.equal(scorer.encoder.model.get_input_embeddings().weight.cpu(), untouched.cpu())


def test_the_same_seed_gives_the_same_model(tiny_base: str) -> None:
    import torch

    short = Recipe(epochs=1, max_length=16, batch_groups=8, learning_rate=1e-3, seed=4)
    pairs = [("zinc lung", "pain right"), ("bone", "late wrong")]
    before = torch.random.get_rng_state()
    first, second = (train_tiny(tiny_base, short)[0].scores(pairs) for _ in range(2))
    assert first == second
    assert torch.equal(before, torch.random.get_rng_state())
    other = Recipe(epochs=1, max_length=16, batch_groups=8, learning_rate=1e-3, seed=5)
    assert train_tiny(tiny_base, other)[0].scores(pairs) != first


def test_training_stops_without_improvement_and_keeps_the_best_weights(tiny_base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    figures = iter((0.3, 0.9, 0.5, 0.5))
    checkpoints: list[dict[str, torch.Tensor]] = []

    def measure(held_out: object, scores: object) -> float:
        checkpoints.append({name: weight.clone() for name, weight in scorer.encoder.model.state_dict().items()})
        return next(figures)

    monkeypatch.setattr(loop, "mean_ndcg", measure)
    scorer = model.load(tiny_base, 16, 0, "cpu")
    recipe = Recipe(epochs=50, max_length=16, batch_groups=8, checks_an_epoch=1, patience=2, learning_rate=1e-3)
    done = fine_tune(scorer, TRAIN, HELD_OUT, recipe, Event(), lambda done, of, best: None)
    assert (len(done.checks), done.steps, done.best) == (4, 20, done.checks[1])
    assert "2 checks" in done.ended
    now = scorer.encoder.model.state_dict()
    assert all(torch.equal(now[name], checkpoints[1][name]) for name in now)
    assert any(not torch.equal(now[name], checkpoints[3][name]) for name in now)


def test_a_stop_before_the_first_check_has_no_best(tiny_base: str) -> None:
    stop = Event()
    stop.set()
    done = train_tiny(tiny_base, stop=stop)[1]
    assert (done.ended, done.best, done.steps) == (loop.INTERRUPTED, None, 0)


def test_batches_hold_every_group_once() -> None:
    batches = loop.make_batches(TRAIN, 3, make_generator(0))
    assert sorted(group.source for batch in batches for group in batch) == sorted(group.source for group in TRAIN)
    assert max(map(len, batches)) == 3


def test_out_of_memory_halves_the_batch_and_continues(tiny_base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    whole = TrainableCrossEncoder.logits
    sizes: list[int] = []

    def small(self: TrainableCrossEncoder, pairs: list[tuple[str, str]]) -> torch.Tensor:
        if len(pairs) > 8:
            raise torch.OutOfMemoryError("CUDA out of memory")
        sizes.append(len(pairs))
        return whole(self, pairs)

    monkeypatch.setattr(TrainableCrossEncoder, "logits", small)
    scorer, done = train_tiny(tiny_base, Recipe(epochs=1, max_length=16, batch_groups=8, learning_rate=1e-3))
    assert done.steps == 5
    assert set(sizes) == {8}
    assert scorer.at_once == 8


def test_too_little_memory_for_any_batch_is_an_error(tiny_base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: TrainableCrossEncoder, pairs: object) -> torch.Tensor:
        raise RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes")

    monkeypatch.setattr(TrainableCrossEncoder, "logits", full)
    with pytest.raises(ModelUnavailable, match="--max-length"):
        train_tiny(tiny_base)


def test_another_failure_is_not_handled_as_out_of_memory(tiny_base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: TrainableCrossEncoder, pairs: object) -> torch.Tensor:
        raise RuntimeError("size mismatch")

    monkeypatch.setattr(TrainableCrossEncoder, "logits", broken)
    with pytest.raises(RuntimeError, match="size mismatch"):
        train_tiny(tiny_base)


def test_batched_scores_have_the_order_of_the_pairs(tiny_base: str) -> None:
    scorer = model.load(tiny_base, 16, 0, "cpu")
    pairs = [("zinc", "right " * n) for n in (1, 9, 3, 7, 2)]
    alone = [scorer.scores([pair])[0] for pair in pairs]
    scorer.at_once = 2
    assert scorer.scores(pairs) == pytest.approx(alone, abs=1e-5)
    assert scorer.scores([]) == []
