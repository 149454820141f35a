from __future__ import annotations

import itertools
import random
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.library.library import Library
from outrider.models.rerank import select as choose
from outrider.models.rerank.cross_encoder import CrossEncoderReranker
from outrider.models.rerank.select import NONE_HELPED, choose_reranker
from outrider.settings.model import RerankerSettings
from outrider.state.errors import BadRequest, ModelUnavailable
from outrider.state.hits import Scored
from outrider.state.ports import Reranker
from outrider.state.records import Record
from outrider.text.words import stems
from outrider.training import rerank_evaluation
from outrider.training.model_card import write_record
from outrider.training.rerank_evaluation import FirstStage, ProbeResult, probe, sign_flip_p
from support.fakes import NOON, paper

COMMON = tuple(f"{letter}ord" for letter in "bcdfghjklmnpqrstvwxz")


def make_corpus() -> list[Record]:
    """240 works, each about eight of ninety things; its title and every sentence contain five of them, among filler words."""
    draw = random.Random(1)
    things = [f"{first}{second}um" for first in "bdfgklmnpr" for second in ("ala", "ere", "ili", "oro", "unu", "aso", "ete", "ika", "opa")]
    return [make_work(f"{at:03}", draw.sample(things, 8), draw) for at in range(240)]


def make_work(doc_id: str, about: list[str], draw: random.Random) -> Record:
    sentences = [" ".join(draw.sample([*draw.sample(about, 5), *draw.sample(COMMON, 5)], 10)).capitalize() + "." for _ in range(4)]
    return paper(doc_id, " ".join(draw.sample(about, 5)).capitalize(), abstract=" ".join(sentences))


async def first_stage(library: Library) -> FirstStage:
    """Good but not perfect: the index's scores with noise that depends on the record and the query."""

    async def search(text: str, limit: int) -> list[Scored]:
        hits = await library.search(text, limit=limit)
        best = max((one.score for one in hits), default=1.0)
        disturbed = [one._replace(score=one.score / best + draw_noise(text, one.record.doc_id)) for one in hits]
        return sorted(disturbed, key=lambda one: (-one.score, one.record.doc_id))

    return search


def draw_noise(*parts: str) -> float:
    return float(np.random.default_rng([ord(letter) for letter in "".join(parts)]).random())


@dataclass
class Overlap:
    """A good reranker: the share of the query's stems in the text."""

    name: str = "overlap"

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        query_stems = set(stems(query))
        return [len(query_stems & set(stems(text))) / len(query_stems) for text in texts]


@dataclass
class Noise:
    """Random scores, independent of the text."""

    name: str = "noise"
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        return [float(score) for score in self.random.random(len(texts))]


@dataclass
class Same:
    """A reranker without effect: all texts are equally good."""

    name: str = "same"

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        return [0.0] * len(texts)


@dataclass
class Broken:
    name: str = "broken"

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        raise ModelUnavailable("broken has no weights")


async def run_probe(library: Library, *rerankers: Reranker, **fields: Any) -> ProbeResult:
    settings = {"depth": 20, "weight": 0.5, "clock": lambda: NOON, "queries": 60, **fields}
    return await probe(library, first_stage, rerankers, **settings)


async def test_a_probe_switches_a_good_reranker_on_and_noise_off(library: Library) -> None:
    await library.upsert(make_corpus())
    probed = await run_probe(library, Noise(), Overlap(), Same())
    assert [(one.reranker, one.effect, one.chosen) for one in probed.verdicts] == [
        ("overlap", "better", True),
        ("same", "unclear", False),
        ("noise", "worse", False),
    ]
    good, same, noise = probed.verdicts
    assert good.difference > 0.02
    assert noise.difference < -0.02
    assert (same.difference, same.p) == (0, 1)
    assert {(one.before, one.queries, one.depth, one.weight) for one in probed.verdicts} == {(good.before, 60, 20, 0.5)}
    assert "makes this library's ranking better" in good.why
    assert "makes this library's ranking worse" in noise.why
    assert await library.verdicts() == probed.verdicts
    assert good.snapshot == await library.snapshot()


