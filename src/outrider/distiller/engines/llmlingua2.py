"""LLMLingua-2 engine: how informative a unit is, and compression of kept units.

Pan et al. 2024, "LLMLingua-2: Data Distillation for Efficient and Faithful Task-Agnostic Prompt Compression". The model rates each
token without the query. A unit's score is the mean over its tokens: it measures how informative the unit is, not whether it answers. The
engine can also remove words from a kept unit. The result is not verbatim: words are missing, spaces and case may change. If a number or
a negation would be lost, or no text would remain, the unit stays unchanged.

Workarounds for the package: its constructor downloads a token table and sets global random seeds, it chooses the tokenizer format by the
model's name, it runs a model's own code by default, and it fails on empty texts and on texts of unknown words.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from outrider.distiller.engines.ensemble import Scores
from outrider.distiller.selection import numbers_and_negations
from outrider.distiller.units import SegmentedText
from outrider.models.loading import catch_load_errors, check_tokenizer, choose_device
from outrider.models.weights import SettingNames, Weights, find_weights, refuse_own_code
from outrider.runtime.threads_and_loops import stop_if_abandoned
from outrider.state.errors import BadRequest, MissingExtra, ModelUnavailable

LLMLINGUA_SETTINGS = SettingNames("distiller.llmlingua_model", "distiller.device", "distiller.llmlingua_model")
KINDS = {"xlm-roberta": "xlm-roberta-large", "bert": "bert-base-multilingual-cased"}
"""Model types, and the model names by which the package selects one of its two tokenizer formats."""
PADDING = {"xlm-roberta-large": "<pad>", "bert-base-multilingual-cased": "[PAD]"}
"""Padding tokens, set explicitly, because the package treats the id 0, which is BERT's padding token, as missing."""
FORCED = ("not", "no", "never", "without", "nor", "cannot")
RATE = 0.6
BATCH = 32
MAX_WORDS = 220
"""Maximum length of a piece. The package truncates at 512 tokens without a warning."""

_patching = threading.Lock()


@dataclass(slots=True)
class LLMLingua2:
    """The engine; `model_name` is a folder or hub name of a token classifier in LLMLingua-2's format, loaded at first use."""

    model_name: str
    device: str = "auto"
    downloads: bool = True
    _compressor: Any = None
    _weights: Weights | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    @property
    def name(self) -> str:
        return f"llmlingua2 {Path(self.model_name).name}"

    @property
    def revision(self) -> str:
        """Revision of the weights; loads them."""
        with self._lock:
            self._load()
            return self._weights.revision if self._weights else ""

    def scores(self, query: str, cuts: Sequence[SegmentedText]) -> Scores:
        """The mean keep probability of each unit's tokens, 0 for a unit without tokens. Ignores the query."""
        every: Scores = []
        for texts in (its.texts() for its in cuts):
            order = sorted(range(len(texts)), key=lambda at: (-len(texts[at]), at))
            shares = [0.0] * len(texts)
            with self._lock:
                compressor = self._load()
                for start in range(0, len(order), BATCH):
                    stop_if_abandoned()
                    places = order[start : start + BATCH]
                    for at, value in zip(places, _mean_keep_probabilities(compressor, [texts[at] for at in places]), strict=True):
                        shares[at] = value
            every.append(shares)
        return every

    def compress(self, text: str, rate: float = RATE) -> str:
        """About `rate` of the words of `text`; the text unchanged if a number or a negation would be lost."""
        if not 0 < rate <= 1:
            raise BadRequest(f"the share of words to keep is {rate}; use a value above 0 and at most 1")
        if not text.strip() or rate == 1:
            return text
        with self._lock:
            stop_if_abandoned()
            words = text.split()
            pieces = (" ".join(words[at : at + MAX_WORDS]) for at in range(0, len(words), MAX_WORDS))  # short enough to avoid truncation
            shorter = " ".join(self._compress_piece(piece, rate) for piece in pieces)
        # The package splits numbers at the decimal point: "93. 5"
        lost = Counter(numbers_and_negations(text)) - Counter(numbers_and_negations(re.sub(r"(?<=\d)\s*([.,])\s*(?=\d)", r"\1", shorter)))
        return text if lost or not shorter.strip() else shorter

    def _compress_piece(self, piece: str, rate: float) -> str:
        piece = _encodable(piece)
        tokenizer = self._load().tokenizer
        tokens = tokenizer.tokenize(piece)
        if not tokens or tokens[0] == tokenizer.unk_token or tokens[0].startswith("##"):
            return piece  # the package fails on a piece that begins with an unknown or continuation token
        try:
            result = self._load().compress_prompt_llmlingua2([piece], rate=rate, force_tokens=list(FORCED), force_reserve_digit=True)
        except (ZeroDivisionError, IndexError, ValueError):
            return piece  # it fails on pieces without a word in its vocabulary
        return str(result["compressed_prompt_list"][0])

    def _load(self) -> Any:
        with self._lock:
            if self._compressor is None:
                self._weights = find_weights(self.model_name, fetch=self.downloads, names=LLMLINGUA_SETTINGS)
                self._compressor = _load_compressor(self._weights, self.device)
            return self._compressor


