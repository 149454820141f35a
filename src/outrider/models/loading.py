"""Loading of models: choice of the device, missing weights, errors and memory."""

from __future__ import annotations

import logging
import pickle
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from outrider.models.weights import EMBEDDING_SETTINGS, FEATURE, TOKENIZER_FILES, SettingNames, Weights, explain_own_code, shorten_error
from outrider.state.errors import MissingExtra, ModelUnavailable

LOAD_ERRORS = (OSError, ValueError, RuntimeError, MemoryError, KeyError, TypeError, AttributeError, ImportError, pickle.UnpicklingError)
"""Errors that transformers raises for missing, truncated or wrong files, and when memory runs out."""
LOGGERS = ("transformers.modeling_utils", "sentence_transformers.base.model", "sentence_transformers.base.modules.transformer")
MISSING_WEIGHT = re.compile(r"^(?:\x1b\[\d+m)?([\w.]+)[^|\n]*\|(?:[^\n]*?)MISSING", re.MULTILINE)


def choose_device(setting: str, names: SettingNames = EMBEDDING_SETTINGS) -> tuple[str, int]:
    """The device's name and, for an accelerator, its memory in bytes. Raises `ModelUnavailable` if it does not exist."""
    torch = _torch()
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    name = setting if setting != "auto" else "cuda" if cuda else "mps" if mps else "cpu"
    counts = {"cpu": 1, "cuda": torch.cuda.device_count() if cuda else 0, "mps": int(mps)}
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or (device.index or 0) >= counts.get(device.type, 0):
        raise ModelUnavailable(f"{names.device} is {setting}, which torch does not find here; set auto or cpu")
    if device.type == "cuda":
        return name, int(torch.cuda.get_device_properties(device).total_memory)
    return name, int(torch.mps.recommended_max_memory()) if device.type == "mps" else 0


@contextmanager
def catch_load_errors(weights: Weights, names: SettingNames = EMBEDDING_SETTINGS) -> Iterator[list[str]]:
    """Turn loading errors into `ModelUnavailable`; yields the list of weights that the files lack and transformers invents."""
    from safetensors import SafetensorError

    with collect_missing_weights() as missing:
        try:
            yield missing
        except (*LOAD_ERRORS, SafetensorError) as error:
            if is_out_of_memory(error):
                why = f"{weights.name} does not fit into memory; set {names.model} to a smaller model or {names.device} to cpu"
            elif "trust_remote_code" in str(error):
                why = explain_own_code(weights.name, names)
            elif _lacks_sentencepiece(weights):
                why = (
                    f"{weights.name} cannot be loaded: its tokenizer is a SentencePiece file, which needs two packages: "
                    "pip install sentencepiece protobuf"
                )
            elif not (weights.folder / "config.json").is_file() and not (weights.folder / "modules.json").is_file():
                why = f"{weights.name} cannot be loaded: {weights.folder} is not a model's folder, it has no config.json"
            else:
                why = f"{weights.name} cannot be loaded, its files may be corrupt or of another kind of model: {shorten_error(error)}"
            raise ModelUnavailable(why) from error


def check_tokenizer(tokenizer: Any, weights: Weights, names: SettingNames = EMBEDDING_SETTINGS) -> None:
    """Raise `ModelUnavailable` if the folder holds no file of the tokenizer's vocabulary.

    transformers then makes a tokenizer of nothing but special tokens, without a warning, and all texts look alike to the model. A
    tokenizer of bytes or characters (ByT5, CANINE) has no such file and needs none.
    """
    files = sorted(set(getattr(tokenizer, "vocab_files_names", {}).values()))
    if files and not any(path.is_file() for name in (*files, *TOKENIZER_FILES) for path in weights.folder.rglob(name)):
        raise ModelUnavailable(
            f"{weights.name} has no tokenizer: {weights.folder} holds none of {', '.join(files)}; save it there as well "
            f"(tokenizer.save_pretrained), or set {names.model} to another model"
        )


def _lacks_sentencepiece(weights: Weights) -> bool:
    """Whether the tokenizer is a SentencePiece file alone, as of many DeBERTa-v3 models, and its packages are not installed."""
    if any(weights.folder.rglob("tokenizer.json")) or not any(weights.folder.rglob("*.model")):
        return False
    return find_spec("sentencepiece") is None or find_spec("google.protobuf") is None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out on cuda, mps or the CPU, whose allocator raises a plain RuntimeError."""
    message = str(error).lower()
    return isinstance(error, MemoryError) or any(
        words in message for words in ("out of memory", "can't allocate memory", "not enough memory", "alloc_failed")
    )


def empty_cache() -> None:
    """Return the unused memory of the accelerator, if there is one, to the system."""
    torch = _torch()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    elif torch.backends.mps.is_available():
        torch.mps.empty_cache()


@contextmanager
def collect_missing_weights() -> Iterator[list[str]]:
    """Collect the names of missing weights, which transformers only warns about; silences its logs and progress bars."""
    from transformers.utils import logging as transformers_logging

    missing: list[str] = []
    thread = threading.get_ident()

    def collect(record: logging.LogRecord) -> bool:
        if record.thread != thread:
            return True
        missing.extend(name for name in MISSING_WEIGHT.findall(record.getMessage()) if "pooler" not in name)
        return record.levelno >= logging.ERROR

    loggers = [logging.getLogger(name) for name in LOGGERS]
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    for logger in loggers:
        logger.addFilter(collect)
    try:
        yield missing
    finally:
        for logger in loggers:
            logger.removeFilter(collect)
        if bars:
            transformers_logging.enable_progress_bar()


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtra(FEATURE, "models") from error
    return torch
