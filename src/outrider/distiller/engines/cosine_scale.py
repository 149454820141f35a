"""Cosines of any embedding model, on the scale of the one that weights were fitted with.

What a cosine says differs by model: tokens of unrelated texts have .12 with all-MiniLM-L6-v2, .32 with bge-small-en-v1.5 and .70 with
multilingual-e5-small. Fixed pairs of a question and a passage that answers it, and the same with the passages exchanged, tell how a
model's cosines divide related texts from unrelated ones. A linear map gives them the log-odds that the fitted model's had there (Fisher
1936, "The use of multiple measurements in taxonomic problems": means over a common variance).
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from outrider.distiller.engines.embedding import Embedder
from outrider.models.weights import COMMIT

if TYPE_CHECKING:
    import numpy as np

PAIRS_FILE = Path(__file__).with_name("related_pairs.json")
FITTED_NAME = "all-minilm-l6-v2"
FITTED_REVISION = "sha256:a0bcc0c748d5ff1cb37ad7e754a48f9a698244b1c4df9ed64ddc073ebc86e334"
"""Of the same weights as a local folder."""
LEAST_SEPARATION = 1.0
"""Standard deviations of unrelated pairs by which related ones must lie above them; a model that cannot tell them apart has no scale."""
LEAST_SLOPE, MOST_SLOPE = 0.5, 4.0


class CosineScale(NamedTuple):
    shift: float = 0.0
    slope: float = 1.0

    def apply(self, cosines: np.ndarray) -> np.ndarray:
        """The same shape."""
        mapped: np.ndarray = self.shift + self.slope * cosines
        return mapped


class Division(NamedTuple):
    """Where cosines of related and unrelated texts meet, and the log-odds of "related" for each unit of cosine above it."""

    middle: float
    log_odds: float


class CosineScales(NamedTuple):
    """Of the cosine of each of a question's tokens with the closest one of a text, and of both texts' mean tokens."""

    tokens: CosineScale = CosineScale()
    means: CosineScale = CosineScale()


FITTED = (Division(0.289, 48.8), Division(0.253, 41.4))
"""Tokens and means of all-MiniLM-L6-v2 over the pairs."""
_known: dict[tuple[str, type], CosineScales] = {}


def find_scales(embedder: Embedder) -> CosineScales:
    """The scales of a model: measured at its first use, and kept in the user's cache folder. Raises `ModelUnavailable`."""
    space = embedder.space
    if space.revision == FITTED_REVISION or space.model_name.rstrip("/").rpartition("/")[2].casefold() == FITTED_NAME:
        return CosineScales()
    key = space.id, type(embedder)
    if key not in _known:
        is_certain = space.revision.startswith("sha256:") or COMMIT.fullmatch(space.revision)  # a served name may get other weights
        file = _find_file(space.id) if is_certain else None
        scales = _read(file) if file else None
        if scales is None:
            scales = measure_scales(embedder)
            if file:
                _write(file, scales)
        _known[key] = scales
    return _known[key]


def measure_scales(embedder: Embedder) -> CosineScales:
    """From the token vectors of the fixed pairs, some 800 tokens. Raises `ModelUnavailable` for a model that gives none."""
    import numpy as np

    pairs = load_pairs()
    asked = embedder.token_vectors([question for question, _ in pairs], "query")
    told = embedder.token_vectors([passage for _, passage in pairs])
    if not all(len(tokens) for tokens in (*asked, *told)):
        return CosineScales()
    closest = np.array([[(question @ passage.T).max(axis=1).mean() for passage in told] for question in asked])
    means = [np.array([tokens.mean(axis=0) for tokens in side]) for side in (asked, told)]
    means = [side / (np.linalg.norm(side, axis=1, keepdims=True) + 1e-9) for side in means]
    return CosineScales(*(_compare(cosines, fitted) for cosines, fitted in zip((closest, means[0] @ means[1].T), FITTED, strict=True)))


def _compare(cosines: np.ndarray, fitted: Division) -> CosineScale:
    """`cosines` of each question, one row, with each passage, its own on the diagonal."""
    import numpy as np

    related, unrelated = cosines.diagonal(), cosines[~np.eye(len(cosines), dtype=bool)]
    distance = float(related.mean() - unrelated.mean())
    if distance <= LEAST_SEPARATION * float(unrelated.std()):
        return CosineScale()
    log_odds = distance / float((related.var() + unrelated.var()) / 2)
    slope = min(MOST_SLOPE, max(LEAST_SLOPE, log_odds / fitted.log_odds))
    return CosineScale(fitted.middle - slope * float(related.mean() + unrelated.mean()) / 2, slope)


@lru_cache(maxsize=1)
def load_pairs() -> tuple[tuple[str, str], ...]:
    """Questions and passages that answer them, with hardly a word in common."""
    return tuple((question, passage) for question, passage in json.loads(PAIRS_FILE.read_text(encoding="utf-8")))


def _find_file(space_id: str) -> Path:
    import platformdirs

    digest = hashlib.sha256(PAIRS_FILE.read_bytes() + repr(FITTED).encode()).hexdigest()[:8]
    return platformdirs.user_cache_path("outrider", appauthor=False) / "scales" / f"{space_id}-{digest}.json"


def _read(file: Path) -> CosineScales | None:
    """None where it is absent or damaged."""
    with suppress(OSError, ValueError, TypeError):
        tokens, means = (CosineScale(float(shift), float(slope)) for shift, slope in json.loads(file.read_text(encoding="utf-8")))
        return CosineScales(tokens, means)
    return None


def _write(file: Path, scales: CosineScales) -> None:
    """A folder that cannot be written costs the next process a measurement."""
    unfinished = file.with_name(f"{file.name}.{os.getpid()}")
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(json.dumps(scales), encoding="utf-8")
        unfinished.replace(file)
