from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.services import Services
from outrider.settings.load import load
from outrider.settings.model import SharedSettings
from support.redis import redis_url

__all__ = ["redis_url"]

for needed in ("langserve", "uvicorn", "prometheus_client"):
    pytest.importorskip(needed, reason="the extra `serve` is not installed")


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of threads and systematic runs of the server at `address`."""
    return tmp_path_factory.mktemp("server-data")


@pytest.fixture(scope="session")
def address(shelved: Path, data_folder: Path) -> Iterator[str]:
    """One real server, offline, for all tests that only send requests."""
    from support.http_app import running

    values = {
        "library.uri": str(shelved),
        "sources.offline": True,
        "systematic.folder": str(data_folder / "runs"),
        "systematic.page": 1,
        "threads.uri": str(data_folder / "threads.sqlite"),
    }
    with running(Services(load(values, environ={}, cwd=data_folder, user_dir=data_folder).settings)) as base_url:
        yield base_url


@pytest.fixture(params=["memory", "redis"])
def run_store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test runs twice: a server keeps its searches in memory, or in Redis."""
    if request.param == "redis":
        url = request.getfixturevalue("redis_url")
        monkeypatch.setattr("support.http_app.SHARED", SharedSettings(redis_url=url))
