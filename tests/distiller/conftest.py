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


DEBERTA = {
    "relative_attention": True,
    "position_buckets": 16,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
    "type_vocab_size": 0,
}
"""As of microsoft/deberta-v3-base, with fewer buckets."""
CONVOLUTION = {"conv_kernel_size": 3, "conv_act": "gelu"}
"""What microsoft/deberta-v2-xlarge has besides."""


@pytest.fixture
def deberta(tmp_path: Path) -> MakeClassifier:
    """Makes a folder with DeBERTa's own architecture and tokenizer; `kind` is token or sequence, `version` v2 or v3."""

    def make_deberta(kind: str, version: str, labels: tuple[str, ...] = ("IRRELEVANT", "RELEVANT")) -> str:
        import torch
        from transformers import DebertaV2Config, DebertaV2ForSequenceClassification, DebertaV2ForTokenClassification, DebertaV2Tokenizer

        model_class = {"token": DebertaV2ForTokenClassification, "sequence": DebertaV2ForSequenceClassification}[kind]
        special = [(token, 0.0) for token in ("[PAD]", "[CLS]", "[SEP]", "[UNK]")]
        words = [(f"\u2581{word}", -2.0 - at / 10) for at, word in enumerate(WORDS)]
        pieces = [*special, *words, *((letter, -8.0) for letter in "\u2581.,sp"), ("[MASK]", 0.0)]
        folder = tmp_path / f"deberta-{version}-{kind}"
        config = DebertaV2Config(
            vocab_size=len(pieces),
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=64,
            initializer_range=0.5,
            id2label=dict(enumerate(labels)),
            label2id={label: at for at, label in enumerate(labels)},
            **DEBERTA,
            **(CONVOLUTION if version == "v2" else {}),
        )
        with torch.random.fork_rng():
            torch.manual_seed(1)
            model_class(config).save_pretrained(folder)
        DebertaV2Tokenizer(vocab=pieces, unk_id=3, do_lower_case=True, model_max_length=64).save_pretrained(folder)
        return str(folder)

    return make_deberta
