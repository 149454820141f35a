from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.text.words import words
from outrider.training.questions import degrade_query, draw_number, is_same_text, make_generator, make_passage, make_questions
from support.fakes import paper
from support.tiny_reranker import papers

HELD = papers()


def test_a_title_asks_for_the_body_and_a_sentence_for_the_rest() -> None:
    kinds = {question.kind for record in HELD for question in make_questions(record, 0)}
    assert kinds == {"title", "sentence"}
    for question in make_questions(HELD[0], 0):
        assert question.relevance == {HELD[0].doc_id: 1}
        assert set(words(question.query)) <= set(words(question.source_text))


@given(st.integers(0, len(HELD) - 1), st.integers(0, 1_000))
@settings(deadline=None)
def test_what_the_query_was_taken_from_is_in_no_text(at: int, seed: int) -> None:
    for question in make_questions(HELD[at], seed):
        right = make_passage(HELD[at], question, make_generator(seed, "a"))
        assert right
        assert question.source_text not in right
        for other in HELD[:10]:
            if other is not HELD[at] and question.kind == "title":
                assert other.title not in make_passage(other, question, make_generator(seed, "b"))


def test_a_wrong_text_loses_a_sentence_too() -> None:
    question = next(one for one in make_questions(HELD[0], 0) if one.kind == "sentence")
    shorter = make_passage(HELD[5], question, make_generator(0, "x"))
    assert shorter.startswith(HELD[5].title)
    assert len(shorter) < len(f"{HELD[5].title}\n\n{HELD[5].abstract}") - 20


def test_the_seed_decides_alone() -> None:
    assert make_questions(HELD[3], 1) == make_questions(HELD[3], 1)
    assert any(make_questions(record, 1) != make_questions(record, 2) for record in HELD[:5])
    assert draw_number(0, "a", "b") == draw_number(0, "a", "b") != draw_number(0, "ab")
    assert 0 <= draw_number(7, "x") < 1


def test_too_little_text_asks_nothing() -> None:
    assert make_questions(paper("a", "A long enough title here"), 0) == []
    assert make_questions(paper("a", "Short", abstract="One sentence. " * 2), 0) == []


@given(st.text(max_size=200), st.integers(0, 99))
@settings(deadline=None)
def test_degrading_adds_no_word(text: str, seed: int) -> None:
    assert set(words(degrade_query(text, make_generator(seed)))) <= set(words(text))


def test_copies_are_one_text() -> None:
    assert is_same_text(paper("a", "The liver in mice"), paper("b", "Liver in the mice."))
    assert is_same_text(paper("a", abstract="Same body"), paper("b", abstract="Same body"))
    assert not is_same_text(paper("a"), paper("b"))
    assert not is_same_text(paper("a", "Liver"), paper("b", "Kidney"))
