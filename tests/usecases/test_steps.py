"""`translate`, `score` and `organize` without the graph, with a model behind a scripted server and without one."""

from __future__ import annotations

import pytest

import outrider
from outrider.services import Services
from outrider.settings.model import Settings
from outrider.state.errors import BadRequest, KeyRejected
from support.chat_client import chat_over
from support.chat_server import Asked, ChatServer, Reply
from support.fakes import NOON, paper
from support.scorer_over_server import by_title

RECORDS = [paper(f"w{at}", f"liver {at} {score}", abstract="Liver.") for at, score in enumerate((0.2, 0.9, 0.5))]


def services(server: ChatServer | None = None) -> Services:
    return Services(Settings(), clock=lambda: NOON, chat=chat_over(server) if server else None)


async def test_translate_plans_without_searching() -> None:
    plan = {"topic": "liver", "concepts": ["liver", "aspirin"], "queries": [{"text": "aspirin liver"}, {"text": "aspirin hepatotoxicity"}]}
    with ChatServer(lambda _: Reply(plan)) as server:
        made = await outrider.translate("does aspirin harm the liver, since 2020", services=services(server), search_mode="focused")
    assert [query.text for query in made.strategy.queries] == ["aspirin liver", "aspirin hepatotoxicity"]
    assert (made.strategy.made_by, made.strategy.constraints.years.min, made.failures) == ("model", 2020, ())
    assert (made.usage.calls, made.usage.by_node["translator"].input_tokens) == (1, 100)
    by_rules = await outrider.translate("does aspirin harm the liver", services=services())
    assert (by_rules.strategy.made_by, by_rules.usage.calls) == ("rules", 0)
    with pytest.raises(BadRequest):
        await outrider.translate("?", services=services())


async def test_score_and_organize_records_of_ones_own() -> None:
    with ChatServer(by_title) as server:
        made = await outrider.score("liver", RECORDS, services=services(server))
    assert [(one.record.doc_id, one.score, one.scored_by) for one in made.candidates] == [
        ("w1", 0.9, "model"),
        ("w2", 0.5, "model"),
        ("w0", 0.2, "model"),
    ]
    assert made.scoring is not None
    assert (made.scoring.read, made.scoring.of) == (3, 3)
    assert (made.usage.calls, made.usage.by_node["fine_scorer"].output_tokens, made.bypassed) == (1, 20, ())
    answer = await outrider.organize(made.candidates, top_k=1, services=services())
    assert [hit.doc_id for hit in answer.hits] == ["w1"]
    assert answer.total_found == 2
    everything = await outrider.organize(made.candidates, threshold=0.0, services=services())
    assert [hit.rank for hit in everything.hits] == [1, 2, 3]


async def test_without_a_model_rules_score() -> None:
    made = await outrider.score("liver 5", RECORDS, services=services())
    assert made.candidates[0].record.doc_id == "w2"
    assert {one.scored_by for one in made.candidates} == {"rules"}
    assert (made.scoring, made.failures, made.usage.calls) == (None, (), 0)
    assert [(one.step, one.why) for one in made.bypassed] == [("fine_scorer", services().chat_says)]
    assert (await outrider.score("liver", [], services=services())).candidates == ()


async def test_a_model_that_fails_leaves_the_rules_and_says_so() -> None:
    with ChatServer(lambda _: Reply("down", status=500)) as server:
        made = await outrider.score("liver 2", RECORDS, services=services(server))
    assert made.candidates[0].scored_by == "rules"
    assert [failure.node for failure in made.failures] == ["fine_scorer"]
    assert (made.scoring, made.usage.calls) == (None, len(server.requests))


async def test_a_rejected_key_is_raised() -> None:
    def rejected(_: Asked) -> Reply:
        return Reply("no such key", status=401)

    with ChatServer(rejected) as server, pytest.raises(KeyRejected):
        await outrider.score("liver", RECORDS, services=services(server))
    with ChatServer(rejected) as server, pytest.raises(KeyRejected):
        await outrider.translate("liver", services=services(server))
