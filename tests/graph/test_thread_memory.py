from __future__ import annotations

from typing import Any

from fakes import NOON, Shelf, paper
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph

from outrider.graph.guard import Guard
from outrider.nodes.iteration import word_set
from outrider.nodes.translator import Translator
from outrider.settings.model import StarsSettings
from outrider.state.pipeline import PipelineState, RunContext
from outrider.state.request import SearchRequest


def graph() -> Any:
    made = StateGraph(PipelineState, context_schema=RunContext, input_schema=SearchRequest)
    node = Translator(Shelf([paper("a")]), ("library",), StarsSettings(), lambda: NOON)
    made.add_node("translator", Guard(lambda: NOON, 25.0)("translator", node, first=True), input_schema=PipelineState)
    made.add_edge(START, "translator")
    made.add_edge("translator", END)
    return made.compile(checkpointer=InMemorySaver())


def test_each_round_on_a_thread_searches_something_new_and_remembers_all_before() -> None:
    compiled, seen = graph(), set()
    for number in range(5):
        asked = dict(SearchRequest(query="aspirin and hepatic injury", user_feedback=f"round {number}"))
        strategy = compiled.invoke(asked, {"configurable": {"thread_id": "one"}})["strategy"]
        mark = word_set(strategy.queries[0].text)
        assert mark not in seen
        seen.add(mark)
        assert [one.user_feedback for one in strategy.earlier] == [f"round {before}" for before in range(number)]


def test_another_thread_remembers_nothing() -> None:
    compiled = graph()
    for thread in ("one", "two"):
        strategy = compiled.invoke(dict(SearchRequest(query="liver")), {"configurable": {"thread_id": thread}})["strategy"]
        assert (strategy.queries[0].text, strategy.earlier) == ("liver", ())
