from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outrider.retrieval.store import Library

DATA = Path(os.environ.get("OUTRIDER_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))


@pytest.fixture
async def library(tmp_path: Path) -> AsyncIterator[Library]:
    opened = await Library.open(tmp_path / "library", create=True)
    yield opened
    opened.close()


@pytest.fixture
def ir_data() -> Path:
    if not (DATA / "ir").is_dir():
        pytest.skip(f"no retrieval sets at {DATA / 'ir'}; set OUTRIDER_DATA")
    return DATA / "ir"
