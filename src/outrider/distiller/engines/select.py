"""Engine selection by the names in the settings, with shipped weights and calibrations."""

from __future__ import annotations

import json
import math
import re
from functools import lru_cache
from pathlib import Path
from typing import Literal

from outrider.distiller.calibration import read_calibration
from outrider.distiller.engines.answering import Answering
from outrider.distiller.engines.by_kind_of_text import ByKindOfText
from outrider.distiller.engines.classifier import Classifier
from outrider.distiller.engines.embedding import Embedder, Embedding
from outrider.distiller.engines.ensemble import Engine, Ensemble, EnsembleWeights
from outrider.distiller.engines.lexical import Lexical, Rhetoric
from outrider.distiller.engines.llmlingua2 import LLMLingua2
from outrider.models.loading import choose_device
from outrider.runtime.threads_and_loops import get_shared
from outrider.state.distilling import Calibration
from outrider.state.errors import BadRequest

_read_shipped = lru_cache(maxsize=16)(read_calibration)

EngineName = Literal["words", "words+", "lexical", "embedding", "ensemble", "classifier", "classifier+", "llmlingua2"]
"""For abstracts, `words` combines lexical and rhetoric, and `ensemble` adds the embedding; other texts are left to `Answering`, which has
the embedding model in `words+` and `ensemble`. `classifier+` combines the ensemble and the classifier."""
MAX_TOKENS = 800
"""Tokens of all texts of a call that the model reads for `words+`, so that a search from the command line waits a quarter of a second."""

SHIPPED = Path(__file__).parents[1] / "defaults"
CALIBRATION_FILE = "calibration"
"""File name of a calibration in a classifier's folder; without `.json`, because a model's fingerprint covers all such files."""
WEIGHTS_FILE = "weights"
"""File in a classifier's folder with its weights in `classifier+`; without it the ensemble and the classifier have equal weights."""
WORDS_WEIGHTS = EnsembleWeights((0.995, 0.966), 1.347)
ENSEMBLE_WEIGHTS = EnsembleWeights((0.551, 0.961, 0.702), 1.681)
"""Weights of lexical, rhetoric and embedding: logistic regression on half of SciFact's claims (`python -m bench.train_distiller`)."""
HALVES = EnsembleWeights((0.5, 0.5))
CACHED_MODELS = 2
RATES: dict[EngineName, tuple[float, float]] = {
    "embedding": (150.0, 3_000.0),
    "ensemble": (150.0, 3_000.0),
    "classifier": (50.0, 2_000.0),
    "classifier+": (40.0, 1_000.0),
    "llmlingua2": (50.0, 1_000.0),
}
"""Units a second without and with an accelerator. Engines without a model count as instantaneous."""


_make_classifier = lru_cache(maxsize=CACHED_MODELS)(Classifier)
_make_llmlingua = lru_cache(maxsize=CACHED_MODELS)(LLMLingua2)


def make_engine(
    name: EngineName, embedder: Embedder | None = None, model_name: str = "", device: str = "auto", *, downloads: bool = True
) -> Engine:
    """The engine, without loading its model. Raises `BadRequest` if a required embedder or model name is missing."""
    if name in ("classifier", "llmlingua2") and not model_name:
        raise BadRequest(f"the distiller's engine {name} needs a model; set a folder or a hub model")
    if name == "lexical":
        return Lexical()
    if name == "words":
        return ByKindOfText(Ensemble((Lexical(), Rhetoric()), WORDS_WEIGHTS), Answering())
    if name == "words+" and embedder is not None:
        return ByKindOfText(Ensemble((Lexical(), Rhetoric()), WORDS_WEIGHTS), Answering(embedder, MAX_TOKENS))
    if name == "classifier":
        return get_shared(_make_classifier, model_name, device, downloads)
    if name == "llmlingua2":
        return make_llmlingua(model_name, device, downloads=downloads)
    if embedder is None:
        raise BadRequest(f"the distiller's engine {name} needs an embedding model; see embedding.model_name")
    if name == "embedding":
        return Embedding(embedder)
    members = (Lexical(), Rhetoric(), Embedding(embedder))
    every = Ensemble(members, ENSEMBLE_WEIGHTS)
    if name == "ensemble":
        return ByKindOfText(every, Answering(embedder))
    classifier = make_engine("classifier", None, model_name, device, downloads=downloads)
    own = Path(model_name).expanduser() / WEIGHTS_FILE
    return Ensemble((*members, classifier), _weights(own)) if own.is_file() else Ensemble((every, classifier), HALVES)


def _weights(file: Path) -> EnsembleWeights:
    try:
        payload = json.loads(file.read_text(encoding="utf-8"))
        return EnsembleWeights(tuple(map(float, payload["each"])), float(payload["intercept"]), tuple(map(float, payload["behind"])))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise BadRequest(f"{file} holds no weights of the distiller; `python -m bench.train_distiller` writes them") from error


def make_llmlingua(model_name: str, device: str = "auto", *, downloads: bool = True) -> LLMLingua2:
    """The process's engine for this model; loads nothing."""
    return get_shared(_make_llmlingua, model_name, device, downloads)


def units_a_second(name: EngineName, device: str) -> float:
    """Approximate constants, not measurements, so that decisions based on them do not vary between runs."""
    if name not in RATES:
        return math.inf
    slow, fast = RATES[name]
    return slow if choose_device(device)[0].startswith("cpu") else fast


def find_calibration(engine: Engine) -> Calibration | None:
    """The shipped calibration, or the one in a classifier's folder; None if there is none for exactly these weights."""
    if isinstance(engine, Classifier):
        own = Path(engine.model_name).expanduser() / CALIBRATION_FILE
        calibration = read_calibration(own) if own.is_file() else None
    else:
        own = SHIPPED / calibration_file_name(engine)
        calibration = _read_shipped(own) if own.is_file() else None
    return calibration if calibration and (calibration.engine, calibration.revision) == (engine.name, engine.revision) else None


def calibration_file_name(engine: Engine) -> str:
    """File name of the calibration for an engine and its weights."""
    engine_name = re.sub(r"[^a-z0-9]+", "-", engine.name.casefold())
    return f"{engine_name}-{re.sub(r'[^a-z0-9]+', '-', engine.revision.casefold())[:24]}.json"
