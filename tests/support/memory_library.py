"""A library in memory, as far as ingestion knows one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from outrider.library.metadata_tables import IngestedFile
from outrider.library.vectors.write import EmbeddingReport, document_text, is_cut
from outrider.state.embedding import EmbeddingSpace
from outrider.state.errors import EmbeddingSpaceMismatch
from outrider.state.filters import Filter, matches
from outrider.state.ports import OnCount, TextEmbedder
from outrider.state.records import Paper, Record


@dataclass
class MemoryShelves:
    records: dict[str, Record] = field(default_factory=dict)
    files: dict[str, IngestedFile] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    vectors: dict[str, np.ndarray] = field(default_factory=dict)
    space: EmbeddingSpace | None = None
    batches: list[int] = field(default_factory=list)
    cited: list[Paper] = field(default_factory=list)
    optimized: int = 0

    async def content_hashes(self, doc_ids: Sequence[str]) -> dict[str, str]:
        return {doc_id: self.records[doc_id].content_hash() for doc_id in doc_ids if doc_id in self.records}

    async def fetch(self, doc_ids: Sequence[str]) -> list[Record]:
        return [self.records[doc_id] for doc_id in doc_ids if doc_id in self.records]

    async def page(self, where: Filter | None = None, limit: int = 20) -> list[Record]:
        return [record for record in self.records.values() if where is None or matches(where, record)][:limit]

    async def accept(self, space: EmbeddingSpace) -> None:
        if self.space not in (None, space):
            raise EmbeddingSpaceMismatch(f"vectors of {self.space}")

    async def embed(self, records: Sequence[Record], embedder: TextEmbedder, progress: OnCount | None = None) -> EmbeddingReport:
        results = await asyncio.to_thread(embedder.embed_each, [document_text(record) for record in records], "document", progress)
        self.space = embedder.space
        pairs = list(zip(records, results, strict=True))
        self.vectors |= {record.doc_id: result.vector for record, result in pairs if result.vector is not None}
        without = {record.doc_id: result.problem for record, result in pairs if result.vector is None}
        return EmbeddingReport(len(records) - len(without), 0, sum(is_cut(result.read) for result in results), without)

    async def add_cited_works(self, works: Sequence[Paper]) -> None:
        self.cited += works

    async def upsert(self, records: Sequence[Record]) -> None:
        self.batches.append(len(records))
        self.records |= {record.doc_id: record for record in records}

    async def ingested(self, fingerprint: str) -> IngestedFile | None:
        return self.files.get(fingerprint)

    async def remember(self, *files: IngestedFile) -> None:
        origins = {file.origin for file in files}
        others = {mark: file for mark, file in self.files.items() if file.origin not in origins}
        self.files = others | {file.fingerprint: file for file in files}

    async def forget(self, origins: Sequence[str]) -> None:
        self.files = {mark: file for mark, file in self.files.items() if file.origin not in origins}

    async def ingested_files(self) -> list[IngestedFile]:
        return list(self.files.values())

    async def origins(self) -> dict[str, int]:
        return dict(Counter(record.origin or "" for record in self.records.values()))

    async def doc_ids(self, origin: str) -> list[str]:
        return [doc_id for doc_id, record in self.records.items() if record.origin == origin]

    async def count_contents(self, hashes: Sequence[str]) -> dict[str, int]:
        same = (record for record in self.records.values() if record.content_hash() in set(hashes))
        return dict(Counter(record.origin or "" for record in same))

    async def set_origin(self, doc_ids: Sequence[str], origin: str) -> None:
        known = [doc_id for doc_id in doc_ids if doc_id in self.records]
        self.records |= {doc_id: self.records[doc_id].model_copy(update={"origin": origin}) for doc_id in known}

    async def id_origins(self) -> dict[str, str]:
        return dict(self.names)

    async def set_id_origins(self, changes: Mapping[str, str | None]) -> None:
        self.names = {path: name for path, name in {**self.names, **changes}.items() if name}

    async def remove(self, doc_ids: Sequence[str]) -> int:
        removed = [self.records.pop(doc_id) for doc_id in doc_ids if doc_id in self.records]
        origins = {record.origin for record in removed}
        self.files = {mark: file for mark, file in self.files.items() if file.origin not in origins}
        return len(removed)

    async def optimize(self) -> None:
        self.optimized += 1
