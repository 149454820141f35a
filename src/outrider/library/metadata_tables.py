"""Tables beside the records: files, decisions, labels, chases, calibrations, evaluations

Each is created with its first row; no record changes with them.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from outrider.library.address_and_locks import Location
from outrider.library.filter_sql import in_list
from outrider.library.lance_errors import retry_conflicts
from outrider.library.maintenance import KEEP_METADATA
from outrider.library.record_cache import TableState
from outrider.library.record_table import KeptTable, open_table
from outrider.library.schema import PRIMARY_KEY
from outrider.library.text_search import ALL_ROWS
from outrider.runtime.threads_and_loops import finish
from outrider.state.distilling import Calibration, parse_calibration
from outrider.state.duplicate_decisions import Decision
from outrider.state.reranking import Verdict, verdict_order

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable

T = TypeVar("T")
Parsed = TypeVar("Parsed")


class MetadataTable(ABC, Generic[T]):
    """One table of the library at a location, for items of one type."""

    name: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]
    numbers: ClassVar[tuple[str, ...]] = ()
    """Columns of int64; the others are strings."""
    primary_key: ClassVar[str] = ""

    def __init__(self, location: Location, connection: AsyncConnection) -> None:
        self._location = location
        self._connection = connection
        self._kept = KeptTable(location, connection, self.name)
        self._parsed: tuple[TableState, Any] | None = None

    def close(self) -> None:
        self._kept.close()

    async def add(self, items: Sequence[T]) -> None:
        """Write these in one commit, under the library's lock."""
        if items:
            async with self._location.write():
                await retry_conflicts(lambda: self._write(items))

    @abstractmethod
    async def _write(self, items: Sequence[T]) -> None: ...

    async def _append(self, rows: Sequence[dict[str, Any]]) -> None:
        table = await self._create()
        await table.add(self._build(rows))
        await table.optimize(cleanup_older_than=KEEP_METADATA)

    async def _read_rows(self) -> list[dict[str, Any]]:
        """All rows, in no order; none where the table does not exist."""
        table = await self._open()
        return [] if table is None else (await table.query().limit(ALL_ROWS).to_arrow()).to_pylist()

    async def _read_parsed(self, parse: Callable[[list[dict[str, Any]]], Parsed], absent: Parsed) -> Parsed:
        """The parsed rows, read again only where the table has changed: for small tables that every search reads."""
        reader = await self._kept.open()
        if reader is None:
            return absent
        state = await self._kept.find_state(reader)
        if self._parsed is None or self._parsed[0] != state:
            self._parsed = state, parse((await reader.query().limit(ALL_ROWS).to_arrow()).to_pylist())
        parsed: Parsed = self._parsed[1]
        return parsed

    async def exists(self) -> bool:
        """Whether anything was ever stored."""
        with self._location.translate_errors():
            return await self._kept.open() is not None

    async def _open(self) -> AsyncTable | None:
        return await open_table(self._connection, self.name)

    async def _create(self) -> AsyncTable:
        return await self._connection.create_table(self.name, schema=self._schema(), exist_ok=True)

    async def _merge(self, table: AsyncTable, rows: Sequence[dict[str, Any]]) -> int:
        """Write rows over those with the same primary key; the table's new version."""
        merge = table.merge_insert(self.primary_key).when_matched_update_all().when_not_matched_insert_all()
        return int((await merge.execute(self._build(rows))).version)

    def _build(self, rows: Sequence[dict[str, Any]]) -> pa.Table:
        import pyarrow as pa

        return pa.Table.from_pylist([*rows], schema=self._schema())

    def _schema(self) -> pa.Schema:
        import pyarrow as pa

        types = {name: pa.int64() if name in self.numbers else pa.string() for name in self.columns}
        keys = {self.primary_key: PRIMARY_KEY}
        return pa.schema([pa.field(name, kind, nullable=False, metadata=keys.get(name)) for name, kind in types.items()])


@dataclass(frozen=True, slots=True)
class IngestedFile:
    """One file that was read to its end."""

    fingerprint: str
    """Sha-256 over the file's content, the reader's version and its options."""
    origin: str
    records: int
    finished_at: str
    """ISO 8601."""


