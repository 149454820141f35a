"""Recorded runs replay byte for byte: every kind, time limits, the order of arrival, failures, threads."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import outrider
from outrider.recorder.recording import Recording, read_recording
from outrider.settings.model import LlmSettings
from outrider.usecases.replay_recording import run_again
from support import fake_services
from support.chat_client import llm_settings
from support.chat_server import Reply
from support.chat_server import Request as Question
from support.fakes import Shelf
from support.http_server import Answer, Request, refusal
from support.recorded_worlds import (
    QUERY,
    SHELVED,
    SearchWorld,
    answer_as_model,
    hash_response,
    record_analysis,
    record_candidates,
    record_citations,
    record_library_search,
    record_search,
    record_systematic,
    record_systematic_search,
)

KINDS: dict[str, Callable[[Path], Awaitable[Any]]] = {
    "search": record_search,
    "analysis of a repository": record_analysis,
    "analysis of a paper": lambda file: record_analysis(file, "10.1000/livers"),
    "citations": record_citations,
    "candidates": record_candidates,
    "systematic": record_systematic,
    "systematic search": record_systematic_search,
}


async def replay(file: Path) -> Any:
    return await asyncio.to_thread(outrider.replay_recording, file)


@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_of_run_replays_byte_for_byte(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "run.zip"
    response = await KINDS[kind](file)
    result = await replay(file)
    assert result.differences == ()
    assert result.same
    assert result.sha256_before == result.sha256_now == hash_response(response)
    assert result.remarks == ()
    assert result.lacks == ()
    assert all(same for _, same in result.nodes)
    assert result.nodes


async def test_a_search_with_a_model_has_hits_that_the_model_scored(tmp_path: Path) -> None:
    """Otherwise the test above would compare nothing."""
    response = await record_search(tmp_path / "run.zip")
    assert {hit.scored_by for hit in response.hits} == {"model"}
    assert response.usage.cost_usd
    assert response.context.units
    assert len({row.source for row in response.sources if row.returned}) > 5


async def test_vectors_and_reranker_stand_behind_their_answers(tmp_path: Path) -> None:
    """The lists of a library by words and by vectors, their comparison after the fusion, and the scores of a reranker."""
    file = tmp_path / "run.zip"
    response = await record_library_search(file)
    assert {"lance_dense", "lance_fts"} <= {row.strategy for row in response.sources if row.returned}
    calls = {f"{call.port}.{call.method}" for call in read_recording(file).index.calls}
    assert {"source library/Comparison.__call__", "reranker/Reranker.scores", "distillers/TextDistiller.distil"} <= calls
    result = await replay(file)
    assert result.same, result.differences
    assert result.sha256_now == hash_response(response)


@dataclass
class SlowShelf(Shelf):
    timeout_s: float = 0.3


async def test_a_source_beyond_its_time_is_so_in_the_replay(tmp_path: Path) -> None:
    file = tmp_path / "run.zip"
    response = await record_search(file, shelf=SlowShelf(list(SHELVED), delay_s=60.0))
    assert [row.status for row in response.sources if row.source == "library"] == ["timeout"]
    began = time.monotonic()
    result = await replay(file)
    assert result.same, result.differences
    assert time.monotonic() - began < 20  # in virtual time


async def test_a_model_beyond_its_time_is_so_in_the_replay(tmp_path: Path) -> None:
    def answer(question: Question) -> Reply:
        return replace(answer_as_model(question), delay_s=30.0 if isinstance(question.data.get("request"), str) else 0.0)

    file = tmp_path / "run.zip"
    response = await record_search(file, answer=answer, limits={"run_timeout_s": 4})
    assert [failure.error for failure in response.failures][:1] == ["TimeoutError"]
    assert (await replay(file)).same


async def test_failures_of_services_and_model_replay(tmp_path: Path) -> None:
    counts = itertools.count()

    def answer(question: Question) -> Reply:
        return Reply("not JSON at all") if "papers" in question.data and next(counts) % 2 else answer_as_model(question)

    def handler(request: Request) -> Answer:
        name = request.path.split("/")[1]
        return (
            refusal({"openalex": 429, "crossref": 401, "arxiv": 500}[name]) if name in ("openalex", "crossref", "arxiv") else whole(request)
        )

    whole = fake_services.make_handler()
    file = tmp_path / "run.zip"
    response = await record_search(file, answer=answer, handler=handler, changes={})
    assert {"rate_limited", "unauthorized", "unavailable"} <= {row.status for row in response.sources}
    assert (await replay(file)).same


async def test_the_order_of_arrival_is_recorded(tmp_path: Path) -> None:
    """Answers that came in another order than they were asked for come in that order again."""

    def handler(request: Request) -> Answer:
        late = {"github": 0.4, "pubmed": 0.05, "arxiv": 0.3, "crossref": 0.2}
        return replace(whole(request), after_s=late.get(request.path.split("/")[1], 0.0))

    whole = fake_services.make_handler()
    file = tmp_path / "run.zip"
    await record_search(file, handler=handler)
    recording = read_recording(file)
    calls = [call for call in recording.index.calls if call.node == "scout" and call.method == "search"]
    by_end = [call.port for call in sorted(calls, key=lambda call: call.ended)]
    assert by_end != [call.port for call in sorted(calls, key=lambda call: call.began)]
    assert (await replay(file)).same


async def test_a_budget_ends_the_same_calls(tmp_path: Path) -> None:
    file = tmp_path / "run.zip"
    response = await record_search(file, limits={"run_timeout_s": 300, "max_calls": 2})
    assert response.usage.calls == 2
    assert any(failure.error == "BudgetSpent" for failure in response.failures)
    assert (await replay(file)).same


async def test_ten_replays_are_one(tmp_path: Path) -> None:
    file = tmp_path / "run.zip"
    await record_search(file)
    recording = read_recording(file)
    hashes = {(await asyncio.to_thread(run_again, recording)).sha256 for _ in range(10)}
    assert hashes == {recording.index.response_sha256}


async def test_what_was_not_recorded_is_named_and_never_asked(tmp_path: Path) -> None:
    file = tmp_path / "run.zip"
    await record_search(file)
    recording = read_recording(file)
    lost = next(call for call in recording.index.calls if call.port == "source pubmed")
    calls = tuple(call for call in recording.index.calls if call is not lost)
    shorter = Recording(recording.index.model_copy(update={"calls": calls}), recording.blobs, str(file))
    again = await asyncio.to_thread(run_again, shorter)
    assert "scout asks source pubmed.search for something that the recording does not hold" in again.problem
    assert again.response == b""


async def test_a_replay_makes_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its packages may not be installed where a recording is replayed."""
    file = tmp_path / "run.zip"
    await record_search(file)

    def make_chat(settings: LlmSettings, *, offline: bool) -> tuple[None, str]:
        assert settings.model == "none"
        return None, "there is none"

    monkeypatch.setattr("outrider.services.make_chat", make_chat)
    assert (await replay(file)).same


async def test_the_public_function_gives_the_response(tmp_path: Path) -> None:
    file = tmp_path / "run.zip"
    response = await record_search(file)
    result = await replay(file)
    assert result.response["query"] == QUERY
    assert [hit["doc_id"] for hit in result.response["hits"]] == [hit.doc_id for hit in response.hits]


async def test_a_domain_of_ones_own_is_read_from_the_recording(tmp_path: Path) -> None:
    """On another machine the file is missing, or another one."""
    domain = tmp_path / "rivers.md"
    domain.write_text("Otters live in rivers.")
    with SearchWorld() as world:
        await world.record(tmp_path / "run.zip", changes={"llm": llm_settings(world.chat, timeout_s=60.0, domain=str(domain))})
    domain.write_text("Something else.")
    assert (await asyncio.to_thread(outrider.replay_recording, tmp_path / "run.zip")).same
    domain.unlink()
    assert (await asyncio.to_thread(outrider.replay_recording, tmp_path / "run.zip")).same
