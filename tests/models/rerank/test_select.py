from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import SecretStr

from outrider.models.rerank import select as choose
from outrider.models.rerank import select as revision
from outrider.models.rerank.cross_encoder import CrossEncoderReranker
from outrider.models.rerank.endpoint import EndpointReranker
from outrider.models.rerank.late_interaction import LateInteraction
from outrider.models.rerank.select import (
    CACHED_MODELS,
    NOT_EVALUATED,
    NOT_FETCHED,
    NOT_PROBED,
    OTHER_SETTINGS,
    REQUESTED,
    SWITCHED_OFF,
    WEIGHTS_CHANGED,
    choose_reranker,
    list_rerankers,
    make_reranker,
)
from outrider.models.weights import Weights
from outrider.settings.model import RerankerSettings
from outrider.state.embedding import EmbeddingSpace, TextRole
from outrider.state.errors import BadRequest, BadVectors, MissingExtra, ModelUnavailable
from outrider.state.reranking import Verdict

AUTO = RerankerSettings()
LATE = "late-interaction with tiny"
COMMIT = "a" * 40
PRESET = "BAAI/bge-reranker-v2-m3"


class Embedder:
    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    @property
    def space(self) -> EmbeddingSpace:
        if self._error:
            raise self._error
        return EmbeddingSpace(model_name="tiny", revision="1", dimension=2, context_length=8)

    def token_vectors(self, texts: Sequence[str], role: TextRole) -> list[np.ndarray]:
        if self._error:
            raise self._error
        return [np.eye(2, dtype=np.float32) for _ in texts]


def verdict(reranker: str, effect: str = "better", judged_at: str = "2026-09-21T12:00:00+00:00", **fields: Any) -> Verdict:
    revision = "1" if reranker.startswith("late") else reranker if " at " in reranker else COMMIT
    values = {
        "revision": revision,
        "before": 0.5,
        "after": 0.6,
        "p": 0.01,
        "queries": 100,
        "depth": 50,
        "weight": 0.5,
        "seed": 0,
        "snapshot": "x@1",
    }
    why = f"{reranker} is {effect}"
    return Verdict.model_validate({**values, "reranker": reranker, "effect": effect, "judged_at": judged_at, "why": why, **fields})


@pytest.fixture(autouse=True)
def _no_weights_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "is_on_this_machine", lambda _: False)