def test_a_gain_at_the_cost_of_one_kind_of_query_is_unclear() -> None:
    whole = [True] * 20 + [False] * 10
    assert rerank_evaluation._effect([0.2] * 20 + [0.1] * 10, whole, 0.01)[0] == "better"
    effect, detail = rerank_evaluation._effect([0.2] * 20 + [-0.1] * 10, whole, 0.01)
    assert effect == "unclear"
    assert "titles +0.200, a few words -0.100" in detail
    lost = [-rerank_evaluation.TOLERATED_LOSS / 2] * 10
    assert rerank_evaluation._effect([0.2] * 20 + lost, whole, 0.01)[0] == "better", "a tiny loss in one kind must not cancel a large gain"
    assert rerank_evaluation._effect([0.2] * 20 + [3 * one for one in lost], whole, 0.01)[0] == "unclear"
    assert rerank_evaluation._effect([0.2] * 30, whole, 0.06)[0] == "unclear"
    assert rerank_evaluation._effect([-0.2] * 30, whole, 0.01)[0] == "worse"


async def test_auto_follows_the_last_probe(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "find_revision", lambda reranker: reranker.name)
    await library.upsert(make_corpus())
    settings = RerankerSettings(depth=20)
    await run_probe(library, Overlap(), Noise())
    reranker, why = choose_reranker(settings, None, await library.verdicts())
    assert reranker is not None
    assert (reranker.name, why) == ("overlap", (await library.verdicts())[0].why)
    await run_probe(library, Noise(), clock=lambda: NOON + 60)
    reranker, why = choose_reranker(settings, None, await library.verdicts())
    assert reranker is None
    assert why.startswith(NONE_HELPED)


async def test_noise_is_never_chosen_with_any_seed(library: Library) -> None:
    await library.upsert(make_corpus())
    for seed in range(3):
        noise = Noise(random=np.random.default_rng(seed))
        (verdict,) = (await run_probe(library, noise, seed=seed, queries=40)).verdicts
        assert verdict.difference < 0
        assert (verdict.effect in ("worse", "unclear"), verdict.chosen) == (True, False)


async def test_a_failing_reranker_is_reported_and_the_others_are_evaluated(library: Library) -> None:
    await library.upsert(make_corpus())
    probed = await run_probe(library, Broken(), Overlap(), queries=20)
    assert [one.reranker for one in probed.verdicts] == ["overlap"]
    assert probed.failed == {"broken": "broken has no weights"}
    with pytest.raises(ModelUnavailable, match="broken has no weights"):
        await run_probe(library, Broken(), queries=20)
    with pytest.raises(ModelUnavailable, match=r"reranker\.model_name"):
        await run_probe(library, queries=20)


