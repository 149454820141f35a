from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from outrider.text.words import STOP_WORDS, words
from outrider.training.questions import known_items
from support.fakes import paper

TITLE = "The effect of aspirin on platelet aggregation in healthy volunteers"
SENTENCES = (
    "Aspirin given daily for two weeks reduced aggregation of platelets in all volunteers.",
    "Bleeding time became longer in most of them and returned to normal.",
    "Dose and effect went together without any threshold being seen.",
)
ABSTRACT = "Short one. " + " ".join(SENTENCES)
PAPERS = [paper(f"p{at:02}", TITLE, abstract=ABSTRACT) for at in range(10)]


def test_the_kinds_take_turns_and_a_title_that_asks_is_hidden_from_its_record() -> None:
    items = known_items(PAPERS, 6, seed=0)
    assert [item.kind for item in items] == ["title", "words of a title", "words of a sentence"] * 2
    assert len({item.record.doc_id for item in items}) == 6
    for item in items:
        if item.kind == "title":
            assert (item.query, item.record.title, item.record.abstract) == (TITLE, "", ABSTRACT)
            continue
        assert (item.record.title, item.record.abstract) == (TITLE, ABSTRACT)
        sources = (TITLE,) if item.kind == "words of a title" else SENTENCES
        assert any(_in_order(item.query.split(), source.replace(".", "").split()) for source in sources)
        assert len(item.query.split()) == 3
        assert not STOP_WORDS & set(words(item.query))


def _in_order(asked: list[str], source: list[str]) -> bool:
    rest = iter(source)
    return all(word in rest for word in asked)


def test_the_same_seed_draws_the_same_and_another_draws_others() -> None:
    assert known_items(PAPERS, 5, 1) == known_items(PAPERS, 5, 1)
    assert known_items(PAPERS, 5, 1) != known_items(PAPERS, 5, 2)


def test_what_has_no_long_title_is_asked_for_by_a_sentence_and_the_other_way_round() -> None:
    records = [paper("a", "httpx", description=ABSTRACT), paper("b", TITLE, text="word " * 30), paper("c", "httpx", text=ABSTRACT)]
    found = {item.record.doc_id: item.kind for item in known_items(records, 5, 0)}
    assert found == {"a": "words of a sentence", "b": found["b"], "c": "words of a sentence"}
    assert found["b"] != "words of a sentence"


def test_records_that_say_too_little_give_none() -> None:
    assert known_items([paper("a", TITLE), paper("b", "one two", abstract=SENTENCES[0]), paper("c")], 5, 0) == []


@given(st.lists(st.tuples(st.text("ab. ", max_size=60), st.text("abcd. ", max_size=300)), max_size=8), st.integers(0, 99))
def test_every_query_says_something_and_only_a_title_that_asks_is_hidden(parts: list[tuple[str, str]], seed: int) -> None:
    records = [paper(f"p{at}", title, abstract=abstract) for at, (title, abstract) in enumerate(parts)]
    held = {record.doc_id: record for record in records}
    for item in known_items(records, 8, seed):
        whole, rest = held[item.record.doc_id], item.record
        before, after = words(f"{whole.title} {whole.abstract}"), words(f"{rest.title} {rest.abstract}")
        assert words(item.query)
        hidden = words(item.query) if item.kind == "title" else []
        assert [*hidden, *after] == before