@pytest.fixture
def cached(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub's cache holds every model."""
    monkeypatch.setattr(revision, "find_weights", lambda name, **_: Weights(name, Path("cache"), COMMIT))
    monkeypatch.setattr(choose, "is_on_this_machine", lambda _: True)


def trained(folder: Path, weights: str = "weights") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_text(weights)
    return folder


def test_auto_is_off_until_an_evaluation_has_run_and_reports_it() -> None:
    assert choose_reranker(AUTO, Embedder(), []) == (None, NOT_PROBED)


def test_auto_runs_what_the_last_evaluation_chose_and_gives_the_reason() -> None:
    reranker, why = choose_reranker(AUTO, Embedder(), [verdict(LATE, chosen=True), verdict("other")])
    assert isinstance(reranker, LateInteraction)
    assert (reranker.name, why) == (LATE, f"{LATE} is better")


def test_auto_runs_none_where_the_last_evaluation_chose_none_whatever_an_older_one_chose() -> None:
    older = verdict(LATE, chosen=True, judged_at="2026-01-01T00:00:00+00:00")
    reranker, why = choose_reranker(AUTO, Embedder(), [verdict(LATE, "unclear", after=0.51), verdict("m", "worse", after=0.3), older])
    assert reranker is None
    assert "late-interaction with tiny is unclear" in why


def test_a_verdict_about_another_model_depth_or_weight_does_not_count() -> None:
    reranker, why = choose_reranker(AUTO, Embedder(), [verdict("late-interaction with another", chosen=True)])
    assert reranker is None
    assert "late-interaction with another" in why
    assert "probe` again" in why
    assert choose_reranker(AUTO, Embedder(), [verdict(LATE, chosen=True, weight=1.0)]) == (None, OTHER_SETTINGS)
    assert choose_reranker(AUTO, Embedder(), [verdict(LATE, chosen=True, depth=10)]) == (None, OTHER_SETTINGS)


def test_when_requested_one_runs_whatever_was_evaluated() -> None:
    for verdicts in ([], [verdict(LATE, "worse")]):
        reranker, _ = choose_reranker(AUTO, Embedder(), verdicts, requested=True)
        assert reranker is not None
        assert reranker.name == LATE
    assert choose_reranker(RerankerSettings(model_name="none"), Embedder(), [], requested=True) == (None, SWITCHED_OFF)
    reranker, why = choose_reranker(AUTO, Embedder(ModelUnavailable("no weights")), [], requested=True)
    assert reranker is None
    assert "reranker.model_name" in why


@pytest.mark.usefixtures("cached")
def test_a_named_one_runs_unless_it_was_found_to_do_harm() -> None:
    settings = RerankerSettings(model_name="somebody/model")
    reranker, why = choose_reranker(settings, None, [])
    assert isinstance(reranker, CrossEncoderReranker)
    assert reranker.downloads
    assert "not probed" in why
    assert choose_reranker(settings, None, [verdict("somebody/model", "unclear")])[0] is reranker, "it is made once"
    assert choose_reranker(settings, None, [verdict("somebody/model", "worse")]) == (None, "somebody/model is worse")
    assert choose_reranker(settings, None, [verdict("somebody/model", "worse")], requested=True)[0] is reranker
    newer = verdict("somebody/model", "better", judged_at="2026-12-01T00:00:00+00:00")
    assert choose_reranker(settings, None, [newer, verdict("somebody/model", "worse")])[0] is reranker


def test_what_is_missing_is_a_reason_and_no_error() -> None:
    settings = RerankerSettings(model_name="late-interaction")
    assert choose_reranker(settings, Embedder(ModelUnavailable("no weights")), []) == (None, "no weights")
    reranker, why = choose_reranker(settings, None, [])
    assert reranker is None
    assert "embedding.model_name" in why


def test_an_endpoint_serves_the_name() -> None:
    settings = RerankerSettings(model_name="m", base_url="http://localhost:1", api_key=SecretStr("k"), timeout_s=7)
    reranker = make_reranker("m", settings, None)
    assert isinstance(reranker, EndpointReranker)
    assert (reranker.name, reranker.api_key, reranker.timeout_s) == ("m at http://localhost:1", "k", 7)
    auto = RerankerSettings(base_url="http://localhost:1")
    name = "reranker at http://localhost:1"
    selected, _ = choose_reranker(auto, Embedder(), [verdict(name, chosen=True)])
    assert selected is not None
    assert selected.name == name
    assert choose_reranker(auto, Embedder(), [verdict(LATE, chosen=True)])[0].name == LATE  # type: ignore[union-attr]


def test_an_evaluation_compares_installed_models_and_downloads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "is_on_this_machine", lambda name: name.startswith("BAAI"))
    candidates = list_rerankers(RerankerSettings(model_name="somebody/model"), Embedder())
    assert [one.name for one in candidates] == ["somebody/model", PRESET, LATE]
    assert not candidates[1].downloads  # type: ignore[attr-defined]
    assert [one.name for one in list_rerankers(AUTO, Embedder(ModelUnavailable("none")))] == [PRESET]


@pytest.mark.parametrize("name", ["auto", "none"])
def test_auto_and_none_name_no_reranker(name: str) -> None:
    with pytest.raises(BadRequest, match="names no reranker"):
        make_reranker(name, AUTO, None)


