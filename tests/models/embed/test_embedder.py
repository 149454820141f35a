"""What holds of every model: inputs, choice, loading once. Tiny BERTs with random weights, and no model at all."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pydantic import SecretStr

from outrider.models import weights
from outrider.models.embed import embedder as module
from outrider.models.embed.embedder import Embedder
from outrider.models.embed.presets import SMALL
from outrider.settings.model import EmbeddingSettings
from outrider.state.errors import BadRequest, MissingExtra, ModelUnavailable
from outrider.state.ports import TextEmbedder

MakeModel = Callable[..., Path]


@pytest.fixture
def no_weights_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    constants = pytest.importorskip("huggingface_hub", reason="needs outrider[models]").constants
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:1")


def test_it_implements_the_port(tiny: MakeModel) -> None:
    port: TextEmbedder = Embedder(str(tiny()))
    assert port.space.dimension == 16


def test_shapes_and_lengths(tiny: MakeModel) -> None:
    model = Embedder(str(tiny()))
    one, many, none = model.embed("a b"), model.embed(["a b", "c"]), model.embed([])
    assert (one.shape, many.shape, none.shape) == ((1, 16), (2, 16), (0, 16))
    assert one.dtype == many.dtype == none.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(many, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(many[0], one[0], atol=1e-5)


def test_encode_is_embed_under_the_name_of_sentence_transformers(tiny: MakeModel) -> None:
    model = Embedder(str(tiny()))
    np.testing.assert_array_equal(model.encode("a b"), model.embed("a b"))
    np.testing.assert_array_equal(model.encode(["a b", "c"], role="query"), model.embed(["a b", "c"], role="query"))


def test_without_normalisation_vectors_keep_their_length(tiny: MakeModel) -> None:
    folder = str(tiny())
    raw, scaled = Embedder(folder, normalize_embeddings=False), Embedder(folder)
    assert not raw.space.normalized
    assert raw.space.id != scaled.space.id
    assert abs(float(np.linalg.norm(raw.embed("a"))) - 1) > 0.01


@pytest.mark.parametrize("empty", ["", "  \n\t"])
def test_an_empty_text_is_refused_and_reported_among_others(tiny: MakeModel, empty: str) -> None:
    model = Embedder(str(tiny()))
    with pytest.raises(BadRequest, match=r"text 2 of 2 cannot be embedded by .*the text is empty"):
        model.embed(["a", empty])
    counts: list[tuple[int, int]] = []
    first, second = model.embed_each([empty, "a"], progress=lambda done, of: counts.append((done, of)))
    assert first.vector is None
    assert first.problem == "the text is empty"
    assert second.vector is not None
    assert counts == [(2, 2)]


def test_a_text_of_nothing_that_the_model_reads_is_a_problem(tiny: MakeModel) -> None:
    (answer,) = Embedder(str(tiny())).embed_each(["\x00\x01"])
    assert answer.vector is None
    assert "nothing that the model reads" in answer.problem


def test_half_a_surrogate_pair_is_embedded_as_an_unknown_letter(tiny: MakeModel) -> None:
    assert Embedder(str(tiny())).embed("a \ud800 b").shape == (1, 16)


@pytest.mark.parametrize("wrong", [[1], ["a", None], b"bytes", [["a"]]])
def test_only_texts_can_be_embedded(wrong: list[str]) -> None:
    with pytest.raises(BadRequest, match="only texts can be embedded"):
        Embedder("none").embed(wrong)


def test_settings_out_of_bounds_are_refused() -> None:
    with pytest.raises(BadRequest, match=r"embedding\.batch_size takes a whole number, greater than or equal to 1, not 0"):
        Embedder(batch_size=0)


@pytest.mark.parametrize("key", ["sk-secrét", "sk-sec\nret", SecretStr("sk-sec\tret"), 7])
def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(key: str | SecretStr) -> None:
    with pytest.raises(
        BadRequest, match=r"^embedding\.api_key (contains a character that an HTTP header cannot carry|takes a text)"
    ) as caught:
        Embedder("a", base_url="http://127.0.0.1:1", api_key=key)
    report = "".join(traceback.format_exception(caught.value))
    assert "sk-sec" not in report


def test_every_setting_is_an_argument(tiny: MakeModel) -> None:
    settings = EmbeddingSettings(model_name=str(tiny()), context_length=8, normalize_embeddings=False)
    space = Embedder.from_settings(settings).space
    assert (space.context_length, space.normalized) == (8, False)


@pytest.mark.parametrize("name", ["none", "None"])
def test_none_switches_embedding_off(name: str) -> None:
    with pytest.raises(ModelUnavailable, match=r"embedding is switched off \(embedding.model_name is none\)"):
        _ = Embedder(name).space


@pytest.mark.usefixtures("no_weights_here")
def test_auto_fetches_nothing_and_names_the_setting() -> None:
    with pytest.raises(ModelUnavailable, match=f"set embedding.model_name to {SMALL[0]}: naming a model lets it be fetched"):
        Embedder(device="cpu").embed("a")


@pytest.mark.usefixtures("no_weights_here")
def test_auto_takes_the_best_whose_weights_are_here(tiny: MakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny()
    here = {SMALL[1]: weights.Weights(SMALL[1], folder, "commit")}
    monkeypatch.setattr(weights, "is_cached", here.__contains__)
    monkeypatch.setattr(weights, "find_weights", lambda name, **_: here[name])
    assert Embedder(device="cpu").space.model_name == SMALL[1]


def test_auto_takes_the_librarys_own_model(tiny: MakeModel) -> None:
    space = Embedder(str(tiny("own")), context_length=12, normalize_embeddings=False).space
    assert Embedder.from_settings(EmbeddingSettings(), space).space == space
    other = tiny("other", dimension=8)
    assert Embedder.from_settings(EmbeddingSettings(model_name=str(other)), space).space.dimension == 8


@pytest.mark.usefixtures("no_weights_here")
def test_a_model_that_runs_code_of_its_own_is_refused_before_it_is_fetched() -> None:
    with pytest.raises(ModelUnavailable, match=r"which Outrider does not run; serve it as an endpoint and set embedding\.base_url"):
        Embedder("nvidia/NV-Embed-v2").embed("a")


def test_packages_that_are_missing_are_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"dense search needs .*outrider\[models\]"):
        Embedder("a/b").embed("a")
    monkeypatch.setitem(__import__("sys").modules, "langchain_openai", None)
    with pytest.raises(ModelUnavailable, match="cannot be reached"):  # a server needs no extra
        Embedder("a", base_url="http://127.0.0.1:1").embed("a")


def test_many_threads_load_the_model_once(tiny: MakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, loads = str(tiny()), []
    load = module._load
    monkeypatch.setattr(module, "_load", lambda *arguments: loads.append(1) or load(*arguments))
    model = Embedder(folder)
    vectors: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: vectors.append(model.embed("a b"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loads) == 1
    assert len(vectors) == 4


def test_a_failed_load_is_remembered_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = []

    def load(*_: object) -> None:
        loads.append(1)
        raise ModelUnavailable("not now")

    monkeypatch.setattr(module, "_load", load)
    model = Embedder("a/b")
    for _ in range(3):
        with pytest.raises(ModelUnavailable, match="not now"):
            model.embed("a")
    assert len(loads) == 1
    monkeypatch.setattr(module, "RETRY_AFTER_S", 0)
    with pytest.raises(ModelUnavailable):
        model.embed("a")
    assert len(loads) == 2
