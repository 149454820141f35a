"""sentence-transformers models: the real all-MiniLM-L6-v2, and tiny BERTs with random weights made on the fly and spoilt."""

from __future__ import annotations

import json
import logging
import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.models.embed import local
from outrider.models.embed.embedder import Embedder
from outrider.models.embed.token_batches import PIECE_CHARS
from outrider.state.errors import BadVectors, ModelUnavailable
from support.extras import needs

pytestmark = needs("sentence_transformers")

MakeModel = Callable[..., Path]
TEXTS = ("a", "Aspirin prevents stroke.", "the cat sat on the mat and looked at the dog for a while", "naïve café 中文", "x" * 40, "b c")


def of(folder: Path, **options: Any) -> Embedder:
    return Embedder(str(folder), device="cpu", **options)


def test_vectors_are_those_of_sentence_transformers(minilm: Embedder, minilm_folder: str) -> None:
    """Real MiniLM."""
    from sentence_transformers import SentenceTransformer

    texts = [*TEXTS, "word " * 400]
    theirs = SentenceTransformer(minilm_folder, device="cpu").encode(texts, show_progress_bar=False)
    np.testing.assert_allclose(minilm.embed(texts), theirs, atol=1e-5)


@pytest.fixture(scope="module")
def alone(minilm: Embedder) -> dict[str, np.ndarray]:
    return {text: minilm.embed(text)[0] for text in TEXTS}


@settings(max_examples=6, deadline=None)
@given(st.lists(st.sampled_from(TEXTS), min_size=2, max_size=6), st.integers(1, 5), st.integers(1, 60))
def test_batching_never_changes_a_vector(
    minilm: Embedder, alone: dict[str, np.ndarray], texts: list[str], most_texts: int, most_tokens: int
) -> None:
    """Real MiniLM: batches of any texts in any order give what each text gives alone."""
    backend = minilm._backend()
    assert isinstance(backend, local.LocalModel)
    other = replace(backend, batch_size=most_texts, batch_tokens=most_tokens)
    for text, answer in zip(texts, other.embed_each(texts, "document"), strict=True):
        assert answer.vector is not None
        np.testing.assert_allclose(answer.vector / np.linalg.norm(answer.vector), alone[text], atol=1e-5)


def test_the_space_identifies_the_model(minilm: Embedder) -> None:
    """Real MiniLM."""
    space = minilm.space
    assert (space.dimension, space.context_length, space.pooling, space.query_prompt) == (384, 256, "mean", "")
    assert space.revision.startswith("sha256:")
    assert len(space.revision) == 71


def test_the_record_counts_the_tokens_that_were_embedded(minilm: Embedder) -> None:
    """Real MiniLM, which reads 256 tokens, two of them special."""
    short, long = minilm.embed_each(["one two three", "word " * 300])
    assert (short.read.tokens, short.read.of) == (3, 3)
    assert (long.read.tokens, long.read.of) == (254, 300)


def test_a_document_of_two_million_characters_is_read_to_the_limit(tiny: MakeModel, caplog: pytest.LogCaptureFixture) -> None:
    """Random weights: a long document next to a short one costs neither padding nor a warning."""
    model = of(tiny())
    with caplog.at_level(logging.WARNING), warnings.catch_warnings():
        warnings.simplefilter("error")
        long, short = model.embed_each(["a " * 1_000_000, "b"])
    assert (long.read.tokens, long.read.of) == (30, 1_000_000)
    assert short.vector is not None
    assert not caplog.records
    np.testing.assert_allclose(long.vector, model.embed("a " * 30)[0], atol=1e-5)


def test_reading_in_pieces_loses_no_token(tiny: MakeModel) -> None:
    """Random weights; pieces end between words here."""
    (answer,) = of(tiny()).embed_each(["a " * PIECE_CHARS])
    assert answer.read.of == PIECE_CHARS


def test_a_shorter_context_is_kept_to(tiny: MakeModel) -> None:
    model = of(tiny(), context_length=10)
    assert model.space.context_length == 10
    (answer,) = model.embed_each(["a b c d e f g h i j k l"])
    assert (answer.read.tokens, answer.read.of) == (8, 12)


KINDS = ((0, ("", "Transformer")), (1, ("1_Pooling", "Pooling")))


def with_prompts(folder: Path, prompts: dict[str, str], pooling: str = "mean") -> Path:
    """Makes a transformer's folder one of sentence-transformers."""
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts}))
    modules = [{"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"} for at, (path, kind) in KINDS]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"embedding_dimension": 16, "pooling_mode": pooling}))
    return folder


