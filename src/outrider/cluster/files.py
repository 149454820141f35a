"""Files read on a Ray cluster, each by a process of a node, some of them ahead.

A task that reads reserves no CPU: the actors of the embedding model may hold all of them, also after a node has died, and a task that
waited for one would wait for ever. Their number is bounded instead.

A file that kills the process which reads it, or keeps it busy for ever, costs only itself.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from outrider.cluster.session import Cluster
from outrider.cluster.tasks import CRASHES, RemoteError, is_crash, is_lost
from outrider.ingest.entry import ReadOptions
from outrider.ingest.file_access import Inspection, OnEncoding, ReadFinished, inspect_file, read_outcomes
from outrider.ingest.file_changes import Fingerprints, Stamp, read_stamp
from outrider.ingest.file_walk import InputFile
from outrider.ingest.reader_thread import Bounds, group_outcomes
from outrider.ingest.readers.select_reader import NoReader
from outrider.ingest.record_ids import Outcome
from outrider.state.errors import UnreadableFile
from outrider.text.encoding import Encoding

PARTS_AHEAD = 3
"""Of each file: its task waits when that many are not fetched."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A file to read, as a worker needs it."""

    path: Path
    size: int
    """As the machine of the command sees it."""
    origin: str
    id_origin: str
    options: ReadOptions
    bounds: Bounds
    known: str = ""
    """The fingerprint with which nothing but the inspection is wanted."""


@dataclass(frozen=True, slots=True)
class End:
    """The end of a file, with its stamp then."""

    stamp: Stamp


Part = Inspection | NoReader | list[Outcome] | Encoding | End | RemoteError


def read_on_worker(reading: Reading, parts_before: int) -> Iterator[Part]:
    """The parts of a file after the first `parts_before`, which were fetched before the node of an earlier attempt died.

    The last one comes in any case: the file may have become shorter since, or this node does not see it.
    """
    for number, part in enumerate(read_parts(reading)):
        if number >= parts_before or isinstance(part, End | RemoteError):
            yield part


def read_parts(reading: Reading) -> Iterator[Part]:
    """The inspection, then groups of outcomes and the encoding as soon as it is known, then the end; or an error in place of the rest."""
    encodings: list[Encoding] = []
    options = replace(reading.options, on_encoding=encodings.append)
    try:
        inspection = inspect_on_worker(reading)
        yield inspection
        if isinstance(inspection, NoReader) or inspection.fingerprint in {"", reading.known}:
            return
        outcomes = read_outcomes(reading.path, reading.origin, reading.id_origin, inspection.reader, options)
        for group in group_outcomes(outcomes, reading.bounds):
            yield from encodings
            encodings.clear()
            yield group
        yield from encodings
        yield End(read_stamp(reading.path))
    except UnreadableFile as error:
        yield from encodings
        yield RemoteError.of(error)
    except OSError as error:
        yield from encodings
        yield RemoteError.of(UnreadableFile(error.strerror or str(error)))


def inspect_on_worker(reading: Reading) -> Inspection | NoReader:
    """Raises `UnreadableFile` also for a file that this node does not see as the machine of the command does."""
    node = platform.node()
    try:
        inspection = inspect_file(reading.path, reading.size, Fingerprints(reading.options))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UnreadableFile(
            f"a worker on {node} sees no such file; put it on storage that all nodes of the cluster see under this path"
        ) from error
    except OSError as error:
        raise UnreadableFile(f"a worker on {node} cannot read it: {error.strerror or error}") from error
    if isinstance(inspection, Inspection) and inspection.fingerprint and inspection.stamp[0] != reading.size:
        raise UnreadableFile(f"a worker on {node} sees {inspection.stamp[0]:,} bytes under this path, and this machine {reading.size:,}")
    return inspection


