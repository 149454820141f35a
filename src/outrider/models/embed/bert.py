"""BERT encoder in NumPy, for the few texts of a search, without importing torch.

Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers". Importing torch, transformers and sentence-transformers
takes seconds of CPU time, embedding a query with a small model a hundredth of one (docs/adr/0027-queries-without-torch.md).
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.models.embed.presets import choose_context_length, choose_prompts, find_preset
from outrider.models.embed.token_batches import NO_TOKENS, ModelTokenizer, TokenizedText
from outrider.models.weights import Weights
from outrider.state.embedding import EmbeddedText, EmbeddingSpace, TextRole, TokensRead
from outrider.state.ports import OnCount

if TYPE_CHECKING:
    import numpy as np
    from tokenizers import Tokenizer

    Linear = tuple[np.ndarray, np.ndarray]

BATCH_TOKENS = 512
"""Tokens that pass through the layers together: enough for full matrix products, few enough that a query does not wait long for them."""
TYPICAL_CHARS_PER_TOKEN = 4
BLOCK = 2**14
"""Numbers whose error function is computed together; in double precision they fit into the cache of a core."""
# erf(x) = x P(x^2) / Q(x^2) for |x| <= 4, highest power first; fitted by weighted least squares, |error| < 1.6e-9. In single precision
# erf is 1 beyond 4.
ERF_P = (-1.366679237855e-08, 4.78053613081e-06, 3.82692565155e-04, 3.839547596869e-03, 5.433265500854e-02, 0.1847107999316, 1.128379182099)
ERF_Q = (6.400924665599e-05, 1.309583295542e-03, 1.545355370241e-02, 0.1138264937584, 0.4970292297491, 1.0)
ERF_END = 4.0

SPECIAL_TOKENS = {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]"}
WITHOUT_EFFECT = frozenset(
    "backend clean_up_tokenization_spaces is_local local_files_only max_length model_input_names model_max_length name_or_path "
    "pad_to_multiple_of pad_token_type_id special_tokens_map_file stride tokenizer_file truncation_side truncation_strategy".split()
)
"""Settings of a tokenizer that change none of the tokens that `ModelTokenizer` takes from it."""
TOKENIZER_DEFAULTS: Mapping[str, Any] = {
    "do_lower_case": True, "do_basic_tokenize": True, "padding_side": "right", "strip_accents": None, "tokenize_chinese_chars": True,
    "tokenizer_class": "BertTokenizer",
}  # fmt: skip
MODULE_READ = frozenset({"max_seq_length", "do_lower_case"})
MODULE_DEFAULTS: Mapping[str, Any] = {
    "transformer_task": "feature-extraction",
    "module_output_name": "token_embeddings",
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
}
CONFIG_DEFAULTS: Mapping[str, Any] = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}
BERT_SIZES: Mapping[str, Any] = {
    "hidden_size": 768, "intermediate_size": 3072, "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "num_attention_heads": 12,
    "num_hidden_layers": 12, "type_vocab_size": 2, "vocab_size": 30_522,
}  # fmt: skip
"""What a config leaves out."""
POOLING_SWITCHES = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
CONFIG_REFUSED = ("is_decoder", "add_cross_attention", "quantization_config", "auto_map")
WORDS = "embeddings.word_embeddings.weight"
ONE_THREAD = threading.Lock()
"""Held while NumPy's BLAS is limited to one thread, which is a state of the process. With two threads that wait for each other between
products of a few rows, a query took ten times the CPU time on a busy machine, and no less time on an idle one.
"""
log = logging.getLogger(__name__)


class OtherForm(Exception):
    """A model that `BertEncoder` would not read exactly as sentence-transformers does."""


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """Weights and biases of one layer, float32; matrices have the shape (out, in), those of query, key and value are stacked."""

    attention: Linear
    attention_output: Linear
    attention_norm: Linear
    intermediate: Linear
    output: Linear
    output_norm: Linear


class BertEncoder:
    """Vectors of a BERT with mean or first-token pooling; they differ from those of sentence-transformers by at most 1e-5.

    Texts are not padded: all tokens of a batch form one matrix, and each text attends to itself. Safe to share between threads.
    """

    def __init__(self, weights: Weights, *, context_length: int = 0, normalize_embeddings: bool = True) -> None:
        """Raises `OtherForm` for a model of another form; missing and broken files raise various errors."""
        from threadpoolctl import ThreadpoolController

        preset = find_preset(weights.name)
        if preset and (preset.bidirectional or preset.ends_with or preset.needs_own_code):
            raise OtherForm("its preset needs more")
        folder, self._pooling, self._unit = _read_modules(weights.folder)
        config = _read_bert_config(folder)
        module = _read_module(folder)
        limit = choose_context_length(_read_limits(folder, config, module), preset, context_length)
        self._heads, self._epsilon = int(config["num_attention_heads"]), float(config["layer_norm_eps"])
        pieces = WordPieces(folder, lowercase=bool(module.get("do_lower_case")))
        if pieces.highest_id >= int(config["vocab_size"]):
            raise OtherForm("its tokenizer has more words than its weights")
        self._tokens = ModelTokenizer(pieces, limit)
        self._load(folder, config)
        self._blas = ThreadpoolController()
        query_prompt, document_prompt = choose_prompts(*_read_prompts(weights.folder), preset)
        self.space = EmbeddingSpace(
            model_name=weights.name,
            revision=weights.revision,
            dimension=int(config["hidden_size"]),
            context_length=limit,
            query_prompt=query_prompt,
            document_prompt=document_prompt,
            pooling=self._pooling,
            normalized=normalize_embeddings,
        )

    def _load(self, folder: Path, config: Mapping[str, Any]) -> None:
        import numpy as np
        from safetensors import safe_open

        file: Any = safe_open(str(folder / "model.safetensors"), "np")
        names = set(file.keys())
        prefix = "bert." if "bert.embeddings.word_embeddings.weight" in names else ""
        size, inner = int(config["hidden_size"]), int(config["intermediate_size"])

        def read(name: str, *shape: int) -> np.ndarray:
            if f"{prefix}{name}" not in names:
                raise OtherForm(f"its files lack {name}")
            part = file.get_slice(f"{prefix}{name}")
            if part.get_dtype() not in ("F32", "F16") or tuple(part.get_shape()) != shape:
                raise OtherForm(f"{name} is {part.get_dtype()} of shape {part.get_shape()}")
            return part if name == WORDS else np.asarray(part[:], np.float32)

        def linear(name: str, *shape: int) -> Linear:
            return read(f"{name}.weight", *shape), read(f"{name}.bias", shape[0])

        def read_layer(at: int) -> Layer:
            base = f"encoder.layer.{at}"
            stacked = [linear(f"{base}.attention.self.{part}", size, size) for part in ("query", "key", "value")]
            return Layer(
                (np.concatenate([matrix for matrix, _ in stacked]), np.concatenate([bias for _, bias in stacked])),
                linear(f"{base}.attention.output.dense", size, size),
                linear(f"{base}.attention.output.LayerNorm", size),
                linear(f"{base}.intermediate.dense", inner, size),
                linear(f"{base}.output.dense", size, inner),
                linear(f"{base}.output.LayerNorm", size),
            )

        # half of the file of a small model, of which a search needs a few rows
        self._words: Any = read(WORDS, int(config["vocab_size"]), size)
        kinds = read("embeddings.token_type_embeddings.weight", int(config["type_vocab_size"]), size)
        self._positions = read("embeddings.position_embeddings.weight", int(config["max_position_embeddings"]), size) + kinds[0]
        self._norm = linear("embeddings.LayerNorm", size)
        self._layers = [read_layer(at) for at in range(int(config["num_hidden_layers"]))]
        self._layer_weights = len(self._layers) * (4 * size * size + 2 * size * inner)

    @property
    def name(self) -> str:
        return self.space.model_name

    def count_work(self, texts: Sequence[str]) -> int:
        """An estimate of the multiplications that embedding these texts takes."""
        limit = self.space.context_length
        return self._layer_weights * sum(min(limit, len(text) // TYPICAL_CHARS_PER_TOKEN + 2) for text in texts)

    def embed_each(self, texts: Sequence[str], role: TextRole, progress: OnCount | None = None) -> list[EmbeddedText]:
        """Vectors as the model gives them, not yet checked or normalised."""
        read = self._tokens.tokenize(texts, self.space.query_prompt if role == "query" else self.space.document_prompt)
        answers = [EmbeddedText(None, TokensRead(tokens=text.tokens, of=text.total), "" if text.tokens else NO_TOKENS) for text in read]
        done = sum(not text.tokens for text in read)
        for batch, tokens, starts, ends in self._encode_batches(read):
            for at, vector in zip(batch, self._pool(tokens, starts, ends), strict=True):
                answers[at] = EmbeddedText(vector, answers[at].read)
            done += len(batch)
            if progress:
                progress(done, len(read))
        return answers

    def token_vectors(self, texts: Sequence[str], role: TextRole) -> list[np.ndarray]:
        """For each text the unit vectors of its own tokens, as `Embedder.token_vectors` gives them."""
        import numpy as np

        prompt = self.space.query_prompt if role == "query" else self.space.document_prompt
        read = self._tokens.tokenize(texts, prompt)
        rows = [np.zeros((0, self.space.dimension), np.float32) for _ in read]
        for batch, tokens, starts, ends in self._encode_batches(read):
            unit = tokens / np.maximum(np.linalg.norm(tokens, axis=1, keepdims=True), 1e-12)
            for at, start, end in zip(batch, starts, ends, strict=True):
                rows[at] = unit[start:end][self._tokens.own_slice(read[at], int(end - start), prompt)]
        return rows

    def _encode_batches(self, read: Sequence[TokenizedText]) -> Iterator[tuple[list[int], np.ndarray, np.ndarray, np.ndarray]]:
        """For each batch its places, the vectors of all its tokens, and where those of each text start and end."""
        import numpy as np

        for batch in _iter_batches(read):
            ends = np.cumsum([len(read[at].ids) for at in batch])
            starts = ends - [len(read[at].ids) for at in batch]
            with ONE_THREAD, self._blas.limit(limits=1, user_api="blas"):
                tokens = self._encode([read[at].ids for at in batch], starts, ends)
            yield batch, tokens, starts, ends

    def _pool(self, tokens: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        import numpy as np

        vectors = tokens[starts] if self._pooling == "cls" else np.add.reduceat(tokens, starts) / (ends - starts)[:, None]
        if self._unit:
            vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return np.asarray(vectors, np.float32)

    def _encode(self, texts: Sequence[np.ndarray], starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Vectors of shape (sum of t_i, d) of all tokens of texts as ids of shape (t_i,), special tokens included."""
        import numpy as np

        different, places = np.unique(np.concatenate(texts), return_inverse=True)
        words = np.concatenate([self._words[int(word) : int(word) + 1] for word in different]).astype(np.float32)
        tokens = words[places] + np.concatenate([self._positions[: len(ids)] for ids in texts])
        tokens = self._normalize_layer(tokens, self._norm)
        for layer in self._layers:
            tokens = self._normalize_layer(tokens + self._attend(tokens, layer, starts, ends), layer.attention_norm)
            inner = compute_gelu(_apply(tokens, layer.intermediate))
            tokens = self._normalize_layer(tokens + _apply(inner, layer.output), layer.output_norm)
        return tokens

    def _attend(self, tokens: np.ndarray, layer: Layer, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        import numpy as np

        size = tokens.shape[1]
        projected = _apply(tokens, layer.attention).reshape(len(tokens), 3, self._heads, size // self._heads)
        mixed = np.empty((len(tokens), size), np.float32)
        scale = np.float32((size // self._heads) ** -0.5)
        for start, end in zip(starts, ends, strict=True):
            query, key, value = projected[start:end].transpose(1, 2, 0, 3)
            shares = query @ key.transpose(0, 2, 1) * scale
            shares = np.exp(shares - shares.max(axis=-1, keepdims=True))
            shares /= shares.sum(axis=-1, keepdims=True)
            mixed[start:end] = (shares @ value).transpose(1, 0, 2).reshape(end - start, size)
        return _apply(mixed, layer.attention_output)

    def _normalize_layer(self, rows: np.ndarray, norm: Linear) -> np.ndarray:
        import numpy as np

        rows = rows - rows.mean(axis=1, keepdims=True)
        deviation = np.sqrt((rows * rows).mean(axis=1, keepdims=True) + np.float32(self._epsilon))
        normalized: np.ndarray = rows / deviation * norm[0] + norm[1]
        return normalized


def read_encoder(weights: Weights, *, context_length: int = 0, normalize_embeddings: bool = True) -> BertEncoder | None:
    """None for a model that `BertEncoder` does not read exactly: sentence-transformers then loads it or says what is wrong with it."""
    try:
        import threadpoolctl  # noqa: F401
        import tokenizers  # noqa: F401
        from safetensors import SafetensorError
    except ImportError:
        return None
    try:
        return BertEncoder(weights, context_length=context_length, normalize_embeddings=normalize_embeddings)
    except (OtherForm, OSError, ValueError, KeyError, TypeError, AttributeError, MemoryError, SafetensorError) as error:
        log.debug("%s is read by sentence-transformers: %s: %s", weights.name, type(error).__name__, error)
        return None


def compute_gelu(values: np.ndarray) -> np.ndarray:
    """x/2 (1 + erf(x / sqrt 2)), float32, with an error below 2e-7 (Hendrycks and Gimpel 2016, "Gaussian Error Linear Units")."""
    import numpy as np

    flat = values.reshape(-1)
    result = np.empty_like(flat)
    for start in range(0, len(flat), BLOCK):
        part = flat[start : start + BLOCK].astype(np.float64)
        result[start : start + BLOCK] = part * 0.5 * (1.0 + compute_erf(part * 0.5**0.5))
    return result.reshape(values.shape)


def compute_erf(values: np.ndarray) -> np.ndarray:
    """The error function of an array, float64, with an error below 2e-8: exact in single precision."""
    import numpy as np

    values = np.clip(values, -ERF_END, ERF_END)
    square = values * values
    above, below = np.full_like(square, ERF_P[0]), np.full_like(square, ERF_Q[0])
    for coefficient in ERF_P[1:]:
        above *= square
        above += coefficient
    for coefficient in ERF_Q[1:]:
        below *= square
        below += coefficient
    result: np.ndarray = above * values / below
    return result


def _apply(rows: np.ndarray, linear: Linear) -> np.ndarray:
    product: np.ndarray = rows @ linear[0].T
    product += linear[1]
    return product


def _iter_batches(read: Sequence[TokenizedText]) -> Iterator[list[int]]:
    """Places of texts with tokens, at most `BATCH_TOKENS` together unless one text alone has more."""
    batch: list[int] = []
    size = 0
    for at, text in enumerate(read):
        if not text.tokens:
            continue
        if batch and size + len(text.ids) > BATCH_TOKENS:
            yield batch
            batch, size = [], 0
        batch.append(at)
        size += len(text.ids)
    if batch:
        yield batch


class WordPieces:
    """BERT's tokenizer from tokenizer.json, called as those of transformers are."""

    pad_token_id = 0
    padding_side = "right"
    model_input_names = ("input_ids",)
    is_fast = False

    def __init__(self, folder: Path, *, lowercase: bool = False) -> None:
        """Raises `OtherForm` unless transformers, which builds BERT's tokenizer from vocabulary and settings, gets the same one.

        `lowercase`: the text is lower-cased before anything else, whatever the tokenizer does, as sentence-transformers does then.
        """
        from tokenizers import Tokenizer, normalizers

        options, special = _read_tokenizer_settings(folder)
        saved = _read_json(folder / "tokenizer.json")
        vocabulary = saved["model"]["vocab"]
        self.highest_id = max(vocabulary.values())
        saved["model"]["vocab"] = few = {token: vocabulary[token] for token in special.values()}
        try:
            read = Tokenizer.from_str(json.dumps(saved))
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # tokenizers raises nothing narrower
            raise OtherForm(f"tokenizer.json cannot be read: {error}") from error
        for tokenizer in (read, self._tokenizer):
            tokenizer.no_padding()
            tokenizer.no_truncation()
        if read.to_str() != _make_bert_tokenizer(few, options, special, read.decoder).to_str():
            raise OtherForm("tokenizer.json is not BERT's")
        if lowercase:
            self._tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), self._tokenizer.normalizer])

    def __call__(self, text: str | list[str], *, add_special_tokens: bool = True, **_: object) -> dict[str, Any]:
        """Ids as from a tokenizer of transformers with `truncation` and `padding` off."""
        if isinstance(text, str):
            return {"input_ids": self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids}
        return {"input_ids": [one.ids for one in self._tokenizer.encode_batch_fast(text, add_special_tokens=add_special_tokens)]}


def _make_bert_tokenizer(vocabulary: dict[str, int], options: Mapping[str, Any], special: Mapping[str, str], decoder: Any) -> Tokenizer:
    """As `BertTokenizer` of transformers 5 makes it."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    cls, sep = special["cls_token"], special["sep_token"]
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=special["unk_token"]))
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=options["tokenize_chinese_chars"],
        strip_accents=options["strip_accents"],
        lowercase=options["do_lower_case"],
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
        special_tokens=[(token, vocabulary[token]) for token in (cls, sep)],
    )
    tokenizer.decoder = decoder
    tokenizer.add_special_tokens(list(special.values()))
    return tokenizer


def _read_tokenizer_settings(folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The options of BERT's tokenizer and its special tokens. Raises `OtherForm` if the files state anything else."""
    settings = _read_json(folder / "tokenizer_config.json")
    options = {name: settings.get(name, default) for name, default in TOKENIZER_DEFAULTS.items()}
    special = {name: _read_token(settings.get(name) or default) for name, default in SPECIAL_TOKENS.items()}
    others = {name for name, value in settings.items() if value} - WITHOUT_EFFECT - {*options, *special, "added_tokens_decoder"}
    if (
        others
        or options["tokenizer_class"] not in {"BertTokenizer", "BertTokenizerFast"}
        or not options["do_basic_tokenize"]
        or options["padding_side"] != "right"
    ):
        raise OtherForm(f"its tokenizer has other settings: {', '.join(sorted(others))}")
    added = {_read_token(token) for token in settings.get("added_tokens_decoder", {}).values()}
    added.update(_read_json(folder / "added_tokens.json", optional=True))
    mapped = {name: _read_token(token) for name, token in _read_json(folder / "special_tokens_map.json", optional=True).items()}
    if not added <= set(special.values()) or any(special.get(name) != token for name, token in mapped.items()):
        raise OtherForm("its tokenizer has other special tokens")
    return options, special


def _read_token(token: Any) -> str:
    return str(token["content"] if isinstance(token, dict) else token)


def _read_json(path: Path, *, optional: bool = False) -> dict[str, Any]:
    if optional and not path.exists():
        return {}
    value = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise OtherForm(f"{path.name} holds no object")
    return value


def _read_modules(folder: Path) -> tuple[Path, str, bool]:
    """The folder of the transformer, the pooling, and whether the model gives unit vectors."""
    if not (folder / "modules.json").exists():  # as sentence-transformers takes a bare transformer
        return folder, "mean", False
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    kinds = [str(module["type"]) for module in modules]
    names = tuple(kind.rpartition(".")[2] for kind in kinds)
    own_code = any(not kind.startswith("sentence_transformers.") for kind in kinds)
    if own_code or names not in {("Transformer", "Pooling"), ("Transformer", "Pooling", "Normalize")}:
        raise OtherForm(f"its modules are {', '.join(kinds)}")
    pooling = _read_json(folder / modules[1]["path"] / "config.json")
    modes = [name for name, value in pooling.items() if name.startswith("pooling_mode_") and value]
    mode = pooling.get("pooling_mode", "+".join(POOLING_SWITCHES.get(name, name) for name in modes) or "mean")
    if mode not in ("mean", "cls") or not pooling.get("include_prompt", True):
        raise OtherForm(f"its pooling is {mode}")
    return folder / modules[0]["path"], mode, len(names) == 3


def _read_bert_config(folder: Path) -> dict[str, Any]:
    config = _read_json(folder / "config.json")
    if any(config.get(name, value) != value for name, value in CONFIG_DEFAULTS.items()) or any(config.get(name) for name in CONFIG_REFUSED):
        raise OtherForm("its config.json is not of a plain BERT")
    if (folder / "adapter_config.json").exists():
        raise OtherForm("it has an adapter")
    config = {**BERT_SIZES, **config}
    if int(config["hidden_size"]) % int(config["num_attention_heads"]):
        raise OtherForm("its heads do not divide its size")
    return config


def _read_module(folder: Path) -> dict[str, Any]:
    """The settings of the transformer module. Raises `OtherForm` for one with settings that are not read here."""
    module = _read_json(folder / "sentence_bert_config.json", optional=True)
    others = {path.name for path in folder.glob("sentence_*_config.json")} - {"sentence_bert_config.json"}
    others |= {name for name, value in module.items() if name not in MODULE_READ and value and value != MODULE_DEFAULTS.get(name)}
    if others:
        raise OtherForm(f"its transformer has other settings: {', '.join(sorted(others))}")
    return module


def _read_limits(folder: Path, config: Mapping[str, Any], module: Mapping[str, Any]) -> list[int]:
    """The numbers of tokens that the files state as limits."""
    own = module.get("max_seq_length")
    positions = int(config["max_position_embeddings"])
    stated = own or _read_json(folder / "tokenizer_config.json").get("model_max_length") or positions
    return [int(stated), positions]


def _read_prompts(folder: Path) -> tuple[dict[str, str], str]:
    """Prompts by name, and the name of the default one."""
    config = _read_json(folder / "config_sentence_transformers.json", optional=True)
    prompts, default = config.get("prompts") or {}, config.get("default_prompt_name") or ""
    if config.get("model_type", "SentenceTransformer") != "SentenceTransformer" or (default and default not in prompts):
        raise OtherForm("its config_sentence_transformers.json is of another kind")
    return prompts, default
