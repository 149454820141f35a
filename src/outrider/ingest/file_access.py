"""Access to the files of a run: which reader each needs, its fingerprint, and its records.

The pipeline knows this protocol only. `LocalFiles` reads on this machine; the workers of a cluster call the same functions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from outrider.ingest.entry import ReadOptions
from outrider.ingest.file_changes import Fingerprints, Stamp, read_stamp
from outrider.ingest.file_walk import InputFile
from outrider.ingest.reader_thread import Bounds, read_groups
from outrider.ingest.readers.select_reader import FileReader, NoReader, select_reader
from outrider.ingest.record_ids import Namer, Outcome
from outrider.library.metadata_tables import IngestedFile
from outrider.text.encoding import Encoding

OnEncoding = Callable[[Encoding], None]
ReadFinished = Callable[[], Awaitable[Sequence[IngestedFile]]]
"""What the library remembers of files."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a look at a file shows before it is read."""

    reader: FileReader
    stamp: Stamp = (0, 0)
    fingerprint: str = ""
    """Empty for a file that is too large to be read."""


class FileAccess(Protocol):
    """Errors of a file are `UnreadableFile` and `OSError`."""

    async def expect(self, files: Sequence[InputFile], id_origins: Mapping[str, str], read_finished: ReadFinished) -> None:
        """The files that will be inspected, in this order. One that still has its fingerprint in the library is mostly not read."""
        ...

    async def inspect(self, file: InputFile) -> Inspection | NoReader: ...

    def read(self, file: InputFile, inspection: Inspection, id_origin: str, on_encoding: OnEncoding) -> AsyncGenerator[list[Outcome]]:
        """The outcomes in groups."""
        ...

    async def stamp(self, file: InputFile) -> Stamp:
        """At the end of the reading."""
        ...


def inspect_file(path: Path, size: int, fingerprints: Fingerprints) -> Inspection | NoReader:
    """Blocking; `size` is that of the walk."""
    reader = select_reader(path)
    if isinstance(reader, NoReader):
        return reader
    if size > fingerprints.options.max_bytes:
        return Inspection(reader)
    return Inspection(reader, read_stamp(path), fingerprints.compute(path, reader))


def read_outcomes(path: Path, origin: str, id_origin: str, reader: FileReader, options: ReadOptions) -> Iterator[Outcome]:
    """The named records of a file, and what is to be said of it; lazily."""
    return Namer(origin, single=reader.single, id_origin=id_origin).name_all(reader.read(path, options))


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """Files read by a thread of this process."""

    options: ReadOptions
    bounds: Bounds
    """Of a group."""
    fingerprints: Fingerprints

    async def expect(self, files: Sequence[InputFile], id_origins: Mapping[str, str], read_finished: ReadFinished) -> None:
        """No file is read ahead: the next group of one is, while one is stored."""

    async def inspect(self, file: InputFile) -> Inspection | NoReader:
        return await asyncio.to_thread(inspect_file, file.path, file.size, self.fingerprints)

    def read(self, file: InputFile, inspection: Inspection, id_origin: str, on_encoding: OnEncoding) -> AsyncGenerator[list[Outcome]]:
        options = replace(self.options, on_encoding=on_encoding)
        return read_groups(partial(read_outcomes, file.path, file.origin, id_origin, inspection.reader, options), self.bounds)

    async def stamp(self, file: InputFile) -> Stamp:
        return await asyncio.to_thread(read_stamp, file.path)
