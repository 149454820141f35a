from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.library.library import Library
from outrider.state.errors import BadRequest
from outrider.state.records import Edge
from outrider.training import questions as gather
from outrider.training.questions import Question, QuestionKind
from outrider.training.training_set import GROUP, GroupMaker, build_training_set
from support.fakes import paper
from support.tiny_reranker import papers

JUDGED = {"zinc for lungs": {"p00": 0, "p94": 2, "gone": 1}, "nothing right": {"p01": 0}, "heart": {"p02": 1}}


async def test_the_same_seed_makes_the_same_pairs(shelf: Library) -> None:
    first = await build_training_set(shelf, 150, 0, {})
    assert first == await build_training_set(shelf, 150, 0, {})
    assert first != await build_training_set(shelf, 150, 1, {})
    assert 0 < first.pairs <= 150


async def test_all_kinds_and_the_right_answer_first(shelf: Library) -> None:
    training_set = await build_training_set(shelf, 400, 3, JUDGED)
    assert {group.kind for group in training_set.train} >= {"title", "sentence", "citation"}
    assert {group.query for group in (*training_set.train, *training_set.held_out) if group.kind == "judgement"} <= set(JUDGED) - {
        "nothing right"
    }
    assert training_set.unknown_ids == ("gone",)
    for group in training_set.train:
        assert group.relevance[0] > 0 == sum(group.relevance[1:])
        assert len(set(group.doc_ids)) == len(group.doc_ids) <= GROUP
        assert all(group.texts)
    for group in training_set.held_out:
        assert any(group.relevance)


async def test_no_record_has_questions_on_both_sides(shelf: Library) -> None:
    training_set = await build_training_set(shelf, 400, 5, JUDGED)

    def ends(groups: tuple[Any, ...]) -> set[str]:
        own = [group for group in groups if group.kind != "judgement"]
        right = {doc_id for group in own for doc_id, value in zip(group.doc_ids, group.relevance, strict=True) if value}
        return right | {group.source for group in groups}

    assert ends(training_set.train)
    assert ends(training_set.held_out)
    assert not ends(training_set.train) & ends(training_set.held_out)


KINDS: st.SearchStrategy[QuestionKind] = st.sampled_from(("title", "sentence", "citation", "judgement"))
IDS = st.sampled_from("abcdefghij")


@st.composite
def questions(draw: st.DrawFn) -> Question:
    kind, source, answer = draw(KINDS), draw(IDS), draw(IDS)
    if kind == "judgement":
        return Question(f"query {source}", kind, f"query {source}", {answer: 1})
    return Question("q", kind, source, {answer if kind == "citation" else source: 1})


@given(st.lists(questions(), max_size=40), st.floats(0, 1), st.integers(0, 99))
@settings(deadline=None)
def test_the_split_separates_sources_and_answers(every: list[Question], share: float, seed: int) -> None:
    sides = gather.split_by_source(every, share, seed)
    judged = {doc_id for one in every if one.kind == "judgement" for doc_id in one.relevance}

    def ends(side: tuple[Question, ...]) -> set[str]:
        return {one.source for one in side} | {doc_id for one in side if one.kind != "judgement" for doc_id in one.relevance}

    assert not ends(sides.train) & ends(sides.held_out)
    assert not (ends(sides.train) | ends(sides.held_out)) & judged


async def test_citations_are_resolved_by_identifier_and_id(library: Library) -> None:
    edges = [Edge(relation="cites", target=target) for target in ("doi:10.1/3", "doc:p05", "doi:10.1/none", "arxiv:1", "odd")]
    citing = paper("me", "A review", edges=(*edges, Edge(relation="cites", target="doc:me"), Edge(relation="extends", target="doc:p06")))
    await library.upsert([*papers()[:8], citing])
    citation_questions = await gather.make_citation_questions(library, [citing], 0)
    assert {doc_id for one in citation_questions for doc_id in one.relevance} == {"p03", "p05"}
    assert {one.query for one in citation_questions} == {"A review"}
    assert all(one.excluded == {"me", "p03", "p05"} for one in citation_questions)


async def test_wrong_answers(shelf: Library) -> None:
    """Records judged wrong come first; copies of the right one and excluded records never appear."""
    records = {record.doc_id: record for record in papers()}
    copy = records["p10"].model_copy(update={"doc_id": "copy"})

    async def fetch(doc_ids: object) -> list[Any]:
        return [records[doc_id] for doc_id in doc_ids]  # type: ignore[attr-defined]

    async def nothing(query: str, limit: int) -> list[Any]:
        return []

    question = Question("liver", "judgement", "liver", {"p10": 1, "p20": 0, "p30": 0}, frozenset({"p40"}))
    maker = GroupMaker(nothing, fetch, (copy, records["p40"], records["p50"], records["p51"], records["p10"]), 0)
    (group,) = await maker.make_training_groups(question)
    assert group.doc_ids[:3] == ("p10", "p20", "p30")
    assert set(group.doc_ids[3:]) == {"p50", "p51"}
    assert await maker.make_checking_group(question) is None
    listed = await GroupMaker(make_search(shelf), shelf.fetch, (), 0).make_checking_group(question)
    assert listed is not None
    assert "p10" in listed.doc_ids


def make_search(shelf: Library) -> Any:
    return lambda query, limit: shelf.search(query, limit=limit)


async def test_too_few_and_no_text(library: Library) -> None:
    await library.upsert([paper("bare", "Only a title that says nothing more")])
    with pytest.raises(BadRequest, match="has text to learn from"):
        await build_training_set(library, 5_000, 0, {})
    await library.upsert(papers()[:2])
    with pytest.raises(BadRequest, match="ingest more records"):
        await build_training_set(library, 5_000, 0, {})
