"""The searched part of a query, added terms and their weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.boolean.parser import parse
from outrider.library import text_search
from outrider.library.fusion import interleave, min_max
from outrider.library.graph_neighbours import LibraryGraph
from outrider.library.library import Library
from outrider.library.schema import RANKED_AUTHORS
from outrider.library.search_engine import MATCHES, Engine
from outrider.library.text_search import FIRST, MAX_QUERY_TERMS, POOL, cut_query, only_stop_words, related_terms
from outrider.nodes.scout import Scout
from outrider.settings.model import RunSettings
from outrider.sources.library import LibrarySource
from outrider.state.filters import Compare
from outrider.state.hits import Ranked
from outrider.state.intent import PlannedQuery, SearchStrategy
from outrider.state.pipeline import PipelineState
from outrider.state.ports import BooleanQuery, SourceQuery
from outrider.state.records import Document, Paper
from outrider.state.request import MAX_QUERY_CHARS, RetrieverType
from outrider.text.strip_markup import fold_text
from outrider.text.words import STOP_WORDS, words


@given(st.text(max_size=200))
def test_a_short_query_is_searched_whole_but_for_its_end(text: str) -> None:
    part = cut_query(text)
    assert fold_text(text).startswith(part)
    assert words(part) == words(fold_text(text))


def test_a_long_query_is_searched_up_to_a_number_of_distinct_words() -> None:
    text = " ".join(f"w{number} again" for number in range(5_000))[:MAX_QUERY_CHARS]
    assert len(set(words(cut_query(text)))) == MAX_QUERY_TERMS
    assert cut_query("same " * 10_000) == ("same " * 10_000)[: MAX_QUERY_CHARS - 1]


def test_stop_words_are_function_words_only() -> None:
    assert not STOP_WORDS & {"ai", "cat", "dog", "war", "c", "r", "us", "like", "system", "new", "two"}
    assert only_stop_words("The who, isn't it?")
    assert not only_stop_words("the ai")


async def test_an_added_term_never_outranks_a_word_of_the_query(library: Library) -> None:
    """Of two equally frequent terms, the query's own ranks first; the added one finds further records, and breaks ties."""
    texts = {
        "a": "kangaroo river", "b": "marsupial river", "c": "kangaroo marsupial", "d": "nothing here", "e": "nothing again",
        "f": "nothing more", "g": "nothing else",
    }  # fmt: skip
    await library.upsert([Paper(doc_id=name, title=text) for name, text in texts.items()])
    alone = await library.search("kangaroo")
    widened = await library.search("kangaroo", widened=("marsupial",))
    assert [hit.record.doc_id for hit in alone] == ["a", "c"]
    assert [hit.record.doc_id for hit in widened] == ["c", "a", "b"]
    assert widened[2].score < widened[1].score / 2


def hits(*titles: str) -> list[Paper]:
    return [Paper(doc_id=str(number), title=title) for number, title in enumerate(titles)]


ABOUT = ["Kangaroo pouches"] * 4 + ["Kangaroos"] * (FIRST - 4)
OTHERS = ["Rivers of the north"] * (POOL - FIRST)


def test_a_term_of_the_first_hits_is_found_and_one_of_the_query_is_not() -> None:
    """Whatever form the query's word has."""
    assert related_terms("kangaroo", hits(*ABOUT, *OTHERS), 5) == ("pouches",)
    assert related_terms("pouch", hits(*ABOUT, *OTHERS), 5)[0] in ("kangaroo", "kangaroos")


