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
from outrider.training import rerank_evaluation as probing
from outrider.training.model_card import write_record
from outrider.training.rerank_evaluation import FirstStage, ProbeResult, probe, sign_flip_p
from support.fakes import NOON, paper

COMMON = tuple(f"{letter}ord" for letter in "bcdfghjklmnpqrstvwxz")


def corpus() -> list[Record]:
    """240 works, each about eight of ninety things; its title and every sentence speak of five of them, among words that say nothing."""
    draw = random.Random(1)
    things = [f"{first}{second}um" for first in "bdfgklmnpr" for second in ("ala", "ere", "ili", "oro", "unu", "aso", "ete", "ika", "opa")]
    return [_work(f"{at:03}", draw.sample(things, 8), draw) for at in range(240)]


def _work(doc_id: str, about: list[str], draw: random.Random) -> Record:
    sentences = [" ".join(draw.sample([*draw.sample(about, 5), *draw.sample(COMMON, 5)], 10)).capitalize() + "." for _ in range(4)]
    return paper(doc_id, " ".join(draw.sample(about, 5)).capitalize(), abstract=" ".join(sentences))


async def first_stage(library: Library) -> FirstStage:
    """Good but not perfect: the index's scores with a disturbance that depends on the record and the query."""

    async def search(text: str, limit: int) -> list[Scored]:
        found = await library.search(text, limit=limit)
        best = max((one.score for one in found), default=1.0)
        disturbed = [one._replace(score=one.score / best + _chance(text, one.record.doc_id)) for one in found]
        return sorted(disturbed, key=lambda one: (-one.score, one.record.doc_id))

    return search


def _chance(*parts: str) -> float:
    return float(np.random.default_rng([ord(letter) for letter in "".join(parts)]).random())


@dataclass
class Overlap:
    """A good one: the share of the query's stems that the text has."""

    name: str = "overlap"

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        asked = set(stems(query))
        return [len(asked & set(stems(text))) / len(asked) for text in texts]


@dataclass
class Noise:
    """Scores by chance, which do not depend on what is read."""

    name: str = "noise"
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        return [float(score) for score in self.random.random(len(texts))]


@dataclass
class Same:
    """Adds nothing: all texts are equally good."""

    name: str = "same"

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        return [0.0] * len(texts)


@dataclass
class Broken:
    name: str = "broken"

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        raise ModelUnavailable("broken has no weights")


async def run(library: Library, *rerankers: Reranker, **fields: Any) -> ProbeResult:
    settings = {"depth": 20, "weight": 0.5, "clock": lambda: NOON, "queries": 60, **fields}
    return await probe(library, first_stage, rerankers, **settings)


async def test_the_gate_switches_a_good_reranker_on_and_noise_off(library: Library) -> None:
    await library.upsert(corpus())
    probed = await run(library, Noise(), Overlap(), Same())
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


def test_a_gain_that_one_kind_of_query_pays_for_is_not_counted() -> None:
    whole = [True] * 20 + [False] * 10
    assert probing._effect([0.2] * 20 + [0.1] * 10, whole, 0.01)[0] == "better"
    effect, said = probing._effect([0.2] * 20 + [-0.1] * 10, whole, 0.01)
    assert effect == "unclear"
    assert "titles +0.200, a few words -0.100" in said
    lost = [-probing.TOLERATED_LOSS / 2] * 10
    assert probing._effect([0.2] * 20 + lost, whole, 0.01)[0] == "better", "a trifle in one kind must not forbid a large gain"
    assert probing._effect([0.2] * 20 + [3 * one for one in lost], whole, 0.01)[0] == "unclear"
    assert probing._effect([0.2] * 30, whole, 0.06)[0] == "unclear"
    assert probing._effect([-0.2] * 30, whole, 0.01)[0] == "worse"


async def test_auto_follows_the_last_probe(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "find_revision", lambda reranker: reranker.name)
    await library.upsert(corpus())
    settings = RerankerSettings(depth=20)
    await run(library, Overlap(), Noise())
    found, why = choose_reranker(settings, None, await library.verdicts())
    assert found is not None
    assert (found.name, why) == ("overlap", (await library.verdicts())[0].why)
    await run(library, Noise(), clock=lambda: NOON + 60)
    found, why = choose_reranker(settings, None, await library.verdicts())
    assert found is None
    assert why.startswith(NONE_HELPED)


async def test_noise_is_never_chosen_whatever_the_draw(library: Library) -> None:
    await library.upsert(corpus())
    for seed in range(3):
        noise = Noise(random=np.random.default_rng(seed))
        (verdict,) = (await run(library, noise, seed=seed, queries=40)).verdicts
        assert verdict.difference < 0
        assert (verdict.effect in ("worse", "unclear"), verdict.chosen) == (True, False)


