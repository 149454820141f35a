"""The measured sizes, the checks of their figures, and one small size from filling to figures."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from bench import data, scale, vector_index
from bench.process import peak_mib, run_isolated
from bench.scale import Case, Searched, Timed, cases, checks


def test_sizes_up_to_the_requested_one() -> None:
    """Dimensions shrink above 100,000, also for an extra smallest size, so that growth compares equal dimensions."""
    assert cases(100_000) == [Case(10_000, 1_024), Case(100_000, 1_024)]
    assert cases(5_000) == [Case(5_000, 1_024)]
    assert cases(10_000) == [Case(10_000, 1_024)]
    assert cases(1_000_000) == [Case(10_000, 1_024), Case(100_000, 1_024), Case(10_000, 384), Case(1_000_000, 384)]


NAMES = ("sparse", "dense", "graph", "hybrid", scale.CHAINED, scale.LATER)


def test_the_worst_size_and_the_growth_decide() -> None:
    """A size that passes does not offset one that fails."""
    small = Searched({name: Timed([1.2, 1.2], [1.0, 1.0], [1, 1]) for name in NAMES}, 0)
    large = Searched({name: Timed([2.4, 6.0, 6.0], [2.0, 4.0, 4.0], [1] * 3) for name in NAMES}, 0)
    notes = checks({Case(10, 4): small, Case(100, 4): large, Case(100, 8): large})
    assert notes[0] == "sparse: at most 1.3 times the raw calls does not hold (1.50 at worst)"
    assert "of one strategy after another holds (0.50 at worst), of all at once does not hold (1.50" in notes[3]
    assert notes[4] == "hybrid, to its minimal chain: at most 1.3 times the calls of it does not hold (1.50 at worst)"
    assert notes[5] == "hybrid, to its minimal chain, 100 searches later: at most 1.3 times the calls of it does not hold (1.50 at worst)"
    assert notes[6] == "sparse: the median grows at most 3 times does not hold (5.00 from 10 to 100 records, 4 dimensions)"
    assert len(notes) == 10
    assert checks({}) == []


async def test_a_library_is_filled_and_searched(tiny: data.Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each strategy of one engine, and all at once, each with the raw calls that it makes; a library without vectors would fail here."""
    monkeypatch.setattr(scale, "collection", lambda _: tiny)
    monkeypatch.setattr(scale, "WARM_UP", 1)
    index = await scale._fill(str(tmp_path / "library"), Case(60, 16))
    assert index == "exact"
    queries = {"a": "wing", "b": "soil flutter", "c": "flutter"}
    timed = await scale._ask(str(tmp_path / "library"), scale.Cloud(16), replace(tiny, queries=queries))
    assert tuple(timed) == NAMES
    assert timed["sparse"].calls == [2]  # the version, and the words
    assert timed["dense"].calls[0] > 2
    assert timed["hybrid"].calls[0] == sum(timed[name].calls[0] for name in ("sparse", "dense", "graph"))
    assert all(len(one.engine_s) == len(one.raw_s) == 1 for one in timed.values())


def test_an_isolated_call_runs_in_another_process() -> None:
    assert run_isolated(os.getpid) != os.getpid()


def measure_rise_mib() -> float:
    before = peak_mib()
    block = bytearray(b"x" * 200 * 2**20)
    del block
    return peak_mib() - before


def test_the_peak_memory_remains_after_it_is_freed() -> None:
    """200 MiB, written to, then freed, in a process that used little before."""
    assert run_isolated(measure_rise_mib) > 150


def test_recall_is_averaged_over_queries() -> None:
    """All of one query, half of the other."""
    assert vector_index.recall([["a", "b"], ["c", "d"]], [["b", "a"], ["c", "x"]]) == 0.75
