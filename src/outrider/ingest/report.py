"""Reports of an ingestion: of each file or target, of the vectors, and of the run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import Field

from outrider.state.model import Model
from outrider.text.encoding import Encoding

FileStatus = Literal["added", "updated", "unchanged", "partial", "skipped", "failed"]
RecordStatus = Literal["added", "updated", "unchanged"]
MAX_REASONS = 20


class FileReport(Model):
    """One file, or a target: its `path` is then `doi:10.1000/x` or a link.

    `added`, `updated` and `unchanged` count records, `failed` entries that could not be read (1 for the whole file).
    """

    path: str
    target: bool = Field(False, description="Whether it was fetched by name, not read from a file.")
    status: FileStatus
    reader: str | None = None
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    failed: int = 0
    untitled: int = Field(0, description="Records without a title, of those that were read now.")
    remarks: tuple[str, ...] = Field((), description="What a person should know of how it was read; no record is lost.")
    encoding: str | None = Field(None, description="Of a text file, and how it was found: `utf-8 (valid)`, `cp1252 (guessed)`.")
    replaced_bytes: int = Field(0, description="Bytes that are invalid in this encoding; U+FFFD replaces them in the records.")
    reasons: tuple[str, ...] = Field((), description=f"The first {MAX_REASONS}; the last one then gives the number of others.")
    took_ms: float = 0.0


class StaleRecords(Model):
    """Records in the library that their file no longer holds."""

    path: str
    gone: bool = Field(description="Whether the file no longer exists.")
    doc_ids: tuple[str, ...]
    titles: tuple[str, ...] = Field((), description=f"Of the first {MAX_REASONS}.")
    removed: bool = Field(False, description="Whether this run removed them.")


class VectorReport(Model):
    """Vectors of the records that were added or updated."""

    model: str | None = None
    embedded: int = 0
    reused: int = Field(0, description="Records whose text was the same as before.")
    cut: int = Field(0, description="Of the embedded, those longer than the model reads; `outrider library show` shows how much was read.")
    without: int = Field(0, description="Records written without a vector; `outrider library reindex` gives them one if it can.")
    reasons: tuple[str, ...] = Field((), description=f"Why records have no vector, by id, the first {MAX_REASONS}.")
    off: str = Field("", description="Why nothing was embedded, or no more from some record on.")


class IngestReport(Model):
    """One run. `added`, `updated`, `unchanged` count records, `skipped` files, `failed` files and single entries."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    skipped: int = 0
    failed: int = 0
    untitled: int = Field(0, description="Records without a title, of those that were read now.")
    files: tuple[FileReport, ...] = ()
    stale: tuple[StaleRecords, ...] = Field((), description="Records that the files of this run no longer hold.")
    gone_elsewhere: tuple[str, ...] = Field((), description="Other files that no longer exist and of which the library holds records.")
    vectors: VectorReport = VectorReport()
    records_per_s: float = 0.0
    took_ms: float = 0.0

    @classmethod
    def summarize(
        cls,
        files: tuple[FileReport, ...],
        vectors: VectorReport,
        took_s: float,
        stale: tuple[StaleRecords, ...] = (),
        gone_elsewhere: tuple[str, ...] = (),
    ) -> IngestReport:
        records = sum(file.added + file.updated + file.unchanged for file in files)
        return cls(
            added=sum(file.added for file in files),
            updated=sum(file.updated for file in files),
            unchanged=sum(file.unchanged for file in files),
            skipped=sum(file.status == "skipped" for file in files),
            failed=sum(file.failed for file in files),
            untitled=sum(file.untitled for file in files),
            files=files,
            stale=stale,
            gone_elsewhere=gone_elsewhere,
            vectors=vectors,
            records_per_s=round(records / took_s, 1) if took_s > 0 else 0.0,
            took_ms=round(took_s * 1000, 1),
        )


@dataclass(slots=True)
class Tally:
    """Counts and reasons of one file or target while it is read."""

    path: Path | str
    """A string for a target."""
    size: int = 0
    reader: str | None = None
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    failed: int = 0
    untitled: int = 0
    skipped: bool = False
    remarks: list[str] = field(default_factory=list)
    encoding: Encoding | None = None
    reasons: list[str] = field(default_factory=list)
    reasons_left_out: int = 0
    took_s: float = 0.0

    def count(self, status: RecordStatus) -> None:
        setattr(self, status, getattr(self, status) + 1)

    def add_reason(self, reason: str) -> None:
        """Stores the first reasons, without the file's own path at the start."""
        if len(self.reasons) < MAX_REASONS:
            self.reasons.append(reason.removeprefix(f"{self.path}: "))
        else:
            self.reasons_left_out += 1

    def remark(self, text: str) -> None:
        if len(self.remarks) < MAX_REASONS:
            self.remarks.append(text)

    def set_encoding(self, encoding: Encoding) -> None:
        """Stores the encoding of a text file; a guess and replaced bytes are worth a look at the records."""
        self.encoding = encoding
        if not encoding.is_certain:
            self.remark(f"read as {encoding.describe()}")

    def fail(self, reason: str) -> None:
        self.failed += 1
        self.add_reason(reason)

    def skip(self, reason: str) -> None:
        self.skipped = True
        self.add_reason(reason)

    @property
    def records(self) -> int:
        return self.added + self.updated + self.unchanged

    def make_report(self) -> FileReport:
        status: FileStatus = "added" if self.added else "unchanged"
        if self.skipped:
            status = "skipped"
        elif self.failed:
            status = "partial" if self.records else "failed"
        elif self.updated or (self.added and self.unchanged):
            status = "updated"
        reasons = tuple(self.reasons)
        if self.reasons_left_out:
            reasons = (*reasons[:-1], f"and {self.reasons_left_out + 1} more")
        return FileReport(
            path=str(self.path),
            target=isinstance(self.path, str),
            status=status,
            reader=self.reader,
            added=self.added,
            updated=self.updated,
            unchanged=self.unchanged,
            failed=self.failed,
            untitled=self.untitled,
            remarks=tuple(self.remarks),
            encoding=f"{self.encoding.name} ({self.encoding.evidence})" if self.encoding else None,
            replaced_bytes=self.encoding.invalid if self.encoding else 0,
            reasons=reasons,
            took_ms=round(self.took_s * 1000, 1),
        )
