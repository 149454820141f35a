"""Files read on a Ray cluster: each by a process of a node, some ahead of the one whose records are stored.

A task that reads reserves no CPU: the actors of the embedding model may hold all of them, also after a node has died, and a task that
waited for one would wait for ever. Their number is bounded instead.

A file that kills the process which reads it, or keeps it busy for ever, costs only itself.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from outrider.cluster.session import Cluster
from outrider.cluster.tasks import CRASHES, TASKS_A_CPU, RemoteError, TaskCrashed, is_crash, is_lost, run_task
from outrider.ingest.entry import ReadOptions
from outrider.ingest.file_access import Inspection, OnEncoding, Stamp, inspect_file, read_outcomes, read_stamp
from outrider.ingest.file_changes import Fingerprints
from outrider.ingest.file_walk import InputFile
from outrider.ingest.reader_thread import Bounds, group_outcomes
from outrider.ingest.readers.select_reader import FileReader, NoReader
from outrider.ingest.record_ids import Outcome
from outrider.state.errors import UnreadableFile
from outrider.text.encoding import Encoding

GROUPS_AHEAD = 2
"""Of each file: its task waits when that many are not fetched."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A file to read, as a worker needs it."""

    path: Path
    origin: str
    id_origin: str
    reader: FileReader
    options: ReadOptions
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class End:
    """The end of a file, with its stamp then."""

    stamp: Stamp


Part = list[Outcome] | Encoding | End | RemoteError


def inspect_on_worker(path: Path, size: int, options: ReadOptions) -> Inspection | NoReader:
    """Raises `UnreadableFile` also for a file that this node does not see as the machine of the command does."""
    try:
        found = inspect_file(path, size, Fingerprints(options))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UnreadableFile(
            f"a worker on {platform.node()} sees no such file; put it on storage that all nodes of the cluster see under this path"
        ) from error
    except OSError as error:
        raise UnreadableFile(f"a worker on {platform.node()} cannot read it: {error.strerror or error}") from error
    if isinstance(found, Inspection) and found.fingerprint and found.stamp[0] != size:
        raise UnreadableFile(f"a worker on {platform.node()} sees {found.stamp[0]:,} bytes under this path, and this machine {size:,}")
    return found


def read_on_worker(reading: Reading, parts_before: int) -> Iterator[Part]:
    """The parts of a file after the first `parts_before`, which were fetched before the node of an earlier attempt died."""
    for place, part in enumerate(_read_parts(reading)):
        if place >= parts_before:
            yield part


def _read_parts(reading: Reading) -> Iterator[Part]:
    encodings: list[Encoding] = []
    options = replace(reading.options, on_encoding=encodings.append)
    try:
        outcomes = read_outcomes(reading.path, reading.origin, reading.id_origin, reading.reader, options)
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


