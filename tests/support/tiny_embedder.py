"""An embedding model of one layer with random weights, in the format of real ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz", *(f"##{letter}" for letter in "abcdefghij")]


def make_tiny_embedder(folder: Path, dimension: int = 16, spoil: Callable[[Any], None] | None = None, seed: int = 7) -> Path:
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY))
    BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=32).save_pretrained(folder)
    torch.manual_seed(seed)
    model = BertModel(
        BertConfig(
            vocab_size=len(VOCABULARY),
            hidden_size=dimension,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=32,
        )
    )
    if spoil:
        spoil(model)
    model.save_pretrained(folder)
    return folder
