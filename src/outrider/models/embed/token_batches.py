"""Tokens of texts, padded batches, and batches of similar length under a token budget.

The tokenizer's own truncation is not used: each text is tokenized once and its full length is known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from outrider.state.errors import ModelUnavailable

if TYPE_CHECKING:
    import numpy as np
    import torch

Result = TypeVar("Result")
SIMILAR_LENGTH = 0.75
"""Least length in a batch, as a share of its longest text, if padding costs time: sentences of five abstracts take half the time
with any value from .6 to .8 (docs/benchmarks.md).
"""
LENGTH_SLACK = 8
"""Tokens by which a text may be shorter still: another batch costs more."""
PIECE_CHARS = 100_000
"""A longer text is tokenized in pieces: the tokenizer holds a few hundred bytes per token."""
MAX_CHARS_PER_TOKEN = 16
"""The first piece has this many characters per token of the context, so that it suffices for nearly every text."""
NO_TOKENS = "it holds nothing that the model reads"
BATCH_CHARS = 400_000
"""Characters tokenized at once, to bound memory."""


class BatchTooLarge(Exception):
    """A batch is more than the memory takes; a single text that it is raised for cannot be embedded."""


def run_by_length(
    lengths: Sequence[int], most_texts: int, most_tokens: int, run: Callable[[list[int]], Result], alike: float = 0.0
) -> Iterator[tuple[list[int], Result | BatchTooLarge]]:
    """Run batches of places in `lengths`, longest texts first, so that a lack of memory shows at once.

    A batch of n texts costs n times its longest text; a single text runs however long it is, and a text far shorter than `alike` of
    the longest waits for the next batch. If `run` raises `BatchTooLarge`, the batch is halved, and so is the budget of later ones.
    Each place is yielded once.
    """
    waiting = deque(sorted(range(len(lengths)), key=lambda place: (-lengths[place], place)))
    while waiting:
        batch = [waiting.popleft()]
        longest = lengths[batch[0]]
        room = min(most_texts, most_tokens // max(1, longest))
        while waiting and len(batch) < room and lengths[waiting[0]] + LENGTH_SLACK >= alike * longest:
            batch.append(waiting.popleft())
        refused = None
        try:
            result = run(batch)
        except BatchTooLarge as error:
            refused = error
        if refused is None:
            yield batch, result
        elif len(batch) == 1:
            yield batch, refused
        else:
            half = len(batch) // 2
            most_tokens = half * longest
            waiting.extendleft(reversed(batch))


@dataclass(frozen=True, slots=True, eq=False)
class TokenizedText:
    """One text as the model reads it: ids of shape (t,), special tokens included; `tokens` of its `total` own tokens are among them."""

    ids: np.ndarray
    tokens: int
    total: int


@dataclass(frozen=True, slots=True, eq=False)
class TokenWindow:
    """A part of a long text; `offsets` are those of its tokens after the first `overlap`, which repeat the end of the part before."""

    text: TokenizedText
    offsets: np.ndarray
    overlap: int


class ModelTokenizer:
    """A tokenizer with a context length; `ends_with` is a last token that the tokenizer may not add by itself."""

    def __init__(self, tokenizer: Any, context_length: int, ends_with: str = "") -> None:
        self._tokenizer = tokenizer
        self._context_length = context_length
        bare = self._ids(["a"])[0]
        whole = tokenizer("a", truncation=False, padding=False)["input_ids"]
        start = next((at for at in range(len(whole)) if whole[at : at + len(bare)] == bare), 0)
        self._before = whole[:start]
        self._after = whole[start + len(bare) :]
        if ends_with and whole[-1:] != [tokenizer.convert_tokens_to_ids(ends_with)]:
            self._after = [*self._after, tokenizer.convert_tokens_to_ids(ends_with)]
        self._left = tokenizer.padding_side == "left"
        self._pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
        self._types = "token_type_ids" in tokenizer.model_input_names

    def prompt_length(self, prompt: str) -> int:
        """Tokens before a text's own: special ones and those of the prompt."""
        return len(self._before) + (len(self._ids([prompt])[0]) if prompt else 0)

    def tokenize(self, texts: Sequence[str], prompt: str = "") -> list[TokenizedText]:
        """Tokenize each text after the prompt, cut to the context length."""
        import numpy as np

        skipped = self.prompt_length(prompt) - len(self._before)
        room = max(0, self._context_length - len(self._before) - len(self._after))
        tokenized = []
        for ids, total in self._iter_ids([prompt + text for text in texts]):
            fitting = ids[:room]
            row = np.array([*self._before, *fitting, *self._after], dtype=np.int64)
            tokenized.append(TokenizedText(row, max(0, len(fitting) - skipped), max(0, total - skipped)))
        return tokenized

    def batch(self, read: Sequence[TokenizedText]) -> dict[str, torch.Tensor]:
        """Padded tensors of shape (n, longest)."""
        import torch

        longest = max(len(one.ids) for one in read)
        ids = torch.full((len(read), longest), self._pad, dtype=torch.long)
        mask = torch.zeros((len(read), longest), dtype=torch.long)
        for row, one in enumerate(read):
            where = slice(longest - len(one.ids), longest) if self._left else slice(0, len(one.ids))
            ids[row, where] = torch.from_numpy(one.ids)
            mask[row, where] = 1
        features = {"input_ids": ids, "attention_mask": mask}
        return {**features, "token_type_ids": torch.zeros_like(ids)} if self._types else features

    def own_slice(self, read: TokenizedText, padded: int, prompt: str = "") -> slice:
        """The text's own tokens in a row of `padded` tokens, without padding, special tokens and the prompt."""
        start = padded - len(read.ids) if self._left else 0
        return slice(start + self.prompt_length(prompt), start + len(read.ids) - len(self._after))

    def windows(self, text: str, prompt: str = "") -> Iterator[TokenWindow]:
        """The whole text in parts of the context length, each after the prompt; a quarter of each repeats the end of the one before.

        Raises `ModelUnavailable` if the tokenizer gives no offsets.
        """
        import numpy as np

        if not getattr(self._tokenizer, "is_fast", False):
            raise ModelUnavailable("the model's tokenizer does not say where in the text its tokens stand")
        before = self._ids([prompt])[0] if prompt else []
        ids: list[int] = []
        offsets: list[int] = []
        for at in range(0, len(text), PIECE_CHARS):
            piece = self._tokenizer(
                text[at : at + PIECE_CHARS], add_special_tokens=False, truncation=False, return_offsets_mapping=True, verbose=False
            )
            ids += piece["input_ids"]
            offsets += [at + start for start, _ in piece["offset_mapping"]]
        room = self._context_length - len(self._before) - len(before) - len(self._after)
        step = max(1, room - room // 4)
        for start in range(0, max(1, len(ids) - room // 4), step):
            part = ids[start : start + room]
            overlap = room // 4 if start else 0
            if len(part) > overlap:
                row = np.array([*self._before, *before, *part, *self._after], dtype=np.int64)
                new = np.array(offsets[start + overlap : start + room], np.int64)
                yield TokenWindow(TokenizedText(row, len(part), len(ids)), new, overlap)

    def _iter_ids(self, texts: Sequence[str]) -> Iterator[tuple[list[int], int]]:
        """For each text the ids that fit into the context, and their total number."""
        first = max(PIECE_CHARS, MAX_CHARS_PER_TOKEN * self._context_length)
        waiting = deque(texts)
        while waiting:
            batch = [waiting.popleft()]
            chars = len(batch[0])
            while waiting and chars + len(waiting[0]) <= BATCH_CHARS:
                chars += len(waiting[0])
                batch.append(waiting.popleft())
            for text, ids in zip(batch, self._ids([text[:first] for text in batch]), strict=True):
                total = len(ids)
                for start in range(first, len(text), PIECE_CHARS):
                    more = self._ids([text[start : start + PIECE_CHARS]])[0]
                    total += len(more)
                    ids.extend(more[: max(0, self._context_length - len(ids))])
                yield ids, total

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        return list(
            self._tokenizer(
                list(texts),
                add_special_tokens=False,
                truncation=False,
                padding=False,
                return_attention_mask=False,
                return_token_type_ids=False,
                verbose=False,
            )["input_ids"]
        )
