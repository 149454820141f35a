from __future__ import annotations

from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph

from outrider.graph.guard import Guard
from outrider.nodes.translator.rule_plan import make_word_set
from outrider.nodes.translator.translator import Translator
from outrider.settings.model import RunSettings, StarsSettings
from outrider.state.chat import Chat
from outrider.state.pipeline import PipelineState, RunContext
from outrider.state.request import SearchRequest
from support.chat_client import chat_over
from support.chat_server import ChatServer, Reply
from support.fakes import NOON, Shelf, paper


def graph(chat: Chat | None = None) -> Any:
    builder = StateGraph(PipelineState, context_schema=RunContext, input_schema=SearchRequest)
    node = Translator(Shelf([paper("a")]), ("library",), StarsSettings(), lambda: NOON, chat)
    builder.add_node("translator", Guard(lambda: NOON, RunSettings())("translator", node, first=True), input_schema=PipelineState)
    builder.add_edge(START, "translator")
    builder.add_edge("translator", END)
    return builder.compile(checkpointer=InMemorySaver())


def test_each_round_on_a_thread_searches_something_new_and_remembers_all_before() -> None:
    compiled, previous = graph(), set()
    for number in range(5):
        search_request = dict(SearchRequest(query="aspirin and hepatic injury", user_feedback=f"round {number}"))
        strategy = compiled.invoke(search_request, {"configurable": {"thread_id": "one"}})["strategy"]
        mark = make_word_set(strategy.queries[0].text)
        assert mark not in previous
        previous.add(mark)
        assert [one.user_feedback for one in strategy.earlier] == [f"round {before}" for before in range(number)]


def test_another_thread_remembers_nothing() -> None:
    compiled = graph()
    for thread in ("one", "two"):
        strategy = compiled.invoke(dict(SearchRequest(query="liver")), {"configurable": {"thread_id": thread}})["strategy"]
        assert (strategy.queries[0].text, strategy.earlier) == ("liver", ())


PLAN = {
    "queries": [
        {"text": "aspirin liver injury", "synonyms": ["salicylate"], "boolean_query": "aspirin AND liver AND injury"},
        {"text": "drug hepatotoxicity", "boolean_query": "drug AND hepatotoxicity"},
    ],
    "expanded_keywords": ["enzyme", "dose"],
}


def test_what_a_thread_remembers_reaches_the_model_and_its_queries_differ() -> None:
    """Also those of a model that answers the same in every round; a separate thread remembers nothing."""
    search_request = dict(SearchRequest(query="does aspirin harm the liver"))
    with ChatServer(lambda _: Reply(PLAN)) as server:
        compiled = graph(chat_over(server, timeout_s=60.0))
        rounds = [
            compiled.invoke({**search_request, "user_feedback": feedback}, {"configurable": {"thread_id": "one"}})["strategy"]
            for feedback in ("", "only in children", "no reviews")
        ]
        compiled.invoke(search_request, {"configurable": {"thread_id": "two"}})
        first, second, third, other = [request.data for request in server.requests]
    assert [strategy.made_by for strategy in rounds] == ["model"] * 3
    for strategy, remembered in zip(rounds, second["earlier_rounds"] + third["earlier_rounds"][1:], strict=False):
        assert remembered["queries"] == [{"text": query.text, "boolean_query": query.boolean_query} for query in strategy.queries]
    assert (len(second["earlier_rounds"]), len(third["earlier_rounds"])) == (1, 2)
    assert third["earlier_rounds"][1]["user_feedback"] == second["user_feedback"] == "only in children"
    assert not {"earlier_rounds", "user_feedback"} & (first.keys() | other.keys())
    for mark in ("text", "boolean_query"):
        query_words = [frozenset(getattr(query, mark).lower().replace('"', "").split()) for one in rounds for query in one.queries]
        assert len(set(query_words)) == len(query_words) >= 5
