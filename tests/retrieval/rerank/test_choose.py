from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from pydantic import SecretStr

from outrider.retrieval.rerank import choose
from outrider.retrieval.rerank.choose import NOT_PROBED, OTHER_SETTINGS, SWITCHED_OFF, named, reranker_of, rerankers_at_hand
from outrider.retrieval.rerank.cross_encoder import CrossEncoderReranker
from outrider.retrieval.rerank.endpoint import EndpointReranker
from outrider.retrieval.rerank.late_interaction import LateInteraction
from outrider.settings.model import RerankerSettings
from outrider.state.embedding import EmbeddingSpace, TextRole
from outrider.state.errors import BadRequest, ModelUnavailable
from outrider.state.reranking import Verdict

AUTO = RerankerSettings()
LATE = "late-interaction with tiny"


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
    said = {"before": 0.5, "after": 0.6, "p": 0.01, "queries": 100, "depth": 50, "weight": 0.5, "seed": 0, "snapshot": "x@1"}
    why = f"{reranker} is {effect}"
    return Verdict.model_validate({**said, "reranker": reranker, "effect": effect, "judged_at": judged_at, "why": why, **fields})


@pytest.fixture(autouse=True)
def _no_weights_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "on_this_machine", lambda _: False)


def test_auto_is_off_until_a_probe_has_been_run_and_says_so() -> None:
    assert reranker_of(AUTO, Embedder(), []) == (None, NOT_PROBED)


def test_auto_runs_what_the_last_probe_chose_and_says_why() -> None:
    reranker, why = reranker_of(AUTO, Embedder(), [verdict(LATE, chosen=True), verdict("other")])
    assert isinstance(reranker, LateInteraction)
    assert (reranker.name, why) == (LATE, f"{LATE} is better")


def test_auto_runs_none_where_the_last_probe_found_none_whatever_an_older_one_said() -> None:
    older = verdict(LATE, chosen=True, judged_at="2026-01-01T00:00:00+00:00")
    reranker, why = reranker_of(AUTO, Embedder(), [verdict(LATE, "unclear", after=0.51), verdict("m", "worse", after=0.3), older])
    assert reranker is None
    assert "late-interaction with tiny is unclear" in why


def test_a_verdict_about_another_model_depth_or_weight_does_not_count() -> None:
    reranker, why = reranker_of(AUTO, Embedder(), [verdict("late-interaction with another", chosen=True)])
    assert reranker is None
    assert "late-interaction with another" in why
    assert "probe` again" in why
    assert reranker_of(AUTO, Embedder(), [verdict(LATE, chosen=True, weight=1.0)]) == (None, OTHER_SETTINGS)
    assert reranker_of(AUTO, Embedder(), [verdict(LATE, chosen=True, depth=10)]) == (None, OTHER_SETTINGS)


def test_asked_for_one_runs_whatever_was_found_out() -> None:
    for verdicts in ([], [verdict(LATE, "worse")]):
        reranker, _ = reranker_of(AUTO, Embedder(), verdicts, asked=True)
        assert reranker is not None
        assert reranker.name == LATE
    assert reranker_of(RerankerSettings(model_name="none"), Embedder(), [], asked=True) == (None, SWITCHED_OFF)
    reranker, why = reranker_of(AUTO, Embedder(ModelUnavailable("no weights")), [], asked=True)
    assert reranker is None
    assert "reranker.model_name" in why


def test_a_named_one_runs_unless_it_was_found_to_do_harm() -> None:
    settings = RerankerSettings(model_name="somebody/model")
    reranker, why = reranker_of(settings, None, [])
    assert isinstance(reranker, CrossEncoderReranker)
    assert reranker.downloads
    assert "not probed" in why
    assert reranker_of(settings, None, [verdict("somebody/model", "unclear")])[0] is reranker, "it is made once"
    assert reranker_of(settings, None, [verdict("somebody/model", "worse")]) == (None, "somebody/model is worse")
    assert reranker_of(settings, None, [verdict("somebody/model", "worse")], asked=True)[0] is reranker
    newer = verdict("somebody/model", "better", judged_at="2026-12-01T00:00:00+00:00")
    assert reranker_of(settings, None, [newer, verdict("somebody/model", "worse")])[0] is reranker


def test_what_is_missing_is_a_reason_and_no_error() -> None:
    settings = RerankerSettings(model_name="late-interaction")
    assert reranker_of(settings, Embedder(ModelUnavailable("no weights")), []) == (None, "no weights")
    reranker, why = reranker_of(settings, None, [])
    assert reranker is None
    assert "embedding.model_name" in why


def test_an_endpoint_serves_the_name() -> None:
    settings = RerankerSettings(model_name="m", base_url="http://localhost:1", api_key=SecretStr("k"), timeout_s=7)
    reranker = named("m", settings, None)
    assert isinstance(reranker, EndpointReranker)
    assert (reranker.name, reranker.api_key, reranker.timeout_s) == ("m at http://localhost:1", "k", 7)
    auto = RerankerSettings(base_url="http://localhost:1")
    name = "reranker at http://localhost:1"
    found, _ = reranker_of(auto, Embedder(), [verdict(name, chosen=True)])
    assert found is not None
    assert found.name == name
    assert reranker_of(auto, Embedder(), [verdict(LATE, chosen=True)])[0].name == LATE  # type: ignore[union-attr]


def test_a_probe_compares_what_is_at_hand_and_downloads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "on_this_machine", lambda name: name.startswith("BAAI"))
    found = rerankers_at_hand(RerankerSettings(model_name="somebody/model"), Embedder())
    assert [one.name for one in found] == ["somebody/model", LATE, "BAAI/bge-reranker-v2-m3"]
    assert not found[2].downloads  # type: ignore[attr-defined]
    assert [one.name for one in rerankers_at_hand(AUTO, Embedder(ModelUnavailable("none")))] == ["BAAI/bge-reranker-v2-m3"]


@pytest.mark.parametrize("name", ["auto", "none"])
def test_auto_and_none_name_no_reranker(name: str) -> None:
    with pytest.raises(BadRequest, match="names no reranker"):
        named(name, AUTO, None)
