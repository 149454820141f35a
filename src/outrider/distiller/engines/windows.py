"""Token windows: query and text encoded together, in windows of whole units.

A text that fits is one window. Each window of a longer text begins with the last units of the one before, which give context and are
not scored again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from outrider.distiller.units import SegmentedText

OVERLAP_UNITS = 2
QUERY_SHARE, TITLE_SHARE = 0.25, 0.125
"""Of a window, at most."""
TOKENIZER_BATCH = 2_000
"""Units that the tokenizer is given together: it holds a few hundred bytes a token."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Token ids with their segment, and where in them each scored unit stands."""

    ids: tuple[int, ...]
    types: tuple[int, ...]
    spans: tuple[tuple[int, int, int], ...]
    """Unit, first token, token after the last."""


class PairEncoder:
    """How a tokenizer joins a pair, learned from one that it made: what stands before, between and after, and in which segment."""

    def __init__(self, tokenizer: Any, max_length: int) -> None:
        self.tokenizer, self.max_length = tokenizer, max_length
        pair = tokenizer("a", "b")
        ids = list(pair["input_ids"])
        types = list(pair.get("token_type_ids") or [0] * len(ids))
        first, second = (self.ids([letter])[0] for letter in "ab")
        at = _place(ids, first, 0)
        then = _place(ids, second, at + len(first))
        self.before, self.between, self.after = ids[:at], ids[at + len(first) : then], ids[then + len(second) :]
        self.type_of_text = types[then]
        self.has_types = "token_type_ids" in tokenizer.model_input_names
        self.pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        found: list[list[int]] = []
        for start in range(0, len(texts), TOKENIZER_BATCH):
            some = [text.encode("utf-8", "replace").decode("utf-8") for text in texts[start : start + TOKENIZER_BATCH]]
            found += self.tokenizer(
                some, add_special_tokens=False, truncation=False, padding=False, verbose=False, split_special_tokens=True
            )["input_ids"]
        return found

    def query(self, query: str) -> list[int]:
        return self.ids([query])[0][: int(self.max_length * QUERY_SHARE)]

    def pair(self, query: Sequence[int], unit: int, text: Sequence[int]) -> Window:
        """The query with one unit alone."""
        return self._window(query, [], [(unit, text)], 0)

    def windows(self, query: Sequence[int], cut: SegmentedText) -> Iterator[Window]:
        title = self.ids([cut.reading.title])[0][: int(self.max_length * TITLE_SHARE)] if cut.reading.title else []
        head = [*title, *self.between[:1]] if title else []
        units = list(enumerate(self.ids(cut.texts()) if cut.units else []))
        room = self.max_length - len(self.before) - len(query) - len(self.between) - len(head) - len(self.after)
        start, seen = 0, 0
        while seen < len(units):
            end, used = start, 0
            while end < len(units) and (used + len(units[end][1]) <= room or end == start):
                used += len(units[end][1])
                end += 1
            if end <= seen:  # the overlap left no room for the next unit
                start = seen
                continue
            yield self._window(query, head, units[start:end], seen - start)
            start, seen = max(start + 1, end - OVERLAP_UNITS), end

    def _window(self, query: Sequence[int], head: Sequence[int], units: Sequence[tuple[int, Sequence[int]]], overlap: int) -> Window:
        ids = [*self.before, *query, *self.between]
        types = [0] * len(ids)
        ids += head
        last = self.max_length - len(self.after)
        spans = []
        for place, (unit, tokens) in enumerate(units):
            first = min(len(ids), last - 1)
            ids += tokens[: max(0, last - len(ids))]
            if place >= overlap:
                spans.append((unit, first, max(first, len(ids))))
        ids += self.after
        types += [self.type_of_text] * (len(ids) - len(types))
        return Window(tuple(ids), tuple(types), tuple(spans))

    def batch(self, windows: Sequence[Window]) -> dict[str, Any]:
        """Padded tensors of shape (n, longest)."""
        import torch

        longest = max(len(one.ids) for one in windows)
        ids = torch.full((len(windows), longest), self.pad, dtype=torch.long)
        mask = torch.zeros((len(windows), longest), dtype=torch.long)
        types = torch.zeros((len(windows), longest), dtype=torch.long)
        for row, one in enumerate(windows):
            ids[row, : len(one.ids)] = torch.tensor(one.ids)
            types[row, : len(one.ids)] = torch.tensor(one.types)
            mask[row, : len(one.ids)] = 1
        return {"input_ids": ids, "attention_mask": mask} | ({"token_type_ids": types} if self.has_types else {})


def _place(ids: Sequence[int], part: Sequence[int], start: int) -> int:
    return next((at for at in range(start, len(ids)) if list(ids[at : at + len(part)]) == list(part)), start)
