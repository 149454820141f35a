"""Cross-encoders that are known by name: how much they read, in what form, under which licence."""

from __future__ import annotations

from dataclasses import dataclass

INSTRUCTION = "Given a search query, retrieve the works that answer it or are about it"
"""Qwen3-Reranker's card: "Given a web search query, retrieve relevant passages that answer the query"; it advises one's own."""

QWEN3_TEMPLATE = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. "
    'Note that the answer can only be "yes" or "no".<|im_end|>\n'
    f"<|im_start|>user\n<Instruct>: {INSTRUCTION}\n"
    "<Query>: {{ (messages | selectattr('role', 'equalto', 'query') | first).content | replace('<|', '< |') }}\n"
    "<Document>: {{ (messages | selectattr('role', 'equalto', 'document') | first).content | replace('<|', '< |') }}<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>{{ '\n\n' }}"  # Jinja drops a line break at the end of a template
)
"""The model card's prompt as a chat template for sentence-transformers' pairs (roles `query` and `document`).

Without it the model's answers are close to chance: vLLM pull request 19260. The score is logit("yes") - logit("no").
A text cannot end its part: what looks like the template's own marks is taken apart.
"""


@dataclass(frozen=True, slots=True)
class CrossEncoderPreset:
    """A hub name, the tokens that it reads of query and text together, and what its card says of use."""

    name: str
    max_length: int
    licence: str
    chat_template: str = ""


PRESETS = (
    # huggingface.co/Qwen/Qwen3-Reranker-0.6B: 32k of context, 8,192 in the card's code.
    CrossEncoderPreset("Qwen/Qwen3-Reranker-0.6B", 8_192, "Apache-2.0", QWEN3_TEMPLATE),
    # huggingface.co/BAAI/bge-reranker-v2-m3: reads 8,192, trained and recommended with 1,024 (its discussion 9).
    CrossEncoderPreset("BAAI/bge-reranker-v2-m3", 1_024, "Apache-2.0"),
    # huggingface.co/cross-encoder/ms-marco-MiniLM-L6-v2
    CrossEncoderPreset("cross-encoder/ms-marco-MiniLM-L6-v2", 512, "Apache-2.0"),
)


def preset_of(name: str) -> CrossEncoderPreset | None:
    """The preset with this name, with or without its owner, in any case."""
    known = {form.lower(): preset for preset in PRESETS for form in (preset.name, preset.name.rpartition("/")[2])}
    return known.get(name.lower())
