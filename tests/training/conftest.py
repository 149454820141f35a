from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outrider.library.library import Library
from support import tiny_reranker


@pytest.fixture(scope="session")
def tiny_base(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_reranker.base(tmp_path_factory.mktemp("base") / "tiny-bert")


@pytest.fixture(scope="session")
def shelved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that tests only read."""
    folder = tmp_path_factory.mktemp("training") / "library"
    asyncio.run(tiny_reranker.fill(folder))
    return folder


@pytest.fixture
async def shelf(shelved: Path) -> AsyncIterator[Library]:
    opened = await Library.open(shelved)
    yield opened
    opened.close()
