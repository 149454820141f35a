"""Figures of a library's search by stage, and what is suggested."""

from __future__ import annotations

import random
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outrider.library.library import Library
from outrider.services import Services
from outrider.settings.model import RankingSettings, Settings
from outrider.state.errors import BadRequest
from outrider.state.ports import Reranker
from outrider.state.records import Record
from outrider.state.request import RetrieverType
from outrider.training.judgements import Judgements
from outrider.usecases.evaluate import FUSION, RERANKED, SEARCH, Evaluation, JudgedQuery, evaluate, list_fusions, select_queries
from outrider.usecases.match_records import RecordMatches
from outrider.usecases.plan import aplan_search
from support.fakes import doi, paper
from support.word_embedder import WordEmbedder

QUERIES = 20


class Noise(WordEmbedder):
    """Vectors that have nothing to do with the meaning of the texts."""

    def vector(self, text: str) -> np.ndarray:
        values = np.random.default_rng(zlib.crc32(text.encode())).standard_normal(self.dimension).astype(np.float32)
        unit: np.ndarray = values / np.linalg.norm(values)
        return unit


def make_records() -> tuple[list[Record], Judgements]:
    """Works of two words out of sixty each, among filler, and queries of the two words of a work."""
    draw = random.Random(2)
    things = [f"{first}{second}um" for first in "bdfgklmnpr" for second in ("ala", "ere", "ili", "oro", "unu", "aso")]
    pairs = [draw.sample(things, 2) for _ in range(60)]
    records: list[Record] = [
        paper(
            f"p{at:02}",
            f"On {one} with {other}",
            abstract=f"The {one} of {draw.choice(things)} was {other}.",
            identifiers=doi(f"10.1000/{at}"),
        )
        for at, (one, other) in enumerate(pairs)
    ]
    texts = {f"{one} {other}": f"10.1000/{at}" for at, (one, other) in enumerate(pairs[:QUERIES])}
    return records, Judgements({text: text for text in texts}, {text: {name: 1, "10.1000/gone": 1} for text, name in texts.items()})


async def run(folder: Path, embedder: WordEmbedder | None = None, *, rerank: bool = False, **options: Any) -> Evaluation:
    """Over a new library, with vectors if there is an embedder."""
    records, judgements = make_records()
    library = await Library.open(folder, create=True)
    if embedder:
        await library.embed(records, embedder)
    await library.upsert(records)
    version = await library.snapshot()
    settings: Mapping[str, Any] = {"library": {"uri": str(folder)}, "embedding": {"model_name": "none"}, **options.pop("settings", {})}
    services = Services(Settings.model_validate(settings), embedder=embedder, **options)  # type: ignore[arg-type]
    try:
        result = await evaluate(services, judgements, rerank=rerank)
        assert await library.snapshot() == version
    finally:
        services.close()
        library.close()
    return result


async def test_words_alone_find_the_works(tmp_path: Path) -> None:
    """Each query has the words of one title; the second judged record is not in the library. Nothing links the works.

    The time limit of searches does not apply: the figures would depend on the machine.
    """
    result = await run(tmp_path / "library", settings={"run": {"run_timeout_s": 0.001}})
    stages = {one.stage: one for one in result.stages}
    assert list(stages) == ["words", FUSION, SEARCH]
    assert (result.queries, result.judgements, result.relevant, result.unknown) == (QUERIES, QUERIES, QUERIES, ("10.1000/gone",))
    for one in result.stages:
        assert one.ndcg_10.mean > 0.9
        assert one.recall_10.mean == one.recall_100.mean == 1
        assert one.ndcg_10.low <= one.ndcg_10.mean <= one.ndcg_10.high
        assert one.unjudged_10 > 1
    assert stages[SEARCH].to_search is None
    words = stages["words"].to_search
    assert words is not None
    assert words.mean == pytest.approx(stages["words"].ndcg_10.mean - stages[SEARCH].ndcg_10.mean)
    assert {remark.split(":")[0] for remark in result.remarks} == {"Without the stage 'meaning'", "Without the stage 'related works'"}
    assert result.comparisons == ()


async def test_the_recall_of_judged_queries_stands_in_later_plans_of_this_library(tmp_path: Path) -> None:
    planner = {"planner": {"file": str(tmp_path / "runs.sqlite")}}
    await run(tmp_path / "library", settings=planner)
    settings: Mapping[str, Any] = {**planner, "library": {"uri": str(tmp_path / "library")}, "embedding": {"model_name": "none"}}
    services = Services(Settings.model_validate(settings))
    planned = await aplan_search("any words", services=services, sources=["library"])
    more = await aplan_search("any words", services=services)
    services.close()
    recall = planned.find("recall", "library")
    assert recall is not None
    assert (recall.low, recall.expected, recall.high) == (1, 1, 1)
    assert recall.basis == f"among the first 10 hits, from {QUERIES} judged queries over this library"
    assert planned.runs == 0, "searches of an evaluation are no runs of the user"
    assert [lack.why for lack in more.unknown if lack.quantity == "recall"] == ["it was measured for searches of the library alone"]


