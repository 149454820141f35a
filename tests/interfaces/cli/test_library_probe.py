from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outrider.graph.pipeline import build
from outrider.interfaces.cli import run
from outrider.interfaces.cli.library_training import make_first_stage
from outrider.library.library import Library
from outrider.services import Services
from outrider.settings.model import Settings
from outrider.sources.library import LibrarySource
from outrider.state.request import SearchRequest
from support.fakes import paper
from support.rerank_server import Answer, Server
from support.word_embedder import WordEmbedder

pytestmark = pytest.mark.slow


THINGS = [f"{first}{second}um" for first in "bdfgklmnpr" for second in ("ala", "ere", "ili", "oro", "unu")]


@pytest.fixture
def server() -> Iterator[Server]:
    reranker_server = Server()
    yield reranker_server
    reranker_server.close()


@pytest.fixture
def library(tmp_path: Path) -> str:
    """Sixty works, each about six of fifty things."""
    draw = random.Random(1)
    records = []
    for at in range(60):
        about = draw.sample(THINGS, 6)
        sentences = [" ".join(draw.sample(about, 5)).capitalize() + "." for _ in range(5)]
        records.append(paper(f"p{at:02}", " ".join(draw.sample(about, 5)), abstract=" ".join(sentences)))

    async def fill() -> None:
        opened = await Library.open(tmp_path / "library", create=True)
        await opened.upsert(records)
        opened.close()

    asyncio.run(fill())
    return str(tmp_path / "library")


def score_at_random(path: str, body: dict[str, Any]) -> Answer:
    """An answer of Text Embeddings Inference with random scores."""
    draw = random.Random(body["query"])
    return 200, [{"index": at, "score": draw.random()} for at in range(len(body.get("texts", ())))], {}


def test_a_probe_shows_figures_and_decision_and_the_library_stores_them(
    library: str, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = score_at_random
    monkeypatch.setenv("OUTRIDER_RERANKER__BASE_URL", server.url)
    monkeypatch.setenv("OUTRIDER_EMBEDDING__MODEL_NAME", "none")
    assert run(["library", "probe", "-n", "40", "-l", library, "--json"]) == 0
    (evaluation,) = json.loads(capsys.readouterr().out)["verdicts"]
    assert evaluation["reranker"] == f"reranker at {server.url}"
    assert (evaluation["effect"], evaluation["chosen"], evaluation["queries"]) == ("worse", False, 40)
    assert evaluation["difference"] == pytest.approx(evaluation["after"] - evaluation["before"])
    assert run(["library", "probe", "-n", "40", "-l", library, "--seed", "1"]) == 0
    output = capsys.readouterr()
    assert "does harm" in output.out
    assert "Searches now use no reranker" in output.err
    assert run(["search", THINGS[0], "-l", library, "--json"]) == 0
    steps = {step["step"]: step["why"] for step in json.loads(capsys.readouterr().out)["bypassed"]}
    assert "makes this library's ranking worse" in steps["reranker"]


def test_an_impossible_probe_is_one_line(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OUTRIDER_EMBEDDING__MODEL_NAME", "none")
    assert run(["library", "probe", "-n", "20", "-l", library]) == 3
    assert "no reranker could be probed" in capsys.readouterr().err
    assert run(["library", "probe", "-n", "20", "-l", library, "-r", str(tmp_path / "nowhere")]) == 3
    assert "no such folder" in capsys.readouterr().err
    assert run(["library", "probe", "-n", "20", "-l", str(tmp_path / "none")]) == 3
    assert "no library" in capsys.readouterr().err
    assert run(["library", "probe", "-n", "5", "-l", library]) == 2


def test_without_the_embedding_model_the_probe_continues_without_dense_and_reports_it(
    library: str, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def embed() -> None:
        opened = await Library.open(library)
        await opened.reindex(WordEmbedder())
        opened.close()

    asyncio.run(embed())
    server.answer = score_at_random
    monkeypatch.setenv("OUTRIDER_RERANKER__BASE_URL", server.url)
    monkeypatch.setenv("OUTRIDER_EMBEDDING__MODEL_NAME", "none")
    assert run(["library", "probe", "-n", "20", "-l", library, "--json"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["verdicts"][0]["queries"] == 20
    assert output.err.count("without dense search") == 1


async def test_a_probe_reranks_the_same_candidates_as_a_search(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def none(*_: object) -> tuple[str, ...]:
        return ()

    monkeypatch.setattr(LibrarySource, "related_terms", none)  # the only step that a probe skips
    services = Services(Settings.model_validate({"library": {"uri": library}, "embedding": {"model_name": "none"}}))
    query = f"{THINGS[0]} {THINGS[7]}"
    try:
        answer = await build(services).ainvoke(SearchRequest(query=query, top_k=20, rerank_enabled=False))
        search = await make_first_stage(services, await services.library())
        candidates = await search(query, 20)
    finally:
        services.close()
    rule_scores = {hit.doc_id: hit.scores["rules"] for hit in answer["hits"]}
    assert rule_scores
    assert list(rule_scores) == [one.record.doc_id for one in candidates][: len(rule_scores)]
    assert [one.score for one in candidates][: len(rule_scores)] == pytest.approx(list(rule_scores.values()), abs=1e-6)