def test_the_models_own_prompts_are_used_for_queries_and_documents(tiny: MakeModel) -> None:
    model = of(with_prompts(tiny(), {"query": "q: ", "passage": "p: "}))
    assert (model.space.query_prompt, model.space.document_prompt) == ("q: ", "p: ")
    plain = of(tiny("plain"))
    np.testing.assert_allclose(model.embed("a", "query"), plain.embed("q: a"), atol=1e-5)
    np.testing.assert_allclose(model.embed("a"), plain.embed("p: a"), atol=1e-5)
    assert model.embed_each(["a b"])[0].read.of == 2


def test_a_presets_prompts_are_used_where_the_model_has_none(tiny: MakeModel) -> None:
    assert of(tiny("bge-small-en-v1.5")).space.query_prompt == "Represent this sentence for searching relevant passages: "
    assert of(with_prompts(tiny("bge-m3"), {"query": "own: "})).space.query_prompt == "own: "


def test_token_vectors_are_unit_vectors_of_the_texts_own_tokens(tiny: MakeModel) -> None:
    model = of(with_prompts(tiny(), {"query": "q: ", "document": ""}))
    one, none, three = model.token_vectors(["a", "", "a b c"])
    assert (one.shape, none.shape, three.shape) == ((1, 16), (0, 16), (3, 16))
    np.testing.assert_allclose(np.linalg.norm(three, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(model.token_vectors(["a"])[0], one, atol=1e-5)
    assert model.token_vectors(["a b"], "query")[0].shape == (2, 16)


@pytest.fixture
def tiny_decoder(tmp_path: Path) -> Path:
    """A Qwen2 of one layer with random weights, last-token pooling and left padding, under the name of the gte-Qwen2 preset."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2Model

    folder = tmp_path / "decoder"
    folder.mkdir()
    with_prompts(folder, {}, pooling="lasttoken")
    words = Tokenizer(WordLevel({word: at for at, word in enumerate(("<|endoftext|>", "[UNK]", *"abcdef"))}, unk_token="[UNK]"))
    words.pre_tokenizer = WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token="<|endoftext|>", pad_token="<|endoftext|>", padding_side="left", model_max_length=16
    ).save_pretrained(folder)
    torch = pytest.importorskip("torch")
    torch.manual_seed(7)
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 32}
    Qwen2Model(Qwen2Config(vocab_size=8, max_position_embeddings=32, **size)).save_pretrained(folder)
    return folder


def test_left_padding_changes_no_vector(tiny_decoder: Path) -> None:
    model = of(tiny_decoder)
    together = model.embed(["a", "b c d e", "f a"])
    np.testing.assert_allclose(together, np.concatenate([model.embed(text) for text in ("a", "b c d e", "f a")]), atol=1e-5)
    one, four = model.token_vectors(["a", "b c d e"])
    assert (len(one), len(four)) == (1, 4)
    np.testing.assert_allclose(one, model.token_vectors(["a"])[0], atol=1e-5)


def test_a_preset_that_reads_both_ways_and_ends_with_a_token_does_so_without_code_of_its_own(tiny_decoder: Path) -> None:
    """The stock decoder masks what follows and its tokenizer adds no end; both would spoil gte-Qwen2 in silence."""
    stock, preset = of(tiny_decoder), of(shutil.copytree(tiny_decoder, tiny_decoder.with_name("gte-Qwen2-7B-instruct")))
    np.testing.assert_allclose(stock.token_vectors(["a b"])[0][0], stock.token_vectors(["a c"])[0][0], atol=1e-5)
    assert np.abs(preset.token_vectors(["a b"])[0][0] - preset.token_vectors(["a c"])[0][0]).max() > 1e-3
    backend = preset._backend()
    assert isinstance(backend, local.LocalModel)
    assert backend.tokens.tokenize(["a b"])[0].ids.tolist() == [2, 3, 0]


def with_a_nan(model: Any) -> None:
    import torch

    with torch.no_grad():
        model.embeddings.word_embeddings.weight[5] = float("nan")  # the letter a


def test_a_text_whose_vector_is_no_number_is_reported_and_the_others_are_embedded(tiny: MakeModel) -> None:
    model = of(tiny(spoil=with_a_nan))
    bad, good = model.embed_each(["a", "b"])
    assert bad.vector is None
    assert "not numbers" in bad.problem
    assert good.vector is not None
    with pytest.raises(BadVectors, match="text 2 of 2"):
        model.embed(["b", "a"])


def cut_short(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])


def no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def rubbish(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"rubbish")


def no_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def broken_config(folder: Path) -> None:
    (folder / "config.json").write_text("{")


def other_width(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "hidden_size": 8}))


def a_weight_less(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    del weights["encoder.layer.0.output.dense.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def a_pickle(folder: Path) -> None:
    import pickle

    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"x": print}, protocol=2))


def test_a_folder_without_a_tokenizer_is_refused(tiny: MakeModel) -> None:
    folder = tiny()
    for path in (*folder.rglob("token*"), *folder.rglob("vocab*")):
        path.unlink()
    with pytest.raises(ModelUnavailable, match=r"has no tokenizer|cannot be loaded"):
        of(folder).embed("a")


@pytest.mark.parametrize("spoil", [cut_short, no_weights, rubbish, no_config, broken_config, other_width, a_weight_less, a_pickle])
def test_files_that_are_no_whole_model_are_reported_in_one_line(tiny: MakeModel, spoil: Callable[[Path], None]) -> None:
    folder = tiny()
    spoil(folder)
    with pytest.raises(ModelUnavailable, match=r"tiny cannot be (loaded|used)") as caught:
        of(folder).embed("a")
    assert "\n" not in str(caught.value)


def test_loading_is_silent(tiny: MakeModel, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tiny()
    capfd.readouterr()
    of(folder).embed("a b c")
    assert capfd.readouterr() == ("", "")


def small_memory(model: Embedder, monkeypatch: pytest.MonkeyPatch, fits: int, error: Exception) -> list[int]:
    """Lets the model's forward pass fail with `error` above `fits` texts; gives the sizes of the batches tried."""
    backend = model._backend()
    assert isinstance(backend, local.LocalModel)
    forward, tried = backend.model.forward, []

    def scarce(features: dict[str, Any], **rest: Any) -> Any:
        tried.append(len(features["input_ids"]))
        if tried[-1] > fits:
            raise error
        return forward(features, **rest)

    monkeypatch.setattr(backend.model, "forward", scarce)
    return tried


OUT_OF_MEMORY = [
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:119] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."
    ),
    RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    MemoryError(),
]


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=["cpu", "cuda", "python"])
def test_a_batch_that_does_not_fit_into_memory_is_halved(tiny: MakeModel, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    model = of(tiny())
    texts = ["a b", "c", "d e f", "a", "b", "c d", "e", "f"]
    before = model.embed(texts)
    tried = small_memory(model, monkeypatch, 2, error)
    counts: list[tuple[int, int]] = []
    vectors = model.embed_each(texts, progress=lambda done, of: counts.append((done, of)))
    np.testing.assert_allclose([one.vector for one in vectors], before, atol=1e-5)
    assert tried[:3] == [8, 4, 2]
    assert counts[-1] == (8, 8)


def test_a_single_text_that_does_not_fit_is_a_problem_not_the_end(tiny: MakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    model = of(tiny())
    model.embed("a")
    small_memory(model, monkeypatch, 0, MemoryError())
    assert ["does not fit into memory" in one.problem for one in model.embed_each(["a", "b"])] == [True, True]
    with pytest.raises(BadVectors, match="does not fit into memory"):
        model.embed("a")
    with pytest.raises(ModelUnavailable, match="text 1 of 1"):
        model.token_vectors(["a"])


def test_a_bug_in_the_model_is_not_taken_for_a_lack_of_memory(tiny: MakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    model = of(tiny())
    small_memory(model, monkeypatch, 0, RuntimeError("shapes cannot be multiplied"))
    with pytest.raises(RuntimeError, match="shapes"):
        model.embed("a")


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=["cpu", "cuda", "python"])
def test_a_model_whose_first_vector_does_not_fit_into_memory(tiny: MakeModel, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def scarce(*_: object) -> int:
        raise error

    monkeypatch.setattr(local, "_dimension", scarce)
    with pytest.raises(ModelUnavailable, match=r"tiny does not fit into memory; set embedding\.model_name to a smaller model"):
        of(tiny()).embed("a")


@pytest.mark.parametrize("device", ["cuda:99", "cpu:abc"])
def test_a_device_that_is_not_here(tiny: MakeModel, device: str) -> None:
    with pytest.raises(ModelUnavailable, match=f"embedding.device is {device}, which torch does not find here"):
        Embedder(str(tiny()), device=device).embed("a")