async def test_a_weight_that_does_harm_is_found(tmp_path: Path) -> None:
    """Vectors of noise, which today's weights follow: less weight for them is better on queries that did not choose it."""
    ranking = {"dense_weight": 1.0, "sparse_weight": 0.1, "text_weight": 0.0}
    result = await run(tmp_path / "library", Noise(), settings={"ranking": ranking})
    (fusion,) = result.comparisons
    assert fusion.suggested
    assert fusion.settings["ranking.dense_weight"] == 0.2
    assert fusion.fusion is not None
    assert fusion.search is not None
    assert fusion.fusion.low > 0
    assert fusion.search.low > 0
    stages = {one.stage: one.ndcg_10.mean for one in result.stages}
    assert stages["meaning"] < stages[SEARCH] < stages["words"]


class Overlooks:
    """A reranker that puts the works with a word of the query last."""

    name = "overlooks"

    def scores(self, query: str, texts: list[str]) -> list[float]:
        return [-sum(word in text for word in query.split()) for text in texts]


@pytest.mark.parametrize("is_on", [True, False])
async def test_a_reranker_is_suggested_or_dropped_only_for_a_gain(tmp_path: Path, is_on: bool) -> None:
    """One that does harm is dropped where it runs, and not suggested where it does not."""
    reranker: Reranker = Overlooks()  # type: ignore[assignment]

    async def provide(*, asked: bool = False) -> tuple[Reranker | None, str]:
        return (reranker, "") if is_on or asked else (None, "off")

    result = await run(tmp_path / "library", rerank=not is_on, reranker=provide)
    (comparison,) = result.comparisons
    stages = {one.stage: one.ndcg_10.mean for one in result.stages}
    assert stages[RERANKED] < stages[SEARCH] - 0.1
    assert comparison.suggested == is_on
    assert comparison.settings == {"reranker.model_name": "none" if is_on else "overlooks"}
    assert comparison.search is not None
    assert (comparison.search.mean > 0.1) == is_on


async def test_without_a_judged_record_nothing_is_measured(shelved: Path) -> None:
    services = Services(Settings.model_validate({"library": {"uri": str(shelved)}}))
    try:
        with pytest.raises(BadRequest, match=r"none of the judged records, such as gone, is in the library at"):
            await evaluate(services, Judgements({"q": "liver"}, {"q": {"gone": 1}}))
        with pytest.raises(BadRequest, match="no record that is judged relevant is in the library at"):
            await evaluate(services, Judgements({"q": "liver"}, {"q": {"gone": 1, "a": 0}}))
        with pytest.raises(BadRequest, match="query"):
            await evaluate(services, Judgements({"q": "!"}, {"q": {"a": 1}}))
    finally:
        services.close()


def test_queries_without_relevant_records_are_left_out() -> None:
    judged = Judgements({key: key for key in "abcd"}, {"a": {"x": 1, "gone": 2}, "b": {"gone": 1}, "c": {"y": 0, "gone": 1}, "d": {"y": 1}})
    matches = RecordMatches({"x": ("1",), "y": ("2", "3")}, ("gone",))
    queries, without_records, without_relevant = select_queries(judged, matches)
    assert [(query.key, query.grades) for query in queries] == [("a", {"1": 1}), ("d", {"2": 1})]
    assert (without_records, without_relevant) == (["b"], ["c"])


def test_two_names_of_one_record_need_one_grade() -> None:
    matches = RecordMatches({"x": ("1", "2"), "y": ("2",)})
    (query,), _, _ = select_queries(Judgements({"q": "q"}, {"q": {"x": 1, "y": 1}}), matches)
    assert query.grades == {"1": 1}
    with pytest.raises(BadRequest, match="x and y are one record of the library, with the grades 1 and 2"):
        select_queries(Judgements({"q": "q"}, {"q": {"x": 1, "y": 2}}), matches)


def test_a_merged_hit_counts_once_for_its_best_record() -> None:
    """`1` and `2` are one judged work: found again, it is neither relevant nor unjudged."""
    query = JudgedQuery("q", "q", {"one": 1, "three": 2}, {"1": "one", "2": "one", "3": "three"})
    scores, unjudged = query.score([("0", "1"), ("2",), ("8",), ("9", "3")])
    same, _ = JudgedQuery("q", "q", {"a": 1, "d": 2}, {key: key for key in "ad"}).score([("a",), ("x",), ("y",), ("d",)])
    assert scores == same
    assert unjudged == 1


def test_other_fusions_change_only_what_the_lists_need() -> None:
    """Without vectors no dense weight is tried, and today's settings are no other ones."""
    by_words = list_fusions(RankingSettings(), {RetrieverType.LANCE_FTS, RetrieverType.GRAPH_NEIGHBOR})
    assert {one.dense_weight for one in by_words} == {RankingSettings().dense_weight}
    assert RankingSettings() not in by_words
    everything = list_fusions(RankingSettings(fusion="rrf"), set(RetrieverType))
    assert {one.fusion for one in everything} == {"min_max"}
    assert len(everything) == len({one.model_dump_json() for one in everything}) == 28
