# ruff: noqa: N802  (REQ and PROP are written as in the specification)
"""REQ-1 to REQ-5 and PROP-1 to PROP-4 of the query builder's specification, and what a model must not be able to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.nodes.translator.common_boolean_syntax import parses
from outrider.nodes.translator.rule_plan import make_boolean_sets, make_word_set
from outrider.nodes.translator.translator import MODEL, Translation, Translator
from outrider.settings.model import LlmSettings, RunSettings, StarsSettings
from outrider.state.chat import Budget
from outrider.state.errors import KeyRejected, NothingSearchable
from outrider.state.pipeline import PipelineState, RunContext
from outrider.state.request import KNOWN_SOURCES, SearchMode, SearchRequest, searchable
from outrider.text.sanitize import CONTROL
from support.chat_client import KEY, chat_over
from support.chat_server import ChatServer, Reply, Request
from support.fakes import NOON, Shelf

STARS = StarsSettings()
SCHOLAR = ("serpapi_scholar",)
IMAGING: dict[str, Any] = {
    "topic": "LLM in medical imaging",
    "concepts": ["LLM", "medical imaging", "diagnosis"],
    "intent_type": "survey",
    "queries": [
        {
            "text": "large language models medical imaging diagnosis",
            "keywords": ["large language model", "medical imaging"],
            "synonyms": ["LLM"],
            "boolean_query": '("large language model" OR LLM) AND "medical imaging"',
        },
        {"text": "vision language radiology", "keywords": ["radiology"], "boolean_query": "radiology AND vision"},
    ],
    "expanded_keywords": ["radiology", "GPT-4", "decision support"],
}


AtOnce = Callable[..., Translation]


@pytest.fixture(scope="module")
def at_once() -> Iterator[AtOnce]:
    """What comes of a draft, through the real client: one server and one client for all the examples of the properties."""
    reply: dict[str, Any] = {}
    with ChatServer(lambda _: Reply(reply["draft"])) as server:
        chat = chat_over(server, timeout_s=60.0)

        def once(draft: dict[str, Any], configured: tuple[str, ...] = SCHOLAR, shelf: Shelf | None = None, **request: Any) -> Translation:
            reply["draft"] = draft
            search_request = SearchRequest.model_validate({"query": "liver injury", **request})
            return asyncio.run(translator(chat, configured, shelf).translate(search_request, Budget(), 600.0))

        yield once


def translator(chat: Any, sources: tuple[str, ...] = SCHOLAR, shelf: Shelf | None = None, **fields: Any) -> Translator:
    return Translator(shelf or Shelf(), sources, STARS, lambda: NOON, chat, **fields)


async def translated(draft: Any, query: str = "LLM in medical imaging", sources: tuple[str, ...] = SCHOLAR, **request: Any) -> Translation:
    """Through the real client, with a server that answers this."""
    reply = draft if isinstance(draft, Reply) else Reply(draft)
    with ChatServer(lambda _: reply) as server:
        node = translator(chat_over(server), sources)
        return await node.translate(SearchRequest(query=query, **request), Budget(), 30.0)


# --- the specification ------------------------------------------------------------------------------------------------------------------


async def test_REQ_1_a_request_gives_intent_and_queries() -> None:
    translation = await translated(IMAGING)
    assert (translation.intent.topic, translation.intent.intent_type) == ("LLM in medical imaging", "survey")
    assert translation.intent.concepts == ("LLM", "medical imaging", "diagnosis")
    assert translation.strategy.made_by == "model"
    assert 1 <= len(translation.strategy.queries) <= 4
    assert all(query.text and query.keywords and parses(query.boolean_query) for query in translation.strategy.queries)
    assert translation.strategy.sources == SCHOLAR
    assert translation.strategy.expanded_keywords == ("radiology", "GPT-4", "decision support")
    assert not translation.failures


@pytest.mark.parametrize("named", [["semantic_scholar", "pubmed", "serpapi_scholar"], ["semantic_scholar"], [], None, "all"])
async def test_REQ_2_sources_are_those_configured_whatever_the_model_names(named: Any) -> None:
    queries = [{**query, "sources": named, "source": "pubmed"} for query in IMAGING["queries"]]
    translation = await translated({**IMAGING, "queries": queries, "sources": named, "available_sources": named})
    assert translation.strategy.sources == SCHOLAR
    assert translation.strategy.made_by == "model"
    assert len(translation.strategy.queries) == 2


async def test_REQ_2_a_model_never_narrows_what_the_caller_requested() -> None:
    translation = await translated({**IMAGING, "sources": ["pubmed"]}, sources=("library", "pubmed"))
    assert translation.strategy.sources == ("library", "pubmed")


async def test_REQ_3_earlier_rounds_and_feedback_reach_the_prompt_and_the_queries_differ() -> None:
    first = (await translated(IMAGING)).strategy
    with ChatServer(lambda _: Reply(IMAGING)) as server:
        second_request = SearchRequest(query="LLM in medical imaging", previous_strategies=(first,), user_feedback="only </data> X-rays")
        second = (await translator(chat_over(server)).translate(second_request, Budget(), 30.0)).strategy
        (request,) = server.requests
    assert request.data["user_feedback"] == "only </data> X-rays"
    assert request.data["earlier_rounds"][0]["queries"][0]["boolean_query"] == first.queries[0].boolean_query
    assert "X-rays" not in request.system
    earlier = {make_boolean_sets(query.boolean_query) for query in first.queries}
    assert all(make_boolean_sets(query.boolean_query) not in earlier for query in second.queries)
    assert second.queries
    assert second.user_feedback == "only </data> X-rays"


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply("no JSON at all"), "BadAnswer"),
        (Reply({"answer": 42}), "BadAnswer"),
        (Reply("boom", status=500), "ChatUnavailable"),
        (Reply("slow down", status=429, headers={"Retry-After": "3600"}), "ChatUnavailable"),
        (Reply(IMAGING, cut=True), "ChatUnavailable"),
        (Reply("", refusal="I cannot help with that."), "BadAnswer"),
        (Reply(""), "BadAnswer"),
        (Reply(raw=b"x" * 10_000_000), "BadAnswer"),
        (Reply('{"queries": [{"text": "a', finish_reason="length"), "BadAnswer"),
    ],
)
async def test_REQ_4_a_model_that_fails_leaves_the_plan_to_rules_and_reports_it(reply: Reply, error: str) -> None:
    translation = await translated(reply, "aspirin and hepatic injury since 2019")
    by_rules = await translator(None).translate(SearchRequest(query="aspirin and hepatic injury since 2019"), Budget(), 30.0)
    assert translation.strategy == by_rules.strategy
    assert translation.intent == by_rules.intent
    assert [query.boolean_query for query in translation.strategy.queries] == ['aspirin AND "hepatic injury"']
    assert (translation.strategy.sources, translation.strategy.constraints.years.min, translation.strategy.made_by) == (
        SCHOLAR,
        2019,
        "rules",
    )
    assert [(failure.node, failure.error) for failure in translation.failures] == [(MODEL, error)]
    assert translation.failures[0].message
    assert KEY not in str(translation)


async def test_REQ_5_years_the_wrong_way_round_are_swapped() -> None:
    years = (await translated({**IMAGING, "year_from": 2025, "year_to": "2020"})).strategy.constraints.years
    assert (years.min, years.max) == (2020, 2025)


@pytest.mark.parametrize("queries", [[], [{}], [{"text": "!!", "keywords": ["", "\x00"]}], [{"boolean_query": "a AND b"}]])
async def test_REQ_5_without_a_query_the_concepts_are_searched(queries: list[Any]) -> None:
    translation = await translated({**IMAGING, "queries": queries})
    assert [query.boolean_query for query in translation.strategy.queries] == ['LLM AND "medical imaging" AND diagnosis']
    assert (translation.strategy.made_by, translation.strategy.queries[0].text) == ("rules", "LLM in medical imaging")
    assert MODEL in {step.step for step in translation.bypassed}


CHARACTERS = st.characters()  # halves of surrogate pairs among them
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(CHARACTERS, max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
QUERY = st.fixed_dictionaries({}, optional=dict.fromkeys(("text", "keywords", "synonyms", "boolean_query"), JSON))
DRAFT = st.fixed_dictionaries(
    {"queries": st.lists(QUERY | st.text(max_size=20), max_size=6)},
    optional=dict.fromkeys(("topic", "concepts", "intent_type", "expanded_keywords", "topics", "language", "created_after"), JSON),
)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from(KNOWN_SOURCES) | st.text(max_size=10)),
    st.sets(st.sampled_from(KNOWN_SOURCES), min_size=1),
    st.none() | st.sets(st.sampled_from(KNOWN_SOURCES), min_size=1),
)
def test_PROP_1_sources_are_those_configured_that_the_caller_requests(
    at_once: AtOnce, named: list[str], configured: set[str], requested: set[str] | None
) -> None:
    """Whatever the model names besides its plan, which is used."""
    expected = tuple(sorted(configured if requested is None else configured & requested))
    draft = {**IMAGING, "sources": named, "queries": [{**query, "sources": named} for query in IMAGING["queries"]]}
    if expected:
        strategy = at_once(draft, tuple(sorted(configured)), sources=None if requested is None else sorted(requested)).strategy
        assert (strategy.sources, strategy.made_by) == (expected, "model")
    else:
        with pytest.raises(NothingSearchable):
            at_once(draft, tuple(sorted(configured)), sources=sorted(requested or ()))


@settings(max_examples=60, deadline=None)
@given(DRAFT)
def test_PROP_2_there_is_always_a_query_that_can_be_searched(at_once: AtOnce, draft: dict[str, Any]) -> None:
    translation = at_once(draft)
    assert 1 <= len(translation.strategy.queries) <= 4
    for query in translation.strategy.queries:
        assert searchable(query.text)
        assert query.keywords
        assert parses(query.boolean_query)
        assert len(query.text) <= 300
        assert not CONTROL.search(query.text)


@settings(deadline=None)
@given(st.text(min_size=1, max_size=80).filter(searchable), st.sampled_from(SearchMode))
def test_PROP_3_the_fallback_is_deterministic(query: str, mode: SearchMode) -> None:
    node = translator(None)
    request = SearchRequest(query=query, search_mode=mode)
    assert asyncio.run(node.translate(request, Budget(), 30.0)) == asyncio.run(node.translate(request, Budget(), 30.0))


YEAR = st.integers(1700, 2100) | st.none()


@settings(max_examples=40, deadline=None)
@given(YEAR | st.text(max_size=5), YEAR | st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_PROP_4_years_are_always_a_range_that_leaves_some_works(at_once: AtOnce, low: Any, high: Any) -> None:
    strategy = at_once({**IMAGING, "year_from": low, "year_to": high}).strategy
    assert strategy.made_by == "model"
    years = strategy.constraints.years
    bounds = [year for year in (years.min, years.max) if year is not None]
    assert bounds == sorted(bounds)
    assert all(1800 <= year <= 2027 for year in bounds)
    if all(isinstance(year, int) and 1800 <= year <= 2027 for year in (low, high)):
        assert bounds == sorted([low, high])


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (2035, None, (None, None)),
        (None, 1500, (None, None)),
        (2035, 2040, (None, 2027)),
        (1500, 1600, (1800, None)),
        (2030, 2020, (2020, 2027)),
        (1500, 2020, (1800, 2020)),
        (2027, None, (2027, None)),
    ],
)
def test_years_that_would_leave_out_every_work_are_dropped(
    at_once: AtOnce, low: int | None, high: int | None, expected: tuple[int | None, int | None]
) -> None:
    years = at_once({**IMAGING, "year_from": low, "year_to": high}).strategy.constraints.years
    assert (years.min, years.max) == expected


# --- beyond it --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("named_count", "expected_count"), [(1, 1), (4, 4), (6, 4)])
async def test_one_query_is_enough_and_more_than_four_are_cut(named_count: int, expected_count: int) -> None:
    queries = [{"text": f"liver {part}", "keywords": ["liver"]} for part in "lobe duct vein cell scan drug".split()[:named_count]]
    assert len((await translated({**IMAGING, "queries": queries})).strategy.queries) == expected_count


@dataclass
class Poor(Shelf):
    """A library that names these terms and no other."""

    terms: tuple[str, ...] = ()

    async def related_terms(self, text: str, limit: int) -> tuple[str, ...]:
        return self.terms[:limit]


MOST = {SearchMode.FOCUSED: 0, SearchMode.BALANCED: 3, SearchMode.EXPLORATORY: 8}
LEAST = {SearchMode.FOCUSED: 0, SearchMode.BALANCED: 2, SearchMode.EXPLORATORY: 5}
WIDER = st.lists(st.sampled_from("serum enzyme dose trial cohort murine assay biopsy statin".split()) | st.text(max_size=12), max_size=9)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SearchMode), WIDER, WIDER, WIDER)
def test_the_mode_bounds_the_expansion_or_the_answer_reports_what_is_missing(
    at_once: AtOnce, mode: SearchMode, named: list[str], synonyms: list[str], related: list[str]
) -> None:
    """Whatever model and library name, which may be nothing."""
    queries = [{**IMAGING["queries"][0], "synonyms": synonyms}]
    shelf = Poor(terms=tuple(term for term in related if searchable(term)))
    translation = at_once({**IMAGING, "queries": queries, "expanded_keywords": named}, search_mode=mode, shelf=shelf)
    expanded = translation.strategy.expanded_keywords
    assert len(expanded) <= MOST[mode]
    assert len(set(expanded)) == len(expanded)
    assert (len(expanded) < LEAST[mode]) == any("expansion" in step.step for step in translation.bypassed)


def test_too_few_terms_are_filled_up_by_the_library_and_then_by_synonyms(at_once: AtOnce) -> None:
    queries = [{"text": "hepatic harm", "synonyms": ["liver damage", "injury", "hepatotoxicity"], "boolean_query": "hepatic NOT serum"}]
    draft = {**IMAGING, "queries": queries, "expanded_keywords": ["enzyme"]}
    full = at_once(draft, search_mode="exploratory", shelf=Poor(terms=("serum", "dose", "enzymes", "trial")))
    assert full.strategy.expanded_keywords == ("enzyme", "dose", "trial", "liver damage", "hepatotoxicity")
    assert not full.bypassed
    short = at_once(draft, search_mode="exploratory", shelf=Poor())
    assert short.strategy.expanded_keywords == ("enzyme", "liver damage", "hepatotoxicity")
    assert [(step.step, step.why) for step in short.bypassed] == [
        ("rest of the expansion", "model and library name 3 of the 5 terms or more that the search mode exploratory adds")
    ]


async def test_rules_report_that_the_library_names_too_few_terms() -> None:
    request = SearchRequest(query="liver", search_mode="exploratory")
    translation = await translator(None, shelf=Poor(terms=())).translate(request, Budget(), 30.0)
    reasons = {step.step: step.why for step in translation.bypassed}
    assert "the library names 0 of the 5 terms" in reasons["expansion"]


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize("draft", [{}, {"stars_min": 1, "stars_max": 9}, {"stars_min": 9_000}])
def test_popular_means_popular_in_any_mode_whatever_the_model_answers(at_once: AtOnce, mode: SearchMode, draft: dict[str, Any]) -> None:
    stars = at_once({**IMAGING, **draft}, query="popular React library", search_mode=mode).strategy.constraints.stars
    assert (stars.min, stars.max) == (1000, None)


@pytest.mark.parametrize(
    ("draft", "low", "high", "named"),
    [
        ({"stars_min": 1000}, 1000, None, True),
        ({"stars_min": 500, "stars_max": 10}, 10, 500, True),
        ({"stars_min": 1}, 50, None, True),
        ({"stars_min": 0, "stars_max": 5}, 10, 10, True),
        ({"stars_min": 0, "stars_max": 0}, 50, None, False),
        ({}, 50, None, False),
    ],
)
def test_stars_that_the_rules_cannot_read_come_from_the_model(
    at_once: AtOnce, draft: dict[str, Any], low: int, high: int | None, named: bool
) -> None:
    constraints = at_once({**IMAGING, **draft}, query="流行的 React 组件库").strategy.constraints
    assert (constraints.stars.min, constraints.stars.max, constraints.stars_named) == (low, high, named)


def test_years_of_the_words_stand_against_the_model(at_once: AtOnce) -> None:
    years = at_once({**IMAGING, "year_from": 1990, "year_to": 2023}, query="imaging since 2022").strategy.constraints.years
    assert (years.min, years.max) == (2022, None)


def test_wishes_for_repositories_are_cleaned(at_once: AtOnce) -> None:
    draft = {"language": " Ru\x00st ", "topics": ["State Management", "a/b", "cli"], "created_after": "2024-02-30T00:00:00Z"}
    wishes = at_once({**IMAGING, **draft}).strategy.repositories
    assert (wishes.language, wishes.topics, wishes.created_after) == ("Ru st", ("state-management", "cli"), None)
    assert str(at_once({**IMAGING, "created_after": "2024-02"}).strategy.repositories.created_after) == "2024-02-01"
    assert at_once({**IMAGING, "created_after": "2090-01-01"}).strategy.repositories.created_after is None


@pytest.mark.parametrize("broken", ['"open AND', "(a OR b", "a AND", "AND a", "title:liver", "smith[au]", "NOT a", "", "()", "a OR OR b"])
def test_a_boolean_query_that_does_not_parse_is_rebuilt(at_once: AtOnce, broken: str) -> None:
    queries = [{"text": "hepatic injury", "keywords": ["hepatic injury", "OR", "x"], "boolean_query": broken}]
    assert at_once({**IMAGING, "queries": queries}).strategy.queries[0].boolean_query == '"hepatic injury" AND "OR" AND x'


def test_a_boolean_query_in_the_syntax_of_a_platform_is_read(at_once: AtOnce) -> None:
    """Before, a synonym went into the middle of a field, and services were sent `(TITLE-ABS-KEY OR hepatotoxicity)`."""
    queries = [{"text": "x", "boolean_query": "TITLE-ABS-KEY(aspirin AND liver)", "synonyms": ["liver: hepatic"]}]
    assert at_once({**IMAGING, "queries": queries}).strategy.queries[0].boolean_query == "aspirin AND (liver OR hepatic)"


def test_the_concept_of_a_synonym_is_no_part_of_an_added_term(at_once: AtOnce) -> None:
    """GitHub was sent the phrase "liver hepatotoxicity"."""
    queries = [{"text": "serum", "synonyms": ["liver: hepatotoxicity"]}]
    added = at_once({**IMAGING, "queries": queries, "expanded_keywords": []}, shelf=Poor()).strategy.expanded_keywords
    assert "hepatotoxicity" in added
    assert not any(":" in term for term in added)


def test_a_word_that_the_text_of_a_query_leaves_out_is_not_looked_for(at_once: AtOnce) -> None:
    (query,) = at_once({**IMAGING, "queries": [{"text": "liver injury NOT heart"}]}).strategy.queries
    assert (query.text, query.keywords, query.boolean_query) == ("liver injury", ("liver injury",), '"liver injury" NOT heart')


def test_feedback_to_leave_a_word_out_is_no_repetition(at_once: AtOnce) -> None:
    earlier = {"queries": [{"text": "liver heart injury", "boolean_query": "liver AND heart AND injury"}]}
    without = {"text": "liver injury", "keywords": ["liver"], "boolean_query": "liver AND injury NOT heart"}
    translation = at_once({**IMAGING, "queries": [without]}, previous_strategies=[earlier], user_feedback="leave out the heart")
    assert [(query.text, query.boolean_query) for query in translation.strategy.queries] == [("liver injury", "liver AND injury NOT heart")]


def test_a_round_whose_every_query_was_run_still_searches_something_new(at_once: AtOnce) -> None:
    earlier_strategies: tuple[Any, ...] = ()
    previous_words: set[frozenset[str]] = set()
    for _ in range(6):
        strategy = at_once(IMAGING, previous_strategies=earlier_strategies).strategy
        marks = {make_word_set(query.text) for query in strategy.queries}
        assert marks
        assert not marks & previous_words
        previous_words |= marks
        earlier_strategies = (strategy,)


async def test_a_rejected_key_is_raised() -> None:
    with pytest.raises(KeyRejected):
        await translated(Reply("bad key", status=401))


async def test_without_a_model_the_answer_gives_the_reason() -> None:
    translation = await translator(None, why_no_model="no key in the environment").translate(
        SearchRequest(query="liver", user_feedback="only humans"), Budget(), 30.0
    )
    reasons = {step.step: step.why for step in translation.bypassed}
    assert reasons[MODEL] == "no key in the environment"
    assert "model" in reasons["user_feedback"]
    assert not translation.failures


async def ran(answer: Callable[[Request], Reply], context: Any = None, chat: Any = None, **fields: Any) -> tuple[dict[str, Any], int]:
    """The node's update, and the number of requests to the server."""

    class Runtime:
        pass

    Runtime.context = context  # type: ignore[attr-defined]
    with ChatServer(answer) as server:
        node = translator(chat_over(server, **chat or {}), **fields)
        update = dict(await node(PipelineState(query="liver injury", started_at=NOON), Runtime()))  # type: ignore[arg-type]
        return update, len(server.requests)


