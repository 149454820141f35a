"""Runs that record what they took, and plans that ask nobody."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

import outrider
from outrider.graph.pipeline import build
from outrider.planner.run_history import RunHistory
from outrider.planner.run_row import RunRow
from outrider.services import Services
from outrider.services.planner import THREAD, Planner
from outrider.settings.model import LibrarySettings, LlmSettings, PlannerSettings, RecorderSettings, Settings, SystematicSettings
from outrider.settings.sections import CacheSettings
from outrider.sources.http.cache import flush_cache
from outrider.state.errors import BadRequest, NothingSearchable
from support import fake_services
from support.chat_client import llm_settings
from support.chat_server import ChatServer, Reply
from support.fakes import OFFLINE, Shelf
from support.http_server import serving


def make_settings(folder: Path, base: Settings | None = None, **sections: Any) -> Settings:
    own = {"planner": PlannerSettings(file=str(folder / "runs.sqlite")), "llm": LlmSettings(model="none"), **sections}
    return (base or Settings()).model_copy(update=own)


def offline(folder: Path, shelved: Path, **sections: Any) -> Settings:
    settings = make_settings(folder, library=LibrarySettings(uri=str(shelved)), **sections)
    return settings.model_copy(update={"sources": settings.sources.model_copy(update={"offline": True})})


@pytest.fixture
def services(shelved: Path, tmp_path: Path) -> Iterator[Services]:
    made = Services(offline(tmp_path, shelved, systematic=SystematicSettings(folder=str(tmp_path / "runs"))))
    yield made
    made.close()


async def wait_for_record() -> None:
    """Until every run that ended is recorded."""
    for thread in [thread for thread in threading.enumerate() if thread.name == THREAD]:
        await asyncio.to_thread(thread.join)


async def read_rows(services: Services) -> list[RunRow]:
    """What is recorded, with predictions."""
    await wait_for_record()
    assert services.planner is not None
    return list(await asyncio.to_thread(services.planner.read))


async def test_a_search_records_what_it_took_and_what_was_predicted_but_no_text(services: Services, tmp_path: Path) -> None:
    first = await outrider.asearch("aspirin liver", services=services)
    await outrider.asearch("aspirin liver", services=services)
    rows = await read_rows(services)
    assert len(rows) == 2
    assert rows[0].outcome["hits:library"] == sum(row.returned for row in first.sources)
    assert rows[0].outcome["seconds"] >= first.execution_time_ms / 1000
    assert (rows[0].outcome["calls"], rows[0].outcome["cost_usd"]) == (0, 0)
    assert set(rows[0].predicted) == {"seconds", "hits:library"}
    assert [row.features["cold"] for row in rows] == [1, 0]
    assert [row.features["repeated"] for row in rows] == [0, 1]
    assert rows[0].features["records"] == 4
    content = (tmp_path / "runs.sqlite").read_bytes().lower()
    assert b"aspirin" not in content
    assert b"liver" not in content


async def test_a_prediction_uses_no_run_that_ended_later(services: Services) -> None:
    await asyncio.gather(*(outrider.asearch(text, services=services) for text in ("aspirin", "statins")))
    for row in await read_rows(services):
        assert row.features["last_hour"] == 0, "neither had ended when the other began"


async def test_predictions_made_together_by_a_plan_are_those_made_after_each_search(services: Services, tmp_path: Path) -> None:
    planner = services.planner
    assert planner is not None
    by_one = Planner(services.settings.model_copy(update={"planner": PlannerSettings(file=str(tmp_path / "by-one.sqlite"))}))
    for text in ("aspirin", "statins", "aspirin"):
        await outrider.asearch(text, services=services)
        await wait_for_record()
        rows = await asyncio.to_thread(planner.history.read)
        assert not any(row.predicted for row in rows), "a search predicts nothing"
        await asyncio.to_thread(by_one.history.add, rows[-1])
        await asyncio.to_thread(by_one.read)
    await outrider.aplan_search("aspirin", services=services)
    kept, expected = [await asyncio.to_thread(RunHistory(one.history.path, 500).read) for one in (planner, by_one)]
    assert [row.predicted.keys() for row in kept] == [{"seconds", "hits:library"}] * 3
    assert kept == expected


async def test_predictions_that_cannot_be_kept_cost_a_plan_nothing(
    services: Services, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await outrider.asearch("aspirin", services=services)
    await wait_for_record()
    monkeypatch.setattr("outrider.planner.run_history.UPDATE", "UPDATE nothing")
    planned = await outrider.aplan_search("aspirin", services=services)
    assert planned.runs == 1
    assert "cannot be kept" in caplog.text


async def test_switched_off_nothing_is_recorded_and_a_plan_says_so(shelved: Path, tmp_path: Path) -> None:
    services = Services(offline(tmp_path, shelved, planner=PlannerSettings(enabled=False, file=str(tmp_path / "runs.sqlite"))))
    await outrider.asearch("aspirin", services=services)
    planned = await outrider.aplan_search("aspirin", services=services)
    services.close()
    assert not (tmp_path / "runs.sqlite").exists()
    assert any("planner.enabled" in lack.why for lack in planned.unknown)
    assert planned.find("seconds") is not None


async def test_a_damaged_record_costs_a_search_nothing_and_a_plan_its_history(
    services: Services, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "runs.sqlite").write_text("not a database\n" * 500)
    answer = await outrider.asearch("aspirin", services=services)
    assert answer.hits
    await asyncio.gather(*(asyncio.to_thread(one.join) for one in threading.enumerate() if one.name == THREAD))
    planned = await outrider.aplan_search("aspirin", services=services)
    assert planned.runs == 0
    assert "will not improve later plans" in caplog.text
    assert "priors stand in" in caplog.text
    planner = services.planner
    assert isinstance(planner, Planner)
    with pytest.raises(outrider.SearchError, match="delete the file"):
        await asyncio.to_thread(planner.clear)


async def test_calls_to_services_and_models_are_counted_by_name(tmp_path: Path) -> None:
    with serving(fake_services.make_handler()) as server, ChatServer(lambda request: Reply({}, status=500)) as chat:
        base = fake_services.settings(server.base_url, tmp_path / "cache")
        llm = LlmSettings(model="gpt-6-luna", base_url=chat.base_url, api_key=SecretStr("key"), timeout_s=2.0)
        services = Services(make_settings(tmp_path, base, llm=llm, library=LibrarySettings(uri=str(tmp_path / "library"))))
        answer = await outrider.asearch("liver injury", services=services, sources=["openalex", "pubmed", "crossref"])
        (row,) = await read_rows(services)
        sent = [request.path.split("/")[1] for request in server.requests]
        services.close()
    assert row.outcome["calls:openalex"] == sent.count("openalex")
    assert row.outcome["calls:pubmed"] == sent.count("pubmed") > 1
    assert row.outcome["calls:model"] == answer.usage.calls > 0
    assert row.outcome["calls"] == len(sent) + answer.usage.calls
    assert {name for name in row.predicted if name.startswith("hits:")} == {"hits:openalex", "hits:pubmed", "hits:crossref"}


async def test_a_plan_asks_no_service_and_no_model(tmp_path: Path) -> None:
    with serving(fake_services.make_handler()) as server, ChatServer(lambda request: Reply({})) as chat:
        base = fake_services.settings(server.base_url, tmp_path / "cache")
        llm = LlmSettings(model="served", base_url=chat.base_url, api_key=SecretStr("key"))
        services = Services(make_settings(tmp_path, base, llm=llm, library=LibrarySettings(uri=str(tmp_path / "library"))))
        planned = await outrider.aplan_search("liver injury", services=services, top_k=20)
        services.close()
        assert (server.requests, chat.requests, chat.listings) == ([], [], [])
    assert planned.strategy is not None
    assert planned.strategy.made_by == "rules"
    calls = planned.find("calls", "model")
    assert calls is not None
    assert calls.low < calls.expected < calls.high
    assert calls.basis == "prior: no run yet"
    assert planned.find("cost_usd") is None
    assert any("price" in lack.why for lack in planned.unknown if lack.quantity == "cost_usd")
    assert not (tmp_path / "runs.sqlite").exists(), "a plan writes nothing"


async def test_a_cached_plan_of_the_model_is_used_and_not_paid_again(tmp_path: Path) -> None:
    plan = {"queries": [{"text": "hepatic injury"}], "expanded_keywords": ["enzyme", "dose"]}
    with ChatServer(lambda request: Reply(plan)) as chat:
        settings = Settings(llm=llm_settings(chat), cache=CacheSettings(folder=str(tmp_path)), sources=OFFLINE)
        services = Services(settings, shelf=Shelf())
        translated = await outrider.translate("liver injury", services=services)
        await asyncio.to_thread(flush_cache)
        planned = await outrider.aplan_search("liver injury", services=services)
        assert len(chat.requests) == 1
    assert planned.strategy is not None
    assert (planned.strategy.made_by, planned.strategy.queries) == ("model", translated.strategy.queries)


async def test_what_is_known_is_exact(services: Services) -> None:
    planned = await outrider.aplan_search("aspirin", services=services)
    for quantity in ("calls", "cost_usd"):
        known = planned.find(quantity)
        assert known is not None
        assert (known.low, known.expected, known.high, known.exact) == (0, 0, 0, True)
    exact = await outrider.aplan_search("aspirin[tiab] OR statins[ti]", services=services, mode="systematic")
    hits, recall = exact.find("hits", "library"), exact.find("recall")
    assert hits is not None
    assert (hits.expected, hits.exact) == (2, True)
    assert recall is not None
    assert recall.expected == 1


async def test_a_systematic_run_is_recorded_once_however_it_is_begun(services: Services) -> None:
    async with aclosing(outrider.asystematic("aspirin[tiab]", services=services)) as hits:
        assert [hit.doc_id async for hit in hits] == ["a"]
    await build(services).ainvoke({"query": "statins[ti]", "mode": "systematic"})
    rows = await read_rows(services)
    assert [(row.features["systematic"], row.features["matches"], row.outcome["hits:library"]) for row in rows] == [(1, 1, 1)] * 2
    assert all(row.outcome["seconds"] > 0 for row in rows)


async def test_a_systematic_run_that_stops_early_is_not_recorded(services: Services) -> None:
    hits = outrider.asystematic("aspirin[tiab] OR statins[ti]", services=services)
    await anext(hits)
    await hits.aclose()
    assert await read_rows(services) == []


async def test_wrong_requests_are_refused_as_a_search_refuses_them(services: Services) -> None:
    for fields in ({"query": "?!"}, {"query": "x", "top_k": 0}, {"query": "x", "sources": ["nobody"]}, {"query": "x", "mode": "other"}):
        with pytest.raises(BadRequest) as planned:
            await outrider.aplan_search(**fields, services=services)
        with pytest.raises(BadRequest) as searched:
            await outrider.asearch(**fields, services=services)
        assert str(planned.value) == str(searched.value)
    with pytest.raises(NothingSearchable):
        await outrider.aplan_search("x", sources=["pubmed"], services=services)
    with pytest.raises(BadRequest):
        await outrider.aplan_search("aspirin[tiab] AND (", mode="systematic", services=services)


async def test_the_record_is_bounded(shelved: Path, tmp_path: Path) -> None:
    services = Services(offline(tmp_path, shelved, planner=PlannerSettings(file=str(tmp_path / "runs.sqlite"), keep_runs=20)))
    assert services.planner is not None
    for number in range(25):
        row = RunRow(float(number), number + 0.5, number, {}, {"seconds": 1.0})
        await asyncio.to_thread(services.planner.history.add, row)
    await outrider.asearch("aspirin", services=services)
    assert len(await read_rows(services)) == 20
    services.close()


async def test_the_recorder_changes_no_plan(tmp_path: Path) -> None:
    """Its ports stand before sources and model, whose services and prices a plan reads."""
    plans = []
    for is_recorded in (False, True):
        with ChatServer(lambda _: Reply({})) as chat:
            settings = make_settings(tmp_path, llm=llm_settings(chat), recorder=RecorderSettings(enabled=is_recorded))
            services = Services(settings)
            planned = await outrider.aplan_search("aspirin liver", services=services)
            services.close()
        plans.append([(one.quantity, one.of) for one in planned.estimates] + [one.why for one in planned.unknown])
    assert plans[0] == plans[1]