class FileTable(MetadataTable[IngestedFile]):
    """Files that were completely ingested, written only when a file's last record is in."""

    name = "files"
    columns = ("fingerprint", "origin", "records", "finished_at")
    numbers = ("records",)
    primary_key = "fingerprint"
    COMPACT_EVERY: ClassVar[int] = 64
    """Commits after which the table is compacted by a write."""

    async def find(self, fingerprint: str) -> IngestedFile | None:
        with self._location.translate_errors():
            table = await self._open()
            if table is None:
                return None
            rows = (await table.query().where(in_list("fingerprint", [fingerprint])).limit(1).to_arrow()).to_pylist()
            return IngestedFile(**rows[0]) if rows else None

    async def read(self) -> list[IngestedFile]:
        """In no order."""
        with self._location.translate_errors():
            return [IngestedFile(**row) for row in await self._read_rows()]

    async def _write(self, items: Sequence[IngestedFile]) -> None:
        """Rows of the same origins are replaced: a file that is set back to an earlier content is read again."""
        table = await self._create()
        merge = table.merge_insert("fingerprint").when_matched_update_all().when_not_matched_insert_all()
        merge = merge.when_not_matched_by_source_delete(in_list("origin", sorted({file.origin for file in items})))
        rows = {file.fingerprint: asdict(file) for file in items}  # equal files at two places have one fingerprint
        done = await merge.execute(self._build(list(rows.values())))
        if done.version % self.COMPACT_EVERY == 0:
            await self.compact()

    async def forget(self, origins: Sequence[str]) -> None:
        """Only under the lock."""
        table = await self._open()
        if table is not None and origins:
            await table.delete(in_list("origin", origins))

    async def count(self) -> int:
        table = await self._open()
        return 0 if table is None else await table.count_rows()

    async def compact(self) -> None:
        """Drop old versions, of which every write adds one; none is read for long. Only under the lock."""
        table = await self._open()
        if table is not None:
            await table.optimize(cleanup_older_than=KEEP_METADATA)


@dataclass(frozen=True, slots=True)
class RenamedFile:
    """A file that was renamed after its first ingestion."""

    path: str
    id_origin: str
    """The origin that its records' ids are made of; empty to remove the entry."""


class RenamedFileTable(MetadataTable[RenamedFile]):
    """Renamed files, one row a path. Ids outlive a renaming, so that decisions about records and answers that name them stay right."""

    name = "renamed_files"
    columns = ("path", "id_origin")
    primary_key = "path"

    async def read(self) -> list[RenamedFile]:
        """In no order."""
        with self._location.translate_errors():
            return [RenamedFile(**row) for row in await self._read_rows()]

    async def _write(self, items: Sequence[RenamedFile]) -> None:
        table = await self._create()
        kept = {item.path: asdict(item) for item in items if item.id_origin}
        if kept:
            await self._merge(table, list(kept.values()))
        if removed := sorted({item.path for item in items} - kept.keys()):
            await table.delete(in_list("path", removed))
        await table.optimize(cleanup_older_than=KEEP_METADATA)


class RerankEvaluationTable(MetadataTable[Verdict]):
    """Evaluations of rerankers on this library; every run adds its verdicts in one commit."""

    name = "verdicts"
    columns = ("judged_at", "reranker", "verdict")

    async def read(self) -> tuple[Verdict, ...]:
        """Newest first; of one evaluation the best first."""

        def parse(rows: list[dict[str, Any]]) -> tuple[Verdict, ...]:
            best_first = sorted((Verdict.model_validate_json(row["verdict"]) for row in rows), key=verdict_order)
            return tuple(sorted(best_first, key=lambda verdict: verdict.judged_at, reverse=True))

        with self._location.translate_errors():
            return await self._read_parsed(parse, ())

    async def _write(self, items: Sequence[Verdict]) -> None:
        await self._append([{"judged_at": one.judged_at, "reranker": one.reranker, "verdict": one.model_dump_json()} for one in items])


class DecisionTable(MetadataTable[Decision]):
    """Decisions of users about works, `merge` and `split`."""

    name = "decisions"
    columns = ("at", "number", "decision")
    numbers = ("number",)

    async def read(self) -> tuple[Decision, ...]:
        """From the first to the last."""

        def parse(rows: list[dict[str, Any]]) -> tuple[Decision, ...]:
            in_order = sorted(rows, key=lambda row: (row["number"], row["at"]))
            return tuple(Decision.model_validate_json(row["decision"]) for row in in_order)

        with self._location.translate_errors():
            return await self._read_parsed(parse, ())

    async def _write(self, items: Sequence[Decision]) -> None:
        table = await self._open()
        first = 0 if table is None else await table.count_rows()
        await self._append(
            [{"at": one.at, "number": number, "decision": one.model_dump_json()} for number, one in enumerate(items, start=first)]
        )


