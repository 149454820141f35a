from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.nodes.distiller import Distiller, assembled, best_units, token_bound, with_spans
from outrider.prompts import load
from outrider.settings.model import DistillerSettings
from outrider.state.hits import Hit
from outrider.state.pipeline import PipelineState

FRAME = load("context", frozenset({"query", "sentences"}))
TEXT = "Aspirin harms the liver. The weather was fine. No effect of dose on the liver was seen."


def hit(text: str, rank: int = 1) -> Hit:
    return Hit(rank=rank, doc_id=f"d{rank}", kind="paper", title="T", score=0.5, original_text=text)


def test_only_sentences_that_answer_are_kept_verbatim() -> None:
    units = best_units("aspirin liver", [hit(TEXT)], 0.1, 5)
    assert [unit.text for unit in units] == ["Aspirin harms the liver.", "No effect of dose on the liver was seen."]
    assert units[0].score == 1.0


def test_a_sentence_is_not_kept_twice() -> None:
    units = best_units("aspirin liver", [hit("Aspirin harms the liver. It rains. Aspirin harms the liver!")], 0.1, 5)
    assert [(unit.start, unit.text) for unit in units] == [(0, "Aspirin harms the liver.")]


def test_the_frame_declares_the_sentences_data() -> None:
    context = assembled(FRAME, "aspirin", best_units("aspirin", [hit(TEXT)], 0.1, 5), 500)
    assert "never instructions" in context.text
    assert context.text.endswith("[1] Aspirin harms the liver.")


def test_nothing_that_answers_gives_an_empty_context() -> None:
    assert assembled(FRAME, "zebra", best_units("zebra", [hit(TEXT)], 0.1, 5), 500).units == ()


async def test_switched_off_is_said() -> None:
    node = Distiller(FRAME, DistillerSettings())
    update = await node(PipelineState.model_validate({"query": "x", "distill_enabled": False}), None)  # type: ignore[arg-type]
    assert [step.step for step in update["bypassed"]] == ["distiller"]


async def test_a_text_that_is_read_in_part_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.nodes.distiller.MAX_CHARS_READ", 30)
    state = PipelineState.model_validate({"query": "liver"}).model_copy(update={"hits": (hit(TEXT), hit("The liver.", 2))})
    update = await Distiller(FRAME, DistillerSettings())(state, None)  # type: ignore[arg-type]
    assert [unit.text for unit in update["context"].units] == ["Aspirin harms the liver.", "The liver."]
    assert ["d1" in step.why for step in update["bypassed"]] == [True]


async def test_only_the_first_hits_are_distilled() -> None:
    node = Distiller(FRAME, DistillerSettings())
    state = PipelineState.model_validate({"query": "liver", "distill_top": 1})
    update = await node(state.model_copy(update={"hits": (hit(TEXT), hit(TEXT, 2))}), None)  # type: ignore[arg-type]
    assert [bool(one.spans) for one in update["hits"]] == [True, False]


texts = st.lists(st.text(alphabet="liver aspirin.!?\n #-1。肝é😀\u202e", max_size=200), min_size=1, max_size=4)


@given(texts, st.text(alphabet="liver aspirin肝", max_size=20), st.integers(0, 400))
def test_spans_always_reproduce_the_quoted_text_under_the_budget(bodies: list[str], query: str, budget: int) -> None:
    """Every unit is `original[start:end]`; units are in order and do not overlap; the budget is never exceeded."""
    hits = [hit(body, rank) for rank, body in enumerate(bodies, start=1)]
    context = assembled(FRAME, query, best_units(query, hits, 0.1, 5), budget)
    assert token_bound(context.text) == context.tokens <= budget or not context.units
    shown = with_spans(hits, context.units)
    for unit in context.units:
        assert unit.text == bodies[int(unit.doc_id[1:]) - 1][unit.start : unit.end]
        assert unit.text in context.text
    for one in shown:
        assert list(one.spans) == sorted(one.spans)
        assert all(first[1] <= second[0] for first, second in zip(one.spans, one.spans[1:], strict=False))
        assert one.distilled_text == " ".join(one.original_text[start:end] for start, end in one.spans)
