from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from outrider.nodes.translator.rule_plan import parse_intent, plan_by_rules, vary_repeated_queries
from outrider.settings.model import StarsSettings
from outrider.state.intent import PlannedQuery
from outrider.state.iteration import EarlierQuery, EarlierStrategy
from outrider.state.request import SearchRequest


def planned(text: str) -> PlannedQuery:
    intent, rest = parse_intent(text, StarsSettings(), 2026)
    return plan_by_rules(SearchRequest(query="x"), intent, rest, ("library",), ()).queries[0]


def ran(*queries: PlannedQuery) -> tuple[EarlierStrategy, ...]:
    return (EarlierStrategy(queries=tuple(EarlierQuery(text=one.text, boolean_query=one.boolean_query) for one in queries)),)


def test_what_is_new_stays_as_it_is_and_double_ones_go() -> None:
    liver, kidney = planned("liver injury"), planned("kidney stones")
    assert vary_repeated_queries((liver, kidney, liver), ()) == (liver, kidney)
    assert vary_repeated_queries((liver,), ran(kidney)) == (liver,)


def test_a_repeated_query_gets_a_term_more_or_a_concept_less() -> None:
    """Other order, case and endings are no difference."""
    liver = planned("aspirin and hepatic injury")
    assert [one.text for one in vary_repeated_queries((planned("Hepatic injuries and Aspirin"),), ran(liver), ("dose",))] == [
        "Hepatic injuries and Aspirin dose"
    ]
    assert [(one.text, one.boolean_query) for one in vary_repeated_queries((liver,), ran(liver))] == [("aspirin", "aspirin")]


def test_new_words_over_an_old_boolean_query_get_one_of_their_own() -> None:
    old = planned("liver injury")
    new = PlannedQuery(text="drug toxicity", keywords=("drug",), boolean_query=old.boolean_query)
    assert [(one.text, one.boolean_query) for one in vary_repeated_queries((new,), ran(old))] == [("drug toxicity", '"drug toxicity"')]


def test_where_nothing_new_can_be_made_nothing_is_left() -> None:
    assert vary_repeated_queries((planned("liver"),), ran(planned("liver"))) == ()


def test_leaving_a_word_out_is_a_new_query_and_stays_so_in_each_variation() -> None:
    """Only the operator differs, as in feedback such as "not the heart"."""
    earlier = ran(query("liver heart injury", "liver AND heart AND injury"))
    without = query("liver injury", "liver AND injury NOT heart")
    assert vary_repeated_queries((without,), earlier) == (without,)
    again = vary_repeated_queries(
        (query("injuries of the liver", "injury AND liver AND NOT hearts"),), ran(without), ("heart", "hearts failing", "dose")
    )
    assert [(one.text, one.boolean_query) for one in again] == [("injuries of the liver dose", "injuries AND liver AND dose NOT hearts")]


def query(text: str, boolean_query: str) -> PlannedQuery:
    return PlannedQuery(text=text, keywords=tuple(text.split()), boolean_query=boolean_query)


WORDS = "liver kidney aspirin dose trial".split()
"""Each its own stem, so that sets of them can be compared without the code under test."""
WordSets = tuple[tuple[str, ...], tuple[str, ...]]
some = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4, unique=True).map(tuple)
word_sets = st.tuples(some, some | st.just(())).map(lambda both: (both[0], tuple(word for word in both[1] if word not in both[0])))


def written(word_pair: WordSets) -> PlannedQuery:
    included, left_out = word_pair
    return query(" ".join(included), " AND ".join(included) + "".join(f" NOT {word}" for word in left_out))


def read(boolean_query: str) -> tuple[set[str], set[str]]:
    """The included words of a query without parentheses, and those behind a NOT."""
    included, *left_out = boolean_query.replace('"', "").split(" NOT ")
    return set(included.replace(" AND ", " ").split()), set(left_out)


@given(st.lists(word_sets, min_size=1, max_size=4), st.lists(word_sets, max_size=6), st.lists(st.sampled_from(WORDS), max_size=3))
def test_no_query_is_one_that_was_run(new: list[WordSets], old: list[WordSets], terms: list[str]) -> None:
    """By its words, or by what it wants and leaves out; what is new already stays as it is."""
    varied = vary_repeated_queries(map(written, new), ran(*map(written, old)), terms)
    texts = [set(one.text.split()) for one in varied]
    before, earlier_pairs = [set(included) for included, _ in old], [(set(included), set(left_out)) for included, left_out in old]
    assert all(text not in before and read(one.boolean_query) not in earlier_pairs for text, one in zip(texts, varied, strict=True))
    assert all(text not in texts[:at] for at, text in enumerate(texts))
    assert len(varied) <= len(new)
    first = new[0]
    if set(first[0]) not in before and (set(first[0]), set(first[1])) not in earlier_pairs:
        assert varied[0] == written(first)
    left_out = [set(one[1]) for one in new]
    assert all(read(one.boolean_query)[1] in left_out for one in varied)
