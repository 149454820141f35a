"""What loading a model takes on this machine, whether it is to embed, to rerank or to be trained: a device, memory, whole files."""

from __future__ import annotations

import logging
import pickle
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from outrider.models.weights import EMBEDDING_SETTINGS, FEATURE, SettingNames, Weights, explain_own_code, shorten_error
from outrider.state.errors import MissingExtra, ModelUnavailable

LOAD_ERRORS = (OSError, ValueError, RuntimeError, MemoryError, KeyError, TypeError, AttributeError, ImportError, pickle.UnpicklingError)
"""What transformers raises for files that are missing, cut short, or of another kind than they say, and where memory ends."""
LOGGERS = ("transformers.modeling_utils", "sentence_transformers.base.model", "sentence_transformers.base.modules.transformer")
MISSING_WEIGHT = re.compile(r"^(?:\x1b\[\d+m)?([\w.]+)[^|\n]*\|(?:[^\n]*?)MISSING", re.MULTILINE)


def choose_device(wanted: str, names: SettingNames = EMBEDDING_SETTINGS) -> tuple[str, int]:
    """The device's name and, of an accelerator, its memory in bytes. Raises `ModelUnavailable` where it is not there."""
    torch = _torch()
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    name = wanted if wanted != "auto" else "cuda" if cuda else "mps" if mps else "cpu"
    there = {"cpu": 1, "cuda": torch.cuda.device_count() if cuda else 0, "mps": int(mps)}
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or (device.index or 0) >= there.get(device.type, 0):
        raise ModelUnavailable(f"{names.device} is {wanted}, which torch does not find here; set auto or cpu")
    if device.type == "cuda":
        return name, int(torch.cuda.get_device_properties(device).total_memory)
    return name, int(torch.mps.recommended_max_memory()) if device.type == "mps" else 0


@contextmanager
def catch_load_errors(weights: Weights, names: SettingNames = EMBEDDING_SETTINGS) -> Iterator[list[str]]:
    """Collects the names of weights that transformers makes up because the files lack them; keeps it silent meanwhile.

    Whatever it raises becomes `ModelUnavailable`.
    """
    from safetensors import SafetensorError

    with collect_missing_weights() as made_up:
        try:
            yield made_up
        except (*LOAD_ERRORS, SafetensorError) as error:
            raise ModelUnavailable(_why_not(weights, names, error)) from error


def _why_not(weights: Weights, names: SettingNames, error: Exception) -> str:
    if is_out_of_memory(error):
        return f"{weights.name} does not fit into memory; set {names.model} to a smaller model or {names.device} to cpu"
    if "trust_remote_code" in str(error):
        return explain_own_code(weights.name, names)
    if not (weights.folder / "config.json").is_file() and not (weights.folder / "modules.json").is_file():
        return f"{weights.name} cannot be loaded: {weights.folder} is not a model's folder, it has no config.json"
    return f"{weights.name} cannot be loaded, its files may be corrupt or of another kind of model: {shorten_error(error)}"


def is_out_of_memory(error: BaseException) -> bool:
    """Of cuda and mps, and of the CPU's allocator, which raises a plain RuntimeError."""
    said = str(error).lower()
    return isinstance(error, MemoryError) or any(
        words in said for words in ("out of memory", "can't allocate memory", "not enough memory", "alloc_failed")
    )


def empty_cache() -> None:
    torch = _torch()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    elif torch.backends.mps.is_available():
        torch.mps.empty_cache()


@contextmanager
def collect_missing_weights() -> Iterator[list[str]]:
    """Collects weights that transformers reports, with no more than a warning, as made up."""
    from transformers.utils import logging as theirs

    missing: list[str] = []
    thread = threading.get_ident()

    def hear(record: logging.LogRecord) -> bool:
        if record.thread != thread:
            return True
        missing.extend(name for name in MISSING_WEIGHT.findall(record.getMessage()) if "pooler" not in name)
        return record.levelno >= logging.ERROR

    loggers = [logging.getLogger(name) for name in LOGGERS]
    bars = theirs.is_progress_bar_enabled()
    theirs.disable_progress_bar()
    for logger in loggers:
        logger.addFilter(hear)
    try:
        yield missing
    finally:
        for logger in loggers:
            logger.removeFilter(hear)
        if bars:
            theirs.enable_progress_bar()


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtra(FEATURE, "models") from error
    return torch
