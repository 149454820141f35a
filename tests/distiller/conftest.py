"""Tiny classifiers with random weights, in the format of real ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

WORDS = "aspirin stroke mice risk lowers the of in adults sleep not no never without mg 5 12 . , # it".split()
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

MakeClassifier = Callable[..., str]


@pytest.fixture
def classifier(tmp_path: Path) -> MakeClassifier:
    """Makes a model folder with these labels; `kind` is token, sequence or none (no classifier)."""

    def make_classifier(kind: str = "token", labels: tuple[str, ...] = ("RELEVANT",), positions: int = 64, name: str = "tiny") -> str:
        import torch
        from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification, BertForTokenClassification, BertTokenizerFast

        model_class = {"token": BertForTokenClassification, "sequence": BertForSequenceClassification, "none": BertForMaskedLM}[kind]
        folder = tmp_path / name
        folder.mkdir()
        (folder / "vocab.txt").write_text("\n".join([*SPECIAL, *WORDS, "##s", "##p"]) + "\n")
        config = BertConfig(
            vocab_size=len(SPECIAL) + len(WORDS) + 2,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=positions,
            id2label=dict(enumerate(labels)),
            label2id={label: at for at, label in enumerate(labels)},
        )
        with torch.random.fork_rng():
            torch.manual_seed(1)
            model_class(config).save_pretrained(folder)
        BertTokenizerFast(vocab=str(folder / "vocab.txt"), model_max_length=positions).save_pretrained(folder)
        return str(folder)

    return make_classifier
