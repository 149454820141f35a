from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.models.embed.token_batches import LENGTH_SLACK, BatchTooLarge, run_by_length

LENGTHS = st.lists(st.integers(0, 200), max_size=40)


def size(batch: list[int], lengths: list[int]) -> int:
    return len(batch) * max(1, *(lengths[place] for place in batch))


@given(LENGTHS, st.integers(1, 10), st.integers(1, 500), st.floats(0, 1))
def test_every_text_is_run_once_within_the_budget(lengths: list[int], most_texts: int, most_tokens: int, alike: float) -> None:
    batches = [batch for batch, _ in run_by_length(lengths, most_texts, most_tokens, len, alike)]
    assert sorted(place for batch in batches for place in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) <= most_texts
        assert len(batch) == 1 or size(batch, lengths) <= most_tokens
        assert min(lengths[place] for place in batch) + LENGTH_SLACK >= alike * max(lengths[place] for place in batch)


@given(LENGTHS, st.integers(1, 300))
def test_what_does_not_fit_is_halved_until_it_does_and_only_single_texts_are_given_up(lengths: list[int], memory: int) -> None:
    def run(batch: list[int]) -> list[int]:
        if size(batch, lengths) > memory:
            raise BatchTooLarge("no room")
        return batch

    batches = list(run_by_length(lengths, 16, 1000, run))
    assert sorted(place for batch, _ in batches for place in batch) == list(range(len(lengths)))
    for batch, answer in batches:
        if isinstance(answer, BatchTooLarge):
            assert len(batch) == 1
            assert lengths[batch[0]] > memory
        else:
            assert answer == batch


def test_a_batch_that_was_too_large_makes_those_after_it_smaller() -> None:
    tried = []

    def run(batch: list[int]) -> None:
        tried.append(len(batch))
        if len(batch) > 4:
            raise BatchTooLarge("no room")

    list(run_by_length([10] * 32, 16, 10_000, run))
    assert tried == [16, 8, *[4] * 8]


def test_a_bug_is_not_taken_for_a_lack_of_room() -> None:
    with pytest.raises(KeyError):
        list(run_by_length([1, 2], 2, 10, lambda batch: {}[batch[0]]))
