from __future__ import annotations

import math
import shutil
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from outrider.distiller.engines.classifier import OVERLAP_UNITS, Classifier, PairEncoder, relevance_logits
from outrider.distiller.engines.ensemble import MAX_LOGIT, logit
from outrider.distiller.units import SegmentedText, segment_text
from outrider.interfaces.cli import run
from outrider.models import loading
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


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_deberta_with_a_token_head_scores_a_unit_by_the_mean_of_its_tokens(deberta: Any, version: str) -> None:
    """The architecture of DeBERTa itself, relative positions and all, against its own tokens of the pair."""
    import torch
    from transformers import AutoModelForTokenClassification, AutoTokenizer

    folder = deberta("token", version)
    scores = Classifier(folder, "cpu").scores("stroke", [_segment("Aspirin lowers risk. Mice sleep.")])[0]
    model, tokenizer = AutoModelForTokenClassification.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    pair = tokenizer("stroke", "Aspirin lowers risk. Mice sleep.", return_tensors="pt")
    assert type(model).__name__ == "DebertaV2ForTokenClassification"
    assert tokenizer.convert_ids_to_tokens(pair["input_ids"][0])[3:7] == ["\u2581aspirin", "\u2581lowers", "\u2581risk", "."]
    with torch.inference_mode():
        logits = model(**pair).logits[0]
    odds = logits[:, 1] - logits[:, 0]
    assert [logit(one) for one in scores] == pytest.approx([float(odds[3:7].mean()), float(odds[7:10].mean())], abs=1e-4)
    assert abs(scores[0] - scores[1]) > 0.01


@pytest.mark.parametrize("labels", [("LABEL_0",), ("IRRELEVANT", "RELEVANT"), ("contradiction", "entailment", "neutral")])
@pytest.mark.parametrize("version", ["v2", "v3"])
def test_deberta_with_a_sequence_head_reads_the_query_with_each_unit(deberta: Any, version: str, labels: tuple[str, ...]) -> None:
    """A cross-encoder of one label, a classifier of two, and natural language inference of three."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = deberta("sequence", version, labels)
    units = ("Aspirin lowers risk.", "Mice sleep.")
    scores = Classifier(folder, "cpu").scores("stroke", [_segment(" ".join(units))])[0]
    model, tokenizer = AutoModelForSequenceClassification.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    expected = []
    for unit in units:
        with torch.inference_mode():
            logits = model(**tokenizer("stroke", unit, return_tensors="pt")).logits[0]
        odds = {1: lambda z: z[0], 2: lambda z: z[1] - z[0], 3: lambda z: torch.logsumexp(z[:2], 0) - z[2]}[len(labels)]
        expected.append(max(-MAX_LOGIT, min(MAX_LOGIT, float(odds(logits)))))
    assert [logit(one) for one in scores] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("kind", ["token", "sequence"])
def test_deberta_scores_long_and_odd_texts(deberta: Any, kind: str) -> None:
    engine = Classifier(deberta(kind, "v3"), "cpu")
    for text in (LONG, *ODD):
        cut = _segment(text)
        (scores,) = engine.scores("stroke in adults", [cut])
        assert len(scores) == len(cut.units)
        assert all(0 <= score <= 1 for score in scores)


@pytest.mark.parametrize("kind", ["token", "sequence"])
@pytest.mark.parametrize("base", ["bert", "deberta"])
def test_a_folder_without_a_tokenizer_is_refused(classifier: Any, deberta: Any, base: str, kind: str) -> None:
    """transformers makes one of special tokens alone, to which all texts look alike."""
    folder = classifier(kind) if base == "bert" else deberta(kind, "v3")
    _remove_tokenizer(folder)
    with pytest.raises(ModelUnavailable, match=r"has no tokenizer: .* holds none of .*tokenizer\.json.*distiller\.model_name"):
        Classifier(folder, "cpu").scores("stroke", [_segment("Mice sleep.")])


def _remove_tokenizer(folder: str) -> None:
    for path in (*Path(folder).glob("token*"), *Path(folder).glob("vocab*")):
        path.unlink()


def test_the_command_reports_a_folder_without_a_tokenizer(
    deberta: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line on standard error, exit code 3, no traceback and no context."""
    good = deberta("token", "v3")
    bad = str(shutil.copytree(good, tmp_path / "bad"))
    _remove_tokenizer(bad)
    (tmp_path / "a.txt").write_text(LONG)
    monkeypatch.setenv("OUTRIDER_LIBRARY", str(tmp_path / "library"))
    monkeypatch.setenv("OUTRIDER_EMBEDDING__MODEL_NAME", "none")
    command = ["distill", "stroke", str(tmp_path / "a.txt"), "--engine", "classifier", "--no-bypass", "--model"]
    assert run([*command, good]) == 0
    assert capsys.readouterr().out
    assert run([*command, bad]) == 3
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "has no tokenizer" in printed.err
    assert "Traceback" not in printed.err


def test_a_sentencepiece_tokenizer_without_its_packages_says_what_to_install(deberta: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many DeBERTa-v3 folders hold spm.model alone; the reader's own message names a line that cannot be parsed."""
    folder = deberta("token", "v3")
    _remove_tokenizer(folder)
    (Path(folder) / "spm.model").write_bytes(b"\x0a\x0e\x0a\x05<unk>\x15\x00\x00\x00\x00\x18\x02")
    monkeypatch.setattr(loading, "find_spec", lambda name: None)
    with pytest.raises(ModelUnavailable, match="pip install sentencepiece protobuf"):
        Classifier(folder, "cpu").scores("stroke", [_segment("Mice sleep.")])
