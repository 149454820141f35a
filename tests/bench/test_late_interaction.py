"""A whole run on a few records, and the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench import data, late_interaction
from bench.late_interaction import Measured, StoredTokens, check, make_row
from support.token_embedder import TokenEmbedder


async def test_whole_and_compressed_vectors_reorder_the_same_works(tiny: data.Collection, tmp_path: Path) -> None:
    words: Any = TokenEmbedder()
    result = await late_interaction.measure(tiny, words, words, tmp_path)
    queries = len(tiny.queries)
    assert {way: len(scores) for way, scores in result.scores.items()} == {"fusion": queries, "whole": queries, "compressed": queries}
    assert {way: len(seconds) for way, seconds in result.cpu_s.items()} == {"compressed": queries, "dense": queries}
    assert result.scores["compressed"] == result.scores["whole"]
    assert 0 < result.mean_bytes < 12 * 2**10
    assert len(make_row(result)) == len(late_interaction.COLUMNS)


def test_token_vectors_are_kept_for_the_next_run(tmp_path: Path) -> None:
    words: Any = TokenEmbedder()
    first = StoredTokens(words, tmp_path / "tokens.npz")
    first.complete(["red fox", "hen", "red fox"])
    second = StoredTokens(words, tmp_path / "tokens.npz")
    second.complete(["hen"])
    for ours, theirs in zip(second.token_vectors(["red fox", "hen"], "document"), words.token_vectors(["red fox", "hen"]), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-3)


def test_each_target_is_reported_over_all_queries() -> None:
    scores = {"fusion": [0.4, 0.4], "whole": [0.5, 0.44], "compressed": [0.5, 0.42]}
    results = [Measured("one", scores, {"compressed": [0.1], "dense": [0.05]}, [0.2], 9_000.0)]
    _, loss, gain, time, size = check(results)
    assert loss == "At most 0.005 below whole vectors does not hold: -0.0100 over all queries."
    assert gain == "At least 0.015 above the fusion holds: +0.0600 over all queries."
    assert time == "At most 150 ms holds: 100 ms of CPU time, 2.00 times that of a dense search."
    assert size == "At most 12 KiB a record holds."