@dataclass(frozen=True, slots=True)
class RecordLabels:
    """All labels of one record."""

    doc_id: str
    labels: tuple[str, ...]
    """Sorted; empty to remove the entry."""


class LabelTable(MetadataTable[RecordLabels]):
    """Labels that users give to records. They are no content: reading a file again keeps them."""

    name = "labels"
    columns = ("doc_id", "labels")
    primary_key = "doc_id"

    async def read(self) -> dict[str, tuple[str, ...]]:
        """By id, of records that have some."""
        with self._location.translate_errors():
            return {row["doc_id"]: tuple(json.loads(row["labels"])) for row in await self._read_rows()}

    async def _write(self, items: Sequence[RecordLabels]) -> None:
        table = await self._create()
        rows = [{"doc_id": item.doc_id, "labels": json.dumps(item.labels, ensure_ascii=False)} for item in items if item.labels]
        if rows:
            await self._merge(table, rows)
        if removed := sorted(item.doc_id for item in items if not item.labels):
            await table.delete(in_list("doc_id", removed))
        await table.optimize(cleanup_older_than=KEEP_METADATA)

    async def put(self, items: Sequence[RecordLabels]) -> None:
        """As `add`, only under the lock."""
        await retry_conflicts(lambda: self._write(items))

    async def forget(self, doc_ids: Sequence[str]) -> None:
        """Labels of records that are removed. Only under the lock."""
        table = await self._open()
        if table is not None:
            await table.delete(in_list("doc_id", doc_ids))


@dataclass(frozen=True, slots=True)
class StoredChase:
    """The chase of citations from one target."""

    target: str
    chase: str
    """`citations.chase.Chase` as JSON."""


class ChaseTable(MetadataTable[StoredChase]):
    """Chases of citations, one row a target."""

    name = "chases"
    columns = ("target", "chase")
    primary_key = "target"

    async def find(self, target: str) -> str | None:
        with self._location.translate_errors():
            table = await self._open()
            if table is None:
                return None
            rows = (await table.query().where(in_list("target", [target])).limit(1).to_arrow()).to_pylist()
            return str(rows[0]["chase"]) if rows else None

    async def change(self, target: str, change: Callable[[str | None], str]) -> str:
        """Replace the chase of a target by what `change` makes of it, under the library's lock: no other change comes in between.

        A cancelled call ends after the write.
        """
        async with self._location.write():
            return await finish(retry_conflicts(lambda: self._change(target, change)))

    async def _change(self, target: str, change: Callable[[str | None], str]) -> str:
        before = await self.find(target)
        after = change(before)
        if after != before:
            await self._write([StoredChase(target, after)])
        return after

    async def _write(self, items: Sequence[StoredChase]) -> None:
        table = await self._create()
        await self._merge(table, [asdict(item) for item in items])
        await table.optimize(cleanup_older_than=KEEP_METADATA)


class CalibrationTable(MetadataTable[Calibration]):
    """Calibrations that a user fitted for the distiller; of one engine and its weights the newest counts."""

    name = "calibrations"
    columns = ("fitted_at", "calibration")

    async def read(self) -> tuple[Calibration, ...]:
        """One for each engine and its weights, by name. `BadRequest` where a newer Outrider wrote them."""

        def parse(rows: list[dict[str, Any]]) -> tuple[Calibration, ...]:
            in_order = sorted(rows, key=lambda row: str(row["fitted_at"]))
            calibrations = [parse_calibration(row["calibration"], "the library's calibration") for row in in_order]
            latest = {(one.engine, one.revision): one for one in calibrations}
            return tuple(latest[key] for key in sorted(latest))

        with self._location.translate_errors():
            return await self._read_parsed(parse, ())

    async def _write(self, items: Sequence[Calibration]) -> None:
        await self._append([{"fitted_at": one.fitted_at, "calibration": json.dumps(asdict(one), ensure_ascii=False)} for one in items])
