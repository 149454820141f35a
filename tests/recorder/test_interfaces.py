"""Recordings from every interface: the commands, Studio's graph, Python, a thread."""

from __future__ import annotations

import asyncio
import errno
import json
from pathlib import Path
from typing import Any

import pytest

import outrider
from outrider.interfaces.cli import run
from outrider.recorder.recording import read_recording
from outrider.runtime.spans import record_no_spans
from outrider.services import Services
from outrider.settings.environment import variable_name
from outrider.usecases.search import asearch
from support.recorded_worlds import SHELVED
from support.small_library import fill_library


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = fill_library(tmp_path / "library", SHELVED)
    monkeypatch.setenv("OUTRIDER_LIBRARY", str(folder))
    monkeypatch.setenv(variable_name("systematic.folder"), str(tmp_path / "runs"))
    monkeypatch.setenv(variable_name("threads.uri"), str(tmp_path / "threads.sqlite"))
    monkeypatch.chdir(tmp_path)
    return folder


def test_a_search_is_recorded_and_replayed_without_its_library(library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["search", "liver injury", "--json", "--record", "run.zip"]) == 0
    shown = capsys.readouterr()
    answer = json.loads(shown.out)
    assert answer["hits"]
    assert "To replay it: outrider replay run.zip" in " ".join(shown.err.split())
    library.rename(tmp_path / "elsewhere")
    assert run(["replay", "run.zip", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["same"]
    assert result["response"] == answer
    assert run(["replay", "run.zip"]) == 0
    assert "The same response, byte for byte" in capsys.readouterr().out
    assert run(["replay", "run.zip", "run.zip", "--diff"]) == 0
    assert "translator" in capsys.readouterr().out


def test_a_systematic_run_is_recorded_and_replayed(library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["systematic", "liver[ti]", "--json", "--record", "run.zip"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["result_set"]["total"] == len(SHELVED)
    before = sorted((tmp_path / "runs").iterdir())
    assert run(["replay", "run.zip", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["same"]
    assert result["response"]["result_set"] == answer["result_set"]
    assert sorted((tmp_path / "runs").iterdir()) == before
    assert run(["systematic", "liver[ti]", "--explain", "--record", "run.zip"]) == 2
    assert "leave out --explain" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_refused_before_the_run(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file in ("run.json", "no/such/folder/run.zip"):
        assert run(["search", "liver", "--record", file]) == 2
    assert "--record" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["search", "liver injury"], ["systematic", "liver[ti]"]])
def test_a_run_whose_recording_cannot_be_written_keeps_its_answer(
    library: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("outrider.services.recorded.write_recording", refuse)
    assert run([*command, "--json", "--record", "run.zip"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)
    assert "run.zip is not written: No space left on device" in " ".join(shown.err.split())
    assert "Traceback" not in shown.err


def test_a_recording_of_another_response_exits_with_3(
    library: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["search", "liver injury", "--record", "run.zip"]) == 0
    monkeypatch.setattr("outrider.nodes.organizer.count_facets", lambda works, settings: outrider.Facets(by_year={"1": 1}))
    capsys.readouterr()
    assert run(["replay", "run.zip", "--diff"]) == 3
    shown = " ".join(capsys.readouterr().out.split())
    assert "First difference at node organizer." in shown
    assert "organizer: update facets.by_year" in shown


async def test_the_setting_records_each_run_of_a_graph(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Studio, whose graphs are built from the settings; the synchronous side records, too."""
    monkeypatch.setenv(variable_name("recorder.enabled"), "true")
    monkeypatch.setenv(variable_name("recorder.folder"), str(tmp_path / "recordings"))
    from outrider.graph.pipeline import build

    graph = build(Services.from_file())
    await graph.ainvoke({"query": "liver injury"})
    await asyncio.to_thread(graph.invoke, {"query": "liver dose"})
    files = sorted((tmp_path / "recordings").glob("*-search-*.zip"))
    assert sorted(read_recording(file).index.request["query"] for file in files) == ["liver dose", "liver injury"]
    for file in files:
        assert (await asyncio.to_thread(outrider.replay_recording, file)).same


async def test_runs_at_the_same_time_have_recordings_of_their_own(library: Path, tmp_path: Path) -> None:
    from outrider.graph.pipeline import build

    services = Services.from_file({"recorder.enabled": True, "recorder.folder": str(tmp_path / "recordings")})
    queries = ("liver injury", "liver dose", "enzymes in serum")
    graph = build(services, checkpointer=False)
    await asyncio.gather(*(graph.ainvoke({"query": query}) for query in queries))
    with record_no_spans():  # as a server's first searches
        await graph.ainvoke({"query": "warm up"})
    services.close()
    files = [*(tmp_path / "recordings").glob("*.zip")]
    assert sorted(read_recording(file).index.request["query"] for file in files) == sorted(queries)
    for file in files:
        result = await asyncio.to_thread(outrider.replay_recording, file)
        assert result.same, result.differences


async def test_rounds_of_a_thread_replay(library: Path, tmp_path: Path) -> None:
    """The second search of a thread varies the plan of the first, which its recording holds."""
    for number in (1, 2):
        services: Any = Services.from_file({"recorder.enabled": True})
        services.destination.file = tmp_path / f"{number}.zip"
        await asearch("liver injury by drugs", thread="t", services=services)
        services.close()
    for number in (1, 2):
        result = await asyncio.to_thread(outrider.replay_recording, tmp_path / f"{number}.zip")
        assert result.same, result.differences
    assert read_recording(tmp_path / "2.zip").index.earlier


async def test_what_is_not_recorded_has_no_ports(library: Path) -> None:
    services = Services.from_file()
    assert services.ports is None
    assert services.destination is None
