"""Batches formed by length under a budget of padded tokens, made smaller where one turns out to be too much.

Texts to tokens and to padded batches, without the tokenizer's own truncation, so that each text is read once and its length is known.
"""

from __future__ import annotations

import itertools
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
"""Share of a batch's longest text that its others are at least as long as, where what they lack is computed, too: sentences of five
abstracts take half the time so, with anything from .6 to .8 (docs/benchmarks.md).
"""
LENGTH_SLACK = 8
"""Tokens that a text may lack beside: another batch costs more."""


class BatchTooLarge(Exception):
    """A batch is more than the memory or the server takes; a single text that is raised for cannot be embedded.

    `of_texts` says that the number of texts may be at fault, not only their length.
    """

    def __init__(self, reason: str, *, too_many_texts: bool = False) -> None:
        super().__init__(reason)
        self.too_many_texts = too_many_texts


def run_by_length(
    lengths: Sequence[int], most_texts: int, most_tokens: int, run: Callable[[list[int]], Result], alike: float = 0.0
) -> Iterator[tuple[list[int], Result | BatchTooLarge]]:
    """Runs batches of places in `lengths`, longest texts first, so that what does not fit is known at once.

    A batch of n texts costs n times its longest text; a single text is run however long it is, and one far shorter than `alike` of the
    longest waits for the next batch. Where `run` raises `TooMuch`, the batch is halved, and so is the budget of those after it. Each place
    is yielded once.
    """
    waiting = deque(sorted(range(len(lengths)), key=lambda place: (-lengths[place], place)))
    while waiting:
        batch = _next(waiting, lengths, most_texts, most_tokens, alike)
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
            most_tokens = half * lengths[batch[0]]
            most_texts = half if refused.too_many_texts else most_texts
            waiting.extendleft(reversed(batch))


def _next(waiting: deque[int], lengths: Sequence[int], most_texts: int, most_tokens: int, alike: float) -> list[int]:
    batch = [waiting.popleft()]
    room = min(most_texts, most_tokens // max(1, lengths[batch[0]]))
    while waiting and len(batch) < room and lengths[waiting[0]] + LENGTH_SLACK >= alike * lengths[batch[0]]:
        batch.append(waiting.popleft())
    return batch


PIECE_CHARS = 100_000
"""A longer text is read in pieces: the tokenizer holds a few hundred bytes a token."""
MAX_CHARS_PER_TOKEN = 16
"""The first piece has so many characters for each token of the context that nearly every text's vector comes of it alone."""
BATCH_CHARS = 400_000


@dataclass(frozen=True, slots=True, eq=False)
class TokenizedText:
    """One text as the model reads it: ids of shape (t,), special tokens included, and how many of its own tokens that are, of how many."""

    ids: np.ndarray
    tokens: int
    total: int


@dataclass(frozen=True, slots=True, eq=False)
class TokenWindow:
    """A part of a long text: `places` are the offsets of its tokens after the first `known`, which the part before it ended with."""

    text: TokenizedText
    offsets: np.ndarray
    overlap: int


class ModelTokenizer:
    """A tokenizer with a context length; `ends_with` is a token that must stand last and that it may not add by itself."""

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
        """Each text after the prompt, cut to the context length."""
        skipped = self.prompt_length(prompt) - len(self._before)
        return [self._cut(ids, of, skipped) for ids, of in self._whole([prompt + text for text in texts])]

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
        """Where the text's own tokens stand in a row of `padded` tokens: neither padding nor special nor of the prompt."""
        start = padded - len(read.ids) if self._left else 0
        return slice(start + self.prompt_length(prompt), start + len(read.ids) - len(self._after))

    def windows(self, text: str, prompt: str = "") -> Iterator[TokenWindow]:
        """The whole text in parts of the context length, each after the prompt; a quarter of each is the end of the one before.

        Raises `ModelUnavailable` where the tokenizer does not say where its tokens stand.
        """
        import numpy as np

        if not getattr(self._tokenizer, "is_fast", False):
            raise ModelUnavailable("the model's tokenizer does not say where in the text its tokens stand")
        before = self._ids([prompt])[0] if prompt else []
        ids, places = self._placed(text)
        room = self._context_length - len(self._before) - len(before) - len(self._after)
        step = max(1, room - room // 4)
        for start in range(0, max(1, len(ids) - room // 4), step):
            part = ids[start : start + room]
            known = room // 4 if start else 0
            if len(part) > known:
                read = TokenizedText(np.array([*self._before, *before, *part, *self._after], dtype=np.int64), len(part), len(ids))
                yield TokenWindow(read, np.array(places[start + known : start + room], np.int64), known)

    def _placed(self, text: str) -> tuple[list[int], list[int]]:
        """Ids of the text and where in it each begins."""
        ids: list[int] = []
        places: list[int] = []
        for at in range(0, len(text), PIECE_CHARS):
            read = self._tokenizer(
                text[at : at + PIECE_CHARS], add_special_tokens=False, truncation=False, return_offsets_mapping=True, verbose=False
            )
            ids += read["input_ids"]
            places += [at + start for start, _ in read["offset_mapping"]]
        return ids, places

    def _cut(self, ids: list[int], of: int, skipped: int) -> TokenizedText:
        import numpy as np

        room = max(0, self._context_length - len(self._before) - len(self._after))
        kept = ids[:room]
        return TokenizedText(
            np.array([*self._before, *kept, *self._after], dtype=np.int64), max(0, len(kept) - skipped), max(0, of - skipped)
        )

    def _whole(self, texts: Sequence[str]) -> Iterator[tuple[list[int], int]]:
        """For each text the ids that may be read, and how many there are in all."""
        first = max(PIECE_CHARS, MAX_CHARS_PER_TOKEN * self._context_length)
        for together in _slices(texts):
            begun = self._ids([text[:first] for text in together])
            for text, ids in zip(together, begun, strict=True):
                of = len(ids)
                for rest in (text[at : at + PIECE_CHARS] for at in range(first, len(text), PIECE_CHARS)):
                    more = self._ids([rest])[0]
                    of += len(more)
                    ids.extend(more[: max(0, self._context_length - len(ids))])
                yield ids, of

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


def _slices(texts: Sequence[str]) -> Iterator[list[str]]:
    """Texts in their order, so few at once that their tokens fit in memory."""
    totals = itertools.accumulate(len(text) for text in texts)
    for _, together in itertools.groupby(zip(texts, totals, strict=True), key=lambda pair: pair[1] // BATCH_CHARS):
        yield [text for text, _ in together]