@dataclass(slots=True)
class FileStream:
    """The parts of one file from a task, which begins at once, and again when its node dies."""

    cluster: Cluster
    reading: Reading
    parts: int = 0
    """Fetched so far."""
    _crashes: int = 0
    _task: Any = None
    _has_begun: bool = False
    """Before, its worker may have to start."""

    def __post_init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        task = self.cluster.ray.remote(read_on_worker).options(
            num_cpus=0,
            max_retries=0,
            num_returns="streaming",
            _generator_backpressure_num_objects=PARTS_AHEAD,
            scheduling_strategy="SPREAD",
            name="read",
        )
        self._task, self._has_begun = task.remote(self.reading, self.parts), False

    async def fetch(self) -> Part:
        """Raises `UnreadableFile`, also where the file kills its process or keeps it busy."""
        while True:
            try:
                part = await self._wait()
            except self.cluster.ray.exceptions.RayError as error:
                if not (is_crash(self.cluster, error) or is_lost(self.cluster, error)):
                    raise
                self._crashes += is_crash(self.cluster, error)
                if self._crashes >= CRASHES:
                    problem = f"the process that reads it died {self._crashes} times: it is damaged, or made to be large"
                    raise UnreadableFile(problem) from error
                self._begin()
                continue
            self.parts += 1
            if isinstance(part, End | RemoteError | NoReader):
                self._task = None
            if isinstance(part, RemoteError):
                raise part.make()
            return part

    async def _wait(self) -> Part:
        limit_s = self.cluster.settings.read_timeout_s
        starting_s = 0.0 if self._has_begun else self.cluster.settings.connect_s
        try:
            async with asyncio.timeout(limit_s + starting_s):
                part: Part = await (await anext(self._task))
                self._has_begun = True
                return part
        except TimeoutError as error:
            raise UnreadableFile(f"no record was read in {limit_s:g} s (cluster.read_timeout_s)") from error

    def close(self) -> None:
        """End the task, with its process."""
        if self._task is not None:
            with suppress(Exception):  # it may have ended
                self.cluster.ray.cancel(self._task, force=True)


@dataclass(slots=True)
class ClusterFiles:
    """Access to files by the workers of a cluster. Close it."""

    cluster: Cluster
    options: ReadOptions
    bounds: Bounds
    _files: Iterator[InputFile] = field(default_factory=lambda: iter(()))
    """Those that are not begun yet."""
    _id_origins: Mapping[str, str] = field(default_factory=dict)
    _known: Mapping[str, str] = field(default_factory=dict)
    _streams: dict[str, FileStream] = field(default_factory=dict)
    """By origin: of the file that is read, and of those ahead."""
    _current: str = ""
    _stamps: dict[str, Stamp] = field(default_factory=dict)

    async def expect(self, files: Sequence[InputFile], id_origins: Mapping[str, str], read_finished: ReadFinished) -> None:
        self._files, self._id_origins = iter(files), id_origins
        self._known = {file.origin: file.fingerprint for file in await read_finished()} if files else {}

    async def inspect(self, file: InputFile) -> Inspection | NoReader:
        self._leave()
        self._current = file.origin
        free = self.cluster.count_cpus() + 1 - len(self._streams)
        for ahead in islice(self._files, max(0, free)):  # nodes may have died since those ahead began
            self._streams[ahead.origin] = self._begin(ahead, self._known.get(ahead.origin, ""))
        if file.origin not in self._streams:
            self._streams[file.origin] = self._begin(file)
        part = await self._streams[file.origin].fetch()
        assert isinstance(part, Inspection | NoReader)  # noqa: S101 - the first part of any file
        return part

    def _begin(self, file: InputFile, known: str = "") -> FileStream:
        id_origin = self._id_origins.get(file.origin, "")
        return FileStream(self.cluster, Reading(file.path, file.size, file.origin, id_origin, self.options, self.bounds, known))

    def _leave(self) -> None:
        """End the task of a file that was not read to its end: it has not changed, or turned out to be a copy of another one."""
        if stream := self._streams.pop(self._current, None):
            stream.close()

    async def read(self, file: InputFile, inspection: Inspection, id_origin: str, on_encoding: OnEncoding) -> AsyncGenerator[list[Outcome]]:
        stream = self._streams[file.origin]
        if inspection.fingerprint == stream.reading.known:  # it has not changed, but its records have
            stream = self._streams[file.origin] = self._begin(file)
            await stream.fetch()
        while not isinstance(part := await stream.fetch(), End):
            if isinstance(part, Encoding):
                on_encoding(part)
            elif isinstance(part, list):
                yield part
        self._stamps[file.origin] = part.stamp

    async def stamp(self, file: InputFile) -> Stamp:
        """As the worker saw it."""
        return self._stamps.pop(file.origin)

    def close(self) -> None:
        for stream in self._streams.values():
            stream.close()
        self._streams.clear()


@contextmanager
def open_files(cluster: Cluster, options: ReadOptions, bounds: Bounds) -> Iterator[ClusterFiles]:
    files = ClusterFiles(cluster, options, bounds)
    try:
        yield files
    finally:
        files.close()
