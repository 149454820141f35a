"""Queries that are searched for ahead: which they are, what is asked and kept, and what a later search saves."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from outrider.interfaces.cli import run
from outrider.interfaces.http.warm_up import warm_popular
from outrider.learning.store import LearningStore
from outrider.library.search_engine import QueryVectors
from outrider.services import Services
from outrider.settings.load import load
from outrider.sources.library import LibrarySource
from outrider.state.errors import BadRequest, LibraryMissing
from outrider.state.request import RetrieverType
from outrider.usecases.warm_queries import find_popular_queries, make_local_request, read_queries, warm_queries
from support.word_embedder import WordEmbedder


def make_services(library: Path, folder: Path, **more: Any) -> Services:
    learning = {"learning.enabled": True, "learning.file": str(folder / "learning.sqlite")}
    values = {"library.uri": str(library), "cache.folder": str(folder / "cache"), "sources.web.enabled": False, **learning, **more}
    return Services(load(values, environ={}, cwd=folder, user_dir=folder).settings)


def list_files(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Texts and strategies of the searches of the library."""
    asked: list[tuple[str, str]] = []
    search = LibrarySource.search

    async def watch(source: LibrarySource, query: Any) -> Any:
        asked.append((query.text, query.strategy))
        return await search(source, query)

    monkeypatch.setattr(LibrarySource, "search", watch)
    return asked


def test_a_file_of_queries_is_read_line_by_line_and_each_once(tmp_path: Path) -> None:
    file = tmp_path / "queries.txt"
    file.write_text("\ufeffaspirin  liver\n\n# popular in spring\nhay fever\naspirin liver\n", encoding="utf-8")
    assert read_queries(file) == ["aspirin liver", "hay fever"]
    file.write_text("# none\n")
    with pytest.raises(BadRequest, match="holds no query"):
        read_queries(file)
    file.write_bytes(b"\xff\xfe\xff")
    with pytest.raises(BadRequest, match="UTF-8"):
        read_queries(file)
    with pytest.raises(BadRequest, match="No such file"):
        read_queries(tmp_path / "missing.txt")


@pytest.mark.blocking  # the test itself reads files
async def test_popular_queries_are_those_of_all_owners_together(tmp_path: Path) -> None:
    """Two owners asked one query twice each, one asked another three times: the first is the more frequent."""
    services = await asyncio.to_thread(make_services, tmp_path / "library", tmp_path)
    store = LearningStore(tmp_path / "learning.sqlite")
    assert await find_popular_queries(services.settings, 5) == []
    for query, owner in (("b", "x"), ("b", "x"), ("a", "x"), ("a", "x"), ("b", "x"), ("a", "y"), ("a", "y"), ("c", "y")):
        store.remember(query, owner)
    assert await find_popular_queries(services.settings, 2) == ["a", "b"]
    off = await asyncio.to_thread(lambda: make_services(tmp_path / "library", tmp_path, **{"learning.history": False}))
    with pytest.raises(BadRequest, match=r"learning\.history"):
        await find_popular_queries(off.settings, 2)


@pytest.mark.blocking  # the test itself reads files
async def test_the_library_alone_is_searched_and_nothing_is_remembered(
    shelved: Path, tmp_path: Path, searched: list[tuple[str, str]]
) -> None:
    services = await asyncio.to_thread(make_services, shelved, tmp_path)
    before = list_files(tmp_path)
    report = await warm_queries(services, ["aspirin liver", "cholesterol"])
    services.close()
    assert (report.queries, report.warmed, report.error) == (2, 2, "")
    assert {text for text, _ in searched} >= {"aspirin liver", "cholesterol"}
    assert list_files(tmp_path) == before, "such as a job that reads the citations of what was found"
    with pytest.raises(LibraryMissing):
        await warm_queries(await asyncio.to_thread(make_services, tmp_path / "none", tmp_path), ["aspirin"])


async def test_the_time_limit_ends_it_and_is_reported(shelved: Path, tmp_path: Path) -> None:
    services = await asyncio.to_thread(make_services, shelved, tmp_path)
    report = await warm_queries(services, ["aspirin"] * 10_000, within_s=0.3)
    services.close()
    assert report.warmed < 10_000
    assert "0.3 s" in report.error


async def test_queries_beyond_the_limit_are_reported(shelved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.usecases.warm_queries.MOST_QUERIES", 2)
    services = await asyncio.to_thread(make_services, shelved, tmp_path)
    report = await warm_queries(services, ["aspirin", "liver", "cholesterol"])
    services.close()
    assert (report.queries, report.warmed, report.error) == (3, 2, "only the first 2 are searched for")


@pytest.mark.blocking  # the test itself reads files
async def test_a_server_searches_for_the_queries_of_its_settings_before_it_is_ready(
    shelved: Path, tmp_path: Path, searched: list[tuple[str, str]], caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "queries.txt"
    file.write_text("aspirin liver\n")
    LearningStore(tmp_path / "learning.sqlite").remember("cholesterol", "")
    values = {"serve.warm_file": str(file), "serve.warm_queries": 3}
    services = await asyncio.to_thread(lambda: make_services(shelved, tmp_path, **values))
    await warm_popular(services)
    assert {text for text, _ in searched} >= {"aspirin liver", "cholesterol"}
    assert not caplog.records
    file.unlink()
    await warm_popular(services)
    services.close()
    assert "popular queries were not warmed" in caplog.text


def test_no_served_model_is_asked() -> None:
    served = load({"embedding.base_url": "http://127.0.0.1:9/v1", "reranker.base_url": "http://127.0.0.1:9"}, environ={}).settings
    request = make_local_request(served, "aspirin")
    assert request.strategies == (RetrieverType.LANCE_FTS, RetrieverType.GRAPH_NEIGHBOR)
    assert request.rerank_enabled is request.answer_enabled is False


async def test_a_query_that_comes_again_is_not_embedded_again() -> None:
    class Counting(WordEmbedder):
        calls = 0

        def embed(self, *arguments: Any) -> Any:
            type(self).calls += 1
            return super().embed(*arguments)

    embedder, vectors = Counting(), QueryVectors(most=2)
    first, space = await vectors.embed(embedder, "aspirin")
    again, _ = await vectors.embed(embedder, "aspirin")
    assert again is first
    assert space == embedder.space
    assert Counting.calls == 1
    for text in ("liver", "fever", "aspirin"):  # of two places the oldest goes
        await vectors.embed(embedder, text)
    assert Counting.calls == 4
    await vectors.embed(Counting(), "aspirin")  # another model
    assert Counting.calls == 5


def test_the_command_warms_and_reports(shelved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "queries.txt"
    file.write_text("aspirin liver\ncholesterol\n")
    assert run(["library", "warm", "--from", str(file), "-l", str(shelved), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["warmed"] == 2
    assert run(["library", "warm", "-l", str(shelved)]) == 2
    assert run(["library", "warm", "--popular", "3", "-l", str(shelved)]) == 2
    assert "learning.enabled" in capsys.readouterr().err