async def test_one_that_fails_is_told_and_the_others_are_judged(library: Library) -> None:
    await library.upsert(corpus())
    probed = await run(library, Broken(), Overlap(), queries=20)
    assert [one.reranker for one in probed.verdicts] == ["overlap"]
    assert probed.failed == {"broken": "broken has no weights"}
    with pytest.raises(ModelUnavailable, match="broken has no weights"):
        await run(library, Broken(), queries=20)
    with pytest.raises(ModelUnavailable, match=r"reranker\.model_name"):
        await run(library, queries=20)


async def test_one_after_the_other_is_loaded_and_one_too_large_for_memory_is_told(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    await library.upsert(corpus())
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
    monkeypatch.setattr(probing, "find_revision", lambda reranker: f"weights of {reranker.name}")
    probed = await run(library, *map(CrossEncoderReranker, ("a", "vast", "b")), queries=20)
    assert {(one.reranker, one.revision) for one in probed.verdicts} == {("a", "weights of a"), ("b", "weights of b")}
    assert "memory" in probed.failed["vast"]
    assert (max(most), loaded) == (1, [])


async def test_a_library_that_is_too_small_is_said(library: Library) -> None:
    with pytest.raises(BadRequest, match="gives 0 known items, a probe needs 20"):
        await run(library, Overlap())
    await library.upsert(corpus()[:7])
    with pytest.raises(BadRequest, match="gives 7 known items"):
        await run(library, Overlap())
    assert await library.verdicts() == ()


async def test_progress_counts_the_queries_and_an_interrupted_probe_keeps_nothing(library: Library) -> None:
    await library.upsert(corpus())
    seen: list[tuple[int, int]] = []
    await run(library, Overlap(), queries=20, progress=lambda done, of: seen.append((done, of)))
    assert seen == [(done, 40) for done in range(41)], "the first stage and one reranker"
    held = await library.verdicts()

    def interrupt(done: int, _: int) -> None:
        if done == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await run(library, Overlap(), queries=20, progress=interrupt)
    assert await library.verdicts() == held


async def test_a_sample_is_spread_over_the_ids_and_the_same_for_the_same_seed(library: Library) -> None:
    await library.upsert(corpus())
    ids = [record.doc_id for record in await library.sample(10, seed=3)]
    assert ids == [record.doc_id for record in await library.sample(10, seed=3)]
    assert ids != [record.doc_id for record in await library.sample(10, seed=4)]
    assert [int(doc_id) // 24 for doc_id in ids] == list(range(10))
    assert len(await library.sample(1_000)) == 240


def test_p_is_that_of_all_flips_where_they_can_be_counted() -> None:
    differences = [0.3, 0.1, -0.05, 0.2, 0.4, 0.0]
    flips = list(itertools.product((1, -1), repeat=len(differences)))
    exact = np.mean([abs(np.dot(signs, differences)) >= abs(sum(differences)) - 1e-9 for signs in flips])
    assert sign_flip_p(differences) == pytest.approx(exact, abs=0.02)
    assert sign_flip_p([0.0, 0.0]) == 1.0
    assert sign_flip_p([]) == 1.0
    assert sign_flip_p([0.1] * 50) == pytest.approx(1 / (probing.ROUNDS + 1))


def test_p_takes_little_memory_however_many_queries_there_are() -> None:
    tracemalloc.start()
    try:
        p = sign_flip_p([float(one) for one in np.random.default_rng(1).normal(0.001, 1, 10_000)], rounds=2_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0 < p <= 1
    assert peak < 2**25


def test_chance_is_called_significant_about_as_often_as_was_agreed() -> None:
    random = np.random.default_rng(0)
    found = sum(sign_flip_p(list(random.normal(0, 1, 40)), seed) < 0.05 for seed in range(200))
    assert 2 <= found <= 20


@given(st.lists(st.floats(-1, 1), max_size=30))
def test_p_lies_in_0_to_1_and_does_not_depend_on_the_sign(differences: list[float]) -> None:
    p = sign_flip_p(differences)
    assert 0 < p <= 1
    assert sign_flip_p([-one for one in differences]) == p


async def test_records_that_a_reranker_was_trained_on_are_not_asked_for(library: Library, tmp_path: Path) -> None:
    """It would find again what it has learned by heart."""
    records = corpus()
    await library.upsert(records)
    asked: list[str] = []

    async def noting(copy: Library) -> FirstStage:
        async def search(text: str, limit: int) -> list[Scored]:
            asked.append(text)
            return await copy.search(text, limit=limit)

        return search

    learned = {one.doc_id for one in records[:200]}
    write_record(tmp_path, {}, learned)
    await probe(library, noting, [Overlap(str(tmp_path))], depth=50, weight=0.5, clock=lambda: NOON, queries=30)
    titles = {one.title: one.doc_id for one in records}
    assert not {titles[text] for text in asked if text in titles} & learned
    assert len(asked) >= 20
    write_record(tmp_path, {}, {one.doc_id for one in records})
    with pytest.raises(BadRequest, match="trained on"):
        await probe(library, noting, [Overlap(str(tmp_path))], depth=50, weight=0.5, clock=lambda: NOON, queries=30)
