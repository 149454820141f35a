"""The NumPy encoder: real all-MiniLM-L6-v2 and tiny BERTs, compared with sentence-transformers."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outrider.models import weights
from outrider.models.embed import embedder as embedder_module
from outrider.models.embed.bert import BertEncoder, compute_erf, compute_gelu, read_encoder
from outrider.models.embed.embedder import Embedder
from outrider.state.embedding import EmbeddingSpace
from outrider.state.errors import MissingExtra, ModelUnavailable
from support.extras import needs

pytestmark = needs("sentence_transformers")

MakeModel = Callable[..., Path]
TEXTS = (
    "a", "Aspirin prevents stroke.", "How do I get HTTP/2 working with it?", "naïve CAFÉ 中文 query", "ＦＵＬＬ width ①②", "x" * 300,
    "[SEP] in [MASK] text",
    "e\u0301 combining", "\u200bzero\u00adwidth", "😀 emoji 👩‍💻", "tab\tand\nline\x00 null", "word " * 600,
    "Straße İstanbul ǅ ﬁ", "…", "का हिन्दी", "مرحبا",
)  # fmt: skip
BLANK = ("\u200b", "\x00", "\u0301", "\x7f")
"""Texts of which BERT's normaliser leaves nothing."""


def find(folder: str | Path) -> weights.Weights:
    return weights.find_weights(str(folder), fetch=False)


@pytest.fixture(scope="session")
def encoder(minilm_folder: str) -> BertEncoder:
    return BertEncoder(find(minilm_folder))


def embed(encoder: BertEncoder, texts: list[str]) -> np.ndarray:
    vectors = [answer.vector for answer in encoder.embed_each(texts, "query")]
    assert all(vector is not None for vector in vectors)
    return np.array(vectors)


def test_erf_is_that_of_the_standard_library_to_single_precision() -> None:
    values = np.concatenate([np.linspace(-6, 6, 40_001), np.geomspace(1e-30, 1, 2_000), [0.0, -0.0, 1e30, -1e30]])
    exact = np.array([math.erf(value) for value in values])
    assert np.abs(compute_erf(values) - exact).max() < 2e-8
    gelu = compute_gelu(np.linspace(-9, 9, 20_000, dtype=np.float32).reshape(100, 200))
    exact = np.array([value / 2 * (1 + math.erf(value / math.sqrt(2))) for value in np.linspace(-9, 9, 20_000, dtype=np.float32).tolist()])
    np.testing.assert_allclose(gelu.ravel(), exact, rtol=1e-6, atol=2e-7)


def test_vectors_and_token_counts_are_those_of_sentence_transformers(minilm: Embedder, encoder: BertEncoder) -> None:
    """Real MiniLM: one at a time, together, and beyond the limit of 256 tokens."""
    texts = list(TEXTS)
    theirs = minilm.embed(texts)
    np.testing.assert_allclose(embed(encoder, texts), theirs, atol=1e-5)
    np.testing.assert_allclose(np.concatenate([embed(encoder, [text]) for text in texts]), theirs, atol=1e-5)
    assert [answer.read for answer in encoder.embed_each(texts, "document")] == [answer.read for answer in minilm.embed_each(texts)]
    assert encoder.space == minilm.space


def test_a_text_of_which_nothing_is_read_has_no_vector(minilm: Embedder, encoder: BertEncoder) -> None:
    """Real MiniLM."""
    theirs, ours = minilm.embed_each(["a", *BLANK]), encoder.embed_each(["a", *BLANK], "query")
    assert [(one.vector is None, one.problem, one.read) for one in ours] == [(one.vector is None, one.problem, one.read) for one in theirs]
    assert ours[1].problem


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.text(max_size=80) | st.text("abc é中 [CLS]#-'\n", max_size=400), min_size=1, max_size=5))
def test_any_text_has_the_same_vector(minilm: Embedder, encoder: BertEncoder, texts: list[str]) -> None:
    """Real MiniLM, all of Unicode that has a UTF-8."""
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    for ours, theirs in zip(encoder.embed_each(texts, "document"), minilm._backend().embed_each(texts, "document"), strict=True):
        assert (ours.read, ours.problem) == (theirs.read, theirs.problem)
        if theirs.vector is not None:
            np.testing.assert_allclose(ours.vector, theirs.vector, atol=1e-5)


