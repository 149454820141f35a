from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.text.strip_markup import fold_text
from outrider.text.words import STOP_WORDS, words
from outrider.training.questions import (
    degrade_query,
    draw_number,
    is_same_text,
    known_items,
    make_generator,
    make_passage,
    make_questions,
)
from support.fakes import paper
from support.tiny_reranker import papers

RECORDS = papers()


def test_a_title_is_a_question_for_the_body_and_a_sentence_for_the_rest() -> None:
    kinds = {question.kind for record in RECORDS for question in make_questions(record, 0)}
    assert kinds == {"title", "sentence"}
    for question in make_questions(RECORDS[0], 0):
        assert question.relevance == {RECORDS[0].doc_id: 1}
        assert set(words(question.query)) <= set(words(question.source_text))


@given(st.integers(0, len(RECORDS) - 1), st.integers(0, 1_000))
@settings(deadline=None)
def test_no_passage_contains_the_source_of_the_query(at: int, seed: int) -> None:
    for question in make_questions(RECORDS[at], seed):
        right = make_passage(RECORDS[at], question, make_generator(seed, "a"))
        assert right
        assert question.source_text not in right
        for other in RECORDS[:10]:
            if other is not RECORDS[at] and question.kind == "title":
                assert other.title not in make_passage(other, question, make_generator(seed, "b"))


def test_a_wrong_text_loses_a_sentence_too() -> None:
    question = next(one for one in make_questions(RECORDS[0], 0) if one.kind == "sentence")
    shorter = make_passage(RECORDS[5], question, make_generator(0, "x"))
    assert shorter.startswith(RECORDS[5].title)
    assert len(shorter) < len(f"{RECORDS[5].title}\n\n{RECORDS[5].abstract}") - 20


def test_questions_depend_only_on_the_seed() -> None:
    assert make_questions(RECORDS[3], 1) == make_questions(RECORDS[3], 1)
    assert any(make_questions(record, 1) != make_questions(record, 2) for record in RECORDS[:5])
    assert draw_number(0, "a", "b") == draw_number(0, "a", "b") != draw_number(0, "ab")
    assert 0 <= draw_number(7, "x") < 1


def test_too_little_text_gives_no_question() -> None:
    assert make_questions(paper("a", "A long enough title here"), 0) == []
    assert make_questions(paper("a", "Short", abstract="One sentence. " * 2), 0) == []


@given(st.text(max_size=200), st.integers(0, 99))
@settings(deadline=None)
def test_degrading_adds_no_word(text: str, seed: int) -> None:
    """Content words are folded: `²` is `2`."""
    assert set(words(degrade_query(text, make_generator(seed)))) <= {*words(text), *words(fold_text(text))}


def test_copies_are_one_text() -> None:
    assert is_same_text(paper("a", "The liver in mice"), paper("b", "Liver in the mice."))
    assert is_same_text(paper("a", abstract="Same body"), paper("b", abstract="Same body"))
    assert not is_same_text(paper("a"), paper("b"))
    assert not is_same_text(paper("a", "Liver"), paper("b", "Kidney"))


# Known items

TITLE = "The effect of aspirin on platelet aggregation in healthy volunteers"
SENTENCES = (
    "Aspirin given daily for two weeks reduced aggregation of platelets in all volunteers.",
    "Bleeding time became longer in most of them and returned to normal.",
    "Dose and effect went together without any threshold being seen.",
)
ABSTRACT = "Short one. " + " ".join(SENTENCES)
PAPERS = [paper(f"p{at:02}", TITLE, abstract=ABSTRACT) for at in range(10)]


def test_kinds_alternate_and_a_title_query_is_removed_from_its_record() -> None:
    items = known_items(PAPERS, 6, seed=0)
    assert [item.kind for item in items] == ["title", "words of a title", "words of a sentence"] * 2
    assert len({item.record.doc_id for item in items}) == 6
    for item in items:
        if item.kind == "title":
            assert (item.query, item.record.title, item.record.abstract) == (TITLE, "", ABSTRACT)
            continue
        assert (item.record.title, item.record.abstract) == (TITLE, ABSTRACT)
        sources = (TITLE,) if item.kind == "words of a title" else SENTENCES
        assert any(_is_subsequence(item.query.split(), source.replace(".", "").split()) for source in sources)
        assert len(item.query.split()) == 3
        assert not STOP_WORDS & set(words(item.query))


def _is_subsequence(query_words: list[str], source: list[str]) -> bool:
    rest = iter(source)
    return all(word in rest for word in query_words)


def test_equal_seeds_draw_equal_items_and_other_seeds_others() -> None:
    assert known_items(PAPERS, 5, 1) == known_items(PAPERS, 5, 1)
    assert known_items(PAPERS, 5, 1) != known_items(PAPERS, 5, 2)


def test_records_without_a_long_title_get_a_sentence_query_and_vice_versa() -> None:
    records = [paper("a", "httpx", description=ABSTRACT), paper("b", TITLE, text="word " * 30), paper("c", "httpx", text=ABSTRACT)]
    kinds = {item.record.doc_id: item.kind for item in known_items(records, 5, 0)}
    assert kinds == {"a": "words of a sentence", "b": kinds["b"], "c": "words of a sentence"}
    assert kinds["b"] != "words of a sentence"


def test_records_with_too_little_text_give_no_item() -> None:
    assert known_items([paper("a", TITLE), paper("b", "one two", abstract=SENTENCES[0]), paper("c")], 5, 0) == []


@given(st.lists(st.tuples(st.text("ab. ", max_size=60), st.text("abcd. ", max_size=300)), max_size=8), st.integers(0, 99))
def test_every_query_has_words_and_only_a_title_query_is_removed(parts: list[tuple[str, str]], seed: int) -> None:
    records = [paper(f"p{at}", title, abstract=abstract) for at, (title, abstract) in enumerate(parts)]
    records_by_id = {record.doc_id: record for record in records}
    for item in known_items(records, 8, seed):
        whole, rest = records_by_id[item.record.doc_id], item.record
        before, after = words(f"{whole.title} {whole.abstract}"), words(f"{rest.title} {rest.abstract}")
        assert words(item.query)
        hidden = words(item.query) if item.kind == "title" else []
        assert [*hidden, *after] == before
