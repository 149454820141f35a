"""A collection as a library on disk."""

from __future__ import annotations

import itertools
from pathlib import Path

from bench.data import Collection
from outrider.retrieval.store import Library

BATCH = 1_000


async def library_of(source: Collection, folder: Path) -> Library:
    """A new library that holds the collection, with complete indexes."""
    library = await Library.open(str(folder), create=True)
    remaining = iter(source.documents)
    while batch := list(itertools.islice(remaining, BATCH)):
        await library.upsert(batch)
    await library.optimize(force=True)
    return library