@dataclass(slots=True)
class ClusterFiles:
    """Access to files by the workers of a cluster. Close it."""

    cluster: Cluster
    options: ReadOptions
    bounds: Bounds
    _files: list[InputFile] = field(default_factory=list)
    _id_origins: Mapping[str, str] = field(default_factory=dict)
    _known: frozenset[str] = frozenset()
    _next: int = 0
    """Place of the first file that is not looked at yet."""
    _ahead: dict[str, asyncio.Task[Inspection | NoReader]] = field(default_factory=dict)
    """Looks at files, by origin."""
    _streams: dict[str, Any] = field(default_factory=dict)
    """Files whose reading began ahead, by origin."""
    _last: str = ""
    """The file that was looked at last."""
    _stamps: dict[str, Stamp] = field(default_factory=dict)

    def expect(self, files: Sequence[InputFile], id_origins: Mapping[str, str], known: frozenset[str]) -> None:
        self._files, self._id_origins, self._known, self._next = list(files), id_origins, known, 0

    async def inspect(self, file: InputFile) -> Inspection | NoReader:
        if stream := self._streams.pop(self._last, None):
            self._cancel(stream)  # it turned out to hold what another file of the run holds
        self._last = file.origin
        self._look_ahead()
        if file.origin not in self._ahead:
            self._ahead[file.origin] = asyncio.create_task(self._look(file))
        try:
            return await self._ahead[file.origin]
        finally:
            del self._ahead[file.origin]

    def _look_ahead(self) -> None:
        window = TASKS_A_CPU * self.cluster.count_cpus()
        while self._next < len(self._files) and len(self._ahead) < window:
            file = self._files[self._next]
            self._ahead[file.origin] = asyncio.create_task(self._look(file))
            self._next += 1

    async def _look(self, file: InputFile) -> Inspection | NoReader:
        try:
            found = await run_task(self.cluster, inspect_on_worker, file.path, file.size, self.options, cpus=0, name="inspect")
        except TaskCrashed as error:
            raise UnreadableFile(f"{error} while it was looked at") from error
        if isinstance(found, Inspection) and found.fingerprint and found.fingerprint not in self._known:
            self._streams[file.origin] = self._begin(self._describe(file, found, self._id_origins.get(file.origin, "")), 0)
        return found

    def _describe(self, file: InputFile, inspection: Inspection, id_origin: str) -> Reading:
        return Reading(file.path, file.origin, id_origin, inspection.reader, self.options, self.bounds)

    def _begin(self, reading: Reading, parts_before: int) -> Any:
        task = self.cluster.ray.remote(read_on_worker).options(
            num_cpus=0,
            max_retries=0,
            num_returns="streaming",
            _generator_backpressure_num_objects=GROUPS_AHEAD,
            scheduling_strategy="SPREAD",
            name="read",
        )
        return task.remote(reading, parts_before)

    async def read(self, file: InputFile, inspection: Inspection, id_origin: str, on_encoding: OnEncoding) -> AsyncGenerator[list[Outcome]]:
        reading = self._describe(file, inspection, id_origin)
        stream = self._streams.pop(file.origin, None) or self._begin(reading, 0)
        parts = crashes = 0
        is_open = True
        try:
            while True:
                try:
                    part = await self._fetch(stream)
                except self.cluster.ray.exceptions.RayError as error:
                    if not (is_crash(self.cluster, error) or is_lost(self.cluster, error)):
                        raise
                    crashes += is_crash(self.cluster, error)
                    if crashes >= CRASHES:
                        raise UnreadableFile(
                            f"the process that reads it died {crashes} times: it is damaged, or made to be large"
                        ) from error
                    stream = self._begin(reading, parts)
                    continue
                parts += 1
                is_open = not isinstance(part, End | RemoteError)
                if isinstance(part, End):
                    self._stamps[file.origin] = part.stamp
                    return
                if isinstance(part, RemoteError):
                    raise part.make()
                if isinstance(part, Encoding):
                    on_encoding(part)
                else:
                    yield part
        finally:
            if is_open:
                self._cancel(stream)

    async def _fetch(self, stream: Any) -> Part:
        limit_s = self.cluster.settings.read_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                part: Part = await (await anext(stream))
                return part
        except TimeoutError as error:
            raise UnreadableFile(f"no record was read in {limit_s:g} s (cluster.read_timeout_s)") from error

    async def stamp(self, file: InputFile) -> Stamp:
        """As the worker saw it."""
        return self._stamps.pop(file.origin)

    async def close(self) -> None:
        for task in self._ahead.values():
            task.cancel()
        if self._ahead:
            await asyncio.wait(self._ahead.values())
        for task in self._ahead.values():
            task.cancelled() or task.exception()  # mark as retrieved
        for stream in self._streams.values():
            self._cancel(stream)
        self._streams.clear()

    def _cancel(self, stream: Any) -> None:
        with suppress(Exception):  # it may have ended
            self.cluster.ray.cancel(stream, force=True)


@asynccontextmanager
async def open_files(cluster: Cluster, options: ReadOptions, bounds: Bounds) -> AsyncIterator[ClusterFiles]:
    files = ClusterFiles(cluster, options, bounds)
    try:
        yield files
    finally:
        await files.close()
