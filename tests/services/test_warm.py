"""Models are loaded before a run's time starts, once for all callers, and only those that the request uses."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from outrider.distiller.engines import classifier
from outrider.graph.analyze import build_analysis
from outrider.graph.pipeline import build
from outrider.library.library import Library
from outrider.models.embed import embedder as embedder_module
from outrider.models.rerank import cross_encoder
from outrider.services import ALL_MODELS, ModelUse, Services, load_embedder
from outrider.settings.model import (
    DistillerSettings,
    EmbeddingSettings,
    LibrarySettings,
    LlmSettings,
    RerankerSettings,
    RunSettings,
    Settings,
)
from outrider.state.embedding import EmbeddingSpace
from outrider.state.errors import ModelUnavailable
from outrider.state.request import SearchRequest
from support.chat_client import chat_over
from support.chat_server import ChatServer, Reply
from support.fakes import OFFLINE
from support.small_library import RECORDS
from support.word_embedder import WordEmbedder

RUN_S = 1.0
LOAD_S = 2.5
"""Longer than the run and its grace."""


class SlowToLoad(WordEmbedder):
    """Its model takes longer to load than a whole run may take."""

    def __init__(self) -> None:
        super().__init__()
        self.loads = 0
        self._lock = threading.Lock()

    @property
    def space(self) -> EmbeddingSpace:
        with self._lock:
            if not self.loads:
                time.sleep(LOAD_S)
                self.loads += 1
        return super().space


@pytest.fixture(scope="module")
def with_vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")

    async def fill() -> None:
        library = await Library.open(folder, create=True)
        await library.upsert(RECORDS)
        await library.reindex(WordEmbedder())
        library.close()

    asyncio.run(fill())
    return folder


def make_settings(folder: Path, **sections: Any) -> Settings:
    return Settings(library=LibrarySettings(uri=str(folder)), sources=OFFLINE, **{"run": RunSettings(run_timeout_s=RUN_S), **sections})


def statuses(answer: dict[str, Any]) -> dict[str, str]:
    return {row.strategy: row.status for row in answer["sources"]}


def test_a_cold_call_of_the_graph_loses_no_result(with_vectors: Path) -> None:
    answer = build(Services(make_settings(with_vectors), embedder=SlowToLoad())).invoke({"query": "aspirin liver"})
    assert statuses(answer)["lance_dense"] == "ok"
    assert not answer["failures"]
    assert answer["execution_time_ms"] < LOAD_S * 1_000


def test_two_first_calls_load_one_model(with_vectors: Path) -> None:
    slow = SlowToLoad()
    graph = build(Services(make_settings(with_vectors), embedder=slow))
    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(lambda query: graph.invoke({"query": query}), ("aspirin liver", "statins cholesterol")))
    assert [statuses(answer)["lance_dense"] for answer in answers] == ["ok", "ok"]
    assert slow.loads == 1


def test_concurrent_first_callers_share_one_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two objects would load the weights twice."""
    make = embedder_module.Embedder.from_settings.__func__

    def make_slowly(cls: type, *args: Any, **options: Any) -> Any:
        time.sleep(0.1)
        return make(cls, *args, **options)

    monkeypatch.setattr(embedder_module.Embedder, "from_settings", classmethod(make_slowly))
    settings = EmbeddingSettings(model_name="only-in-this-test/of-sharing")
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: load_embedder(settings, None), range(8)))
    assert len({id(embedder) for embedder in made}) == 1


