from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from outrider.nodes.iteration import boolean_set, renewed, word_set
from outrider.nodes.query_rules import plan, understand
from outrider.settings.model import StarsSettings
from outrider.state.intent import PlannedQuery
from outrider.state.iteration import EarlierQuery, EarlierStrategy
from outrider.state.request import SearchRequest


def planned(text: str) -> PlannedQuery:
    intent, rest = understand(text, StarsSettings(), 2026)
    return plan(SearchRequest(query="x"), intent, rest, ("library",), ()).queries[0]


def ran(*queries: PlannedQuery) -> tuple[EarlierStrategy, ...]:
    return (EarlierStrategy(queries=tuple(EarlierQuery(text=one.text, boolean_query=one.boolean_query) for one in queries)),)


def test_what_is_new_stays_as_it_is_and_double_ones_go() -> None:
    liver, kidney = planned("liver injury"), planned("kidney stones")
    assert renewed((liver, kidney, liver), ()) == (liver, kidney)
    assert renewed((liver,), ran(kidney)) == (liver,)


def test_a_repeated_query_gets_a_term_more_or_a_concept_less() -> None:
    """Other order, case and endings are no difference."""
    liver = planned("aspirin and hepatic injury")
    assert [one.text for one in renewed((planned("Hepatic injuries and Aspirin"),), ran(liver), ("dose",))] == [
        "Hepatic injuries and Aspirin dose"
    ]
    assert [(one.text, one.boolean_query) for one in renewed((liver,), ran(liver))] == [("aspirin", "aspirin")]


def test_new_words_over_an_old_boolean_query_get_one_of_their_own() -> None:
    old = planned("liver injury")
    new = PlannedQuery(text="drug toxicity", keywords=("drug",), boolean_query=old.boolean_query)
    assert [(one.text, one.boolean_query) for one in renewed((new,), ran(old))] == [("drug toxicity", '"drug toxicity"')]


def test_where_nothing_new_can_be_made_nothing_is_left() -> None:
    assert renewed((planned("liver"),), ran(planned("liver"))) == ()


WORDS = st.lists(st.sampled_from("liver kidney aspirin injuries of the dose trial".split()), min_size=1, max_size=6).map(" ".join)


@given(st.lists(WORDS, min_size=1, max_size=4), st.lists(WORDS, max_size=6), st.lists(WORDS, max_size=3))
def test_no_query_is_one_that_was_run(new: list[str], old: list[str], terms: list[str]) -> None:
    earlier = ran(*map(planned, old))
    queries = renewed(map(planned, new), earlier, terms)
    texts = {word_set(text) for text in old}
    booleans = {boolean_set(planned(text).boolean_query) for text in old}
    assert all(word_set(one.text) not in texts and boolean_set(one.boolean_query) not in booleans for one in queries)
    assert len({word_set(one.text) for one in queries}) == len(queries) <= len(new)
