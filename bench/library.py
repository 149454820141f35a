"""A collection as a library on disk."""

from __future__ import annotations

import itertools
from pathlib import Path

from bench.data import Collection
from outrider.library.library import Library
from outrider.state.ports import TextEmbedder

BATCH = 1_000


async def library_of(source: Collection, folder: Path, embedder: TextEmbedder | None = None) -> Library:
    """A new library that holds the collection, with complete indexes and, with an embedder, vectors."""
    library = await Library.open(str(folder), create=True)
    remaining = iter(source.documents)
    while batch := list(itertools.islice(remaining, BATCH)):
        if embedder is not None:
            await library.embed(batch, embedder)
        await library.upsert(batch)
    await library.optimize(force=True)
    return library
