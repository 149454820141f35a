"""A planted change of a prompt, a weight, a setting or an answer is named at the right node."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import outrider
from outrider import prompts
from outrider.nodes.fine_scorer import dimensions
from outrider.recorder.compare import RunComparison
from outrider.settings.model import RankingSettings
from support import fake_services
from support.chat_server import Reply
from support.chat_server import Request as Question
from support.http_server import Answer, Request
from support.recorded_worlds import SearchWorld, answer_as_model, record_analysis, record_search


async def replay(file: Path, other: Path | None = None) -> RunComparison:
    return await asyncio.to_thread(outrider.replay_recording, file, other)


@pytest.fixture
def change_prompt(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Changes the text of one prompt of the package for this test."""

    def change(name: str, old: str, new: str) -> None:
        load = prompts.load.__wrapped__

        def changed(wanted: str, placeholders: frozenset[str]) -> prompts.Prompt:
            prompt = load(wanted, placeholders)
            assert wanted != name or old in prompt.text
            return replace(prompt, text=prompt.text.replace(old, new)) if wanted == name else prompt

        for module in ("outrider.services", "outrider.nodes.translator.model_plan", "outrider.nodes.fine_scorer.fine_scorer"):
            monkeypatch.setattr(f"{module}.load", changed)

    return change


async def test_a_changed_prompt_is_named_at_its_node(tmp_path: Path, change_prompt: Any) -> None:
    file = tmp_path / "run.zip"
    await record_search(file)
    change_prompt("score_papers", "the", "THE")
    result = await replay(file)
    assert not result.same
    assert result.first_node == "fine_scorer"
    assert {("prompt", "score_papers"), ("question", "chat.answer.request.system")} <= {(one.part, one.name) for one in result.differences}
    asked = next(one for one in result.differences if one.part == "question")
    assert "THE" in asked.now
    assert "THE" not in asked.before
    assert all(same for node, same in result.nodes if node != "fine_scorer")


async def test_a_changed_weight_is_named_at_its_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stars weigh more for maturity: a replay of an old recording by a version with another one differs where that is used."""
    file = tmp_path / "run.zip"
    await record_analysis(file)
    assert (await replay(file)).same
    monkeypatch.setitem(dimensions.PARTS["maturity"], "stars", dimensions._log_scale(100))  # type: ignore[index]
    result = await replay(file)
    assert not result.same
    assert result.first_node == "ratings"
    assert any(one.node == "ratings" and one.part == "update" and "score" in one.name for one in result.differences)
    assert {node for node, same in result.nodes if same} >= {"subject", "surroundings"}


async def test_a_changed_answer_of_a_source_is_named_at_its_node(tmp_path: Path) -> None:
    def handler(request: Request) -> Answer:
        answer = whole(request)
        if request.path.startswith("/arxiv"):
            return replace(answer, body=answer.body.replace(b"Liver injury by drugs, arxiv 3", b"Liver injury by other drugs"))
        return answer

    whole = fake_services.make_handler()
    with SearchWorld() as world:
        one, other = tmp_path / "one.zip", tmp_path / "other.zip"
        await world.record(one)
        world.handler = handler
        await world.record(other)
    result = await replay(one, other)
    assert not result.same
    assert result.first_node == "scout"
    assert result.nodes[0] == ("translator", True)
    answers = [difference for difference in result.differences if difference.node == "scout" and difference.part == "answer"]
    assert {difference.name.partition(".")[0] for difference in answers} == {"source arxiv"}
    assert any("by drugs, arxiv 3" in difference.before and "by other drugs" in difference.now for difference in answers)


async def test_a_changed_answer_of_the_model_is_named_at_its_node(tmp_path: Path) -> None:
    def answer(question: Question) -> Reply:
        reply = answer_as_model(question)
        if "papers" in question.data:
            reply.content["results"][0]["relevance_score"] = 0.31
        return reply

    with SearchWorld() as world:
        one, other = tmp_path / "one.zip", tmp_path / "other.zip"
        await world.record(one)
        world.answer = answer
        await world.record(other)
    result = await replay(one, other)
    assert result.first_node == "fine_scorer"
    assert {difference.part for difference in result.differences if difference.node == "fine_scorer"} == {"answer", "update"}


async def test_a_changed_setting_is_named(tmp_path: Path) -> None:
    with SearchWorld() as world:
        one, other = tmp_path / "one.zip", tmp_path / "other.zip"
        await world.record(one)
        await world.record(other, changes={"ranking": RankingSettings(fusion="rrf", rrf_k=10)})
    result = await replay(one, other)
    settings = {difference.name: (difference.before, difference.now) for difference in result.differences if difference.part == "settings"}
    assert settings["ranking.rrf_k"] == ("60", "10")
    assert result.first_node == "scout"


async def test_two_recordings_of_one_run_do_not_differ(tmp_path: Path) -> None:
    """But for times. Of repositories the age counts, so that equal ones change places with the time of day."""
    with SearchWorld() as world:
        one, other = tmp_path / "one.zip", tmp_path / "other.zip"
        for file in (one, other):
            await world.record(file, request={"sources": ["library", "arxiv", "pubmed", "openalex"]})
    result = await replay(one, other)
    assert [difference.describe() for difference in result.differences] == []
    assert result.first_node == ""
