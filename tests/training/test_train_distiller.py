from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from outrider.distiller.calibration import LabelledText
from outrider.distiller.engines.classifier import Classifier
from outrider.distiller.units import segment_text
from outrider.state.distilling import Reading
from outrider.state.errors import BadRequest, ModelUnavailable
from outrider.training.train_distiller import Recipe, train
from support.extras import needs
from support.tiny_reranker import FILLER, THINGS, base

pytestmark = needs("transformers")
RECIPE = Recipe(epochs=6, learning_rate=3e-3, head_rate=3e-3, frozen_layers=1, max_length=64, dropout=0.0)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """With two threads, a model this small mostly waits for synchronization."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _case(at: int) -> LabelledText:
    """Three sentences; the one with "right" answers."""
    thing = THINGS[at % len(THINGS)]
    sentences = [f"{thing} {FILLER[(at + place) % 15]} wrong." for place in range(3)]
    sentences[at % 3] = f"{thing} {FILLER[at % 15]} right."
    text = " ".join(one.capitalize() for one in sentences)
    start = text.index(sentences[at % 3].capitalize())
    return LabelledText(thing, Reading(str(at), text), ((start, start + len(sentences[at % 3])),))


def test_it_learns_and_is_read_back_as_a_classifier(tmp_path: Path) -> None:
    losses: list[float] = []
    cases = [_case(at) for at in range(48)]
    result = train(base(tmp_path / "base"), cases, tmp_path / "out", RECIPE, lambda _, loss: losses.append(loss))
    assert (result.cases, len(result.losses), result.steps) == (48, 6, 36)
    assert losses == list(result.losses)
    engine = Classifier(str(tmp_path / "out"), "cpu")
    right = 0
    for at in range(48, 60):
        case = _case(at)
        (scores,) = engine.scores(case.query, [segment_text(case.reading)])
        right += scores.index(max(scores)) == at % 3
    assert right >= 10


def test_the_same_seed_gives_the_same_weights(tmp_path: Path) -> None:
    folder = base(tmp_path / "base")
    recipe = replace(RECIPE, epochs=1, dropout=0.1)
    losses = {train(folder, [_case(at) for at in range(20)], tmp_path / name, recipe).losses for name in "ab"}
    assert len(losses) == 1
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == (tmp_path / "b" / "model.safetensors").read_bytes()


def test_too_few_cases_or_a_missing_base_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="too few"):
        train("nowhere", [_case(0)], tmp_path / "out")
    with pytest.raises(ModelUnavailable):
        train("/no/such/folder", [_case(at) for at in range(30)], tmp_path / "out")