def test_terms_more_frequent_in_later_hits_are_dropped() -> None:
    """Half of the first hits have it, and all others."""
    first = [*(["Kangaroo rivers"] * (FIRST // 2)), *(["Kangaroo"] * (FIRST // 2))]
    assert related_terms("kangaroo", hits(*first, *(["Rivers"] * (POOL - FIRST))), 5) == ()


def test_one_or_two_documents_are_no_topic() -> None:
    """Three of ten first hits must have a term; two where there are fewer hits than ten."""
    two = ["Kangaroo pouches"] * 2
    assert related_terms("kangaroo", hits(*two, *(["Kangaroo"] * (FIRST - 2)), *OTHERS), 5) == ()
    assert related_terms("kangaroo", hits(*two, "Kangaroo"), 5) == ("pouches",)


def test_a_term_occurs_in_some_title_or_description() -> None:
    """Bodies also say "overall"."""
    records = [Document(doc_id=str(number), title="Kangaroo", text="overall pouches") for number in range(FIRST - 1)]
    assert related_terms("kangaroo", [*records, Document(doc_id="x", title="Pouches")], 5) == ("pouches",)


def test_forms_of_a_word_count_together_under_the_most_frequent() -> None:
    """Of equally frequent forms the shortest represents them; stop words, numbers and short words are no terms."""
    assert related_terms("kangaroo", hits("Kangaroo hopping", "Kangaroo hops", "Kangaroo hops to 2020 ab"), 5) == ("hops",)
    assert related_terms("kangaroo", hits("Hopping of it 2020 ab", "Hop of it 2020 ab"), 5) == ("hop",)


def test_terms_are_few_and_ties_go_by_word() -> None:
    same = hits(*(["Kangaroo delta bravo charlie"] * 3))
    assert related_terms("kangaroo", same, 2) == ("bravo", "charlie")
    assert related_terms("kangaroo", same, 0) == ()
    assert related_terms("kangaroo", [], 3) == ()


async def test_a_request_may_be_the_name_of_an_author(library: Library) -> None:
    """In any order and with or without accents; of a collaboration only the first."""
    crowd = tuple(f"Roe, {number}" for number in range(RANKED_AUTHORS))
    await library.upsert(
        [
            Paper(doc_id="a", title="Sorting", authors=("Knuth, Donald E.", "Erdős, Paul")),
            Paper(doc_id="b", title="Searching", authors=(*crowd, "Erdős, Paul")),
            Paper(doc_id="c", title="Paul and the others"),
        ]
    )
    assert [hit.record.doc_id for hit in await library.search("Donald Knuth")] == ["a"]
    assert [hit.record.doc_id for hit in await library.search("papers of Paul Erdos")] == ["a", "c"]


async def test_a_phrase_ranks_higher_and_costs_no_hit(library: Library) -> None:
    """Of records with the same words, the one with the phrase stands first; records without it stay."""
    texts = {"a": "test of the blood", "b": "a blood test", "c": "rivers", "d": "test"}
    await library.upsert([Paper(doc_id=name, abstract=text) for name, text in texts.items()])
    plain = await library.search("blood test")
    assert [hit.record.doc_id for hit in plain] == ["a", "b", "d"]
    with_phrase = await library.search("blood test", phrases=("blood test",))
    assert [hit.record.doc_id for hit in with_phrase] == ["b", "a", "d"]
    widened = await library.search("blood test", widened=("rivers",), phrases=("blood test",))
    assert [hit.record.doc_id for hit in widened] == ["b", "a", "d", "c"]


async def test_the_first_hits_are_searched_again_only_after_a_change(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph needs the first hits of the same text that the expansion read; a record added meanwhile counts."""
    await library.upsert([Paper(doc_id=str(number), title=f"Kangaroo {number}") for number in range(5)])
    await library.related_terms("kangaroo", 3)
    searched: list[str] = []
    original = text_search.rank

    async def counted(table: Any, text: str, *rest: Any) -> list[Ranked]:
        searched.append(text)
        return await original(table, text, *rest)

    monkeypatch.setattr(text_search, "rank", counted)
    expected = [place.doc_id for place in await original(library._table, "kangaroo", None, 3)]
    assert await library.best_ids("kangaroo", None, 3) == expected
    assert not searched
    await library.upsert([Paper(doc_id="9", title="Kangaroo kangaroo kangaroo")])
    assert (await library.best_ids("kangaroo", None, 3))[0] == "9"
    assert await library.best_ids("kangaroo", Compare("doc_id", "$eq", "2"), 3) == ["2"]
    assert searched == ["kangaroo", "kangaroo"]


def test_function_words_of_other_languages_widen_no_query() -> None:
    """In a library of many languages they tell one language from the others, and so the first hits of a German question from the rest."""
    german = [Paper(doc_id=f"d{number}", title="Die Obstbäume der Herzogin und das Schloss") for number in range(10)]
    french = [Paper(doc_id=f"f{number}", title="Les vergers de la duchesse avec une clôture") for number in range(10)]
    english = [Paper(doc_id=f"e{number}", title="Orchards of the duchess") for number in range(20)]
    assert related_terms("Herzogin Obstbäume", [*german, *english], 5) == ("schloss",)
    assert related_terms("vergers duchesse", [*french, *english], 5) == ("clôture",)


@pytest.fixture
async def engine(library: Library) -> Engine:
    titles = {
        "a": "Paracetamol and hepatotoxicity", "b": "Acetaminophen and liver injury", "c": "Acetaminophen prices", "d": "Liver of the cow",
        "e": "Acetaminophen and liver injury in alcohol use",
    }  # fmt: skip
    await library.upsert([Paper(doc_id=name, title=title) for name, title in titles.items()])
    return Engine(library, lambda space: None, LibraryGraph(library))  # type: ignore[arg-type,return-value]


async def test_records_with_synonyms_only_are_found_by_the_boolean_query(engine: Engine) -> None:
    """And they say so; records that hold the words of the text stay."""
    query = SourceQuery("paracetamol hepatotoxicity", RetrieverType.LANCE_FTS, None, 10)
    assert [hit.record.doc_id for hit in (await engine.search(query)).results] == ["a"]
    text = '(paracetamol OR acetaminophen) AND (hepatotoxicity OR "liver injury") NOT alcohol'
    hits = (await engine.search(replace(query, boolean=BooleanQuery(parse(text).tree)))).results
    assert [(hit.record.doc_id, hit.why) for hit in hits] == [("a", MATCHES), ("b", MATCHES)]


async def test_the_boolean_query_of_a_plan_reaches_the_library(engine: Engine) -> None:
    async def open_engine() -> Engine:
        return engine

    planned = PlannedQuery(
        text="paracetamol hepatotoxicity",
        keywords=("paracetamol",),
        boolean_query='(paracetamol OR acetaminophen) AND (hepatotoxicity OR "liver injury")',
    )
    strategy = SearchStrategy(queries=(planned,), sources=("library",), strategies=(RetrieverType.LANCE_FTS,))
    scout = Scout((LibrarySource(open_engine),), min_max, interleave, RunSettings(), lambda: 0.0)
    state = PipelineState.model_validate({"query": "x", "started_at": 0.0}).model_copy(update={"strategy": strategy})
    update = await scout(state, None)  # type: ignore[arg-type]
    assert {one.record.doc_id for one in update["candidates"]} == {"a", "b", "e"}
