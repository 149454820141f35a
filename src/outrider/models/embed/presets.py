"""Presets of embedding models, from their model cards (https://huggingface.co/<name>).

A prompt in a model's own `config_sentence_transformers.json` wins over the one here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

MAX_CONTEXT = 32_768
"""Tokens of a text that are read at most, whatever limit a model states."""
UNKNOWN_LIMIT = 10**7
"""Some tokenizers state 10^30 tokens for "unknown"."""
# The task that the cards of Qwen3-Embedding and gte-Qwen2 give for retrieval; the former has no space after "Query:", the latter has one.
WEB_SEARCH = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"


@dataclass(frozen=True, slots=True)
class Preset:
    name: str
    context_length: int
    """Tokens, special ones included."""
    dimension: int
    pooling: str
    licence: str
    query_prompt: str = ""
    document_prompt: str = ""
    half_precision: str = ""
    """`bfloat16` if the card asks for it on an accelerator although the weights are stored in full precision."""
    bidirectional: bool = False
    """Its decoder was trained without the causal mask, which its config may leave to its own code."""
    ends_with: str = ""
    """The token that its last-token pooling reads, which its tokenizer may leave to its own code."""
    needs_own_code: bool = False
    """It runs only with code from its repository."""


PRESETS = (
    Preset("Qwen/Qwen3-Embedding-8B", 32_768, 4_096, "lasttoken", "Apache-2.0", WEB_SEARCH),
    Preset("Qwen/Qwen3-Embedding-0.6B", 32_768, 1_024, "lasttoken", "Apache-2.0", WEB_SEARCH),
    # bfloat16 and the mask: its card and mteb #4935, where the stock causal Qwen2 fell from nDCG@10 .51 to .07.
    Preset(
        "Alibaba-NLP/gte-Qwen2-7B-instruct",
        32_768,
        3_584,
        "lasttoken",
        "Apache-2.0",
        f"{WEB_SEARCH} ",
        half_precision="bfloat16",
        bidirectional=True,
        ends_with="<|endoftext|>",
    ),
    Preset(
        "nvidia/NV-Embed-v2",
        32_768,
        4_096,
        "latent attention",
        "CC-BY-NC-4.0",
        "Instruct: Given a question, retrieve passages that answer the question\nQuery: ",
        needs_own_code=True,
    ),
    Preset("BAAI/bge-m3", 8_192, 1_024, "cls", "MIT"),
    Preset("BAAI/bge-small-en-v1.5", 512, 384, "cls", "MIT", "Represent this sentence for searching relevant passages: "),
    Preset("sentence-transformers/all-MiniLM-L6-v2", 256, 384, "mean", "Apache-2.0"),
)
GIBIBYTE = 2**30
LARGE, MEDIUM = "Qwen/Qwen3-Embedding-8B", "Qwen/Qwen3-Embedding-0.6B"
SMALL = ("BAAI/bge-small-en-v1.5", "sentence-transformers/all-MiniLM-L6-v2")
LARGE_NEEDS = 24 * GIBIBYTE
"""Bytes of an accelerator's memory: 8 billion weights of 2 bytes, and half as much again for a text of 32k tokens."""


def find_preset(name: str) -> Preset | None:
    """The preset of a hub name in any case, or of a folder or a served name that ends with its last part."""
    folded = name.rstrip("/\\").casefold()
    last = folded.replace("\\", "/").rpartition("/")[2]
    exact = (preset for preset in PRESETS if preset.name.casefold() == folded)
    alike = (preset for preset in PRESETS if preset.name.rpartition("/")[2].casefold() == last)
    return next(exact, None) or next(alike, None)


def list_auto_models(device: str, memory: int) -> tuple[str, ...]:
    """Names for `auto`, best first: open models that read 32k tokens on an accelerator of `memory` bytes, small ones on a CPU."""
    if device.startswith("cpu"):
        return SMALL
    return (LARGE, MEDIUM, *SMALL) if memory >= LARGE_NEEDS else (MEDIUM, *SMALL)


def choose_context_length(stated: Iterable[int], preset: Preset | None, context_length: int) -> int:
    """The smallest of the limits that the model's files state, its preset's and the configured one; 0 is none."""
    limits = [int(limit) for limit in stated if limit < UNKNOWN_LIMIT]
    return min(limit for limit in (*limits, preset.context_length if preset else 0, context_length, MAX_CONTEXT) if limit > 0)


def choose_prompts(prompts: Mapping[str, str], default_name: str, preset: Preset | None) -> tuple[str, str]:
    """The prompts of queries and of documents; the model's own win over the preset's."""
    own = {name: text for name, text in prompts.items() if text}
    default = own.get(default_name, "")
    query = own.get("query", default)
    document = next((own[name] for name in ("document", "passage", "corpus") if name in own), default)
    if preset and not (query or document):
        return preset.query_prompt, preset.document_prompt
    return query, document
