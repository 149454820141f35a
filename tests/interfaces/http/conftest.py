from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.services import Services
from outrider.settings.load import load

for needed in ("langserve", "uvicorn", "prometheus_client"):
    pytest.importorskip(needed, reason="the extra `serve` is not installed")


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server at `address` keeps threads and systematic runs."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="session")
def address(shelved: Path, kept: Path) -> Iterator[str]:
    """One real server, offline, for all tests that only ask."""
    from support.http_app import running

    given = {
        "library.uri": str(shelved),
        "sources.offline": True,
        "systematic.folder": str(kept / "runs"),
        "systematic.page": 1,
        "threads.uri": str(kept / "threads.sqlite"),
    }
    with running(Services(load(given, environ={}, cwd=kept, user_dir=kept).settings)) as base_url:
        yield base_url