def test_a_named_reranker_is_loaded_before_the_run(with_vectors: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    loads: list[str] = []

    class Model:
        def predict(self, pairs: list[tuple[str, str]], **_: Any) -> list[float]:
            return [float(len(text)) for _, text in pairs]

    def load(name: str, device: str, *, downloads: bool) -> Model:
        time.sleep(LOAD_S)
        loads.append(name)
        return Model()

    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setattr(cross_encoder, "load_cross_encoder", load)
    settings = make_settings(with_vectors, reranker=RerankerSettings(model_name=str(tmp_path)))
    answer = build(Services(settings, embedder=WordEmbedder())).invoke({"query": "aspirin statins client"})
    assert str(tmp_path) in answer["reranked_by"]
    assert not answer["failures"]
    assert loads == [str(tmp_path)]
    build(Services(settings, embedder=WordEmbedder())).invoke({"query": "aspirin statins client", "rerank_enabled": False})
    assert loads == [str(tmp_path)]


@pytest.mark.parametrize("graph", ["search", "analyze"])
def test_the_distillers_model_is_loaded_before_the_run(
    with_vectors: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, graph: str
) -> None:
    """A model that cannot be loaded is tried before the run's time, and reported by the run."""
    tries: list[float] = []

    def load(*_: Any, **__: Any) -> Any:
        tries.append(time.monotonic())
        raise ModelUnavailable("no such model")

    monkeypatch.setattr(classifier, "load_classifier", load)
    settings = make_settings(with_vectors, distiller=DistillerSettings(engine="classifier", model_name=str(tmp_path / graph), bypass=False))
    services = Services(settings, embedder=WordEmbedder())
    if graph == "analyze":
        build_analysis(services).invoke({"target": "a/b"})
        assert tries
        return
    answer = build(services).invoke({"query": "aspirin liver"})
    assert [failure.message for failure in answer["failures"]] == ["classifier: no such model; a cheaper engine chose the sentences"]
    assert len(tries) == 2


async def test_loaded_models_are_not_looked_for_again_for_a_minute(with_vectors: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    services = Services(make_settings(with_vectors), embedder=WordEmbedder())
    await services.warm()

    async def fail() -> None:
        raise AssertionError

    monkeypatch.setattr(services, "library", fail)
    await services.warm()


def test_the_chat_client_is_loaded_before_the_run(with_vectors: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing langchain-openai takes seconds on a busy machine; the model would plan and score nothing."""
    from outrider.models.chat import client

    make = client._make_client

    def make_slowly(*args: Any) -> Any:
        time.sleep(LOAD_S)
        return make(*args)

    monkeypatch.setattr(client, "_make_client", make_slowly)
    with ChatServer(lambda _: Reply("{}")) as server:
        answer = build(Services(make_settings(with_vectors, llm=LlmSettings()), embedder=WordEmbedder(), chat=chat_over(server))).invoke(
            {"query": "aspirin liver"}
        )
        assert server.requests
    assert "TimeoutError" not in {failure.error for failure in answer["failures"]}


@pytest.mark.parametrize(
    ("request_fields", "use"),
    [
        ({}, ALL_MODELS),
        ({"strategies": ("lance_fts",)}, ModelUse(dense=False)),
        ({"strategies": ("sparse", "dense")}, ALL_MODELS),
        ({"sources": ("github",)}, ModelUse(dense=False)),
        ({"sources": ("github", "library")}, ALL_MODELS),
        ({"rerank_enabled": False}, ModelUse(reranker=False)),
        ({"rerank_enabled": True}, ModelUse(reranker_requested=True)),
        ({"fusion_enabled": False}, ModelUse(reranker=False)),
        ({"fusion_enabled": False, "rerank_enabled": True}, ModelUse(reranker_requested=True)),
        ({"distill_enabled": False}, ModelUse(distiller=False)),
        ({"distill_top": 0}, ModelUse(distiller=False)),
        ({"mode": "systematic"}, ModelUse(dense=False, reranker=False, distiller=False)),
        ({"mode": "systematic", "grey_literature": True}, ModelUse(dense=True, reranker=False, distiller=False)),
    ],
)
def test_only_the_models_of_the_request_are_loaded(request_fields: dict[str, Any], use: ModelUse) -> None:
    assert ModelUse.of_request(SearchRequest.model_validate({"query": "aspirin", **request_fields})) == use
