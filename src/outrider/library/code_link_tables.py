"""Tables of links between papers and code, and of repositories known from links alone

**Evidence** (`code_links`). One row for each place that says how two works belong together. Rows of a record are replaced whenever the
record is written, and removed with it; those of a repository's files and of a file of links by the next reading of the same.

**Repositories** (`code_repositories`). What a code host said about a repository that is no record: its last push and release decide whether
a paper's code is alive. It is in no table that a search reads, so it is never a hit.

Both are created with their first row. A record is found by its names when it is read, so a work that becomes a record later has its links.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from outrider.library.filter_sql import in_list
from outrider.library.lance_errors import retry_conflicts
from outrider.library.maintenance import KEEP_METADATA
from outrider.library.metadata_tables import MetadataTable
from outrider.library.record_table import chunk_ids
from outrider.library.text_search import ALL_ROWS
from outrider.runtime.threads_and_loops import finish
from outrider.state.code_links import OWN, READ_AT, LinkEvidence
from outrider.state.records import Repository

if TYPE_CHECKING:
    from lancedb.table import AsyncTable

COMPACT_EVERY = 64


class CodeLinkTable(MetadataTable[LinkEvidence]):
    """Evidence by work, target and the place that says so."""

    name = "code_links"
    columns = ("id", "work", "target", "read_in", "kind", "evidence")
    primary_key = "id"
    INDEXED = ("work", "target", "read_in")

    async def replace(self, read_in: Collection[str], evidence: Sequence[LinkEvidence]) -> None:
        """The evidence of these records, files or repositories is exactly this from now on. Only under the lock."""
        await retry_conflicts(lambda: self._replace(read_in, evidence))

    async def store(self, read_in: Collection[str], evidence: Sequence[LinkEvidence]) -> None:
        """As `replace`, which takes the lock itself. A cancelled call ends after the write."""
        async with self._location.write():
            await finish(self.replace(read_in, evidence))

    async def _replace(self, read_in: Collection[str], evidence: Sequence[LinkEvidence]) -> None:
        table = await self._open()
        if table is None and not evidence:
            return
        if table is not None:
            for chunk in chunk_ids(sorted(read_in)):
                if await table.count_rows(condition := in_list("read_in", chunk)):
                    await table.delete(condition)
        await self._write(evidence)

    async def _write(self, items: Sequence[LinkEvidence]) -> None:
        if not items:
            return
        table = await self._create_indexed()
        rows = {row["id"]: row for row in map(_make_row, items)}
        if await self._merge(table, list(rows.values())) % COMPACT_EVERY == 0:
            await table.optimize(cleanup_older_than=KEEP_METADATA)

    async def _create_indexed(self) -> AsyncTable:
        table = await self._open()
        if table is None:
            from lancedb.index import BTree

            table = await self._create()
            for column in self.INDEXED:
                await table.create_index(column, config=BTree())
        return table

    async def forget(self, doc_ids: Sequence[str]) -> None:
        """Of records that are removed. Only under the lock."""
        table = await self._open()
        if table is not None:
            await table.delete(in_list("read_in", doc_ids))

    async def find(self, names: Collection[str]) -> list[LinkEvidence]:
        """The evidence about works or targets with one of these names; no read where none was ever stored."""
        with self._location.translate_errors():
            reader = await self._kept.open()
            if reader is None or not names:
                return []
            rows: dict[str, str] = {}
            for chunk in chunk_ids(sorted(names)):
                query = reader.query().where(f"{in_list('work', chunk)} OR {in_list('target', chunk)}")
                found = (await query.select(["id", "evidence"]).limit(ALL_ROWS).to_arrow()).to_pydict()
                rows.update(zip(found["id"], found["evidence"], strict=True))
        return [LinkEvidence.model_validate_json(rows[key]) for key in sorted(rows)]

    async def read_own_names(self) -> frozenset[str]:
        """The names of all papers with code of their own."""

        def parse(rows: list[dict[str, Any]]) -> frozenset[str]:
            return frozenset(row["work"] for row in rows if row["kind"] in OWN)

        with self._location.translate_errors():
            return await self._read_parsed(parse, frozenset())

    async def count(self) -> int:
        with self._location.translate_errors():
            table = await self._open()
            return 0 if table is None else await table.count_rows()


def _make_row(evidence: LinkEvidence) -> dict[str, str]:
    one = evidence
    key = (one.read_in, one.work, one.target, one.place, one.field, str(one.line or ""), str(one.start or ""))
    return {
        "id": hashlib.sha256("\t".join(key).encode()).hexdigest()[:32],
        "work": evidence.work,
        "target": evidence.target,
        "read_in": evidence.read_in,
        "kind": evidence.kind,
        "evidence": evidence.model_dump_json(exclude_defaults=True),
    }


@dataclass(frozen=True, slots=True)
class KnownRepository:
    """A repository as its host described it."""

    name: str
    repository: Repository
    read_at: str
    """ISO 8601."""


class CodeRepositoryTable(MetadataTable[KnownRepository]):
    """One row a repository."""

    name = "code_repositories"
    columns = ("name", "repository", "read_at")
    primary_key = "name"

    async def find(self, names: Collection[str]) -> Mapping[str, Repository]:
        with self._location.translate_errors():
            reader = await self._kept.open()
            if reader is None or not names:
                return {}
            found: dict[str, Repository] = {}
            for chunk in chunk_ids(sorted(names)):
                rows = (await reader.query().where(in_list("name", chunk)).limit(ALL_ROWS).to_arrow()).to_pylist()
                for row in rows:
                    described = Repository.model_validate_json(row["repository"])
                    metadata = {**described.metadata, READ_AT: row["read_at"]}
                    found[row["name"]] = described.model_copy(update={"metadata": metadata})
        return found

    async def _write(self, items: Sequence[KnownRepository]) -> None:
        table = await self._create()
        rows = {item.name: {"name": item.name, "repository": item.repository.model_dump_json(), "read_at": item.read_at} for item in items}
        if await self._merge(table, list(rows.values())) % COMPACT_EVERY == 0:
            await table.optimize(cleanup_older_than=KEEP_METADATA)
