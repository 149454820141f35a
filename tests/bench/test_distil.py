"""The measures of the distiller benchmark, on cases small enough to count by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from bench import distil, rationales
from bench.distil_speed import Speed, together
from bench.rationales import Case
from outrider.distiller.engines.ensemble import EnsembleWeights

SENTENCES = ["Mice sleep at night.", "Aspirin lowers risk.", "Cats purr.", "It helps adults."]


@pytest.fixture
def case() -> Case:
    return rationales._case("1", "aspirin", {"id": "d", "title": "", "sentences": SENTENCES}, {1, 3})


def test_marked_sentences_are_found_among_the_units(case: Case) -> None:
    assert [case.its.text(at) for at in sorted(case.right)] == ["Aspirin lowers risk.", "It helps adults."]
    assert case.half == 2


def test_the_share_at_half_counts_sentences(case: Case) -> None:
    assert distil.share_at_half([case], {0: [0.1, 0.9, 0.8, 0.2]}, [0]) == 0.5
    assert distil.share_at_half([case, case], {0: [0.1, 0.9, 0.8, 0.2], 1: [0.0, 1.0, 0.0, 1.0]}, [0, 1]) == 0.75


def test_ties_go_to_the_first(case: Case) -> None:
    assert distil.share_at_half([case], {0: [0.5] * 4}, [0]) == 0.5


def test_the_best_threshold_keeps_95_of_100(case: Case) -> None:
    scores = [[1.0, at / 100, 1.0, 1.0] for at in range(100)]
    threshold = distil.best_threshold([case] * 100, scores)
    assert sum(distil.weakest(case, one) >= threshold for one in scores) == 95


def test_weights_are_of_logits() -> None:
    scores = distil.weighted(["a", "b"], EnsembleWeights((1.0, 1.0)), {"a": {0: [0.5, 0.9]}, "b": {0: [0.5, 0.1]}})
    assert scores == {0: [0.5, pytest.approx(0.5)]}


def test_a_claim_is_on_one_side_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "ir" / "scifact"
    folder.mkdir(parents=True)
    rows = {
        "corpus": [{"id": f"d{at}", "title": "", "sentences": SENTENCES} for at in range(3)],
        "queries": [{"id": str(at), "text": "aspirin"} for at in range(20)],
        "rationales": [{"query": str(at), "doc": f"d{place}", "sentences": [place]} for at in range(20) for place in range(3)],
    }
    for name, many in rows.items():
        with gzip.open(folder / f"{name}.jsonl.gz", "wt", encoding="utf-8") as lines:
            lines.writelines(json.dumps(row) + "\n" for row in many)
    monkeypatch.setenv("OUTRIDER_DATA", str(tmp_path))
    train, held_out = rationales.halves(rationales.cases())
    assert len(train) + len(held_out) == 60
    assert not {case.claim for case in train} & {case.claim for case in held_out}
    assert train
    assert held_out


def test_a_split_whose_scores_are_perfect_keeps_all_and_removes_the_rest(case: Case) -> None:
    every = [Case(str(at), case.labelled, case.its, case.right) for at in range(100)]
    worth = distil.worth_of(every, {at: [0.0, 1.0, 0.0, 1.0] for at in range(100)})
    split = distil.split(every, worth, 0)
    assert (split.whole, len(split.tested)) == (1.0, 50)
    kept_chars = sum(map(len, SENTENCES[1:4]))
    assert split.removed(every, worth) == pytest.approx(1 - kept_chars / len(" ".join(SENTENCES)))


def test_a_fold_is_scored_with_weights_of_the_others(case: Case) -> None:
    """The labels of a claim change the scores of the other folds, never of its own."""
    every = [Case(str(at), case.labelled, case.its, case.right) for at in range(20)]
    fair = {at: [0.2, 0.8, 0.3, 0.6 + at / 100] for at in range(20)}
    own = distil.cross_fitted(["one"], every, {"one": fair})
    turned = [Case(one.claim, one.labelled, one.its, frozenset({0, 2})) if at == 0 else one for at, one in enumerate(every)]
    other = distil.cross_fitted(["one"], turned, {"one": fair})
    assert own[0] == other[0]
    assert sum(own[at] != other[at] for at in range(20)) >= 15


def test_an_ensemble_takes_the_time_of_its_members() -> None:
    one, other = Speed((1.0, 2.0), (0.0, 0.0), (10, 20)), Speed((3.0, 2.0), (2.0, 3.0), (10, 20))
    both = together([one, other])
    assert (both.seconds, both.took, both.tokens_a_second) == ((4.0, 4.0), 4.0, 3.75)
    assert (one.to_the_model_alone, both.to_the_model_alone) == (None, 0.625)


def test_a_missing_collection_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_DATA", str(tmp_path))
    report = distil.run()
    assert report.rows == ()
    assert report.notes[0].startswith("skipped")