async def test_the_node_writes_what_the_model_cost() -> None:
    update, calls = await ran(lambda _: Reply(IMAGING, usage=(1_000, 100)))
    assert (update["usage"].calls, update["usage"].by_node["translator"].input_tokens, calls) == (1, 1_000, 1)
    assert update["usage"].cost_usd == pytest.approx(0.002)


@pytest.mark.parametrize("field", ["max_calls", "max_cost_usd"])
async def test_a_bound_of_0_calls_no_model(field: str) -> None:
    for bound in ({"context": RunContext.model_validate({field: 0})}, {"llm": LlmSettings.model_validate({field: 0})}):
        update, calls = await ran(lambda _: Reply(IMAGING), **bound)
        assert calls == 0
        assert [(failure.node, failure.error) for failure in update["failures"]] == [(MODEL, "BudgetSpent")]
        assert f"llm.{field}" in update["failures"][0].message
        assert update["strategy"].made_by == "rules"


@pytest.mark.parametrize(
    ("configured", "of_the_run", "prices", "calls"),
    [
        (None, None, {"scripted": "1/10"}, 1),
        (0.0, None, {"scripted": "1/10"}, 0),
        (1.0, 0.0, {"scripted": "1/10"}, 0),
        (0.0, 1.0, {"scripted": "1/10"}, 1),
        (0.0, 0.0, {"scripted": "0/0"}, 1),
        (None, None, {}, 1),
        (None, 0.0, {}, 0),
        (None, 1.0, {}, 0),
    ],
)
async def test_no_bound_on_cost_is_none_and_under_one_a_model_needs_a_price(
    configured: float | None, of_the_run: float | None, prices: dict[str, str], calls: int
) -> None:
    """The run's bound overrides the settings; a price of 0 is within any bound."""
    context, llm = RunContext(max_cost_usd=of_the_run), LlmSettings(max_cost_usd=configured)
    assert (await ran(lambda _: Reply(IMAGING), context, {"prices": prices}, llm=llm))[1] == calls


async def test_a_slow_model_leaves_half_of_the_time_to_the_search() -> None:
    update, _ = await ran(lambda _: Reply(IMAGING, delay_s=30.0), run=RunSettings(run_timeout_s=0.4))
    (failure,) = update["failures"]
    assert (failure.node, failure.error) == (MODEL, "TimeoutError")
    assert "within the 0.2 s" in failure.message
    assert update["strategy"].queries


@pytest.mark.parametrize("part", ["snapshot", "related_terms"])
async def test_a_slow_library_hides_no_call_and_leaves_time_to_the_search(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    async def late(*_: Any) -> Any:
        await asyncio.sleep(600)

    monkeypatch.setattr(Shelf, part, late)
    update, calls = await ran(lambda _: Reply({**IMAGING, "expanded_keywords": []}), run=RunSettings(run_timeout_s=12.0))
    assert (update["usage"].calls, calls, update["strategy"].made_by) == (1, 1, "model")
    assert [(step.step, step.why) for step in update["bypassed"]] == [
        ("rest of the expansion", "the library did not answer within the 3 s that it may take of this run")
    ]
    assert not update["failures"]
