"""A library in memory, as far as ingestion knows one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from outrider.retrieval.ledger import IngestedFile
from outrider.state.records import Record


@dataclass
class MemoryShelves:
    records: dict[str, Record] = field(default_factory=dict)
    files: dict[str, IngestedFile] = field(default_factory=dict)
    batches: list[int] = field(default_factory=list)
    optimized: int = 0

    async def content_hashes(self, doc_ids: Sequence[str]) -> dict[str, str]:
        return {doc_id: self.records[doc_id].content_hash() for doc_id in doc_ids if doc_id in self.records}

    async def upsert(self, records: Sequence[Record]) -> None:
        self.batches.append(len(records))
        self.records |= {record.doc_id: record for record in records}

    async def ingested(self, fingerprint: str) -> IngestedFile | None:
        return self.files.get(fingerprint)

    async def remember(self, *files: IngestedFile) -> None:
        origins = {file.origin for file in files}
        kept = {mark: file for mark, file in self.files.items() if file.origin not in origins}
        self.files = kept | {file.fingerprint: file for file in files}

    async def origins(self) -> dict[str, int]:
        return dict(Counter(record.origin or "" for record in self.records.values()))

    async def optimize(self) -> None:
        self.optimized += 1
