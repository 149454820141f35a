from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.distiller.engines.ensemble import MAX_LOGIT, Ensemble, EnsembleWeights, fit_weights, logit, probability
from outrider.distiller.units import segment_text
from outrider.state.distilling import Reading
from outrider.state.errors import BadRequest
from support.distiller_fakes import Fixed

CUTS = [segment_text(Reading("a", "One. Two. Three.")), segment_text(Reading("b", "Four."))]


@given(st.floats(-MAX_LOGIT, MAX_LOGIT))
def test_logit_inverts_probability(value: float) -> None:
    assert logit(probability(value)) == pytest.approx(value, abs=1e-6)


@given(st.floats(0, 1))
def test_logits_of_all_probabilities_are_numbers(value: float) -> None:
    assert abs(logit(value)) <= MAX_LOGIT + 1e-9


def test_without_weights_it_is_the_mean_of_logits() -> None:
    ensemble = Ensemble((Fixed([0.9, 0.5]), Fixed([0.1, 0.8])))
    assert ensemble.scores("q", CUTS) == [pytest.approx([0.5, 2 / 3, 0.5]), pytest.approx([0.5])]


def test_weights_and_intercept_are_of_the_logits() -> None:
    ensemble = Ensemble((Fixed([0.9]), Fixed([0.2])), EnsembleWeights((2.0, -1.0), 0.5))
    expected = 0.5 + 2 * math.log(9) + math.log(4)
    assert logit(ensemble.scores("q", CUTS)[1][0]) == pytest.approx(expected)


def test_other_weights_or_weights_files_are_another_revision() -> None:
    engines = (Fixed([0.9]), Fixed([0.2]))
    revisions = {
        Ensemble(engines).revision,
        Ensemble(engines, EnsembleWeights((1.0, 1.0))).revision,
        Ensemble((engines[0], Fixed([0.2], revision="2"))).revision,
    }
    assert len(revisions) == 3
    assert Ensemble(engines).revision == Ensemble(engines, EnsembleWeights((0.5, 0.5))).revision
    assert Ensemble(engines).name == "fixed + fixed"


def test_an_invalid_ensemble_is_refused() -> None:
    with pytest.raises(BadRequest, match="at least one"):
        Ensemble(())
    with pytest.raises(BadRequest, match="as many weights"):
        Ensemble((Fixed([0.9]),), EnsembleWeights((1.0, 1.0)))
    with pytest.raises(BadRequest, match="some units answer"):
        fit_weights([[1.0], [2.0]], [True, True])


def test_the_fit_finds_the_weights_that_made_the_labels() -> None:
    rng = random.Random(0)
    rows = [[rng.gauss(0, 1), rng.gauss(0, 1)] for _ in range(4_000)]
    labels = [rng.random() < probability(2 * one - other - 0.5) for one, other in rows]
    weights = fit_weights(rows, labels)
    assert weights.each == pytest.approx((2.0, -1.0), abs=0.2)
    assert weights.intercept == pytest.approx(-0.5, abs=0.2)


def test_separable_labels_give_finite_weights() -> None:
    weights = fit_weights([[float(at)] for at in range(-10, 11) if at], [at > 0 for at in range(-10, 11) if at])
    assert 0 < weights.each[0] < 100