def test_a_verdict_is_of_weights_and_no_longer_counts_when_the_folder_is_trained_into_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = trained(tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    own = make_reranker("mine", AUTO, None)
    assert own.name == str(folder.resolve()), "another working directory must not mean another folder"
    assert make_reranker(str(folder), AUTO, None).name == own.name
    stored = [verdict(own.name, chosen=True, revision=revision.find_revision(own))]
    monkeypatch.chdir("/")
    before, why = choose_reranker(AUTO, None, stored)
    assert before is not None
    assert (before.name, why) == (own.name, stored[0].why)
    assert choose_reranker(AUTO, None, stored)[0] is before, "it holds its loaded model"
    trained(folder, "others")
    reranker, why = choose_reranker(AUTO, None, stored)
    assert reranker is None
    assert "not those that the last probe judged" in why
    harm = [verdict(own.name, "worse", revision=stored[0].revision)]
    reranker, why = choose_reranker(RerankerSettings(model_name=str(folder)), None, harm)
    assert why == WEIGHTS_CHANGED
    assert reranker is not None
    assert reranker is not before, "the old weights may be loaded in it"


@pytest.mark.usefixtures("cached")
def test_a_verdict_that_names_no_weights_or_another_commit_counts_for_nothing() -> None:
    for other in ("", "b" * 40):
        reranker, why = choose_reranker(AUTO, Embedder(), [verdict("somebody/model", chosen=True, revision=other)])
        assert reranker is None
        assert "run `outrider library probe` again" in why
        settings = RerankerSettings(model_name="somebody/model")
        assert choose_reranker(settings, None, [verdict("somebody/model", "worse", revision=other)])[1] == WEIGHTS_CHANGED
    assert choose_reranker(AUTO, Embedder(), [verdict(LATE, chosen=True, revision="2")])[0] is None


def test_what_was_judged_and_is_gone_is_reported() -> None:
    reranker, why = choose_reranker(AUTO, None, [verdict("/no/where", chosen=True)])
    assert reranker is None
    assert "/no/where, which is not available" in why


def test_a_named_one_whose_weights_are_missing_is_reported_before_a_search_needs_it(tmp_path: Path) -> None:
    reranker, why = choose_reranker(RerankerSettings(model_name="no/such-model"), None, [])
    assert reranker is not None
    assert why == NOT_FETCHED
    (tmp_path / "empty").mkdir()
    for name, what in ((str(tmp_path / "nowhere"), "no such folder"), (str(tmp_path / "empty"), "no config.json")):
        reranker, why = choose_reranker(RerankerSettings(model_name=name), None, [])
        assert reranker is None
        assert what in why
    assert choose_reranker(RerankerSettings(model_name=str(trained(tmp_path / "mine"))), None, [])[1] == NOT_EVALUATED


@pytest.mark.parametrize("error", [ModelUnavailable("an endpoint gives no token vectors"), BadVectors("NaN"), MissingExtra("a", "b")])
def test_late_interaction_without_token_vectors_is_off_and_gives_the_reason(error: Exception) -> None:
    class Endpoint(Embedder):
        def token_vectors(self, texts: Sequence[str], role: TextRole) -> list[np.ndarray]:
            raise error

    settings = RerankerSettings(model_name="late-interaction")
    for requested in (False, True):
        assert choose_reranker(settings, Endpoint(), [], requested=requested) == (None, str(error))
    assert list_rerankers(settings, Endpoint()) == []


@pytest.mark.usefixtures("cached")
def test_when_requested_the_best_of_the_last_evaluation_runs_then_what_it_did_not_judge_then_what_does_harm() -> None:
    def select(*verdicts: Verdict) -> tuple[str, str]:
        reranker, why = choose_reranker(AUTO, Embedder(), verdicts, requested=True)
        assert reranker is not None
        return reranker.name, why

    assert select() == ("Qwen/Qwen3-Reranker-0.6B", REQUESTED), "cross-encoders come before late interaction"
    unclear, worse = verdict(PRESET, "unclear", after=0.52), verdict("Qwen/Qwen3-Reranker-0.6B", "worse", after=0.4)
    assert select(verdict(LATE, "unclear", after=0.51), unclear, worse) == (PRESET, unclear.why)
    assert select(worse) == (PRESET, REQUESTED)
    assert select(verdict(LATE, "unclear", after=0.51, revision="2"), worse) == (PRESET, REQUESTED)
    names = ("Qwen/Qwen3-Reranker-0.6B", PRESET, "cross-encoder/ms-marco-MiniLM-L6-v2", LATE)
    harmful = [verdict(name, "worse", after=0.4 - at / 100) for at, name in enumerate(names)]
    assert select(*harmful) == (names[0], harmful[0].why)


@pytest.mark.usefixtures("cached")
def test_few_are_kept_and_a_second_call_gives_the_same() -> None:
    choose._cross_encoder.cache_clear()
    stored = [verdict("Qwen/Qwen3-Reranker-0.6B", "unclear", revision=""), verdict(PRESET, "worse")]
    first, _ = choose_reranker(AUTO, None, stored, requested=True)
    assert choose_reranker(AUTO, None, stored, requested=True)[0] is first, "it holds its loaded model"
    for at in range(5):
        choose_reranker(RerankerSettings(model_name=f"somebody/model-{at}"), None, [])
    assert choose._cross_encoder.cache_info().currsize == CACHED_MODELS


@pytest.mark.usefixtures("cached")
def test_a_preset_that_an_evaluation_chose_runs_even_with_an_endpoint() -> None:
    settings = RerankerSettings(base_url="http://localhost:1")
    reranker, _ = choose_reranker(settings, None, [verdict(PRESET, chosen=True)])
    assert isinstance(reranker, CrossEncoderReranker)
