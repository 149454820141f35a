"""Which weights stand behind a reranker's name: a folder can be trained into again, and a hub name fetched again."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from outrider.retrieval.embed.weights import find, fingerprint
from outrider.retrieval.rerank.cross_encoder import RERANKER, CrossEncoderReranker
from outrider.retrieval.rerank.late_interaction import LateInteraction
from outrider.retrieval.rerank.presets import preset_of
from outrider.state.errors import ModelUnavailable
from outrider.state.ports import Reranker

FINGERPRINTS = 16

Stamps = tuple[tuple[str, int, int], ...]
"""Path, size and time of change of each file of a folder."""


def own_name(name: str) -> str:
    """One name for one reranker: a preset's own, a folder's path whatever directory it is named from, else as it is."""
    if preset := preset_of(name):
        return preset.name
    folder = Path(name).expanduser()
    return str(folder.resolve()) if folder.is_dir() else name


def revision_of(reranker: Reranker) -> str:
    """The hub's commit, a folder's fingerprint, or the embedding model's revision; of a served one only its name is known.

    Raises `ModelUnavailable` or `MissingExtra` where the weights are not on this machine.
    """
    if isinstance(reranker, CrossEncoderReranker):
        return weights_revision(reranker.name)
    if isinstance(reranker, LateInteraction):
        return reranker.revision
    return reranker.name


def weights_revision(name: str) -> str:
    """Of a folder or hub name. Reads a folder only where its files have changed since the last time."""
    folder = Path(name).expanduser()
    if not folder.is_dir():
        return find(name, fetch=False, asked=RERANKER).revision
    if not (folder / "config.json").is_file():
        raise ModelUnavailable(f"{folder} is not a model's folder, it has no config.json")
    try:
        return _fingerprint(folder, _stamps(folder))
    except OSError as error:
        raise ModelUnavailable(f"the reranker at {name} cannot be read: {error.strerror or error}") from error


@lru_cache(maxsize=FINGERPRINTS)
def _fingerprint(folder: Path, _: Stamps) -> str:
    return fingerprint(folder)


def _stamps(folder: Path) -> Stamps:
    known = ((path, path.stat()) for path in folder.rglob("*") if path.is_file())
    return tuple(sorted((str(path), stat.st_size, stat.st_mtime_ns) for path, stat in known))