def _mean_keep_probabilities(compressor: Any, texts: Sequence[str]) -> list[float]:
    import torch

    read = compressor.tokenizer(
        list(map(_encodable, texts)), padding=True, truncation=True, max_length=512, return_tensors="pt", return_special_tokens_mask=True
    )
    own = read["attention_mask"] * (1 - read.pop("special_tokens_mask"))
    with torch.inference_mode():
        logits = compressor.model(**{name: tensor.to(compressor.device) for name, tensor in read.items()}).logits.float().cpu()
    keep_probabilities = torch.softmax(logits, -1)[..., 1] * own
    return [float(value) for value in keep_probabilities.sum(-1) / own.sum(-1).clamp(min=1)]


def _encodable(text: str) -> str:
    """The text without lone surrogates, on which tokenizers fail."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _load_compressor(weights: Weights, device: str) -> Any:
    refuse_own_code(weights, LLMLINGUA_SETTINGS)
    on, _ = choose_device(device, LLMLINGUA_SETTINGS)
    with catch_load_errors(weights, LLMLINGUA_SETTINGS) as missing_weights:
        # The package needs the tokenizer format; the files determine it, not the folder's name
        from transformers import AutoConfig

        config = AutoConfig.from_pretrained(weights.folder)
        if config.model_type not in KINDS or not str((config.architectures or [""])[0]).endswith("ForTokenClassification"):
            raise ModelUnavailable(
                f"{weights.name} is no LLMLingua-2 model; those are token classifiers of the types {', '.join(sorted(KINDS))}"
            )
        kind = KINDS[config.model_type]
        compressor = _make_compressor(weights, on, kind)
    check_tokenizer(compressor.tokenizer, weights, LLMLINGUA_SETTINGS)
    if missing_weights:
        raise ModelUnavailable(f"{weights.name} is no LLMLingua-2 model: its files lack the weight {missing_weights[0]}")
    if getattr(compressor.model.config, "num_labels", 0) != 2:
        raise ModelUnavailable(f"{weights.name} is no LLMLingua-2 model: it does not have the two labels keep and drop")
    compressor.model.eval()
    return compressor


def _make_compressor(weights: Weights, device: str, kind: str) -> Any:
    try:
        prompt_compressor: Any = import_module("llmlingua.prompt_compressor")
    except ImportError as error:
        raise MissingExtra("LLMLingua-2", "models") from error
    with _patching, _without_tiktoken(prompt_compressor):
        compressor = prompt_compressor.PromptCompressor.__new__(prompt_compressor.PromptCompressor)
        # Its constructor sets the global random seeds; restore them afterwards
        import random

        import numpy as np
        import torch

        cudnn = torch.backends.cudnn
        state = random.getstate(), np.random.get_state(), torch.get_rng_state(), cudnn.deterministic, cudnn.benchmark
        compressor.__init__(str(weights.folder), device_map=device, model_config={"trust_remote_code": False, "local_files_only": True})
        compressor.model_name, compressor.use_llmlingua2 = kind, True
        compressor.oai_tokenizer.encode = lambda text: compressor.tokenizer.tokenize(text) or [text]
        compressor.tokenizer.padding_side, compressor.tokenizer.pad_token = "right", PADDING[kind]
        compressor.init_llmlingua2(max_batch_size=BATCH)
        random.setstate(state[0])
        np.random.set_state(state[1])
        torch.set_rng_state(state[2])
        cudnn.deterministic, cudnn.benchmark = state[3], state[4]
    return compressor


@contextmanager
def _without_tiktoken(module: Any) -> Iterator[None]:
    """Replace tiktoken while the package's constructor runs, which would download a table for counting tokens."""

    class NoEncoding:
        encode: Any = None

    class NoTiktoken:
        @staticmethod
        def encoding_for_model(_: str) -> NoEncoding:
            return NoEncoding()

    original = module.tiktoken
    module.tiktoken = NoTiktoken
    try:
        yield
    finally:
        module.tiktoken = original