@pytest.mark.parametrize("role", ["query", "document"])
def test_token_vectors_are_those_of_sentence_transformers(minilm: Embedder, encoder: BertEncoder, role: Any) -> None:
    """Real MiniLM: of a text without tokens none, of a long one those that fit."""
    texts = [*TEXTS, "", *BLANK]
    for ours, theirs in zip(encoder.token_vectors(texts, role), minilm._backend().token_vectors(texts, role), strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_nearest_neighbours_are_the_same(minilm: Embedder, encoder: BertEncoder) -> None:
    """Real MiniLM over the summaries of the installed packages."""
    from importlib.metadata import distributions

    summaries = sorted({str(one.metadata["Summary"]) for one in distributions() if one.metadata["Summary"]})
    documents = minilm.embed(summaries)
    queries = [
        "http client with retries",
        "parse html",
        "numerical arrays",
        "run tests in parallel",
        "a database for vectors",
        "type checker",
    ]
    for theirs, ours in zip(minilm.embed(queries, "query"), embed(encoder, queries), strict=True):
        scores = documents @ theirs
        first = np.argsort(-scores, kind="stable")[:10]
        assert list(np.argsort(-(documents @ ours), kind="stable")[:10]) == list(first)


SHAPES = {
    "plain": {},
    "cls": {"pooling": "cls"},
    "unit": {"normalize": True},
    "prompts": {"prompts": {"query": "a b ", "document": "c "}},
    "default prompt": {"prompts": {"any": "a "}, "default": "any"},
    "short": {"max_seq_length": 7},
}


def make_sentence_transformer(
    folder: Path,
    pooling: Any = "mean",
    *,
    normalize: bool = False,
    prompts: dict[str, str] | None = None,
    default: str | None = None,
    max_seq_length: int | None = None,
) -> Path:
    """Save a bare transformer as sentence-transformers does, in the form of its second or its current major version."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules

    base = modules.Transformer(str(folder), max_seq_length=max_seq_length)
    parts = [base, modules.Pooling(16, pooling), *([modules.Normalize()] if normalize else [])]
    model = SentenceTransformer(modules=parts, device="cpu", prompts=prompts, default_prompt_name=default)
    target = folder.with_name(f"{folder.name}-saved")
    model.save(str(target))
    return target


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.filterwarnings("ignore")
def test_a_saved_model_has_the_same_space_and_vectors(tiny: MakeModel, shape: str) -> None:
    """Random weights."""
    folder = make_sentence_transformer(tiny(), **SHAPES[shape])
    ours, theirs = read_encoder(find(folder)), Embedder(str(folder), device="cpu")
    assert ours is not None
    assert ours.space == theirs.space
    texts = ["a b c", "d", "h i j k l m n o p q r s t u v w x y z " * 3]
    for role in ("query", "document"):
        np.testing.assert_allclose(
            [one.vector for one in ours.embed_each(texts, role)],  # type: ignore[arg-type]
            [one.vector for one in theirs._backend().embed_each(texts, role)],  # type: ignore[arg-type]
            atol=1e-5,
        )
        for own, other in zip(ours.token_vectors(texts, role), theirs._backend().token_vectors(texts, role), strict=True):  # type: ignore[arg-type]
            np.testing.assert_allclose(own, other, atol=1e-5)


def test_lower_casing_by_sentence_transformers_is_done_as_well(minilm_folder: str, tmp_path: Path) -> None:
    """Real MiniLM with the setting of the BGE models."""
    folder = Path(shutil.copytree(minilm_folder, tmp_path / "model"))
    edit_json("sentence_bert_config.json", do_lower_case=True)(folder)
    ours, theirs = read_encoder(find(folder)), Embedder(str(folder), device="cpu")
    assert ours is not None
    assert ours.space == theirs.space
    texts = [*TEXTS, "Retry a CALL", "ΣΊΣΥΦΟΣ ẞ \u212a \u212b", "[CLS] [cls] [Sep]"]
    np.testing.assert_allclose(embed(ours, texts), theirs.embed(texts), atol=1e-5)


def edit_json(name: str, **values: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / name
        path.write_text(json.dumps({**(json.loads(path.read_text()) if path.exists() else {}), **values}))

    return edit


def edit_tokenizer(**values: Any) -> Callable[[Path], None]:
    return edit_json("tokenizer.json", **values)


def cut_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def store_in_bfloat16(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    save_file({name: tensor.bfloat16() for name, tensor in tensors.items()}, folder / "model.safetensors", {"format": "pt"})


def drop_a_weight(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    tensors.pop("encoder.layer.0.output.dense.bias")
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def grow_vocabulary(folder: Path) -> None:
    path = folder / "tokenizer.json"
    saved = json.loads(path.read_text())
    saved["model"]["vocab"]["zz"] = len(saved["model"]["vocab"])
    path.write_text(json.dumps(saved))


OTHERS: dict[str, Callable[[Path], None]] = {
    "more words than weights": grow_vocabulary,
    "another architecture": edit_json("config.json", model_type="roberta"),
    "another activation": edit_json("config.json", hidden_act="gelu_new"),
    "relative positions": edit_json("config.json", position_embedding_type="relative_key"),
    "a decoder": edit_json("config.json", is_decoder=True),
    "code of its own": edit_json("config.json", auto_map={"AutoModel": "own.Model"}),
    "quantised": edit_json("config.json", quantization_config={"bits": 4}),
    "an adapter": edit_json("adapter_config.json", peft_type="LORA"),
    "another size": edit_json("config.json", hidden_size=32),
    "cased settings, uncased file": edit_json("tokenizer_config.json", do_lower_case=False),
    "accents": edit_json("tokenizer_config.json", strip_accents=False),
    "another tokenizer class": edit_json("tokenizer_config.json", tokenizer_class="RobertaTokenizer"),
    "left padding": edit_json("tokenizer_config.json", padding_side="left"),
    "more special tokens": edit_json("tokenizer_config.json", extra_special_tokens=["[E1]"]),
    "another unknown token": edit_json("special_tokens_map.json", unk_token="a"),
    "an unknown setting": edit_json("tokenizer_config.json", something_new=True),
    "another normaliser": edit_tokenizer(normalizer={"type": "Lowercase"}),
    "no normaliser": edit_tokenizer(normalizer=None),
    "another pre-tokenizer": edit_tokenizer(pre_tokenizer={"type": "Whitespace"}),
    "no special tokens around a text": edit_tokenizer(post_processor=None),
    "a sparse model": edit_json("config_sentence_transformers.json", model_type="SparseEncoder"),
    "a default prompt that is missing": edit_json("config_sentence_transformers.json", default_prompt_name="nothing"),
    "weights cut short": cut_weights,
    "a weight is missing": drop_a_weight,
    "bfloat16": store_in_bfloat16,
    "no tokenizer.json": lambda folder: (folder / "tokenizer.json").unlink(),
    "no weights": lambda folder: (folder / "model.safetensors").unlink(),
    "no config": lambda folder: (folder / "config.json").unlink(),
    "broken config": lambda folder: (folder / "config.json").write_text("{"),
    "broken tokenizer.json": lambda folder: (folder / "tokenizer.json").write_text('{"model": {"vocab": []}}'),
    "config is a list": lambda folder: (folder / "config.json").write_text("[1]"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_a_model_of_another_form_is_left_to_sentence_transformers(tiny: MakeModel, case: str) -> None:
    folder = tiny()
    assert read_encoder(find(folder)) is not None
    OTHERS[case](folder)
    assert read_encoder(find(folder)) is None


@pytest.mark.parametrize("pooling", ["max", "lasttoken", ("cls", "mean")])
@pytest.mark.filterwarnings("ignore")
def test_another_pooling_is_left_to_sentence_transformers(tiny: MakeModel, pooling: Any) -> None:
    assert read_encoder(find(make_sentence_transformer(tiny(), pooling))) is None


@pytest.mark.parametrize("case", ["weights cut short", "broken config", "a weight is missing"])
def test_errors_of_broken_folders_stay_the_same(tiny: MakeModel, case: str) -> None:
    folder = tiny()
    space = Embedder(str(folder), device="cpu").space
    OTHERS[case](folder)
    with pytest.raises(ModelUnavailable) as without:
        Embedder(str(folder), device="cpu").embed("a", "query")
    with pytest.raises(ModelUnavailable) as with_space:
        Embedder(str(folder), device="cpu", space=space).embed("a", "query")
    assert str(with_space.value) == str(without.value)


def test_a_folder_that_is_gone_is_reported_without_loading_anything(tiny: MakeModel, tmp_path: Path) -> None:
    space = Embedder(str(tiny()), device="cpu").space
    with pytest.raises(ModelUnavailable, match="there is no such folder"):
        Embedder(str(tmp_path / "gone"), space=space).embed("a", "query")


def count_loads(monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> list[int]:
    loads: list[int] = []
    load = embedder_module._load

    def counted(*arguments: Any) -> Any:
        loads.append(1)
        if error:
            raise error
        return load(*arguments)

    monkeypatch.setattr(embedder_module, "_load", counted)
    return loads


def test_queries_never_load_the_model_and_documents_once_they_are_many(tiny: MakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(tiny())
    space = Embedder(folder, device="cpu").space
    loads = count_loads(monkeypatch)
    model = Embedder(folder, space=space)
    assert model.space == space
    encoder = model._find_encoder()
    assert encoder is not None
    monkeypatch.setattr(embedder_module, "ENCODER_WORK", encoder.count_work(["a b c d"] * 10))
    few = model.embed(["a b c d"] * 5)
    for _ in range(20):
        np.testing.assert_allclose(model.embed("a b c d", "query"), few[:1], atol=1e-6)
    assert not loads
    np.testing.assert_allclose(model.embed(["a b c d"] * 6), np.repeat(few[:1], 6, axis=0), atol=1e-5)
    model.embed("a", "query")
    model.embed("a")
    assert loads == [1]


def test_token_vectors_of_few_texts_do_not_load_the_model(tiny: MakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(tiny())
    loaded = Embedder(folder, device="cpu")
    space, theirs = loaded.space, loaded.token_vectors(["a b", ""])
    loads = count_loads(monkeypatch)
    model = Embedder(folder, space=space)
    assert model.without_torch
    for own, other in zip(model.token_vectors(["a b", ""]), theirs, strict=True):
        np.testing.assert_allclose(own, other, atol=1e-5)
    assert not loads
    assert not Embedder(folder, space=space.model_copy(update={"pooling": "cls"})).without_torch


def test_without_torch_the_encoder_embeds_documents_too(tiny: MakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(tiny())
    space = Embedder(folder, device="cpu").space
    count_loads(monkeypatch, MissingExtra("dense search", "models"))
    monkeypatch.setattr(embedder_module, "ENCODER_WORK", 0)
    assert Embedder(folder, space=space).embed(["a", "b"]).shape == (2, 16)
    with pytest.raises(MissingExtra):
        Embedder(folder, device="cpu").embed("a")


@pytest.mark.parametrize("change", [{"context_length": 9}, {"pooling": "cls"}, {"revision": "another"}, {"normalized": False}])
def test_vectors_of_another_space_are_left_to_the_model(tiny: MakeModel, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]) -> None:
    folder = str(tiny())
    space = Embedder(folder, device="cpu").space
    loads = count_loads(monkeypatch)
    model = Embedder(folder, space=space.model_copy(update=change))
    assert model.space == space
    assert loads == [1]


def test_the_weights_are_fingerprinted_once(tiny: MakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(tiny())
    space = Embedder(folder, device="cpu").space
    found: list[str] = []
    fingerprint = weights.fingerprint
    monkeypatch.setattr(weights, "fingerprint", lambda path: found.append(str(path)) or fingerprint(path))
    model = Embedder(folder, space=space.model_copy(update={"pooling": "cls"}))  # so the model is loaded as well
    model.embed("a", "query")
    assert len(found) == 1


def test_many_threads_share_the_encoder(encoder: BertEncoder) -> None:
    """Real MiniLM."""
    alone = embed(encoder, list(TEXTS))
    results: dict[int, np.ndarray] = {}
    threads = [threading.Thread(target=lambda at=at: results.update({at: embed(encoder, list(TEXTS))})) for at in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 6
    for vectors in results.values():
        np.testing.assert_array_equal(vectors, alone)


SCRIPT = """
import sys
from outrider.models.embed.embedder import Embedder
from outrider.state.embedding import EmbeddingSpace
space = EmbeddingSpace.model_validate_json(sys.argv[1])
model = Embedder(sys.argv[2], space=space)
assert model.space == space
assert model.embed(["one", "two"], "query").shape == (2, space.dimension) and model.embed("a sentence").shape == (1, space.dimension)
print(*sorted({"torch", "transformers", "sklearn", "scipy", "sentence_transformers"} & set(sys.modules)))
"""


def test_a_query_imports_neither_torch_nor_transformers(minilm: Embedder, minilm_folder: str) -> None:
    """Real MiniLM, in a process of its own."""
    space: EmbeddingSpace = minilm.space
    for name in ("auto", minilm_folder):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT.replace("sys.argv[2]", repr(name)), space.model_dump_json()],
            check=False,
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
