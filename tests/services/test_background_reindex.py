"""A library whose model has changed: the offer, the run in the background, and its progress; processes with tiny real models."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from outrider.interfaces.cli import run
from outrider.library.library import Library
from outrider.services import Services
from outrider.services.background_reindex import RETRY_S, BackgroundReindex
from outrider.settings.model import EmbeddingSettings, LibrarySettings, Settings
from outrider.state.errors import EmbeddingSpaceMismatch, NoVectors
from outrider.state.ports import SourceQuery
from outrider.usecases.health import health
from support.extras import needs
from support.fakes import OFFLINE, paper
from support.small_library import own_settings
from support.tiny_embedder import make_tiny_embedder
from support.word_embedder import WordEmbedder

__all__ = ["own_settings"]
RECORDS = [paper(f"p{at}", f"Aspirin and the liver, part {at}") for at in range(5)]
PATIENT_S = 240.0


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Five records with vectors of `words`; the path needs quoting in a shell."""
    folder = tmp_path / "my library's"

    async def fill() -> None:
        opened = await Library.open(folder, create=True)
        await opened.embed(RECORDS, WordEmbedder())
        await opened.upsert(RECORDS)
        opened.close()

    asyncio.run(fill())
    return folder


def make_settings(library: Path, **embedding: Any) -> Settings:
    section = EmbeddingSettings(**{"model_name": "other", **embedding})
    return Settings(library=LibrarySettings(uri=str(library)), sources=OFFLINE, embedding=section)


@pytest.fixture
def run_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """A command in this process; its standard output."""

    def run_command(*arguments: str, **variables: str) -> str:
        for name, value in variables.items():
            monkeypatch.setenv(f"OUTRIDER_EMBEDDING__{name}", value)
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        assert run([*arguments]) == 0
        return capsys.readouterr().out

    return run_command


def run_process(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"HF_HUB_OFFLINE": "1", **{f"OUTRIDER_EMBEDDING__{name}": value for name, value in variables.items()}}
    command = [sys.executable, "-m", "outrider", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENT_S, check=False)


def find_dense_row(output: str) -> dict[str, Any]:
    rows: list[dict[str, Any]] = json.loads(output)["sources"]
    return next(row for row in rows if row["strategy"] == "lance_dense")


@pytest.mark.slow
@pytest.mark.blocking("the command's own steps around its loop read the disk")
@needs("sentence_transformers")
def test_the_exact_command_is_offered_and_works_in_a_shell(library: Path, tmp_path: Path, run_here: Callable[..., str]) -> None:
    """Search and doctor name it; afterwards vectors of the new model answer. Default: nothing starts by itself."""
    model = str(make_tiny_embedder(tmp_path / "model b"))
    row = find_dense_row(run_here("search", "aspirin", "--json", "-l", str(library), MODEL_NAME=model))
    assert row["status"] == "off"
    assert row["command"] in row["message"]
    assert "under way" not in row["message"]
    doctor = json.loads(run_here("doctor", "--json", "-l", str(library), MODEL_NAME=model))
    (part,) = (check for check in doctor["checks"] if check["what"] == "dense search")
    assert (part["command"], part["command"] in part["says"]) == (row["command"], True)

    assert row["command"].startswith("outrider library reindex --library ")
    in_shell = row["command"].replace("outrider", f"'{sys.executable}' -m outrider", 1)
    done = subprocess.run(in_shell, shell=True, cwd="/", capture_output=True, text=True, timeout=PATIENT_S, check=False)
    assert done.returncode == 0, done.stderr
    row = find_dense_row(run_here("search", "aspirin", "--json", "-l", str(library), MODEL_NAME=model))
    assert (row["status"], row["command"]) == ("ok", "")


@pytest.mark.slow
@pytest.mark.blocking("the command's own steps around its loop read the disk")
@needs("sentence_transformers")
def test_a_search_starts_the_reindex_in_the_background_and_outlives_it(library: Path, tmp_path: Path, run_here: Callable[..., str]) -> None:
    """With `embedding.reindex: auto`; later searches report it until the new vectors answer, and start no second run."""
    model = str(make_tiny_embedder(tmp_path / "model b"))
    search = ("search", "aspirin", "--json", "-l", str(library))
    row = find_dense_row(run_process(*search, MODEL_NAME=model, REINDEX="auto").stdout)
    assert (row["status"], "this was started in the background with" in row["message"]) == ("off", True)
    started = time.monotonic()
    messages = []
    while row["status"] != "ok" and time.monotonic() - started < PATIENT_S:
        row = find_dense_row(run_here(*search, MODEL_NAME=model, REINDEX="auto"))
        messages.append(row["message"])
        time.sleep(0.5)
    assert row["status"] == "ok", messages
    assert not any("was started in the background with" in message for message in messages)
    (output,) = (tmp_path / "data" / "outrider" / "reindex").iterdir()
    deadline = time.monotonic() + PATIENT_S
    while not output.read_text().strip() and time.monotonic() < deadline:  # it prints after it has switched over
        time.sleep(0.1)
    report = json.loads(output.read_text())
    assert (report["before"], report["model"], report["embedded"]) == ("words", model, 5)


