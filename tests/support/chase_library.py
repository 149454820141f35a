"""A library for citation chasing without services: its records' reference lists are all the citations that there are."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from outrider.library.library import Library
from outrider.services import Services
from outrider.settings.load import load
from outrider.state.records import Edge, Identifiers, Paper

TARGET = "label:otters"
HOSTILE = '<img src=x onerror="document.title=1"></title><script>document.title=1</script> Otters'
RETRACTED = "w5"
LISTS = {1: (3, 4, 5), 2: (4, 6), 7: (1,), 3: (8,), 4: (8,), 5: (), 6: (9,), 8: (), 9: ()}
"""Works by number, and what they cite. Works 1 and 2 are the target's."""


def make_records() -> list[Paper]:
    return [
        Paper(
            doc_id=f"w{number}",
            title=HOSTILE if number == 6 else f"Study {number} of otters in rivers",
            abstract="Otters live in rivers." if number < 5 else "",
            year=None if number == 9 else 1990 + 3 * number,
            authors=("Doe, Jane",),
            identifiers=Identifiers(doi=f"10.5555/w.{number}"),
            edges=tuple(Edge(relation="cites", target=f"doi:10.5555/w.{cited}") for cited in cites),
            metadata={"retracted": True} if f"w{number}" == RETRACTED else {},
        )
        for number, cites in LISTS.items()
    ]


async def fill(folder: Path) -> None:
    library = await Library.open(folder / "library", create=True)
    await library.upsert(make_records())
    await library.label(["w1", "w2"], ["otters"])
    await library.optimize(force=True)
    library.close()


def make_services(folder: Path, **values: Any) -> Services:
    """Services over a new library in a folder, with threads and jobs of its own; without a network."""
    asyncio.run(fill(folder))
    own = {
        "library.uri": str(folder / "library"),
        "threads.uri": str(folder / "threads.sqlite"),
        "jobs.uri": str(folder / "jobs.sqlite"),
        "sources.offline": True,
        "embedding.model_name": "none",
        **values,
    }
    return Services(load(own, environ={}, cwd=folder, user_dir=folder).settings)
