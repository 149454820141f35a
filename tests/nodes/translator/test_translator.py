from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.nodes.translator.rule_plan import EXPANSION, parse_intent, plan_by_rules
from outrider.nodes.translator.translator import Translator
from outrider.settings.model import StarsSettings
from outrider.state.errors import NothingSearchable
from outrider.state.pipeline import PipelineState
from outrider.state.request import RetrieverType, SearchMode, SearchRequest
from support.fakes import NOON, Shelf

STARS = StarsSettings()


async def translated(**request: object) -> dict[str, object]:
    node = Translator(Shelf(), ("library",), STARS, lambda: NOON)
    return dict(await node(PipelineState.model_validate(request), None))  # type: ignore[arg-type]


@pytest.mark.parametrize(("mode", "count"), [("focused", 0), ("balanced", 3), ("exploratory", 8)])
async def test_the_search_mode_changes_only_the_expansion(mode: str, count: int) -> None:
    plain = (await translated(query="popular liver test", search_mode="focused"))["strategy"]
    widened = (await translated(query="popular liver test", search_mode=mode))["strategy"]
    assert len(widened.expanded_keywords) == count
    same = {"expanded_keywords", "search_mode"}
    assert widened.model_dump(exclude=same) == plain.model_dump(exclude=same)


def test_concepts_are_joined_with_and() -> None:
    intent, rest = parse_intent("aspirin and hepatic injury since 2019", STARS, 2026)
    strategy = plan_by_rules(SearchRequest(query="x"), intent, rest, ("library",), ())
    assert strategy.queries[0].boolean_query == 'aspirin AND "hepatic injury"'
    assert strategy.constraints.years.min == 2019


@pytest.mark.parametrize(
    ("query", "kind"),
    [("a survey of parsing", "survey"), ("dataset of birds", "dataset"), ("python http library", "library"), ("cats", "general")],
)
def test_the_type_of_the_request(query: str, kind: str) -> None:
    assert parse_intent(query, STARS, 2026)[0].intent_type == kind


def test_control_characters_are_no_words() -> None:
    assert parse_intent("li\x00ver\x1b[31m \u202e injury", STARS, 2026)[1] == "li ver [31m injury"


def test_a_year_alone_is_a_search() -> None:
    assert parse_intent("in 2022", STARS, 2026)[1] == "in 2022"


def test_a_source_that_is_switched_off_is_reported() -> None:
    intent, rest = parse_intent("liver", STARS, 2026)
    with pytest.raises(NothingSearchable, match="with --offline"):
        plan_by_rules(SearchRequest(query="liver", sources=("github",)), intent, rest, ("library",), ())


def test_all_strategies_are_planned_unless_some_are_named() -> None:
    intent, rest = parse_intent("liver", STARS, 2026)
    assert plan_by_rules(SearchRequest(query="liver"), intent, rest, ("library",), ()).strategies == tuple(RetrieverType)
    request = SearchRequest(query="liver", strategies=("dense",))
    assert plan_by_rules(request, intent, rest, ("library",), ()).strategies == (RetrieverType.LANCE_DENSE,)


@given(st.text(min_size=1, max_size=200), st.sampled_from(SearchMode))
def test_the_same_request_gives_the_same_plan(query: str, mode: SearchMode) -> None:
    """Deterministic, never without a query, sources within those configured."""

    def once() -> object:
        intent, rest = parse_intent(query, STARS, 2026)
        return intent, plan_by_rules(SearchRequest(query="x", search_mode=mode), intent, rest, ("library",), ("w",) * EXPANSION[mode])

    assert once() == once()
    strategy = once()[1]  # type: ignore[index]
    assert len(strategy.queries) == 1
    assert strategy.sources == ("library",)


async def test_a_query_that_is_cut_is_reported() -> None:
    long = await translated(query=" ".join(f"w{number}" for number in range(1_100)))
    assert "rest of the query" in {step.step for step in long["bypassed"]}
    short = await translated(query="liver")
    assert "rest of the query" not in {step.step for step in short["bypassed"]}


def test_the_words_of_the_asking_are_no_keywords() -> None:
    intent, rest = parse_intent("find me a popular C++ parser, or one for .NET", STARS, 2026)
    (query,) = plan_by_rules(SearchRequest(query="x"), intent, rest, ("library",), ()).queries
    assert query.keywords == ("popular", "C++", "parser", ".NET")