async def test_progress_is_reported_while_a_run_is_under_way_and_after_an_interruption(library: Path) -> None:
    """By the error of a search, and by `health`, which doctor, the page and `/health` show; of this process or another."""
    go, reached = Event(), Event()

    def hold(done: int) -> None:
        if done == 3:
            reached.set()
            go.wait(60)

    services = Services(make_settings(library), embedder=WordEmbedder(name="other"))  # type: ignore[arg-type]
    opened = await Library.open(library)
    task = asyncio.create_task(opened.reindex(WordEmbedder(name="other", before=hold)))
    await asyncio.to_thread(reached.wait, 60)
    engine = await services.engine()
    with pytest.raises(EmbeddingSpaceMismatch, match=r"this is under way: 0 of 5 records are done"):
        await engine.search(SourceQuery("aspirin", "lance_dense", None, 5))
    part = next(part for part in await health(services) if part.what == "dense search")
    assert "under way" in part.says
    assert part.command.endswith("--model other")
    go.set()
    await task
    assert (await engine.search(SourceQuery("aspirin", "lance_dense", None, 5))).results
    opened.close()

    failing = WordEmbedder(name="third", error=RuntimeError("gone"), error_after=3)
    services = Services(make_settings(library), embedder=WordEmbedder(name="third"))  # type: ignore[arg-type]
    opened = await Library.open(library)
    with pytest.raises(RuntimeError, match="gone"):
        await opened.reindex(failing)
    with pytest.raises(EmbeddingSpaceMismatch, match=r"a run of this was interrupted, 0 of 5 records are done; the command resumes it"):
        await (await services.engine()).search(SourceQuery("aspirin", "lance_dense", None, 5))
    opened.close()


async def test_a_library_without_vectors_offers_the_command_too(tmp_path: Path) -> None:
    opened = await Library.open(tmp_path / "bare", create=True)
    await opened.upsert(RECORDS)
    opened.close()
    services = Services(make_settings(tmp_path / "bare"), embedder=WordEmbedder())  # type: ignore[arg-type]
    with pytest.raises(NoVectors) as raised:
        await (await services.engine()).search(SourceQuery("aspirin", "lance_dense", None, 5))
    assert raised.value.command == f"outrider library reindex --library {tmp_path / 'bare'}"
    assert raised.value.command in str(raised.value)


async def test_only_the_setting_starts_a_run_and_only_with_a_model_of_the_settings(library: Path) -> None:
    async def find_starter(services: Services) -> object:
        return (await services.engine()).background

    assert await find_starter(Services(make_settings(library))) is None
    assert isinstance(await find_starter(Services(make_settings(library, reindex="auto"))), BackgroundReindex)
    own = Services(make_settings(library, reindex="auto"), embedder=WordEmbedder())  # type: ignore[arg-type]
    assert await find_starter(own) is None, "another process cannot load a caller's object"


@pytest.mark.parametrize(
    ("output", "report"),
    [
        ("", "this was started in the background and loads its model"),
        ('{"error": {"kind": "LibraryBusy", "message": "it is busy"}}', "the background run failed: it is busy"),
        ('{"model": "b", "records": 5}', "a background run embedded it with b just now; none is started for 10 minutes after that"),
        ("Killed", "the background run ended without a result: 'Killed'"),
    ],
)
def test_what_became_of_a_run_is_reported_for_a_while(library: Path, output: str, report: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No search repeats a run that failed or starts, or undoes one that has just ended; a long finished one is forgotten."""
    background = BackgroundReindex(make_settings(library, reindex="auto"))
    assert background.report() == ""
    background.output.parent.mkdir(parents=True)
    background.output.write_text(output)
    calls: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: calls.append(command))
    assert background.report() == report
    assert background.start("b") == report
    assert calls == []
    then = time.time() - RETRY_S - 1
    os.utime(background.output, (then, then))
    assert background.report() == ""
    assert "this was started in the background with b" in background.start("b")
    assert calls[-1][-4:] == ["--library", str(library), "--model", "b"]


def test_of_two_searches_at_once_one_starts_a_run(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one looked before the first one began, and must not take its place: it would report that the library is busy."""
    background = BackgroundReindex(make_settings(library, reindex="auto"))
    calls: list[object] = []
    monkeypatch.setattr(subprocess, "Popen", lambda *arguments, **_: calls.append(arguments))
    background.start("b")
    reports = iter(["", "as it is now"])
    monkeypatch.setattr(BackgroundReindex, "report", lambda self: next(reports))
    assert background.start("b") == "as it is now"
    assert len(calls) == 1


def test_the_settings_of_the_model_reach_the_command(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that only a flag or a caller set; the key goes by the environment, not into the arguments, which others can read."""
    started: dict[str, Any] = {}
    monkeypatch.setattr(subprocess, "Popen", lambda command, **options: started.update(options, command=command))
    fields = {"base_url": "http://localhost:1/v1", "api_key": "secret", "normalize_embeddings": False, "batch_size": 8}
    BackgroundReindex(make_settings(library, reindex="auto", **fields)).start("served")
    variables = {name.removeprefix("OUTRIDER_EMBEDDING__"): started["env"][name] for name in started["env"] if "EMBEDDING__" in name}
    assert variables == {"BASE_URL": "http://localhost:1/v1", "API_KEY": "secret", "NORMALIZE_EMBEDDINGS": "false", "BATCH_SIZE": "8"}
    assert "secret" not in " ".join(started["command"])
