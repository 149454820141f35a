from __future__ import annotations

import math
from itertools import pairwise
from types import SimpleNamespace

import pytest

from outrider.distiller.engines.classifier import OVERLAP_UNITS, Classifier, PairEncoder, relevance_logits
from outrider.distiller.engines.ensemble import logit
from outrider.distiller.units import SegmentedText, segment_text
from outrider.state.distilling import Reading
from outrider.state.errors import ModelUnavailable
from support.distiller_fakes import ODD
from support.extras import needs

pytestmark = needs("torch", "transformers")

LONG = "Aspirin lowers the risk of stroke. Mice sleep. It lowers risk in adults. " * 20


def _segment(text: str, title: str = "") -> SegmentedText:
    return segment_text(Reading("a", text, title))


def _make_encoder(folder: str) -> PairEncoder:
    from transformers import AutoTokenizer

    return PairEncoder(AutoTokenizer.from_pretrained(folder), 64)


def test_a_token_classifier_scores_a_unit_by_the_mean_of_its_tokens(classifier) -> None:  # type: ignore[no-untyped-def]
    import torch
    from transformers import AutoModelForTokenClassification, AutoTokenizer

    folder = classifier()
    scores = Classifier(folder, "cpu").scores("stroke", [_segment("Aspirin lowers risk. Mice sleep.")])[0]
    model, tokenizer = AutoModelForTokenClassification.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    with torch.inference_mode():
        logits = model(**tokenizer("stroke", "Aspirin lowers risk. Mice sleep.", return_tensors="pt")).logits[0, :, 0]
    assert [logit(one) for one in scores] == pytest.approx([float(logits[3:7].mean()), float(logits[7:10].mean())], abs=1e-4)


def test_a_sequence_classifier_reads_the_query_with_each_unit(classifier) -> None:  # type: ignore[no-untyped-def]
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = classifier("sequence")
    scores = Classifier(folder, "cpu").scores("stroke", [_segment("Aspirin lowers risk. Mice sleep.")])[0]
    model, tokenizer = AutoModelForSequenceClassification.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    with torch.inference_mode():
        expected = [
            float(model(**tokenizer("stroke", unit, return_tensors="pt")).logits[0, 0]) for unit in ("Aspirin lowers risk.", "Mice sleep.")
        ]
    assert [logit(one) for one in scores] == pytest.approx(expected, abs=1e-4)


def test_each_unit_of_a_long_text_is_scored_once_with_its_preceding_units(classifier) -> None:  # type: ignore[no-untyped-def]
    encoder, its = _make_encoder(classifier()), _segment(LONG, "stroke in adults")
    windows = list(encoder.windows(encoder.query("stroke"), its))
    assert len(windows) > 3
    assert [unit for window in windows for unit, _, _ in window.spans] == list(range(len(its.units)))
    assert all(len(window.ids) <= 64 for window in windows)
    for before, window in pairwise(windows):
        first = window.spans[0][1]
        known = before.ids[before.spans[-OVERLAP_UNITS][1] : before.spans[-1][2]]
        assert window.ids[first - len(known) : first] == known


def test_batched_texts_score_like_single_texts(classifier) -> None:  # type: ignore[no-untyped-def]
    engine, cuts = Classifier(classifier(), "cpu"), [_segment(LONG), _segment("Mice sleep."), _segment(""), _segment("risk of stroke")]
    together = engine.scores("stroke", cuts)
    assert [one for its in cuts for one in engine.scores("stroke", [its])[0]] == pytest.approx(
        [one for many in together for one in many], abs=1e-5
    )
    assert list(map(len, together)) == [len(its.units) for its in cuts]


@pytest.mark.parametrize("kind", ["token", "sequence"])
def test_odd_texts_have_a_probability_for_each_unit(classifier, kind: str) -> None:  # type: ignore[no-untyped-def]
    cuts = [_segment(text[:5_000]) for text in ODD]
    scores = Classifier(classifier(kind), "cpu").scores("", cuts)
    assert list(map(len, scores)) == [len(its.units) for its in cuts]
    assert all(0 <= one <= 1 for many in scores for one in many)


@pytest.mark.parametrize(
    ("labels", "logits", "odds"),
    [
        (("RELEVANT",), [1.5], 1.5),
        (("LABEL_0", "LABEL_1"), [1.0, 3.0], 2.0),
        (("entailment", "not_entailment"), [3.0, 1.0], 2.0),  # QNLI
        (("contradiction", "neutral", "entailment"), [1.0, 2.0, 1.0], math.log(2) - 1),  # both sides of a claim answer it
        (("drop", "keep"), [0.0, -1.0], -1.0),
    ],
)
def test_the_label_that_means_relevant(labels: tuple[str, ...], logits: list[float], odds: float) -> None:
    import torch

    config = SimpleNamespace(id2label=dict(enumerate(labels)))
    assert float(relevance_logits(torch.tensor([logits]), config)[0]) == pytest.approx(odds, abs=1e-5)


def test_a_model_that_is_no_classifier_is_refused(classifier) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ModelUnavailable, match="no classifier"):
        Classifier(classifier("none"), "cpu").scores("stroke", [_segment("Mice sleep.")])
    with pytest.raises(ModelUnavailable):
        Classifier("/no/such/folder", "cpu").scores("stroke", [_segment("Mice sleep.")])


def test_it_is_named_after_its_folder_and_known_by_its_weights(classifier) -> None:  # type: ignore[no-untyped-def]
    engine = Classifier(classifier(name="mine"), "cpu")
    assert engine.name == "classifier mine"
    assert engine.revision.startswith("sha256:")
