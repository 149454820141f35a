"""Makes the recordings of `tests/recorder/recordings` anew: PYTHONPATH=src:tests python -m support.make_recordings

They are runs over our own services on loopback. Make them anew where a change of a node is wanted, and say in the commit what changed.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "recorder" / "recordings"
HOME = Path(tempfile.gettempdir()) / "outrider-recordings"
"""Stands in the settings of the recordings, so it is the same for everybody."""


async def make_all() -> None:
    from support import recorded_worlds as worlds

    kinds: dict[str, Callable[[Path], Awaitable[Any]]] = {
        "search": worlds.record_search,
        "analysis": worlds.record_analysis,
        "citations": worlds.record_citations,
        "candidates": worlds.record_candidates,
        "systematic": worlds.record_systematic,
    }
    for name, make in kinds.items():
        shutil.rmtree(HOME, ignore_errors=True)
        HOME.mkdir(exist_ok=True)  # a cache may still be writing
        await make(HOME / f"{name}.zip")
        shutil.copy(HOME / f"{name}.zip", FOLDER)
        print(name, (FOLDER / f"{name}.zip").stat().st_size, "bytes")
    shutil.rmtree(HOME, ignore_errors=True)


if __name__ == "__main__":
    os.environ |= {"XDG_CACHE_HOME": str(HOME / "cache"), "XDG_DATA_HOME": str(HOME / "data")}
    FOLDER.mkdir(exist_ok=True)
    asyncio.run(make_all())
