from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.models.rerank.late_interaction import BATCH, LateInteraction, max_sim
from outrider.models.rerank.token_blocks import compress
from outrider.runtime.threads_and_loops import run_in_thread
from outrider.state.embedding import EmbeddingSpace, TextRole
from outrider.state.errors import BadVectors, ModelUnavailable


@dataclass
class Letters:
    """Each letter is a token; equal letters have equal vectors, others are orthogonal."""

    space = EmbeddingSpace(model_name="letters", revision="1", dimension=26, context_length=100)
    calls: list[tuple[int, str]] = field(default_factory=list)
    spoil: float = 1.0

    def token_vectors(self, texts: Sequence[str], role: TextRole) -> list[np.ndarray]:
        self.calls.append((len(texts), role))
        return [np.eye(26, dtype=np.float32)[[ord(letter) - 97 for letter in text]] * self.spoil for text in texts]


def test_each_token_of_the_query_looks_for_its_nearest_in_the_text() -> None:
    letters = Letters()
    assert LateInteraction(letters).scores("ab", ["xaxbx", "xxa", "xyz", ""]) == pytest.approx([1.0, 0.5, 0.0, -1.0])
    assert letters.calls == [(1, "query"), (4, "document")]
    assert LateInteraction(letters).scores("", ["a"]) == [-1.0]
    assert LateInteraction(letters).scores("a", []) == []


def test_token_vectors_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(BadVectors, match="no numbers"):
        LateInteraction(Letters(spoil=float("nan"))).scores("ab", ["ab"])


def test_stored_token_vectors_are_read_and_few_missing_ones_computed() -> None:
    letters = Letters()
    blocks = {text: compress(letters.token_vectors([text], "document")[0]) for text in ("xaxbx", "xxa", "")}
    letters.calls.clear()
    reranker = LateInteraction(letters, stored=lambda texts: {text: blocks[text] for text in texts if text in blocks}, most_missing=1)
    scores = reranker.scores("ab", ["xaxbx", "xxa", "xyz", "", "xyz"])
    assert scores == pytest.approx([1.0, 0.5, 0.0, -1.0, 0.0], abs=0.15)
    assert letters.calls == [(1, "query"), (1, "document")]
    with pytest.raises(ModelUnavailable, match=r"2 of 3 works have no stored token vectors.*outrider library index --late-interaction"):
        reranker.scores("ab", ["xaxbx", "p", "q"])


def test_a_library_without_token_vectors_changes_nothing() -> None:
    texts = ["xaxbx", "xxa", "xyz"]
    assert LateInteraction(Letters(), stored=lambda _: None).scores("ab", texts) == LateInteraction(Letters()).scores("ab", texts)


@given(st.text("abcd", min_size=1, max_size=8), st.text("abcd", min_size=1, max_size=20))
def test_the_order_of_tokens_does_not_matter_and_more_text_never_harms(query: str, text: str) -> None:
    (query_vectors,), (read,) = Letters().token_vectors([query], "query"), Letters().token_vectors([text], "document")
    score = max_sim(query_vectors, read)
    assert max_sim(query_vectors[::-1], read[::-1]) == pytest.approx(score)
    assert max_sim(query_vectors, np.concatenate([read, np.eye(26, dtype=np.float32)[:2]])) >= score - 1e-6
    assert score == pytest.approx(sum(letter in text for letter in query) / len(query))


async def test_it_stops_between_batches_when_the_caller_has_gone() -> None:
    started, go_on = threading.Event(), threading.Event()

    class Slow(Letters):
        def token_vectors(self, texts: Sequence[str], role: TextRole) -> list[np.ndarray]:
            vectors = super().token_vectors(texts, role)
            if role == "document":
                started.set()
                go_on.wait(5)
            return vectors

    letters = Slow()
    work = asyncio.create_task(run_in_thread(lambda: LateInteraction(letters).scores("a", ["b"] * (BATCH + 1)), "left"))
    assert await asyncio.to_thread(started.wait, 5)
    work.cancel()
    await asyncio.wait([work])
    (abandoned,) = [thread for thread in threading.enumerate() if thread.name == "left"]
    go_on.set()
    await asyncio.to_thread(abandoned.join, 5)
    assert letters.calls == [(1, "query"), (BATCH, "document")]