async def test_rerankers_are_loaded_one_at_a_time_and_one_too_large_is_reported(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    await library.upsert(make_corpus())
    loaded: list[str] = []
    most: list[int] = []

    class Model:
        num_labels = 1

        def __init__(self, name: str) -> None:
            loaded.append(name)

        def __del__(self) -> None:
            loaded.pop()

        def predict(self, pairs: Sequence[tuple[str, str]], **_: Any) -> list[float]:
            most.append(len(loaded))
            return [float(len(text)) for _, text in pairs]

    def load(name: str, *_: Any, **__: Any) -> Model:
        if name == "vast":
            raise MemoryError
        return Model(name)

    monkeypatch.setattr("outrider.models.rerank.cross_encoder.load_cross_encoder", load)
    monkeypatch.setattr(rerank_evaluation, "find_revision", lambda reranker: f"weights of {reranker.name}")
    probed = await run_probe(library, *map(CrossEncoderReranker, ("a", "vast", "b")), queries=20)
    assert {(one.reranker, one.revision) for one in probed.verdicts} == {("a", "weights of a"), ("b", "weights of b")}
    assert "memory" in probed.failed["vast"]
    assert (max(most), loaded) == (1, [])


async def test_a_library_that_is_too_small_is_reported(library: Library) -> None:
    with pytest.raises(BadRequest, match="gives 0 known items, a probe needs 20"):
        await run_probe(library, Overlap())
    await library.upsert(make_corpus()[:7])
    with pytest.raises(BadRequest, match="gives 7 known items"):
        await run_probe(library, Overlap())
    assert await library.verdicts() == ()


async def test_progress_counts_the_queries_and_an_interrupted_probe_stores_nothing(library: Library) -> None:
    await library.upsert(make_corpus())
    counts: list[tuple[int, int]] = []
    await run_probe(library, Overlap(), queries=20, progress=lambda done, of: counts.append((done, of)))
    assert counts == [(done, 40) for done in range(41)], "the first stage and one reranker"
    before = await library.verdicts()

    def interrupt(done: int, _: int) -> None:
        if done == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await run_probe(library, Overlap(), queries=20, progress=interrupt)
    assert await library.verdicts() == before


async def test_a_sample_is_spread_over_the_ids_and_the_same_for_the_same_seed(library: Library) -> None:
    await library.upsert(make_corpus())
    ids = [record.doc_id for record in await library.sample(10, seed=3)]
    assert ids == [record.doc_id for record in await library.sample(10, seed=3)]
    assert ids != [record.doc_id for record in await library.sample(10, seed=4)]
    assert [int(doc_id) // 24 for doc_id in ids] == list(range(10))
    assert len(await library.sample(1_000)) == 240


def test_p_equals_that_of_all_sign_flips() -> None:
    differences = [0.3, 0.1, -0.05, 0.2, 0.4, 0.0]
    flips = list(itertools.product((1, -1), repeat=len(differences)))
    exact = np.mean([abs(np.dot(signs, differences)) >= abs(sum(differences)) - 1e-9 for signs in flips])
    assert sign_flip_p(differences) == pytest.approx(exact, abs=0.02)
    assert sign_flip_p([0.0, 0.0]) == 1.0
    assert sign_flip_p([]) == 1.0
    assert sign_flip_p([0.1] * 50) == pytest.approx(1 / (rerank_evaluation.ROUNDS + 1))


def test_p_takes_little_memory_with_many_queries() -> None:
    tracemalloc.start()
    try:
        p = sign_flip_p([float(one) for one in np.random.default_rng(1).normal(0.001, 1, 10_000)], rounds=2_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0 < p <= 1
    assert peak < 2**25


def test_the_rate_of_false_positives_matches_the_level() -> None:
    random = np.random.default_rng(0)
    significant_count = sum(sign_flip_p(list(random.normal(0, 1, 40)), seed) < 0.05 for seed in range(200))
    assert 2 <= significant_count <= 20


@given(st.lists(st.floats(-1, 1), max_size=30))
def test_p_lies_in_0_to_1_and_does_not_depend_on_the_sign(differences: list[float]) -> None:
    p = sign_flip_p(differences)
    assert 0 < p <= 1
    assert sign_flip_p([-one for one in differences]) == p


async def test_records_of_the_training_are_no_known_items(library: Library, tmp_path: Path) -> None:
    """The reranker has memorized them."""
    records = make_corpus()
    await library.upsert(records)
    queries: list[str] = []

    async def recording_stage(copy: Library) -> FirstStage:
        async def search(text: str, limit: int) -> list[Scored]:
            queries.append(text)
            return await copy.search(text, limit=limit)

        return search

    trained_ids = {one.doc_id for one in records[:200]}
    write_record(tmp_path, {}, trained_ids)
    await probe(library, recording_stage, [Overlap(str(tmp_path))], depth=50, weight=0.5, clock=lambda: NOON, queries=30)
    titles = {one.title: one.doc_id for one in records}
    assert not {titles[text] for text in queries if text in titles} & trained_ids
    assert len(queries) >= 20
    write_record(tmp_path, {}, {one.doc_id for one in records})
    with pytest.raises(BadRequest, match="trained on"):
        await probe(library, recording_stage, [Overlap(str(tmp_path))], depth=50, weight=0.5, clock=lambda: NOON, queries=30)
