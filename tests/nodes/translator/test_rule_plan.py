"""Plans by rules: keywords, constraints and repeated queries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.nodes.translator.rule_plan import (
    MAX_CONCEPTS,
    extract_concepts,
    extract_keywords,
    parse_intent,
    plan_by_rules,
    read_constraints,
    star_range,
    vary_repeated_queries,
)
from outrider.settings.model import StarsSettings
from outrider.state.earlier_rounds import EarlierQuery, EarlierStrategy
from outrider.state.intent import PlannedQuery
from outrider.state.request import SearchRequest


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("retry a failing call with exponential backoff", ("retry", "failing call", "exponential backoff")),
        ("LLMs in medical imaging diagnosis", ("LLMs", "medical imaging diagnosis")),
        ("What are the effects of aspirin on the liver?", ("effects", "aspirin", "liver")),
        ("C++ and C# parsers", ("C++", "C# parsers")),
        ("深度学习 图像", ("深度学习 图像",)),
        ("C++17, F#, .NET and ASP.NET in R", ("C++17", "F#", ".NET", "ASP.NET", "R")),
        ("at the end.Then a 5.0", ("end.Then", "5.0")),
        ("to be or not to be?", ("to", "be", "or", "not")),
        ('"quality of life" and sleep', ("quality of life", "sleep")),
        ("who wrote «war and peace.»", ("wrote", "war and peace")),
        ('a 5" screen and a 7" tablet', ("5", "screen", "7", "tablet")),
        ("liver and/or kidney", ("liver", "kidney")),
        ("", ()),
    ],
)
def test_phrases_between_stop_words_in_order(text: str, expected: tuple[str, ...]) -> None:
    assert extract_concepts(text) == expected


@given(st.text(max_size=300))
def test_deterministic_few_and_taken_from_the_text(text: str) -> None:
    """At most eight, none twice, the same each time, every word of them a word of the text."""
    once = extract_concepts(text)
    assert once == extract_concepts(text)
    assert len(once) == len(set(once)) <= MAX_CONCEPTS
    assert all(word in text for phrase in once for word in phrase.split(" "))


@pytest.mark.parametrize("name", ["C++", "C#", "F#", ".NET", "R", "Node.js", "C++17", "x86-64"])
def test_the_name_of_a_language_is_a_keyword_as_it_is_written(name: str) -> None:
    assert name in extract_keywords(extract_concepts(f"show me parsers for {name}, please"))


@given(st.lists(st.text(max_size=20), max_size=9))
def test_keywords_are_the_words_of_the_phrases_each_once(phrases: list[str]) -> None:
    keywords = extract_keywords(phrases)
    assert {word.casefold() for word in keywords} == {word.casefold() for phrase in phrases for word in phrase.split()}
    assert len(keywords) == len({word.casefold() for word in keywords})


STARS = StarsSettings()


@pytest.mark.parametrize(
    ("query", "low", "high", "rest"),
    [
        ("LLMs in imaging since 2022", 2022, None, "LLMs in imaging"),
        ("imaging after 2019", 2020, None, "imaging"),
        ("imaging before 2015", None, 2014, "imaging"),
        ("imaging until 2015", None, 2015, "imaging"),
        ("imaging between 2010 and 2015", 2010, 2015, "imaging"),
        ("imaging 2015-2010", 2010, 2015, "imaging"),
        ("imaging published in 2018", 2018, 2018, "imaging"),
        ("imaging of the last five years", 2021, None, "imaging"),
        ("imaging in the past 3 years", 2023, None, "imaging"),
        ("after 2015 imaging before 2010", 2009, 2016, "imaging"),
        ("the 2001 anthrax letters", None, None, "the 2001 anthrax letters"),
        ("imaging", None, None, "imaging"),
    ],
)
def test_years(query: str, low: int | None, high: int | None, rest: str) -> None:
    """A year phrase becomes bounds and leaves the query; bounds the wrong way round are swapped."""
    constraints, remainder = read_constraints(query, STARS, this_year=2026)
    assert (constraints.years.min, constraints.years.max, remainder) == (low, high, rest)


@pytest.mark.parametrize(
    ("query", "low", "high"),
    [
        ("popular React library", 1000, None),
        ("a widely used parser", 1000, None),
        ("mature ORM", 5000, None),
        ("a new state manager", 10, 1000),
        ("lightweight router", 10, 500),
        ("popular new thing", 1000, None),
    ],
)
def test_stars(query: str, low: int, high: int | None) -> None:
    """Star words name a range whatever the search mode."""
    bounds = star_range(query, STARS)
    assert bounds is not None
    assert (bounds.min, bounds.max) == (low, high)


@pytest.mark.parametrize("query", ["React animation library", "renewable energy"])
def test_without_a_star_word_toy_projects_are_left_out(query: str) -> None:
    constraints, _ = read_constraints(query, STARS, 2026)
    assert (constraints.stars.min, constraints.stars_named) == (50, False)


@given(st.text(alphabet="abc 0123456789-–since before after until last years", max_size=80))
def test_years_are_always_a_range(query: str) -> None:
    constraints, _ = read_constraints(query, STARS, this_year=2026)
    low, high = constraints.years.min, constraints.years.max
    assert low is None or high is None or low <= high


@pytest.mark.parametrize(
    ("query", "low", "high", "rest"),
    [
        ("popular web framework with over 5,000 stars", 5000, None, "popular web framework"),
        ("parser at least 2k stars", 2000, None, "parser"),
        ("parser under 300 stars", None, 300, "parser"),
        ("1000+ stars parser", 1000, None, "parser"),
    ],
)
def test_a_number_of_stars_is_taken_at_its_word(query: str, low: int | None, high: int | None, rest: str) -> None:
    constraints, remainder = read_constraints(query, STARS, 2026)
    assert (constraints.stars.min, constraints.stars.max, constraints.stars_named, remainder) == (low, high, True, rest)


def planned(text: str) -> PlannedQuery:
    intent, rest = parse_intent(text, StarsSettings(), 2026)
    return plan_by_rules(SearchRequest(query="x"), intent, rest, ("library",), ()).queries[0]


@pytest.mark.parametrize(
    ("request_text", "text", "boolean"),
    [
        ("aspirin AND (liver OR hepatic) NOT alcohol", "aspirin liver hepatic", "aspirin AND (liver OR hepatic) NOT alcohol"),
        ("aspirin OR ibuprofen since 2020", "aspirin ibuprofen", "aspirin OR ibuprofen"),
        ("what is known of gout NOT diet?", "known gout", "known AND gout NOT diet"),
        ('"tort law" AND (dog OR “wild animal”)', "tort law dog wild animal", '"tort law" AND (dog OR "wild animal")'),
        ("liver[ti] AND bile[mh]", "liver bile", "liver AND bile"),
        ("学习 OR 影像", "学习 影像", "学习 OR 影像"),
        ("why aspirin should NOT be given to children", "why aspirin should NOT be given to children", "aspirin AND given AND children"),
        ("drugs that are NOT metabolised", "drugs that are NOT metabolised", "drugs AND metabolised"),
        ("aspirin NOT ibuprofen in elderly patients", "aspirin elderly patients", "aspirin AND elderly AND patients NOT ibuprofen"),
        ("aspirin NOT heart failure", "aspirin", "aspirin NOT (heart AND failure)"),
        ("(aspirin NOT alcohol) OR statins", "aspirin statins", "(aspirin NOT alcohol) OR statins"),
        ("aspirin AND NOT alcohol", "aspirin", "aspirin NOT alcohol"),
        ("how do NOT gates work", "how do NOT gates work", '"gates work"'),
        ("OR scheduling of nurses", "OR scheduling of nurses", "scheduling AND nurses"),
        ("aspirin AND (liver", "aspirin AND (liver", "aspirin AND liver"),
        ("aspirin and liver or not", "aspirin and liver or not", "aspirin AND liver"),
    ],
)
def test_operators_in_a_request_are_used(request_text: str, text: str, boolean: str) -> None:
    """What a user excludes was required before, and alternatives were all required. What cannot be read is searched by its words."""
    query = planned(request_text)
    assert (query.text, query.boolean_query) == (text, boolean)


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
