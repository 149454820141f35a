"""The embedder of a cluster where Ray itself does not count: a stand-in for it whose actors never answer."""

from __future__ import annotations

import asyncio
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from outrider.cluster import embedder as cluster_embedder
from outrider.cluster.embedder import Model, open_embedder
from outrider.cluster.session import Cluster
from outrider.settings.model import ClusterSettings, EmbeddingSettings


class DeafRay:
    """Actors begin to load their model, and never end."""

    def __init__(self) -> None:
        self.waits = threading.Event()
        self.exceptions = SimpleNamespace(RayError=KeyError)
        self.killed = 0
        self._pings: set[object] = set()

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 1.0}

    def remote(self, _: type) -> Any:
        def ping() -> object:
            self._pings.add(call := object())
            return call

        actor = SimpleNamespace(ping=SimpleNamespace(remote=ping), describe=SimpleNamespace(remote=lambda _: object()))
        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda: actor))

    def wait(self, calls: list[object], num_returns: int, timeout: float) -> tuple[list[object], list[object]]:
        if done := [call for call in calls if call in self._pings][:num_returns]:
            return done, []
        self.waits.set()
        time.sleep(timeout)
        return [], calls

    def get(self, _: object) -> None:
        return None

    def kill(self, _: object) -> None:
        self.killed += 1


async def test_a_run_that_is_stopped_does_not_wait_for_a_model_that_is_being_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_embedder, "LOOK_EVERY_S", 0.02)
    ray = DeafRay()
    cluster = Cluster(ray, "a test", ClusterSettings())

    async def embed() -> None:
        async with open_embedder(cluster, Model(EmbeddingSettings(), None, offline=True)):
            raise AssertionError("no model was loaded")

    run = asyncio.create_task(embed())
    await asyncio.to_thread(ray.waits.wait, 5)
    run.cancel()
    done, _ = await asyncio.wait({run}, timeout=2)
    assert done, "it waits for the model"
    assert run.cancelled()
    assert ray.killed == 1
