"""The recorder beside threads and human checkpoints: what is recorded replays, and what would not is not recorded."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import SecretStr

import outrider
from outrider.graph.pipeline import build
from outrider.interfaces.cli import run
from outrider.recorder.recording import read_recording
from outrider.services import Services
from outrider.settings.environment import variable_name
from outrider.settings.model import CacheSettings, LibrarySettings, RecorderSettings, Settings, ThreadSettings
from outrider.settings.sections import SourcesSettings
from support.chat_client import KEY, llm_settings
from support.chat_server import ChatServer
from support.recorded_worlds import SHELVED, answer_as_model
from support.small_library import fill_library


@pytest.fixture(autouse=True)
def library(tmp_path: Path) -> Path:
    return fill_library(tmp_path / "library", SHELVED)


def make_services(folder: Path, **settings: Any) -> Services:
    return Services(
        Settings(
            library=LibrarySettings(uri=str(folder / "library")),
            threads=ThreadSettings(uri=str(folder / "threads.sqlite")),
            recorder=RecorderSettings(enabled=True, folder=str(folder / "recordings")),
            **{"sources": SourcesSettings(offline=True), **settings},
        )
    )


def list_recordings(folder: Path) -> list[Path]:
    return sorted((folder / "recordings").glob("*.zip"), key=lambda file: file.stat().st_mtime_ns)


async def replay(file: Path) -> Any:
    return await asyncio.to_thread(outrider.replay_recording, file)


@pytest.mark.parametrize("point", ["plan", "results"])
async def test_a_search_that_waits_is_not_recorded(tmp_path: Path, caplog: pytest.LogCaptureFixture, point: str) -> None:
    services = make_services(tmp_path)
    first = await outrider.asearch("liver injury", services=services, thread="t", checkpoints=[point])
    assert first.waiting is not None
    done = await outrider.aresume("t", {}, services=services)
    services.close()
    assert done.hits
    assert not list_recordings(tmp_path)
    assert "this run is not recorded: it waits for a person" in caplog.text


async def test_a_search_of_a_langgraph_client_that_goes_on_is_not_recorded(tmp_path: Path) -> None:
    services = make_services(tmp_path)
    graph, config = build(services, InMemorySaver()), {"configurable": {"thread_id": "t"}}
    await graph.ainvoke({"query": "liver injury", "checkpoints": ["plan"]}, config)
    state = await graph.ainvoke(Command(resume={"review": "plan"}), config)
    services.close()
    assert state["hits"]
    assert not list_recordings(tmp_path)


async def test_the_search_after_dropped_works_replays(tmp_path: Path) -> None:
    services = make_services(tmp_path)
    await outrider.asearch("liver injury", services=services, thread="t", checkpoints=["results"])
    await outrider.aresume("t", {"drop": ["own1"], "more_like": ["own2"]}, services=services)
    second = await outrider.asearch("liver injury", services=services, thread="t", checkpoints=[])
    services.close()
    assert "own1" not in [hit.doc_id for hit in second.hits]
    (file,) = list_recordings(tmp_path)
    result = await replay(file)
    assert result.same, result.differences


async def test_a_search_on_a_thread_replays_where_others_use_cached_plans(tmp_path: Path) -> None:
    """One server has searches with and without a thread; only the latter look for a cached plan."""
    with ChatServer(answer_as_model) as chat:
        llm = llm_settings(chat, timeout_s=60.0, api_key=SecretStr(KEY))
        cache = CacheSettings(folder=str(tmp_path / "answers"))
        services = make_services(tmp_path, llm=llm, cache=cache, sources=SourcesSettings())
        await outrider.asearch("liver injury", services=services, sources=["library"])
        await outrider.asearch("liver injury", services=services, sources=["library"], thread="t")
        services.close()
    files = list_recordings(tmp_path)
    assert [any(call.port == "plan cache" for call in read_recording(file).index.calls) for file in files] == [True, False]
    for file in files:
        result = await replay(file)
        assert result.same, result.differences


@pytest.fixture
def in_terminal(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_LIBRARY", str(library))
    monkeypatch.setenv(variable_name("threads.uri"), str(tmp_path / "threads.sqlite"))
    monkeypatch.chdir(tmp_path)


def test_record_is_refused_where_the_settings_ask_for_checkpoints(
    in_terminal: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable_name("checkpoints.after_plan"), "true")
    assert run(["search", "liver injury", "--record", "run.zip"]) == 2
    assert "--record records a run without pauses" in capsys.readouterr().err
    assert not (tmp_path / "run.zip").exists()
    assert not (tmp_path / "threads.sqlite").exists()
    assert run(["search", "liver injury", "--record", "run.zip", "--no-review-plan"]) == 0


def test_record_and_dry_run_contradict(in_terminal: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["search", "liver injury", "--dry-run", "--record", "run.zip"]) == 2
    assert run(["systematic", "liver[ti]", "--dry-run", "--record", "run.zip"]) == 2
    assert "--dry-run runs nothing" in capsys.readouterr().err
    assert not (tmp_path / "run.zip").exists()
